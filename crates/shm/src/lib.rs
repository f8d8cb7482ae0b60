//! The memory that the ranks of a job share, and the protocols that live in it.
//!
//! One module a protocol: [`queue`] (where messages land), [`ring`] (dedicated rings for known pairs), [`slot`] (places for the
//! messages of small blocking calls), [`doorbell`] (who sleeps and who wakes it), [`rendezvous`] (large messages), [`peer_progress`]
//! (the lock of runs that any process may carry on), [`board`] (what each rank has called), [`pool`] (memory that all ranks can
//! read). [`path`] has queue, rings and doorbell as a transport. [`group`] has the ranks, [`ways`] what leads from whom to whom, and [`job`] the segment that all this lies in: start there.
//! This room knows nothing of runs, schedules and communicators, and starts no process.

pub mod board;
#[cfg(not(loom))]
pub mod cma_probe;
pub mod doorbell;
#[cfg(not(loom))]
pub mod group;
#[cfg(not(loom))]
pub mod job;
#[cfg(not(loom))]
pub mod oversubscription;
#[cfg(not(loom))]
pub mod path;
pub mod peer_progress;
#[cfg(not(loom))]
pub mod pool;
pub mod queue;
pub mod rendezvous;
pub mod ring;
pub mod slot;
#[cfg(not(loom))]
pub mod tuning;
#[cfg(not(loom))]
pub mod watch;
#[cfg(not(loom))]
pub mod ways;

#[cfg(not(loom))]
pub use job::Job;
#[cfg(not(loom))]
pub use path::{Shm, ShmConnector, ShmEndpoint, address_of};
