//! Shared links: where messages wait for one another between their ranks.
//!
//! The head of a message goes from link to link of its route. At each link messages are served in the order in which
//! their heads reach it; where heads come at the same time, in the machine's order of ties. A link is taken for as long
//! as all bytes need to pass it, and the head goes on after the link's latency (cut-through: a message does not wait
//! until it is stored). Links have room for whatever waits for them, so nothing backs up into links before.
//!
//! A network adds to what the model says: the head enters the first link when the sender's processor lets go of the
//! message (with models that keep it busy until the arrival: then), and from the last link on the rest of the model's
//! latency passes. Bytes are paid for once: by the model, and beyond that only as far as the slowest link of the route
//! needs longer for them. Set the model's L (α, α_p) to 0 to have all latency in the links.

use castell_base::{Rank, Time};
use castell_model::topology::Topology;
use std::collections::HashMap;

/// A network of directed links, as the engine sees it.
pub trait Network: Send + Sync {
    /// How many directed links there are.
    fn links(&self) -> usize;
    /// How many ranks have a place.
    fn ranks(&self) -> u32;
    /// The links from one rank to another, in order.
    fn route(&self, from: Rank, to: Rank) -> Vec<u32>;
    /// How long the head of a message takes over a link.
    fn latency(&self, link: u32) -> Time;
    /// How long a link is taken by that many bytes.
    fn transfer(&self, link: u32, bytes: u64) -> Time;
}

impl Network for Topology {
    fn links(&self) -> usize {
        Topology::links(self)
    }

    fn ranks(&self) -> u32 {
        Topology::ranks(self)
    }

    fn route(&self, from: Rank, to: Rank) -> Vec<u32> {
        Topology::route(self, from, to)
    }

    fn latency(&self, link: u32) -> Time {
        Topology::latency(self, link)
    }

    fn transfer(&self, link: u32, bytes: u64) -> Time {
        Topology::transfer(self, link, bytes)
    }
}

/// The state of all links.
pub(crate) struct Traffic<'a> {
    network: &'a dyn Network,
    free: Vec<Time>,
    known: HashMap<(Rank, Rank), Vec<u32>>,
}

/// A message's way over one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub link: u32,
    /// When its head gets onto the link.
    pub enters: Time,
    /// Until when the message takes it.
    pub until: Time,
    /// When its head is at the other end.
    pub leaves: Time,
}

/// So many routes are kept; more are looked up anew.
const ROUTES_KEPT: usize = 1 << 20;

impl<'a> Traffic<'a> {
    pub fn new(network: &'a dyn Network) -> Traffic<'a> {
        Traffic { network, free: vec![Time::ZERO; network.links()], known: HashMap::new() }
    }

    /// A head that has `hops` links behind it goes over the next one; `None` at the end of its route.
    pub fn pass(&mut self, from: Rank, to: Rank, hops: u32, bytes: u64, now: Time) -> Option<Passage> {
        let link = *self.route(from, to).get(hops as usize)?;
        let free = &mut self.free[link as usize];
        let enters = now.max(*free);
        let until = enters + self.network.transfer(link, bytes);
        *free = until;
        Some(Passage { link, enters, until, leaves: enters + self.network.latency(link) })
    }

    /// How long the slowest link of the route takes for all bytes.
    pub fn slowest(&mut self, from: Rank, to: Rank, bytes: u64) -> Time {
        let network = self.network;
        let links = self.route(from, to).iter();
        links.map(|&link| network.transfer(link, bytes)).max().unwrap_or(Time::ZERO)
    }

    fn route(&mut self, from: Rank, to: Rank) -> &[u32] {
        if self.known.len() >= ROUTES_KEPT {
            self.known.clear();
        }
        let network = self.network;
        self.known.entry((from, to)).or_insert_with(|| network.route(from, to))
    }
}
