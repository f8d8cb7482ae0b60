//! How a process finds the group that it was started in, and the memory that the group shares.
//!
//! | started by | found through |
//! |---|---|
//! | `castell launch`, `castell run` | the job's descriptor, inherited, and `CASTELL_RANK` |
//! | MPICH's `mpiexec` and other PMI-1 launchers | the wire protocol over `PMI_FD` |
//! | `srun --mpi=pmi2` | the PMI-2 wire protocol over `PMI_FD` |
//! | Open MPI's `mpirun`, `srun --mpi=pmix` | `libpmix.so.2`, loaded when it is needed |
//! | nobody | a group of one |
//! | whoever, and the program has a group already ([`join_by`]) | functions of the program |
//!
//! Where a launcher left signs of a group that cannot be found, [`join`] fails: a program never falls apart into many
//! groups of one. With a launcher other than ours, one rank of each host makes its segment and the others there open it, and ranks of
//! different hosts learn from each other where they listen; `README.md` has the steps.

mod exchange;
mod handover;
mod host;
mod keyvalue;
mod layout;
mod leave;
mod membership;
mod pmi1;
mod pmi2;
mod pmix;
mod sealed;
mod signs;
mod whereabouts;
mod wire;

pub use host::{HostFunctions, join_by};
pub use membership::{
    ALONE_VARIABLE, BootstrapError, Introduction, JOB_FD_VARIABLE, LIBPMIX_VARIABLE, Membership,
    NET_VARIABLE, RANK_VARIABLE,
};

use castell_base::Rank;
use castell_shm::job::{JobOptions, Net};
use exchange::Brings;
use keyvalue::KeyValueSpace;
use signs::Plan;
use std::fmt::Display;
use std::os::fd::OwnedFd;

/// Finds this process's group and the segment that it shares.
///
/// `create` makes a segment; it is called in one rank of each host only, and only where castell's launcher has
/// not made it already. With a launcher other than castell's, all ranks have to call this, and either all of them
/// succeed or all fail.
///
/// # Errors
/// See [`BootstrapError`]: each names what to do.
pub fn join<E: Display>(
    create: impl FnOnce(&JobOptions) -> Result<OwnedFd, E>,
) -> Result<Membership<'static>, BootstrapError> {
    let create = |options: &JobOptions| create(options).map_err(|error| error.to_string());
    let lookup = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match signs::plan(&lookup)? {
        Plan::Alone => alone(net_of_environment, create),
        Plan::Launcher { descriptor, rank } => {
            let segment = handover::duplicate_inherited(descriptor)?;
            Ok(Membership { rank, segment, is_supervised: true, processes_visible: true, introduction: None })
        }
        Plan::Pmi1(place) => form(pmi1::Pmi1::open(place)?, create),
        Plan::Pmi2(place) => form(pmi2::Pmi2::open(place)?, create),
        Plan::Pmix => form(pmix::Pmix::open(lookup(LIBPMIX_VARIABLE))?, create),
    }
}

fn form<S: KeyValueSpace + Send + 'static>(
    space: S,
    create: impl FnOnce(&JobOptions) -> Result<OwnedFd, String>,
) -> Result<Membership<'static>, BootstrapError> {
    exchange::form(space, Brings { host: None, net: net_of_environment, create }, take_leave)
}

/// What carries messages, as [`NET_VARIABLE`] says.
fn net_of_environment() -> Result<Net, String> {
    let named = std::env::var(NET_VARIABLE).ok().filter(|net| !net.is_empty());
    let net = named.map(|net| net.parse()).transpose();
    net.map(Option::unwrap_or_default).map_err(|error: String| format!("{NET_VARIABLE}: {error}"))
}

/// At once, or where there is an MPI when the process ends, if it is not left to that: what is said then may be in vain.
fn take_leave(space: impl KeyValueSpace + Send + 'static) -> Result<(), BootstrapError> {
    let end = |mut space: _| {
        if !(KeyValueSpace::leaves_once(&space) && leave::is_left_to_mpi()) {
            drop(KeyValueSpace::finish(&mut space));
        }
    };
    leave::put_off(space, end).or_else(|mut space| space.finish())
}

fn alone(
    net: impl FnOnce() -> Result<Net, String>,
    create: impl FnOnce(&JobOptions) -> Result<OwnedFd, String>,
) -> Result<Membership<'static>, BootstrapError> {
    let net = net().map_err(BootstrapError::Group)?;
    let segment = create(&JobOptions { net, ..JobOptions::new(1) }).map_err(BootstrapError::Group)?;
    let (rank, is_supervised, processes_visible, introduction) = (Rank(0), false, true, None);
    Ok(Membership { rank, segment, is_supervised, processes_visible, introduction })
}
