//! Which jobs share a node.
//!
//! [`Jobs`] are programs with instances, [`Slowdowns`] say how much each suffers beside each. [`count`] counts all ways to put
//! jobs on nodes of two slots without listing them; [`place`] finds one, by rule or the best.

mod blossom;
pub mod count;
mod dual;
mod error;
mod grouping;
mod jobs;
mod natural;
mod optimum;
mod place;
pub mod queue;
mod slowdowns;
mod split;
pub mod survey;
mod transport;

pub use error::Error;
pub use jobs::{Jobs, Program};
pub use natural::Natural;
pub use place::{Group, Nodes, Outcome, Placement, Proof, Rule, place, slowdown_of};
pub use slowdowns::Slowdowns;
pub use split::{Curve, Share, shares};
pub use survey::{Subset, Survey};
