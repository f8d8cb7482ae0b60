//! Data that tasks share, safe without `unsafe`: who declares an access gets a guard for exactly that.
//!
//! - [`Data`] owns a value. The task that first uses it owns it from then on; its children may access it, in the order
//!   in which they are created. Nobody else may until the owner is done.
//! - [`Part`] is what a child may be given: the whole, or a range of it. A part makes *requests*
//!   ([`Part::read`], [`Part::write`], ...), which are passed to [`Context::submit`](crate::Context::submit).
//! - The child's body gets *guards* for its requests: [`Read`], [`Write`], ... A guard lives no longer than the body.
//! - A body passes on what it was given: [`Read::part`] while it goes on reading, [`Write::lend`] where children write;
//!   [`Weak`] guards have no other use. So a child's accesses always lie inside its parent's.

mod guard;
mod list;
mod reduce;
mod request;
mod storage;
mod turns;

pub use guard::{Held, Lent, Read, Shared, Weak, Write};
pub use list::{Accesses, Declarations};
pub use reduce::{And, Elements, Max, Min, Or, Private, Product, Reducing, Reduction, Sum, Xor};
pub use request::{Part, ReadOnly, ReadWrite, Request, mode};
pub use storage::Data;
pub use turns::{Combine, KeepsTurns, Turn, Turns};
