//! `castell predict`.

mod pairs;
mod report;
mod traced;

pub use pairs::{Pairs, Told};

use crate::look::LookArgs;
use anyhow::{Context as _, bail};
use castell_bench::bar::waiting;
use castell_cachesim::machine::Chip;
use castell_cachesim::programs::{Program, kernels, table_2};
use castell_interference::sharing::{Fitted, forecast};
use castell_interference::simulated::{Measured, measure};
use castell_interference::{Host, Pair, Profile, Scn, scn};
use castell_prof::kept::{self, Folder, field};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell predict --simulate table-2                        how far off each predictor is, over 361 simulated pairs
  castell predict --simulate kernels chase triad            two programs beside each other: predicted, and simulated
  castell predict --simulate kernels --keep dir             keep profiles, machine and slowdowns as files
  castell predict --trace a=a.trace --trace b=b.trace a b   two real programs, as `castell distances --trace` observed them
  castell predict --train dir a.json b.json                 two programs of your own, with constants from measured pairs
  castell predict --train dir --table slowdowns.csv         all pairs, for `castell place --slowdowns`
  castell predict --train dir --svg classes.svg             who slows whom, by class, as a heat map

A profile is what `castell profile --json` prints. With `distances` (what `castell distances --json` prints) and `seconds` in it there
is a second prediction that needs no counters; with `slowdown` (what `castell slowdown --json` prints) it can tell more often.
The book's page on co-scheduling has all of it.

Exit code: 0; 1 if a file is wrong or nothing can be predicted, 2 for wrong usage.";

/// Predict how much programs slow each other on one chip
///
/// By class (N, C or S, with constants that are found from measured pairs), and by reuse distances and bandwidths, which may answer
/// "I can't tell". Beside them stand two guesses that know nothing: the median of all measured pairs, and 1.05.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("chip").multiple(true))]
pub struct Args {
    /// Programs that run together: profiles, or names of those in DIR or SUITE [default: how good the predictors are]
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Profiles (*.json), machine.json and slowdowns.csv of measured pairs
    #[arg(long, value_name = "DIR", conflicts_with = "chip", required_unless_present = "chip")]
    train: Option<PathBuf>,
    /// Measure programs of ours on a simulated chip instead
    #[arg(long, value_name = "SUITE", group = "chip")]
    simulate: Option<Suite>,
    /// Measure a real program on the simulated chip, too: a trace of `castell distances --trace`, again and again. `window` is how many
    /// requests it has under way at most [default: 10], `ps` what an access costs it that waits for nothing, in picoseconds [default: 500];
    /// `skip` and `accesses` take a part of it
    #[arg(long = "trace", value_name = "NAME=FILE[,window=N][,ps=N][,skip=N][,accesses=N]", group = "chip", value_parser = traced::parse)]
    traces: Vec<traced::Traced>,
    /// Keep what a program brings into the simulated chip's shared cache to some of its 16 ways, as Intel's CAT does: `triad=0-3`. Of those
    /// named it is simulated so, too; predictors know nothing of it
    #[arg(long, value_name = "NAME=LIST", requires_all = ["chip", "programs"], value_parser = traced::ways)]
    ways: Vec<(String, u64)>,
    /// Divide the simulated chip's caches by this, 1 to 64; simulating takes that much less
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=64), requires = "chip")]
    scale: u8,
    /// Write what was simulated there, for --train
    #[arg(long, value_name = "DIR", requires = "chip")]
    keep: Option<PathBuf>,
    /// Write the slowdown of each row's program beside each column's
    #[arg(long, value_name = "FILE.csv")]
    table: Option<PathBuf>,
    /// What the table holds
    #[arg(long, value_enum, default_value_t = By::Sharing, requires = "table")]
    by: By,
    /// Draw a heat map: of the programs, or of the classes
    #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Suite {
    /// Nineteen programs with the flows of table 2 of Haritatos et al.
    #[value(name = "table-2")]
    Table2,
    /// Twenty-four loops of numerical codes
    Kernels,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum By {
    /// Predicted from distances and bandwidths
    Sharing,
    /// Predicted from classes
    Scn,
    /// Measured, or simulated
    Measured,
}

