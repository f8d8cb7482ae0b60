//! Runtimes whose programs lie in `benches/tasks`: compiled where the library is found, left out with a line where not.

use super::{Params, Sample, Subject};
use crate::plain::{Program, find_program};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

const TASKS_H: &str = include_str!("../../../../benches/tasks/tasks.h");
const POTRF_H: &str = include_str!("../../../../benches/tasks/potrf.h");
const LAST_HPP: &str = include_str!("../../../../benches/tasks/last.hpp");
const OPENMP: &str = include_str!("../../../../benches/tasks/openmp.c");
const ONETBB: &str = include_str!("../../../../benches/tasks/onetbb.cpp");
const TASKFLOW: &str = include_str!("../../../../benches/tasks/taskflow.cpp");
const NANOS6: &str = include_str!("../../../../benches/tasks/nanos6.c");
const STARPU: &str = include_str!("../../../../benches/tasks/starpu.c");

/// A program, and what it is told besides the case: several subjects may share one.
struct External {
    name: String,
    program: Rc<Program>,
    /// What stands before the program.
    before: Vec<String>,
    variant: Vec<String>,
}

impl Subject for External {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        self.program.measure_if_known(&self.before, case, samples, &self.variant)
    }
}

/// What is needed to build a program.
struct Recipe<'a> {
    compilers: &'a [&'a str],
    words: Vec<String>,
    file: (&'a str, &'a str),
}

/// Where libraries lie that the system does not bring.
pub struct Given<'a> {
    pub taskflow: Option<&'a Path>,
    pub tbb: Option<&'a Path>,
    pub nanos6: Option<&'a Path>,
}

/// Every runtime that is there; for each other, a line.
pub fn programs(given: &Given<'_>) -> Vec<Box<dyn Subject>> {
    let mut found: Vec<Box<dyn Subject>> = Vec::new();
    let mut note = |name: &str, hint: &str, made: anyhow::Result<Vec<External>>| match made {
        Ok(programs) => {
            found.extend(programs.into_iter().map(|program| Box::new(program) as Box<dyn Subject>));
        }
        Err(error) => {
            let error = format!("{error:#}");
            // A compiler says much: its first complaint is enough here.
            let first = error.lines().find(|line| line.contains("error")).or(error.lines().next());
            castell_host::say(&format!("without {name} ({hint}): {}", first.unwrap_or_default()));
        }
    };
    note("GCC's libgomp", "apt install gcc", libgomp());
    note("LLVM's libomp", "apt install clang libomp-dev", libomp());
    note("oneTBB", "apt install g++ libtbb-dev", onetbb(given.tbb));
    note("StarPU", "apt install libstarpu-dev", starpu());
    if let Some(folder) = given.taskflow {
        note("Taskflow", "--taskflow DIR", taskflow_programs(folder));
    }
    if let Some(folder) = given.nanos6 {
        note("Nanos6", "--nanos6 DIR", nanos6(folder));
    }
    found
}

/// The OpenMP program as GCC makes it and, where there is clang, as clang does, each with `library` loaded first and without.
///
/// # Errors
/// There is no gcc, or it has no OpenMP.
pub fn with_and_without(library: &Path, with_clang: bool) -> anyhow::Result<Vec<Box<dyn Subject>>> {
    let mut found: Vec<Box<dyn Subject>> = Vec::new();
    let made = std::iter::once(libgomp()).chain(with_clang.then(libomp).filter(Result::is_ok));
    for without in made.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten() {
        found.push(Box::new(External {
            name: format!("castell on {}", without.name),
            program: Rc::clone(&without.program),
            before: vec!["env".to_owned(), format!("LD_PRELOAD={}", library.display())],
            variant: without.variant.clone(),
        }));
        found.push(Box::new(without));
    }
    Ok(found)
}

fn libgomp() -> anyhow::Result<Vec<External>> {
    openmp(&["gcc", "cc"], "libgomp")
}

fn libomp() -> anyhow::Result<Vec<External>> {
    let clangs: Vec<String> = (14..30).rev().map(|version| format!("clang-{version}")).collect();
    let clangs: Vec<&str> = clangs.iter().map(String::as_str).chain(["clang"]).collect();
    openmp(&clangs, "libomp")
}

fn openmp(compilers: &[&str], name: &str) -> anyhow::Result<Vec<External>> {
    let words = words("-std=gnu11 -O3 -w -fopenmp openmp.c");
    let (program, compiler) = build(&Recipe { compilers, words, file: ("openmp.c", OPENMP) })?;
    Ok(subjects(&format!("{name} {}", version_of(&compiler)), program, &[("", "")]))
}

