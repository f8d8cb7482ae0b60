//! An idle runtime uses no CPU: its threads sleep, and nothing wakes them.

use castell_tasks::task::Attributes;
use castell_tasks::{Context, Next, Runtime, Wake};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often each of the workers' threads was given a processor.
fn turns() -> BTreeMap<String, String> {
    let threads = fs::read_dir("/proc/self/task").expect("/proc");
    let read = |entry: fs::DirEntry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let turns = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        name.starts_with("castell-").then(|| (entry.file_name().to_string_lossy().into_owned(), turns))
    };
    threads.flatten().filter_map(read).collect()
}

/// One at a time: the threads are counted.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn idle_workers_do_not_run() {
    let _alone = ALONE.lock();
    for scheduler in ["tree", "tree:fifo,pull=off", "central", "delegation"] {
        let runtime = Runtime::builder().workers(3).scheduler(scheduler).build().expect("threads start");
        assert_eq!(runtime.run(|_| 5).expect("nothing fails"), 5);
        rest(3, scheduler);
    }
}

/// Each creates the next one and ends.
fn line(context: &Context<'_>, left: u64) {
    if left > 0 {
        let next = move |context: &Context<'_>| line(context, left - 1);
        // SAFETY: it accesses nothing.
        unsafe { context.submit_raw(Attributes::NONE, &[], next) };
    }
}

/// One of them watched while tasks were created alone.
#[test]
fn idle_workers_do_not_watch_either() {
    let _alone = ALONE.lock();
    let runtime = Runtime::builder().workers(9).build().expect("threads start");
    for _ in 0..5 {
        runtime.run(|context| line(context, 20_000)).expect("nothing fails");
        rest(9, "after a line of tasks");
    }
}

/// Waits until none of `count` threads has had a processor for a tenth of a second.
fn rest(count: usize, who: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let before = turns();
        std::thread::sleep(Duration::from_millis(100));
        if before.len() == count && turns() == before {
            return;
        }
        assert!(Instant::now() < deadline, "{who}: {count} threads never rest: {before:?}");
    }
}

#[test]
fn services_that_wait_for_something_do_not_run_either() {
    let _alone = ALONE.lock();
    let runtime = Runtime::builder().workers(2).build().expect("threads start");
    let (read, write) = std::io::pipe().expect("a pipe");
    let (service, calls) = (read.try_clone().expect("a copy"), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&calls);
    let services = [
        runtime.register_service(Wake::Readable(service.into()), move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Next::Again
        }),
        // Once an hour is as good as never here.
        runtime.register_service(Wake::Every(Duration::from_secs(3600)), || Next::Again),
    ]
    .map(|service| service.expect("a thread starts"));
    assert_eq!(runtime.run(|_| 5).expect("nothing fails"), 5);
    // The two workers and the thread that sleeps for the services.
    rest(3, "with services");
    let before = calls.load(Ordering::Relaxed);
    rest(3, "with services");
    assert_eq!(calls.load(Ordering::Relaxed), before, "nothing is asked while nothing comes");
    drop((services, read, write));
}
