//! An idle runtime uses no CPU: its threads sleep, and nothing wakes them.

use castell_tasks::Runtime;
use std::collections::BTreeMap;
use std::fs;
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

#[test]
fn idle_workers_do_not_run() {
    for scheduler in ["tree", "tree:fifo,pull=off", "central", "delegation"] {
        let runtime = Runtime::builder().workers(3).scheduler(scheduler).build().expect("threads start");
        assert_eq!(runtime.run(|_| 5).expect("nothing fails"), 5);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let before = turns();
            std::thread::sleep(Duration::from_millis(100));
            // Starting and the first looks after a task take some time, on a busy machine perhaps long.
            if before.len() == 3 && turns() == before {
                break;
            }
            assert!(Instant::now() < deadline, "{scheduler}: the workers never rest");
        }
    }
}
