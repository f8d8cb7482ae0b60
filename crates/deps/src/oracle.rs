//! What a program's accesses demand, by definition rather than by automaton: which tasks must have finished with which bytes
//! before a task may start.
//!
//! The oracle knows the whole program and looks at one byte at a time. It shares no code with the automaton, costs more than
//! any program should pay, and exists to be compared with: a task that starts before the oracle allows it is a wrong result, one
//! that does not start when the oracle allows it is lost time.

use std::collections::{BTreeSet, HashMap};

use crate::access::{Access, Kind};
use crate::region::Region;

/// A task of a program, by its number in the order of creation in a sequential run; 0 is the root.
pub type TaskNumber = usize;

/// What a task's body does, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates a task.
    Spawn(TaskNumber),
    /// Waits until all tasks that it created are done, and all that these created.
    Taskwait,
    /// Declares that neither it nor tasks created later use these bytes.
    Release(Region),
}

/// A task of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskPlan {
    /// Who creates it; `None` for the root.
    pub parent: Option<TaskNumber>,
    /// Its accesses, disjoint.
    pub accesses: Vec<Access>,
    /// Its body.
    pub steps: Vec<Step>,
    /// Its body says at its end that it failed.
    pub fails: bool,
}

/// A program: its tasks, of which the first is the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// All tasks, by number.
    pub tasks: Vec<TaskPlan>,
}

/// A task has finished with a byte when its body has ended or has released the byte.
pub type Finished = (TaskNumber, usize);

/// What must have happened before.
pub type Demands = BTreeSet<Finished>;

impl Program {
    /// The access of a task to a byte.
    pub fn access(&self, task: TaskNumber, byte: usize) -> Option<&Access> {
        let accesses = &self.tasks[task].accesses;
        accesses.iter().find(|access| access.region.start() <= byte && byte < access.region.end())
    }

    /// The tasks that a task creates, in order.
    pub fn children(&self, task: TaskNumber) -> impl DoubleEndedIterator<Item = TaskNumber> + '_ {
        self.tasks[task].steps.iter().filter_map(|step| match step {
            Step::Spawn(child) => Some(*child),
            _ => None,
        })
    }

    /// Whether all who create a task, directly or not, get there.
    pub fn exists(&self, task: TaskNumber) -> bool {
        let creates = |parent: TaskNumber| self.children(parent).any(|child| child == task);
        self.tasks[task].parent.is_none_or(|parent| creates(parent) && self.exists(parent))
    }

    /// Whether a task releases a byte in a step from the given one on.
    fn releases(&self, task: TaskNumber, from: usize, byte: usize) -> bool {
        self.tasks[task].steps[from..].iter().any(|step| match step {
            Step::Release(part) => part.start() <= byte && byte < part.end(),
            _ => false,
        })
    }

    /// Whether somebody who created `failed` waited, and so ended its failure, before `task` could be harmed through the byte.
    fn is_forgiven(&self, failed: TaskNumber, byte: usize, task: TaskNumber) -> bool {
        let mut child = failed;
        while let Some(parent) = self.tasks[child].parent {
            let steps = &self.tasks[parent].steps;
            let created = steps.iter().position(|step| *step == Step::Spawn(child)).unwrap_or(steps.len());
            let meet = self.descends(task, parent);
            let mut later = steps[created..].iter().take_while(|step| match step {
                // Here the harm leaves the reach of this parent.
                Step::Release(part) => !(part.start() <= byte && byte < part.end()),
                Step::Spawn(other) => !meet || *other != task && !self.descends(task, *other),
                Step::Taskwait => true,
            });
            if later.any(|step| *step == Step::Taskwait) {
                return true;
            }
            if meet {
                return false;
            }
            child = parent;
        }
        false
    }

    /// Whether `ancestor` created `task`, directly or not.
    pub fn descends(&self, task: TaskNumber, ancestor: TaskNumber) -> bool {
        let mut at = task;
        while let Some(parent) = self.tasks[at].parent {
            if parent == ancestor {
                return true;
            }
            at = parent;
        }
        false
    }
}

