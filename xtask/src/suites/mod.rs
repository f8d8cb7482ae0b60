//! Suites that nobody here wrote, run as they are and again with castell: what passes without castell has to pass with it. They are given
//! as folders; nothing is fetched, and what is compiled goes below `target/suites`.

mod mpi;
mod openmp;

use anyhow::Context as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Arguments of `cargo xtask suites`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    suites: Suites,
}

#[derive(clap::Subcommand)]
enum Suites {
    /// Of MPI: MPICH's collective tests, mpi4py's, Intel's and OSU's benchmarks with their checks
    Mpi(mpi::Args),
    /// Of OpenMP: BOTS, OpenMP_VV, libgomp's own tests, DataRaceBench, and any program
    Openmp(openmp::Args),
}

/// Runs the suites.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    match &args.suites {
        Suites::Mpi(args) => mpi::run(root, args),
        Suites::Openmp(args) => openmp::run(root, args),
    }
}

/// How a program ended that may take so many seconds: whether well, and what it said on both its outputs.
fn outcome(words: &[String], folder: &Path, seconds: u32) -> anyhow::Result<(bool, String)> {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &seconds.to_string()]).args(words).current_dir(folder).stdin(Stdio::null());
    let output = command.output().context("timeout cannot be started")?;
    let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    Ok((output.status.success(), out + &err))
}
