//! What groups of ranks call together: every collective operation of MPI, blocking, non-blocking and persistent.
//!
//! [`communicator`] has the groups, [`collective`] what they call, [`pool`] buffers that large calls need not copy. Start at
//! [`Communicator`]. The graphs come from `castell_collectives`, and [`castell_engine`] runs them.
//! This room knows nothing of messages and of launchers.

pub mod collective;
pub mod communicator;
pub mod pool;

use castell_base::Rank;
use castell_engine::Process;
use castell_engine::board::Record;
use castell_shm::job::{Job, JobError, JobOptions};
use castell_shm::watch::Watch;
pub use communicator::Communicator;

/// Joins a job as `rank`, see [`Process::join`].
///
/// # Errors
/// Each rank is joined by exactly one process, once.
pub fn join(job: Job, rank: Rank, watch: Option<Watch>) -> Result<Process, JobError> {
    Process::join(job, rank, watch, collective::record::describe)
}

/// Says in words what a collective call was, as it stands in a journal.
pub fn describe_call(words: &[u64; 6]) -> String {
    let [a, b, c, d, e, f] = *words;
    collective::record::describe(&Record::from_words([a, b, c, d, e, f, 0]))
}

/// This process as a group of one.
///
/// # Errors
/// No memory.
pub fn alone() -> Result<Process, JobError> {
    join(Job::create(&JobOptions::new(1))?, Rank(0), None)
}
