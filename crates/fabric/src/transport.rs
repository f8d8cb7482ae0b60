//! A rank's end: what comes in.

use crate::address::{self, NAME_BYTES_MAX, Place};
use crate::endpoint::{FabricConnector, FabricEndpoint};
use crate::hidden::Hidden;
use crate::library::{Library, LibraryError};
use crate::links::{Body, Counters, Links, News, Next, Settings};
use crate::offers::{self, Offer, OfferError, Reach, Wish};
use crate::onesided::OUTSTANDING_MAX;
use crate::port::Port;
use castell_base::{Lent, Rank};
use castell_host::clock::Clock;
use castell_host::epoll;
use castell_host::random::random_bytes;
use castell_transport::{
    AccessError, Address, Armed, Delivery, Down, Events, Limits, RemoteKey, Sleeper, Transport,
};
use rustix::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const QUEUE: u64 = 0;
const TIMER: u64 = 1;

/// How soon somebody who sleeps looks again, where the provider has nothing to sleep on: soon after something has come, and later.
const LOOK_SOON_NS: u64 = 50_000;
const LOOK_LATER_NS: u64 = 1_000_000;
/// How long that is soon.
const SOON_NS: u64 = 10_000_000;
/// The same while the provider has something under way: what it repeats, it repeats when it is called only.
const LOOK_AGAIN_NS: u64 = 5_000_000;

/// How a rank takes part.
#[derive(Clone, Debug)]
pub struct FabricOptions {
    /// Which provider, and which device.
    pub wish: Wish,
    /// Where the other ranks are.
    pub reach: Reach,
    /// Sizes and times.
    pub settings: Settings,
    /// Where times come from.
    pub clock: Clock,
    /// Messages are tagged ones of the provider's, also where it has plain ones.
    pub prefers_tagged: bool,
    /// The library, if not the usual one.
    pub libfabric: Option<PathBuf>,
    /// For tests.
    pub hidden: Hidden,
}

impl FabricOptions {
    /// By what suits such a wish, all else as usual.
    pub fn by(wish: Wish, reach: Reach) -> FabricOptions {
        FabricOptions {
            wish,
            reach,
            settings: Settings::default(),
            clock: Clock::default(),
            prefers_tagged: false,
            libfabric: None,
            hidden: Hidden::default(),
        }
    }
}

/// Why a rank cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// No library, or nothing that it offers.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// What was offered cannot be had.
    #[error("libfabric's provider {provider} cannot be used at {domain}: {what}: {error}")]
    Provider {
        /// The provider.
        provider: String,
        /// The device.
        domain: String,
        /// What was tried.
        what: String,
        /// What libfabric says.
        error: String,
    },
    /// The system has no more of what is needed.
    #[error("castell cannot use libfabric: {0}; `ulimit -n` shows how many files a process may have open")]
    System(#[from] std::io::Error),
}

impl From<LibraryError> for FabricError {
    fn from(error: LibraryError) -> FabricError {
        FabricError::Offer(error.into())
    }
}

/// What was taken of what is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The provider.
    pub provider: String,
    /// The device.
    pub domain: String,
    /// Whether there is something to sleep on.
    pub has_descriptor: bool,
    /// Whether ranks write to each other's memory.
    pub writes: bool,
    /// What castell does without, and why.
    pub notes: Vec<String>,
}

/// One rank's end of a fabric.
pub struct Fabric {
    shared: Arc<Mutex<Links>>,
    limits: Limits,
    address: Address,
    taken: Taken,
    clock: Clock,
    epoll: Arc<OwnedFd>,
    timer: OwnedFd,
    timer_at: u64,
}

