//! Collective calls: which belong together, and how many bytes each member gave and got.

use super::algorithms::{self, Step, Tree, bruck, pairwise, recursive_doubling};
use super::calls::{Call, Kind};
use super::error::ParaverError;
use super::note::Note;
use super::records::Trace;
use castell_base::{Rank, Tag};
use std::collections::{BTreeMap, HashMap};

/// Sends and receives that are made for the collective calls of one trace.
pub const OPERATIONS_MAX: u64 = 1 << 27;

/// An operation of MPI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// MPI's name of it.
    pub name: &'static str,
    shape: Shape,
    /// Comes back before it is through.
    pub immediate: bool,
}

/// What messages an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Gather,
    Scatter,
    Allgather,
    /// The bytes that a member gives are those for one other.
    Alltoall,
    /// The bytes that a member gives are those for all.
    AlltoallVarying,
    ReduceScatter,
    Scan,
}

impl Shape {
    fn algorithm(self) -> &'static str {
        match self {
            Shape::Barrier => "dissemination, one byte a message",
            Shape::Bcast => "a binomial tree",
            Shape::Reduce => "a binomial tree to the root, without computation",
            Shape::Allreduce => "recursive doubling, without computation",
            Shape::Gather => "a binomial tree to the root",
            Shape::Scatter => "a binomial tree from the root",
            Shape::Allgather => "Bruck's algorithm",
            Shape::Alltoall => "an exchange between each pair",
            Shape::AlltoallVarying => "an exchange between each pair, all others getting the same",
            Shape::ReduceScatter => {
                "a binomial tree to the first member and one from it, without computation"
            }
            Shape::Scan => "recursive doubling to higher ranks, without computation",
        }
    }
}

impl Operation {
    /// The operation by the number that Extrae gives the call.
    fn of(call: u32) -> Option<Operation> {
        let (name, shape, immediate) = match call {
            7 => ("MPI_Bcast", Shape::Bcast, false),
            8 => ("MPI_Barrier", Shape::Barrier, false),
            9 => ("MPI_Reduce", Shape::Reduce, false),
            10 => ("MPI_Allreduce", Shape::Allreduce, false),
            11 => ("MPI_Alltoall", Shape::Alltoall, false),
            12 => ("MPI_Alltoallv", Shape::AlltoallVarying, false),
            13 => ("MPI_Gather", Shape::Gather, false),
            14 => ("MPI_Gatherv", Shape::Gather, false),
            15 => ("MPI_Scatter", Shape::Scatter, false),
            16 => ("MPI_Scatterv", Shape::Scatter, false),
            17 => ("MPI_Allgather", Shape::Allgather, false),
            18 => ("MPI_Allgatherv", Shape::Allgather, false),
            30 => ("MPI_Scan", Shape::Scan, false),
            80 => ("MPI_Reduce_scatter", Shape::ReduceScatter, false),
            154 => ("MPI_Ireduce", Shape::Reduce, true),
            155 => ("MPI_Iallreduce", Shape::Allreduce, true),
            156 => ("MPI_Ibarrier", Shape::Barrier, true),
            157 => ("MPI_Ibcast", Shape::Bcast, true),
            158 => ("MPI_Ialltoall", Shape::Alltoall, true),
            159 => ("MPI_Ialltoallv", Shape::AlltoallVarying, true),
            160 => ("MPI_Iallgather", Shape::Allgather, true),
            161 => ("MPI_Iallgatherv", Shape::Allgather, true),
            162 => ("MPI_Igather", Shape::Gather, true),
            163 => ("MPI_Igatherv", Shape::Gather, true),
            164 => ("MPI_Iscatter", Shape::Scatter, true),
            165 => ("MPI_Iscatterv", Shape::Scatter, true),
            166 => ("MPI_Ireduce_scatter", Shape::ReduceScatter, true),
            167 => ("MPI_Iscan", Shape::Scan, true),
            168 => ("MPI_Reduce_scatter_block", Shape::ReduceScatter, false),
            169 => ("MPI_Ireduce_scatter_block", Shape::ReduceScatter, true),
            170 => ("MPI_Alltoallw", Shape::AlltoallVarying, false),
            171 => ("MPI_Ialltoallw", Shape::AlltoallVarying, true),
            214 => ("MPI_Exscan", Shape::Scan, false),
            215 => ("MPI_Iexscan", Shape::Scan, true),
            _ => return None,
        };
        Some(Operation { name, shape, immediate })
    }
}

/// One operation of all members of a communicator.
#[derive(Debug)]
pub(super) struct Collective {
    pub operation: Operation,
    /// What its messages carry: another for each, because immediate ones overlap.
    pub tag: Tag,
    /// Who called it first, and when: for messages.
    first: (Rank, u64),
    root: usize,
    /// Who called it so far, with bytes given and got; once all did, in order of the members.
    called: Vec<(usize, u64, u64)>,
}

