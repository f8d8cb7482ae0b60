//! A small collective's schedule as a compiled program: one rank's operations in the order of its program, each message bound to
//! its place.
//!
//! Made once, from the graph that the schedule was compiled from; [`crate::Process`] runs it in the thread that calls.

use super::bounce::Bounce;
use super::certificate::{Certificate, Certified, Size, messages};
use super::fused::{self, Row};
use super::line::Line;
use super::{Cycle, PLACES, SlotSet};
use crate::board::Record;
use castell_base::Rank;
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Arithmetic, Buffer, Memory, Op, Place};
use castell_goal::schedule::{OpId, Schedule};
use castell_shm::job::Job;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Programs with more messages do not prepare the places of the next call's.
const PREPARED_MAX: u64 = 4;

/// A message's place in each generation: the first one, how far its line is from the next one in bytes, and which ones it takes.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    first: Line,
    stride: u32,
    cycle: Cycle,
}

impl Route {
    #[inline(always)]
    pub(crate) fn of(&self, turn: u64) -> Line {
        self.first.behind(self.cycle.generation(turn), self.stride as usize)
    }
}

/// Where an operand of a step with large messages lies.
#[derive(Clone, Copy)]
pub(crate) enum Operand {
    /// Here, in each segment.
    Fixed(*mut u8),
    /// Here in the first segment, and as far behind in the others as they are themselves.
    Moving(*mut u8),
    /// With the sender of one of the messages that are lent, so many bytes behind its start.
    Lent { message: usize, offset: usize },
}

/// One operation.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Send {
        route: Route,
        from: *const u8,
        bytes: usize,
        /// The receiver is known to have entered the call.
        knows: bool,
    },
    /// A message for several receivers, written once.
    Multicast {
        route: Route,
        from: *const u8,
        bytes: usize,
        /// All ranks are known to have entered the call.
        knows: bool,
    },
    Recv {
        route: Route,
        to: *mut u8,
        bytes: usize,
    },
    /// Empty messages, see [`Program::row`].
    Await {
        first: usize,
        count: usize,
    },
    /// The operands of the row, messages among them, reduced in their order.
    Fold {
        first: usize,
        count: usize,
        arithmetic: Arithmetic,
        into: *mut u8,
        bytes: usize,
    },
    /// Addresses of both operands and of the result.
    Local {
        arithmetic: Arithmetic,
        places: [*mut u8; 3],
        bytes: u64,
    },
    Call {
        function: u64,
        context: u64,
    },
    /// A large message: copied into this rank's bounce buffer, if it is not there already, then its place there is told.
    CopyIn {
        route: Route,
        from: Operand,
        /// In either bounce buffer; `None`: it is there.
        copy: Option<[*mut u8; 2]>,
        offset: u64,
        bytes: usize,
        /// All ranks are known to have entered the call.
        knows: bool,
    },
    /// A large message from the sender's bounce buffer.
    CopyOut {
        route: Route,
        bounces: [*mut u8; 2],
        to: Taken,
        bytes: usize,
    },
    /// As `Local`.
    Apply {
        arithmetic: Arithmetic,
        operands: [Operand; 3],
        bytes: u64,
    },
    /// A large message that stays in this rank's buffer: its address is told.
    Expose {
        route: Route,
        from: *const u8,
        /// The receiver is known to have entered the call.
        knows: bool,
    },
    /// A large message from the sender's buffer.
    Get {
        route: Route,
        to: Taken,
        bytes: usize,
    },
    /// As `Apply`, operands that are lent being in other processes.
    Combine {
        arithmetic: Arithmetic,
        operands: [Operand; 3],
        bytes: u64,
    },
}

/// One of the operands of a step that has many.
#[derive(Clone, Copy)]
pub(crate) enum Piece {
    Here(*mut u8),
    /// A message, which is read where it lies.
    Received(Route),
}

/// What becomes of a large message.
#[derive(Clone, Copy)]
pub(crate) enum Taken {
    /// It is copied.
    Copied(Operand),
    /// It stays where it is, and other steps look at it there.
    Lent(usize),
}

/// What a step is called in errors.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub(crate) op: OpId,
    /// Of messages: whom they go to or come from.
    pub(crate) peer: Rank,
}

