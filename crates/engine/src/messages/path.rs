//! The ways between this rank and the others, as the rest of this folder sees them: hand a message over or be refused, wake who
//! sleeps. What is behind a way is a transport's affair.

use super::network::{Network, NetworkConnections, NetworkWay};
use super::peer::Peer;
use castell_base::Rank;
use castell_shm::job::JobError;
use castell_shm::{Job, Shm, address_of};
#[cfg(test)]
use castell_transport::faults::{Faults, Faulty};
use castell_transport::{Connector, Endpoint, Events, Header, Transport, Urgency};
use std::sync::Arc;

/// What carries messages where ranks share memory.
#[cfg(not(test))]
type Shared = Shm;
/// The same with faults around it, which tests of this room ask for.
#[cfg(test)]
type Shared = Faulty<Shm>;

/// The rank's end of what carries messages.
pub(crate) struct Port {
    shm: Shared,
    /// Beside it or in its place, where some ranks don't share memory.
    network: Option<Box<Network>>,
}

/// The rank's end of it.
///
/// # Safety
/// See [`Shm::attach`].
///
/// # Errors
/// The job is one over a network, and this rank cannot take part.
pub(crate) unsafe fn attach(job: &Arc<Job>, me: Rank) -> Result<Port, JobError> {
    // SAFETY: the caller's promise.
    let shm = unsafe { Shm::attach(Arc::clone(job), me) };
    #[cfg(test)]
    let shm = Faults::new(0, Default::default()).wrap(me, shm);
    let network = job.is_networked().then(|| Network::join(job, me)).transpose()?;
    Ok(Port { shm, network: network.map(Box::new) })
}

/// The same with faults.
///
/// # Safety
/// See [`Shm::attach`].
#[cfg(test)]
pub(crate) unsafe fn attach_to(job: &Arc<Job>, me: Rank, faults: &Faults) -> Port {
    // SAFETY: the caller's promise.
    Port { shm: faults.wrap(me, unsafe { Shm::attach(Arc::clone(job), me) }), network: None }
}

impl Port {
    pub(crate) fn connections(&mut self) -> Connections {
        match &mut self.network {
            None => Connections::Shm(self.shm.connector()),
            Some(network) => Connections::Both(self.shm.connector(), network.connections()),
        }
    }

    #[inline]
    pub(crate) fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        match &mut self.network {
            None => self.shm.poll(budget, events),
            Some(network) => network.poll_with(&mut self.shm, budget, events),
        }
    }

    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        match &self.network {
            None => self.shm.has_news(),
            Some(network) => network.has_news() || network.has_neighbours() && self.shm.has_news(),
        }
    }

    /// Before a thread of this rank sleeps on its doorbell, and before it looks for news a last time.
    #[inline]
    pub(crate) fn arm(&mut self) {
        if let Some(network) = &mut self.network {
            network.arm();
        }
    }

    /// Whether somebody has to look after what comes also while nothing is wanted: peers take silence for death.
    #[inline]
    pub(crate) fn is_network(&self) -> bool {
        self.network.is_some()
    }

    /// Whether others get what was sent also if this rank does not look for a while.
    #[inline]
    pub(crate) fn owes_nothing(&self) -> bool {
        self.network.as_ref().is_none_or(|network| network.owes_nothing())
    }

    /// This rank sends nothing any more.
    pub(crate) fn leave(&mut self, events: &mut impl Events) {
        if let Some(network) = &mut self.network {
            network.leave(events);
        }
    }
}

/// What makes ways.
pub(crate) enum Connections {
    Shm(<Shared as Transport>::Connector),
    /// To ranks that share memory, and to others.
    Both(<Shared as Transport>::Connector, NetworkConnections),
}

impl Connections {
    /// The longest message over the network, if there is one.
    pub(crate) fn far_bytes(&self) -> Option<usize> {
        match self {
            Connections::Shm(_) => None,
            Connections::Both(_, network) => Some(network.message_bytes_max()),
        }
    }
}

/// Where a way ends. Nothing is known of it before it is used.
enum End {
    Shm(<Shared as Transport>::Endpoint),
    Network(Box<NetworkWay>),
}

/// The way to one other rank.
pub(super) struct Way {
    end: End,
    next_send: u32,
}

impl Way {
    pub(super) fn new(connections: &mut Connections, rank: Rank) -> Way {
        let end = match connections {
            Connections::Both(_, network) if !network.shares_memory(rank) => {
                End::Network(Box::new(network.connect(rank)))
            }
            Connections::Shm(shm) | Connections::Both(shm, _) => {
                let endpoint = shm.connect(rank, &address_of(rank));
                End::Shm(endpoint.unwrap_or_else(|error| panic!("{error}")))
            }
        };
        Way { end, next_send: 0 }
    }

