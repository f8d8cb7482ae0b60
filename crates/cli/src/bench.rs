//! `castell bench`.

use std::process::ExitCode;

/// Measure this machine, side by side with peers
#[derive(clap::Args)]
pub struct Args {}

/// Carries the command out.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
