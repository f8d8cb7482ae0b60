//! What programs see of the runtime.

pub mod builder;
pub mod context;
pub mod data;
pub(crate) mod environment;
pub mod foreign;
pub mod handle;
mod loops;
pub mod replay;
pub mod runtime;
pub mod team;
pub mod versions;
