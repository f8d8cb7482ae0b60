//! Collectives in which ranks that share a host first come to terms among themselves, and one of each host (its leader) with the leaders
//! of the others: few messages cross the network, however many ranks a host has.
//!
//! [`Shape::placement`](super::Shape::placement) says who shares a host. Without it as many consecutive ranks do as
//! [`Shape::ways`](super::Shape::ways) says, and one more.

mod blocks;
mod levels;
mod parts;
mod reduce;
mod tree;

pub(super) use blocks::{allgather, allgather_ring, alltoall, broadcast, broadcast_split, gather, scatter};
pub(super) use reduce::{allreduce, allreduce_split, barrier, exscan, reduce, reduce_scatter, scan};