/// What becomes of a program some of whose tasks fail: which tasks are skipped, because a task whose data they wait for failed
/// or was skipped, and the program without what these would have done.
///
/// What a task released before it failed goes on unharmed. A wait of a creator ends the failures below it, for tasks created later
/// and for who waits for the creator, but not for those who got the bytes from the creator before.
pub fn with_failures(program: &Program) -> (Program, BTreeSet<TaskNumber>) {
    let (mut left, mut skipped) = (program.clone(), BTreeSet::new());
    for task in 1..program.tasks.len() {
        if !left.exists(task) {
            continue;
        }
        let demands = Oracle::new(&left).demands(task);
        let harms = |(before, byte): &Finished| {
            let failed = skipped.contains(before) || left.tasks[*before].fails;
            failed && !left.releases(*before, 0, *byte) && !left.is_forgiven(*before, *byte, task)
        };
        if demands.iter().any(harms) {
            skipped.insert(task);
            left.tasks[task].steps.clear();
        }
    }
    (left, skipped)
}

/// The demands of a program.
pub struct Oracle<'p> {
    program: &'p Program,
    known: HashMap<(TaskNumber, usize, Want), Demands>,
}

/// What an access wants to do with a byte, as far as others must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Want {
    Read,
    Commute,
    Concur,
    Reduce,
    Write,
}

impl Want {
    fn of(kind: Kind) -> Want {
        match kind {
            Kind::In => Want::Read,
            Kind::Out | Kind::InOut => Want::Write,
            Kind::Commutative => Want::Commute,
            Kind::Concurrent => Want::Concur,
            Kind::Reduction => Want::Reduce,
        }
    }
}

impl<'p> Oracle<'p> {
    /// An oracle for this program.
    pub fn new(program: &'p Program) -> Self {
        Oracle { program, known: HashMap::new() }
    }

    /// What must have happened before a task may start, apart from its creation and from commutative tasks taking turns.
    pub fn demands(&mut self, task: TaskNumber) -> Demands {
        let program = self.program;
        let mut demands = Demands::new();
        for access in program.tasks[task].accesses.iter().filter(|access| !access.weak) {
            for byte in access.region.start()..access.region.end() {
                demands.extend(self.before(task, byte, Want::of(access.kind)));
            }
        }
        demands
    }

    /// What must have happened before the private copy of a reduction may be added to the original: everything before it, so
    /// copies are added in the order of creation.
    pub fn demands_of_combining(&mut self, task: TaskNumber, byte: usize) -> Demands {
        self.before(task, byte, Want::Write)
    }

    /// The tasks that must have finished (at least with some bytes) before a task may start, without those that another of
    /// them waits for: the edges of the transitive reduction that end in `task`.
    pub fn predecessors(&mut self, task: TaskNumber) -> BTreeSet<TaskNumber> {
        let all: BTreeSet<TaskNumber> = self.demands(task).into_iter().map(|(before, _)| before).collect();
        let mut implied = BTreeSet::new();
        for before in &all {
            implied.extend(self.demands(*before).into_iter().map(|(earlier, _)| earlier));
        }
        all.difference(&implied).copied().collect()
    }

    /// What must have happened before `task` gets a byte for what it wants.
    fn before(&mut self, task: TaskNumber, byte: usize, want: Want) -> Demands {
        if let Some(known) = self.known.get(&(task, byte, want)) {
            return known.clone();
        }
        let demands = match (self.sibling_before(task, byte), self.program.tasks[task].parent) {
            (Some(sibling), _) => {
                let access = *self.program.access(sibling, byte).expect("asked only about accesses");
                let goes_on = access.groups_with(self.program.access(task, byte).expect("as above"));
                let mut demands = self.before(sibling, byte, want);
                demands.extend(self.passing(sibling, byte, want, goes_on));
                demands
            }
            (None, Some(parent)) => match self.program.access(parent, byte) {
                // Only what a weak parent has not got yet, its children have to wait for. So do those of a reduction: its turn
                // for the original comes later than its start.
                Some(access) if access.weak || access.kind == Kind::Reduction => {
                    self.before(parent, byte, want)
                }
                _ => Demands::new(),
            },
            (None, None) => Demands::new(),
        };
        self.known.insert((task, byte, want), demands.clone());
        demands
    }

