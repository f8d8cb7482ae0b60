//! Random programs, whose bodies advance in random order one step at a time on one thread. After each step exactly those tasks
//! are ready that the oracle allows: none early, none late.

use crate::node::{Collected, Node, end_references};
use castell_deps::oracle::random::{Limits, program};
use castell_deps::oracle::{Demands, Finished, Oracle, Program, Step, TaskNumber, with_failures};
use castell_deps::{Access, Kind};
use castell_tasks::dependences::engine;
use castell_tasks::dependences::{Dependent as _, Exclusive};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeSet, HashSet};
use std::ptr::NonNull;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Unborn,
    Waits,
    Ready,
    Runs { next_step: usize },
    Finished,
}

struct World<'p> {
    /// Without what skipped tasks would have done.
    program: &'p Program,
    skipped: BTreeSet<TaskNumber>,
    demands: Vec<Demands>,
    stages: Vec<Stage>,
    nodes: Vec<Option<NonNull<Node>>>,
    finished: HashSet<Finished>,
    /// Reductions whose copies were added, by byte.
    combined: HashSet<Finished>,
    exclusive: Arc<Exclusive<Node>>,
    log: Vec<String>,
}

impl<'p> World<'p> {
    fn new(program: &'p Program, skipped: BTreeSet<TaskNumber>) -> Self {
        let mut oracle = Oracle::new(program);
        let demands = (0..program.tasks.len()).map(|task| oracle.demands(task)).collect();
        let exclusive = Arc::new(Exclusive::default());
        let mut nodes = vec![None; program.tasks.len()];
        nodes[0] = Some(Node::create(0, None, &[], &exclusive));
        let mut stages = vec![Stage::Unborn; program.tasks.len()];
        stages[0] = Stage::Runs { next_step: 0 };
        let (finished, combined) = Default::default();
        World { program, skipped, demands, stages, nodes, finished, combined, exclusive, log: Vec::new() }
    }

    fn node(&self, task: TaskNumber) -> &Node {
        // SAFETY: the world holds a reference until the task and its descendants are done.
        unsafe { self.nodes[task].expect("created").as_ref() }
    }

    fn is_done(&self, task: TaskNumber) -> bool {
        self.stages[task] == Stage::Finished && self.program.children(task).all(|child| self.is_done(child))
    }

    /// What can happen next: a ready task starts, or a running one goes on.
    fn movable(&self) -> Vec<TaskNumber> {
        let can_move = |task: &TaskNumber| match self.stages[*task] {
            Stage::Ready => true,
            Stage::Runs { next_step } => match self.program.tasks[*task].steps.get(next_step) {
                Some(Step::Taskwait) => self.spawned(*task, next_step).all(|child| self.is_done(child)),
                _ => true,
            },
            _ => false,
        };
        (0..self.stages.len()).filter(can_move).collect()
    }