    /// Much will be sent this way.
    pub(super) fn expect_traffic(&mut self) {
        if let End::Shm(endpoint) = &mut self.end {
            endpoint.expect_traffic();
        }
    }

    /// Hands a message over; false if there is no room now. Nothing is reordered: the receiver sorts by sequence.
    #[inline]
    pub(super) fn try_send(&mut self, header: &mut Header, payload: &[u8]) -> bool {
        header.sequence = self.next_send;
        header.bytes = payload.len() as u32;
        let sent = match &mut self.end {
            End::Shm(endpoint) => endpoint.try_send(header, payload),
            End::Network(way) => way.try_send(header, payload),
        };
        match sent {
            Ok(()) => {
                self.next_send = self.next_send.wrapping_add(1);
                true
            }
            Err(_) => false,
        }
    }

    /// As after so many messages.
    pub(super) fn grow_old(&mut self, messages: u32) {
        self.next_send = messages;
    }

    /// The peer has answered.
    #[inline]
    pub(super) fn answered(&mut self) {
        if let End::Shm(endpoint) = &mut self.end {
            endpoint.answered();
        }
    }

    /// Sees to it that the peer learns of what was sent; false: call again.
    #[inline]
    fn flush(&mut self, urgency: Urgency) -> bool {
        match &mut self.end {
            End::Shm(endpoint) => endpoint.flush(urgency),
            End::Network(way) => way.flush(),
        }
    }
}

/// How often a sender that goes looks whether a receiver comes to its bell by itself: shorter than waking it takes.
const LOOKS_BEFORE_RINGING: u32 = 8;

/// Ranks that were sent something since their doorbells were last looked at.
pub(super) struct Bells {
    unrung: Vec<Rank>,
    /// Of each rank.
    states: Box<[Bell]>,
    /// Whether [`Bells::ring`] lets progress threads sleep for now: it will be called again soon.
    rings_later: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bell {
    Rung,
    Unrung,
    /// This rank waits until that one takes something of it.
    Pressed,
}

impl Bells {
    pub(super) fn new(ranks: u32) -> Bells {
        Bells { unrung: Vec::new(), states: vec![Bell::Rung; ranks as usize].into(), rings_later: false }
    }

    /// Something was sent to the rank: its doorbell is to be looked at before this thread does anything else for long.
    ///
    /// Not at once: the look needs a full memory barrier, which waits until the message's line is here, and a receiver
    /// that is awake does not depend on it.
    #[inline(always)]
    pub(super) fn touch(&mut self, rank: Rank) {
        if self.states[rank.index()] == Bell::Rung {
            self.states[rank.index()] = Bell::Unrung;
            self.unrung.push(rank);
        }
    }

    /// The same where this rank waits until that one takes something of it.
    pub(super) fn press(&mut self, rank: Rank) {
        self.touch(rank);
        self.states[rank.index()] = Bell::Pressed;
    }

    /// Whether [`Bells::ring`] is called again soon.
    #[inline]
    pub(super) fn put_off(&mut self, rings_later: bool) {
        self.rings_later = rings_later;
    }

    /// Wakes those who sleep and were sent something.
    #[inline]
    pub(super) fn ring(&mut self, peers: &mut [Option<Box<Peer>>]) {
        if !self.unrung.is_empty() {
            self.ring_touched(peers);
        }
    }

    #[inline(never)]
    fn ring_touched(&mut self, peers: &mut [Option<Box<Peer>>]) {
        let mut at = 0;
        while let Some(rank) = self.unrung.get(at) {
            let state = &mut self.states[rank.index()];
            let urgency = Urgency { again_soon: self.rings_later, presses: *state == Bell::Pressed };
            let peer = peers[rank.index()].as_deref_mut().expect("who was sent something was met");
            if peer.way.flush(urgency) {
                *state = Bell::Rung;
                self.unrung.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Nobody calls [`Bells::ring`] soon: wakes progress threads, too, after one more look whether their applications come
    /// back by themselves.
    #[inline]
    pub(super) fn ring_finally(&mut self, peers: &mut [Option<Box<Peer>>]) {
        let mut looks = 0;
        self.rings_later = true;
        while !self.unrung.is_empty() && looks < LOOKS_BEFORE_RINGING {
            self.ring(peers);
            looks += 1;
            std::hint::spin_loop();
        }
        self.rings_later = false;
        self.ring(peers);
    }
}
