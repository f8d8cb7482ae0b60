//! Collective calls: every operation of MPI, blocking, non-blocking and persistent, through one path.
//!
//! A [`Call`] says what a rank wants. A [`Communicator`](crate::Communicator) makes it: it looks in its cache for an
//! instance of the same call (`instance`: a graph of `castell_collectives`, compiled), or makes one by the algorithm that
//! `choice` names, and runs it as the next call of its context. [`castell_engine::board`] is where ranks see that they
//! called different things. [`operator`] and `kernels` have the types and how they are reduced.

mod cache;
mod call;
pub(crate) mod choice;
pub(crate) mod error;
pub(crate) mod instance;
mod kernels;
pub(crate) mod layout;
pub mod operator;
pub(crate) mod record;
mod request;
mod segments;

pub(crate) use cache::Cache;
pub use cache::Counts;
pub use call::{Call, Complex, Element, Found, Layout, Neighbourhood, RawCall};
pub(crate) use call::{Count, Span};
pub use castell_collectives::operation::Operation;
pub use error::{CallError, Reason};
pub use operator::{Custom, DataType, Located, Reduction};
pub use request::{CallScope, Pending, Persistent, RawRequest, Request};
