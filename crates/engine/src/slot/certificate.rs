//! Whether a collective can go through slots, found out by a run of all ranks' programs.
//!
//! All ranks come to the same verdict, since it depends on nothing but what all know of the call. What is proven by the run is
//! said in `README.md` beside this file.

use super::bounce::Bounce;
use super::multicast::{Multicast, multicasts};
use super::zero_copy::{self, Uses};
use super::{BYTES_MAX, Cycle, INLINE_BYTES, PLACES, RANKS_MAX, RANKS_NEAR};
use castell_base::Rank;
use castell_collectives::collective::{Collective, Combine, Memory, Messages};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::{Arithmetic, ElementType, Op, Operator, Place};
use std::collections::{HashMap, HashSet};

/// Operations of one rank's program.
const OPERATIONS_MAX: usize = 4096;

/// A message of a rank's program, ranks being those of the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) is_send: bool,
    pub(crate) peer: u32,
    /// Which of the messages from the sender to the receiver.
    pub(crate) place: u32,
    pub(crate) bytes: u64,
}

/// Where the bytes of messages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// In places of their own.
    Small,
    /// With their sender, in its bounce buffer.
    Large,
    /// With their sender, in the call's own buffers: the receiver reads another process's memory.
    ZeroCopy,
}

/// What was found out about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Certified {
    pub(crate) message: Message,
    /// Of sends: whether this rank has heard of the receiver in the call before, of large ones and of multicasts, of all ranks.
    pub(crate) knows: bool,
    /// Of small messages: the multicast of its sender that it belongs to.
    pub(crate) multicast: Option<Multicast>,
}

/// What was found out about one rank's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its messages in the order of its program.
    pub(crate) messages: Vec<Certified>,
    /// Whether it has heard of all ranks in the end.
    pub hears_all: bool,
    /// Whether somebody has not heard of all ranks, and may wait in a later call for this rank to have passed this one.
    pub is_awaited: bool,
    /// Which generations of places it takes: what all ranks find.
    pub(crate) cycle: Cycle,
    /// Of messages that lie in their senders' buffers: they may also where the sender calls in place.
    pub is_safe_in_place: bool,
    /// All ranks send all that they have before they wait for anything: nobody needs them any more then.
    pub sends_first: bool,
}

impl Certificate {
    /// Whether all others get something from this rank, and all that before it waits for the first one, and it hears of all.
    pub(crate) fn is_one_round(&self, ranks: usize) -> bool {
        let is_send = |of: &Certified| of.message.is_send;
        let sent = self.messages.iter().take_while(|of| is_send(of)).count();
        let to: HashSet<u32> = self.messages[..sent].iter().map(|of| of.message.peer).collect();
        self.hears_all && to.len() + 1 == ranks && !self.messages[sent..].iter().any(is_send)
    }
}

/// The part of `rank`; `None`: the collective cannot go through slots.
pub fn certify(collective: &Collective, rank: u32, size: Size) -> Option<Certificate> {
    let ranks = collective.shape().ranks;
    if !(2..=RANKS_MAX).contains(&ranks) {
        return None;
    }
    let collective = collective.clone().with_messages(Messages::default());
    let (mut uses, mut noticed) = (Vec::new(), Vec::new());
    let programs: Option<Vec<_>> =
        (0..ranks).map(|rank| program(&collective, rank, size, (&mut uses, &mut noticed))).collect();
    let programs = programs?;
    let mut certificate = run(&programs, &noticed, rank, size)?;
    if size == Size::ZeroCopy {
        let [is_safe, is_safe_in_place] = zero_copy::is_safe(&programs, &uses);
        certificate.is_safe_in_place = is_safe_in_place;
        return is_safe.then_some(certificate);
    }
    Some(certificate)
}

