//! The network that a job was told to use: TCP, raw Ethernet frames, or libfabric.

use castell_base::Rank;
use castell_fabric::{Fabric, FabricConnector, FabricEndpoint, FabricOptions, Reach, Wish};
use castell_frames::{Esp, EspConnector, EspEndpoint, EspOptions, Report, SOCKETS_VARIABLE};
use castell_shm::job::{Job, Net, OverTcp, Place};
use castell_tcp::address::ADDRESSES_MAX;
use castell_tcp::{Tcp, TcpConnector, TcpEndpoint, TcpOptions};
use castell_transport::{
    Address, Armed, Connector, Down, Endpoint, Events, Header, Refused, Sleeper, Transport, Unreachable,
    Urgency,
};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

/// A rank's end of it.
pub(super) enum Carrier {
    Tcp(Box<Tcp>),
    Esp(Box<Esp>),
    Fabric(Box<Fabric>),
}

/// What the host's agent has opened for this rank, if it did.
fn given_sockets() -> Vec<RawFd> {
    let numbers = std::env::var(SOCKETS_VARIABLE).unwrap_or_default();
    numbers.split(',').filter_map(|number| number.parse().ok()).collect()
}

/// Calls the same of whichever it is.
macro_rules! either {
    ($kind:ident, $carrier:expr, $inner:ident => $call:expr) => {
        match $carrier {
            $kind::Tcp($inner) => $call,
            $kind::Esp($inner) => $call,
            $kind::Fabric($inner) => $call,
        }
    };
}

impl Carrier {
    pub(super) fn join(job: &Job, me: Rank) -> Result<Carrier, Box<dyn Error>> {
        let (ranks, secret) = (job.ranks(), job.secret());
        Ok(match job.net() {
            Net::Shm => Carrier::over_tcp(job, me, &OverTcp::default())?,
            Net::Tcp(how) => Carrier::over_tcp(job, me, &how)?,
            Net::Esp(interfaces) => {
                let interfaces = interfaces.names().map(String::from).collect();
                let options = EspOptions { interfaces, sockets: given_sockets(), ..EspOptions::default() };
                Carrier::Esp(Box::new(Esp::new(me, ranks, secret.bytes(), &options)?))
            }
            Net::Fabric(provider) => {
                let reach = if job.has_hosts() { Reach::OtherHosts } else { Reach::ThisHost };
                let options = FabricOptions::by(Wish::of(provider.name()), reach);
                Carrier::Fabric(Box::new(Fabric::new(me, ranks, secret.bytes(), &options)?))
            }
        })
    }

    fn over_tcp(job: &Job, me: Rank, how: &OverTcp) -> Result<Carrier, Box<dyn Error>> {
        let dials_from_there = how.place != Place::Anywhere;
        let listen = listen_at(job, how.place)?;
        let options = TcpOptions { encrypts: how.encrypts, dials_from_there, ..TcpOptions::at(&listen) };
        Ok(Carrier::Tcp(Box::new(Tcp::new(me, job.ranks(), job.secret(), &options)?)))
    }

    pub(super) fn epoll(&self) -> &Arc<OwnedFd> {
        either!(Carrier, self, inner => inner.epoll())
    }

    pub(super) fn address(&self) -> Address {
        either!(Carrier, self, inner => inner.address())
    }

    pub(super) fn connector(&mut self) -> CarrierConnector {
        match self {
            Carrier::Tcp(tcp) => CarrierConnector::Tcp(tcp.connector()),
            Carrier::Esp(esp) => CarrierConnector::Esp(esp.connector()),
            Carrier::Fabric(fabric) => CarrierConnector::Fabric(fabric.connector()),
        }
    }

    /// The longest message.
    pub(super) fn message_bytes_max(&self) -> usize {
        either!(Carrier, self, inner => inner.limits().message_bytes_max)
    }

    pub(super) fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        either!(Carrier, self, inner => inner.poll(budget, events))
    }

    /// What became of the way to a rank, where ways are looked for.
    pub(super) fn report(&mut self) -> Option<(Rank, Report)> {
        match self {
            Carrier::Esp(esp) => esp.report(),
            Carrier::Tcp(_) | Carrier::Fabric(_) => None,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        either!(Carrier, self, inner => inner.is_ready())
    }

    /// Whether others get what was sent also if this rank does not look for a while. Of raw frames the receiver may ask for some again, and
    /// some of libfabric's providers move nothing unless they are asked.
    pub(super) fn owes_nothing(&self) -> bool {
        match self {
            Carrier::Tcp(tcp) => tcp.has_sent_all(),
            Carrier::Esp(_) | Carrier::Fabric(_) => false,
        }
    }

    /// Whether the descriptor is to be watched: nothing is there now.
    pub(super) fn arm(&mut self) -> bool {
        matches!(either!(Carrier, self, inner => inner.arm(Sleeper::Thread)), Armed::Fd(_))
    }

    pub(super) fn is_gone(&mut self, rank: Rank, why: Down) {
        either!(Carrier, self, inner => inner.is_gone(rank, why));
    }

    pub(super) fn leave(&mut self) {
        either!(Carrier, self, inner => inner.leave());
    }

    pub(super) fn has_left(&self) -> bool {
        either!(Carrier, self, inner => inner.has_left())
    }
}

/// Where a rank listens: at the addresses that were chosen, else where other hosts find this one, or at this host only, if there are no
/// others.
fn listen_at(job: &Job, place: Place) -> Result<Vec<IpAddr>, String> {
    let is_sought = place != Place::Anywhere || job.has_hosts();
    let mut found = if is_sought { place.addresses()? } else { Vec::new() };
    found.truncate(ADDRESSES_MAX);
    Ok(if found.is_empty() { vec![IpAddr::V4(Ipv4Addr::LOCALHOST)] } else { found })
}

/// Makes ways.
#[derive(Clone)]
pub(super) enum CarrierConnector {
    Tcp(TcpConnector),
    Esp(EspConnector),
    Fabric(FabricConnector),
}

impl CarrierConnector {
    pub(super) fn connect(&mut self, to: Rank, at: &Address) -> Result<CarrierEndpoint, Unreachable> {
        Ok(match self {
            CarrierConnector::Tcp(tcp) => CarrierEndpoint::Tcp(tcp.connect(to, at)?),
            CarrierConnector::Esp(esp) => CarrierEndpoint::Esp(esp.connect(to, at)?),
            CarrierConnector::Fabric(fabric) => CarrierEndpoint::Fabric(fabric.connect(to, at)?),
        })
    }
}

/// The way to one rank.
pub(super) enum CarrierEndpoint {
    Tcp(TcpEndpoint),
    Esp(EspEndpoint),
    Fabric(FabricEndpoint),
}

impl CarrierEndpoint {
    pub(super) fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        either!(CarrierEndpoint, self, inner => inner.try_send(header, payload))
    }

    pub(super) fn flush(&mut self) -> bool {
        either!(CarrierEndpoint, self, inner => inner.flush(Urgency::NOW))
    }
}
