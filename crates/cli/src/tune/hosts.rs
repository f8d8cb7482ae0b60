//! `castell tune hosts`: what messages cost within a host and between hosts.

use super::write;
use crate::hosts::{Hosts, HostsArgs, join_as_rank};
use anyhow::{Context, bail};
use castell_base::{PerByte, Rank};
use castell_bench::bar::waiting;
use castell_bench::levels::{self, Heard};
use castell_bench::multicasts::Fitted;
use castell_comm::job::Net;
use castell_comm::launch::Launch;
use castell_comm::tuning;
use castell_host::journal::Row;
use castell_model::{Levels, Model};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure what messages cost within a host and between hosts, for the simulator
///
/// Two ranks on the first host and one on the second send messages of each size, one, two and four in a row, until the other one has answered.
/// PLB is fitted to that for each of the two levels, and both are written to a file that `castell simulate --levels` reads. The choice of
/// algorithms does not use it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  castell tune hosts --hosts a:4,b:4
  castell lab 2 -- castell tune hosts -o levels.toml
  castell simulate allreduce:two-level --ranks 8 --hosts 2 --levels levels.toml")]
pub struct Args {
    #[command(flatten)]
    on: HostsArgs,
    /// What carries messages between hosts, as castell launch has it
    #[arg(long, default_value = "shm")]
    net: Net,
    /// Which sizes of messages
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 26), default_value = "8,1024,8192,65536")]
    bytes: Vec<u64>,
    /// Write the file here (default: hosts.toml beside the tuning file)
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Print one JSON object: {"within", "between": {"model", "r_squared", "heard": [{"bytes", "count", "time_ns"}]}, "hosts", "file"}
    #[arg(long)]
    json: bool,
}

/// A rank of `castell tune hosts`, which starts it
#[derive(clap::Args)]
pub struct RankArgs {
    #[arg(long, value_delimiter = ',')]
    bytes: Vec<u64>,
}

/// The ranks that measure, by level: one of them sends.
const PAIRS: [(&str, [Rank; 2]); 2] = [("within", [Rank(0), Rank(1)]), ("between", [Rank(0), Rank(2)])];

/// What rank 0 notes: a level's number, from 0 on, or this.
const REDUCTION: u64 = 100;

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(mut on) = Hosts::of(&args.on, Some(1))? else {
        bail!("which hosts? Give --hosts a,b, or do it in a lab: castell lab 2 -- castell tune hosts");
    };
    let hosts = on.names();
    if on.count() < 2 {
        bail!("{hosts}: one host has one level; `castell tune` measures it");
    }
    on.places = vec![0, 0, 1];
    let path = match args.output.clone().or_else(|| Some(tuning::own_path()?.with_file_name("hosts.toml"))) {
        Some(path) => path,
        None => bail!("no place for the file: neither XDG_CONFIG_HOME nor HOME is set; give --output"),
    };
    crate::output::check(&path)?;
    let mut launch = Launch::new(3);
    launch.job.net = args.net;
    let program = on.castell().as_os_str().to_owned();
    let sizes: Vec<String> = args.bytes.iter().map(u64::to_string).collect();
    let words: Vec<OsString> = vec!["tune-rank".into(), format!("--bytes={}", sizes.join(",")).into()];
    // More than there is to tell.
    let rows = 100 * (args.bytes.len() * levels::COUNTS.len() * PAIRS.len()) as u32 + 10;
    let waiting = waiting(format!("three ranks on {hosts} send each other messages"));
    let (outcome, recorded) = on.launch(launch, &[])?.program_recorded(&program, &words, rows)?;
    drop(waiting);
    if let Some(failure) = outcome.failure() {
        bail!("measuring failed: {failure}");
    }
    let rows = &recorded.noted[0].rows;
    let (models, told): (Vec<Fitted>, Vec<Value>) = (0..PAIRS.len())
        .map(|level| fitted(rows, level))
        .collect::<anyhow::Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    let [within, between] = [0, 1].map(|level: usize| Model::Plb(models[level].plb.clone()));
    let levels = Levels { within, between, hosts: Some(hosts) };
    write(&path, levels.to_toml().as_bytes())?;
    report(args, &levels, &models, &told, &path);
    Ok(ExitCode::SUCCESS)
}

/// A fit that explains less of what was measured is no model of it.
const R_SQUARED_MIN: f64 = 0.8;

fn report(args: &Args, levels: &Levels, models: &[Fitted], told: &[Value], path: &std::path::Path) {
    for ((name, _), fitted) in PAIRS.iter().zip(models).filter(|(_, fitted)| fitted.r_squared < R_SQUARED_MIN)
    {
        castell_host::say(&format!(
            "warning: the model {name} hosts explains little of what was measured (R² {:.3}): measure again, when nothing else runs",
            fitted.r_squared
        ));
    }
    if args.json {
        let object = json!({"within": told[0], "between": told[1], "hosts": levels.hosts, "file": path});
        println!("{object}");
        return;
    }
    for ((name, _), (model, fitted)) in
        PAIRS.iter().zip([&levels.within, &levels.between].into_iter().zip(models))
    {
        println!("{name:8} {model} (R² {:.3})", fitted.r_squared);
    }
    println!("written: {} (castell simulate --levels reads it)", path.display());
}

/// The model of a level, and what is told of it.
fn fitted(rows: &[Row], level: usize) -> anyhow::Result<(Fitted, Value)> {
    let gamma = rows.iter().find(|row| row[0] == 1 + REDUCTION).context("a rank has told nothing")?;
    let heard: Vec<Heard> = rows
        .iter()
        .filter(|row| row[0] == 1 + level as u64)
        .map(|row| Heard { bytes: row[1], count: row[2], time_ns: f64::from_bits(row[3]) })
        .collect();
    let name = PAIRS[level].0;
    let fitted = levels::fit(&heard, PerByte::from_ps_f64(f64::from_bits(gamma[3])))?;
    let fitted = fitted.with_context(|| {
        format!("no machine has the parameters that fit the messages {name} hosts: measure again, when nothing else runs")
    })?;
    let one = |heard: &Heard| json!({"bytes": heard.bytes, "count": heard.count, "time_ns": heard.time_ns});
    let model = Model::Plb(fitted.plb.clone()).to_string();
    let told = json!({"model": model, "r_squared": fitted.r_squared, "heard": heard.iter().map(one).collect::<Vec<_>>()});
    Ok((fitted, told))
}

/// Lives as a rank.
pub fn live(args: &RankArgs) -> anyhow::Result<ExitCode> {
    let (comm, journal) = join_as_rank("castell tune hosts")?;
    let note = |kind: u64, bytes, count, value: f64| {
        journal.note([1 + kind, bytes, count, value.to_bits(), 0, 0, 0, 0]);
    };
    for (level, (_, pair)) in (0..).zip(PAIRS) {
        for heard in levels::measure(&comm, pair, &args.bytes)? {
            note(level, heard.bytes, heard.count, heard.time_ns);
        }
    }
    if comm.rank() == Rank(0) {
        note(REDUCTION, 0, 0, levels::reduction(&comm)?.as_ps_f64());
    }
    comm.finalize();
    Ok(ExitCode::SUCCESS)
}