    /// What must have happened in `task` and below it before somebody behind gets the byte; `group_goes_on` if that one is of the
    /// same group.
    fn passing(&mut self, task: TaskNumber, byte: usize, want: Want, group_goes_on: bool) -> Demands {
        let access = *self.program.access(task, byte).expect("asked only about accesses");
        let shares = access.kind.shares() && Want::of(access.kind) == want;
        if shares && (access.kind != Kind::Reduction || group_goes_on) {
            return Demands::new();
        }
        let mut demands = Demands::from([(task, byte)]);
        let last = self.program.children(task).rfind(|child| self.program.access(*child, byte).is_some());
        // A copy is combined when all before it is complete; and who is behind a group waits for the whole of it.
        let whole = access.kind == Kind::Reduction && (!access.weak || want == Want::Reduce);
        for want in if whole { [want, Want::Write] } else { [want, want] } {
            if let Some(last) = last {
                let child = *self.program.access(last, byte).expect("just found");
                let goes_on = child.groups_with(&access) && (access.kind != Kind::Reduction || group_goes_on);
                demands.extend(self.before(last, byte, want));
                demands.extend(self.passing(last, byte, want, goes_on));
            }
        }
        if whole {
            demands.extend(self.before(task, byte, Want::Write));
        }
        demands
    }

    /// The task created before by the same parent that was last to access the byte.
    fn sibling_before(&self, task: TaskNumber, byte: usize) -> Option<TaskNumber> {
        let parent = self.program.tasks[task].parent?;
        let earlier = self.program.children(parent).take_while(|child| *child != task);
        earlier.filter(|child| self.program.access(*child, byte).is_some()).last()
    }
}

/// Random programs to compare with the oracle.
pub mod random {
    use super::{Program, Step, TaskPlan};
    use crate::access::{Access, Kind, ReductionId, settled};
    use crate::region::{Region, Strided};

    /// What a random program may contain.
    #[derive(Clone, Copy, Debug)]
    pub struct Limits {
        /// Tasks, at most.
        pub tasks: usize,
        /// Bytes of memory.
        pub bytes: usize,
        /// All regions start and end at multiples of this: at `bytes / 2`, say, programs rarely overlap in part.
        pub grain: usize,
        /// Levels of tasks below the root.
        pub depth: usize,
        /// Reductions too.
        pub reductions: bool,
        /// Some tasks fail. Then only tasks whose accesses hold everything from the start wait for their children: only there a
        /// wait is sure to end a failure, whatever the order in which others finish.
        pub failures: bool,
    }

    /// A program; `below(n)` gives random numbers smaller than `n`.
    pub fn program(limits: Limits, below: &mut dyn FnMut(usize) -> usize) -> Program {
        let mut program = Program { tasks: vec![TaskPlan::default()] };
        let memory = Region::new(0, limits.bytes).expect("some memory");
        let all = [Access::weak(Kind::InOut, memory)];
        fill(&mut program, 0, &all, limits, below);
        program
    }

    /// Writes the body of a task whose children may access what `allowed` says.
    fn fill(
        program: &mut Program,
        task: usize,
        allowed: &[Access],
        limits: Limits,
        below: &mut dyn FnMut(usize) -> usize,
    ) {
        let mut allowed = allowed.to_vec();
        program.tasks[task].fails = limits.failures && task != 0 && below(8) == 0;
        let count = if limits.depth == 0 { 0 } else { below(if task == 0 { limits.tasks } else { 5 }) };
        for _ in 0..count {
            if program.tasks.len() >= limits.tasks {
                break;
            }
            match below(12) {
                0 => program.tasks[task].steps.push(Step::Taskwait),
                1 if task != 0 => release(program, task, &mut allowed, below),
                _ => {}
            }
            let accesses = accesses(&allowed, limits, below);
            let child = program.tasks.len();
            program.tasks[task].steps.push(Step::Spawn(child));
            program.tasks.push(TaskPlan {
                parent: Some(task),
                accesses: accesses.clone(),
                ..TaskPlan::default()
            });
            fill(program, child, &accesses, Limits { depth: limits.depth - 1, ..limits }, below);
        }
        if below(6) == 0 {
            program.tasks[task].steps.push(Step::Taskwait);
        }
    }

