//! Why something cannot be done in the kernel.

use castell_base::Rank;
use castell_host::HostError;
use std::io;

/// Why a schedule cannot be carried out by the kernel here.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The program was not built.
    #[error(
        "this castell was built without its program for the kernel ({why}): install clang (`apt install clang`, `dnf install clang`) and build castell \
         again; nothing of clang is needed where it runs"
    )]
    NotBuilt {
        /// What failed.
        why: &'static str,
    },
    /// The process may not.
    #[error(
        "castell may not put a program at `{interface}`: that needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, in no user namespace, and CAP_NET_RAW. Run as root, or give them to \
         the program, `sudo setcap cap_bpf,cap_perfmon,cap_net_admin,cap_net_raw+ep PROGRAM`"
    )]
    Forbidden {
        /// The interface.
        interface: String,
    },
    /// None is named, and there is not one only.
    #[error("{0}, as in `xdp=eth0`")]
    NotOne(#[from] castell_host::interfaces::NotOne),
    /// There is no such interface.
    #[error("there is no network interface `{interface}` on this host; `ip -br link` shows which there are")]
    NoInterface {
        /// The interface.
        interface: String,
    },
    /// Another program is there.
    #[error(
        "`{interface}` has a program at its XDP hook already (another job of castell's, or somebody else's), and takes one only: `ip link show {interface}` names it; wait \
         until it is gone, use another interface, or run without --net xdp"
    )]
    Busy {
        /// The interface.
        interface: String,
    },
    /// The kernel does not take the program.
    #[error("the kernel refuses castell's program ({what}): it is for Linux 5.18 and later. {error}")]
    Refused {
        /// Which step.
        what: &'static str,
        /// What the kernel says.
        error: String,
    },
    /// All places for schedules are taken.
    #[error("`{interface}` carries {max} schedules already, the most at once; end one first")]
    Full {
        /// The interface.
        interface: String,
        /// How many.
        max: usize,
    },
    /// A peer that was not named.
    #[error("the schedule exchanges messages with rank {0}, whose hardware address was not given")]
    Unknown(Rank),
    /// Messages longer than frames here.
    #[error(
        "messages of {bytes} bytes do not fit into the frames of `{interface}`, which take {max}: raise its MTU (`ip link set {interface} mtu N`)"
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// Of the longest message.
        bytes: usize,
        /// What fits.
        max: usize,
    },
    /// Both sides of a message think otherwise about its size.
    #[error(
        "run {run}: a message of {bytes} bytes came to a receive of another size; the ranks run different schedules"
    )]
    Size {
        /// Which run.
        run: u32,
        /// What came.
        bytes: u32,
    },
    /// A peer says nothing.
    #[error(
        "run {run} waits for rank {peer}, which has said nothing for {silent_s:.1} s: it has ended, or its frames do not get here. At a veth \
         the other end has to take frames from programs: `ethtool -K PEER gro on` there, or `--xdp-mode generic`"
    )]
    Silent {
        /// Which run.
        run: u32,
        /// Who.
        peer: Rank,
        /// For how long.
        silent_s: f64,
    },
    /// More runs than are counted.
    #[error("this schedule was run four billion times; load it again")]
    Exhausted,
    /// Something of the system's.
    #[error("castell cannot use `{interface}`: {what}: {error}")]
    System {
        /// The interface.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// Memory that cannot be mapped.
    #[error(transparent)]
    Machine(#[from] HostError),
}