/// With a graph that is built each time, with one that is run again, and with tasks that are put behind others.
fn onetbb(folder: Option<&Path>) -> anyhow::Result<Vec<External>> {
    let mut options = words("-std=c++17 -O3 -w onetbb.cpp -pthread");
    match folder {
        None => options.push("-ltbb".to_owned()),
        Some(folder) => {
            let folder = folder.display();
            let library = find_library(&folder.to_string(), "libtbb.so")?;
            options.extend([format!("-I{folder}/include"), library]);
            options.push(format!("-Wl,-rpath,{folder}/lib"));
        }
    }
    let recipe = Recipe { compilers: &["g++", "c++"], words: options, file: ("onetbb.cpp", ONETBB) };
    let (program, _) = build(&recipe)?;
    let version = if folder.is_some() { String::new() } else { package_version("tbb") };
    // The last knows no case where the library is too old for it.
    let variants = [("", ""), (", graph run again", "--again 1"), (", task order", "--order 1")];
    Ok(subjects(&format!("oneTBB{version}"), program, &variants))
}

/// One a variant: what its name ends with, and its arguments.
fn subjects(name: &str, program: Program, variants: &[(&str, &str)]) -> Vec<External> {
    let program = Rc::new(program);
    let subject = |(ending, arguments): &(&str, &str)| External {
        name: format!("{name}{ending}"),
        program: Rc::clone(&program),
        before: Vec::new(),
        variant: words(arguments),
    };
    variants.iter().map(subject).collect()
}

/// The library or, as wheels bring it, one with a version in its name.
fn find_library(folder: &str, name: &str) -> anyhow::Result<String> {
    let lib = Path::new(folder).join("lib");
    let files =
        std::fs::read_dir(&lib).with_context(|| format!("error: {} cannot be read", lib.display()))?;
    let files = files.filter_map(Result::ok).map(|entry| entry.path());
    let mut fits: Vec<PathBuf> = files
        .filter(|file| {
            file.file_name().is_some_and(|file| {
                let file = file.to_string_lossy();
                file == name || file.starts_with(&format!("{name}."))
            })
        })
        .collect();
    fits.sort();
    let first = fits.first().with_context(|| format!("error: no {name} in {}", lib.display()))?;
    Ok(first.display().to_string())
}

fn taskflow_programs(folder: &Path) -> anyhow::Result<Vec<External>> {
    if !folder.join("taskflow/taskflow.hpp").is_file() {
        bail!("error: no taskflow/taskflow.hpp in {}", folder.display());
    }
    let mut options = words("-std=c++20 -O3 -w taskflow.cpp -pthread");
    options.push(format!("-I{}", folder.display()));
    let recipe = Recipe { compilers: &["g++", "c++"], words: options, file: ("taskflow.cpp", TASKFLOW) };
    let (program, _) = build(&recipe)?;
    let variants = [(", graph", ""), (", graph run again", "--again 1"), (", async", "--async 1")];
    Ok(subjects("Taskflow", program, &variants))
}

/// With dependences over single addresses, and over regions.
fn nanos6(folder: &Path) -> anyhow::Result<Vec<External>> {
    let folder = folder.canonicalize().with_context(|| format!("error: no folder {}", folder.display()))?;
    let library = find_library(&folder.to_string_lossy(), "libnanos6.so")?;
    let folder = folder.display();
    let mut options = words("-std=gnu11 -O3 -w nanos6.c -pthread -ldl");
    let start = format!("{folder}/lib/nanos6-library-mode.o");
    options.extend([format!("-I{folder}/include"), start, library, format!("-Wl,-rpath,{folder}/lib")]);
    let recipe = Recipe { compilers: &["gcc", "cc"], words: options, file: ("nanos6.c", NANOS6) };
    let (program, _) = build(&recipe)?;
    Ok(subjects("Nanos6", program, &[(", addresses", ""), (", regions", "--regions 1")]))
}

fn starpu() -> anyhow::Result<Vec<External>> {
    let flags = ["starpu-1.4", "starpu-1.3"].iter().find_map(|name| package_flags(name));
    let flags = flags.context("error: pkg-config knows no starpu-1.3 or 1.4")?;
    let mut options = words("-std=gnu11 -O3 -w starpu.c");
    options.extend(flags);
    let recipe = Recipe { compilers: &["gcc", "cc"], words: options, file: ("starpu.c", STARPU) };
    let (program, _) = build(&recipe)?;
    Ok(subjects("StarPU", program, &[("", "")]))
}

/// With the first compiler that can; which one that was.
fn build(recipe: &Recipe<'_>) -> anyhow::Result<(Program, PathBuf)> {
    let mut refused = anyhow::anyhow!("error: none of {} is installed", recipe.compilers.join(", "));
    for compiler in recipe.compilers.iter().filter_map(|name| find_program(name)) {
        let files = [("tasks.h", TASKS_H), ("potrf.h", POTRF_H), ("last.hpp", LAST_HPP), recipe.file];
        match Program::compile_files(&compiler, recipe.words.iter().cloned(), &files, Vec::new()) {
            Ok(program) => return Ok((program, compiler)),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The compiler's, and so its library's.
fn version_of(compiler: &Path) -> String {
    output_of(Command::new(compiler).arg("-dumpversion")).unwrap_or_default()
}

fn package_version(name: &str) -> String {
    output_of(Command::new("pkg-config").args(["--modversion", name]))
        .map_or(String::new(), |version| format!(" {version}"))
}

fn package_flags(name: &str) -> Option<Vec<String>> {
    output_of(Command::new("pkg-config").args(["--cflags", "--libs", name])).map(|flags| words(&flags))
}
