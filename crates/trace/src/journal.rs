//! What ranks note of themselves while they run: events as rows of eight words, so that they can be noted without looking back,
//! kept in memory that others read, and put together afterwards ([`crate::joined`]).
//!
//! The first word has the event's kind in its lowest byte, which is never 0. Whoever reads rows believes nothing: what is no event is none.

use castell_base::{Rank, Tag};

/// What an operation of a graph does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends.
    Send,
    /// Receives.
    Recv,
    /// Computes for a given time.
    Calc,
    /// Calls a function of the program.
    Call,
    /// Combines numbers, or takes the time.
    Local,
    /// Writes into another rank's memory.
    Put,
    /// Reads another rank's memory.
    Get,
    /// Nothing: others wait for it that would wait for the same.
    Proxy,
}

impl Action {
    const ALL: [Action; 8] = [
        Action::Send,
        Action::Recv,
        Action::Calc,
        Action::Call,
        Action::Local,
        Action::Put,
        Action::Get,
        Action::Proxy,
    ];
}

/// An operation that is over. Times are nanoseconds on one clock for all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub action: Action,
    /// Which run of a graph it belongs to; a number of the rank's own.
    pub run: u64,
    /// Messages meet where this word is the same on both sides, besides tag and ranks.
    pub word: u32,
    /// Whether it was carried out by its caller step by step, so that it lasts as long as its message is waited for.
    pub is_step: bool,
    /// The other rank; `None`: any, or none.
    pub peer: Option<Rank>,
    /// Label of the message; `None`: any, or none.
    pub tag: Option<Tag>,
    /// Size of the message; of `Calc` the nanoseconds asked for.
    pub bytes: u64,
    /// Number of its label; 0: none.
    pub name: u32,
    /// Which one of its graph it is. A call that is cut into segments does the same operations once for each of them.
    pub id: u32,
    /// Which operations of its graph wait for its end: the first two, 0 where there is none; [`Event::Edges`] has the others.
    pub next: [u32; 2],
    /// When it was started.
    pub start_ns: u64,
    /// When it was through.
    pub end_ns: u64,
}

/// Something that a rank notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The rank has joined its group.
    Entered {
        /// When.
        at_ns: u64,
    },
    /// It has left.
    Left {
        /// When.
        at_ns: u64,
    },
    /// An operation is over.
    Operation(Operation),
    /// More operations that wait for one, which is over.
    Edges {
        /// Its run.
        run: u64,
        /// Which one of its graph it is.
        id: u32,
        /// Whether they wait for its start, not for its end.
        at_start: bool,
        /// Who waits; 0: nobody.
        next: [u32; EDGES_MAX],
    },
    /// A run is a collective call, described by these words.
    Call {
        /// The run.
        run: u64,
        /// Known to who makes calls.
        words: [u64; 6],
    },
    /// A thread of the program was inside of a call until something had happened.
    Waited {
        /// When the call began.
        start_ns: u64,
        /// When it ended.
        end_ns: u64,
        /// The end of which run that was; `None`: something else.
        run: Option<u64>,
    },
    /// A message came, or word of it.
    Arrived {
        /// Who sent it.
        source: Rank,
        /// Its label.
        tag: Tag,
        /// As in [`Operation`].
        word: u32,
        /// Counts the messages of that sender.
        sequence: u32,
        /// When.
        at_ns: u64,
    },
    /// A task's body is over.
    Task {
        /// Who ran it.
        worker: u32,
        /// Number of its label; 0: none.
        name: u32,
        /// When it began.
        start_ns: u64,
        /// When it was over.
        end_ns: u64,
        /// Which one it is, of those of its process that are there at the same time.
        id: u64,
        /// Whose end, or in whose body something, made it ready; 0: no task's.
        after: u64,
        /// When that was; 0: it is not known.
        ready_ns: u64,
    },
}

const ENTERED: u64 = 1;
const LEFT: u64 = 2;
const OPERATION: u64 = 3;
const CALL: u64 = 4;
const WAITED: u64 = 5;
const ARRIVED: u64 = 6;
const TASK: u64 = 7;
const EDGES: u64 = 8;

/// Edges that fit into a row.
pub const EDGES_MAX: usize = 12;