fn program(
    collective: &Collective,
    rank: u32,
    size: Size,
    (uses, noticed): (&mut Vec<[Uses; 2]>, &mut Vec<Vec<Option<Multicast>>>),
) -> Option<Vec<Message>> {
    let graph = |in_place| {
        // Nobody looks into this memory, only where it lies.
        let [input, output, temporary] = [1 << 60, 2 << 60, 3 << 60].map(Place::user);
        let combine = Bytes(collective.shape().element_bytes);
        let is_void = combine.0 == 0;
        let [input, output, temporary] = if is_void { [Place::VOID; 3] } else { [input, output, temporary] };
        let memory = Memory { input, output, temporary, in_place, combine: &combine };
        let mut graph = Graph::new();
        collective.weave(Rank(rank), &memory, &mut graph).ok().map(|_| graph)
    };
    let apart = graph(false)?;
    if size == Size::Large {
        // Whether somebody calls it in place the others do not know.
        [&apart, &graph(true)?].into_iter().all(|graph| Bounce::of(graph).is_some()).then_some(())?;
    }
    let messages = |graph: &Graph| messages(graph, 0, |rank| Some(rank.0), size);
    if size == Size::ZeroCopy {
        let in_place = graph(true)?;
        (messages(&in_place) == messages(&apart)).then_some(())?;
        uses.push([Uses::of(&apart)?, Uses::of(&in_place)?]);
    }
    let found = messages(&apart)?;
    if size == Size::Small {
        noticed.push(agreed(multicasts(&apart), || {
            let in_place = graph(true)?;
            (messages(&in_place)? == found).then(|| multicasts(&in_place))
        }));
    }
    Some(found)
}

/// The multicasts of a program, if they are the same where it is called in place, which the others do not know.
fn agreed(
    apart: Vec<Option<Multicast>>,
    in_place: impl FnOnce() -> Option<Vec<Option<Multicast>>>,
) -> Vec<Option<Multicast>> {
    let is_same = apart.iter().all(Option::is_none) || in_place().is_some_and(|in_place| in_place == apart);
    if is_same { apart } else { Vec::new() }
}

/// Instead of a reduction: the same bytes are touched.
struct Bytes(u64);

impl Combine for Bytes {
    fn combine(
        &self,
        graph: &mut Graph,
        b1: Place,
        b2: Place,
        b3: Place,
        count: u64,
    ) -> Result<Vertex, GraphError> {
        let any = Arithmetic::new(Operator::Xor, ElementType::U8).expect("bytes can be combined");
        graph.local(b1, b2, b3, any, count * self.0)
    }
}

/// The messages of a rank's graph in the order of its vertices, each behind those that it waits for; `None`: some operation
/// is not for slots. `rank_of` tells whom in the communicator a peer is.
pub(crate) fn messages(
    graph: &Graph,
    first_tag: u32,
    rank_of: impl Fn(Rank) -> Option<u32>,
    size: Size,
) -> Option<Vec<Message>> {
    if graph.len() > OPERATIONS_MAX || graph.edges().any(|edge| edge.prerequisite.0 >= edge.target.0) {
        return None;
    }
    let mut messages = Vec::new();
    for vertex in graph.vertices() {
        let (is_send, peer, tag, bytes) = match graph.op(vertex) {
            Op::Send { bytes, dest, tag, .. } => (true, dest, tag, bytes),
            Op::Recv { bytes, source, tag, .. } => (false, source?, tag?, bytes),
            Op::Local { .. } | Op::Call { .. } | Op::Proxy => continue,
            _ => return None,
        };
        let (place, peer) = (tag.0.wrapping_sub(first_tag), rank_of(peer)?);
        let is_too_large = size == Size::Small && bytes > BYTES_MAX as u64;
        if place as usize >= PLACES || is_too_large || graph.traits(vertex).any.is_some() {
            return None;
        }
        messages.push(Message { is_send, peer, place, bytes });
    }
    Some(messages)
}

/// Bytes of a message under way, of whom its sender had heard, and its multicast.
type Sent = (u64, u64, Option<Multicast>);

