//! A program whose ranks are on several hosts: each is `castell run-rank`, which reads the program itself.

use super::carrier::{self, Carries, InProcess};
use super::execute::{Rounds, execute};
use super::noted::{self, Noting};
use super::results::Results;
use crate::hosts::{Hosts, join_as_rank};
use crate::loaded::{self, PatternArgs};
use crate::source;
use anyhow::{Context as _, bail};
use castell_base::Rank;
use castell_comm::Comm;
use castell_comm::collective::Reduction;
use castell_comm::hosts::Recorded;
use castell_comm::job::Interface;
use castell_comm::launch::{Launch, Outcome};
use castell_goal::graph::Graph;
use castell_goal::schedule::Schedule;
use castell_host::journal::Journal;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// A rank of `castell run` on several hosts, which starts it
#[derive(clap::Args)]
pub struct RankArgs {
    file: PathBuf,
    /// Of a pattern: the host of each rank
    #[arg(long, value_delimiter = ',')]
    places: Vec<u32>,
    #[command(flatten)]
    pattern: PatternArgs,
    #[arg(long)]
    calc_scale: f64,
    #[arg(long)]
    rounds: usize,
    #[arg(long)]
    records: bool,
    /// Into the kernel, at this interface
    #[arg(long)]
    kernel: Option<String>,
}

/// What ranks find again on their hosts: a file, or how a pattern is made.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    pub file: &'a Path,
    pub pattern: &'a PatternArgs,
    /// The kernel is to carry it, at this interface of each host.
    pub kernel: Option<Interface>,
}

/// Starts the ranks and enters what they tell into the table.
pub fn start(
    on: Hosts,
    launch: Launch,
    Program { file, pattern, kernel }: Program<'_>,
    operations: &[usize],
    rounds: Rounds,
    results: &Results,
) -> anyhow::Result<(Outcome, Recorded)> {
    if file == Path::new("-") {
        bail!("ranks on other hosts do not see standard input: name a file that all hosts have");
    }
    let program = on.castell().as_os_str().to_owned();
    let mut words: Vec<OsString> = vec!["run-rank".into(), file.into()];
    words.push(format!("--calc-scale={}", rounds.calc_scale).into());
    words.push(format!("--rounds={}", rounds.count).into());
    if loaded::is_pattern(&file.to_string_lossy()) {
        let places: Vec<String> = on.places.iter().map(u32::to_string).collect();
        words.push(format!("--places={}", places.join(",")).into());
        words.extend(pattern.to_words(on.places.len() as u32).into_iter().map(OsString::from));
    }
    words.extend(rounds.records.then(|| "--records".into()));
    words.extend(kernel.map(|interface| format!("--kernel={}", interface.name()).into()));
    let most = operations.iter().copied().max().unwrap_or(0);
    let rows = u32::try_from(noted::rows(most, rounds.count, rounds.records))
        .context("the ranks would have too much to tell: fewer rounds (--repeat), or no --timeline")?;
    let (outcome, recorded) = on.launch(launch, &[])?.program_recorded(&program, &words, rows)?;
    noted::enter(&recorded, results);
    Ok((outcome, recorded))
}

/// Lives as a rank.
pub fn live(args: &RankArgs) -> anyhow::Result<ExitCode> {
    let (comm, journal) = join_as_rank("castell run --hosts")?;
    let told = |operations| Noting { journal, operations };
    let prepared =
        schedule(args, &comm).and_then(|schedule| Ok((carrier(args, &comm, &schedule, journal)?, schedule)));
    let (mut carrier, schedule) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let rank = comm.rank();
            comm.finalize();
            return Err(error.context(format!("rank {rank}")));
        }
    };
    let rounds = Rounds { calc_scale: args.calc_scale, count: args.rounds, records: args.records };
    let code = execute(&schedule, (&comm, &mut *carrier), rounds, &told(schedule.len()), &|comm, _| {
        comm.world().barrier().map_err(|error| format!("rank {}: {error}", comm.rank()))
    });
    Ok(ExitCode::from(code as u8))
}

/// Who carries this rank's schedule out, which is noted.
fn carrier(
    args: &RankArgs,
    comm: &Comm,
    schedule: &Schedule,
    journal: &Journal,
) -> anyhow::Result<Box<dyn Carries>> {
    let Some(interface) = &args.kernel else { return Ok(Box::new(InProcess)) };
    let (carrier, mode) = carrier::join(comm, interface, schedule)?;
    if let Some(mode) = mode {
        noted::in_kernel(journal, mode);
    }
    Ok(carrier)
}

/// What this rank executes: of the same program as all others, which may be on hosts that have another file under its name.
fn schedule(args: &RankArgs, comm: &Comm) -> anyhow::Result<Arc<Schedule>> {
    if !args.places.is_empty() {
        let pattern = loaded::pattern(&args.file.to_string_lossy(), &args.pattern, Some(&args.places))?;
        let mut graph = Graph::new();
        pattern.build(comm.rank(), &mut graph)?;
        return Ok(Arc::new(graph.compile()?));
    }
    let bytes = source::read(&args.file);
    let mut hasher = DefaultHasher::new();
    bytes.as_ref().ok().hash(&mut hasher);
    // Of the number and of its complement: the least of both are of one number only if all have the same.
    let (mine, mut least) = ([hasher.finish(), !hasher.finish()], [0, 0]);
    let agreed = comm.world().allreduce(&mine, &mut least, Reduction::Minimum);
    bytes?;
    agreed.context("the ranks could not compare their programs")?;
    if least[0] != !least[1] {
        bail!("{} is not the same file on all hosts", args.file.display());
    }
    let program = source::program(&args.file)?;
    let schedules = source::schedules(&program, &args.file)?;
    if schedules.len() != comm.size() as usize {
        bail!("{} has {} ranks now", args.file.display(), schedules.len());
    }
    let Rank(rank) = comm.rank();
    Ok(Arc::new(schedules.into_iter().nth(rank as usize).expect("there are as many")))
}