/// The collective operations of a trace.
#[derive(Default)]
pub(super) struct Collectives<'a> {
    communicators: HashMap<(usize, u64), Communicator<'a>>,
    /// Calls on communicators that the trace does not list: those between groups.
    unknown: u64,
    operations: u32,
}

struct Communicator<'a> {
    places: HashMap<Rank, usize>,
    members: std::borrow::Cow<'a, [Rank]>,
    collectives: Vec<Collective>,
    /// By member, calls so far.
    calls: Vec<usize>,
}

impl<'a> Collectives<'a> {
    /// Finds out which calls belong together: the n-th of each member of a communicator.
    pub fn find(trace: &'a Trace, threads: &[Vec<Call>]) -> Result<Collectives<'a>, ParaverError> {
        let mut found = Collectives::default();
        for (thread, calls) in trace.threads.iter().zip(threads) {
            for call in calls.iter().filter(|call| call.kind == Kind::Collective) {
                let Some(number) = found.communicator(trace, thread.application, call) else { continue };
                let key = (thread.application, number);
                let communicator = found.communicators.get_mut(&key).expect("just found or made");
                communicator.enter(number, Rank(thread.rank), call, &mut found.operations)?;
            }
        }
        let operations =
            found.communicators.values().map(Communicator::operations).fold(0, u64::saturating_add);
        match operations > OPERATIONS_MAX {
            true => Err(ParaverError::CollectivesMany { operations }),
            false => Ok(found),
        }
    }

    /// The number of a call's communicator, which is entered if it is not known yet. A call that names none is on all
    /// tasks of its application.
    fn communicator(&mut self, trace: &'a Trace, application: usize, call: &Call) -> Option<u64> {
        let number = call.communicator.unwrap_or(0);
        let key = (application, number);
        if !self.communicators.contains_key(&key) {
            let members = match (trace.communicators.get(&key), call.communicator) {
                (Some(members), _) => members.as_slice().into(),
                (None, None) => {
                    let (first, tasks) = trace.applications[application];
                    (first..first + tasks).map(Rank).collect::<Vec<_>>().into()
                }
                (None, Some(_)) => {
                    self.unknown += 1;
                    return None;
                }
            };
            self.communicators.insert(key, Communicator::new(members));
        }
        Some(number)
    }

    /// The operation that is the next of `rank` on a communicator; members and the rank's place with it. `None`
    /// where somebody did not take part. `done`: how many operations the rank has been through, by communicator.
    pub fn next(
        &self,
        application: usize,
        rank: Rank,
        call: &Call,
        done: &mut HashMap<(usize, u64), usize>,
    ) -> Option<(&Collective, &[Rank], usize)> {
        let key = (application, call.communicator.unwrap_or(0));
        let communicator = self.communicators.get(&key)?;
        let count = done.entry(key).or_default();
        let collective = communicator.collectives.get(*count)?;
        *count += 1;
        let whole = collective.called.len() == communicator.members.len();
        let place = *communicator.places.get(&rank)?;
        whole.then_some((collective, &communicator.members, place))
    }

    /// What became of the calls.
    pub fn notes(&self) -> impl Iterator<Item = Note> {
        let mut became: BTreeMap<&str, (u64, &'static str, &'static str)> = BTreeMap::new();
        let mut cut = 0;
        for communicator in self.communicators.values() {
            for collective in &communicator.collectives {
                if collective.called.len() < communicator.members.len() {
                    cut += 1;
                    continue;
                }
                let Operation { name, shape, .. } = collective.operation;
                became.entry(name).or_insert((0, name, shape.algorithm())).0 += 1;
            }
        }
        let became = became.into_values();
        let became =
            became.map(|(operations, call, algorithm)| Note::Collectives { call, operations, algorithm });
        let cut =
            Note::LeftOut { what: "collective operations that not all members reached were", calls: cut };
        let what = "collective calls on communicators that the trace does not list were";
        became.chain([cut, Note::LeftOut { what, calls: self.unknown }])
    }
}

impl<'a> Communicator<'a> {
    fn new(members: std::borrow::Cow<'a, [Rank]>) -> Communicator<'a> {
        let places = members.iter().enumerate().map(|(place, rank)| (*rank, place)).collect();
        let calls = vec![0; members.len()];
        Communicator { places, members, collectives: Vec::new(), calls }
    }

    /// `operations`: how many there are so far, on all communicators.
    fn enter(
        &mut self,
        number: u64,
        rank: Rank,
        call: &Call,
        operations: &mut u32,
    ) -> Result<(), ParaverError> {
        let Some(operation) = Operation::of(call.number) else { return Ok(()) };
        let (time_ns, name) = (call.start_ns, operation.name);
        let Some(&place) = self.places.get(&rank) else {
            return Err(ParaverError::NotMember { rank, call: name, time_ns, communicator: number });
        };
        let index = self.calls[place];
        self.calls[place] += 1;
        if index == self.collectives.len() {
            let first = (rank, time_ns);
            // Tags below are the program's own; the last of all means any.
            let tag = Tag((1 << 31) | (*operations % (Tag::MAX.0 - (1 << 31))));
            *operations = operations.wrapping_add(1);
            self.collectives.push(Collective { operation, tag, first, root: 0, called: Vec::new() });
        }
        let collective = &mut self.collectives[index];
        if collective.operation != operation {
            return Err(ParaverError::CollectivesDiffer {
                communicator: number,
                number: index + 1,
                rank,
                call: name,
                time_ns,
                other: collective.first.0,
                other_call: collective.operation.name,
            });
        }
        collective.called.push((place, call.send_bytes, call.recv_bytes));
        if call.is_root {
            collective.root = place;
        }
        if collective.called.len() == self.members.len() {
            collective.called.sort_unstable();
        }
        Ok(())
    }

    /// How many sends and receives its operations take, about.
    fn operations(&self) -> u64 {
        let members = self.members.len() as u64;
        let rounds = u64::from(members.next_power_of_two().trailing_zeros()) + 2;
        let steps = |collective: &Collective| match collective.operation.shape {
            Shape::Alltoall | Shape::AlltoallVarying => members,
            _ => rounds,
        };
        let steps: u64 = self.collectives.iter().map(steps).fold(0, u64::saturating_add);
        steps.saturating_mul(2 * members)
    }
}

impl Collective {
    fn given(&self, member: usize) -> u64 {
        self.called[member].1
    }

