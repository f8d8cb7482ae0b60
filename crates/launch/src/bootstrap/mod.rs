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
//! groups of one. With a launcher other than ours, rank 0 makes the segment and the others open it; `README.md` has
//! the steps. All ranks have to be on one host.

mod exchange;
mod handover;
mod host;
mod keyvalue;
mod leave;
mod membership;
mod pmi1;
mod pmi2;
mod pmix;
mod signs;
mod wire;

pub use host::{HostFunctions, join_by};
pub use membership::{
    ALONE_VARIABLE, BootstrapError, JOB_FD_VARIABLE, LIBPMIX_VARIABLE, Membership, RANK_VARIABLE,
};

use castell_base::Rank;
use keyvalue::KeyValueSpace;
use signs::Plan;
use std::fmt::Display;
use std::os::fd::OwnedFd;

/// Finds this process's group and the segment that it shares.
///
/// `create` makes the segment for that many ranks; it is called in rank 0 only, and only where castell's launcher has
/// not made it already. With a launcher other than castell's, all ranks have to call this, and either all of them
/// succeed or all fail.
///
/// # Errors
/// See [`BootstrapError`]: each names what to do.
pub fn join<E: Display>(
    create: impl FnOnce(u32) -> Result<OwnedFd, E>,
) -> Result<Membership, BootstrapError> {
    let create = |ranks| create(ranks).map_err(|error| error.to_string());
    let lookup = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match signs::plan(&lookup)? {
        Plan::Alone => alone(create),
        Plan::Launcher { descriptor, rank } => {
            let segment = handover::duplicate_inherited(descriptor)?;
            Ok(Membership { rank, segment, is_supervised: true, processes_visible: true })
        }
        Plan::Pmi1(place) => exchange::form(pmi1::Pmi1::open(place)?, create, take_leave),
        Plan::Pmi2(place) => exchange::form(pmi2::Pmi2::open(place)?, create, take_leave),
        Plan::Pmix => exchange::form(pmix::Pmix::open(lookup(LIBPMIX_VARIABLE))?, create, take_leave),
    }
}

/// At once, or where there is an MPI when the process ends: what is said then may be in vain.
fn take_leave(space: impl KeyValueSpace + Send + 'static) -> Result<(), BootstrapError> {
    leave::put_off(space, |mut space| drop(space.finish())).or_else(|mut space| space.finish())
}

fn alone(create: impl FnOnce(u32) -> Result<OwnedFd, String>) -> Result<Membership, BootstrapError> {
    let segment = create(1).map_err(BootstrapError::Group)?;
    Ok(Membership { rank: Rank(0), segment, is_supervised: false, processes_visible: true })
}
