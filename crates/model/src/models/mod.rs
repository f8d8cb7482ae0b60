//! The models, one file a family.

mod bsp;
mod lb;
mod logp;
mod plb;

pub use bsp::Bsp;
pub use lb::Lb;
pub use logp::{LogGops, LogGp, LogGps, LogP};
pub use plb::Plb;
