//! What every room shares: ids, virtual time, random numbers, threads and memory that a caller lends, loops for wide vectors, and
//! the facade that swaps std's atomics for loom's.
//!
//! This room does no I/O, reads no clock and knows nothing of graphs. Start at [`Rank`], [`Time`], [`random`] and
//! [`sync`].

mod ids;
mod memory;
mod mixed;
mod moment;
pub mod random;
pub mod sync;
mod threads;
mod time;
mod vectors;
mod words;

pub use ids::{Rank, Tag};
pub use memory::Lent;
pub use mixed::Mixed;
pub use moment::Moment;
pub use threads::{Job, OwnThread, Threads};
pub use time::{PerByte, QuantityError, Time};
pub use vectors::Vectors;
pub use words::counted;
