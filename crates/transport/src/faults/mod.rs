//! Faults from a seed, around any transport.
//!
//! A [`Faults`] is one job's bad luck: whatever happens follows from its seed and from the order in which the ranks act. It
//! keeps what the wrapped transport promises: it loses, doubles and reorders messages of one sender only where
//! [`Limits::delivery`](crate::Limits) says that this may happen. Delays, refusals and ends of paths may happen everywhere. Time is virtual: a
//! tick is one poll by any rank.
//!
//! It is a tool for tests: unlike a transport, it allocates.

mod wrapped;

use crate::Down;
use castell_base::Rank;
use castell_base::random::Philox;
use rand_core::RngCore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use wrapped::{Faulty, FaultyConnector, FaultyEndpoint};

/// How often what happens: one time in so many, 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// A message is lost, where that is allowed.
    pub drops: u32,
    /// A message comes again, where that is allowed.
    pub doubles: u32,
    /// A message overtakes the one before, where that is allowed.
    pub overtakes: u32,
    /// A message, or anything else that a rank is told of a peer, is late, and with it what comes behind.
    pub delays: u32,
    /// By how many ticks at most.
    pub delay_max: u32,
    /// A path is full, whether or not it is.
    pub refuses: u32,
    /// A path is lost in the middle of a message.
    pub cuts: u32,
}

impl Profile {
    /// A bit of everything but lost paths.
    pub const ROUGH: Profile =
        Profile { drops: 10, doubles: 10, overtakes: 5, delays: 3, delay_max: 40, refuses: 10, cuts: 0 };
}

/// One group's bad luck; another group has its own. Clones are the same.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Mutex<State>>,
}

struct State {
    profile: Profile,
    random: Philox,
    now: u64,
    /// By pair of ranks, the lower one first.
    ends: BTreeMap<(Rank, Rank), Ended>,
    dead: BTreeSet<Rank>,
    /// By sender and receiver: messages that the wrapped transport has taken.
    sent: BTreeMap<(Rank, Rank), u32>,
    /// Who was told that the path to whom is down.
    told: BTreeSet<(Rank, Rank)>,
    /// Who was refused without need, by whom: told that there is room later.
    refused: BTreeSet<(Rank, Rank)>,
}

/// Why a path ended, and how much the wrapped transport had taken then, from the lower rank and from the higher.
#[derive(Clone, Copy)]
struct Ended {
    why: Down,
    sent: [u32; 2],
}

impl Faults {
    /// All that `seed` and the profile bring.
    pub fn new(seed: u64, profile: Profile) -> Faults {
        let state = State {
            profile,
            random: Philox::new(seed, Rank(0), 0, 0),
            now: 0,
            ends: BTreeMap::new(),
            dead: BTreeSet::new(),
            sent: BTreeMap::new(),
            told: BTreeSet::new(),
            refused: BTreeSet::new(),
        };
        Faults { shared: Arc::new(Mutex::new(state)) }
    }

    /// Wraps the transport of rank `me`. All ranks of a group that faults are to meet are wrapped.
    pub fn wrap<T: crate::Transport>(&self, me: Rank, transport: T) -> Faulty<T> {
        Faulty::new(self.clone(), me, transport)
    }

    /// Ticks since the start.
    pub fn now(&self) -> u64 {
        self.lock().now
    }

    /// Rank `rank` dies now: it does nothing any more, and the others are told after what it sent before.
    pub fn kill(&self, rank: Rank, ranks: u32) {
        let mut state = self.lock();
        state.dead.insert(rank);
        for other in (0..ranks).map(Rank).filter(|other| *other != rank) {
            state.end(rank, other, Down::Died);
        }
    }

    /// The path between two ranks is lost now.
    pub fn cut(&self, one: Rank, other: Rank) {
        self.lock().end(one, other, Down::PathLost);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pair(one: Rank, other: Rank) -> (Rank, Rank) {
    (one.min(other), one.max(other))
}

impl State {
    fn happens(&mut self, one_in: u32) -> bool {
        one_in > 0 && self.random.next_u32().is_multiple_of(one_in)
    }

    fn delay(&mut self) -> u64 {
        match self.happens(self.profile.delays) {
            true => u64::from(self.random.next_u32() % self.profile.delay_max.max(1)),
            false => 0,
        }
    }

    fn end(&mut self, one: Rank, other: Rank, why: Down) {
        let (low, high) = pair(one, other);
        let sent = [(low, high), (high, low)].map(|way| self.sent.get(&way).copied().unwrap_or(0));
        self.ends.entry((low, high)).or_insert(Ended { why, sent });
    }

    /// Whether rank `me` can't send to `to` any more.
    fn is_closed(&self, me: Rank, to: Rank) -> bool {
        self.ends.contains_key(&pair(me, to)) || self.told.contains(&(me, to)) || self.dead.contains(&me)
    }

    /// Whether rank `me` is still to be told of room, or of the end of a path.
    fn has_news(&self, me: Rank) -> bool {
        let is_untold = |(low, high): &(Rank, Rank)| {
            let other = if *low == me { high } else { low };
            (*low == me || *high == me) && !self.told.contains(&(me, *other))
        };
        let refused = (me, Rank(0))..=(me, Rank(u32::MAX));
        self.refused.range(refused).next().is_some() || self.ends.keys().any(is_untold)
    }

    /// Why the path between two ranks has ended, if it has, and how many messages `from` had sent by then.
    fn ended(&self, from: Rank, to: Rank) -> Option<(Down, u32)> {
        let ended = self.ends.get(&pair(from, to))?;
        Some((ended.why, ended.sent[usize::from(from > to)]))
    }
}
