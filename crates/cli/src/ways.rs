//! `castell ways`.

mod fabrics;
mod interfaces;

use anyhow::{Context as _, bail};
use castell_base::{Rank, counted};
use castell_comm::job::{Death, Job, RankState};
use castell_comm::jobs::{self, RunningJob};
use castell_comm::ways::{Reading, Way, WhyNetwork};
use castell_host::topology::print_list;
use castell_transport::Address;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell ways                            # all jobs on this host that this user can see
  castell ways --job 4711                 # the one that this process belongs to: its launcher, or any rank
  castell ways --job 4711 --explain       # with how large messages go, where ranks listen, and what --net fabric finds here
  castell ways --json | jq '.jobs[].ways[] | select(.way == \"tcp\")'
  castell launch -n 4 --ways -- ./program # once, when all ranks have joined
  castell lab 2 -- castell launch -n 4 --ways -- ./program

A job on several hosts is seen whole on each of them, and where castell launch runs. Jobs inside containers are seen inside them; what runs \
as another user is seen by root.

Exit code: 0; 1 if there is no such job; 2 for wrong usage.";

/// What carries messages between the ranks of running jobs, and why nothing better
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only the job that this process belongs to
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    job: Option<i32>,
    /// Tell how large messages go, where ranks listen, and what each provider of libfabric offers or lacks here
    #[arg(long)]
    explain: bool,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut found = jobs::running();
    if let Some(pid) = args.job {
        let belongs = |job: &RunningJob| job.processes.iter().any(|process| process.raw() == pid);
        let others = found.iter().map(|job| job.id.to_string()).collect::<Vec<_>>().join(", ");
        found.retain(belongs);
        if found.is_empty() {
            let others =
                if others.is_empty() { "there is none".into() } else { format!("there are {others}") };
            bail!("process {pid} belongs to no job that can be seen from here; {others}");
        }
    }
    let fabrics = args.explain.then(fabrics::Fabrics::look);
    if found.is_empty() && fabrics.is_none() {
        bail!(
            "no job can be seen here: `castell launch` starts one. Jobs of other users are seen by root, those in a container inside it"
        );
    }
    let mut pictures = Vec::new();
    for job in &found {
        let views = job.views.iter().map(|view| view.as_ref().map_err(|error| anyhow::anyhow!("{error}")));
        let views: anyhow::Result<Vec<&Job>> = views.collect();
        match views.with_context(|| {
            format!("job {} cannot be read (its own castell has `castell ways`, too)", job.id)
        }) {
            Ok(views) => pictures.push((job, Picture::of(&views))),
            // One that cannot be read is no reason to be silent about the others.
            Err(error) if found.len() > 1 => castell_host::say(&format!("{error:#}")),
            Err(error) => return Err(error),
        }
    }
    if args.json {
        let jobs: Vec<Value> = pictures.iter().map(|(job, picture)| picture.to_json(job)).collect();
        let mut all = json!({ "jobs": jobs });
        if let Some(fabrics) = &fabrics {
            all["fabric"] = fabrics.to_json();
        }
        println!("{all:#}");
    } else {
        let texts = pictures.iter().map(|(job, picture)| picture.to_text(&job.id.to_string(), args.explain));
        let texts = texts.chain(fabrics.iter().map(fabrics::Fabrics::to_text));
        print!("{}", texts.collect::<Vec<_>>().join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// For `castell launch --ways`: says it once, as what castell says.
pub(crate) fn announce(job: &Job) {
    let text = Picture::of(&[job]).to_text(&std::process::id().to_string(), false);
    // One write, so that output of ranks does not come in between.
    eprint!("{text}");
}

/// Ranks that are alike for whoever asks for their ways.
struct Place {
    name: String,
    ranks: Vec<u32>,
}

/// What leads from ranks of a place to those of another, or within one.
struct Between {
    one: usize,
    other: usize,
    way: Way,
    large: Option<String>,
    /// The network interfaces, where raw frames go and some ranks have met.
    over: Vec<String>,
}

struct Picture<'a> {
    views: Vec<&'a Job>,
    places: Vec<Place>,
    between: Vec<Between>,
}

/// A matrix with a letter a pair is drawn up to so many ranks; above, only places.
const MATRIX_RANKS_MAX: u32 = 48;

impl<'a> Picture<'a> {
    /// Of a job with at least one view.
    fn of(views: &[&'a Job]) -> Picture<'a> {
        let job = views[0];
        let mut by_place: BTreeMap<(u32, Option<u32>), Vec<u32>> = BTreeMap::new();
        for rank in (0..job.ranks()).map(Rank) {
            by_place.entry((job.host_of(rank), job.domain_of(rank))).or_default().push(rank.0);
        }
        let place = |ranks: Vec<u32>| {
            let first = Rank(ranks[0]);
            let name = match (job.host_name(first), job.domain_of(first)) {
                (None, None) => "this host".into(),
                (None, Some(domain)) => format!("domain {domain}"),
                (Some(host), None) => host,
                (Some(host), Some(domain)) => format!("{host}/domain {domain}"),
            };
            Place { name, ranks }
        };
        let mut picture = Picture {
            views: views.to_vec(),
            places: by_place.into_values().map(place).collect(),
            between: Vec::new(),
        };
        for one in 0..picture.places.len() {
            for other in one..picture.places.len() {
                let first = picture.places[one].ranks[0];
                let Some(second) = picture.places[other].ranks.iter().find(|rank| **rank != first) else {
                    continue;
                };
                let way = job.way(Rank(first), Rank(*second));
                let large = (way == Way::SharedMemory).then(|| picture.large(one, other));
                let ranks = |place: usize| &*picture.places[place].ranks;
                let over = (way == Way::Esp).then(|| interfaces::met_over(views, ranks(one), ranks(other)));
                let over = over.unwrap_or_default();
                picture.between.push(Between { one, other, way, large, over });
            }
        }
        picture
    }

    fn job(&self) -> &Job {
        self.views[0]
    }

    /// How large messages go between ranks that share memory.
    fn large(&self, one: usize, other: usize) -> String {
        let (one, other) = (&self.places[one].ranks, &self.places[other].ranks);
        // Only the first 64 ranks try.
        let pairs =
            one.iter().take(64).flat_map(|one| other.iter().take(64).map(move |other| (*one, *other)));
        let readings = pairs.filter(|(one, other)| one != other).map(|(one, other)| {
            let of = |job: &&Job| job.reading(Rank(one), Rank(other));
            self.views.iter().map(of).find(|reading| *reading != Reading::Untried).unwrap_or(Reading::Untried)
        });
        let readings: Vec<Reading> = readings.collect();
        let has = |wanted| readings.contains(&wanted);
        let read = if has(Reading::Refused) {
            "the kernel refuses reading a peer's memory (process_vm_readv: other users, namespaces or a security module), so all \
             bytes go through the segment"
        } else if has(Reading::Declines) {
            "reading a peer's memory (process_vm_readv) is allowed but slow here, so all bytes but those of large scatters go through the segment"
        } else if has(Reading::Does) {
            "large collective calls read the peers' memory (process_vm_readv)"
        } else {
            "no rank has had to find out yet whether the kernel allows reading a peer's memory (process_vm_readv)"
        };
        format!(
            "messages above {} B in pieces through pipes in the segment; {read}",
            self.job().eager_bytes()
        )
    }

    fn gone(&self, rank: u32) -> bool {
        matches!(self.job().control(Rank(rank)).state(), RankState::Finished | RankState::Dead(_))
    }

    /// The process of a rank, as far as it is known here: its number where it runs.
    fn process(&self, rank: u32) -> Option<u32> {
        self.views.iter().map(|job| job.control(Rank(rank)).pid()).find(|pid| *pid != 0)
    }

    fn letter(&self, one: u32, other: u32) -> char {
        match self.job().way(Rank(one), Rank(other)) {
            Way::Itself => '.',
            _ if self.gone(one) || self.gone(other) => 'x',
            Way::SharedMemory => 'm',
            Way::Tcp(_) => 't',
            Way::Tls(_) => 's',
            Way::Esp => 'e',
            Way::Fabric(_) => 'f',
        }
    }

    fn to_text(&self, id: &str, explain: bool) -> String {
        let ranks = self.job().ranks();
        let hosts: BTreeSet<u32> = (0..ranks).map(|rank| self.job().host_of(Rank(rank))).collect();
        let hosts = hosts.len();
        let mut lines = vec![format!(
            "job {id}: {} on {}",
            counted(ranks, "rank"),
            match (hosts, self.places.len()) {
                (1, 1) => self.places[0].name.clone(),
                (1, domains) => counted(domains, "isolation domain"),
                (hosts, _) => counted(hosts, "host"),
            }
        )];
        if self.places.len() > 1 {
            lines.extend(
                self.places.iter().map(|place| format!("  {}: {}", place.name, print_list(&place.ranks))),
            );
        }
        lines.extend(self.states());
        if ranks > 1 {
            lines.push(String::new());
            lines.extend(if ranks <= MATRIX_RANKS_MAX { self.matrix() } else { Vec::new() });
            lines.extend(self.sentences(explain));
        }
        if explain {
            lines.extend(self.listening());
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// What is to be said of ranks that do not simply run.
    fn states(&self) -> Vec<String> {
        let mut by_state: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for rank in 0..self.job().ranks() {
            let said = match self.job().control(Rank(rank)).state() {
                RankState::Alive => continue,
                RankState::Unborn => "not joined yet".into(),
                RankState::Finished => "left in order".into(),
                RankState::Dead(Death::Vanished) => "gone".into(),
                RankState::Dead(death) => format!("gone: {death}"),
            };
            by_state.entry(said).or_default().push(rank);
        }
        by_state.into_iter().map(|(said, ranks)| format!("  {said}: {}", print_list(&ranks))).collect()
    }

    fn matrix(&self) -> Vec<String> {
        let ranks = self.job().ranks();
        let width = (ranks - 1).to_string().len() + 1;
        let row = |head: String, cells: Vec<String>| {
            let cells = cells.iter().map(|cell| format!("{cell:>width$}")).collect::<String>();
            format!("  {head:>width$} {cells}")
        };
        let mut lines = vec![row(String::new(), (0..ranks).map(|rank| rank.to_string()).collect())];
        for one in 0..ranks {
            let cells = (0..ranks).map(|other| self.letter(one, other).to_string());
            lines.push(row(one.to_string(), cells.collect()));
        }
        let drawn =
            |letter: char| (0..ranks).any(|one| (0..ranks).any(|other| self.letter(one, other) == letter));
        let meanings = [
            ('m', "shared memory"),
            ('t', "TCP"),
            ('s', "TCP, encrypted"),
            ('e', "raw Ethernet frames"),
            ('f', "libfabric"),
            ('x', "none: a rank is gone"),
        ];
        let legend = meanings.iter().filter(|(letter, _)| drawn(*letter));
        let legend: Vec<String> = legend.map(|(letter, meaning)| format!("{letter} {meaning}")).collect();
        lines.push(format!("  {}", legend.join("   ")));
        lines.push(String::new());
        lines
    }

    fn sentences(&self, explain: bool) -> Vec<String> {
        let mut grouped: Vec<(String, Vec<String>)> = Vec::new();
        for between in &self.between {
            let (one, other) = (&self.places[between.one], &self.places[between.other]);
            let pair = match (self.places.len(), between.one == between.other) {
                (1, _) => "all pairs".into(),
                (_, true) => format!("within {}", one.name),
                (_, false) => format!("{} - {}", one.name, other.name),
            };
            let mut said = match between.way {
                Way::Tcp(_) => format!("TCP; {}", why(between.way)),
                Way::Tls(_) => format!("TCP, encrypted by TLS 1.3; {}", why(between.way)),
                Way::Esp => format!("raw Ethernet frames {}; {}", self.over(between), why(between.way)),
                Way::Fabric(_) => format!("libfabric; {}", why(between.way)),
                _ => "shared memory".into(),
            };
            if let Some(large) = between.large.as_ref().filter(|_| explain) {
                said = format!("{said}; {large}");
            }
            match grouped.iter_mut().find(|(text, _)| *text == said) {
                Some((_, pairs)) => pairs.push(pair),
                None => grouped.push((said, vec![pair])),
            }
        }
        let few = |mut pairs: Vec<String>| {
            let more = pairs.len().saturating_sub(12);
            pairs.truncate(12);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more}", pairs.join(", "))
        };
        // Where all is alike, the places say nothing.
        if let [(said, pairs)] = &mut grouped[..] {
            return vec![format!(
                "  {}: {said}",
                if pairs.len() == 1 { pairs.remove(0) } else { "all pairs".into() }
            )];
        }
        grouped.into_iter().map(|(said, pairs)| format!("  {}: {said}", few(pairs))).collect()
    }

    /// Over which interfaces raw frames go.
    fn over(&self, between: &Between) -> String {
        if !between.over.is_empty() {
            return format!("over {}", between.over.join(", "));
        }
        let ranks = [between.one, between.other].into_iter().flat_map(|place| &self.places[place].ranks);
        let tried = interfaces::tried(&self.views, ranks.copied());
        match (tried.is_empty(), tried.contains(',')) {
            (true, _) => "as soon as the ranks say where they are".into(),
            (_, false) => format!("over {tried}"),
            (_, true) => format!("over whichever of {tried} answers first"),
        }
    }

    fn addresses(&self, rank: u32) -> Vec<String> {
        let of = |job: &&Job| jobs::listens_at(job, Rank(rank));
        let fabric = |job: &&Job| castell_fabric::describe(&Address(job.net_address(Rank(rank))?));
        let ips = self.views.iter().find_map(of).unwrap_or_default();
        ips.iter().map(ToString::to_string).chain(self.views.iter().find_map(fabric)).collect()
    }

    fn listening(&self) -> Vec<String> {
        let of =
            |rank: u32| Some((rank, self.addresses(rank))).filter(|(_, addresses)| !addresses.is_empty());
        let known = (0..self.job().ranks()).filter_map(of);
        known.map(|(rank, addresses)| format!("  rank {rank} listens at {}", addresses.join(", "))).collect()
    }

    fn to_json(&self, job: &RunningJob) -> Value {
        let ranks = 0..self.job().ranks();
        let state = |rank: u32| match self.job().control(Rank(rank)).state() {
            RankState::Unborn => "unborn",
            RankState::Alive => "alive",
            RankState::Finished => "finished",
            RankState::Dead(_) => "dead",
        };
        let of_rank = |rank: u32| {
            let (host, domain) = (self.job().host_name(Rank(rank)), self.job().domain_of(Rank(rank)));
            json!({ "rank": rank, "host": host, "domain": domain, "state": state(rank), "process": self.process(rank), "listens": self.addresses(rank) })
        };
        let of_way = |between: &Between| {
            let ranks = |place: usize| &self.places[place].ranks;
            json!({
                "ranks": ranks(between.one), "with": ranks(between.other), "way": name(between.way),
                "why": why(between.way), "large": between.large, "over": between.over,
            })
        };
        let row = |one: u32| ranks.clone().map(|other| self.letter(one, other)).collect::<String>();
        let matrix = (ranks.end <= MATRIX_RANKS_MAX).then(|| ranks.clone().map(row).collect::<Vec<_>>());
        json!({
            "job": job.id.raw(),
            "processes": job.processes.iter().map(|process| process.raw()).collect::<Vec<_>>(),
            "net": self.job().net().to_string(),
            "ranks": ranks.clone().map(of_rank).collect::<Vec<_>>(),
            "ways": self.between.iter().map(of_way).collect::<Vec<_>>(),
            "matrix": matrix,
        })
    }
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Itself => "itself",
        Way::SharedMemory => "shared memory",
        Way::Tcp(_) => "tcp",
        Way::Tls(_) => "tcp+tls",
        Way::Esp => "esp",
        Way::Fabric(_) => "fabric",
    }
}

/// Why it is not a better one.
fn why(way: Way) -> &'static str {
    match way {
        Way::Itself | Way::SharedMemory => "there is none better",
        Way::Esp => "different hosts share no memory, and the job was started with --net esp",
        Way::Fabric(WhyNetwork::OtherHosts) => {
            "different hosts share no memory, and the job was started with --net fabric"
        }
        Way::Fabric(WhyNetwork::Asked) => {
            "the job was started with --net fabric; without it they would share memory"
        }
        Way::Tcp(WhyNetwork::OtherHosts) | Way::Tls(WhyNetwork::OtherHosts) => {
            "different hosts share no memory"
        }
        Way::Tcp(WhyNetwork::Asked) | Way::Tls(WhyNetwork::Asked) => {
            "the job was started with --net tcp; without it they would share memory"
        }
    }
}
