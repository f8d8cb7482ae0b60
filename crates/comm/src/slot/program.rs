//! A small collective's schedule as a straight line: one rank's operations in the order of its program, each message bound to
//! its place.
//!
//! Made once, from the graph that the schedule was compiled from; [`crate::engine`] runs it in the thread that calls.

use super::certificate::{Certificate, messages};
use super::line::Line;
use crate::collective::board::Record;
use crate::job::Job;
use castell_base::Rank;
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, Buffer, Memory, Op, Place};
use castell_goal::schedule::OpId;
use std::sync::Arc;

/// A message's place in either generation.
#[derive(Clone, Copy)]
pub(crate) struct Route([Line; 2]);

impl Route {
    #[inline(always)]
    pub(crate) fn of(&self, number: u64) -> Line {
        self.0[(number & 1) as usize]
    }
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
    Recv {
        route: Route,
        to: *mut u8,
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
}

/// What a step is called in errors.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub(crate) op: OpId,
    /// Of messages: whom they go to or come from.
    pub(crate) peer: Rank,
}

/// A rank's straight line.
pub(crate) struct Program {
    pub(crate) steps: Box<[Step]>,
    pub(crate) names: Box<[Name]>,
    /// Those to whom it sends.
    pub(crate) destinations: Box<[Rank]>,
    /// The ranks of the communicator.
    pub(crate) members: Arc<[Rank]>,
    /// Whether it has heard of all of them in the end.
    pub(crate) hears_all: bool,
    /// Messages that are sent, and their bytes.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    _scratchpad: Box<[u64]>,
}

/// Where a program's slots lie.
pub(crate) struct Seat<'a> {
    pub(crate) job: &'a Job,
    pub(crate) context: u32,
    /// This process's rank in the job.
    pub(crate) me: Rank,
    pub(crate) members: &'a Arc<[Rank]>,
}

impl Program {
    /// The straight line of a graph whose vertices are found in the schedule under `ids`.
    ///
    /// # Panics
    /// The graph is not that of the certified collective.
    pub(crate) fn new(
        graph: &Graph,
        ids: &[OpId],
        certificate: &Certificate,
        record: &Record,
        seat: &Seat<'_>,
    ) -> Program {
        let members = Arc::clone(seat.members);
        let rank_of = |rank: Rank| members.iter().position(|member| *member == rank).map(|at| at as u32);
        let found = messages(graph, record.first_tag().0, rank_of);
        let certified = certificate.messages.iter().map(|(message, _)| *message);
        assert!(found.is_some_and(|found| found.into_iter().eq(certified)), "this is what was certified");
        let mut scratchpad = vec![0u64; graph.scratchpad_bytes().div_ceil(8) as usize].into_boxed_slice();
        let scratch = scratchpad.as_mut_ptr().cast::<u8>();
        let address = |place: Place| match place.memory {
            Memory::Void => scratch,
            Memory::User => place.offset as *mut u8,
            Memory::Scratch => scratch.wrapping_add(place.offset as usize),
        };
        let plain = |buffer: Buffer<'_>| match buffer {
            Buffer::Plain(place) => address(place),
            Buffer::Vector(..) => unreachable!("collectives have contiguous buffers"),
        };
        let mut certified = certificate.messages.iter();
        let (mut steps, mut names) = (Vec::new(), Vec::new());
        let mut destinations = Vec::new();
        for vertex in graph.vertices() {
            let (step, peer) = match graph.op(vertex) {
                Op::Send { buffer, bytes, dest, .. } => {
                    let (message, knows) = certified.next().expect("as many messages");
                    let route = seat.route(dest, seat.me, message.place);
                    destinations.push(dest);
                    let (from, bytes) = (plain(buffer).cast_const(), bytes as usize);
                    (Step::Send { route, from, bytes, knows: *knows }, dest)
                }
                Op::Recv { buffer, bytes, .. } => {
                    let (message, _) = certified.next().expect("as many messages");
                    let source = members[message.peer as usize];
                    let route = seat.route(seat.me, source, message.place);
                    (Step::Recv { route, to: plain(buffer), bytes: bytes as usize }, source)
                }
                Op::Local { b1, b2, b3, arithmetic, count } => {
                    let places = [plain(b1), plain(b2), plain(b3)];
                    let bytes = count * arithmetic.element().bytes();
                    (Step::Local { arithmetic, places, bytes }, seat.me)
                }
                Op::Call { function, context } => (Step::Call { function, context }, seat.me),
                _ => continue,
            };
            steps.push(step);
            names.push(Name { op: ids[vertex.index()], peer });
        }
        let sent = certificate.messages.iter().filter(|(message, _)| message.is_send);
        let bytes = sent.clone().map(|(message, _)| message.bytes).sum();
        let messages = sent.count() as u64;
        destinations.sort_unstable();
        destinations.dedup();
        Program {
            steps: steps.into(),
            names: names.into(),
            destinations: destinations.into(),
            members,
            hears_all: certificate.hears_all,
            messages,
            bytes,
            _scratchpad: scratchpad,
        }
    }
}

impl Seat<'_> {
    fn route(&self, receiver: Rank, sender: Rank, place: u32) -> Route {
        Route([0, 1].map(|number| self.job.slot(self.context, receiver, sender, place as usize, number)))
    }
}
