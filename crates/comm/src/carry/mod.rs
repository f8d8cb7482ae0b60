#![doc = include_str!("README.md")]

pub mod combiner;

#[cfg(not(loom))]
pub mod block;
#[cfg(not(loom))]
pub mod heap;
