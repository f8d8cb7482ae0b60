//! What programs that share a last-level cache and a memory link do to each other.
//!
//! Start at [`class`]: classes N, C and S from the bytes that flow towards the core, with the way to the answer, how sure it is and
//! what would change it. [`scn`] predicts slowdowns from classes, [`sharing`] from miss-ratio curves and bandwidths; [`errors`] tells how well,
//! and [`estimate`] what paired measurements say. [`learn`] is fed with what is seen day by day, and predicts from that.
//! This room sees measured quantities only ([`profile`]). It measures nothing, reads no file and no clock; where the
//! quantities come from (counters, reuse distances, a simulated machine) is its callers' business.
#![forbid(unsafe_code)]

pub mod class;
pub mod errors;
pub mod estimate;
pub mod learn;
mod normal;
pub mod phases;
pub mod profile;
pub mod scn;
pub mod sharing;
pub mod simulated;

pub use class::{Class, Decision, Readings, Thresholds};
pub use errors::Errors;
pub use estimate::Estimate;
pub use profile::{Behaviour, BesideProbe, Host, Pair, Profile};
pub use scn::Scn;
