//! `castell goal`: looks at programs in any of the formats, and turns one into another.

mod draw;
mod json;

use crate::colour::Stream;
use crate::excerpt::Source;
use crate::look::LookArgs;
use crate::source::{self, name};
use anyhow::Context;
use castell_base::{Rank, counted};
use castell_goal::check::{self, Problem, Report, Severity};
use castell_goal::file::{Contents, ReadError};
use castell_goal::program::Program;
use castell_goal::schedule_set::ScheduleSet;
use castell_goal::{binary, text};
use castell_trace::Look;
use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check, print and convert GOAL programs
///
/// FILE is GOAL text, a LogGOPSim binary, compiled schedules or a Paraver trace (told by its content), or `-` for the
/// standard input.
/// Exit codes: 0 fine, 1 the program or file is wrong, 2 wrong usage.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find what is wrong with a program before it runs
    ///
    /// Finds cycles, peers that do not exist, sends without receives and the reverse, sizes that differ, ranks that wait
    /// for one another, buffers outside the scratchpad, and unordered operations that touch the same bytes.
    #[command(
        after_help = "Examples:\n  castell goal check halo.goal\n  castell goal check --json halo.goal | jq .ok\n  generate | castell goal check -"
    )]
    Check {
        /// The program
        file: PathBuf,
        /// Print one JSON object: {"ok", "ranks", "operations", "problems": [{"severity", "rank", "label", "line", "column", "message"}]}
        #[arg(long)]
        json: bool,
    },
    /// Print a program as text, as a drawing, or as the compiled schedules
    #[command(
        after_help = "Examples:\n  castell goal dump halo.bin                        as GOAL text\n  castell goal dump --schedule --rank 3 halo.goal   what rank 3 will execute\n  castell goal dump --svg halo.svg halo.goal         operations and what waits for what\n  castell goal dump --svg rank3.png --rank 3 halo.goal\n  castell goal dump --dot halo.goal | dot -Tsvg > halo.svg"
    )]
    Dump {
        /// The program
        file: PathBuf,
        /// Only this rank
        #[arg(long, value_name = "R")]
        rank: Option<u32>,
        /// The compiled records: offset, [dependencies to be met], operation, offsets of what it releases
        #[arg(long, conflicts_with = "dot")]
        schedule: bool,
        /// For Graphviz
        #[arg(long)]
        dot: bool,
        /// Draw operations and what they wait for
        #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file, conflicts_with_all = ["schedule", "dot", "json"])]
        svg: Option<PathBuf>,
        /// A line of the drawing for each rank, also where many do the same
        #[arg(long, requires = "drawn")]
        every_rank: bool,
        #[command(flatten)]
        look: LookArgs,
        /// Print one JSON object
        #[arg(long, conflicts_with = "dot")]
        json: bool,
    },
    /// Write a program in another format
    #[command(
        after_help = "Examples:\n  castell goal convert halo.goal -o halo.bin        for LogGOPSim and ATLAHS\n  castell goal convert trace.bin -o trace.goal\n  castell goal convert app.prv -o app.goal          an MPI program's trace\n  castell goal convert halo.goal -o halo.sched      compiled\n  castell goal convert --to text - -o - < halo.bin"
    )]
    Convert {
        /// The program
        input: PathBuf,
        /// Where to; `-`: the standard output
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// The format; without it the ending of the output's name decides: .goal, .bin, .sched
        #[arg(long)]
        to: Option<To>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum To {
    /// GOAL text
    Text,
    /// LogGOPSim's binary format
    Loggopsim,
    /// Compiled schedules of all ranks
    Schedule,
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut out = Out::default();
    let code = match args.command {
        Command::Check { file, json } => run_check(&file, json, &mut out),
        Command::Dump { file, rank, svg: Some(drawing), look, every_rank, .. } => {
            draw_program(&file, draw::Which { only: rank.map(Rank), every_rank }, &look.look(), &drawing)
        }
        Command::Dump { file, rank, schedule, dot, json, svg: None, .. } => {
            let form = match () {
                () if json => Form::Json,
                () if dot => Form::Dot,
                () => Form::Text,
            };
            dump(&file, rank.map(Rank), schedule, form, &mut out)
        }
        Command::Convert { input, output, to } => convert(&input, &output, to, &mut out),
    };
    match code.and_then(|code| out.flush().map(|()| code)) {
        // Whoever reads from us has seen enough.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

const UNWRITTEN: &str = "cannot write to the standard output";

/// The standard output.
struct Out(BufWriter<io::StdoutLock<'static>>);

impl Default for Out {
    fn default() -> Out {
        Out(BufWriter::new(io::stdout().lock()))
    }
}

impl Out {
    fn write(&mut self, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
        self.0.write_all(bytes.as_ref()).context(UNWRITTEN)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.0.flush().context(UNWRITTEN)
    }
}

#[derive(Serialize)]
struct CheckJson {
    ok: bool,
    ranks: Option<u32>,
    operations: Option<u64>,
    problems: Vec<ProblemJson>,
}

#[derive(Serialize, Default)]
struct ProblemJson {
    severity: &'static str,
    rank: Option<u32>,
    label: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    message: String,
}

impl From<Problem> for ProblemJson {
    fn from(problem: Problem) -> ProblemJson {
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let Problem { rank, label, line, column, message, .. } = problem;
        ProblemJson {
            severity,
            rank: rank.map(|rank| rank.0),
            label,
            line,
            column: column.map(u32::from),
            message,
        }
    }
}

fn run_check(path: &Path, json: bool, out: &mut Out) -> anyhow::Result<ExitCode> {
    let contents = match source::contents(path) {
        Ok(contents) => contents,
        Err(error) if json => {
            let problems = unreadable(&error);
            return print_json(CheckJson { ok: false, ranks: None, operations: None, problems }, out);
        }
        Err(error) => return Err(error),
    };
    let report = source::checked(&contents.into_program(), path);
    if json {
        let ok = report.is_ok();
        let unlisted = report.unlisted.iter().map(|&(kind, count)| unlisted_json(&report, kind, count));
        let mut problems: Vec<ProblemJson> = unlisted.collect();
        let (ranks, operations) = (Some(report.ranks), Some(report.operations));
        problems.splice(0..0, report.problems.into_iter().map(ProblemJson::from));
        return print_json(CheckJson { ok, ranks, operations, problems }, out);
    }
    print_report(&name(path), &report, out)?;
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What keeps a file from being read, as problems.
fn unreadable(error: &anyhow::Error) -> Vec<ProblemJson> {
    let Some(ReadError::Text(errors)) = error.downcast_ref() else {
        let message = format!("{error:#}");
        return vec![ProblemJson { severity: "error", message, ..ProblemJson::default() }];
    };
    let problem = |error: &text::ParseError| ProblemJson {
        severity: "error",
        rank: error.rank.map(|rank| rank.0),
        label: error.label.clone(),
        line: Some(error.line),
        column: Some(error.column),
        message: error.problem.to_string(),
    };
    errors.errors.iter().map(problem).collect()
}

fn unlisted_json(report: &Report, kind: check::Kind, count: u64) -> ProblemJson {
    let alike = report.problems.iter().find(|problem| problem.kind == kind).map(|problem| problem.severity);
    let severity = if alike == Some(Severity::Error) { "error" } else { "warning" };
    ProblemJson { severity, message: unlisted(kind, count), ..ProblemJson::default() }
}

fn unlisted(kind: check::Kind, count: u64) -> String {
    format!("{count} more problems of this kind ({kind})")
}

fn print_json(json: CheckJson, out: &mut Out) -> anyhow::Result<ExitCode> {
    out.write(serde_json::to_string(&json)? + "\n")?;
    Ok(if json.ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print_report(name: &str, report: &Report, out: &mut Out) -> anyhow::Result<()> {
    let (source, stream) = (Source::of(name), Stream::output());
    for problem in &report.problems {
        let colon = if problem.line.is_some() { ":" } else { ": " };
        out.write(format!("{name}{colon}{problem}\n"))?;
        out.write(source.excerpt(problem.line, problem.column.map(u32::from), stream))?;
    }
    for &(kind, count) in &report.unlisted {
        out.write(format!("{name}: {}\n", unlisted(kind, count)))?;
    }
    let count = |severity| report.problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let more = if report.unlisted.is_empty() { "" } else { ", and more" };
    let verdict = match (errors, warnings) {
        (0, 0) => "no problems".to_owned(),
        _ => format!("{}, {}{more}", counted(errors, "error"), counted(warnings, "warning")),
    };
    out.write(format!(
        "{name}: {}, {}: {verdict}\n",
        counted(report.ranks, "rank"),
        counted(report.operations, "operation")
    ))
}

/// As what a program is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Dot,
    Json,
}

fn dump(
    path: &Path,
    only: Option<Rank>,
    schedule: bool,
    form: Form,
    out: &mut Out,
) -> anyhow::Result<ExitCode> {
    let contents = source::contents(path)?;
    let ranks = match &contents {
        Contents::Program(program) => program.num_ranks(),
        Contents::Schedules(set) => set.num_ranks(),
    };
    if let Some(rank) = only.filter(|rank| rank.0 >= ranks) {
        castell_host::say(&no_such_rank(rank, path, ranks));
        return Ok(ExitCode::from(2));
    }
    let shown = |rank: Rank| only.is_none_or(|only| only == rank);
    if schedule {
        let set = match contents {
            Contents::Program(program) => compile(path, &program)?,
            Contents::Schedules(set) => set,
        };
        if form == Form::Json {
            let shown = set.schedules().filter(|(rank, _)| shown(*rank));
            let programs = shown.map(|(rank, schedule)| json::schedule(rank, schedule));
            json::write(set.num_ranks(), programs, |text| out.write(text))?;
            return Ok(ExitCode::SUCCESS);
        }
        let missing = only.filter(|only| only.index() >= set.schedules().len());
        let ranks = set.schedules().map(|(rank, _)| rank).chain(missing);
        for rank in ranks.filter(|&rank| shown(rank)) {
            let mut text = String::new();
            text::print_schedule(rank, set.rank(rank), &mut text)?;
            out.write(text)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let program = contents.into_program();
    if form == Form::Json {
        let shown = program.graphs().filter(|(rank, _)| shown(*rank));
        let programs = shown.map(|(rank, graph)| json::graph(rank, graph));
        json::write(program.num_ranks(), programs, |text| out.write(text))?;
        return Ok(ExitCode::SUCCESS);
    }
    if form == Form::Dot {
        let mut text = String::new();
        text::print_dot(&program, only, &mut text)?;
        out.write(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_text(&program, only, |text| out.write(text))?;
    Ok(ExitCode::SUCCESS)
}

/// Draws a program.
fn draw_program(path: &Path, which: draw::Which, look: &Look, drawing: &Path) -> anyhow::Result<ExitCode> {
    crate::output::check(drawing)?;
    let program = source::program(path)?;
    let ranks = program.num_ranks();
    if let Some(rank) = which.only.filter(|rank| rank.0 >= ranks) {
        castell_host::say(&no_such_rank(rank, path, ranks));
        return Ok(ExitCode::from(2));
    }
    let title = path.file_name().unwrap_or_default().to_string_lossy();
    draw::draw(&program, which, &title, look, drawing).with_context(|| name(path))?;
    Ok(ExitCode::SUCCESS)
}

fn no_such_rank(rank: Rank, path: &Path, ranks: u32) -> String {
    let last = ranks.saturating_sub(1);
    format!("--rank {rank}: {} has {ranks} ranks, so the last is {last}", name(path))
}

/// Writes GOAL text rank by rank.
fn print_text(
    program: &Program,
    only: Option<Rank>,
    mut write: impl FnMut(String) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if let Some(rank) = only {
        let mut text = String::new();
        text::print_rank(rank, program.rank(rank), &mut text)?;
        return write(text.trim_start().to_owned());
    }
    write(format!("num_ranks {}\n", program.num_ranks()))?;
    for (rank, graph) in program.graphs() {
        let mut text = String::new();
        text::print_rank(rank, graph, &mut text)?;
        write(text)?;
    }
    Ok(())
}

fn compile(path: &Path, program: &Program) -> anyhow::Result<ScheduleSet> {
    ScheduleSet::compile(program).with_context(|| format!("cannot compile {}", name(path)))
}

fn convert(input: &Path, output: &Path, to: Option<To>, out: &mut Out) -> anyhow::Result<ExitCode> {
    let Some(to) = to.or_else(|| format_of_name(output)) else {
        castell_host::say(&format!(
            "the name {} does not tell the format; add --to text, --to loggopsim or --to schedule, or end it in \
             .goal, .bin or .sched",
            output.display()
        ));
        return Ok(ExitCode::from(2));
    };
    let contents = source::contents(input)?;
    let bytes = match (to, contents) {
        (To::Text, contents) => {
            let mut text = String::new();
            text::print(&contents.into_program(), &mut text)?;
            text.into_bytes()
        }
        (To::Loggopsim, contents) => binary::write(&contents.into_program())
            .with_context(|| format!("cannot convert {}", name(input)))?,
        (To::Schedule, Contents::Schedules(set)) => set.to_bytes(),
        (To::Schedule, Contents::Program(program)) => compile(input, &program)?.to_bytes(),
    };
    if output == OsStr::new("-") {
        out.write(bytes)?;
    } else {
        crate::output::write(Path::new(output), bytes)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn format_of_name(path: &Path) -> Option<To> {
    match path.extension()?.to_str()? {
        "goal" | "txt" => Some(To::Text),
        "bin" => Some(To::Loggopsim),
        "sched" => Some(To::Schedule),
        _ => None,
    }
}
