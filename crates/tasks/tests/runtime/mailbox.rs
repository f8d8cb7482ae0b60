//! Another process takes workers away and gives them back through the mailbox, while tasks run.

use castell_host::mailbox::Agent;
use castell_tasks::workers::WorkerId;
use castell_tasks::{Context, LeafKind, Runtime};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn ask(agent: &Agent, take: &[u32], give: &[u32]) -> Vec<bool> {
    let request = agent.ask(take, give).expect("there are such workers");
    agent.wait(request, PATIENCE).expect("an answer");
    agent.workers().iter().map(|state| state.enabled).collect()
}

fn tree(context: &Context<'_>, depth: u32, run: &'static AtomicU64) {
    run.fetch_add(1, Ordering::Relaxed);
    if depth > 0 {
        (0..2).for_each(|_| context.submit((), move |context, ()| tree(context, depth - 1, run)));
        if depth.is_multiple_of(4) {
            context.taskwait().expect("nothing fails");
        }
    }
}

#[test]
fn what_is_asked_for_happens_and_the_last_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cpus");
    let builder = || Runtime::builder().workers(3).device(LeafKind::ACCELERATOR, ()).mailbox(&path);
    let runtime = builder().build().expect("threads start");
    let agent = Agent::open(&path).expect("a mailbox");
    assert_eq!(agent.owner(), std::process::id());
    let kinds: Vec<u8> = agent.workers().iter().map(|state| state.place.kind).collect();
    assert_eq!(kinds, [0, 0, 0, 1]);
    assert_eq!(ask(&agent, &[0, 2], &[]), [false, true, false, true]);
    let status =
        |runtime: &Runtime| runtime.workers().iter().map(|status| status.enabled).collect::<Vec<_>>();
    assert_eq!(status(&runtime), [false, true, false, true]);
    assert_eq!(ask(&agent, &[1, 3], &[]), [false, true, false, true], "the last of their kinds");
    assert_eq!(agent.refusals(), 2);
    assert_eq!(ask(&agent, &[1], &[2]), [false, false, true, true], "given first, then taken");
    // What the program does itself is seen.
    runtime.enable_worker(WorkerId(0)).expect("a thread");
    assert!(agent.workers()[0].wanted && agent.workers()[0].enabled);
    assert!(builder().build().is_err_and(|error| error.to_string().contains("path of its own")));
    assert_eq!(runtime.run(|_| 5).expect("runs"), 5);
    drop(runtime);
    assert!(!path.exists() && agent.wait(agent.ask(&[0], &[]).expect("a worker"), PATIENCE).is_err());
}

#[test]
fn no_task_is_lost_whatever_is_asked_for() {
    let seed = 11;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cpus");
    let runtime = &Runtime::builder().workers(4).mailbox(&path).build().expect("threads start");
    let agent = Agent::open(&path).expect("a mailbox");
    let (run, over): (&'static AtomicU64, _) = (Box::leak(Box::default()), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..8 {
                runtime.run(|context| tree(context, 10, run)).expect("nothing fails");
            }
            over.store(true, Ordering::Release);
        });
        while !over.load(Ordering::Acquire) {
            let (take, give) = (random.random_range(0..4), random.random_range(0..4));
            let enabled = ask(&agent, &[take], &[give]);
            assert!(enabled.contains(&true), "seed {seed}: nobody is left");
        }
    });
    assert_eq!(run.load(Ordering::Relaxed), 8 * ((1 << 11) - 1), "seed {seed}");
}