const HAS_PEER: u64 = 1;
const HAS_TAG: u64 = 2;
const IS_STEP: u64 = 4;

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl Event {
    /// When what it tells of began, if it says so.
    pub fn first_ns(&self) -> Option<u64> {
        match *self {
            Event::Entered { at_ns } | Event::Left { at_ns } | Event::Arrived { at_ns, .. } => Some(at_ns),
            Event::Waited { start_ns, .. } | Event::Task { start_ns, .. } => Some(start_ns),
            Event::Operation(operation) => Some(operation.start_ns),
            Event::Call { .. } | Event::Edges { .. } => None,
        }
    }

    /// When that was over, if it says so.
    pub fn last_ns(&self) -> Option<u64> {
        match *self {
            Event::Waited { end_ns, .. } | Event::Task { end_ns, .. } => Some(end_ns),
            Event::Operation(operation) => Some(operation.end_ns),
            _ => self.first_ns(),
        }
    }

    /// The same, when another clock told the time.
    pub fn with_times(self, on: impl Fn(u64) -> u64) -> Event {
        match self {
            Event::Entered { at_ns } => Event::Entered { at_ns: on(at_ns) },
            Event::Left { at_ns } => Event::Left { at_ns: on(at_ns) },
            Event::Operation(operation) => Event::Operation(Operation {
                start_ns: on(operation.start_ns),
                end_ns: on(operation.end_ns),
                ..operation
            }),
            Event::Call { .. } | Event::Edges { .. } => self,
            Event::Waited { start_ns, end_ns, run } => {
                Event::Waited { start_ns: on(start_ns), end_ns: on(end_ns), run }
            }
            Event::Arrived { source, tag, word, sequence, at_ns } => {
                Event::Arrived { source, tag, word, sequence, at_ns: on(at_ns) }
            }
            Event::Task { worker, name, start_ns, end_ns, id, after, ready_ns } => {
                let ready_ns = if ready_ns == 0 { 0 } else { on(ready_ns) };
                Event::Task { worker, name, start_ns: on(start_ns), end_ns: on(end_ns), id, after, ready_ns }
            }
        }
    }

    /// As a row.
    #[inline]
    pub fn to_row(self) -> [u64; 8] {
        match self {
            Event::Entered { at_ns } => [ENTERED, at_ns, 0, 0, 0, 0, 0, 0],
            Event::Left { at_ns } => [LEFT, at_ns, 0, 0, 0, 0, 0, 0],
            Event::Operation(operation) => operation.to_row(),
            Event::Call { run, words: [a, b, c, d, e, f] } => [CALL, run, a, b, c, d, e, f],
            Event::Waited { start_ns, end_ns, run } => {
                [WAITED, start_ns, end_ns, run.unwrap_or(0), run.is_some().into(), 0, 0, 0]
            }
            Event::Arrived { source, tag, word, sequence, at_ns } => {
                [ARRIVED, pair(source.0, tag.0), pair(word, sequence), at_ns, 0, 0, 0, 0]
            }
            Event::Task { worker, name, start_ns, end_ns, id, after, ready_ns } => {
                [TASK, pair(worker, name), start_ns, end_ns, id, after, ready_ns, 0]
            }
            Event::Edges { run, id, at_start, next } => {
                let [a, b, c, d, e, f] = std::array::from_fn(|at| pair(next[2 * at], next[2 * at + 1]));
                [EDGES | u64::from(at_start) << 8 | u64::from(id) << 32, run, a, b, c, d, e, f]
            }
        }
    }

    /// What a row says; `None`: it is no event.
    pub fn of_row(row: [u64; 8]) -> Option<Event> {
        let [kind, a, b, c, d, e, f, g] = row;
        Some(match kind & 0xff {
            ENTERED => Event::Entered { at_ns: a },
            LEFT => Event::Left { at_ns: a },
            OPERATION => Event::Operation(Operation::of_row(row)?),
            CALL => Event::Call { run: a, words: [b, c, d, e, f, g] },
            WAITED => Event::Waited { start_ns: a, end_ns: b.max(a), run: (d & 1 != 0).then_some(c) },
            ARRIVED => Event::Arrived {
                source: Rank(low(a)),
                tag: Tag(high(a)),
                word: low(b),
                sequence: high(b),
                at_ns: c,
            },
            TASK => Event::Task {
                worker: low(a),
                name: high(a),
                start_ns: b,
                end_ns: c.max(b),
                id: d,
                after: e,
                ready_ns: f.min(b),
            },
            EDGES => Event::Edges {
                run: a,
                id: high(kind),
                at_start: kind >> 8 & 1 != 0,
                next: std::array::from_fn(|at| [low, high][at % 2]([b, c, d, e, f, g][at / 2])),
            },
            _ => return None,
        })
    }
}

