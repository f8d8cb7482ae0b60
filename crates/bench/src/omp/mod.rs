//! `castell bench omp`: one OpenMP program, as GCC and as clang make it, with castell's library loaded first and without it; and whole
//! programs, BOTS' among them, with it and without. All take turns.

mod whole;

use crate::bar::bar;
use crate::report::{Doubts, Params, Sample, time};
use crate::tasks::{Case, metg, programs, tell, turns};
use crate::workload::{Effort, measure};
use anyhow::Context as _;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use whole::Whole;

/// The workload of whole programs.
const WHOLE: &str = "program";

/// What `castell bench omp` takes besides.
#[derive(clap::Args)]
#[command(next_help_heading = "For omp")]
pub struct OmpArgs {
    /// Binaries of BOTS to measure, too: its folder once they are built, or that of the binaries
    #[arg(long, value_name = "DIR")]
    bots: Option<PathBuf>,
    /// A program of yours to measure, too, with its arguments, as './app -n 100' (repeatable)
    #[arg(long, value_name = "COMMAND")]
    program: Vec<String>,
    /// Only the programs of --bots and --program
    #[arg(long)]
    only_programs: bool,
}

/// A row of the result.
#[derive(Serialize)]
struct Row {
    workload: String,
    subject: String,
    params: Params,
    /// Of a task, a barrier, or a whole program.
    median_ns: f64,
    min_ns: f64,
    /// On processors, of all threads.
    cpu_ns: Option<f64>,
    samples: u64,
}

/// Carries the command out.
pub fn run(
    args: &OmpArgs,
    libraries: Option<&Path>,
    cases: &[Case],
    workers: u32,
    effort: Effort,
) -> anyhow::Result<()> {
    let library = library(libraries)?;
    let mut programs = match &args.bots {
        Some(folder) => whole::of_bots(folder)?,
        None => Vec::new(),
    };
    programs.extend(
        args.program.iter().map(|command| Whole::named(command)).collect::<anyhow::Result<Vec<_>>>()?,
    );
    if args.only_programs && programs.is_empty() {
        anyhow::bail!("--only-programs: which ones? Add --bots DIR or --program COMMAND");
    }
    let (mut rows, mut metg) = (Vec::new(), Vec::new());
    let doubts = Doubts::from_now();
    let progress = bar(programs.len() as u64 * 2 * u64::from(effort.rounds));
    if !args.only_programs {
        let mut subjects = programs::with_and_without(&library, effort.peers)?;
        let (wanted, has_metg) = (wanted(cases), cases.is_empty());
        progress.inc_length(wanted.len() as u64 * turns(&subjects, effort));
        progress.inc_length(if has_metg { metg::steps(&subjects, effort) } else { 0 });
        for asked in wanted {
            let name = asked.word("workload").unwrap_or_default().to_owned();
            let asked = asked.with("workers", workers);
            let measured =
                measure(&name, &asked, &mut subjects, effort.rounds, effort.samples(3), &|| progress.inc(1))?;
            progress.suspend(|| tell(&asked, &measured));
            rows.extend(measured.into_iter().map(|one| Row::of(&name, one.subject, &asked, one.sample)));
        }
        if has_metg {
            metg = metg::rows(&mut subjects, workers, effort, &progress)?;
        }
    }
    for program in &programs {
        rows.extend(take_turns(program, &library, workers, effort, &progress)?);
    }
    progress.finish_and_clear();
    if effort.json {
        let mut all = rows.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
        all.extend(metg.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?);
        doubts.print_json(&all, |_| Some(workers.into()))?;
    } else {
        print!("{}", table(&rows));
        if !metg.is_empty() {
            print!("\n{}", metg::table(&metg));
        }
    }
    Ok(())
}

/// castell's library: in the folder that was asked for, or where it lies beside castell as it was installed or built.
fn library(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    const NAME: &str = "libcastell_omp.so";
    let folders = match asked {
        Some(folder) => vec![folder.to_owned()],
        None => {
            let program = std::env::current_exe().and_then(|program| program.canonicalize())?;
            let folder = program.parent().unwrap_or(Path::new("/")).to_owned();
            ["../lib", "../lib64", "."].map(|below| folder.join(below)).to_vec()
        }
    };
    let found = folders.iter().map(|folder| folder.join(NAME)).find(|file| file.is_file());
    let found = found.with_context(|| {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        format!(
            "there is no {NAME} in {}: `cargo build --release -p castell-omp` builds it, --libraries DIR says where it lies",
            folders.join(", ")
        )
    })?;
    Ok(found.canonicalize()?)
}

