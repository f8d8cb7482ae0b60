//! OpenMP's suites, on libgomp alone and with castell's library in front of it.

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
      --program 'lulesh=./lulesh2.0 -s 10 -i 20' --threads 4

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
    /// DataRaceBench's folder
    #[arg(long, value_name = "DIR")]
    dataracebench: Option<PathBuf>,
    /// Another program: what it ends with counts (repeatable)
    #[arg(long, value_name = "NAME=COMMAND")]
    program: Vec<String>,
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

/// What is run, and, if it has to be compiled first, how.
struct Test {
    suite: &'static str,
    name: String,
    compile: Vec<String>,
    run: Vec<String>,
    folder: PathBuf,
    variables: Vec<String>,
}

/// What became of it; `None`: it could not be built.
struct Verdict {
    suite: &'static str,
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
    let target = root.join("target/suites/openmp");
    let mut tests = Vec::new();
    if let Some(folder) = &args.bots {
        tests.extend(bots(folder)?);
    }
    if let Some(folder) = &args.ompvv {
        tests.extend(ompvv(folder, args.all, &target)?);
    }
    if let Some(folder) = &args.libgomp {
        tests.extend(libgomp(folder, args.all, &target)?);
    }
    if let Some(folder) = &args.dataracebench {
        tests.extend(dataracebench(folder, args.all, &target)?);
    }
    for program in &args.program {
        let (name, command) = program.split_once('=').context("--program wants NAME=COMMAND")?;
        tests.push(Test::of("program", name, words(command), root));
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
    fn of(suite: &'static str, name: &str, run: Vec<String>, folder: &Path) -> Test {
        let (name, folder) = (name.to_owned(), folder.to_owned());
        Test { suite, name, compile: Vec::new(), run, folder, variables: Vec::new() }
    }

    /// A source that is compiled below `target`.
    fn compiled(
        suite: &'static str,
        (source, base): (&Path, &Path),
        options: &[String],
        target: &Path,
        marked: &str,
    ) -> anyhow::Result<Test> {
        let name = source.strip_prefix(base).unwrap_or(source).display().to_string() + marked;
        let folder = target.join(suite).join(name.replace('/', "-"));
        std::fs::create_dir_all(&folder)?;
        let program = folder.join("program").display().to_string();
        let compiler = match (marked, source.extension().and_then(|end| end.to_str())) {
            ("", Some("c")) => "gcc",
            ("", Some("f90" | "F90" | "f" | "f95" | "f03")) => "gfortran",
            _ => "g++",
        };
        let mut compile = words(compiler);
        if compiler == "g++" {
            compile.extend(words("-x c++"));
        }
        compile.extend([source.display().to_string()]);
        compile.extend(words("-fopenmp -foffload=disable -w -lm -pthread -o"));
        compile.push(program.clone());
        compile.extend_from_slice(options);
        Ok(Test { compile, ..Test::of(suite, &name, vec![program], &folder) })
    }

    fn judge(&self, library: &Path, args: &Args) -> anyhow::Result<Verdict> {
        let verdict = |passed, said| Verdict { suite: self.suite, name: self.name.clone(), passed, said };
        if !self.compile.is_empty() && !outcome(&self.compile, &self.folder, 300)?.0 {
            return Ok(verdict(None, String::new()));
        }
        let run = |more: Option<String>| {
            let mut words = vec!["env".to_owned(), format!("OMP_NUM_THREADS={}", args.threads)];
            words.extend(self.variables.iter().cloned().chain(more).chain(self.run.iter().cloned()));
            outcome(&words, &self.folder, args.timeout)
        };
        let (without, _) = run(None)?;
        let (with, said) = run(Some(format!("LD_PRELOAD={}", library.display())))?;
        Ok(verdict(Some([without, with]), if with { String::new() } else { said }))
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Whether a source has to do with tasks, or with what can end a region's threads early.
fn names_tasks(text: &str) -> bool {
    ["task", "depend", "cancel", "omp_fulfill_event"].iter().any(|word| text.contains(word))
}

/// All files below a folder, by name.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Sources below a folder with these endings, with their text.
fn sources(folder: &Path, endings: &[&str], all: bool) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for path in files(folder)? {
        if !path.extension().and_then(|end| end.to_str()).is_some_and(|end| endings.contains(&end)) {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        if all || names_tasks(&text) {
            found.push((path, text));
        }
    }
    Ok(found)
}

/// Small inputs, and the programs' own checks.
fn bots(folder: &Path) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let bin = if folder.join("bin").is_dir() { folder.join("bin") } else { folder };
    let inputs = bin.join("../inputs").display().to_string();
    let mut found = Vec::new();
    for path in files(&bin)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let arguments = match name.split('.').next().unwrap_or_default() {
            _ if !name.contains("omp-tasks") => continue,
            "alignment" => format!("-f {inputs}/alignment/prot.20.aa"),
            "fib" => "-n 20".to_owned(),
            "fft" => "-n 32768".to_owned(),
            "floorplan" => format!("-f {inputs}/floorplan/input.5"),
            "health" => format!("-f {inputs}/health/test.input"),
            "knapsack" => format!("-f {inputs}/knapsack/knapsack-012.input"),
            "nqueens" => "-n 8".to_owned(),
            "sort" => "-n 262144".to_owned(),
            "sparselu" => "-n 10 -m 10".to_owned(),
            "strassen" => "-n 256".to_owned(),
            "uts" => format!("-f {inputs}/uts/test.input"),
            _ => continue,
        };
        let mut run = vec![path.display().to_string()];
        run.extend(words(&arguments));
        run.push("-c".to_owned());
        found.push(Test::of("BOTS", &name, run, &bin));
    }
    Ok(found)
}

fn ompvv(folder: &Path, all: bool, target: &Path) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let include = format!("-I{}", folder.join("ompvv").display());
    let mut found = Vec::new();
    for (source, _) in sources(&folder.join("tests"), &["c", "cpp", "F90"], all)? {
        let mut options = vec![include.clone()];
        if source.extension().is_some_and(|end| end == "F90") {
            options.extend(words("-cpp -ffree-line-length-none -J."));
        }
        found.push(Test::compiled("OpenMP_VV", (&source, &folder.join("tests")), &options, target, "")?);
    }
    Ok(found)
}

