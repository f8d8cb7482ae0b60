//! Messages between ranks over raw Ethernet frames, behind the seam of transports.
//!
//! What this room does: gives the protocol of `castell-esp` packet sockets, a clock and ranks. Each rank has a port of its host's cards, and a
//! filter in the kernel that lets its own frames through only; the job's secret makes the key of their tags and the number of the
//! communicator. One connection a pair of ranks, made when something is sent first, by the card that answers first where there are several;
//! a message is a header and its payload in the stream.
//! What it refuses to do: `unsafe`, to block, threads. Ranks of one host do not reach each other by it: a card does not hear itself.
//!
//! Start at [`Esp`]; the protocol is in `castell-esp`.
#![forbid(unsafe_code)]

mod address;
mod card;
mod endpoint;
mod links;
mod transport;

pub use address::{CARDS_MAX, CardAt, Reach, from_bytes, to_bytes};
pub use endpoint::{EspConnector, EspEndpoint};
pub use links::{Dropped, Report};
pub use transport::{Esp, EspError, EspOptions, SOCKETS_VARIABLE, sockets};
