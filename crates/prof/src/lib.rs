//! What a program does to the machine's caches and memory, watched from outside.
//!
//! Start at [`distances`]: the stack reuse distances of an unmodified program; [`counters`] are the processor's, around one. [`profile`]
//! makes flows, classes and phases of either. [`caches`] are the machine's; a [`binary`] is known by its content.
//! This room starts programs and watches them. It judges nothing: what the numbers mean for a cache is `cachesim`'s.
#![forbid(unsafe_code)]

pub mod binary;
pub mod caches;
pub mod counters;
mod descendants;
pub mod distances;
pub mod kept;
pub mod prints;
pub mod probe;
pub mod profile;
pub mod slowdown;
