//! OpenMP's suites, on libgomp or libomp alone and with castell's library in front of it.

mod bots;
mod kastors;
mod libgomp;
mod llvm;
mod sources;

use super::outcome;
use anyhow::{Context as _, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const EXAMPLES: &str = "\
Example:
  cargo build --release -p castell-omp
  cargo xtask suites openmp --bots bots/bin --ompvv sollve_vv --libgomp gcc/libgomp/testsuite --dataracebench dataracebench \\
      --llvm llvm-project/openmp/runtime/test --compiler gcc --compiler clang --program 'lulesh=./lulesh2.0 -s 10 -i 20' \\
      --threads 4

Exit code: 0 if everything that passes without castell passes with it, else 1.";

/// Arguments of `cargo xtask suites openmp`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// castell's library
    #[arg(long = "library", value_name = "FILE", default_value = "target/release/libcastell_omp.so")]
    door: PathBuf,
    /// BOTS' binaries, as they were built, with `inputs` beside their folder
    #[arg(long, value_name = "DIR")]
    bots: Option<PathBuf>,
    /// OpenMP_VV's folder
    #[arg(long, value_name = "DIR")]
    ompvv: Option<PathBuf>,
    /// libgomp's `testsuite`
    #[arg(long, value_name = "DIR")]
    libgomp: Option<PathBuf>,
    /// LLVM's `openmp/runtime/test`
    #[arg(long, value_name = "DIR")]
    llvm: Option<PathBuf>,
    /// DataRaceBench's folder
    #[arg(long, value_name = "DIR")]
    dataracebench: Option<PathBuf>,
    /// The folder below which KaStORS' programs were built
    #[arg(long, value_name = "DIR")]
    kastors: Option<PathBuf>,
    /// Another program: what it ends with counts, and, with `NAME:TEXT=`, whether it says TEXT (repeatable)
    #[arg(long, value_name = "NAME=COMMAND")]
    program: Vec<String>,
    /// Who compiles sources: GCC (C, C++ and Fortran, on libgomp) or clang (C and C++, on libomp) (repeatable)
    #[arg(long, value_enum, value_name = "NAME", default_value = "gcc")]
    compiler: Vec<Compiler>,
    /// Sources that have nothing to do with tasks and cancellation, too
    #[arg(long)]
    all: bool,
    /// Only tests whose path has this in it
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Threads of a region
    #[arg(long, value_name = "N", default_value_t = 4)]
    threads: u32,
    /// Seconds a test may take
    #[arg(long, value_name = "N", default_value_t = 60)]
    timeout: u32,
    /// Tests at the same time
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Print JSON: a suite's sums, and the tests that differ with what they said
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Compiler {
    Gcc,
    Clang,
}

/// What is run, and, if it has to be compiled first, how.
struct Test {
    suite: String,
    name: String,
    compile: Vec<String>,
    run: Vec<String>,
    folder: PathBuf,
    variables: Vec<String>,
    /// What it says if it passes.
    says: String,
    /// The variable that names castell's library: for programs that others start, one of their own.
    door: &'static str,
}

/// What became of it; `None`: it could not be built.
struct Verdict {
    suite: String,
    name: String,
    passed: Option<[bool; 2]>,
    /// What it said with castell, if it failed.
    said: String,
}

/// Runs the suites that are given.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let library = root.join(&args.door);
    let library = library.canonicalize().with_context(|| {
        format!("there is no {}: `cargo build --release -p castell-omp`", library.display())
    })?;
    let mut tests = found(args, &root.join("target/suites/openmp"))?;
    for program in &args.program {
        tests.push(Test::program(program, root)?);
    }
    tests.retain(|test| args.only.as_ref().is_none_or(|word| test.name.contains(word.as_str())));
    if tests.is_empty() {
        bail!("no test was found: give at least one suite; see --help");
    }
    let verdicts = judge(&tests, &library, args)?;
    let is_fine = verdicts.iter().all(|verdict| verdict.passed != Some([true, false]));
    if args.json {
        println!("{}", serde_json::to_string_pretty(&in_json(&verdicts))?);
    } else {
        print!("{}", in_words(&verdicts));
    }
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The tests of the suites, in the order in which they are told of.
fn found(args: &Args, target: &Path) -> anyhow::Result<Vec<Test>> {
    let mut tests = Vec::new();
    if let Some(folder) = &args.bots {
        tests.extend(bots::tests(folder)?);
    }
    if let Some(folder) = &args.kastors {
        tests.extend(kastors::tests(folder)?);
    }
    for &compiler in &args.compiler {
        let how = How { compiler, all: args.all, target };
        if let Some(folder) = &args.ompvv {
            tests.extend(sources::ompvv(folder, &how)?);
        }
        if let Some(folder) = &args.libgomp {
            tests.extend(libgomp::tests(folder, &how)?);
        }
        if let Some(folder) = &args.llvm {
            tests.extend(llvm::tests(folder, &how)?);
        }
        if let Some(folder) = &args.dataracebench {
            tests.extend(sources::dataracebench(folder, &how)?);
        }
    }
    Ok(tests)
}

/// Which sources are compiled, by whom, and where to.
struct How<'a> {
    compiler: Compiler,
    all: bool,
    target: &'a Path,
}

