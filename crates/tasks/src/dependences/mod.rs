//! Finds what must wait for what, from the bytes that tasks say they access.
//!
//! A parent's [`Domain`] knows the accesses of its children; only the parent's body registers children in it. Each access
//! carries the automaton of `castell-deps` in one atomic word; `delivery.rs` carries messages from access to access and does
//! what the automaton asks for. Registering and completing an access to a region that is not split takes no lock and no
//! allocation; splitting one takes a lock and memory for its pieces. The protocol is described in `README.md` beside this file.
//!
//! The engine knows tasks only through [`Dependent`]; how it serves this crate's tasks is in `of_tasks.rs`.

mod access;
mod aside;
mod delivery;
mod dependent;
mod domain;
mod exclusive;
#[cfg(all(test, loom))]
mod interleavings;
mod lock;
#[cfg(not(loom))]
mod of_tasks;
mod pieces;

pub use dependent::{Dependent, EXCLUSIVE, Outcome};
pub use exclusive::Exclusive;
#[cfg(not(loom))]
pub use of_tasks::{
    Access, Declaration, Domain, children_done, complete, descendants_done, dispose, register, release,
};

#[cfg(not(loom))]
pub(crate) use of_tasks::{complete_plain, held_up, is_settled, settled};

pub use castell_deps::Kind;

/// The parts of the engine, for tasks of any type.
pub mod engine {
    pub use super::access::Access;
    pub use super::delivery::{complete, complete_part};
    pub use super::dependent::{PIECES_ALIGN, free_chunk};
    pub use super::domain::Domain;
}
