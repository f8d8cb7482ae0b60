//! The loopback keeps the rules.

use castell_base::Rank;
use castell_transport::conformance::{Group, check};
use castell_transport::{Down, Loopback, LoopbackOptions};

struct Loopbacks(Vec<Loopback>);

impl Group for Loopbacks {
    type Transport = Loopback;

    fn transport(&mut self, rank: Rank) -> &mut Loopback {
        &mut self.0[rank.index()]
    }

    fn end(&mut self, rank: Rank, why: Down) -> bool {
        match why {
            Down::PathLost => self.0[0].sever(rank),
            why => self.0[rank.index()].end(why),
        }
        true
    }
}

#[test]
fn a_loopback_keeps_the_rules() {
    let small = LoopbackOptions { message_bytes_max: 100, stream_bytes: 300, ..LoopbackOptions::default() };
    let deferring = LoopbackOptions { defers: true, ..LoopbackOptions::default() };
    for options in [LoopbackOptions::default(), small, deferring, LoopbackOptions { defers: true, ..small }] {
        for seed in 0..5 {
            check(seed, |ranks| Loopbacks(Loopback::group(ranks, options)))
                .unwrap_or_else(|broken| panic!("{broken}, {options:?}"));
        }
    }
}