/// A rank's compiled program.
pub struct Program {
    pub(crate) steps: Box<[Step]>,
    /// What the steps are called, and behind them all pieces.
    pub(crate) names: Box<[Name]>,
    /// The operands of the steps that have many.
    pieces: Box<[Piece]>,
    /// Operations that are made with others in one step, and which one.
    pub(crate) merged: Box<[(usize, OpId)]>,
    /// The graph's schedule, which describes operations in errors.
    pub schedule: Arc<Schedule>,
    pub(crate) peers: Peers,
    /// Somebody may wait in a later call until this rank has passed this one.
    pub(crate) is_awaited: bool,
    /// First it sends to all, and then it only waits: nobody needs it any more.
    pub(crate) is_one_round: bool,
    /// Whether it has heard of all of them in the end.
    pub(crate) hears_all: bool,
    /// Which generations of places it takes.
    pub(crate) cycle: Cycle,
    pub(crate) traffic: Traffic,
    /// What it gives may stay where it is, if others can read it there: nothing is written over it before they have.
    pub may_stay: bool,
    loans: Box<[Loan]>,
    _scratchpad: Box<[u64]>,
}

/// The ranks that a program has to do with.
pub(crate) struct Peers {
    /// Those of the communicator.
    pub(crate) members: Arc<[Rank]>,
    /// To whom it sends, and by which step.
    pub(crate) sends: Box<[(usize, Rank)]>,
    /// Who may wait for something that this rank does: those to whom it sends, or all if it is awaited.
    pub(crate) rung: Box<[Rank]>,
    /// To whom this rank shows its buffers, or may do so, and by which step.
    pub(crate) readers: Box<[(usize, Rank)]>,
}

/// What a program sends.
pub(crate) struct Traffic {
    /// Messages.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// What its large messages take in the rank's bounce buffer. Bytes.
    pub(crate) bounce_bytes: usize,
    /// Where its messages go whose places are prepared for the next call.
    pub(crate) prepared: Box<[Route]>,
}

/// A message that stays where it is while steps look at it there.
struct Loan {
    /// Whose it is.
    lender: Rank,
    /// Where it lies in this turn.
    at: AtomicPtr<u8>,
}

// SAFETY: the pointers are of memory that whoever runs the program answers for, and one call at a time runs it.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

/// A call's compiled programs: one for each segment of its vectors. All segments have the same but for the last, which may be shorter.
pub struct Segments {
    /// That of the first segment, and of all others but the last.
    pub first: Program,
    /// That of the last segment, where it is shorter.
    pub last: Option<Program>,
    /// How many there are, the last one among them.
    pub count: u64,
    /// From one segment to the next. Bytes.
    pub stride: usize,
    /// The whole call, without segments, with messages that lie in their senders' buffers: for large calls of ranks that may read
    /// each other's memory.
    pub zero_copy: Option<ZeroCopy>,
}

/// A call that ranks may make with messages that lie in their senders' buffers.
pub struct ZeroCopy {
    /// What they do.
    pub program: Program,
    /// As long as a copy by the kernel takes no longer than so many by the processor alone.
    pub dearness_max: u32,
}

impl Segments {
    /// A call in one piece.
    pub fn whole(program: Program) -> Segments {
        Segments { first: program, last: None, count: 1, stride: 0, zero_copy: None }
    }

    /// The compiled program of a segment.
    #[inline(always)]
    pub(crate) fn program(&self, segment: u64) -> &Program {
        match &self.last {
            Some(last) if segment + 1 == self.count => last,
            _ => &self.first,
        }
    }
}

/// Where a program's slots lie.
#[derive(Clone, Copy)]
pub struct Seat<'a> {
    /// The job.
    pub job: &'a Job,
    /// Which of the communicator's slots they are.
    pub set: SlotSet,
    /// This process's rank in the job.
    pub me: Rank,
    /// The rank in the job of each rank of the communicator.
    pub members: &'a Arc<[Rank]>,
}

/// Makes steps of a graph's operations.
struct Maker<'a> {
    seat: &'a Seat<'a>,
    /// Of programs with large messages.
    bounce: Option<Bounce>,
    is_zero_copy: bool,
    cycle: Cycle,
    scratch: *mut u8,
}

/// Ranks, each with the step that is for it.
type Served = Vec<(usize, Rank)>;

/// What has been made.
#[derive(Default)]
struct Made {
    steps: Vec<Step>,
    names: Vec<Name>,
    pieces: Vec<Piece>,
    piece_names: Vec<Name>,
    merged: Vec<(usize, OpId)>,
}

