//! A million simulated connections of the protocol over raw frames, in all weathers.

use crate::command;
use crate::command::succeed;
use std::path::Path;
use std::process::ExitCode;

/// Arguments of `cargo xtask storm`.
#[derive(clap::Args)]
pub struct Args {
    /// How many connections
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT")]
    connections: u64,
    /// The first seed: each crowd of 16 connections has its own
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    seed: u64,
}

/// Builds and runs it; a failure names its seed.
///
/// # Errors
/// Something was lost, came twice or was not told; or it cannot be built.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    succeed(
        command::cargo()
            .args(["run", "--release", "--locked", "--package", "castell-esp", "--example", "storm", "--"])
            .args([args.connections.to_string(), args.seed.to_string()])
            .current_dir(root),
    )?;
    Ok(ExitCode::SUCCESS)
}
