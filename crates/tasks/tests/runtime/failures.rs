//! Random programs some of whose tasks fail, on the runtime: exactly those run that should, and every wait that should hear of
//! a failure does, with the label of a task that failed below it.

use castell_deps::oracle::random::{Limits, program};
use castell_deps::oracle::{Program, Step, TaskNumber, with_failures};
use castell_tasks::dependences::Declaration;
use castell_tasks::task::Attributes;
use castell_tasks::{Context, Runtime, TaskError};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

struct World {
    /// Without what skipped tasks would have done.
    program: Program,
    skipped: BTreeSet<TaskNumber>,
    labels: Vec<&'static str>,
    ran: Mutex<BTreeSet<TaskNumber>>,
}

impl World {
    fn new(seed: u64, limits: Limits) -> World {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let program = program(limits, &mut |below| random.random_range(0..below));
        let (program, skipped) = with_failures(&program);
        let label = |task| &*Box::leak(format!("task {task}").into_boxed_str());
        let labels = (0..program.tasks.len()).map(label).collect();
        World { program, skipped, labels, ran: Mutex::default() }
    }

    fn body(self: &Arc<World>, context: &Context<'_>, task: TaskNumber) {
        self.ran.lock().unwrap().insert(task);
        let plan = &self.program.tasks[task];
        let mut unheard = Vec::new();
        for step in &plan.steps {
            match step {
                Step::Spawn(child) => {
                    self.spawn(context, *child);
                    unheard.push(*child);
                }
                Step::Taskwait => self.check(context.taskwait(), &std::mem::take(&mut unheard)),
                // SAFETY: the body touches nothing, and its children no more than the program says.
                Step::Release(region) => unsafe {
                    context
                        .release(declaration(&castell_deps::Access::weak(castell_deps::Kind::In, *region)));
                },
            }
        }
        if plan.fails {
            context.fail("as planned");
        }
    }

    fn spawn(self: &Arc<World>, context: &Context<'_>, task: TaskNumber) {
        let plan = &self.program.tasks[task];
        let declared: Vec<_> = plan.accesses.iter().map(declaration).collect();
        let world = Arc::clone(self);
        let attributes = Attributes { label: self.labels[task], ..Attributes::NONE };
        // SAFETY: the body touches nothing.
        unsafe { context.submit_raw(attributes, &declared, move |context| world.body(context, task)) };
    }

    /// What a wait for these tasks, and for all below them, says.
    fn check(&self, result: Result<(), TaskError>, waited_for: &[TaskNumber]) {
        let mut failed = BTreeSet::new();
        waited_for.iter().for_each(|task| self.collect_unheard(*task, &mut failed));
        let skipped = failed.iter().all(|task| self.skipped.contains(task));
        match result {
            Ok(()) => assert!(failed.is_empty(), "nobody heard that {failed:?} failed"),
            Err(TaskError::Failed { label, .. }) => {
                let named =
                    failed.iter().any(|task| self.labels[*task] == label && !self.skipped.contains(task));
                assert!(named, "`{label}` is none of {failed:?}");
            }
            Err(TaskError::Skipped { label }) => {
                assert!(skipped, "`{label}` was only skipped, but among {failed:?} some failed");
                assert!(
                    failed.iter().any(|task| self.labels[*task] == label),
                    "`{label}` is none of {failed:?}"
                );
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The tasks from here downwards that failed or were skipped, and of which no wait below heard.
    fn collect_unheard(&self, task: TaskNumber, failed: &mut BTreeSet<TaskNumber>) {
        let plan = &self.program.tasks[task];
        if plan.fails || self.skipped.contains(&task) {
            failed.insert(task);
        }
        let waits = plan.steps.iter().rposition(|step| *step == Step::Taskwait);
        for step in &plan.steps[waits.map_or(0, |at| at + 1)..] {
            if let Step::Spawn(child) = step {
                self.collect_unheard(*child, failed);
            }
        }
    }
}

fn declaration(access: &castell_deps::Access) -> Declaration {
    Declaration {
        start: 0x1000 + access.region.start(),
        length: access.region.length(),
        kind: access.kind,
        weak: access.weak,
        reduction: access.reduction.0,
    }
}

fn run(runtime: &Runtime, seed: u64, limits: Limits) {
    println!("seed {seed}, {limits:?}");
    let world = Arc::new(World::new(seed, limits));
    let inside = Arc::clone(&world);
    let result = runtime.run(move |context| inside.body(context, 0));
    let mut failed = BTreeSet::new();
    world.collect_unheard(0, &mut failed);
    assert_eq!(result.is_err(), !failed.is_empty(), "{result:?}, but {failed:?} failed");
    let should_run = (0..world.program.tasks.len())
        .filter(|task| world.program.exists(*task) && !world.skipped.contains(task))
        .collect();
    assert_eq!(*world.ran.lock().unwrap(), should_run);
}

#[test]
fn failures_reach_the_waits_and_nobody_else() {
    let flat = Limits { tasks: 30, bytes: 8, grain: 1, depth: 1, reductions: true, failures: true };
    let nested = Limits { tasks: 60, depth: 4, ..flat };
    let runtime = Runtime::builder().workers(3).build().expect("threads start");
    for seed in 0..200 {
        run(&runtime, seed, flat);
        run(&runtime, seed, nested);
    }
    assert_eq!(runtime.run(|_| 7).expect("still usable"), 7);
}
