//! Ranks that reach each other over a network: what the job's memory knows of them, told to the transport, and whoever sleeps on the
//! rank's doorbell woken by it.

use super::carrier::{Carrier, CarrierConnector, CarrierEndpoint};
use castell_base::Rank;
use castell_frames::Report;
use castell_host::watcher::Watcher;
use castell_shm::job::{Job, JobError, RankState};
use castell_transport::{Address, Down, Events, Header, Refused, Transport};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a rank that leaves waits until all know, and have taken what it sent.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks meanwhile.
const LEAVE_PAUSE: Duration = Duration::from_micros(100);

/// The rank's end of the network.
pub(super) struct Network {
    carrier: Carrier,
    watcher: Watcher,
    job: Arc<Job>,
    me: Rank,
    has_neighbours: bool,
    /// Of the job's memory: who has gone by then was noticed.
    epoch_seen: u32,
    /// By rank: its end was noticed there.
    noticed: Box<[bool]>,
}

impl Network {
    pub(super) fn join(job: &Arc<Job>, me: Rank) -> Result<Network, JobError> {
        let refuse = |error: &dyn std::fmt::Display| JobError::Network(format!("rank {me}: {error}"));
        let carrier = Carrier::join(job, me).map_err(|error| refuse(&error))?;
        let shared = Arc::clone(job);
        let watcher = Watcher::new(carrier.epoll(), move || {
            shared.control(me).doorbell.ring();
        });
        let watcher = watcher.map_err(|error| refuse(&error))?;
        job.publish_net_address(me, &carrier.address().0);
        let noticed = vec![false; job.ranks() as usize].into();
        let has_neighbours = (0..job.ranks()).map(Rank).any(|rank| rank != me && job.share_memory(me, rank));
        Ok(Network { carrier, watcher, job: Arc::clone(job), me, has_neighbours, epoch_seen: 0, noticed })
    }

    /// Whether some ranks are reached through shared memory.
    pub(super) fn has_neighbours(&self) -> bool {
        self.has_neighbours
    }

    /// What comes by both ways.
    pub(super) fn poll_with(
        &mut self,
        shm: &mut impl Transport,
        budget: usize,
        events: &mut impl Events,
    ) -> usize {
        let mut told = 0;
        if self.has_neighbours {
            let mut neighbours = Neighbours { events, job: &self.job, me: self.me };
            told += shm.poll(budget, &mut neighbours);
        }
        told + self.poll(budget, events)
    }

    pub(super) fn connections(&mut self) -> NetworkConnections {
        let message_bytes_max = self.carrier.message_bytes_max();
        let (carrier, job) = (self.carrier.connector(), Arc::clone(&self.job));
        NetworkConnections { carrier, message_bytes_max, job, me: self.me }
    }

    pub(super) fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        if self.job.epoch() != self.epoch_seen {
            self.note_departures();
        }
        let told = self.carrier.poll(budget, events);
        while let Some((rank, report)) = self.carrier.report() {
            self.note_way(rank, &report);
        }
        told
    }

    /// What became of the way to a rank, for whoever asks the job's memory, and for people.
    #[cold]
    fn note_way(&self, rank: Rank, report: &Report) {
        match report {
            Report::By(own, theirs) => self.job.note_cards(self.me, rank, *own, *theirs),
            Report::Nowhere(said) => {
                let host = self.job.host_name(rank).map_or(String::new(), |host| format!(" on {host}"));
                castell_host::say(&format!("rank {rank}{host} {said}"));
            }
        }
    }

    /// Who has gone, as those say who watch the ranks' processes.
    #[cold]
    fn note_departures(&mut self) {
        self.epoch_seen = self.job.epoch();
        let far = |rank: &Rank| *rank != self.me && !self.job.share_memory(self.me, *rank);
        for rank in (0..self.job.ranks()).map(Rank).filter(far) {
            let why = match self.job.control(rank).state() {
                RankState::Dead(_) => Down::Died,
                RankState::Finished => Down::Left,
                RankState::Unborn | RankState::Alive => continue,
            };
            if !std::mem::replace(&mut self.noticed[rank.index()], true) {
                self.carrier.is_gone(rank, why);
            }
        }
    }

    pub(super) fn has_news(&self) -> bool {
        self.job.epoch() != self.epoch_seen || self.carrier.is_ready()
    }

    /// See [`Carrier::owes_nothing`].
    pub(super) fn owes_nothing(&self) -> bool {
        self.carrier.owes_nothing()
    }

    /// Before a thread of this rank sleeps on its doorbell: what comes from now on rings it.
    pub(super) fn arm(&mut self) {
        if self.carrier.arm() {
            self.watcher.arm();
        }
    }

    /// Tells all that this rank leaves, behind what it has sent, and waits until they know.
    pub(super) fn leave(&mut self, events: &mut impl Events) {
        self.carrier.leave();
        let since = Instant::now();
        while !self.carrier.has_left() && since.elapsed() < LEAVE_WITHIN {
            if self.poll(256, events) == 0 {
                std::thread::sleep(LEAVE_PAUSE);
            }
        }
    }
}

/// Hands on what comes through shared memory. That shows the ends of all ranks; of those that it does not reach the network tells, behind
/// what they sent.
struct Neighbours<'a, E> {
    events: &'a mut E,
    job: &'a Job,
    me: Rank,
}

impl<E: Events> Events for Neighbours<'_, E> {
    #[inline(always)]
    fn message(&mut self, header: &Header, payload: &[u8]) {
        self.events.message(header, payload);
    }

    fn down(&mut self, peer: Rank, delivered: u32, why: Down) {
        if self.job.share_memory(self.me, peer) {
            self.events.down(peer, delivered, why);
        }
    }
}

/// Makes ways over the network.
pub(crate) struct NetworkConnections {
    carrier: CarrierConnector,
    message_bytes_max: usize,
    job: Arc<Job>,
    me: Rank,
}

impl NetworkConnections {
    /// The longest message.
    pub(super) fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    /// Whether a rank is reached through shared memory.
    pub(super) fn shares_memory(&self, rank: Rank) -> bool {
        self.job.share_memory(self.me, rank)
    }

    pub(super) fn connect(&mut self, to: Rank) -> NetworkWay {
        NetworkWay { to, endpoint: None, carrier: self.carrier.clone(), job: Arc::clone(&self.job) }
    }
}

/// The way to one rank, once that has said where it is.
pub(super) struct NetworkWay {
    to: Rank,
    endpoint: Option<CarrierEndpoint>,
    carrier: CarrierConnector,
    job: Arc<Job>,
}

impl NetworkWay {
    pub(super) fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        if self.endpoint.is_none() {
            let Some(address) = self.job.net_address(self.to) else { return Err(Refused::Full) };
            let made = self.carrier.connect(self.to, &Address(address));
            self.endpoint = Some(made.unwrap_or_else(|error| panic!("{error}")));
        }
        self.endpoint.as_mut().expect("it was made").try_send(header, payload)
    }

    pub(super) fn flush(&mut self) -> bool {
        self.endpoint.as_mut().is_none_or(|endpoint| endpoint.flush())
    }
}
