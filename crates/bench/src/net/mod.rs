//! `castell bench net`: castell beside the MPI implementations of this machine over the same network, between the same hosts, in turns.
//!
//! On two hosts with a rank each: half round trips, messages in windows, and what a bare socket takes; on all numbers of hosts and ranks
//! a host: collective calls. Castell's side is `castell launch`, whose ranks are `castell bench` themselves; the peers' are the programs
//! of `benches/mpi/`.

mod hosts;
mod kernel;

use crate::collectives::{Plan, Timing};
use crate::messages::window;
use crate::peers::{self, Peer};
use crate::report::{Measurement, Params, Report, Sample};
use crate::workload::Effort;
use anyhow::{Context as _, bail};
use castell_collectives::decision::Operation;
use castell_comm::job::Net;
use hosts::{Group, Hosts};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::process::{Command, Stdio};

/// What of the command line is for this workload.
#[derive(clap::Args)]
pub struct NetArgs {
    /// Hosts, as a,b,c,d (default: those of the lab that this runs in)
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', help_heading = "For net")]
    hosts: Vec<String>,
    /// The command that starts a command on a host, as for `castell launch`
    #[arg(long, value_name = "COMMAND", help_heading = "For net")]
    remote: Option<String>,
    /// What carries castell's messages between hosts: tcp, esp[=INTERFACE,...], tcp+tls, fabric[=PROVIDER], or xdp[=INTERFACE], the hosts' kernels
    /// (small collective calls, one rank a host); several: tcp,esp,xdp
    #[arg(long = "net", value_name = "NET", value_delimiter = ',', default_values = ["tcp"], help_heading = "For net")]
    nets: Vec<String>,
    /// On how many of the hosts, as 2,4 (default: 2, 4, 8, as far as there are such)
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..), help_heading = "For net")]
    on: Vec<u32>,
    /// With how many ranks on each, as 1,2
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "2"], value_parser = clap::value_parser!(u32).range(1..), help_heading = "For net")]
    per_host: Vec<u32>,
}

const OPERATIONS: [Operation; 4] =
    [Operation::Barrier, Operation::Allreduce, Operation::Broadcast, Operation::Alltoall];
const BYTES: [u64; 3] = [8, 64 << 10, 1 << 20];
/// From here on fewer samples do, each of which has a hundred round trips. Bytes.
const LONG_BYTES: u64 = 256 << 10;

/// A figure of somebody: what it is called, of which case, and which algorithm it was.
#[derive(Clone, Debug, Deserialize)]
struct Figure {
    workload: String,
    params: Params,
    #[serde(flatten)]
    sample: Sample,
    #[serde(default)]
    algorithm: Option<String>,
}

/// Who is measured.
enum Side {
    /// `castell launch` over this network.
    Castell(String),
    /// The hosts' kernels, at this interface of each; empty: their only ones.
    Kernel(String),
    /// A socket without any library.
    Socket,
    Mpi(Box<Peer>),
}

impl Side {
    fn name(&self) -> String {
        match self {
            Side::Castell(net) => format!("castell, {net}"),
            Side::Kernel(interface) if interface.is_empty() => "castell, xdp".to_owned(),
            Side::Kernel(interface) => format!("castell, xdp={interface}"),
            Side::Socket => "a bare socket".to_owned(),
            Side::Mpi(peer) => peer.name().to_owned(),
        }
    }
}

/// Networks as they were written with commas, of which some stand between the interfaces of one: `tcp,esp=eth0,eth1`.
fn joined(words: &[String]) -> Vec<String> {
    let mut nets: Vec<String> = Vec::new();
    for word in words {
        let is_net = word.starts_with("xdp") || word.parse::<Net>().is_ok();
        match nets.last_mut() {
            Some(net) if !is_net && net.starts_with("esp=") => *net = format!("{net},{word}"),
            _ => nets.push(word.clone()),
        }
    }
    nets
}

