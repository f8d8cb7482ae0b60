//! Ranks that are threads of this process, a module for each matter. What starts processes, counts allocations or changes what the
//! process is has a program of its own beside this one.

mod ahead;
mod calls;
mod carried;
mod communicators;
mod engine;
mod folded;
#[path = "../group/mod.rs"]
mod group;
#[path = "../oracle/mod.rs"]
mod oracle;
mod pattern;
mod pool;
mod programs;
mod random;
mod sends_first;
mod started;
mod sums;
mod threads;
