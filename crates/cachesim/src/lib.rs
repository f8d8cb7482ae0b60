//! What a program's memory accesses mean for caches, in virtual time.
//!
//! Start at [`distance`]: the stack reuse distance of each access of a trace, exact or sampled. [`histogram`] counts distances in
//! buckets, [`curve`] reads the miss ratio of every cache size off them. [`machine`] runs [`programs`] on a chip whose cores share a
//! cache and a memory link. This room knows blocks only: it observes no program, reads no clock and knows no real machine.
#![forbid(unsafe_code)]

pub mod curve;
pub mod distance;
mod front;
pub mod histogram;
pub mod machine;
mod marks;
pub mod programs;
pub mod sampled;
mod table;
pub mod trace;

pub use curve::MissRatioCurve;
pub use distance::StackDistances;
pub use histogram::Histogram;
pub use sampled::Sampled;