/// What is asked for, or all.
fn wanted(cases: &[Case]) -> Vec<Params> {
    if !cases.is_empty() {
        return cases.iter().map(Case::arguments).collect();
    }
    let creator = Params::new().with("workload", "creator").with("tasks", 50_000).with("spins", 1000);
    let barrier = Params::new().with("workload", "barrier").with("tasks", 2000);
    Case::all().iter().map(Case::arguments).chain([creator, barrier]).collect()
}

/// Runs of a whole program with and without the library take turns.
fn take_turns(
    program: &Whole,
    library: &Path,
    workers: u32,
    effort: Effort,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Row>> {
    let subjects = [("with castell", Some(library)), ("without", None)];
    let mut taken = [Vec::new(), Vec::new()];
    for _ in 0..effort.rounds {
        for ((_, library), taken) in subjects.iter().zip(&mut taken) {
            taken.push(program.run(workers, *library)?);
            progress.inc(1);
        }
    }
    let rows = subjects.iter().zip(&taken).map(|((subject, _), taken)| {
        let of = |time: fn(&whole::Times) -> f64| Sample::of(taken.iter().map(time).collect());
        let sample = Sample { cpu_ns: Some(of(|times| times.cpu_ns).median_ns), ..of(|times| times.wall_ns) };
        let params = Params::new().with("program", program.name.as_str()).with("workers", workers);
        Row::of(WHOLE, (*subject).to_owned(), &params, sample)
    });
    let rows: Vec<Row> = rows.collect();
    let times: Vec<String> =
        rows.iter().map(|row| format!("{} {:.1} ms", row.subject, row.median_ns / 1e6)).collect();
    castell_host::say::raw(&format!("{}: {}\n", program.name, times.join(", ")));
    Ok(rows)
}

impl Row {
    fn of(workload: &str, subject: String, params: &Params, sample: Sample) -> Row {
        let Sample { median_ns, min_ns, samples, cpu_ns } = sample;
        Row {
            workload: workload.to_owned(),
            subject,
            params: params.clone(),
            median_ns,
            min_ns,
            cpu_ns,
            samples,
        }
    }
}

/// A block a case: each subject's wall time, the time on processors, and, of a subject with castell, both over those of the next one,
/// which is the same without.
fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "a task, a barrier or a program: wall time, time on processors; with castell over without\n",
    );
    let width = rows.iter().map(|row| row.subject.len()).max().unwrap_or(0);
    for case in rows.chunk_by(|one, other| one.params == other.params) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{}", case[0].params);
        for (index, row) in case.iter().enumerate() {
            let [wall, cpu] = [Some(row.median_ns), row.cpu_ns].map(|ns| ns.map_or("-".to_owned(), time));
            let without = case.get(index + 1).filter(|_| index % 2 == 0);
            let ratio = |other: &Row| {
                let of_cpu =
                    row.cpu_ns.zip(other.cpu_ns).map(|(ours, theirs)| format!("{:>6.2}", ours / theirs));
                format!("{:>6.2}{}", row.median_ns / other.median_ns, of_cpu.unwrap_or_default())
            };
            let line = format!(
                "  {:width$}  {wall:>11}  {cpu:>11}  {}",
                row.subject,
                without.map_or(String::new(), ratio)
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn castell_is_compared_with_the_same_without() {
        let row = |workload: &str, subject: &str, ns: f64| {
            let sample = Sample { cpu_ns: Some(4.0 * ns), ..Sample::of(vec![ns]) };
            Row::of(workload, subject.to_owned(), &Params::new().with("workload", workload), sample)
        };
        let rows = [
            row("fib", "castell on a", 50.0),
            row("fib", "a", 100.0),
            row("fib", "castell on b", 30.0),
            row("fib", "b", 20.0),
            row("chain", "castell on a", 3.0),
        ];
        let text = table(&rows);
        let words = |subject: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(subject)).expect("a line");
            line.trim_start()[subject.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words("castell on a"), ["50.0", "ns", "200.0", "ns", "0.50", "0.50"]);
        assert_eq!(words("castell on b"), ["30.0", "ns", "120.0", "ns", "1.50", "1.50"]);
        assert_eq!(words("b"), ["20.0", "ns", "80.0", "ns"]);
        assert!(text.ends_with("castell on a       3.0 ns      12.0 ns\n"), "{text}");
    }
}