    fn release(
        program: &mut Program,
        task: usize,
        allowed: &mut Vec<Access>,
        below: &mut dyn FnMut(usize) -> usize,
    ) {
        if allowed.is_empty() {
            return;
        }
        let chosen = allowed[below(allowed.len())].region;
        let start = chosen.start() + below(chosen.length());
        let part = Region::between(start, start + 1 + below(chosen.end() - start)).expect("not empty");
        program.tasks[task].steps.push(Step::Release(part));
        *allowed = allowed
            .iter()
            .flat_map(|access| {
                let (before, behind) = match access.region.intersection(part) {
                    Some(part) => access.region.without(part),
                    None => (Some(access.region), None),
                };
                [before, behind].into_iter().flatten().map(|region| Access { region, ..*access })
            })
            .collect();
    }

    /// Up to three accesses inside what is allowed, some of them strided.
    fn accesses(allowed: &[Access], limits: Limits, below: &mut dyn FnMut(usize) -> usize) -> Vec<Access> {
        let mut wanted = Vec::new();
        for _ in 0..below(4) {
            if allowed.is_empty() {
                break;
            }
            let outer = allowed[below(allowed.len())];
            let grains = outer.region.length().div_ceil(limits.grain);
            let first = below(grains);
            let start = outer.region.start() + first * limits.grain;
            let length = limits.grain * (1 + below(grains - first));
            let (kind, weak, reduction) = kind_inside(&outer, limits, below);
            let stride = length + limits.grain;
            let rows = if below(5) == 0 { 1 + below(3) } else { 1 };
            let Some(strided) = Strided::new(start, length, stride, rows) else { continue };
            let inside = strided.regions().filter_map(|row| row.intersection(outer.region));
            wanted.extend(inside.map(|region| Access { region, kind, weak, reduction }));
        }
        settled(&wanted).unwrap_or_else(|_| wanted[..1].to_vec())
    }

