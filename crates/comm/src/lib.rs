//! comm: see ARCHITECTURE.md.

pub mod doorbell;
pub mod lane;
pub mod queue;