    fn spawned(&self, task: TaskNumber, steps: usize) -> impl Iterator<Item = TaskNumber> + '_ {
        self.program.tasks[task].steps[..steps].iter().filter_map(|step| match step {
            Step::Spawn(child) => Some(*child),
            _ => None,
        })
    }

    fn advance(&mut self, task: TaskNumber) {
        let Stage::Runs { next_step } = self.stages[task] else {
            self.log.push(format!("start {task}"));
            let poisoned = self.node(task).poisoned.load(castell_base::sync::Ordering::Relaxed);
            assert_eq!(poisoned, self.skipped.contains(&task), "whether {task} is skipped");
            self.stages[task] = Stage::Runs { next_step: 0 };
            return;
        };
        let mut outcome = Collected::default();
        match self.program.tasks[task].steps.get(next_step) {
            Some(Step::Spawn(child)) => self.spawn(task, *child, &mut outcome),
            Some(Step::Taskwait) => {
                self.log.push(format!("taskwait {task}"));
                // SAFETY: on the only thread; all children are done.
                unsafe {
                    self.node(task).domain().children_done(self.node(task).accesses(), true, &mut outcome)
                };
            }
            Some(Step::Release(region)) => {
                self.log.push(format!("release {task} {region}"));
                self.finished.extend((region.start()..region.end()).map(|byte| (task, byte)));
                let node = self.node(task);
                // SAFETY: on the only thread, from the body.
                unsafe {
                    node.domain().release(node.accesses(), *region, &mut outcome);
                    engine::complete_part(node.accesses(), *region, &mut outcome);
                }
            }
            None => {
                self.finish(task, &mut outcome);
                return self.take(outcome);
            }
        }
        self.stages[task] = Stage::Runs { next_step: next_step + 1 };
        self.take(outcome);
    }

    fn spawn(&mut self, task: TaskNumber, child: TaskNumber, outcome: &mut Collected) {
        let declared: &[Access] = &self.program.tasks[child].accesses;
        self.log.push(format!("spawn {child} in {task}: {declared:?}"));
        let node = Node::create(child, self.nodes[task], declared, &self.exclusive);
        self.nodes[child] = Some(node);
        self.stages[child] = Stage::Waits;
        let parent = self.node(task);
        // SAFETY: on the only thread, from the parent's body; the accesses are disjoint.
        if declared.is_empty() || unsafe { parent.domain().register(parent.accesses(), node, outcome) } {
            outcome.ready.push(node);
        }
    }

    fn finish(&mut self, task: TaskNumber, outcome: &mut Collected) {
        self.log.push(format!("finish {task}"));
        self.stages[task] = Stage::Finished;
        for access in &self.program.tasks[task].accesses {
            self.finished.extend((access.region.start()..access.region.end()).map(|byte| (task, byte)));
        }
        let node = self.node(task);
        // SAFETY: once; the world still holds a reference.
        unsafe {
            let failed = self.program.tasks[task].fails || self.skipped.contains(&task);
            node.domain().close(node.accesses(), failed, outcome);
            engine::complete(node.accesses(), failed, outcome);
        }
    }

    fn take(&mut self, outcome: Collected) {
        for node in outcome.ready {
            // SAFETY: ready, so it has not finished.
            let task = unsafe { node.as_ref() }.number;
            assert_eq!(self.stages[task], Stage::Waits, "task {task} becomes ready a second time");
            self.stages[task] = Stage::Ready;
        }
        for (node, region) in outcome.combined {
            // SAFETY: the world keeps it.
            let task = unsafe { node.as_ref() }.number;
            for byte in region.start()..region.end() {
                for demand in Oracle::new(self.program).demands_of_combining(task, byte) {
                    assert!(
                        self.finished.contains(&demand),
                        "copy of {task} added before {demand:?} is finished"
                    );
                }
                assert!(self.combined.insert((task, byte)), "copy of {task} added twice");
            }
        }
    }

    /// Each task is ready exactly if the oracle allows it; commutative tasks may wait for their turn.
    fn compare(&self) {
        for task in 1..self.stages.len() {
            let allowed = self.demands[task].iter().all(|demand| self.finished.contains(demand));
            match self.stages[task] {
                Stage::Waits if allowed => {
                    let holder = (1..self.stages.len()).find(|other| self.excludes(*other, task));
                    assert!(holder.is_some(), "task {task} is late");
                }
                Stage::Ready => {
                    let missing: Vec<_> = self.demands[task]
                        .difference(&self.finished.iter().copied().collect())
                        .copied()
                        .collect();
                    assert!(allowed, "task {task} is early: {missing:?} not finished");
                    let holder = (1..self.stages.len()).find(|other| self.excludes(*other, task));
                    assert_eq!(holder, None, "task {task} started out of turn");
                }
                _ => {}
            }
        }
    }

    /// Whether `holder` uses bytes of a commutative access that `task` wants to have alone.
    fn excludes(&self, holder: TaskNumber, task: TaskNumber) -> bool {
        let has_started = !matches!(self.stages[holder], Stage::Unborn | Stage::Waits);
        if holder == task || !has_started || self.program.descends(task, holder) {
            return false;
        }
        let commutative = |task: TaskNumber| {
            let accesses = self.program.tasks[task].accesses.iter();
            accesses
                .filter(|access| !access.weak && access.kind == Kind::Commutative)
                .map(|access| access.region)
        };
        let bytes = |task| commutative(task).flat_map(|region| region.start()..region.end());
        bytes(task).any(|byte| bytes(holder).any(|held| held == byte) && !self.is_over(holder, byte))
    }

    /// Whether `task` and its descendants have finished with a byte.
    fn is_over(&self, task: TaskNumber, byte: usize) -> bool {
        let own = self.stages[task] == Stage::Finished || self.finished.contains(&(task, byte));
        own && self.program.children(task).all(|child| {
            self.program.access(child, byte).is_none()
                || self.stages[child] == Stage::Unborn
                || self.is_over(child, byte)
        })
    }

    /// Everything ran and nothing is left.
    fn end(&mut self) {
        for task in (0..self.stages.len()).filter(|task| self.program.exists(*task)) {
            assert_eq!(self.stages[task], Stage::Finished, "task {task} never ran");
            for access in self.program.tasks[task].accesses.iter().filter(|access| !access.weak) {
                if access.kind == Kind::Reduction {
                    for byte in access.region.start()..access.region.end() {
                        assert!(self.combined.contains(&(task, byte)), "copy of {task} was never added");
                    }
                }
            }
        }
        for node in std::mem::take(&mut self.nodes).into_iter().flatten() {
            // SAFETY: the world's own reference; it must be the last one.
            unsafe {
                assert_eq!(node.as_ref().references(), 1, "task {} is kept for ever", node.as_ref().number);
                end_references(node, 1);
            }
        }
    }
}

