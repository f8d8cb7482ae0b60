//! Ways out.

use crate::address;
use crate::links::Links;
use crate::transport::lock;
use castell_base::{Lent, PerByte, Rank, Time};
use castell_transport::{
    AccessError, Address, Connector, Cost, Endpoint, Header, Limits, Refused, RemoteKey, Token, Unreachable,
    Urgency,
};
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// What a message takes, roughly: until it is measured, enough to tell a network from shared memory.
const COST: Cost = Cost { latency: Time(10_000_000), per_byte: PerByte::new(500, 1) };

/// Makes a rank's ways to the others.
#[derive(Clone)]
pub struct FabricConnector {
    pub(crate) shared: Arc<Mutex<Links>>,
    pub(crate) limits: Limits,
}

impl Connector for FabricConnector {
    type Endpoint = FabricEndpoint;

    fn route(&self, to: &Address) -> Option<Cost> {
        let place = address::from_bytes(to)?;
        let shared = lock(&self.shared);
        (place.provider == shared.place.provider && place.format == shared.place.format).then_some(COST)
    }

    /// Says nothing to the rank yet: that is done when something is sent.
    fn connect(&mut self, to: Rank, at: &Address) -> Result<FabricEndpoint, Unreachable> {
        let because =
            |reason: String| Unreachable { rank: to, transport: self.limits.name, reason: reason.into() };
        let place = address::from_bytes(at).ok_or_else(|| {
            because("its address is none of a fabric's; do all ranks use the same version of castell, and the same --net?".into())
        })?;
        let mut shared = lock(&self.shared);
        if to.0 >= shared.ranks() || to == shared.me {
            return Err(because("the job has no other rank of this number".into()));
        }
        if place.provider != shared.place.provider || place.format != shared.place.format {
            let (there, here) = (&place.provider, &shared.place.provider);
            return Err(because(format!(
                "libfabric's provider there is {there}, here {here}: name one that all hosts have (`--net fabric={here}`; `castell ways --explain` shows which there are)"
            )));
        }
        shared.introduce(to, place);
        drop(shared);
        Ok(FabricEndpoint { shared: Arc::clone(&self.shared), limits: self.limits, to })
    }
}

/// The way to one other rank.
pub struct FabricEndpoint {
    shared: Arc<Mutex<Links>>,
    limits: Limits,
    to: Rank,
}

impl Endpoint for FabricEndpoint {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        lock(&self.shared).try_send(self.to, header, payload)
    }

    /// Sends what there is. What the provider does not take now goes out while the rank's [`crate::Fabric`] is polled.
    fn flush(&mut self, _urgency: Urgency) -> bool {
        let mut shared = lock(&self.shared);
        let now = shared.clock.now();
        shared.transmit(now);
        true
    }

    fn get(&mut self, from: &RemoteKey, at: u64, into: Lent, token: Token) -> Result<Poll<()>, AccessError> {
        lock(&self.shared).get(self.to, from, at, into, token).map(|()| Poll::Pending)
    }

    fn put(
        &mut self,
        from: Lent,
        to: &RemoteKey,
        at: u64,
        notice: Option<u32>,
        token: Token,
    ) -> Result<Poll<()>, AccessError> {
        lock(&self.shared).put(self.to, from, (to, at), notice, token).map(|()| Poll::Pending)
    }

    fn fetch_add(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        lock(&self.shared).atomic(self.to, false, (word, at), value, token).map(|()| Poll::Pending)
    }

    fn swap(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        lock(&self.shared).atomic(self.to, true, (word, at), value, token).map(|()| Poll::Pending)
    }
}
