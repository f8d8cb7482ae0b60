//! `castell bench collectives`: collective operations, castell's choice beside the MPI implementations of this machine, in
//! interleaved rounds; and beside what the copies alone would take.

pub mod candidates;
pub mod ours;

use crate::measure::Lies;
use crate::peers::{self, Peer};
use crate::report::{Measurement, Params, Report, Sample};
use crate::workload::Effort;
use anyhow::{Context as _, bail};
use candidates::candidates;
use castell_base::Rank;
use castell_collectives::decision::{Choice, Decisions, Operation, Question};
use castell_comm::Comm;
use castell_comm::tuning::Tuning;
use castell_host::topology::Processors;
pub use ours::Timing;
use ours::{Candidate, Way};

/// From here on copying decides. Bytes.
const COPIED_BYTES: u64 = 500 << 10;

/// What of the command line is for this workload.
#[derive(clap::Args)]
pub struct CollectivesArgs {
    /// Which operations, as barrier,allreduce
    #[arg(long, value_name = "OPS", value_delimiter = ',', value_parser = operation, help_heading = "For collectives")]
    pub ops: Option<Vec<Operation>>,
    /// An algorithm of castell's to measure beside its choice: a name as linear, a word as r8,g8, or `all` (repeatable)
    #[arg(long, value_name = "NAME", help_heading = "For collectives")]
    algorithm: Vec<String>,
    /// Calls of one batch follow each other without a barrier, also large ones and those with a root
    #[arg(long, help_heading = "For collectives")]
    in_a_row: bool,
    /// Non-blocking calls, each of which is waited for at once
    #[arg(long, help_heading = "For collectives")]
    started: bool,
}

/// For clap.
pub fn operation(name: &str) -> Result<Operation, String> {
    Operation::with_choice(name).ok_or_else(|| {
        let known: Vec<&str> = Operation::WITH_CHOICE.iter().map(|operation| operation.name()).collect();
        format!("expected one of {}", known.join(", "))
    })
}

/// What is measured, the same for everybody.
pub struct Plan {
    /// The operations.
    pub operations: Vec<Operation>,
    /// Sizes of vectors or blocks; a barrier has none.
    pub bytes: Vec<u64>,
    /// How long.
    pub timing: Timing,
}

impl Plan {
    /// Operation and size of each case.
    pub fn cases(&self) -> Vec<(Operation, u64)> {
        let sizes = |&operation: &Operation| match operation {
            Operation::Barrier => vec![(operation, 0)],
            _ => self.bytes.iter().map(|&bytes| (operation, bytes)).collect(),
        };
        self.operations.iter().flat_map(sizes).collect()
    }

    /// What a peer takes for each case on so many ranks.
    pub fn measure_peer(&self, peer: &mut Peer, ranks: u32) -> anyhow::Result<Vec<Sample>> {
        self.measure_peer_under(&[], peer, ranks)
    }

    /// The same with words in front of its launcher.
    pub fn measure_peer_under(
        &self,
        before: &[String],
        peer: &mut Peer,
        ranks: u32,
    ) -> anyhow::Result<Vec<Sample>> {
        let list = |words: Vec<String>| words.join(",");
        let names = list(self.operations.iter().map(|operation| operation.name().to_owned()).collect());
        let sizes = list(self.bytes.iter().map(u64::to_string).collect());
        let Timing { samples, budget_us, limit_ms, in_a_row, started } = self.timing;
        let params = Params::new().with("ops", names).with("bytes", sizes);
        let params = params.with("budget-us", budget_us).with("limit-ms", limit_ms);
        // An option of the peers' programs is a positive number, or is not there.
        let params = if in_a_row { params.with("in-a-row", 1) } else { params };
        let params = if started { params.with("started", 1) } else { params };
        let lines = peer.measure_lines_under(before, "collectives", ranks, &params, samples)?;
        let cases = self.cases();
        let sample = |(operation, bytes): &(Operation, u64)| {
            let is_it = |params: &Params| {
                params.word("op") == Some(operation.name()) && params.number("bytes") == Some(*bytes)
            };
            let line = lines.iter().find(|(params, _)| is_it(params));
            line.map(|(_, sample)| sample.clone())
                .with_context(|| format!("{} says nothing of {operation}, {bytes} bytes", peer.name()))
        };
        cases.iter().map(sample).collect()
    }
}