fn compare_with_oracle(seed: u64, limits: Limits) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let program = program(limits, &mut |below| random.random_range(0..below));
    let (program, skipped) = with_failures(&program);
    let mut world = World::new(&program, skipped);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        loop {
            world.compare();
            let movable = world.movable();
            if movable.is_empty() {
                break;
            }
            world.advance(movable[random.random_range(0..movable.len())]);
        }
        world.end();
    }));
    if let Err(panic) = result {
        eprintln!("seed {seed}, {limits:?}:\n{}", world.log.join("\n"));
        std::panic::resume_unwind(panic);
    }
}

const FLAT: Limits = Limits { tasks: 30, bytes: 4, grain: 2, depth: 1, reductions: false, failures: false };

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("CASTELL_SEEDS").ok().and_then(|count| count.parse().ok());
    0..count.unwrap_or(400)
}

#[test]
fn flat_programs_without_overlaps() {
    seeds().for_each(|seed| compare_with_oracle(seed, Limits { grain: 4, ..FLAT }));
}

#[test]
fn flat_programs_with_partial_overlaps() {
    seeds().for_each(|seed| compare_with_oracle(seed, Limits { bytes: 8, grain: 1, ..FLAT }));
}

#[test]
fn flat_programs_with_reductions() {
    seeds().for_each(|seed| compare_with_oracle(seed, Limits { reductions: true, ..FLAT }));
}

#[test]
fn nested_programs_without_overlaps() {
    seeds().for_each(|seed| compare_with_oracle(seed, Limits { grain: 4, depth: 3, ..FLAT }));
}

#[test]
fn nested_programs_with_all_there_is() {
    let limits = Limits { tasks: 40, bytes: 8, grain: 1, depth: 4, reductions: true, failures: false };
    seeds().for_each(|seed| compare_with_oracle(seed, limits));
}

#[test]
fn programs_some_of_whose_tasks_fail() {
    let flat = Limits { reductions: true, failures: true, bytes: 8, grain: 1, ..FLAT };
    seeds().for_each(|seed| compare_with_oracle(seed, flat));
    seeds().for_each(|seed| compare_with_oracle(seed, Limits { tasks: 40, depth: 4, ..flat }));
}
