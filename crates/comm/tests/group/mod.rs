//! A group of ranks that are threads of the test.
#![allow(dead_code, reason = "each test file uses its part")]

use castell_base::Rank;
use castell_comm::job::{Job, JobOptions, Progress};
use castell_comm::{Comm, Handle};
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use std::sync::Arc;

/// Runs `body` in `ranks` ranks and finalizes them, once for each way of progress.
pub fn group(ranks: u32, body: impl Fn(&Comm) + Sync) {
    for progress in [Progress::Thread, Progress::Peers] {
        group_with(&JobOptions { progress, ..JobOptions::new(ranks) }, &body);
    }
}

/// The same over a job of one's own choice.
pub fn group_with(options: &JobOptions, body: impl Fn(&Comm) + Sync) {
    let job = Job::create(options).expect("a job");
    std::thread::scope(|scope| {
        for rank in 0..options.ranks {
            let fd = job.fd().try_clone_to_owned().expect("a descriptor");
            let body = &body;
            scope.spawn(move || {
                let comm = Comm::join(Job::attach(fd).expect("the job"), Rank(rank));
                body(&comm);
                comm.finalize();
            });
        }
    });
}

/// Compiles and starts a graph. The caller keeps its buffers until the handle is done.
pub fn start(comm: &Comm, graph: &Graph) -> Handle {
    let schedule = Arc::new(graph.compile().expect("compiles"));
    // SAFETY: every test waits before its buffers go.
    unsafe { comm.run(&schedule) }.expect("starts")
}

/// The same without a run number.
pub fn start_open(comm: &Comm, graph: &Graph) -> Handle {
    let schedule = Arc::new(graph.compile().expect("compiles"));
    // SAFETY: every test waits before its buffers go.
    unsafe { comm.run_open(&schedule) }.expect("starts")
}

/// A buffer of the test as a place.
pub fn place(buffer: &mut [u8]) -> Place {
    Place::user(buffer.as_mut_ptr() as u64)
}

/// The seed of a random test: printed, and another one each time unless one is asked for.
pub fn seed() -> u64 {
    let asked = std::env::var("CASTELL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = asked.unwrap_or_else(|| castell_host::clock::now_ns() % 1_000_000);
    println!("seed {seed} (CASTELL_TEST_SEED repeats it)");
    seed
}

/// From here on the kernel does not let the other ranks read this one's memory, which is a process of its own.
pub fn lose_rights() {
    // SAFETY: no memory is passed.
    let outcome = unsafe {
        if libc::geteuid() == 0 {
            // The superuser may read everybody: becomes somebody else, who may not.
            libc::setresuid(65_534, 65_534, 65_534)
        } else {
            libc::prctl(libc::PR_SET_DUMPABLE, 0)
        }
    };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}
