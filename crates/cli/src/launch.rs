//! `castell launch`.

mod recording;

use crate::hosts::{Hosts, HostsArgs};
use crate::timeline::TimelineArgs;
use anyhow::{Context, bail};
use castell_comm::job::{Net, Progress, RANKS_MAX};
use castell_comm::launch::{Binding, Isolation, Launch};
use castell_host::journal::{DESCRIPTOR_VARIABLE, Journals};
use castell_model::Model;
use recording::Recording;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  castell launch -n 4 -- ./program input.txt     # four processes
  castell launch -n 4 --prefix -- ./program      # each line with its rank
  castell launch -n 2 --bind 0,1 -- ./program    # each rank on a processor
  castell launch -n 8 --stall 10s -- ./program   # tells who waits for whom
  castell launch -n 4 --net tcp -- ./program     # messages over TCP, not shared memory
  castell launch --hosts a:4,b:4 --net tcp+tls -- ./program    # encrypted between hosts
  castell launch --hosts a:4,b:4 --net tcp=ib0 -- ./program    # at this interface of each host
  castell launch -n 4 --isolate 2 -- ./program   # in two sets of namespaces, as in two containers; memory is shared
  castell launch -n 4 --isolate 4,user,pid -- ./program
  castell launch --hosts a:4,b:4 -- ./program    # eight processes on two hosts, by ssh
  castell launch -n 8 --hostfile hosts.txt -- ./program
  castell launch --hosts web1:2,web2:2 --remote 'docker exec -i {host}' -- ./program
  castell lab 4 -- castell launch -n 8 -- ./program   # on four hosts made of namespaces
  castell lab 2 -- castell launch -n 2 --net esp=eth0 -- ./program   # over raw Ethernet frames
  castell launch --hosts a:4,b:4 --net fabric -- ./program           # by libfabric between hosts: InfiniBand, Slingshot, EFA
  castell launch -n 4 --net 'fabric=tcp;ofi_rxm' -- ./program        # by this provider, between all ranks of this host
  kill -USR1 PID-OF-CASTELL                      # the same, at once
  castell launch -n 4 --timeline out.html -- ./program   # what each rank did, waited for and sent, on one axis
  castell launch --hosts a:4,b:4 --timeline out.html -- ./program   # the same: the hosts' clocks are compared
  castell launch -n 4 --timeline out.svg --model loggps -- ./program # what a model says of it, beneath what was measured
  castell launch -n 4 --goal program.goal -- ./program   # to be simulated: castell simulate program.goal --model …

Each process gets CASTELL_RANK and a share of one memory segment; a program that does not use castell just runs N \
times. On several hosts castell has to be at the same place on all, or where --castell says, in the same version; programs start in \
this folder. Ranks of one host share memory, those of different hosts talk over TCP. Standard input goes to rank 0. SIGINT, SIGTERM and SIGHUP are passed on; when castell ends, nothing that the \
program started is left.

--timeline draws graphs, collective calls, messages and tasks of every rank, also of ranks that were killed. A rank keeps its first \
events (--timeline-events, 64 bytes each); how many found no room is said. While it records, runs are carried on by their own process, \
not by peers.

Exit code: that of the rank that failed first (128 + signal if it was killed), 0 if none did; 124 after --timeout, \
126 and 127 where the program cannot be executed or found, 2 for wrong usage.";

