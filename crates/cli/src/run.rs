//! `castell run`.

use std::process::ExitCode;

/// Execute a GOAL program with real processes
#[derive(clap::Args)]
pub struct Args {}

/// Carries the command out.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