impl How<'_> {
    /// The suite's name beside that of another compiler.
    fn suite(&self, name: &str) -> String {
        match self.compiler {
            Compiler::Gcc => name.to_owned(),
            Compiler::Clang => format!("{name}, clang"),
        }
    }

    /// A folder of its own for a test.
    fn folder(&self, suite: &str, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.target.join(self.suite(suite)).join(name.replace('/', "-"));
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

/// Several at a time; in the tests' order.
fn judge(tests: &[Test], library: &Path, args: &Args) -> anyhow::Result<Vec<Verdict>> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || -> anyhow::Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(test) = tests.get(index) else { return Ok(()) };
            let verdict = test.judge(library, args)?;
            found.lock().expect("nobody panics with it").push((index, verdict));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    let mut found = found.into_inner().expect("nobody panics with it");
    found.sort_by_key(|(index, _)| *index);
    Ok(found.into_iter().map(|(_, verdict)| verdict).collect())
}

impl Test {
    fn of(suite: &str, name: &str, run: Vec<String>, folder: &Path) -> Test {
        Test {
            suite: suite.to_owned(),
            name: name.to_owned(),
            compile: Vec::new(),
            run,
            folder: folder.to_owned(),
            variables: Vec::new(),
            says: String::new(),
            door: "LD_PRELOAD",
        }
    }

    /// What `--program` says.
    fn program(argument: &str, folder: &Path) -> anyhow::Result<Test> {
        let (name, command) = argument.split_once('=').context("--program wants NAME=COMMAND")?;
        let (name, says) = name.split_once(':').unwrap_or((name, ""));
        Ok(Test { says: says.to_owned(), ..Test::of("program", name, words(command), folder) })
    }

    fn judge(&self, library: &Path, args: &Args) -> anyhow::Result<Verdict> {
        let verdict =
            |passed, said| Verdict { suite: self.suite.clone(), name: self.name.clone(), passed, said };
        if !self.compile.is_empty() && !outcome(&self.compile, &self.folder, 300)?.0 {
            return Ok(verdict(None, String::new()));
        }
        let run = |more: Option<String>| {
            let mut words = vec!["env".to_owned(), format!("OMP_NUM_THREADS={}", args.threads)];
            words.extend(self.variables.iter().cloned().chain(more).chain(self.run.iter().cloned()));
            let (is_well, said) = outcome(&words, &self.folder, args.timeout)?;
            anyhow::Ok((is_well && said.contains(&self.says), said))
        };
        let (without, _) = run(None)?;
        let (with, said) = run(Some(format!("{}={}", self.door, library.display())))?;
        Ok(verdict(Some([without, with]), if with { String::new() } else { said }))
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// A suite's tests, those that were built, passed without and with castell, and those that differ.
fn sums(verdicts: &[Verdict]) -> Vec<(&str, [usize; 4], Vec<&Verdict>)> {
    let mut sums: Vec<(&str, [usize; 4], Vec<&Verdict>)> = Vec::new();
    for verdict in verdicts {
        if sums.last().is_none_or(|(suite, ..)| *suite != verdict.suite) {
            sums.push((&verdict.suite, [0; 4], Vec::new()));
        }
        let (_, [tests, built, without, with], differ) = sums.last_mut().expect("just added");
        *tests += 1;
        let Some(passed) = verdict.passed else { continue };
        *built += 1;
        *without += usize::from(passed[0]);
        *with += usize::from(passed[1]);
        if passed[0] != passed[1] {
            differ.push(verdict);
        }
    }
    sums
}

fn in_words(verdicts: &[Verdict]) -> String {
    let mut text =
        format!("{:22}{:>8}{:>8}{:>18}{:>14}\n", "suite", "tests", "built", "passed without", "passed with");
    let sums = sums(verdicts);
    for (suite, [tests, built, without, with], _) in &sums {
        text += &format!("{suite:22}{tests:8}{built:8}{without:18}{with:14}\n");
    }
    for verdict in sums.iter().flat_map(|(_, _, differ)| differ) {
        let which =
            if verdict.passed == Some([true, false]) { "without castell only" } else { "with castell only" };
        text += &format!("\npasses {which}: {} {}\n", verdict.suite, verdict.name);
        let lines: Vec<&str> = verdict.said.lines().collect();
        lines[lines.len().saturating_sub(5)..].iter().for_each(|line| text += &format!("    {line}\n"));
    }
    text
}

fn in_json(verdicts: &[Verdict]) -> serde_json::Value {
    let suite = |(suite, [tests, built, without, with], differ): &(&str, [usize; 4], Vec<&Verdict>)| {
        let differ: Vec<_> = differ
            .iter()
            .map(|verdict| json!({"test": verdict.name, "passed": verdict.passed, "said": verdict.said}))
            .collect();
        json!({"suite": suite, "tests": tests, "built": built, "passed_without": without, "passed_with": with, "differ": differ})
    };
    sums(verdicts).iter().map(suite).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told() {
        let verdict = |name: &str, passed| Verdict {
            suite: "S".to_owned(),
            name: name.to_owned(),
            passed,
            said: "why".to_owned(),
        };
        let verdicts =
            [verdict("a", Some([true, true])), verdict("b", Some([true, false])), verdict("c", None)];
        let text = in_words(&verdicts);
        assert!(text.contains("passes without castell only: S b\n    why\n"), "{text}");
        assert_eq!(in_json(&verdicts)[0]["passed_with"], 1);
        assert_eq!(in_json(&verdicts)[0]["built"], 2);
    }
}
