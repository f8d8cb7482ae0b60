//! A rank's schedule in the kernel, if those of all ranks fit there.

use anyhow::{Context as _, bail};
use castell_base::Rank;
use castell_comm::Comm;
use castell_goal::schedule::Schedule;
use castell_host::random::random_bytes;
use castell_xdp::{Compiled, Group, Interface, Mac, Misfit, Mode, Patience, Session, XdpError};

/// Where schedules are carried out.
pub struct At<'a> {
    /// The network interface, of this name on each host.
    pub interface: &'a str,
    pub mode: Mode,
    /// What does not fit is refused.
    pub only_kernel: bool,
}

/// What a rank has in the kernel.
pub struct Joined {
    /// `None`: a rank's schedule does not fit, as was said, and all are carried out in user space.
    pub session: Option<Session>,
    /// With it the program leaves.
    pub interface: Interface,
}

/// How the program is at an interface, in a word.
pub fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Generic => "generic",
        Mode::Auto | Mode::Native => "native",
    }
}

/// Puts this rank's schedule into the kernel; all ranks of the group do it.
///
/// # Errors
/// A rank cannot take part, or does not fit and has to.
pub fn join(comm: &Comm, at: &At<'_>, schedule: &Schedule) -> anyhow::Result<Joined> {
    let me = comm.rank();
    let compiled = Compiled::new(schedule, me);
    if let Err(misfit) = &compiled {
        say_misfit(misfit, at.only_kernel);
    }
    // Nobody leaves the others waiting: what is wrong with one is known to all before it matters.
    let interface = Interface::open(at.interface, at.mode);
    let known = exchange(comm, &interface, compiled.is_ok())?;
    let interface = interface?;
    if let Some(rank) = known.lacking {
        bail!("rank {rank} cannot take part; it says why");
    }
    if at.only_kernel && !known.all_fit {
        bail!("the schedule is not one for the kernel, and --only-kernel wants it there");
    }
    let mut session = None;
    if let (Ok(compiled), true) = (compiled, known.all_fit) {
        let group = Group { me, session: known.session, macs: known.macs };
        session = Some(Session::new(&interface, compiled, group, Patience::default())?);
    }
    // All are there before the first message goes.
    comm.world().barrier()?;
    Ok(Joined { session, interface })
}

fn say_misfit(misfit: &Misfit, only_kernel: bool) {
    let then = if only_kernel { "" } else { "; all of it runs in user space" };
    castell_host::say(&format!("{misfit}{then}"));
}

/// What ranks know of each other before they begin.
struct Known {
    macs: Vec<(Rank, Mac)>,
    session: u64,
    all_fit: bool,
    lacking: Option<Rank>,
}

fn exchange(comm: &Comm, interface: &Result<Interface, XdpError>, fits: bool) -> anyhow::Result<Known> {
    let ranks = comm.world().size();
    let mut mac = [0; 8];
    if let Ok(interface) = interface {
        mac[..6].copy_from_slice(&interface.mac().0);
    }
    let random = u64::from_ne_bytes(random_bytes().context("no random numbers")?);
    let mine = [u64::from_ne_bytes(mac), random, fits.into()];
    let mut all = vec![0; 3 * ranks as usize];
    comm.world().allgather(&mine, &mut all)?;
    let of = |rank: Rank| &all[3 * rank.index()..][..3];
    let everyone = || (0..ranks).map(Rank);
    let mac = |rank| Mac(*of(rank)[0].to_ne_bytes().first_chunk().expect("eight bytes"));
    let lacking = everyone().find(|rank| of(*rank)[0] == 0);
    Ok(Known {
        macs: everyone().map(|rank| (rank, mac(rank))).collect(),
        // Of the first rank's drawing: nobody knows it who is not asked for it.
        session: of(Rank(0))[1],
        all_fit: everyone().all(|rank| of(rank)[2] == 1),
        lacking,
    })
}