    fn got(&self, member: usize) -> u64 {
        self.called[member].2
    }

    /// What the member at `me` does, step by step, of an operation that all members called.
    pub fn steps(&self, me: usize) -> Vec<Step> {
        let members = self.called.len();
        let tree = Tree { members, root: self.root, me };
        let largest = self.called.iter().map(|(_, given, got)| *given.max(got)).max().unwrap_or(0);
        match self.operation.shape {
            Shape::Barrier => algorithms::dissemination(members, me, 1),
            Shape::Bcast => tree.down(|_| largest),
            Shape::Reduce => tree.up(|_| largest),
            Shape::Allreduce => recursive_doubling(members, me, largest),
            Shape::Gather => {
                tree.up(|subtree| subtree.map(|member| self.given(member)).fold(0, u64::saturating_add))
            }
            Shape::Scatter => {
                tree.down(|subtree| subtree.map(|member| self.got(member)).fold(0, u64::saturating_add))
            }
            Shape::Allgather => bruck(members, me, |member| self.given(member)),
            Shape::Alltoall => pairwise(members, me, |member| self.given(member)),
            Shape::AlltoallVarying => pairwise(members, me, |member| self.given(member) / members as u64),
            Shape::ReduceScatter => {
                let tree = Tree { members, root: 0, me };
                let mut steps = tree.up(|_| largest);
                steps.extend(
                    tree.down(|subtree| subtree.map(|member| self.got(member)).fold(0, u64::saturating_add)),
                );
                steps
            }
            Shape::Scan => algorithms::scan(members, me, largest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const SHAPES: [(u32, Shape); 11] = [
        (8, Shape::Barrier),
        (7, Shape::Bcast),
        (9, Shape::Reduce),
        (10, Shape::Allreduce),
        (13, Shape::Gather),
        (15, Shape::Scatter),
        (17, Shape::Allgather),
        (11, Shape::Alltoall),
        (12, Shape::AlltoallVarying),
        (80, Shape::ReduceScatter),
        (30, Shape::Scan),
    ];

    fn collective(call: u32, members: usize, root: usize) -> Collective {
        let operation = Operation::of(call).expect("a collective call");
        let called = (0..members)
            .map(|member| (member, 1000 + 8 * member as u64, 2000 + 16 * member as u64))
            .collect();
        Collective { operation, tag: Tag(0), first: (Rank(0), 0), root, called }
    }

    /// Carries the steps of all members out and says how many bytes each got; panics where somebody waits for ever.
    fn run(collective: &Collective) -> Vec<u64> {
        let members = collective.called.len();
        let mut steps: Vec<VecDeque<Step>> = (0..members).map(|me| collective.steps(me).into()).collect();
        let mut on_the_way: HashMap<(usize, usize), VecDeque<u64>> = HashMap::new();
        let mut sent = vec![false; members];
        let mut got = vec![0; members];
        loop {
            let mut progress = false;
            for me in 0..members {
                let Some(step) = steps[me].front().copied() else { continue };
                if let (Some((to, bytes)), false) = (step.send, sent[me]) {
                    on_the_way.entry((me, to)).or_default().push_back(bytes);
                    (sent[me], progress) = (true, true);
                }
                let arrived = step.recv.map(|(from, bytes)| {
                    let next = on_the_way.get_mut(&(from, me)).and_then(VecDeque::pop_front);
                    next.inspect(|next| assert_eq!(*next, bytes, "{from} to {me}"))
                });
                if arrived != Some(None) {
                    got[me] += arrived.flatten().unwrap_or(0);
                    steps[me].pop_front();
                    (sent[me], progress) = (false, true);
                }
            }
            if !progress {
                break;
            }
        }
        assert!(steps.iter().all(VecDeque::is_empty), "{collective:?}");
        assert!(on_the_way.values().all(VecDeque::is_empty), "{collective:?}");
        got
    }

    #[test]
    fn every_message_is_sent_and_received_in_one_size() {
        for members in 1..=17 {
            for root in [0, members / 2, members - 1] {
                for (call, shape) in SHAPES {
                    let collective = collective(call, members, root);
                    assert_eq!(collective.operation.shape, shape);
                    run(&collective);
                }
            }
        }
    }

    #[test]
    fn everybody_gets_what_the_operation_gives() {
        let (members, root) = (13, 5);
        let given: u64 = collective(17, members, root).called.iter().map(|(_, given, _)| given).sum();
        let own = |me: usize| 1000 + 8 * me as u64;
        let of = |call| run(&collective(call, members, root));
        assert!(of(17).iter().enumerate().all(|(me, got)| got + own(me) == given), "allgather");
        assert!(of(11).iter().enumerate().all(|(me, got)| got + own(me) == given), "alltoall");
        assert_eq!(of(13)[root] + own(root), given, "gather");
        let largest = 2000 + 16 * 12;
        assert_eq!(of(7).iter().sum::<u64>(), 12 * largest, "bcast: each but the root gets it once");
        assert_eq!(of(9).iter().sum::<u64>(), 12 * largest, "reduce: each but the root gives it once");
        assert!(of(10).iter().all(|got| *got >= largest), "allreduce");
    }

    #[test]
    fn members_get_what_they_said_that_they_got() {
        let (members, root) = (13, 5);
        let kept = |steps: &[Step], me: usize| {
            let bytes = |part: Option<(usize, u64)>| part.map_or(0, |(_, bytes)| bytes);
            let got: u64 = steps.iter().map(|step| bytes(step.recv)).sum();
            let given: u64 = steps.iter().map(|step| bytes(step.send)).sum();
            (me, got.wrapping_sub(given))
        };
        let own = |me: usize| 2000 + 16 * me as u64;
        let scatter = collective(15, members, root);
        for me in (0..members).filter(|me| *me != root) {
            assert_eq!(kept(&scatter.steps(me), me), (me, own(me)), "scatter");
        }
        // The first member gives what all others get of the result.
        let reduced = collective(80, members, root);
        for me in 1..members {
            let largest = 2000 + 16 * 12;
            let steps = reduced.steps(me);
            let up =
                steps.iter().rposition(|step| step.send.is_some_and(|(to, _)| to < me)).expect("a parent");
            assert!(
                steps[..=up]
                    .iter()
                    .all(|step| step.send.or(step.recv).is_some_and(|(_, bytes)| bytes == largest))
            );
            assert_eq!(kept(&steps[up + 1..], me), (me, own(me)), "reduce_scatter");
        }
        let got = run(&collective(12, members, root));
        let share = |member: usize| (1000 + 8 * member as u64) / 13;
        let all: u64 = (0..members).map(share).sum();
        assert!(got.iter().enumerate().all(|(me, got)| got + share(me) == all), "alltoallv");
    }

    #[test]
    fn the_estimate_of_operations_is_no_underestimate() {
        for members in 1..=33 {
            for (call, _) in SHAPES {
                let one = collective(call, members, 0);
                let made: usize = (0..members)
                    .flat_map(|me| one.steps(me))
                    .map(|step| usize::from(step.send.is_some()) + usize::from(step.recv.is_some()))
                    .sum();
                let members: Vec<Rank> = (0..members as u32).map(Rank).collect();
                let mut communicator = Communicator::new(members.into());
                communicator.collectives.push(one);
                assert!(communicator.operations() >= made as u64, "call {call}");
            }
        }
    }
}
