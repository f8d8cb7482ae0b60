//! Messages between ranks over HPC networks, by libfabric, behind the seam of transports.
//!
//! What this room does: loads libfabric when a rank asks for it, takes a provider by what it can do ([`offers`]), and carries messages
//! and one-sided operations over its reliable endpoints ([`Fabric`]). Whoever sends has to prove that it knows the job's secret before anything of it
//! is heard, and every frame after that carries a tag that only the two ranks can make. What a provider lacks is done otherwise, and said.
//! What it refuses to do: to block, threads. It encrypts nothing. It knows no provider by name.
//!
//! Start at [`Fabric`]; README.md beside this file has the states of a path.

mod abi;
mod address;
mod endpoint;
mod frame;
mod hello;
mod hidden;
mod library;
mod links;
mod offers;
mod onesided;
mod outbox;
mod peer;
mod port;
mod transport;

pub use address::describe;
pub use endpoint::{FabricConnector, FabricEndpoint};
pub use hidden::Hidden;
pub use library::{LIBRARY_VARIABLE, LibraryError};
pub use links::{Counters, Settings};
pub use offers::{Offer, OfferError, Reach, Wish, library_version, offers};
pub use transport::{Fabric, FabricError, FabricOptions, Taken};
