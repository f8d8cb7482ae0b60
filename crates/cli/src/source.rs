//! Programs from files, whatever their format.

use crate::colour::Stream;
use crate::excerpt::{self, Problems};
use anyhow::{Context, bail};
use castell_base::{Rank, Threads};
use castell_bench::bar::waiting;
use castell_comm::job::RANKS_MAX;
use castell_goal::check::{self, Severity, check};
use castell_goal::file::{Contents, Format, ReadError};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::paraver;
use castell_goal::program::Program;
use castell_goal::schedule::Schedule;
use castell_host::threads::Lent;
use std::io::Read;
use std::path::Path;

/// The bytes of a file; `-` is standard input.
pub fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// What a file holds, whatever its format; its content tells which. Addresses are let through: to look at. What the
/// conversion of a trace took for granted is printed.
pub fn contents(file: &Path) -> anyhow::Result<Contents> {
    contents_on(file, &Lent::new(None))
}

/// As [`contents`], on these threads.
pub fn contents_on(file: &Path, threads: &dyn Threads) -> anyhow::Result<Contents> {
    // Whoever types a program needs no line in between.
    let line = (file != Path::new("-")).then(|| waiting(format!("reading {}", file.display())));
    let (bytes, name) = (read(file)?, name(file));
    if Format::of(&bytes) != Format::Paraver {
        return Ok(castell_goal::file::read_on(&bytes, &name, true, threads)?);
    }
    let conversion = paraver::read(&bytes).map_err(|error| ReadError::Paraver(name.clone(), error))?;
    drop(line);
    for note in conversion.notes {
        castell_host::say(&format!("{name}: {note}"));
    }
    Ok(Contents::Program(conversion.program))
}

/// A program from a file in any format.
pub fn program(file: &Path) -> anyhow::Result<Program> {
    Ok(contents(file)?.into_program())
}

/// Each operation that was read from a text says its line there beside its label: for those who look at a timeline.
pub fn name_lines(program: &mut Program) {
    for rank in (0..program.graphs().count() as u32).map(Rank) {
        let graph = program.rank_mut(rank);
        for vertex in graph.vertices() {
            let Some((line, _)) = graph.position(vertex) else { continue };
            let label = match graph.label(vertex) {
                Some(label) => format!("{label}, line {line}"),
                None => format!("line {line}"),
            };
            // What has more names than fit keeps those that it has.
            let _ = graph.set_label(vertex, &label);
        }
    }
}

/// A file as messages name it.
pub fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".into() } else { file.display().to_string() }
}

/// What a check finds in a program from this file.
pub fn checked(program: &Program, file: &Path) -> check::Report {
    let _line = waiting(format!("checking {}", name(file)));
    check(program)
}

/// Checks a program and refuses it if it cannot run to its end; warnings are printed.
///
/// # Errors
/// All errors that the check found.
pub fn insist(program: &Program, file: &Path) -> anyhow::Result<()> {
    let report = checked(program, file);
    let of = |severity| {
        let problems = report.problems.iter().filter(move |problem| problem.severity == severity);
        Problems {
            file: name(file),
            problems: problems.map(|problem| located(problem, file)).collect(),
            closing: String::new(),
        }
    };
    let warnings = of(Severity::Warning);
    for warning in warnings.with_excerpts(Stream::error()).lines() {
        let is_message = warnings.problems.iter().any(|problem| problem.text == warning);
        castell_host::say(&format!("{}{warning}", if is_message { "warning: " } else { "" }));
    }
    let mut errors = of(Severity::Error);
    if errors.problems.is_empty() {
        return Ok(());
    }
    let unlisted: u64 = report.unlisted.iter().map(|(_, count)| count).sum();
    if unlisted > 0 {
        errors.closing = format!("{}: and {unlisted} more problems of these kinds\n", file.display());
    }
    errors.closing += "the program would not run to its end (--no-check runs it all the same)";
    Err(errors.into())
}

fn located(problem: &check::Problem, file: &Path) -> excerpt::Problem {
    let mut text = file.display().to_string();
    let (line, column) = (problem.line, problem.column.map(u32::from));
    for number in [line, column].into_iter().flatten() {
        text.push_str(&format!(":{number}"));
    }
    excerpt::Problem { text: format!("{text}: {}", problem.message), line, column }
}

/// What each rank of a program executes, for execution by processes that are still to be started.
///
/// # Errors
/// The program cannot be compiled, or names addresses: they mean nothing in another process.
pub fn schedules(program: &Program, file: &Path) -> anyhow::Result<Vec<Schedule>> {
    let ranks = program.num_ranks();
    if ranks > RANKS_MAX {
        bail!("{}: the program has {ranks} ranks; a job has at most {RANKS_MAX}", file.display());
    }
    let compiled = (0..ranks).map(Rank).map(|rank| {
        let graph = program.rank(rank);
        refuse_addresses(graph).with_context(|| format!("{}: rank {rank}", file.display()))?;
        let schedule = graph.compile().and_then(|schedule| schedule.for_group(rank, ranks));
        schedule.with_context(|| format!("{}: rank {rank}", file.display()))
    });
    compiled.collect()
}

fn refuse_addresses(graph: &Graph) -> anyhow::Result<()> {
    for vertex in (0..graph.len() as u32).map(Vertex) {
        if graph.op(vertex).names_address() {
            bail!(
                "operation {} names an address, which means nothing in a new process: use the scratchpad (@offset)",
                graph.name(vertex)
            );
        }
    }
    Ok(())
}
