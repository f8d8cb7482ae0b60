//! `castell strategy`: which kernel of a collection runs when and where, decided by scripts.

mod check;
mod diff;
mod list;
mod scenario;
mod simulate;
mod source;

use std::process::ExitCode;

/// Simulate strategies for programs that have kernels for several resources, and write one's own in Luau
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    List(list::Args),
    Check(check::Args),
    Simulate(Box<simulate::Args>),
    Diff(Box<diff::Args>),
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List(args) => list::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Diff(args) => diff::run(&args),
    }
}
