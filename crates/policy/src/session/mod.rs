//! Sessions inside one allocation: several parallel programs, started one after another in the same set of slots.
//!
//! A state machine without clock and I/O: an event goes in ([`Scheduler::handle`]), what has to be done comes out. The simulator,
//! the command line and whoever else decides about sessions drive this one. What it refuses to do: carry decisions out, or know
//! how far a session is. Policies after Clauss, Moschny and Eicker, "Dynamic process management with allocation-internal
//! co-scheduling towards interactive supercomputing" (COSH 2016).
//!
//! [`resources`](Cluster) says what there is, `request` what is asked and answered, [`Rules`] what is decided by; `occupancy` counts
//! slots and memory and finds places, `turns` says who is next, `backfill` lets others go first, `holders` knows whose slots can be had,
//! `preempt` suspends and continues, `sidestep` pins, `company` keeps those apart that would slow each other too much. What people do to their sessions meanwhile is in `steer`, what these come to need in `needs`, what becomes of them under
//! another policy in `succession`, why one waits in `explain`, what outlives whoever decides in `saved`, and how
//! sessions are taken over of which nothing has in `adopt`.

mod adopt;
mod backfill;
mod company;
mod explain;
mod foreseen;
mod holders;
mod needs;
mod occupancy;
mod predicted;
mod preempt;
pub mod protocol;
mod record;
mod request;
mod resources;
mod rules;
mod saved;
mod scheduler;
mod sidestep;
pub mod simulate;
mod steer;
mod succession;
mod turns;
mod users;
pub mod workload;

pub use adopt::Adopted;
pub use company::Hindrance;
pub use explain::{Explanation, Holding};
pub use foreseen::{Foreseen, NoSlowdown, Slowdown};
pub use record::State;
pub use request::{Decision, Event, Needs, Refused, Request, SessionId};
pub use resources::{Cluster, ClusterError, Level, NodeId, Placement, SLOTS_MAX, Shape, Slot};
pub use rules::{NoPolicy, Policy, Rules};
pub use saved::{NotRestored, Saved};
pub use scheduler::Scheduler;
