//! Ranks that wait for one another in a circle.
//!
//! The program is stepped through, without time: each rank's stepper and matcher run until nothing moves any more.
//! First with messages that are always buffered; what is stuck then can never finish. Then with sends that last until
//! their receive is posted: what is stuck then runs only while messages fit into buffers.

use super::{Found, Kind, Severity};
use crate::graph::{Edge, EdgeKind, Graph, Vertex};
use crate::op::Op;
use crate::program::Program;
use crate::schedule::{OpId, Schedule};
use crate::stepper::Stepper;
use castell_base::Rank;
use castell_matching::{Key, Matcher, Pattern};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

/// Steps a program that has no other errors.
pub(super) fn check(found: &mut Found) {
    let program = found.program;
    let Ok(compiled) =
        program.graphs().map(|(_, graph)| graph.compile_with_ids()).collect::<Result<Vec<_>, _>>()
    else {
        // Too large for a schedule, which is not for this check to say.
        return;
    };
    let wildcards = program.graphs().any(|(_, graph)| {
        graph.vertices().any(|vertex| {
            let recv =
                matches!(graph.op(vertex), Op::Recv { source, tag, .. } if source.is_none() || tag.is_none());
            recv || graph.traits(vertex).any.is_some()
        })
    });
    let severity = if wildcards { Severity::Warning } else { Severity::Error };
    for (buffered, severity, kind) in
        [(true, severity, Kind::Deadlock), (false, Severity::Warning, Kind::Buffering)]
    {
        let mut world = World::new(&compiled, buffered);
        world.run();
        if world.is_stuck() {
            world.report(severity, kind, found);
            return;
        }
    }
}

type Compiled = (Schedule, Vec<OpId>);

/// All ranks, stepped in turn.
struct World<'a> {
    compiled: &'a [Compiled],
    ranks: Vec<RankState>,
    /// Ranks that may have operations ready.
    awake: VecDeque<usize>,
    /// Whether a send is over once it has started.
    buffered: bool,
}

struct RankState {
    stepper: Stepper,
    /// Posted receives, and messages that have arrived with their sender's rank and operation.
    matcher: Matcher<OpId, (usize, OpId)>,
    /// By id.
    started: Bits,
    finished: Bits,
    is_awake: bool,
}

/// A set of small numbers.
struct Bits(Vec<u64>);

impl Bits {
    fn new(numbers: usize) -> Bits {
        Bits(vec![0; numbers.div_ceil(64)])
    }

    fn insert(&mut self, id: OpId) {
        self.0[id.0 as usize / 64] |= 1 << (id.0 % 64);
    }

    fn contains(&self, id: OpId) -> bool {
        self.0[id.0 as usize / 64] & 1 << (id.0 % 64) != 0
    }
}

impl<'a> World<'a> {
    fn new(compiled: &'a [Compiled], buffered: bool) -> World<'a> {
        let state = |(schedule, _): &Compiled| RankState {
            stepper: Stepper::new(schedule),
            matcher: Matcher::new(),
            started: Bits::new(schedule.bytes() / 4),
            finished: Bits::new(schedule.bytes() / 4),
            is_awake: true,
        };
        let ranks = compiled.iter().map(state).collect();
        World { compiled, ranks, awake: (0..compiled.len()).collect(), buffered }
    }

    fn run(&mut self) {
        while let Some(rank) = self.awake.pop_front() {
            self.ranks[rank].is_awake = false;
            let schedule = &self.compiled[rank].0;
            while let Some(id) = self.ranks[rank].stepper.take(schedule) {
                self.ranks[rank].started.insert(id);
                self.start(rank, id, schedule.op(id));
            }
        }
    }

    fn start(&mut self, rank: usize, id: OpId, op: Op) {
        match op {
            Op::Send { dest, tag, .. } => {
                let key = Key { context: 0, source: Rank(rank as u32), tag };
                // Receives and sends match: so a destination without a graph has no message to get.
                let Some(state) = self.ranks.get_mut(dest.index()) else { return self.finish(rank, id) };
                let receive = state.matcher.arrive(key, || (rank, id));
                if self.buffered || receive.is_some() {
                    self.finish(rank, id);
                }
                if let Some(receive) = receive {
                    self.finish(dest.index(), receive);
                }
            }
            Op::Recv { source, tag, .. } => {
                let pattern = Pattern { context: 0, source, tag };
                if let Some((sender, message)) = self.ranks[rank].matcher.post(pattern, id) {
                    self.finish(rank, id);
                    if !self.buffered {
                        self.finish(sender, message);
                    }
                }
            }
            _ => self.finish(rank, id),
        }
    }

    fn finish(&mut self, rank: usize, id: OpId) {
        let state = &mut self.ranks[rank];
        state.finished.insert(id);
        state.stepper.finish(&self.compiled[rank].0, id);
        if !std::mem::replace(&mut state.is_awake, true) {
            self.awake.push_back(rank);
        }
    }

    fn is_stuck(&self) -> bool {
        self.ranks.iter().any(|state| !state.stepper.is_finished())
    }

    /// Names a circle of operations that wait for one another.
    fn report(&self, severity: Severity, kind: Kind, found: &mut Found) {
        let mut search = Search { world: self, program: found.program, waits_for: HashMap::new() };
        let Some(first) = search.first() else { return };
        let (circle, closed) = search.circle(first);
        let unfinished: u64 = self.ranks.iter().map(|state| state.stepper.unfinished()).sum();
        let ranks = self.ranks.iter().filter(|state| !state.stepper.is_finished()).count();
        found.add(severity, kind, circle[0], |found| {
            const SHOWN: usize = 16;
            let mut message = String::from(match kind {
                Kind::Buffering => "unless its messages are buffered, this program does not finish: it waits",
                _ => "deadlock: it waits",
            });
            let shown: Vec<String> = circle[1..]
                .iter()
                .take(SHOWN)
                .map(|&(rank, vertex)| format!(" for {}", found.name(rank, vertex)))
                .collect();
            message += &shown.join(", which waits");
            if circle.len() - 1 > SHOWN {
                let _ = write!(message, ", which waits for {} others", circle.len() - 1 - SHOWN);
            }
            if closed {
                let _ = write!(
                    message,
                    ", which waits for {} again",
                    found.program.name(circle[0].0, circle[0].1)
                );
            }
            let _ = write!(message, "; {unfinished} operations of {ranks} ranks never finish");
            message
        });
    }
}

/// Goes from what waits to what it waits for.
struct Search<'a> {
    world: &'a World<'a>,
    program: &'a Program,
    /// Of the ranks that were looked at: for each vertex, a vertex that keeps it from starting.
    waits_for: HashMap<u32, Vec<u32>>,
}