/// Carries the command out.
pub fn run(
    args: &CollectivesArgs,
    bytes: Option<&[u64]>,
    ranks: Option<&[u32]>,
    effort: Effort,
) -> anyhow::Result<Vec<Measurement>> {
    let (rounds, samples) = (effort.rounds, effort.samples(10));
    let operations = args.ops.clone().unwrap_or_else(|| vec![Operation::Barrier, Operation::Allreduce]);
    let bytes = bytes.unwrap_or(&[8, 4096, 1 << 20]).to_vec();
    let timing =
        Timing { samples, budget_us: 1000, limit_ms: 300, in_a_row: args.in_a_row, started: args.started };
    let plan = Plan { operations, bytes, timing };
    if crate::joined::is_rank() {
        return in_job(&plan, rounds, &args.algorithm, effort.json);
    }
    let all_ranks = ranks.unwrap_or(&[2, 4, 8]).to_vec();
    let tuning = load_tuning();
    let mut peers = peers::wanted(effort.peers)?;
    let steps = all_ranks.len() as u64 * u64::from(rounds) * (1 + peers.len() as u64);
    let mut report = Report::new(effort.json, steps);
    for ranks in all_ranks {
        let sets = sets(&plan, ranks, &tuning.decisions, &args.algorithm)?;
        rows_of(&plan, ranks, rounds, &sets, &mut peers, &mut report)?;
    }
    report.end()
}

/// The ranks of a job measure what the library chooses, and the algorithms that were asked for; rank 0 reports.
fn in_job(plan: &Plan, rounds: u32, algorithms: &[String], json: bool) -> anyhow::Result<Vec<Measurement>> {
    let comm = Comm::init().context("this process was started as a rank")?;
    let (ranks, hosts) = (comm.size(), hosts_of(&comm));
    let mut sets = sets(plan, ranks, &Decisions::builtin(), algorithms)?;
    for one in sets.iter_mut().flatten().filter(|one| one.way == Way::Call) {
        let asked = question(one.operation, ranks, one.bytes);
        let asked = Question { hosts, started: plan.timing.started, ..asked };
        *one = candidate(&Decisions::builtin(), &asked);
    }
    sets.iter_mut().for_each(|set| set.retain(|one| one.way != Way::Shared));
    let report = (comm.rank() == Rank(0)).then(|| Report::new(json, u64::from(rounds)));
    let mut taken: Vec<Vec<Vec<Sample>>> = sets.iter().map(|set| vec![Vec::new(); set.len()]).collect();
    for _ in 0..rounds {
        let samples = ours::measure_in_job(&comm, &sets, plan.timing)?;
        taken.iter_mut().flatten().zip(samples.into_iter().flatten()).for_each(|(all, new)| all.push(new));
        report.iter().for_each(Report::step);
    }
    let mut rows = Vec::new();
    if let Some(mut report) = report {
        for ((set, taken), (operation, bytes)) in sets.iter().zip(&taken).zip(plan.cases()) {
            let params = Params::new().with("hosts", hosts).with("ranks", ranks).with("bytes", bytes);
            let params = if plan.timing.started { params.with("started", true) } else { params };
            let of_case = set.iter().zip(taken).filter_map(|(one, taken)| {
                let sample = Sample::over_rounds(taken)?;
                let name =
                    if one.way == Way::Call { "castell".into() } else { format!("castell, {}", one.name()) };
                Some(Measurement::new(operation.name(), name, &params, sample).by(&one.name()))
            });
            report.rows(of_case.collect());
        }
        rows = report.end()?;
    }
    comm.finalize();
    Ok(rows)
}

/// How many hosts the ranks of a job are on.
fn hosts_of(comm: &Comm) -> u32 {
    let job = comm.job();
    let mut hosts: Vec<u32> = (0..comm.size()).map(|rank| job.host_of(Rank(rank))).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len() as u32
}

/// Of each case castell's choice, and the algorithms that were asked for.
fn sets(
    plan: &Plan,
    ranks: u32,
    decisions: &Decisions,
    names: &[String],
) -> anyhow::Result<Vec<Vec<Candidate>>> {
    let mut sets = Vec::new();
    let mut unknown: Vec<&String> = names.iter().filter(|name| *name != "all").collect();
    for (operation, bytes) in plan.cases() {
        let asked = Question { started: plan.timing.started, ..question(operation, ranks, bytes) };
        let mut set = vec![candidate(decisions, &asked)];
        if bytes >= COPIED_BYTES && operation != Operation::Barrier {
            set.push(Candidate { way: Way::Shared, ..set[0].clone() });
        }
        let named = |choice: Choice<'static>| Candidate { operation, bytes, choice, way: Way::Named };
        if names.iter().any(|name| name == "all") {
            set.extend(candidates(operation, ranks, bytes, None));
        }
        for name in names {
            let asked = named(Choice::new(format!("{operation}:{name}")));
            if asked.collective(ranks).is_ok() {
                unknown.retain(|other| *other != name);
                set.push(asked);
            }
        }
        sets.push(set);
    }
    if let Some(name) = unknown.first() {
        bail!(
            "no operation has an algorithm `{name}` for {ranks} ranks; `castell schedule list` shows what there is"
        );
    }
    Ok(sets)
}

