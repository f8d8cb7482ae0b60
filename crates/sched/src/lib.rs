//! Which ready task runs where and when: queue policies, thresholds and the decisions of the scheduler's tree.
//!
//! What this room does: it decides, on plain data, in the order in which it is asked, the same every time for the same
//! seed. What it refuses to do: threads, clocks, memory. `castell-tasks` takes the same decisions concurrently;
//! [`simulate()`] takes them in virtual time over a described machine.
//!
//! Start at [`Tree`] for the design of the thesis (M. Marí, "Improving the scheduler of the OmpSs-2 runtime", UPC 2018,
//! called *the paper* here), at [`Central`] for its baseline, at [`Options`] for what can be switched.
#![forbid(unsafe_code)]

mod central;
mod error;
mod options;
pub mod places;
mod probability;
pub mod program;
mod queue;
pub mod ready;
mod scheduler;
pub mod simulate;
mod threshold;
mod topology;
pub mod tree;
pub mod versions;

pub use central::Central;
pub use error::SchedError;
pub use options::{Design, Options};
pub use probability::Probability;
pub use queue::{QueuePolicy, ReadyQueue};
pub use ready::{Effect, Node, Ready};
pub use scheduler::AnyScheduler;
pub use simulate::simulate;
pub use threshold::{Threshold, ThresholdPolicy, doubled, grant_count, halved, overflow_count};
pub use topology::{Kind, LEAVES_MAX, LeafId, Topology};
pub use tree::Tree;
