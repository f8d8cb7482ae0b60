//! Groups of ranks over libfabric's providers, in one thread. The clock is the test's, so that nothing depends on how busy the machine is;
//! whoever finds nothing while something is under way gives the system a moment.

#[path = "../../../transport/tests/patient/mod.rs"]
mod patient;
#[path = "../../../transport/tests/patient/ranks.rs"]
mod ranks;

use castell_base::Rank;
use castell_fabric::{Fabric, FabricOptions};
use castell_host::clock::Clock;
use castell_transport::Down;
use ranks::{Ranks, Told};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

impl Told for Fabric {
    fn is_gone(&mut self, rank: Rank, why: Down) {
        Fabric::is_gone(self, rank, why);
    }

    fn leave(&mut self) {
        Fabric::leave(self);
    }
}

pub fn ranks(ranks: u32, seed: u64, options: &FabricOptions) -> Ranks<Fabric> {
    let clock = Arc::new(AtomicU64::new(1_000_000_000));
    let options = FabricOptions { clock: Clock::Virtual(Arc::clone(&clock)), ..options.clone() };
    Ranks::made(ranks, clock, move |rank| {
        let made = Fabric::new(Rank(rank), ranks, &[seed as u8; 32], &options);
        made.unwrap_or_else(|error| panic!("{error}"))
    })
}
