//! What a task with versions costs beside one with a single body: empty bodies, one after the other (a chain) and all at once.
//!
//! `cargo run --release -p castell-tasks --example versions [TASKS [ROUNDS]]`; a daemon is asked if one is found (`CASTELL_DAEMON`).

use castell_tasks::data::Data;
use castell_tasks::{Context, LeafKind, Runtime};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let (tasks, rounds) = (numbers.first().copied().unwrap_or(10_000), numbers.get(1).copied().unwrap_or(7));
    let alone = || Runtime::builder().workers(1).device(LeafKind::ACCELERATOR, ());
    let runtimes = [("decided here", alone().daemon(None).build()?), ("with a daemon", alone().build()?)];
    println!("ns a task, medians of {rounds} rounds of {tasks}");
    for (name, runtime) in &runtimes {
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            for (way, times) in times.iter_mut().enumerate() {
                let begin = Instant::now();
                runtime.run(|context| round(context, tasks, way % 2 == 1, way >= 2))?;
                times.push(begin.elapsed().as_nanos() as usize / tasks);
            }
        }
        let median = |times: &mut Vec<usize>| {
            times.sort_unstable();
            times[times.len() / 2]
        };
        let [plain, versions, chain, chain_of_versions] = times.each_mut().map(median);
        println!(
            "{name}: at once: one body {plain}, two versions {versions}; in a chain: {chain} and {chain_of_versions}"
        );
    }
    Ok(())
}

/// Creates tasks, with versions or without, in a chain or not.
fn round(context: &Context<'_>, tasks: usize, has_versions: bool, is_chain: bool) {
    let cell = Data::new(0_u64);
    for _ in 0..tasks {
        let task = context.task().label("empty");
        match (has_versions, is_chain) {
            (false, false) => task.submit((), |_, ()| ()),
            (false, true) => task.submit(cell.write(), |_, _| ()),
            (true, false) => {
                let versions = task.versions(()).version(LeafKind::CPU, |_, ()| ());
                versions.version(LeafKind::ACCELERATOR, |_, ()| ()).submit();
            }
            (true, true) => {
                let versions = task.versions(cell.write()).version(LeafKind::CPU, |_, _| ());
                versions.version(LeafKind::ACCELERATOR, |_, _| ()).submit();
            }
        }
    }
    context.taskwait().expect("nothing fails");
}
