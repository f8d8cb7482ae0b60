//! Starts the processes of a job and watches them ([`launch`]); finds the group of a process that was started by castell, by
//! an MPI launcher or by nobody ([`bootstrap`]); finds the jobs that run here ([`jobs`]).
//!
//! This room knows nothing of messages and runs: what it hands over is a place in a group and the file of its segment.

pub mod bootstrap;
pub mod hosts;
pub mod jobs;
pub mod launch;
