//! Messages between ranks over TCP, behind the seam of transports.
//!
//! What this room does: links between pairs of ranks, made when they are first used, over which messages come once and in order
//! although connections break ([`link`]); proofs that both sides belong to the job before anything else is read ([`handshake`]);
//! versioned frames that are checked before they are used ([`frame`]); encryption, where it is asked for; and the transport over sockets and
//! an epoll ([`Tcp`]). What it refuses to do: `unsafe`, to block, threads. Who is dead it does not know better than the network does, unless somebody tells it ([`Tcp::is_gone`]).
//!
//! Start at [`link::Link`], the protocol without I/O; README.md beside this file has its states.
#![forbid(unsafe_code)]

pub mod address;
pub mod frame;
pub mod handshake;
pub mod link;

mod connections;
mod endpoint;
mod outbox;
mod socket;
mod tls;
mod transport;
mod wire;

pub use castell_host::clock::Clock;
pub use connections::Counters;
pub use endpoint::{TcpConnector, TcpEndpoint};
pub use handshake::Secret;
pub use link::Settings;
pub use transport::{Tcp, TcpError, TcpOptions};