pub(crate) fn lock(shared: &Mutex<Links>) -> MutexGuard<'_, Links> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the first of the offers that can be had: with something to sleep on, if any has that.
fn open(options: &FabricOptions, ranks: u32) -> Result<(Port, Taken, usize), FabricError> {
    let library = match &options.libfabric {
        Some(path) => Library::load(path)?,
        None => Library::usual()?,
    };
    let hidden = options.hidden;
    let mut trouble = None;
    for descriptor in [true, false] {
        if descriptor && hidden.descriptor {
            continue;
        }
        for offer in offers::usable(&library, &options.wish, options.reach, hidden)? {
            let mut taken = Taken {
                provider: offer.provider.clone(),
                domain: offer.domain.clone(),
                has_descriptor: descriptor,
                writes: offer.remote_writes,
                notes: offer.notes.clone(),
            };
            if !descriptor {
                taken
                    .notes
                    .push("it has nothing to sleep on, so ranks that wait look again and again".into());
            }
            let is_tagged = offer.tagged && (options.prefers_tagged || !offer.messages);
            let write_bytes_max = if offer.remote_writes { bytes_max(&offer) } else { 0 };
            match Port::open(&library, offer, (ranks as usize, is_tagged, descriptor), hidden) {
                Ok(port) => return Ok((port, taken, write_bytes_max)),
                Err(refusal) => trouble = Some((taken, refusal)),
            }
        }
    }
    let (taken, refusal) = trouble.expect("there was an offer");
    Err(FabricError::Provider {
        provider: taken.provider,
        domain: taken.domain,
        what: refusal.what.into(),
        error: refusal.error,
    })
}

fn bytes_max(offer: &Offer) -> usize {
    offer.info.part(|info| info.ep_attr).max_msg_size
}

impl Fabric {
    /// The end of rank `me` of a job of so many, whose secret all its ranks know.
    ///
    /// # Errors
    /// There is no library, or nothing that can be used.
    pub fn new(
        me: Rank,
        ranks: u32,
        secret: &[u8; 32],
        options: &FabricOptions,
    ) -> Result<Fabric, FabricError> {
        let (port, taken, write_bytes_max) = open(options, ranks)?;
        let because = |what: &str, error: String| FabricError::Provider {
            provider: taken.provider.clone(),
            domain: taken.domain.clone(),
            what: what.into(),
            error,
        };
        let name = port.name(NAME_BYTES_MAX).map_err(|refusal| because(refusal.what, refusal.error))?;
        let place = Place {
            provider: address::told(&taken.provider),
            format: port.address_format() as u8,
            nonce: random_bytes()?,
            name: name.into(),
        };
        let address = address::to_bytes(&place);
        let system = std::io::Error::from;
        let epoll = Arc::new(epoll::epoll().map_err(system)?);
        let timer = epoll::timer().map_err(system)?;
        epoll::watch(&epoll, &timer, TIMER, false).map_err(system)?;
        if let Some(descriptor) = port.descriptor() {
            epoll::watch(&epoll, descriptor, QUEUE, false).map_err(system)?;
        }
        let (settings, clock) = (options.settings, options.clock.clone());
        let links = Links::new(port, (me, ranks), secret, place, write_bytes_max, (settings, clock.clone()));
        let links = links.map_err(|error| because("begin", error))?;
        let limits = Limits {
            name: "fabric",
            message_bytes_max: settings.message_bytes_max,
            delivery: Delivery::default(),
            tells_room: true,
            get_bytes_max: u64::MAX,
            put_bytes_max: u64::MAX,
            atomics: true,
            outstanding_max: OUTSTANDING_MAX,
        };
        Ok(Fabric {
            shared: Arc::new(Mutex::new(links)),
            limits,
            address,
            taken,
            clock,
            epoll,
            timer,
            timer_at: u64::MAX,
        })
    }

    /// Which provider that is, and what it lacks.
    pub fn taken(&self) -> &Taken {
        &self.taken
    }

    /// What has happened on the network.
    pub fn counters(&self) -> Counters {
        lock(&self.shared).counters
    }

