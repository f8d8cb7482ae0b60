//! Groups of ranks, each on a host of its own, in one thread. The clock is the test's, so that nothing depends on how busy the machine is;
//! whoever finds nothing while something is under way gives the system a moment.

#[path = "../../../transport/tests/patient/mod.rs"]
mod patient;

use crate::hosts::Hosts;
use castell_base::Rank;
use castell_frames::{Esp, EspOptions};
use castell_host::clock::Clock;
use castell_transport::Down;
use castell_transport::conformance::Group;
use patient::{Patient, Shared, UnderWay, lock};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much time each look takes, and how much once a rank has ended: that is believed 50 ms after it was told.
const TICK_NS: u64 = 2_000;
const QUICK_TICK_NS: u64 = 50_000;

type End = Patient<Esp, UnderWay>;

pub struct Ranks {
    world: Shared<UnderWay>,
    clock: Arc<AtomicU64>,
    tick_ns: u64,
    ends: Vec<End>,
    make: Box<dyn Fn(u32) -> End>,
}

impl Ranks {
    /// `secret`: another one for each group, so that none hears another.
    pub fn new(hosts: &Rc<Hosts>, ranks: u32, secret: u8, message_bytes_max: usize) -> Ranks {
        let clock = Arc::new(AtomicU64::new(1_000_000_000));
        let world: Shared<UnderWay> = Shared::default();
        let options = EspOptions {
            message_bytes_max,
            clock: Clock::Virtual(Arc::clone(&clock)),
            ..EspOptions::at("e0")
        };
        let (hosts, shared) = (Rc::clone(hosts), Arc::clone(&world));
        let make = move |rank: u32| {
            let made = hosts.on(rank as usize, || Esp::new(Rank(rank), ranks, &[secret; 32], &options));
            Patient {
                inner: made.unwrap_or_else(|error| panic!("{error}")),
                me: rank,
                world: Arc::clone(&shared),
            }
        };
        Ranks { world, clock, tick_ns: TICK_NS, ends: (0..ranks).map(&make).collect(), make: Box::new(make) }
    }
}

impl Group for Ranks {
    type Transport = End;

    fn transport(&mut self, rank: Rank) -> &mut End {
        self.clock.fetch_add(self.tick_ns, Ordering::Relaxed);
        &mut self.ends[rank.index()]
    }

    fn end(&mut self, rank: Rank, why: Down) -> bool {
        self.tick_ns = QUICK_TICK_NS;
        match why {
            Down::Died => {
                lock(&self.world).forget(rank.0);
                // Another process is in its place; the launcher tells the others.
                self.ends[rank.index()] = (self.make)(rank.0);
                for end in self.ends.iter_mut().filter(|end| end.me != rank.0) {
                    end.inner.is_gone(rank, Down::Died);
                }
            }
            Down::Left => self.ends[rank.index()].inner.leave(),
            // The segment loses nobody alone.
            Down::PathLost => return false,
        }
        true
    }

    fn patience(&self) -> usize {
        let is_waited_for = lock(&self.world).is_something();
        if is_waited_for { 2_000_000 } else { 3000 }
    }
}
