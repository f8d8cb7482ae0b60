//! What runs need for each operation that joins or receives: one small number; and queues for channels.

use super::flat::{Flat, JOINS, Kind, NONE};

/// Dependencies that are left, and how far a receive is: one word of a width that the program's in-degrees need.
pub(super) trait Slot: Copy + Send {
    /// In-degrees are less than this.
    const LIMIT: u32;

    fn of(dependencies: u32) -> Self;

    /// A dependency is met; true: it was the last one.
    fn meet(&mut self) -> bool;

    /// The receive is posted; true: its message is there already.
    fn post(&mut self) -> bool;

    /// The message has arrived; whether the receive was posted. `None`: it has had a message before.
    fn arrive(&mut self) -> Option<bool>;

    /// The receive has had its message.
    fn is_received(self) -> bool;
}

macro_rules! slot {
    ($word:ty) => {
        impl Slot for $word {
            const LIMIT: u32 = State::<$word>::RECEIVED as u32;

            #[inline(always)]
            fn of(dependencies: u32) -> $word {
                dependencies as $word
            }

            #[inline(always)]
            fn meet(&mut self) -> bool {
                *self -= 1;
                *self & !State::<$word>::ARRIVED == 0
            }

            #[inline(always)]
            fn post(&mut self) -> bool {
                let arrived = *self & State::<$word>::ARRIVED != 0;
                *self = if arrived { State::<$word>::RECEIVED } else { State::<$word>::POSTED };
                arrived
            }

            #[inline(always)]
            fn arrive(&mut self) -> Option<bool> {
                match *self {
                    State::<$word>::POSTED => {
                        *self = State::<$word>::RECEIVED;
                        Some(true)
                    }
                    state if state < State::<$word>::RECEIVED => {
                        *self |= State::<$word>::ARRIVED;
                        Some(false)
                    }
                    _ => None,
                }
            }

            fn is_received(self) -> bool {
                self == State::<$word>::RECEIVED
            }
        }

        impl State<$word> {
            /// The message has come before the receive was posted.
            const ARRIVED: $word = 1 << (<$word>::BITS - 1);
            /// The receive waits for its message.
            const POSTED: $word = Self::ARRIVED - 1;
            /// The receive is done.
            const RECEIVED: $word = Self::ARRIVED - 2;
        }
    };
}

/// States of a receive above the numbers of dependencies.
struct State<W>(std::marker::PhantomData<W>);

slot!(u8);
slot!(u32);

/// The state before a run, of all ranks.
pub(super) fn initial<S: Slot>(flat: &Flat) -> Vec<S> {
    let mut slots = vec![S::of(0); flat.slots];
    for shape in &flat.shapes {
        let ops = &flat.ops[shape.first_op as usize..][..shape.ops as usize];
        let mut in_degrees = vec![0; ops.len()];
        let (begin, end) = shape.successors(flat);
        for entry in &flat.successors[begin..end] {
            in_degrees[(entry & super::flat::TARGET) as usize] += 1;
        }
        for (op, &in_degree) in ops.iter().zip(&in_degrees) {
            if op.flags & JOINS != 0 {
                let first = shape.first_slot + op.slot as usize * shape.ranks as usize;
                slots[first..first + shape.ranks as usize].fill(S::of(in_degree));
            }
        }
    }
    slots
}

/// Whether all receives that match one send have had their messages.
pub(super) fn received<S: Slot>(flat: &Flat, slots: &[S]) -> bool {
    flat.shapes.iter().filter(|shape| !shape.wild).all(|shape| {
        let ops = &flat.ops[shape.first_op as usize..][..shape.ops as usize];
        let single = ops.iter().filter(|op| op.kind == Kind::Receive && op.partner == NONE);
        let ranks = shape.ranks as usize;
        single.into_iter().all(|op| {
            let first = shape.first_slot + op.slot as usize * ranks;
            slots[first..first + ranks].iter().all(|slot| slot.is_received())
        })
    })
}

/// Several receives with the same source and tag, in the ranks that have such: whichever side comes first waits in
/// line for the other.
pub(super) struct Channels {
    lines: Vec<Line>,
    nodes: Vec<Node>,
    free: u32,
}

#[derive(Clone, Copy)]
struct Line {
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy)]
struct Node {
    value: u32,
    next: u32,
}

/// In a line's tail: receives wait, not messages.
const RECEIVES: u32 = 1 << 31;

impl Channels {
    pub fn new(count: usize) -> Channels {
        Channels { lines: vec![Line { head: NONE, tail: 0 }; count], nodes: Vec::new(), free: NONE }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.head == NONE)
    }

    /// A receive is posted; the send of the message that it takes, if one waits.
    #[inline(always)]
    pub fn post(&mut self, channel: usize, receive: u32) -> Option<u32> {
        self.meet(channel, receive, RECEIVES)
    }

    /// A message arrives; the receive that takes it, if one waits.
    #[inline(always)]
    pub fn arrive(&mut self, channel: usize, send: u32) -> Option<u32> {
        self.meet(channel, send, 0)
    }

    #[inline(always)]
    fn meet(&mut self, channel: usize, value: u32, side: u32) -> Option<u32> {
        let line = self.lines[channel];
        if line.head == NONE || line.tail & RECEIVES == side {
            self.wait(channel, value, side);
            return None;
        }
        let node = self.nodes[line.head as usize];
        self.nodes[line.head as usize].next = self.free;
        self.free = line.head;
        self.lines[channel].head = node.next;
        Some(node.value)
    }

    fn wait(&mut self, channel: usize, value: u32, side: u32) {
        let node = match self.free {
            NONE => {
                self.nodes.push(Node { value, next: NONE });
                self.nodes.len() as u32 - 1
            }
            node => {
                self.free = self.nodes[node as usize].next;
                self.nodes[node as usize] = Node { value, next: NONE };
                node
            }
        };
        let line = &mut self.lines[channel];
        if line.head == NONE {
            line.head = node;
        } else {
            self.nodes[(line.tail & !RECEIVES) as usize].next = node;
        }
        self.lines[channel].tail = node | side;
    }
}