    /// What the provider said when it could not do something, last: for messages to people.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.shared).trouble.clone()
    }

    /// Somebody who knows says that a rank has died or left. What it sent before is still handed over; then its end is told.
    pub fn is_gone(&mut self, rank: Rank, why: Down) {
        lock(&self.shared).is_gone(rank, why);
    }

    /// Tells all that were met that nothing follows behind what was sent; then polls go on until [`Fabric::has_left`].
    pub fn leave(&mut self) {
        let mut shared = lock(&self.shared);
        let now = shared.clock.now();
        shared.leave(now);
    }

    /// Whether everything that was sent was taken, by all that are still there, and they know that this rank leaves.
    pub fn has_left(&self) -> bool {
        lock(&self.shared).has_left()
    }

    /// Whether a poll would find something, as far as the provider knows.
    pub fn is_ready(&self) -> bool {
        let mut shared = lock(&self.shared);
        if !shared.has_news() {
            shared.look();
        }
        shared.has_news() || shared.next_time <= self.clock.now()
    }

    /// Becomes readable when there is something to poll.
    pub fn epoll(&self) -> &Arc<OwnedFd> {
        &self.epoll
    }

    /// When somebody who sleeps has to look, if nothing comes before.
    fn sleeps_until(&self, shared: &Links, now: u64) -> u64 {
        let look = if !self.taken.has_descriptor {
            let is_soon = now.saturating_sub(shared.busy_at) < SOON_NS;
            now + if is_soon { LOOK_SOON_NS } else { LOOK_LATER_NS }
        } else if shared.is_under_way() {
            now + LOOK_AGAIN_NS
        } else {
            u64::MAX
        };
        shared.next_time.min(look)
    }
}

impl Transport for Fabric {
    type Endpoint = FabricEndpoint;
    type Connector = FabricConnector;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    fn connector(&mut self) -> FabricConnector {
        FabricConnector { shared: Arc::clone(&self.shared), limits: self.limits }
    }

    fn export(&mut self, memory: Lent) -> Result<RemoteKey, AccessError> {
        lock(&self.shared).export(memory)
    }

    /// Waits where a write from the memory is under way: as long as that takes.
    fn withdraw(&mut self, key: &RemoteKey) {
        while !lock(&self.shared).withdraw(key) {
            lock(&self.shared).look();
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let now = self.clock.now();
        if self.timer_at <= now {
            epoll::clear_timer(&self.timer);
            self.timer_at = u64::MAX;
        }
        let mut shared = lock(&self.shared);
        shared.listen(now);
        let mut told = 0;
        while told < budget {
            let Some(next) = shared.next(now) else { break };
            // Not held meanwhile: who hears a message may answer it.
            drop(shared);
            told += 1;
            let slot = tell(next, events);
            shared = lock(&self.shared);
            if let Some(slot) = slot {
                shared.give_back(slot);
            }
        }
        shared.transmit(now);
        told
    }

    fn has_news(&self) -> bool {
        lock(&self.shared).has_news()
    }

    fn arm(&mut self, _sleeper: Sleeper) -> Armed<'_> {
        let now = self.clock.now();
        let mut shared = lock(&self.shared);
        shared.transmit(now);
        shared.look();
        if shared.has_news()
            || shared.next_time <= now
            || self.taken.has_descriptor && !shared.port.may_sleep()
        {
            return Armed::Busy;
        }
        let next = self.sleeps_until(&shared, now);
        shared.due = next;
        drop(shared);
        if matches!(self.clock, Clock::Host) && next < self.timer_at {
            self.timer_at = next;
            epoll::set_timer(&self.timer, next);
        } else if !self.taken.has_descriptor {
            // A test's clock wakes nobody.
            epoll::set_timer(&self.timer, castell_host::clock::now_ns() + LOOK_SOON_NS);
        }
        Armed::Fd(self.epoll.as_fd())
    }

    fn disarm(&mut self, _sleeper: Sleeper) {}
}

/// Tells it; memory that is to be given back.
fn tell(next: Next, events: &mut impl Events) -> Option<usize> {
    match next {
        Next::Message(header, Body::Slot(slot, payload, bytes)) => {
            // SAFETY: the memory is this rank's until it is given back, and lives as long as its links; also of no bytes it is no null.
            let payload = unsafe { std::slice::from_raw_parts(payload, bytes) };
            events.message(&header, payload);
            return Some(slot);
        }
        Next::Message(header, Body::Kept(frame)) => {
            events.message(&header, &frame[crate::frame::FRAME_BYTES..])
        }
        Next::News(News::Room(rank)) => events.room(rank),
        Next::News(News::Completed(token, outcome)) => events.completed(token, outcome),
        Next::News(News::Notified(rank, notice)) => events.notified(rank, notice),
        Next::News(News::Down(rank, delivered, why)) => events.down(rank, delivered, why),
    }
    None
}

#[cfg(test)]
mod tests;