type Site = (Rank, Vertex);

impl Search<'_> {
    /// The first operation that has not finished.
    fn first(&self) -> Option<Site> {
        self.program.graphs().find_map(|(rank, graph)| {
            let vertex = graph.vertices().find(|&vertex| !self.finished(rank, vertex))?;
            Some((rank, vertex))
        })
    }

    /// Follows what waits for what until it comes around (then what led there is left out), or for so many steps.
    fn circle(&mut self, first: Site) -> (Vec<Site>, bool) {
        const STEPS_MAX: usize = 1000;
        let (mut chain, mut at) = (Vec::new(), HashMap::new());
        let mut next = Some(first);
        while let Some(site) = next.filter(|_| chain.len() < STEPS_MAX) {
            if let Some(&start) = at.get(&site) {
                return (chain.split_off(start), true);
            }
            at.insert(site, chain.len());
            chain.push(site);
            next = self.awaited(site);
        }
        (chain, false)
    }

    /// What an operation that has not finished waits for.
    fn awaited(&mut self, (rank, vertex): Site) -> Option<Site> {
        let graph = self.program.rank(rank);
        if !self.started(rank, vertex) {
            let world = self.world;
            let waits_for = self.waits_for.entry(rank.0).or_insert_with(|| blockers(world, rank, graph));
            // Straight to what has started: the steps between are plain.
            let mut at = waits_for[vertex.index()];
            while at != NONE && waits_for[at as usize] != NONE {
                at = waits_for[at as usize];
            }
            return (at != NONE).then_some((rank, Vertex(at)));
        }
        let partner = |peer: Rank, fits: &dyn Fn(Op) -> bool| {
            let graph = self.program.rank(peer);
            let waiting = |&vertex: &Vertex| !self.started(peer, vertex) && fits(graph.op(vertex));
            graph.vertices().find(waiting).map(|vertex| (peer, vertex))
        };
        match graph.op(vertex) {
            Op::Recv { source, tag: wanted, .. } => {
                let fits = |op: Op| match op {
                    Op::Send { dest, tag, .. } => dest == rank && wanted.is_none_or(|wanted| wanted == tag),
                    _ => false,
                };
                match source {
                    Some(source) => partner(source, &fits),
                    None => self.program.graphs().find_map(|(source, _)| partner(source, &fits)),
                }
            }
            Op::Send { dest, tag: sent, .. } => partner(dest, &|op| match op {
                Op::Recv { source, tag, .. } => {
                    source.is_none_or(|source| source == rank) && tag.is_none_or(|tag| tag == sent)
                }
                _ => false,
            }),
            _ => None,
        }
    }

    fn started(&self, rank: Rank, vertex: Vertex) -> bool {
        self.world.ranks[rank.index()].started.contains(self.world.compiled[rank.index()].1[vertex.index()])
    }

    fn finished(&self, rank: Rank, vertex: Vertex) -> bool {
        self.world.ranks[rank.index()].finished.contains(self.world.compiled[rank.index()].1[vertex.index()])
    }
}

const NONE: u32 = u32::MAX;

/// Of each vertex: the prerequisite of an edge that is not met.
fn blockers(world: &World, rank: Rank, graph: &Graph) -> Vec<u32> {
    let (state, ids) = (&world.ranks[rank.index()], &world.compiled[rank.index()].1);
    let mut waits_for = vec![NONE; graph.len()];
    for Edge { prerequisite, target, kind } in graph.edges() {
        let met = match kind {
            EdgeKind::Finish => &state.finished,
            EdgeKind::Start => &state.started,
        };
        if !met.contains(ids[prerequisite.index()]) && !state.started.contains(ids[target.index()]) {
            waits_for[target.index()] = prerequisite.0;
        }
    }
    waits_for
}
