//! Builds the fuzz targets and runs each a bounded number of times, from a seed that is printed.
//!
//! What cargo-fuzz does, with the compiler that builds everything else: libFuzzer's counters are LLVM's own, and the
//! address sanitizer, which only nightly compilers offer, is there once `RUSTC_BOOTSTRAP` asks for it.

use crate::command::{host, succeed};
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::{Command, ExitCode};
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
    let host = host()?;
    succeed(
        Command::new("cargo")
            .args(["build", "--release", "--locked", "--bins", "--manifest-path", "fuzz/Cargo.toml"])
            .args(["--target-dir", "target/fuzz", "--target", &host])
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", FLAGS)
            .current_dir(root),
    )?;
    let programs = root.join("target/fuzz").join(&host).join("release");
    succeed(&mut Command::new(programs.join("seeds")))?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // libFuzzer takes 0 for "choose one".
    let seed = args.seed.unwrap_or(since.subsec_nanos() | 1);
    for target in known.iter().filter(|name| args.targets.is_empty() || args.targets.contains(name)) {
        println!("fuzz: {target}, seed {seed} (cargo xtask fuzz {target} --seed {seed})");
        let artifacts = root.join("fuzz/artifacts").join(target);
        std::fs::create_dir_all(&artifacts)?;
        succeed(
            Command::new(programs.join(target))
                .arg(root.join("fuzz/corpus").join(target))
                .arg(format!("-artifact_prefix={}/", artifacts.display()))
                .args([format!("-runs={}", args.runs), format!("-seed={seed}")])
                .args([format!("-timeout={TIMEOUT_S}"), "-max_len=4096".to_owned()])
                .args(["-print_final_stats=1", "-verbosity=0"]),
        )?;
    }
    Ok(ExitCode::SUCCESS)
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