/// What is known before anything is predicted.
struct Known {
    host: Host,
    profiles: Vec<Profile>,
    pairs: Vec<Pair>,
    simulated: Option<Measured>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    for path in [&args.svg, &args.table].into_iter().flatten() {
        crate::output::check(path)?;
    }
    let (folder, simulated) = match &args.train {
        Some(folder) => (Folder::read(folder)?, None),
        None => {
            let (folder, measured) = simulate(args.simulate, &args.traces, usize::from(args.scale))?;
            (folder, Some(measured))
        }
    };
    if let Some(path) = &args.keep {
        folder.write(path)?;
    }
    let Folder { host, profiles, pairs } = folder;
    let mut known = Known { host, profiles, pairs, simulated };
    let asked = asked(&args.programs, &mut known)?;
    let line = waiting("fitting the predictors");
    let said = Said::of(&known)?;
    drop(line);
    if let Some(path) = &args.table {
        let table = said.table(&known, args.by)?;
        crate::output::write(path, table)?;
    }
    if let Some(path) = &args.svg {
        report::draw((&known, &said), &asked, &args.look.look(), path)?;
    }
    if asked.is_empty() {
        report::errors(&known, &said, args.json)?;
    } else {
        let ways = kept_to(&args.ways, &asked, &known)?;
        report::together((&known, &said), &asked, &ways, args.json)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn simulate(
    suite: Option<Suite>,
    traces: &[traced::Traced],
    scale: usize,
) -> anyhow::Result<(Folder, Measured)> {
    let chip = Chip::xeon_e5_4620(scale);
    let making = indicatif::ProgressBar::new_spinner().with_message("making programs");
    making.tick();
    let mut programs: Vec<Program> = match suite {
        Some(Suite::Table2) => table_2::programs(&chip),
        Some(Suite::Kernels) => kernels::kernels(&chip),
        None => Vec::new(),
    };
    for trace in traces {
        let program = trace.program()?;
        if programs.iter().any(|other| other.name() == program.name()) {
            bail!("--trace: there are two programs of the name {}", program.name());
        }
        programs.push(program);
    }
    making.finish_and_clear();
    let bar =
        |message: &'static str, count: usize| castell_bench::bar::bar(count as u64).with_message(message);
    let each = bar("programs alone and beside probes", programs.len());
    let measured = measure(&chip, &programs, |_| each.inc(1))?;
    each.finish_and_clear();
    let both = bar("pairs", programs.len() * (programs.len() + 1) / 2);
    let pairs = measured.pairs(|| both.inc(1))?;
    both.finish_and_clear();
    Ok((Folder { host: measured.host, profiles: measured.profiles.clone(), pairs }, measured))
}

/// The programs that were asked for, as indices into the profiles; those of files are added there.
fn asked(names: &[String], known: &mut Known) -> anyhow::Result<Vec<usize>> {
    let mut asked = Vec::new();
    for name in names {
        let there = known.profiles.iter().position(|profile| profile.name == *name);
        asked.push(match there {
            Some(there) => there,
            None if Path::new(name).is_file() => {
                known.profiles.push(kept::profile(Path::new(name), &known.host)?);
                known.profiles.len() - 1
            }
            None => {
                let all: Vec<&str> = known.profiles.iter().map(|profile| profile.name.as_str()).collect();
                bail!("{name}: neither a file nor one of {}", all.join(", "));
            }
        });
    }
    if asked.len() == 1 {
        bail!("one program has no neighbour: name two or more (the same one twice for two of it)");
    }
    Ok(asked)
}

/// The ways that each of the programs is kept to; none if no program is.
fn kept_to(ways: &[(String, u64)], asked: &[usize], known: &Known) -> anyhow::Result<Vec<Option<u64>>> {
    let name = |at: &usize| known.profiles[*at].name.as_str();
    if let Some((other, _)) = ways.iter().find(|(other, _)| !asked.iter().any(|at| name(at) == other)) {
        bail!("--ways: {other} is none of the programs that run together");
    }
    let of = |at: &usize| ways.iter().find(|(own, _)| own == name(at)).map(|(_, mask)| *mask);
    Ok(if ways.is_empty() { Vec::new() } else { asked.iter().map(of).collect() })
}

/// What predictors found.
struct Said {
    /// With constants from all pairs; none without pairs.
    scn: Option<Scn>,
    median: Option<f64>,
    /// By program; a sentence where it has no distances.
    fitted: Vec<Result<Fitted, String>>,
}

impl Said {
    fn of(known: &Known) -> anyhow::Result<Said> {
        let scn = if known.pairs.is_empty() {
            None
        } else {
            Some(Scn::train(&known.profiles, &known.pairs, known.host.bytes_per_second_max)?)
        };
        let fit = |profile| Fitted::of(&known.host, profile).map_err(|error| error.to_string());
        Ok(Said { scn, median: scn::median(&known.pairs), fitted: known.profiles.iter().map(fit).collect() })
    }

    /// Slowdowns of all pairs, a row a program.
    fn table(&self, known: &Known, by: By) -> anyhow::Result<String> {
        let names: Vec<String> = known.profiles.iter().map(|profile| field(&profile.name)).collect();
        let mut text = format!("program,{}\n", names.join(","));
        for (program, name) in names.iter().enumerate() {
            text += name;
            for neighbour in 0..names.len() {
                text += &format!(",{:.4}", self.pair(known, by, program, neighbour)?);
            }
            text += "\n";
        }
        Ok(text)
    }

    fn pair(&self, known: &Known, by: By, program: usize, neighbour: usize) -> anyhow::Result<f64> {
        let of = |program: usize| &known.profiles[program];
        match by {
            By::Sharing => {
                let [own, other] = [program, neighbour].map(|at| self.fitted[at].as_ref());
                let (own, other) =
                    (own.map_err(|e| anyhow::anyhow!("{e}"))?, other.map_err(|e| anyhow::anyhow!("{e}"))?);
                Ok(forecast(&known.host, &[own, other])[0].slowdown)
            }
            By::Scn => {
                let scn = self.scn.context("no measured pairs: SCN has no constants")?;
                Ok(scn.predict(of(program), of(neighbour))?)
            }
            By::Measured => {
                let found =
                    known.pairs.iter().find(|pair| (pair.program, pair.neighbour) == (program, neighbour));
                let missing =
                    || format!("{} beside {} was not measured", of(program).name, of(neighbour).name);
                Ok(found.with_context(missing)?.slowdown)
            }
        }
    }
}
