//! What happens to a node from outside.

use crate::collection::{CollectionId, Kernels};
use crate::node::ResourceId;
use std::sync::Arc;

/// Something that happens to a node, from which its keeper's decisions follow: the same inputs at the same times, with the same
/// strategies, give the same [events](crate::Event).
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A collection is registered.
    Register {
        /// Whose.
        application: Arc<str>,
        /// What can run where.
        kernels: Arc<Kernels>,
        /// In how many steps.
        steps: u32,
    },
    /// A collection is taken over that runs already, with what is left of its steps. Nothing is decided by that; several may follow
    /// each other.
    Adopt {
        /// Whose.
        application: Arc<str>,
        /// What can run where.
        kernels: Arc<Kernels>,
        /// How many steps are left, with the one that runs.
        steps: u32,
        /// Where it runs.
        on: ResourceId,
    },
    /// The step that ran on a resource has ended.
    Ended(ResourceId),
    /// A collection's application has gone.
    Withdraw(CollectionId),
    /// The governor has another level.
    Governor(String),
    /// A sensor says something else.
    Sensor(String, f64),
    /// A tick, if one is due.
    Tick,
}