fn rows_of(
    plan: &Plan,
    ranks: u32,
    rounds: u32,
    sets: &[Vec<Candidate>],
    peers: &mut [Peer],
    report: &mut Report,
) -> anyhow::Result<()> {
    let cases = plan.cases();
    // Castell's candidates' rounds, case by case; of each peer, a sample a case.
    let mut ours: Vec<Vec<Vec<Sample>>> = sets.iter().map(|set| vec![Vec::new(); set.len()]).collect();
    let mut theirs = vec![vec![Vec::new(); cases.len()]; peers.len()];
    let mut bounds: Vec<Vec<CopyBounds>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        let samples = ours::measure(ranks, sets, plan.timing)?;
        ours.iter_mut().flatten().zip(samples.into_iter().flatten()).for_each(|(all, new)| all.push(new));
        report.step();
        for (bound, &(operation, bytes)) in bounds.iter_mut().zip(&cases) {
            bound.extend(copy_bounds(operation, bytes, ranks)?);
        }
        for (peer, taken) in peers.iter_mut().zip(&mut theirs) {
            let samples = plan.measure_peer(peer, ranks)?;
            taken.iter_mut().zip(samples).for_each(|(taken, sample)| taken.push(sample));
            report.step();
        }
    }
    for (case, (operation, bytes)) in cases.into_iter().enumerate() {
        let params = Params::new().with("ranks", ranks).with("bytes", bytes);
        let params = if plan.timing.started { params.with("started", true) } else { params };
        let row = |name: String, rounds: &[Sample]| {
            Sample::over_rounds(rounds)
                .map(|sample| Measurement::new(operation.name(), name, &params, sample))
        };
        let mut rows = Vec::new();
        for (candidate, taken) in sets[case].iter().zip(&ours[case]) {
            let algorithm = candidate.name();
            rows.extend(match candidate.way {
                Way::Call => row("castell".to_owned(), taken).map(|row| row.by(&algorithm)),
                Way::Shared => row("castell, shared buffers".to_owned(), taken).map(|row| row.by(&algorithm)),
                Way::Named => row(format!("castell, {algorithm}"), taken),
            });
        }
        for (peer, taken) in peers.iter().zip(&theirs) {
            rows.extend(row(peer.name().to_owned(), &taken[case]));
        }
        let bounds = &bounds[case];
        let of = |which: fn(&CopyBounds) -> &Sample| {
            bounds.iter().map(|bound| which(bound).clone()).collect::<Vec<_>>()
        };
        rows.extend(row("copies alone, in and out".to_owned(), &of(|bound| &bound.in_and_out)));
        rows.extend(row("copies alone, once".to_owned(), &of(|bound| &bound.once)));
        report.rows(rows);
    }
    Ok(())
}

/// What is asked about a call on this machine.
pub fn question(operation: Operation, ranks: u32, bytes: u64) -> Question {
    let processors = Processors::usable().count() as u32;
    Question { processors, ..Question::new(operation, ranks, bytes) }
}

/// What the library takes for a call.
pub fn candidate(decisions: &Decisions, question: &Question) -> Candidate {
    let choice = decisions.choose(question).into_owned();
    Candidate { operation: question.operation, bytes: question.bytes, choice, way: Way::Call }
}

/// What the copies of a call alone take, where they decide: the fewest that its buffers permit.
pub struct CopyBounds {
    /// Every byte is copied, or reduced, where it lies with its owner: buffers that all ranks can read.
    pub once: Sample,
    /// It is copied by its owner to where others can read it, and from there: buffers of the ranks' own.
    pub in_and_out: Sample,
}

/// Of a call; `None`: other things decide.
pub fn copy_bounds(operation: Operation, bytes: u64, ranks: u32) -> anyhow::Result<Option<CopyBounds>> {
    if bytes < COPIED_BYTES || ranks < 2 {
        return Ok(None);
    }
    let alone = |lies| ours::copies_alone(operation, bytes, ranks, lies);
    let (once, in_and_out) = (alone(Lies::InView)?, alone(Lies::Apart)?);
    Ok(once.zip(in_and_out).map(|(once, in_and_out)| CopyBounds { once, in_and_out }))
}

/// The choices that calls make on this machine; says why a tuning file is not used.
pub fn load_tuning() -> Tuning {
    let tuning = Tuning::load();
    if let Some(reason) = &tuning.reason {
        castell_host::say(reason);
    }
    tuning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_measure_every_operation() {
        let timing = Timing { samples: 2, budget_us: 50, limit_ms: 20, in_a_row: false, started: false };
        let mut plan = Plan { operations: Operation::WITH_CHOICE.to_vec(), bytes: vec![8, 1000], timing };
        for mut peer in peers::peers().expect("launchers tell their versions") {
            for (in_a_row, started) in [(false, false), (true, false), (false, true)] {
                (plan.timing.in_a_row, plan.timing.started) = (in_a_row, started);
                let samples = plan.measure_peer(&mut peer, 2).expect("the program runs");
                assert_eq!(samples.len(), plan.cases().len());
                assert!(samples.iter().all(|sample| sample.min_ns > 0.0));
            }
        }
    }
}
