//! Groups of such ends, for transports that are told who has gone. The clock is the test's.

use super::patient::{Patient, Shared, UnderWay, lock};
use castell_base::Rank;
use castell_transport::conformance::Group;
use castell_transport::{Down, Transport};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much time each look takes, and how much once a rank has ended: that is believed 50 ms after it was told.
const TICK_NS: u64 = 2_000;
const QUICK_TICK_NS: u64 = 50_000;

/// A rank's end, and what it is told.
pub trait Told: Transport + Send + 'static {
    fn is_gone(&mut self, rank: Rank, why: Down);
    fn leave(&mut self);
}

type End<T> = Patient<T, UnderWay>;

pub struct Ranks<T> {
    world: Shared<UnderWay>,
    clock: Arc<AtomicU64>,
    tick_ns: u64,
    ends: Vec<End<T>>,
    make: Box<dyn Fn(u32) -> End<T>>,
}

impl<T: Told> Ranks<T> {
    /// So many, each made by its number, with that clock.
    pub fn made(ranks: u32, clock: Arc<AtomicU64>, inner: impl Fn(u32) -> T + 'static) -> Ranks<T> {
        let world: Shared<UnderWay> = Shared::default();
        let shared = Arc::clone(&world);
        let make = move |me: u32| Patient { inner: inner(me), me, world: Arc::clone(&shared) };
        Ranks { world, clock, tick_ns: TICK_NS, ends: (0..ranks).map(&make).collect(), make: Box::new(make) }
    }
}

impl<T: Told> Group for Ranks<T>
where
    End<T>: Transport,
{
    type Transport = End<T>;

    fn transport(&mut self, rank: Rank) -> &mut End<T> {
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
            // Nobody is lost alone here: processes that are stopped or killed play that, in other tests.
            Down::PathLost => return false,
        }
        true
    }

    fn patience(&self) -> usize {
        let is_waited_for = lock(&self.world).is_something();
        if is_waited_for { 2_000_000 } else { 3000 }
    }
}
