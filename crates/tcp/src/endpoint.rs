//! Ways out: what is sent is put into the link's window, and written when the sender says that it is done, or when there is much.

use crate::address;
use crate::connections::Connections;
use crate::transport::lock;
use castell_base::{PerByte, Rank, Time};
use castell_transport::{Address, Connector, Cost, Endpoint, Header, Limits, Refused, Unreachable, Urgency};
use std::sync::{Arc, Mutex};

/// What a message takes, roughly: until it is measured, enough to tell a network from shared memory.
const COST: Cost = Cost { latency: Time(20_000_000), per_byte: PerByte::new(1000, 1) };

/// So much is not kept back until the sender is done.
const WRITE_EARLY_BYTES: usize = 128 * 1024;

/// Makes a rank's ways to the others.
#[derive(Clone)]
pub struct TcpConnector {
    pub(crate) shared: Arc<Mutex<Connections>>,
    pub(crate) limits: Limits,
}

impl Connector for TcpConnector {
    type Endpoint = TcpEndpoint;

    fn route(&self, to: &Address) -> Option<Cost> {
        address::from_bytes(to).map(|_| COST)
    }

    /// Makes no connection yet: that is done when something is sent.
    fn connect(&mut self, to: Rank, at: &Address) -> Result<TcpEndpoint, Unreachable> {
        let because =
            |reason: &str| Unreachable { rank: to, transport: self.limits.name, reason: reason.into() };
        let addresses = address::from_bytes(at).ok_or_else(|| {
            because("its address is none of TCP's; do all ranks use the same version of castell?")
        })?;
        let mut shared = lock(&self.shared);
        if to.0 >= shared.ranks() || to == shared.me {
            return Err(because("the job has no other rank of this number"));
        }
        shared.introduce(to, addresses);
        drop(shared);
        Ok(TcpEndpoint { shared: Arc::clone(&self.shared), limits: self.limits, to })
    }
}

/// The way to one other rank.
pub struct TcpEndpoint {
    shared: Arc<Mutex<Connections>>,
    limits: Limits,
    to: Rank,
}

impl Endpoint for TcpEndpoint {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        let mut shared = lock(&self.shared);
        let link = &mut shared.peer(self.to).link;
        link.try_send(header, payload)?;
        if link.unsent_bytes() >= WRITE_EARLY_BYTES && link.is_together() {
            let now = shared.clock.now();
            shared.see_to(self.to, now);
        }
        Ok(())
    }

    /// Writes what there is. What the system does not take now goes out while the rank's [`crate::Tcp`] is polled.
    fn flush(&mut self, _urgency: Urgency) -> bool {
        let mut shared = lock(&self.shared);
        let now = shared.clock.now();
        shared.see_to(self.to, now);
        true
    }
}