impl Program {
    /// The compiled program of a graph that was compiled to `schedule`, whose vertices are found there under `ids`.
    ///
    /// # Panics
    /// The graph is not that of the certified collective.
    pub fn new(
        graph: &Graph,
        (schedule, ids): (Arc<Schedule>, &[OpId]),
        (certificate, size, may_stay): (&Certificate, Size, bool),
        record: &Record,
        seat: &Seat<'_>,
    ) -> Program {
        let members = Arc::clone(seat.members);
        let rank_of = |rank: Rank| members.iter().position(|member| *member == rank).map(|at| at as u32);
        let found = messages(graph, record.first_tag().0, rank_of, size);
        let certified = certificate.messages.iter().map(|of| of.message);
        assert!(found.is_some_and(|found| found.into_iter().eq(certified)), "this is what was certified");
        let mut scratchpad = vec![0u64; graph.scratchpad_bytes().div_ceil(8) as usize].into_boxed_slice();
        let bounce = match size {
            Size::Small => None,
            Size::Large => Some(Bounce::of(graph).expect("it was certified that it fits")),
            Size::ZeroCopy => Some(Bounce::endless(graph).expect("it was certified")),
        };
        let lent = bounce.as_ref().map_or(0, Bounce::lent_count);
        let bounce_bytes = bounce.as_ref().filter(|_| size == Size::Large).map_or(0, Bounce::bytes);
        let is_zero_copy = size == Size::ZeroCopy;
        let cycle = certificate.cycle;
        let maker = Maker { seat, bounce, is_zero_copy, cycle, scratch: scratchpad.as_mut_ptr().cast() };
        let mut lenders = vec![seat.me; lent];
        let (made, sends, readers) = maker.steps(graph, ids, (certificate, size), &mut lenders);
        let sent = certificate.messages.iter().filter(|of| of.message.is_send);
        let bytes = sent.clone().map(|of| of.message.bytes).sum();
        let messages = sent.count() as u64;
        let is_one_round = size == Size::Small && certificate.is_one_round(members.len());
        let mut rung: Vec<Rank> = sends.iter().map(|(_, to)| *to).collect();
        // Who lets others read its buffers waits for them.
        let is_awaited = certificate.is_awaited || may_stay;
        if is_awaited {
            rung = members.iter().copied().filter(|member| *member != seat.me).collect();
        }
        rung.sort_unstable();
        rung.dedup();
        let routes = made.steps.iter().filter_map(|step| match step {
            Step::Send { route, .. } | Step::Multicast { route, .. } if messages <= PREPARED_MAX => {
                Some(*route)
            }
            _ => None,
        });
        let traffic = Traffic { messages, bytes, bounce_bytes, prepared: routes.collect() };
        let peers = Peers { members, sends: sends.into(), rung: rung.into(), readers: readers.into() };
        let loan = |lender| Loan { lender, at: AtomicPtr::new(null_mut()) };
        Program {
            steps: made.steps.into(),
            names: made.names.into_iter().chain(made.piece_names).collect(),
            pieces: made.pieces.into(),
            merged: made.merged.into(),
            schedule,
            peers,
            is_awaited,
            is_one_round,
            hears_all: certificate.hears_all,
            cycle,
            traffic,
            may_stay,
            loans: lenders.into_iter().map(loan).collect(),
            _scratchpad: scratchpad,
        }
    }

    /// The operands of a step that has many, and the number of the first one's name.
    #[inline(always)]
    pub(crate) fn row(&self, first: usize, count: usize) -> (&[Piece], usize) {
        (&self.pieces[first..first + count], self.steps.len() + first)
    }

    /// A message that is lent lies there in this turn.
    #[inline(always)]
    pub(crate) fn lend(&self, message: usize, at: *mut u8) {
        self.loans[message].at.store(at, Ordering::Relaxed);
    }

    /// Whose a message is that is lent.
    pub(crate) fn lender(&self, message: usize) -> Rank {
        self.loans[message].lender
    }

    /// Where an operand lies in a segment that is so many bytes behind the first one.
    #[inline(always)]
    pub(crate) fn find(&self, operand: Operand, behind: usize) -> *mut u8 {
        match operand {
            Operand::Fixed(at) => at,
            Operand::Moving(at) => at.wrapping_add(behind),
            Operand::Lent { message, offset } => {
                self.loans[message].at.load(Ordering::Relaxed).wrapping_add(offset)
            }
        }
    }
}

fn place(buffer: Buffer<'_>) -> Place {
    match buffer {
        Buffer::Plain(place) => place,
        Buffer::Vector(..) => unreachable!("collectives have contiguous buffers"),
    }
}

