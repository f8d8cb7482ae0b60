//! The ways between this rank and the others, as the rest of this folder sees them: hand a message over or be refused, wake who
//! sleeps. What is behind a way is a transport's affair.

use super::peer::Peer;
use castell_base::Rank;
use castell_shm::{Job, Shm, address_of};
#[cfg(test)]
use castell_transport::faults::{Faults, Faulty};
use castell_transport::{Connector, Endpoint, Header, Transport, Urgency};
use std::sync::Arc;

/// What carries messages.
#[cfg(not(test))]
pub(crate) type Port = Shm;
/// The same with faults around it, which tests of this room ask for.
#[cfg(test)]
pub(crate) type Port = Faulty<Shm>;

/// The rank's end of it.
///
/// # Safety
/// See [`Shm::attach`].
pub(crate) unsafe fn attach(job: &Arc<Job>, me: Rank) -> Port {
    // SAFETY: the caller's promise.
    let port = unsafe { Shm::attach(Arc::clone(job), me) };
    #[cfg(test)]
    let port = Faults::new(0, Default::default()).wrap(me, port);
    port
}

/// The same with faults.
///
/// # Safety
/// See [`Shm::attach`].
#[cfg(test)]
pub(crate) unsafe fn attach_to(job: &Arc<Job>, me: Rank, faults: &Faults) -> Port {
    // SAFETY: the caller's promise.
    faults.wrap(me, unsafe { Shm::attach(Arc::clone(job), me) })
}

/// What makes ways.
pub(super) type Connections = <Port as Transport>::Connector;

/// The way to one other rank.
pub(super) struct Way {
    endpoint: <Port as Transport>::Endpoint,
    next_send: u32,
}

impl Way {
    pub(super) fn new(connections: &mut Connections, rank: Rank) -> Way {
        let endpoint = connections.connect(rank, &address_of(rank));
        Way { endpoint: endpoint.unwrap_or_else(|error| panic!("{error}")), next_send: 0 }
    }

    /// Much will be sent this way.
    pub(super) fn expect_traffic(&mut self) {
        self.endpoint.expect_traffic();
    }

    /// Hands a message over; false if there is no room now. Nothing is reordered: the receiver sorts by sequence.
    #[inline]
    pub(super) fn try_send(&mut self, header: &mut Header, payload: &[u8]) -> bool {
        header.sequence = self.next_send;
        header.bytes = payload.len() as u32;
        match self.endpoint.try_send(header, payload) {
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
        self.endpoint.answered();
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
            if peer.way.endpoint.flush(urgency) {
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
