//! `castell goal`.

use std::process::ExitCode;

/// Check, print and convert GOAL programs
#[derive(clap::Args)]
pub struct Args {}

/// Carries the command out.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
