//! What every room shares: ids, and the facade that swaps std's atomics for loom's.
//!
//! This room does no I/O, reads no clock and knows nothing of graphs. Start at [`Rank`] and [`sync`].

mod ids;
pub mod sync;

pub use ids::{Rank, Tag};
