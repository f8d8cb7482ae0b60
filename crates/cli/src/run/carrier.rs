//! What carries a program's messages, as `--net` says: processes of this job, or the kernel of each host.

use crate::xdp::joined::{self, At, Joined};
use anyhow::bail;
use castell_base::counted;
use castell_comm::job::{Interface, Net};
use castell_comm::{Comm, Counters};
use castell_goal::op::Op;
use castell_goal::schedule::Schedule;
use castell_xdp::{Mode, Session};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The word of `--net` before an interface.
const XDP: &str = "xdp";

/// What `--net` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Net(Net),
    /// The kernel of each host, at the interface of this name, as far as the program fits there.
    Kernel(Interface),
}

impl Carrier {
    /// What the processes talk by.
    pub fn net(self) -> Net {
        match self {
            Carrier::Net(net) => net,
            Carrier::Kernel(_) => Net::Shm,
        }
    }

    pub fn kernel(self) -> Option<Interface> {
        match self {
            Carrier::Net(_) => None,
            Carrier::Kernel(interface) => Some(interface),
        }
    }
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(word: &str) -> Result<Carrier, String> {
        let rest = word.strip_prefix(XDP).filter(|rest| rest.is_empty() || rest.starts_with('='));
        let Some(rest) = rest else { return word.parse().map(Carrier::Net) };
        let Some(name) = rest.strip_prefix('=') else { return Ok(Carrier::Kernel(Interface::ONLY)) };
        name.parse().map(Carrier::Kernel)
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Carrier::Net(net) => net.fmt(f),
            Carrier::Kernel(Interface::ONLY) => f.write_str(XDP),
            Carrier::Kernel(interface) => write!(f, "{XDP}={}", interface.name()),
        }
    }
}

/// Refuses what a kernel cannot be asked for. `places`: each rank's host, where there are several.
///
/// # Errors
/// What that is.
pub fn insist_on_hosts(interface: &Interface, places: Option<&[u32]>, records: bool) -> anyhow::Result<()> {
    let net = Carrier::Kernel(*interface);
    let Some(places) = places else {
        bail!(
            "--net {net} is for ranks on hosts of their own: give --hosts a,b, or do it in a lab: castell lab 4 -- castell run …"
        );
    };
    let hosts = places.iter().collect::<BTreeSet<_>>().len();
    if hosts < places.len() {
        bail!(
            "--net {net} is for one rank a host, since an interface takes one program: these are {} on {}",
            counted(places.len(), "rank"),
            counted(hosts, "host")
        );
    }
    if records {
        bail!(
            "the kernel does not note when each operation was: leave out --timeline, --stages and --model, or take another --net"
        );
    }
    Ok(())
}

/// Carries a rank's schedule out.
pub trait Carries {
    /// Once, from beginning to end.
    ///
    /// # Errors
    /// Why it failed.
    fn carry(&mut self, comm: &Comm, schedule: &Arc<Schedule>) -> Result<(), String>;

    /// What a round has sent, where the process counted this.
    fn sent(&self, counted: Counters) -> Counters {
        counted
    }

    /// The last round is over.
    ///
    /// # Errors
    /// What went wrong with the others.
    fn finish(&mut self, _comm: &Comm) -> Result<(), String> {
        Ok(())
    }
}

/// The process itself.
pub struct InProcess;

impl Carries for InProcess {
    fn carry(&mut self, comm: &Comm, schedule: &Arc<Schedule>) -> Result<(), String> {
        let executed = comm.execute_without_addresses(schedule);
        executed
            .map_err(|error| format!("rank {}: {error}", comm.rank()))?
            .map_err(|failure| failure.to_string())
    }
}

/// The kernel, where frames arrive.
struct InKernel {
    session: Session,
    messages: u64,
    bytes: u64,
    _interface: castell_xdp::Interface,
}

impl Carries for InKernel {
    fn carry(&mut self, comm: &Comm, _schedule: &Arc<Schedule>) -> Result<(), String> {
        let started = self.session.start(&[]);
        let outcome = started.and_then(|run| self.session.wait(run));
        outcome.map_err(|error| format!("rank {}: {error}", comm.rank()))
    }

    fn sent(&self, counted: Counters) -> Counters {
        Counters { messages: self.messages, bytes: self.bytes, ..counted }
    }

    fn finish(&mut self, comm: &Comm) -> Result<(), String> {
        let outcome = self.session.finish().map_err(|error| format!("rank {}: {error}", comm.rank()));
        // Whose session goes does not answer those that ask.
        let met = comm.world().barrier().map_err(|error| error.to_string());
        outcome.and(met)
    }
}

/// The kernel of this rank's host, if the schedules of all ranks fit there; and how the program is at the interface then.
pub fn join(
    comm: &Comm,
    interface: &str,
    schedule: &Schedule,
) -> anyhow::Result<(Box<dyn Carries>, Option<Mode>)> {
    let at = At { interface, mode: Mode::Auto, only_kernel: false };
    let Joined { session: Some(session), interface } = joined::join(comm, &at, schedule)? else {
        return Ok((Box::new(InProcess), None));
    };
    let sizes = schedule.operations().filter_map(|id| match schedule.op(id) {
        Op::Send { bytes, .. } => Some(bytes),
        _ => None,
    });
    let mode = interface.mode();
    let (messages, bytes) = sizes.fold((0, 0), |(messages, sum), bytes| (messages + 1, sum + bytes));
    Ok((Box::new(InKernel { session, messages, bytes, _interface: interface }), Some(mode)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_one_of_the_words() {
        let read = |word: &str| word.parse::<Carrier>();
        assert_eq!(read("xdp=eth0").map(|carrier| carrier.to_string()), Ok("xdp=eth0".to_owned()));
        assert_eq!(read("tcp"), read("tcp").map(|carrier| Carrier::Net(carrier.net())));
        assert_eq!(
            read("xdp=eth0").map(|carrier| (carrier.net(), carrier.kernel().is_some())),
            Ok((Net::Shm, true))
        );
        assert_eq!(read("xdp").map(|carrier| carrier.to_string()), Ok("xdp".to_owned()));
        for wrong in ["xdp=", "xdp=a/b"] {
            assert!(
                read(wrong).is_err_and(|error| error.contains("no name of a network interface")),
                "{wrong}"
            );
        }
        assert!(read("xdpx").is_err());
    }
}