impl Maker<'_> {
    fn address(&self, buffer: Buffer<'_>) -> *mut u8 {
        match place(buffer) {
            Place { memory: Memory::Void, .. } => self.scratch,
            Place { memory: Memory::User, offset } => offset as *mut u8,
            Place { memory: Memory::Scratch, offset } => self.scratch.wrapping_add(offset as usize),
        }
    }

    fn operand(&self, bounce: &Bounce, buffer: Buffer<'_>) -> Operand {
        let place = place(buffer);
        match bounce.lent_at(place) {
            Some(lent) => Operand::Lent { message: lent.message, offset: lent.offset as usize },
            None if place.memory == Memory::User => Operand::Moving(self.address(buffer)),
            None => Operand::Fixed(self.address(buffer)),
        }
    }

    fn route(&self, Certified { message, multicast, .. }: &Certified) -> Route {
        let peer = self.seat.members[message.peer as usize];
        let (receiver, sender) = if message.is_send { (peer, self.seat.me) } else { (self.seat.me, peer) };
        match multicast {
            // Nobody sends to itself: there a rank's multicasts lie.
            Some(multicast) => self.seat.route(sender, sender, multicast.index, self.cycle),
            None => self.seat.route(receiver, sender, message.place, self.cycle),
        }
    }

    /// The steps of the program, to whom they send, and to whom they show its buffers.
    fn steps(
        &self,
        graph: &Graph,
        ids: &[OpId],
        (certificate, size): (&Certificate, Size),
        lenders: &mut [Rank],
    ) -> (Made, Served, Served) {
        let (seat, members) = (self.seat, self.seat.members);
        let (mut made, mut readers) = (Made::default(), Vec::new());
        let (mut sends, mut posted) = (Vec::new(), [0; PLACES]);
        let mut certified = certificate.messages.iter();
        let vertices: Vec<Vertex> = graph.vertices().collect();
        // What small messages are only read.
        let read = Bounce::endless(graph).filter(|_| size == Size::Small);
        let mut at = 0;
        while let Some(vertex) = vertices.get(at) {
            if let Some(row) = read.as_ref().and_then(|bounce| fused::row(graph, bounce, &vertices[at..])) {
                let ids = vertices[at..][..row.len()].iter().map(|vertex| ids[vertex.index()]);
                at += row.len();
                self.row(&mut made, &row, &mut certified, ids);
                continue;
            }
            at += 1;
            let (op, id) = (graph.op(*vertex), ids[vertex.index()]);
            let message = match op {
                Op::Send { .. } | Op::Recv { .. } => certified.next(),
                _ => None,
            };
            let peer = message.map_or(seat.me, |of| members[of.message.peer as usize]);
            if matches!(op, Op::Send { .. }) {
                let step = match message.and_then(|of| of.multicast) {
                    Some(multicast) if !multicast.is_first => posted[multicast.index as usize],
                    Some(multicast) => {
                        posted[multicast.index as usize] = made.steps.len();
                        made.steps.len()
                    }
                    None => made.steps.len(),
                };
                sends.push((step, peer));
                if step < made.steps.len() {
                    // It is written there.
                    made.merged.push((step, id));
                    continue;
                }
            }
            let large = message.is_some_and(|of| of.message.bytes > 0) || matches!(op, Op::Local { .. });
            let step = match (&self.bounce, message) {
                (Some(bounce), _) if large => Some(self.large(bounce, graph, *vertex, message)),
                _ => self.small(op, message),
            };
            let Some(step) = step else { continue };
            match step {
                Step::Expose { .. } | Step::CopyIn { .. } => readers.push((made.steps.len(), peer)),
                Step::Get { to: Taken::Lent(message), .. }
                | Step::CopyOut { to: Taken::Lent(message), .. } => {
                    lenders[message] = peer;
                }
                _ => {}
            }
            made.steps.push(step);
            made.names.push(Name { op: id, peer });
        }
        (made, sends, readers)
    }

    /// A step of several operations.
    fn row<'c>(
        &self,
        made: &mut Made,
        row: &Row<'_>,
        certified: &mut impl Iterator<Item = &'c Certified>,
        mut ids: impl Iterator<Item = OpId>,
    ) {
        let (first, at, me) = (made.pieces.len(), made.steps.len(), self.seat.me);
        let mut message = || {
            let (found, op) =
                (certified.next().expect("as many messages"), ids.next().expect("an operation"));
            made.merged.push((at, op));
            let peer = self.seat.members[found.message.peer as usize];
            (Piece::Received(self.route(found)), Name { op, peer })
        };
        let step = match row {
            Row::Heard { messages } => {
                let heard = (0..*messages).map(|_| message());
                let (pieces, names): (Vec<_>, Vec<_>) = heard.unzip();
                made.pieces.extend(pieces);
                made.piece_names.extend(names);
                Step::Await { first, count: *messages }
            }
            Row::Reduced { messages, operands, into, arithmetic, count } => {
                let received: Vec<_> = (0..*messages).map(|_| message()).collect();
                made.merged.extend(ids.map(|op| (at, op)));
                for operand in operands {
                    let (piece, name) = match operand {
                        fused::Operand::Received(of) => received[*of],
                        fused::Operand::Here(buffer) => (
                            Piece::Here(self.address(*buffer)),
                            Name { op: made.merged[made.merged.len() - 1].1, peer: me },
                        ),
                    };
                    made.pieces.push(piece);
                    made.piece_names.push(name);
                }
                let bytes = (count * arithmetic.element().bytes()) as usize;
                let into = self.address(*into);
                Step::Fold { first, count: operands.len(), arithmetic: *arithmetic, into, bytes }
            }
        };
        // The last operation is the step's own.
        let (_, op) = made.merged.pop().expect("more than one operation");
        made.steps.push(step);
        made.names.push(Name { op, peer: me });
    }

    fn small(&self, op: Op<'_>, message: Option<&Certified>) -> Option<Step> {
        let message = || message.expect("as many messages");
        Some(match op {
            Op::Send { buffer, bytes, .. } => {
                let certified = message();
                // Who has entered a started call need not have passed those before it.
                let knows = certified.knows && !self.seat.set.is_started();
                let route = self.route(certified);
                let (from, bytes) = (self.address(buffer).cast_const(), bytes as usize);
                match certified.multicast {
                    Some(_) => Step::Multicast { route, from, bytes, knows },
                    None => Step::Send { route, from, bytes, knows },
                }
            }
            Op::Recv { buffer, bytes, .. } => {
                let (route, to) = (self.route(message()), self.address(buffer));
                Step::Recv { route, to, bytes: bytes as usize }
            }
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let places = [b1, b2, b3].map(|buffer| self.address(buffer));
                Step::Local { arithmetic, places, bytes: count * arithmetic.element().bytes() }
            }
            Op::Call { function, context } => Step::Call { function, context },
            _ => return None,
        })
    }

    fn large(&self, bounce: &Bounce, graph: &Graph, vertex: Vertex, message: Option<&Certified>) -> Step {
        let message = || message.expect("as many messages");
        let bounces =
            |owner| [0, 1].map(|bounce| self.seat.job.bounce(self.seat.set.context(), owner, bounce));
        match graph.op(vertex) {
            Op::Send { buffer, .. } if self.is_zero_copy => {
                let certified = message();
                let (route, from) = (self.route(certified), self.address(buffer));
                Step::Expose { route, from, knows: certified.knows }
            }
            Op::Send { buffer, bytes, .. } => {
                let certified = message();
                let given = bounce.given(vertex).expect("it sends bytes");
                let here = || bounces(self.seat.me).map(|bounce| bounce.wrapping_add(given.offset as usize));
                Step::CopyIn {
                    route: self.route(certified),
                    from: self.operand(bounce, buffer),
                    copy: (!given.is_there).then(here),
                    offset: given.offset,
                    bytes: bytes as usize,
                    knows: certified.knows,
                }
            }
            Op::Recv { buffer, bytes, .. } => {
                let certified = message();
                let to = match bounce.lent_by(vertex) {
                    Some(lent) => Taken::Lent(lent),
                    None => Taken::Copied(self.operand(bounce, buffer)),
                };
                if self.is_zero_copy {
                    return Step::Get { route: self.route(certified), to, bytes: bytes as usize };
                }
                let sender = self.seat.members[certified.message.peer as usize];
                Step::CopyOut {
                    route: self.route(certified),
                    bounces: bounces(sender),
                    to,
                    bytes: bytes as usize,
                }
            }
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let operands = [b1, b2, b3].map(|buffer| self.operand(bounce, buffer));
                let bytes = count * arithmetic.element().bytes();
                if self.is_zero_copy {
                    Step::Combine { arithmetic, operands, bytes }
                } else {
                    Step::Apply { arithmetic, operands, bytes }
                }
            }
            _ => unreachable!("messages and local operations only"),
        }
    }
}

impl Seat<'_> {
    fn route(&self, receiver: Rank, sender: Rank, place: u32, cycle: Cycle) -> Route {
        let (first, stride) = self.job.slot(self.set, receiver, sender, place as usize);
        Route { first, stride: stride as u32, cycle }
    }
}