/// Runs all programs, of whose messages those are multicasts; sends never wait.
fn run(
    programs: &[Vec<Message>],
    noticed: &[Vec<Option<Multicast>>],
    rank: u32,
    size: Size,
) -> Option<Certificate> {
    let ranks = programs.len();
    let all = u64::MAX >> (64 - ranks);
    let mut next = vec![0; ranks];
    // Of whom each rank has heard, a bit each.
    let mut heard: Vec<u64> = (0..ranks).map(|rank| 1 << rank).collect();
    let mut under_way: HashMap<(u32, u32, u32), Sent> = HashMap::new();
    let mut used: HashMap<(u32, u32, u32), ()> = HashMap::new();
    let mut own = Vec::new();
    let mut has_moved = true;
    while has_moved {
        has_moved = false;
        for me in 0..ranks {
            while let Some(message) = programs[me].get(next[me]) {
                let Message { is_send, peer, place, bytes } = *message;
                let multicast_of = |me: usize, at: usize| *noticed.get(me)?.get(at)?;
                let mut multicast = if is_send { multicast_of(me, next[me]) } else { None };
                let is_for_all = size == Size::Large || multicast.is_some();
                let knows = is_send && if is_for_all { heard[me] == all } else { heard[me] >> peer & 1 == 1 };
                if is_send {
                    let name = (me as u32, peer, place);
                    if peer as usize >= ranks || peer as usize == me || used.insert(name, ()).is_some() {
                        return None;
                    }
                    under_way.insert(name, (bytes, heard[me], multicast));
                } else {
                    let Some((sent, of, by)) = under_way.remove(&(peer, me as u32, place)) else { break };
                    multicast = by;
                    if sent != bytes {
                        return None;
                    }
                    heard[me] |= of;
                }
                if me == rank as usize {
                    own.push(Certified { message: *message, knows, multicast });
                }
                next[me] += 1;
                has_moved = true;
            }
        }
    }
    let all_end = next.iter().zip(programs).all(|(next, program)| *next == program.len());
    let hears_all = heard[rank as usize] == all;
    // Who shows its buffers waits until all have looked.
    let is_awaited = size == Size::ZeroCopy || heard.iter().any(|of| *of != all);
    let is_safe_in_place = size != Size::ZeroCopy;
    let is_inline = |message: &Message| size != Size::Small || message.bytes <= INLINE_BYTES as u64;
    let has_pages = !programs.iter().flatten().all(is_inline);
    let cycle = match heard.iter().all(|of| *of == all) {
        true if has_pages && ranks > RANKS_NEAR => Cycle::EXCHANGE_IN_PAGES,
        true => Cycle::EXCHANGE,
        false if has_pages => Cycle::AHEAD_IN_PAGES,
        false => Cycle::AHEAD,
    };
    let sends_first = programs.iter().all(|program| program.is_sorted_by_key(|message| !message.is_send));
    let certificate =
        Certificate { messages: own, hears_all, is_awaited, cycle, is_safe_in_place, sends_first };
    (all_end && under_way.is_empty()).then_some(certificate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_collectives::collective::Shape;

    fn of(name: &str, ranks: u32, count: u64, rank: u32) -> Option<Certificate> {
        sized(name, ranks, count, rank, Size::Small)
    }

    fn sized(name: &str, ranks: u32, count: u64, rank: u32, size: Size) -> Option<Certificate> {
        certify(&Collective::new(name, Shape::new(ranks, count, 8)).expect("a collective"), rank, size)
    }

    #[test]
    fn large_messages_fit_a_bounce_buffer() {
        for rank in 0..4 {
            let fits = |name, count| sized(name, 4, count, rank, Size::Large).is_some();
            assert!(fits("allreduce:r4,g4", 100_000) && !fits("allreduce:r4,g4", 200_000));
            // What goes to several is there once.
            assert!(fits("bcast:linear", 131_072) && !fits("bcast:linear", 131_080));
        }
        let all = sized("allreduce:r4,g4", 4, 1000, 2, Size::Large).expect("fits");
        assert!(all.hears_all && all.messages.iter().filter(|of| of.message.is_send).count() == 6);
        assert!(all.messages.iter().filter(|of| of.message.is_send && of.knows).count() == 3);
    }

    #[test]
    fn who_hears_whom() {
        for name in
            ["barrier:linear", "barrier:dissemination", "allreduce:recursive-doubling", "allreduce:a3,a2"]
        {
            for rank in 0..6 {
                let certificate = of(name, 6, 1, rank).expect("small messages");
                assert!(certificate.hears_all && !certificate.is_awaited, "{name}, rank {rank}");
            }
        }
        let root = of("bcast:linear", 4, 1, 0).expect("small messages");
        assert!(!root.hears_all && root.messages.iter().all(|of| of.message.is_send && !of.knows));
        let leaf = of("reduce:linear", 4, 1, 3).expect("small messages");
        assert!(!leaf.hears_all);
        let root = of("reduce:linear", 4, 1, 0).expect("small messages");
        assert!(root.hears_all && root.is_awaited);
        // The root answers whom it has heard.
        let root = of("barrier:linear", 5, 1, 0).expect("small messages");
        assert!(root.messages.iter().filter(|of| of.message.is_send).all(|of| of.knows));
    }

    #[test]
    fn exchanges_of_all_with_all_are_one_round() {
        let is_one_round = |name, rank| of(name, 4, 1, rank).expect("small messages").is_one_round(4);
        for rank in 0..4 {
            for name in ["barrier:a4", "allreduce:a4", "allgather:linear", "alltoall:linear"] {
                assert!(is_one_round(name, rank), "{name}, rank {rank}");
            }
            for name in
                ["barrier:linear", "barrier:dissemination", "alltoall:bruck", "bcast:linear", "gather:linear"]
            {
                assert!(!is_one_round(name, rank), "{name}, rank {rank}");
            }
        }
    }

    #[test]
    fn who_sends_first_is_known_to_all() {
        let sends_first =
            |name| (0..4).map(move |rank| of(name, 4, 1, rank).expect("small messages").sends_first);
        for name in ["allreduce:a4", "alltoall:linear", "gather:linear", "bcast:linear", "reduce:linear"] {
            assert!(sends_first(name).all(|first| first), "{name}");
        }
        // Each of them has ranks that only receive, or only send.
        for name in ["barrier:linear", "bcast:binomial", "gather:binomial", "alltoall:bruck"] {
            assert!(sends_first(name).all(|first| !first), "{name}");
        }
    }

    #[test]
    fn what_all_get_is_a_multicast_for_sender_and_receivers() {
        for name in ["bcast:linear", "allreduce:a6", "allgather:linear", "barrier:a6"] {
            let of: Vec<_> = (0..6).map(|rank| of(name, 6, 1, rank).expect("small messages")).collect();
            for certificate in &of {
                for certified in &certificate.messages {
                    let multicast = certified.multicast.expect("each message goes to all");
                    assert_eq!(multicast.index, 0, "{name}");
                }
            }
            let written = |of: &Certificate| {
                of.messages.iter().filter(|of| of.message.is_send && of.multicast.unwrap().is_first).count()
            };
            assert!(written(&of[0]) == 1 && written(&of[1]) <= 1, "{name}");
        }
        let scatter = of("scatter:linear", 4, 1, 0).expect("small messages");
        assert!(scatter.messages.iter().all(|of| of.multicast.is_none()));
        let ring = of("barrier:dissemination", 4, 1, 0).expect("small messages");
        assert!(ring.messages.iter().all(|of| of.multicast.is_none()), "each round has heard more");
    }

    #[test]
    fn what_does_not_fit_is_refused_by_all() {
        for rank in 0..4 {
            assert_eq!(of("allreduce:recursive-doubling", 4, 513, rank), None, "too large");
            assert_eq!(of("allreduce:ring", 4, 8, rank), None, "too many messages");
        }
        assert_eq!(of("barrier:linear", 1, 1, 0), None);
        assert_eq!(of("barrier:linear", RANKS_MAX + 1, 1, 0), None);
    }

    #[test]
    fn programs_that_wait_for_each_other_are_refused() {
        let message = |is_send, peer| Message { is_send, peer, place: 0, bytes: 8 };
        let exchange = |peer| vec![message(false, peer), message(true, peer)];
        assert_eq!(run(&[exchange(1), exchange(0)], &[], 0, Size::Small), None);
        let exchange = |peer| vec![message(true, peer), message(false, peer)];
        assert!(run(&[exchange(1), exchange(0)], &[], 0, Size::Small).is_some());
        assert_eq!(run(&[vec![message(true, 1)], vec![]], &[], 0, Size::Small), None, "nobody receives");
    }
}
