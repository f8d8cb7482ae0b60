//! `castell xdp`: schedules that the kernel carries out, beside user space.

pub mod joined;
mod measured;
mod rounds;
mod what;

use anyhow::{Context as _, bail};
use castell_base::Rank;
use castell_comm::Comm;
use castell_goal::schedule::Schedule;
use castell_xdp::Mode;
use joined::{At, join};
use measured::Report;
use rounds::Rounds;
use std::process::ExitCode;
use std::sync::Arc;
use what::What;

const EXAMPLES: &str = "\
Examples:
  castell lab 4 -- castell launch -n 4 -- castell xdp eth0 barrier:dissemination
  castell lab 8 -- castell launch -n 8 -- castell xdp eth0 allreduce:recursive-doubling --elements 16 --json
  castell lab 4 -- castell launch -n 4 -- castell xdp eth0 barrier:dissemination --busy   # while all processors compute
  castell launch --hosts a,b,c,d -- castell xdp eno1 bcast:binomial --elements 100
  castell launch --hosts a,b -- castell xdp eno1 pingpong.goal       # any GOAL program that fits

One rank a host, each at its own interface; all interfaces on one segment. The schedule of each rank is put into the kernel, where a frame that arrives carries it on \
and sends the next ones, before any process wakes. Each run is followed by one of the same schedule in user space, over what castell launch was told (--net), so that both are \
measured in the same moments. What cannot be carried out in the kernel is named with the reason, and all runs are in user space then.

Needs CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_NET_RAW outside of any user namespace, and Linux 5.18; root has them. Else: sudo setcap \
cap_bpf,cap_perfmon,cap_net_admin,cap_net_raw+ep castell. While it runs, the interface has castell's program, which takes frames of EtherType 0x88B5 that are castell's, and passes all others on.

Exit code: 0; 1 where it cannot be done, a rank is missing or a result is wrong; 2 for wrong usage.";

/// Carry a schedule out in the kernel, where frames arrive, and measure that beside user space
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The network interface, of this name on each host; `-`: the only Ethernet interface of each
    interface: String,
    /// A collective operation with its algorithm (`castell schedule list`; of i64, sums), or a file with a GOAL program
    what: String,
    /// Elements of 8 bytes that each rank contributes
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=175))]
    elements: u64,
    /// How often it is run, each way
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// Where the program is: in the driver where that can be and is no veth, else behind it (auto); in the driver (native); behind it (generic)
    #[arg(long, default_value = "auto", value_enum)]
    xdp_mode: XdpMode,
    /// Each rank computes meanwhile with as many threads as there are processors, as a program does that started something and goes on
    #[arg(long)]
    busy: bool,
    /// Refuse what cannot be carried out in the kernel, instead of doing it in user space
    #[arg(long)]
    only_kernel: bool,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

/// [`Mode`], on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum XdpMode {
    Auto,
    Native,
    Generic,
}

/// Carries the command out, as one rank of a group.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let comm = Comm::init()?;
    let outcome = take_part(&args, &comm);
    comm.finalize();
    outcome.map(|()| ExitCode::SUCCESS)
}

fn take_part(args: &Args, comm: &Comm) -> anyhow::Result<()> {
    let (me, ranks) = (comm.rank(), comm.world().size());
    if ranks == 1 {
        bail!(
            "one rank alone has nobody to send frames to: start several, each on a host of its own, as `castell lab 4 -- castell launch -n 4 -- castell xdp …` does"
        );
    }
    let what = What::read(&args.what, ranks, args.elements)?;
    let schedule = Arc::new(what.schedule(me)?);
    let mode = match args.xdp_mode {
        XdpMode::Auto => Mode::Auto,
        XdpMode::Native => Mode::Native,
        XdpMode::Generic => Mode::Generic,
    };
    let interface = if args.interface == "-" { "" } else { &args.interface };
    let at = At { interface, mode, only_kernel: args.only_kernel };
    let mut joined = join(comm, &at, &schedule)?;
    let rounds = Rounds { comm, schedule: &schedule, what: &what, runs: args.runs, busy: args.busy };
    let times = rounds.run(joined.session.as_mut())?;
    if let Some(session) = &mut joined.session {
        session.finish()?;
    }
    let all = times.gather(comm)?;
    if me == Rank(0) {
        let report = Report {
            what: &args.what,
            ranks,
            runs: args.runs,
            busy: args.busy,
            mode: joined.interface.mode(),
            times: &all,
        };
        report.print(args.json);
    }
    comm.world().barrier().context("the others have ended")
}

/// A schedule, as ranks share it.
type Shared = Arc<Schedule>;
