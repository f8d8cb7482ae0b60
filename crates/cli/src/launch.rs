//! `castell launch`.

use std::process::ExitCode;

/// Start N processes of a program that uses castell
#[derive(clap::Args)]
pub struct Args {}

/// Carries the command out.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
