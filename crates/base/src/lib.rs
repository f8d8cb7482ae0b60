//! What every room shares: ids, virtual time, random numbers, and the facade that swaps std's atomics for loom's.
//!
//! This room does no I/O, reads no clock and knows nothing of graphs. Start at [`Rank`], [`Time`], [`random`] and
//! [`sync`].

mod ids;
pub mod random;
pub mod sync;
mod time;

pub use ids::{Rank, Tag};
pub use time::{PerByte, QuantityError, Time};
