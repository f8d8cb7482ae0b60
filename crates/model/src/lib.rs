//! Cost models: how long a message or a step takes, as exact functions of a few parameters.
//!
//! What this room does: it holds the models' parameters ([`Model`] and a struct a model), reads and prints them, and
//! evaluates closed formulas. What it refuses to do: it executes no program (that is the simulator's), does no I/O and
//! reads no clock.
//!
//! Start reading at [`Model`]; then [`LogGops`] and [`Plb`], the two that are used most, and [`ClosedForms`] for what can
//! be computed from them.
//!
//! ```
//! use castell_base::Time;
//! use castell_model::Model;
//!
//! let model = Model::parse("loggops:L=2500ns,o=1us")?;
//! let Model::LogGops(loggops) = &model else { unreachable!() };
//! assert_eq!(loggops.overhead, Time::from_ns(1000));
//! assert_eq!(loggops.latency + loggops.overhead, Time::from_ns(3500));
//! // What is printed reads as the same model.
//! assert_eq!(Model::parse(&model.to_string())?, model);
//! # Ok::<(), castell_model::ModelError>(())
//! ```

#![forbid(unsafe_code)]

mod by_count;
mod by_size;
pub mod clocks;
mod closed_forms;
mod error;
pub mod fit;
mod lambert;
mod levels;
mod model;
mod models;
pub mod noise;
mod parameters;
pub mod statistics;
mod toml;
pub mod topology;

pub use by_count::ByCount;
pub use by_size::{BySize, Table};
pub use closed_forms::{ClosedForms, Tree};
pub use error::ModelError;
pub use levels::Levels;
pub use model::Model;
pub use models::{
    Bsp, Lb, LogGops, LogGp, LogGps, LogP, LogfP, Lop, Plb, Work, largest_useful_fan_out, optimal_fan_out,
};
