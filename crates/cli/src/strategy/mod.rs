//! `castell strategy`: which kernel of a collection runs when and where, decided by scripts.

mod check;
mod diff;
mod govern;
mod list;
mod load;
mod replay;
mod scenario;
mod simulate;
pub mod source;
pub mod status;

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
    Status(status::Args),
    Load(load::Args),
    Replay(replay::Args),
    Governor(govern::GovernorArgs),
    Sensor(govern::SensorArgs),
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List(args) => list::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Governor(args) => govern::governor(&args),
        Command::Sensor(args) => govern::sensor(&args),
    }
}
