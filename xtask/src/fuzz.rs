//! Builds the fuzz targets and runs each a bounded number of times, from a seed that is printed.
//!
//! What cargo-fuzz does, with the compiler that builds everything else: libFuzzer's counters are LLVM's own, and the
//! address sanitizer, which only nightly compilers offer, is there once `RUSTC_BOOTSTRAP` asks for it.

use crate::command;
use crate::command::{host, succeed};
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Args {
    /// How often each target runs
    #[arg(long, default_value_t = RUNS, value_name = "COUNT")]
    runs: u64,
    /// Where libFuzzer's random numbers start (default: another one each time; it is printed)
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u32>,
    /// Only these targets (default: all of fuzz/fuzz_targets)
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

impl Args {
    /// What CI runs.
    pub const FOR_TESTS: Args = Args { runs: RUNS, seed: None, targets: Vec::new() };
}

const RUNS: u64 = 20_000;
/// An input that takes longer, in seconds, is a finding.
const TIMEOUT_S: u32 = 60;

/// What libFuzzer's runtime wants of the code: counters at edges, their addresses, comparisons.
const FLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0";

/// Builds and runs.
///
/// # Errors
/// A target found something, or cannot be built.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let known = targets(root)?;
    if let Some(unknown) = args.targets.iter().find(|name| !known.contains(name)) {
        bail!("there is no fuzz target `{unknown}`; there are {}", known.join(", "));
    }
    succeed(&mut build(root)?)?;
    let programs = root.join("target/fuzz").join(host()?).join("release");
    succeed(&mut Command::new(programs.join("seeds")))?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // libFuzzer takes 0 for "choose one".
    let seed = args.seed.unwrap_or(since.subsec_nanos() | 1);
    let wanted: Vec<&String> =
        known.iter().filter(|name| args.targets.is_empty() || args.targets.contains(name)).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failures = std::thread::scope(|scope| {
        let fuzz_some = || {
            let targets = std::iter::from_fn(|| wanted.get(next.fetch_add(1, Ordering::Relaxed)));
            targets
                .filter_map(|target| fuzz_one(root, &programs, target, args.runs, seed).err())
                .map(|error| format!("{error:#}"))
                .collect::<Vec<String>>()
        };
        let fuzzers: Vec<_> = (0..threads).map(|_| scope.spawn(fuzz_some)).collect();
        let joined = fuzzers.into_iter().map(|fuzzer| fuzzer.join().expect("a panic is one of ours"));
        joined.flatten().collect::<Vec<String>>()
    });
    if !failures.is_empty() {
        bail!("{}", failures.join("; "));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one target; what it says is printed when it has ended, since others run beside it.
fn fuzz_one(root: &Path, programs: &Path, target: &str, runs: u64, seed: u32) -> anyhow::Result<()> {
    let again = format!("cargo xtask fuzz {target} --runs {runs} --seed {seed}");
    println!("fuzz: {target}, seed {seed} ({again})");
    let artifacts = root.join("fuzz/artifacts").join(target);
    std::fs::create_dir_all(&artifacts)?;
    let output = Command::new(programs.join(target))
        .arg(root.join("fuzz/corpus").join(target))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args([format!("-runs={runs}"), format!("-seed={seed}")])
        .args([format!("-timeout={TIMEOUT_S}"), "-max_len=4096".to_owned()])
        .args(["-print_final_stats=1", "-verbosity=0"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{target} cannot be started"))?;
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    println!("-- {target}: {}\n{said}", output.status);
    if !output.status.success() {
        bail!("{target} ended with {} (`{again}`)", output.status);
    }
    Ok(())
}

/// Builds all targets.
pub fn build(root: &Path) -> anyhow::Result<Command> {
    let mut build = command::cargo();
    build
        .args(["build", "--release", "--locked", "--bins", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--target-dir", "target/fuzz", "--target", &host()?])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", FLAGS)
        .current_dir(root);
    Ok(build)
}

/// The targets, in order of their names.
fn targets(root: &Path) -> anyhow::Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let names = paths.iter().filter_map(|path| path.file_stem()?.to_str().map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}
