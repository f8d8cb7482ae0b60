//! The models, one file a family.

mod bsp;
mod lb;
mod logfp;
mod logp;
mod lop;
mod plb;

pub use bsp::{Bsp, Work};
pub use lb::Lb;
pub use logfp::LogfP;
pub use logp::{LogGops, LogGp, LogGps, LogP};
pub use lop::Lop;
pub use plb::{Plb, largest_useful_fan_out, optimal_fan_out};
