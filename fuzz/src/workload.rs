//! What has to hold for any bytes that are given as a workload of sessions: the fuzz target asserts it, and so does a quick test of
//! `castell-policy`.

use castell_policy::session::simulate::{Speed, run};
use castell_policy::session::workload::{TIME_MAX_MS, Workload};
use castell_policy::session::{Cluster, Policy, Rules, Shape};

const POLICIES: [Policy; 5] =
    [Policy::Wait, Policy::Surpass, Policy::Overbook, Policy::Sidestep, Policy::GiveWay];
/// Larger workloads are only read.
const SIMULATED_MAX: usize = 64;

/// A workload is refused or read; what is read is in order and within bounds, and under every policy each session ends or is
/// refused.
pub fn any_workload(bytes: &[u8]) {
    let Ok(workload) = Workload::read(bytes, "fuzz") else { return };
    assert!(workload.jobs.is_sorted_by_key(|job| job.submit_ms));
    assert!(workload.jobs.iter().all(|job| job.submit_ms < TIME_MAX_MS && job.run_ms < TIME_MAX_MS));
    let mut printed = String::new();
    workload.write_swf(&mut printed).expect("strings can be written");
    if workload.jobs.len() > SIMULATED_MAX {
        return;
    }
    let shape = Shape { sockets: 1, cores: 4, threads: 2, memory_bytes: 1 << 30 };
    let cluster = Cluster::uniform(2, shape).expect("there is something to run on");
    for policy in POLICIES {
        let outcome = run(&workload, &cluster, &Rules::new(policy), &Speed::default(), 16, &mut |_| {});
        let refused = |job| outcome.refused.iter().any(|(refused, _)| *refused == job);
        for (job, fate) in outcome.fates.iter().enumerate() {
            let (submit_ms, run_ms) = (workload.jobs[job].submit_ms, workload.jobs[job].run_ms);
            match fate.start_ms {
                Some(start_ms) => {
                    let in_order = submit_ms <= start_ms && start_ms + run_ms <= fate.end_ms;
                    assert!(in_order, "{policy:?}, session {job}: {fate:?}");
                }
                None => assert!(refused(job), "{policy:?}: session {job} never starts"),
            }
        }
    }
}
