//! Who shares a node with whom, and when: decisions as pure functions of what is known about jobs and nodes.
//!
//! Start at [`placement`]: which jobs are put together on a node, by rule or by a proved optimum, and what all ways to do it
//! would give; and at [`session`]: several programs in one allocation. This room starts nothing, reads no clock and asks no scheduler: the same code decides on the command line, in a
//! simulation and in a daemon.
#![forbid(unsafe_code)]

pub mod placement;
pub mod session;