/// Carries the command out.
pub fn run(
    args: &NetArgs,
    mpis: &[String],
    operations: Option<&[Operation]>,
    bytes: Option<&[u64]>,
    effort: Effort,
) -> anyhow::Result<Vec<Measurement>> {
    let hosts = Hosts::of(&args.hosts, args.remote.as_deref())?;
    let groups = groups(args, &hosts)?;
    let timing = Timing {
        samples: effort.samples(10),
        budget_us: 1000,
        limit_ms: 300,
        in_a_row: false,
        started: false,
    };
    let plan = Plan {
        operations: operations.unwrap_or(&OPERATIONS).to_vec(),
        bytes: bytes.unwrap_or(&BYTES).to_vec(),
        timing,
    };
    let side = |net: &String| match net.split_once('=') {
        Some(("xdp", interface)) => Side::Kernel(interface.to_owned()),
        None if net == "xdp" => Side::Kernel(String::new()),
        _ => Side::Castell(net.clone()),
    };
    let mut sides: Vec<Side> = joined(&args.nets).iter().map(side).collect();
    sides.push(Side::Socket);
    let named = || mpis.iter().map(|text| Peer::named(text)).collect::<anyhow::Result<Vec<_>>>();
    let peers = if mpis.is_empty() { peers::wanted(effort.peers)? } else { named()? };
    sides.extend(peers.into_iter().map(|peer| Side::Mpi(Box::new(peer))));
    let steps = groups.len() * effort.rounds as usize * sides.len();
    let mut report = Report::new(effort.json, steps as u64);
    for group in &groups {
        let mut taken: Vec<(String, Figure, Vec<Sample>)> = Vec::new();
        for round in 0..effort.rounds {
            for side in &mut sides {
                let name = side.name();
                if group.each() > 1 && matches!(side, Side::Kernel(_)) {
                    if round == 0 {
                        let each = group.each();
                        castell_host::say(&format!(
                            "{name} is left out on hosts × {each}: an interface takes one rank's program"
                        ));
                    }
                    report.step();
                    continue;
                }
                if group.is_too_many() && matches!(side, Side::Mpi(peer) if !peer.gives_way()) {
                    if round == 0 {
                        let (hosts, each) = (group.hosts(), group.each());
                        castell_host::say(&format!(
                            "{name} is left out on {hosts} hosts × {each}: its ranks do not give way while they wait, and these share \
                             fewer processors"
                        ));
                    }
                    report.step();
                    continue;
                }
                let figures = measure(side, group, &plan)
                    .with_context(|| format!("{name}, {} hosts × {}", group.hosts(), group.each()));
                match figures {
                    Ok(figures) => figures.into_iter().for_each(|figure| keep(&mut taken, &name, figure)),
                    // What ails a peer is no reason to lose all figures.
                    Err(error) if matches!(side, Side::Mpi(_) | Side::Kernel(_)) => {
                        castell_host::say(&format!("{error:#}"))
                    }
                    Err(error) => return Err(error),
                }
                report.step();
            }
        }
        report.rows(rows_of(group, &taken, &plan));
    }
    report.end()
}

/// Hosts and ranks on each of them.
fn groups<'a>(args: &NetArgs, hosts: &'a Hosts) -> anyhow::Result<Vec<Group<'a>>> {
    let numbers = if args.on.is_empty() {
        [2, 4, 8].into_iter().filter(|number| *number as usize <= hosts.len()).collect()
    } else {
        args.on.clone()
    };
    if let Some(many) = numbers.iter().find(|number| **number as usize > hosts.len()) {
        bail!("--on {many}: there are {} hosts", hosts.len());
    }
    Ok(numbers
        .iter()
        .flat_map(|&number| args.per_host.iter().map(move |&each| hosts.group(number, each)))
        .collect())
}

/// A round of somebody.
fn measure(side: &mut Side, group: &Group<'_>, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let is_pair = group.hosts() == 2 && group.each() == 1;
    let samples = |bytes: u64| if bytes < LONG_BYTES { plan.timing.samples } else { 2 };
    match side {
        Side::Castell(net) => {
            let mut figures = Vec::new();
            if is_pair {
                for &bytes in &plan.bytes {
                    figures.extend(castell(group, net, "pingpong", &[], bytes, samples(bytes))?);
                }
                let window = castell(group, net, "messages", &[], plan.bytes[0], plan.timing.samples)?;
                figures.extend(window.into_iter().filter(|figure| figure.params.number("window").is_some()));
            }
            let ops: Vec<&str> = plan.operations.iter().map(|operation| operation.name()).collect();
            let sizes = plan.bytes.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
            let more = ["--ops", &ops.join(",")];
            figures.extend(castell_sized(group, net, "collectives", &more, &sizes, plan.timing.samples)?);
            Ok(figures)
        }
        Side::Kernel(interface) => kernel::figures(group, interface, plan),
        Side::Socket if is_pair => {
            let mut figures = Vec::new();
            for &bytes in &plan.bytes {
                figures.extend(castell(group, "tcp", "sockets", &[], bytes, samples(bytes))?);
            }
            Ok(figures)
        }
        Side::Socket => Ok(Vec::new()),
        Side::Mpi(peer) => mpi(peer, group, plan, is_pair, &samples),
    }
}

fn castell(
    group: &Group<'_>,
    net: &str,
    workload: &str,
    more: &[&str],
    bytes: u64,
    samples: u32,
) -> anyhow::Result<Vec<Figure>> {
    castell_sized(group, net, workload, more, &bytes.to_string(), samples)
}

