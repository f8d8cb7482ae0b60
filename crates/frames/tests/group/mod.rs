//! Groups of ranks, each on a host of its own, in one thread. The clock is the test's, so that nothing depends on how busy the machine is;
//! whoever finds nothing while something is under way gives the system a moment.

#[path = "../../../transport/tests/patient/mod.rs"]
mod patient;
#[path = "../../../transport/tests/patient/ranks.rs"]
mod ranks;

use crate::hosts::Hosts;
use castell_base::Rank;
use castell_frames::{Esp, EspOptions};
use castell_host::clock::Clock;
use castell_transport::Down;
use ranks::{Ranks, Told};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

impl Told for Esp {
    fn is_gone(&mut self, rank: Rank, why: Down) {
        Esp::is_gone(self, rank, why);
    }

    fn leave(&mut self) {
        Esp::leave(self);
    }
}

/// `secret`: another one for each group, so that none hears another.
pub fn ranks(hosts: &Rc<Hosts>, ranks: u32, secret: u8, message_bytes_max: usize) -> Ranks<Esp> {
    let clock = Arc::new(AtomicU64::new(1_000_000_000));
    let options =
        EspOptions { message_bytes_max, clock: Clock::Virtual(Arc::clone(&clock)), ..EspOptions::at("e0") };
    let hosts = Rc::clone(hosts);
    Ranks::made(ranks, clock, move |rank| {
        let made = hosts.on(rank as usize, || Esp::new(Rank(rank), ranks, &[secret; 32], &options));
        made.unwrap_or_else(|error| panic!("{error}"))
    })
}
