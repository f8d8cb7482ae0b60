//! comm: see ARCHITECTURE.md.

pub mod bootstrap;
pub mod doorbell;
pub mod lane;
pub mod queue;