    /// A kind of access that a child may have inside `outer`.
    fn kind_inside(
        outer: &Access,
        limits: Limits,
        below: &mut dyn FnMut(usize) -> usize,
    ) -> (Kind, bool, ReductionId) {
        let weak = below(3) == 0;
        match outer.kind {
            Kind::Out | Kind::InOut => {
                let kinds = if limits.reductions { 6 } else { 5 };
                (Kind::ALL[below(kinds)], weak, ReductionId(below(2) as u32))
            }
            kind => (kind, weak, outer.reduction),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(tasks: &[(TaskNumber, &[Access])]) -> Program {
        let mut program = Program { tasks: vec![TaskPlan::default()] };
        for (parent, accesses) in tasks {
            let number = program.tasks.len();
            program.tasks[*parent].steps.push(Step::Spawn(number));
            let plan = TaskPlan { parent: Some(*parent), accesses: accesses.to_vec(), ..TaskPlan::default() };
            program.tasks.push(plan);
        }
        program
    }

    fn region(start: usize, end: usize) -> Region {
        Region::between(start, end).expect("not empty")
    }

    fn predecessors(program: &Program, task: TaskNumber) -> Vec<TaskNumber> {
        Oracle::new(program).predecessors(task).into_iter().collect()
    }

    #[test]
    fn readers_wait_for_the_writer_and_the_next_writer_for_the_readers() {
        let place = region(0, 4);
        let (read, write) = (Access::strong(Kind::In, place), Access::strong(Kind::InOut, place));
        let program = program(&[(0, &[write]), (0, &[read]), (0, &[read]), (0, &[write])]);
        assert_eq!(predecessors(&program, 2), [1]);
        assert_eq!(predecessors(&program, 3), [1]);
        assert_eq!(predecessors(&program, 4), [2, 3]);
    }

    #[test]
    fn overlapping_parts_depend_and_others_do_not() {
        let write = |start, end| Access::strong(Kind::Out, region(start, end));
        let program =
            program(&[(0, &[write(0, 4)]), (0, &[write(4, 8)]), (0, &[write(2, 5)]), (0, &[write(0, 2)])]);
        assert_eq!(predecessors(&program, 3), [1, 2]);
        assert_eq!(predecessors(&program, 4), [1]);
    }

    #[test]
    fn children_of_weak_tasks_wait_for_each_other_across_parents() {
        let place = region(0, 4);
        let weak = Access::weak(Kind::InOut, place);
        let (one, other) =
            (Access::strong(Kind::InOut, region(0, 2)), Access::strong(Kind::InOut, region(2, 4)));
        let mut program = program(&[(0, &[weak]), (1, &[one]), (1, &[other]), (0, &[weak]), (4, &[one])]);
        assert_eq!(predecessors(&program, 4), []);
        assert_eq!(predecessors(&program, 5), [1, 2]);
        // A reader behind a reader, through a weak inout.
        program.tasks[2].accesses[0].kind = Kind::In;
        program.tasks[5].accesses[0].kind = Kind::In;
        assert_eq!(predecessors(&program, 5), [1]);
    }

    #[test]
    fn children_of_a_strong_task_have_what_it_has() {
        let place = region(0, 4);
        let write = Access::strong(Kind::InOut, place);
        for (outer, expected) in [(write, vec![]), (Access::weak(Kind::InOut, place), vec![1])] {
            let program = program(&[(0, &[write]), (0, &[outer]), (2, &[write])]);
            assert_eq!(predecessors(&program, 3), expected, "{outer:?}");
        }
    }

    #[test]
    fn a_reduction_is_seen_when_all_before_it_is_done() {
        use crate::access::ReductionId;
        let place = region(0, 4);
        let sum = |id| Access::reduction(ReductionId(id), place);
        let read = Access::strong(Kind::In, place);
        let program = program(&[(0, &[sum(1)]), (0, &[sum(1)]), (0, &[sum(2)]), (0, &[read])]);
        assert_eq!(predecessors(&program, 2), []);
        assert_eq!(predecessors(&program, 3), [1, 2]);
        assert_eq!(predecessors(&program, 4), [3]);
        assert_eq!(Oracle::new(&program).demands_of_combining(2, 0), Demands::from([(1, 0)]));
        // Who is behind a group waits for all of it, also where its last one is weak.
        let weak = Access { weak: true, ..sum(1) };
        let program = self::program(&[(0, &[sum(1)]), (0, &[weak]), (0, &[sum(2)])]);
        assert_eq!(predecessors(&program, 3), [1, 2]);
    }

    #[test]
    fn a_task_exists_if_its_parent_gets_to_it() {
        // 1 and 2 below the root, 3 below 2; a 4th that names 1 as its parent, which never creates it.
        let mut program = program(&[(0, &[]), (0, &[]), (2, &[])]);
        program.tasks.push(TaskPlan { parent: Some(1), ..TaskPlan::default() });
        assert_eq!([0, 1, 2, 3, 4].map(|task| program.exists(task)), [true, true, true, true, false]);
    }

    #[test]
    fn a_failure_ends_where_its_parent_waits_unless_the_bytes_have_left() {
        let mut program = program(&[(0, &[]), (0, &[])]);
        let steps = [Step::Spawn(1), Step::Release(region(1, 3)), Step::Taskwait, Step::Spawn(2)];
        program.tasks[0].steps = steps.to_vec();
        let forgiven = [0, 1, 2, 3].map(|byte| program.is_forgiven(1, byte, 2));
        assert_eq!(forgiven, [true, false, false, true]);
        program.tasks[0].steps.remove(2);
        assert!(!program.is_forgiven(1, 0, 2), "nobody waits");
    }

    #[test]
    fn who_waits_for_a_failure_is_skipped_with_what_it_would_have_created() {
        let (one, other) = (region(0, 4), region(4, 8));
        let [write, read] = [Kind::Out, Kind::In].map(|kind| Access::strong(kind, one));
        let apart = Access::strong(Kind::Out, other);
        // 1 fails; 2 reads what it would have written, and would have created 3; 4 has nothing to do with them, 5 comes behind 2.
        let mut program = program(&[(0, &[write]), (0, &[read]), (2, &[]), (0, &[apart]), (0, &[write])]);
        assert_eq!(with_failures(&program), (program.clone(), BTreeSet::new()));
        program.tasks[1].fails = true;
        let (left, skipped) = with_failures(&program);
        assert_eq!(skipped, BTreeSet::from([2, 5]));
        assert_eq!([1, 2, 3, 4, 5].map(|task| left.exists(task)), [true, true, false, true, true]);
        // What it released before harms nobody.
        program.tasks[1].steps.push(Step::Release(one));
        assert_eq!(with_failures(&program), (program.clone(), BTreeSet::new()));
    }
}
