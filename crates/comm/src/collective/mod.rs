//! Collective calls: every operation of MPI, blocking, non-blocking and persistent, through one path.
//!
//! A [`Call`] says what a rank wants. A [`Communicator`](crate::Communicator) makes it: it looks in its cache for an
//! instance of the same call (`instance`: a graph of `castell_collectives`, compiled), or makes one by the algorithm that
//! `choice` names, and runs it as the next call of its context. [`board`] is where ranks see that they called different
//! things. [`operator`] and `kernels` have the types and how they are reduced.

pub mod board;
#[cfg(not(loom))]
mod cache;
#[cfg(not(loom))]
mod call;
#[cfg(not(loom))]
mod choice;
#[cfg(not(loom))]
pub(crate) mod error;
#[cfg(not(loom))]
pub(crate) mod instance;
mod kernels;
#[cfg(not(loom))]
pub(crate) mod layout;
pub mod operator;
#[cfg(not(loom))]
mod request;

#[cfg(not(loom))]
pub(crate) use cache::Cache;
#[cfg(not(loom))]
pub use cache::Counts;
#[cfg(not(loom))]
pub use call::{Call, Complex, Element, Found, Layout, Neighbourhood, RawCall};
#[cfg(not(loom))]
pub(crate) use call::{Count, Span};
pub use castell_collectives::operation::Operation;
#[cfg(not(loom))]
pub use error::{CallError, Reason};
pub use operator::{Custom, DataType, Located, Reduction};
#[cfg(not(loom))]
pub use request::{CallScope, Pending, Persistent, RawRequest, Request};

pub(crate) use operator::operator_name;

/// The name of the type of elements with this code; `None`: they count as bytes.
fn element_name(code: u8) -> Option<&'static str> {
    DataType::from_code(code).map(DataType::name)
}