impl Operation {
    #[inline]
    fn to_row(self) -> [u64; 8] {
        let mut flags = 0;
        for (is_set, flag) in
            [(self.peer.is_some(), HAS_PEER), (self.tag.is_some(), HAS_TAG), (self.is_step, IS_STEP)]
        {
            flags |= if is_set { flag } else { 0 };
        }
        let peer = self.peer.map_or(0, |peer| peer.0);
        [
            OPERATION | (self.action as u64) << 8 | flags << 16 | u64::from(peer) << 32,
            self.run,
            pair(self.tag.map_or(0, |tag| tag.0), self.word),
            self.bytes,
            pair(self.name, self.id),
            self.start_ns,
            self.end_ns,
            pair(self.next[0], self.next[1]),
        ]
    }

    fn of_row(row: [u64; 8]) -> Option<Operation> {
        let [kind, run, label, bytes, name, start_ns, end_ns, next] = row;
        let flags = kind >> 16;
        Some(Operation {
            action: *Action::ALL.get((kind >> 8 & 0xff) as usize)?,
            run,
            word: high(label),
            is_step: flags & IS_STEP != 0,
            peer: (flags & HAS_PEER != 0).then_some(Rank(high(kind))),
            tag: (flags & HAS_TAG != 0).then_some(Tag(low(label))),
            bytes,
            name: low(name),
            id: high(name),
            next: [low(next), high(next)],
            start_ns,
            end_ns: end_ns.max(start_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn operations() -> impl Strategy<Value = Operation> {
        let numbers = (any::<u64>(), any::<u64>(), 0..u64::MAX / 2, 0..u64::MAX / 2);
        (0..8_usize, any::<(u32, bool, Option<u32>, Option<u32>, u32, u32, [u32; 2])>(), numbers).prop_map(
            |(action, (word, is_step, peer, tag, name, id, next), (run, bytes, start_ns, long_ns))| {
                Operation {
                    action: Action::ALL[action],
                    run,
                    word,
                    is_step,
                    peer: peer.map(Rank),
                    tag: tag.map(Tag),
                    bytes,
                    name,
                    id,
                    next,
                    start_ns,
                    end_ns: start_ns + long_ns,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn operations_come_back(operation in operations()) {
            let event = Event::Operation(operation);
            prop_assert_eq!(Event::of_row(event.to_row()), Some(event));
        }

        #[test]
        fn whatever_a_row_holds_is_read(row in any::<[u64; 8]>(), kind in 0..10_u64) {
            let row = [row[0] & !0xff | kind, row[1], row[2], row[3], row[4], row[5], row[6], row[7]];
            if let Some(Event::Operation(operation)) = Event::of_row(row) {
                prop_assert!(operation.start_ns <= operation.end_ns);
            }
        }
    }

    #[test]
    fn other_events_come_back() {
        for event in [
            Event::Entered { at_ns: 5 },
            Event::Left { at_ns: 6 },
            Event::Call { run: 7, words: [1, 2, 3, 4, 5, 6] },
            Event::Waited { start_ns: 8, end_ns: 9, run: None },
            Event::Waited { start_ns: 8, end_ns: 9, run: Some(0) },
            Event::Edges { run: 1, id: 2, at_start: true, next: std::array::from_fn(|at| at as u32) },
            Event::Arrived { source: Rank(1), tag: Tag(2), word: 3, sequence: 4, at_ns: 5 },
            Event::Task { worker: 1, name: 2, start_ns: 3, end_ns: 4, id: 5, after: 6, ready_ns: 2 },
        ] {
            assert_eq!(Event::of_row(event.to_row()), Some(event));
        }
        assert_eq!(Event::of_row([0; 8]), None);
    }
}