/// Programs that are to run, with the options and variables that their comments ask for; those for accelerators are left out.
fn libgomp(folder: &Path, all: bool, target: &Path) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let mut found = Vec::new();
    let kinds: [(&str, &[&str]); 4] = [
        ("libgomp.c", &[""]),
        ("libgomp.c-c++-common", &["", " as C++"]),
        ("libgomp.c++", &[""]),
        ("libgomp.fortran", &[""]),
    ];
    for (kind, marks) in kinds.iter().filter(|(kind, _)| folder.join(kind).is_dir()) {
        for (source, text) in sources(&folder.join(kind), &["c", "C", "f90", "f"], all)? {
            let is_left_out = [
                "dg-do compile",
                "dg-do link",
                "dg-shouldfail",
                "dg-additional-sources",
                "offload_device",
                "offload_target",
            ]
            .iter()
            .any(|word| text.contains(word));
            if is_left_out {
                continue;
            }
            let options: Vec<String> =
                asked(&text, "options").chain(asked(&text, "additional-options")).flat_map(words).collect();
            for mark in *marks {
                let options: Vec<String> = options
                    .iter()
                    .filter(|option| mark.is_empty() || !option.starts_with("-std="))
                    .cloned()
                    .collect();
                let mut test = Test::compiled("libgomp", (&source, &folder), &options, target, mark)?;
                test.variables = variables(&text);
                found.push(test);
            }
        }
    }
    Ok(found)
}

/// What stands in quotes behind `{ dg-WHAT`, unless it is for some targets only.
fn asked<'a>(text: &'a str, what: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("{{ dg-{what} \"");
    text.lines().filter(|line| !line.contains("target ")).filter_map(move |line| {
        let (_, behind) = line.split_once(begin.as_str())?;
        behind.split('"').next()
    })
}

/// `{ dg-set-target-env-var OMP_CANCELLATION "true" }`.
fn variables(text: &str) -> Vec<String> {
    let of = |line: &str| {
        let (_, behind) = line.split_once("dg-set-target-env-var ")?;
        let (name, value) = behind.trim().split_once(' ')?;
        Some(format!("{}={}", name.trim_matches('"'), value.split('"').nth(1)?))
    };
    text.lines().filter_map(of).collect()
}

fn dataracebench(folder: &Path, all: bool, target: &Path) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let mut found = Vec::new();
    for (below, endings) in [("micro-benchmarks", ["c", "cpp"]), ("micro-benchmarks-fortran", ["f95", "F95"])]
    {
        let below = folder.join(below);
        if !below.is_dir() {
            continue;
        }
        let options = if endings[0] == "c" { Vec::new() } else { words("-ffree-line-length-none -J.") };
        for (source, _) in sources(&below, &endings, all)? {
            if source.parent() == Some(below.as_path()) {
                found.push(Test::compiled("DataRaceBench", (&source, &folder), &options, target, "")?);
            }
        }
    }
    Ok(found)
}

/// A suite's tests, those that were built, passed without and with castell, and those that differ.
fn sums(verdicts: &[Verdict]) -> Vec<(&'static str, [usize; 4], Vec<&Verdict>)> {
    let mut sums: Vec<(&'static str, [usize; 4], Vec<&Verdict>)> = Vec::new();
    for verdict in verdicts {
        if sums.last().is_none_or(|(suite, ..)| *suite != verdict.suite) {
            sums.push((verdict.suite, [0; 4], Vec::new()));
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
        format!("{:16}{:>8}{:>8}{:>18}{:>14}\n", "suite", "tests", "built", "passed without", "passed with");
    let sums = sums(verdicts);
    for (suite, [tests, built, without, with], _) in &sums {
        text += &format!("{suite:16}{tests:8}{built:8}{without:18}{with:14}\n");
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
    fn comments_say_how_a_test_is_built_and_run() {
        let text = "/* { dg-do run } */\n/* { dg-options \"-O2 -std=c99\" } */\n\
            /* { dg-additional-options \"-msse2\" { target sse2_runtime } } */\n\
            /* { dg-set-target-env-var OMP_CANCELLATION \"true\" } */\n";
        assert_eq!(asked(text, "options").collect::<Vec<_>>(), ["-O2 -std=c99"]);
        assert_eq!(asked(text, "additional-options").count(), 0);
        assert_eq!(variables(text), ["OMP_CANCELLATION=true"]);
    }

    #[test]
    fn what_differs_is_told() {
        let verdict = |name: &str, passed| Verdict {
            suite: "S",
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
