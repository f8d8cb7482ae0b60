//! Programs for calls whose messages lie in slots ([`castell_shm::slot`] has the protocol).

pub mod bounce;
pub mod certificate;
mod fused;
mod multicast;
pub mod program;
mod zero_copy;

pub use castell_shm::slot::*;