/// Start N processes of a program that uses castell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Number of processes (ranks)
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX as i64))]
    #[arg(required_unless_present_any = ["hosts", "hostfile"])]
    ranks: Option<u32>,
    #[command(flatten)]
    on: HostsArgs,
    /// Sets a variable for the ranks on other hosts, or hands this one on; those that begin with CASTELL_ are handed on anyway
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    environment: Vec<String>,
    /// Processors for the ranks: none (the kernel decides), core (one core each, round robin), or a list such as 0,2,4-7
    #[arg(long, value_name = "none|core|LIST", default_value = "none")]
    bind: Binding,
    /// Put the ranks of each host into N isolation domains, with namespaces of their own: user, pid, ipc, mnt, net (without names: all; net
    /// stays common where ranks talk over TCP); neighbours together (compact) or apart (scatter). They share memory nevertheless
    #[arg(long, value_name = "N[,user,pid,ipc,mnt,net][,scatter]")]
    isolate: Option<Isolation>,
    /// Put `[rank] ` in front of each line of output
    #[arg(long)]
    prefix: bool,
    /// Who carries a run on whose process computes or sleeps: its own thread, the peers, or auto (peers where there are
    /// more ranks than processors)
    #[arg(long, default_value = "auto", value_name = "auto|thread|peers")]
    progress: Progress,
    /// What carries messages between hosts, while ranks of one host share memory: TCP (shm, the usual one; tcp=INTERFACE or tcp=10.1.0.0/16 says where ranks
    /// listen), TCP encrypted by TLS (tcp+tls, tcp+tls=INTERFACE), raw Ethernet frames over whichever interfaces are on one segment, or
    /// of these (esp, esp=eth0, esp=eth0,eth1; needs CAP_NET_RAW), or libfabric (fabric, fabric=PROVIDER, fabric=PROVIDER/DEVICE). On one host alone tcp, tcp+tls and fabric
    /// carry them between all ranks
    #[arg(
        long,
        default_value = "shm",
        value_name = "shm|tcp[+tls][=INTERFACE]|esp[=INTERFACE,...]|fabric[=PROVIDER]"
    )]
    net: Net,
    /// Print who waits for whom after this long without progress
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    stall: Option<Duration>,
    /// Terminate the others when a rank failed this long ago
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    grace: Duration,
    /// Terminate the job when it takes longer
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// How many events of each rank a timeline has room for; without it 262144, and at most 16 million of all ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    timeline_events: Option<u32>,
    /// Simulate what was recorded, as this model has it, say where the difference lies, and draw that beneath what was measured
    /// (.svg, .png, .pdf)
    #[arg(long, value_name = "MODEL", value_parser = crate::model::constant)]
    model: Option<Model>,
    /// Write what was recorded as a program for `castell simulate`: its messages, and what was computed between them
    #[arg(long, value_name = "FILE.goal")]
    goal: Option<PathBuf>,
    /// Print what carries messages between the ranks, and why, when all have joined (`castell ways` at any time)
    #[arg(long)]
    ways: bool,
    /// Tell what happens
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let on = Hosts::of(&args.on, args.ranks)?;
    let ranks = on.as_ref().map_or(args.ranks.unwrap_or(1), |on| on.places.len() as u32);
    let mut launch = Launch::new(ranks);
    launch.job.progress = args.progress;
    launch.job.net = args.net;
    launch.job.stall_ms =
        args.stall.map_or(Ok(0), |stall| u32::try_from(stall.as_millis())).context("--stall")?;
    launch.binding = args.bind.clone();
    launch.isolation = isolation(&args, &launch, on.is_some())?;
    launch.prefix = args.prefix;
    launch.grace = args.grace;
    launch.timeout = args.timeout;
    launch.verbose = args.verbose;
    launch.when_joined = args.ways.then_some(crate::ways::announce);
    let (program, arguments) = args.program.split_first().expect("clap requires a program");
    let events = events(&args, ranks)?;
    let eager_bytes = launch.job.eager_bytes;
    let outcome = match (on, events) {
        (None, None) => launch.program(program, arguments).map(|outcome| (outcome, None)),
        (None, Some(events)) => {
            let journals = Journals::create(ranks as usize, events as usize)
                .context("no memory for the timeline: ask for fewer with --timeline-events")?;
            launch.inherited = vec![(DESCRIPTOR_VARIABLE, journals.descriptor())];
            let noted = || (0..ranks as usize).map(|rank| journals.read(rank)).collect();
            let outcome = launch.program(program, arguments);
            outcome.map(|outcome| (outcome, Some(Recording { noted: noted(), clocks: None })))
        }
        (Some(on), None) => {
            let hosts = on.launch(launch, &args.environment)?;
            hosts.program(program, arguments).map(|outcome| (outcome, None))
        }
        (Some(on), Some(events)) => {
            let hosts = on.launch(launch, &args.environment)?;
            hosts.program_recorded(program, arguments, events).map(|(outcome, mut recorded)| {
                let noted = std::mem::take(&mut recorded.noted);
                (outcome, Some(Recording { noted, clocks: Some(recorded) }))
            })
        }
    };
    match outcome {
        Ok((outcome, recording)) => {
            if let Some(recording) = recording {
                recording.write(&args, eager_bytes)?;
            }
            Ok(ExitCode::from(outcome.exit_code()))
        }
        Err(error) => {
            castell_host::say(&error.to_string());
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

/// Ranks that talk over TCP have to have a network in common.
fn isolation(args: &Args, launch: &Launch, on_hosts: bool) -> anyhow::Result<Option<Isolation>> {
    let Some(mut isolation) = args.isolate else { return Ok(None) };
    if isolation.kinds.net && (on_hosts || matches!(launch.job.net, Net::Tcp(_) | Net::Fabric(_))) {
        if isolation.is_named {
            bail!(
                "--isolate {isolation}: ranks with networks of their own cannot talk over a common one: leave out net"
            );
        }
        isolation.kinds.net = false;
    }
    if isolation.kinds.user && matches!(launch.job.net, Net::Esp(_)) {
        if isolation.is_named {
            bail!(
                "--isolate {isolation}: ranks with users of their own may not send raw Ethernet frames: leave out user"
            );
        }
        isolation.kinds.user = false;
    }
    Ok(Some(isolation))
}

/// Events that a rank's journal has room for, and those of all ranks together.
const EVENTS: u32 = 1 << 18;
const EVENTS_OF_ALL: u32 = 1 << 24;

/// How many events each rank is to note, if what they do is wanted.
fn events(args: &Args, ranks: u32) -> anyhow::Result<Option<u32>> {
    if args.timeline.timeline.is_none() && args.model.is_none() && args.goal.is_none() {
        return Ok(None);
    }
    args.timeline.check()?;
    args.goal.as_deref().map_or(Ok(()), crate::output::check)?;
    Ok(Some(args.timeline_events.unwrap_or((EVENTS_OF_ALL / ranks).min(EVENTS))))
}

/// Reads a time such as `10s`, `250ms`, `2m`, `1.5h`; a plain number is seconds.
pub(crate) fn parse_duration(text: &str) -> anyhow::Result<Duration> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => bail!("`{unit}` is no unit of time: use us, ms, s, m or h, as in 10s"),
    };
    let number: f64 =
        number.trim().parse().with_context(|| format!("`{text}` is no time: write it as in 10s"))?;
    match Duration::try_from_secs_f64(number * scale) {
        Ok(duration) if duration < Duration::from_secs(1 << 32) => Ok(duration),
        _ => bail!("`{text}` is too long or negative"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let parsed = |text: &str| parse_duration(text).map_err(|error| format!("{error:#}"));
        assert_eq!(parsed("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parsed("3"), Ok(Duration::from_secs(3)));
        assert_eq!(parsed("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parsed("1.5h"), Ok(Duration::from_secs(5400)));
        for bad in ["", "s", "10 parsecs", "-1s", "1e300h", "nan"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
