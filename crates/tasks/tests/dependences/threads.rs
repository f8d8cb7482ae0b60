//! Random programs with a thread for each ready task: nobody starts early, no update is lost, everybody runs, nothing is left.

use crate::node::{Collected, Node, end_references};
use castell_base::sync::{AtomicBool, Ordering};
use castell_deps::Kind;
use castell_deps::oracle::random::{Limits, program};
use castell_deps::oracle::{Demands, Oracle, Program, Step, TaskNumber, with_failures};
use castell_tasks::dependences::engine;
use castell_tasks::dependences::{Dependent as _, Exclusive};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::Scope;

struct World<'p> {
    /// Without what skipped tasks would have done.
    program: &'p Program,
    skipped: BTreeSet<TaskNumber>,
    bytes: usize,
    demands: Vec<Demands>,
    /// By task and byte.
    finished: Vec<AtomicBool>,
    /// How many tasks wrote each byte: plain memory, so that a missing order can show.
    written: Vec<UnsafeCell<u32>>,
    ended: Mutex<Vec<bool>>,
    one_more: Condvar,
    exclusive: Arc<Exclusive<Node>>,
}

// SAFETY: the plain memory is what the accesses under test protect.
unsafe impl Sync for World<'_> {}

/// A node on its way to the thread that runs it.
struct Sent(NonNull<Node>);

// SAFETY: nodes can be looked at from any thread.
unsafe impl Send for Sent {}

impl<'p> World<'p> {
    fn new(program: &'p Program, skipped: BTreeSet<TaskNumber>, bytes: usize) -> Self {
        let mut oracle = Oracle::new(program);
        let count = program.tasks.len();
        World {
            program,
            skipped,
            bytes,
            demands: (0..count).map(|task| oracle.demands(task)).collect(),
            finished: (0..count * bytes).map(|_| AtomicBool::new(false)).collect(),
            written: (0..bytes).map(|_| UnsafeCell::new(0)).collect(),
            ended: Mutex::new(vec![false; count]),
            one_more: Condvar::new(),
            exclusive: Arc::default(),
        }
    }

