//! Ways out.

use crate::address;
use crate::links::Links;
use crate::transport::lock;
use castell_base::{PerByte, Rank, Time};
use castell_transport::{Address, Connector, Cost, Endpoint, Header, Limits, Refused, Unreachable, Urgency};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// What a message takes, roughly: until it is measured, enough to tell a network from shared memory.
const COST: Cost = Cost { latency: Time(13_000_000), per_byte: PerByte::new(1000, 1) };

/// Makes a rank's ways to the others.
#[derive(Clone)]
pub struct EspConnector {
    pub(crate) shared: Arc<Mutex<Links>>,
    pub(crate) limits: Limits,
}

impl Connector for EspConnector {
    type Endpoint = EspEndpoint;

    fn route(&self, to: &Address) -> Option<Cost> {
        let reach = address::from_bytes(to)?;
        (!lock(&self.shared).ways_to(&reach).is_empty()).then_some(COST)
    }

    /// Makes no connection yet: that is done when something is sent.
    fn connect(&mut self, to: Rank, at: &Address) -> Result<EspEndpoint, Unreachable> {
        let because =
            |reason: String| Unreachable { rank: to, transport: self.limits.name, reason: reason.into() };
        let reach = address::from_bytes(at).ok_or_else(|| {
            because("its address is none of ESP's; do all ranks use the same version of castell, and the same --net?".into())
        })?;
        let mut shared = lock(&self.shared);
        if to.0 >= shared.ranks || to == shared.me {
            return Err(because("the job has no other rank of this number".into()));
        }
        if u32::from(reach.port) != to.0 {
            return Err(because("its address is another rank's".into()));
        }
        if shared.ways_to(&reach).is_empty() {
            let lengths = |found: &mut dyn Iterator<Item = u16>| {
                let found: BTreeSet<String> = found.map(|bytes| bytes.to_string()).collect();
                found.into_iter().collect::<Vec<_>>().join(" or ")
            };
            let there = lengths(&mut reach.cards.iter().map(|card| card.mtu_bytes));
            let here = lengths(&mut shared.cards.iter().map(|card| card.at.mtu_bytes));
            return Err(because(format!(
                "frames there are up to {there} bytes long, here {here}: give the interfaces of a segment one MTU (`ip link set DEV mtu N`)"
            )));
        }
        shared.introduce(to, reach);
        drop(shared);
        Ok(EspEndpoint { shared: Arc::clone(&self.shared), limits: self.limits, to })
    }
}

/// The way to one other rank.
pub struct EspEndpoint {
    shared: Arc<Mutex<Links>>,
    limits: Limits,
    to: Rank,
}

impl Endpoint for EspEndpoint {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        lock(&self.shared).try_send(self.to, header, payload)
    }

    /// Sends what there is. What the system does not take now goes out while the rank's [`crate::Esp`] is polled.
    fn flush(&mut self, _urgency: Urgency) -> bool {
        let mut shared = lock(&self.shared);
        let now = shared.clock.now();
        shared.transmit(now);
        true
    }
}