/// Runs `castell bench` as the ranks of a job on the hosts.
fn castell_sized(
    group: &Group<'_>,
    net: &str,
    workload: &str,
    more: &[&str],
    bytes: &str,
    samples: u32,
) -> anyhow::Result<Vec<Figure>> {
    let samples = samples.to_string();
    let words =
        ["bench", workload, "--json", "--no-peers", "--rounds", "1", "--bytes", bytes, "--samples", &samples];
    launched(group, net, words.into_iter().chain(more.iter().copied()).map(str::to_owned))
}

/// What these words of castell's, as the ranks of a job on the hosts, print as JSON.
fn launched<T: DeserializeOwned>(
    group: &Group<'_>,
    net: &str,
    more: impl Iterator<Item = String>,
) -> anyhow::Result<T> {
    let mut words = group.launch(net);
    let program = words[0].clone();
    words.extend(["--".to_owned(), program].into_iter().chain(more));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    castell_host::process::ends_with_this(&mut command);
    let output = command.output().with_context(|| format!("could not start {}", words[0]))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`{}` ended with {}:\n{}", words.join(" "), output.status, said.trim());
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("what `{}` said", words.join(" ")))
}

fn mpi(
    peer: &mut Peer,
    group: &Group<'_>,
    plan: &Plan,
    is_pair: bool,
    samples: &dyn Fn(u64) -> u32,
) -> anyhow::Result<Vec<Figure>> {
    peer.on(group.of_mpi());
    let ranks = group.hosts() * group.each();
    let figure = |workload: &str, params: &Params, sample: Sample| Figure {
        workload: workload.to_owned(),
        params: params.clone(),
        sample,
        algorithm: None,
    };
    let mut figures = Vec::new();
    if is_pair {
        for &bytes in &plan.bytes {
            let case = Params::new().with("bytes", bytes);
            figures.push(figure("pingpong", &case, peer.measure("pingpong", 2, &case, samples(bytes))?));
        }
    }
    for ((operation, bytes), sample) in plan.cases().into_iter().zip(plan.measure_peer(peer, ranks)?) {
        figures.push(figure(operation.name(), &Params::new().with("bytes", bytes), sample));
    }
    if is_pair {
        let case = Params::new().with("bytes", plan.bytes[0]).with("window", window(plan.bytes[0]));
        match peer.measure("messages", 2, &case, plan.timing.samples) {
            Ok(sample) => figures.push(figure("messages", &case, sample)),
            Err(error) => castell_host::say(&format!("{}, messages: {error:#}", peer.name())),
        }
    }
    Ok(figures)
}

/// Puts a figure to those of the same subject and case.
fn keep(taken: &mut Vec<(String, Figure, Vec<Sample>)>, name: &str, figure: Figure) {
    let name = match figure.params.word("way") {
        Some(way) => format!("{name}, {way}"),
        None => name.to_owned(),
    };
    let workload = if figure.workload == "sockets" { "pingpong".to_owned() } else { figure.workload.clone() };
    let figure = Figure { workload, ..figure };
    let is_it = |other: &(String, Figure, Vec<Sample>)| {
        other.0 == name
            && other.1.workload == figure.workload
            && other.1.params.number("bytes") == figure.params.number("bytes")
    };
    match taken.iter_mut().find(|other| is_it(other)) {
        Some((_, _, samples)) => samples.push(figure.sample),
        None => taken.push((name, figure.clone(), vec![figure.sample])),
    }
}

/// Case by case, castell first.
fn rows_of(group: &Group<'_>, taken: &[(String, Figure, Vec<Sample>)], plan: &Plan) -> Vec<Measurement> {
    let point = |workload: &'static str| plan.bytes.iter().map(move |&bytes| (workload, bytes));
    let calls = plan.cases().into_iter().map(|(operation, bytes)| (operation.name(), bytes));
    let mut rows = Vec::new();
    for (workload, bytes) in point("pingpong").chain(point("messages")).chain(calls) {
        let params = Params::new().with("hosts", group.hosts()).with("ranks", group.hosts() * group.each());
        let params = params.with("bytes", bytes);
        for (name, figure, samples) in taken {
            if figure.workload == workload && figure.params.number("bytes") == Some(bytes) {
                let row = Sample::over_rounds(samples)
                    .map(|sample| Measurement::new(workload, name.clone(), &params, sample));
                rows.extend(row.map(|row| match &figure.algorithm {
                    Some(algorithm) => row.by(algorithm),
                    None => row,
                }));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_one_network_stand_between_commas_as_networks_do() {
        let words = |text: &str| text.split(',').map(String::from).collect::<Vec<_>>();
        let nets = joined(&words("tcp,esp=eth0,eth1,xdp,esp=a,b,c,tcp=eth0,esp"));
        assert_eq!(nets, ["tcp", "esp=eth0,eth1", "xdp", "esp=a,b,c", "tcp=eth0", "esp"]);
        // What is none is refused by whoever is told to use it.
        assert_eq!(joined(&words("tcp,eth1")), ["tcp", "eth1"]);
    }
}