    fn run<'s>(&'s self, scope: &'s Scope<'s, '_>, node: Sent) {
        scope.spawn(move || self.body(scope, node));
    }

    fn run_all<'s>(&'s self, scope: &'s Scope<'s, '_>, outcome: Collected) {
        outcome.ready.into_iter().for_each(|node| self.run(scope, Sent(node)));
    }

    fn body<'s>(&'s self, scope: &'s Scope<'s, '_>, node: Sent) {
        let Sent(pointer) = node;
        // SAFETY: a reference of the world's own keeps it until it and its descendants are done.
        let node = unsafe { pointer.as_ref() };
        let task = node.number;
        for (before, byte) in &self.demands[task] {
            let flag = &self.finished[before * self.bytes + byte];
            assert!(
                flag.load(Ordering::Relaxed),
                "task {task} starts before {before} has finished with byte {byte}"
            );
        }
        let skipped = self.skipped.contains(&task);
        assert_eq!(node.poisoned.load(Ordering::Relaxed), skipped, "whether {task} is skipped");
        self.write(task);
        let mut children = Vec::new();
        for step in &self.program.tasks[task].steps {
            let mut outcome = Collected::default();
            match step {
                Step::Spawn(child) => {
                    let declared = &self.program.tasks[*child].accesses;
                    let new = Node::create(*child, Some(pointer), declared, &self.exclusive);
                    children.push(*child);
                    // SAFETY: from the parent's body; the accesses are disjoint.
                    let mut register =
                        || unsafe { node.domain().register(node.accesses(), new, &mut outcome) };
                    if declared.is_empty() || register() {
                        self.run(scope, Sent(new));
                    }
                }
                Step::Taskwait => {
                    self.wait_for(&children);
                    // SAFETY: from the body; no child is live.
                    unsafe { node.domain().children_done(node.accesses(), true, &mut outcome) };
                }
                Step::Release(region) => {
                    self.note_finished(task, region.start()..region.end());
                    // SAFETY: from the body.
                    unsafe {
                        node.domain().release(node.accesses(), *region, &mut outcome);
                        engine::complete_part(node.accesses(), *region, &mut outcome);
                    }
                }
            }
            self.run_all(scope, outcome);
        }
        let mut outcome = Collected::default();
        for access in &self.program.tasks[task].accesses {
            self.note_finished(task, access.region.start()..access.region.end());
        }
        // SAFETY: once, after the body.
        unsafe {
            let failed = skipped || self.program.tasks[task].fails;
            node.domain().close(node.accesses(), failed, &mut outcome);
            engine::complete(node.accesses(), failed, &mut outcome);
        }
        self.run_all(scope, outcome);
        self.end(task, pointer);
    }

    fn note_finished(&self, task: TaskNumber, bytes: std::ops::Range<usize>) {
        bytes.for_each(|byte| self.finished[task * self.bytes + byte].store(true, Ordering::Relaxed));
    }

    fn writes(&self, task: TaskNumber) -> impl Iterator<Item = usize> + '_ {
        let alone = |kind| matches!(kind, Kind::Out | Kind::InOut | Kind::Commutative);
        let accesses = self.program.tasks[task].accesses.iter();
        accesses
            .filter(move |access| !access.weak && alone(access.kind))
            .flat_map(|access| access.region.start()..access.region.end())
    }

    fn write(&self, task: TaskNumber) {
        for byte in self.writes(task) {
            // SAFETY: the task declared the byte; its children, which may write too, are not there yet.
            unsafe { *self.written[byte].get() += 1 };
        }
    }

    /// The body of `task` has ended; ends the world's reference to each task that is done with all its descendants.
    fn end(&self, task: TaskNumber, node: NonNull<Node>) {
        self.ended.lock().expect("no panic")[task] = true;
        self.one_more.notify_all();
        // Descendants look at their ancestors, so this waits for them.
        self.wait_for(&self.program.children(task).collect::<Vec<_>>());
        // SAFETY: the world's own.
        unsafe { end_references(node, 1) };
    }

    fn wait_for(&self, children: &[TaskNumber]) {
        let ended = self.ended.lock().expect("no panic");
        let done = |ended: &Vec<bool>| children.iter().all(|child| self.is_done(ended, *child));
        drop(self.one_more.wait_while(ended, |ended| !done(ended)).expect("no panic"));
    }

    fn is_done(&self, ended: &[bool], task: TaskNumber) -> bool {
        ended[task] && self.program.children(task).all(|child| self.is_done(ended, child))
    }
}

fn run(seed: u64, limits: Limits) {
    println!("seed {seed}, {limits:?}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let program = program(limits, &mut |below| random.random_range(0..below));
    let (program, skipped) = with_failures(&program);
    let world = World::new(&program, skipped, limits.bytes);
    std::thread::scope(|scope| {
        let root = Node::create(0, None, &[], &world.exclusive);
        world.body(scope, Sent(root));
    });
    for byte in 0..limits.bytes {
        let expected = (0..program.tasks.len())
            .filter(|task| program.exists(*task))
            .flat_map(|task| world.writes(task))
            .filter(|found| *found == byte)
            .count();
        // SAFETY: all threads have ended.
        assert_eq!(unsafe { *world.written[byte].get() } as usize, expected, "byte {byte} lost a write");
    }
    // The table of turns is all that still knows of the nodes' type: each node had a share in it.
    assert_eq!(Arc::strong_count(&world.exclusive), 1, "some node was never freed");
}

#[test]
fn flat_programs_on_threads() {
    (0..150).for_each(|seed| {
        run(seed, Limits { tasks: 40, bytes: 4, grain: 2, depth: 1, reductions: true, failures: false })
    });
}

#[test]
fn nested_overlapping_programs_on_threads() {
    (0..150).for_each(|seed| {
        run(seed, Limits { tasks: 40, bytes: 8, grain: 1, depth: 4, reductions: true, failures: false })
    });
}

#[test]
fn failing_programs_on_threads() {
    let limits = Limits { tasks: 40, bytes: 8, grain: 1, depth: 4, reductions: true, failures: true };
    (0..150).for_each(|seed| run(seed, limits));
}
