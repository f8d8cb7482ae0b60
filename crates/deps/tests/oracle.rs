//! The oracle against what a sequential run says, on random programs: whatever would give a byte another value is ordered, and
//! nothing is ordered without a conflict.

use castell_deps::oracle::random::{Limits, program};
use castell_deps::oracle::{Demands, Oracle, Program, TaskNumber};
use castell_deps::{Access, Kind};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Whether two accesses to a byte may happen in any order or at once.
fn agree(one: &Access, other: &Access) -> bool {
    one.groups_with(other)
}

/// All that has happened when a task starts: what it demands, what its creators demanded, and so on from there.
fn history(program: &Program, demands: &[Demands], task: TaskNumber) -> Demands {
    let mut all = Demands::new();
    let mut left = vec![task];
    while let Some(task) = left.pop() {
        left.extend(program.tasks[task].parent);
        for finished in &demands[task] {
            if all.insert(*finished) {
                left.push(finished.0);
            }
        }
    }
    all
}

/// Whether no access on the way from one task to the other, both below the same parent at some level, leaves the byte out.
fn connected(program: &Program, task: TaskNumber, byte: usize, other: TaskNumber) -> bool {
    let mut at = task;
    loop {
        if program.access(at, byte).is_none() {
            return false;
        }
        let Some(parent) = program.tasks[at].parent else { return true };
        if parent == 0 || program.descends(other, parent) {
            return true;
        }
        at = parent;
    }
}

fn random_program(seed: u64, reductions: bool) -> Program {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let limits = Limits { tasks: 30, bytes: 6, grain: 1, depth: 3, reductions, failures: false };
    program(limits, &mut |below| random.random_range(0..below))
}

/// Whether an ancestor's strong access already keeps the two apart or lets them go together by its own kind.
fn kinds_between(program: &Program, task: TaskNumber, byte: usize, other: TaskNumber) -> Vec<Access> {
    let mut kinds = Vec::new();
    let mut at = task;
    while at != 0 && !program.descends(other, at) {
        kinds.extend(program.access(at, byte).copied());
        at = program.tasks[at].parent.unwrap_or(0);
    }
    kinds
}

#[test]
fn conflicting_tasks_are_ordered_as_in_a_sequential_run() {
    let mut pairs = 0;
    for seed in 0..300 {
        println!("seed {seed}");
        let program = random_program(seed, false);
        let mut oracle = Oracle::new(&program);
        let demands: Vec<Demands> = (0..program.tasks.len()).map(|task| oracle.demands(task)).collect();
        for late in 1..program.tasks.len() {
            let history = history(&program, &demands, late);
            for early in 1..late {
                if program.descends(late, early) {
                    continue; // a parent's body and its children share by contract
                }
                for byte in 0..6 {
                    let (Some(one), Some(other)) = (program.access(early, byte), program.access(late, byte))
                    else {
                        continue;
                    };
                    let joined =
                        connected(&program, early, byte, late) && connected(&program, late, byte, early);
                    // Inside a group, the parents' kind says that order does not matter.
                    let apart = kinds_between(&program, early, byte, late).iter().all(|above| {
                        kinds_between(&program, late, byte, early).iter().all(|beside| !agree(above, beside))
                    });
                    if !one.weak && !other.weak && !agree(one, other) && joined && apart {
                        assert!(
                            history.contains(&(early, byte)),
                            "byte {byte}: {late} does not wait for {early}"
                        );
                        pairs += 1;
                    }
                }
            }
        }
    }
    assert!(pairs > 1000, "{pairs} pairs are too few to say something");
}

#[test]
fn nothing_is_ordered_without_a_conflict() {
    for seed in 0..300 {
        println!("seed {seed}");
        let program = random_program(seed, false);
        let mut oracle = Oracle::new(&program);
        for task in 1..program.tasks.len() {
            for (before, byte) in oracle.demands(task) {
                assert!(before < task && !program.descends(task, before));
                let (Some(one), Some(other)) = (program.access(before, byte), program.access(task, byte))
                else {
                    panic!(
                        "{task} waits for {before} because of byte {byte}, which one of them does not touch"
                    );
                };
                assert!(!agree(one, other), "{task} waits for {before} of the same group");
            }
        }
    }
}

#[test]
fn copies_of_reductions_are_added_in_the_order_of_creation() {
    for seed in 0..300 {
        println!("seed {seed}");
        let program = random_program(seed, true);
        let mut oracle = Oracle::new(&program);
        for task in 1..program.tasks.len() {
            let siblings: Vec<_> = program.children(program.tasks[task].parent.unwrap_or(0)).collect();
            for access in program.tasks[task].accesses.iter().filter(|access| access.kind == Kind::Reduction)
            {
                let byte = access.region.start();
                let demands = oracle.demands_of_combining(task, byte);
                for earlier in siblings.iter().take_while(|sibling| **sibling != task) {
                    if program.access(*earlier, byte).is_some() {
                        assert!(demands.contains(&(*earlier, byte)), "{task} is combined before {earlier}");
                    }
                }
            }
        }
    }
}
