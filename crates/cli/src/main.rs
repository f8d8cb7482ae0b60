//! The `castell` command: each subcommand is a module with its arguments and a `run`.

mod bench;
mod cpus;
mod fit;
mod goal;
mod launch;
mod model;
mod run;
mod schedule;
mod simulate;
mod source;
mod tasks;
mod threads;
mod timeline;
mod tune;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Dependency graphs of messages and tasks, checked, compiled and run.
#[derive(Parser)]
#[command(name = "castell", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Goal(goal::Args),
    Run(run::Args),
    Schedule(schedule::Args),
    Simulate(Box<simulate::Args>),
    Launch(launch::Args),
    Cpus(cpus::Args),
    Bench(Box<bench::Args>),
    Fit(fit::Args),
    Tune(Box<tune::Args>),
    Tasks(tasks::Args),
}

fn main() -> ExitCode {
    end_with_the_reader();
    let outcome = match Cli::parse().command {
        Command::Goal(args) => goal::run(args),
        Command::Run(args) => run::run(args),
        Command::Schedule(args) => schedule::run(args),
        Command::Simulate(args) => simulate::run(*args),
        Command::Launch(args) => launch::run(args),
        Command::Cpus(args) => cpus::run(args),
        Command::Bench(args) => bench::run(*args),
        Command::Fit(args) => fit::run(args),
        Command::Tune(args) => tune::run(*args),
        Command::Tasks(args) => tasks::run(args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("castell: {error:#}");
        ExitCode::from(1)
    })
}

/// Whoever reads the output may have seen enough, as `head` has: that ends the command without a word.
fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let gone = std::io::Error::from_raw_os_error(libc::EPIPE).to_string();
        let said = panic.payload_as_str().unwrap_or_default();
        if said.starts_with("failed printing to stdout") && said.ends_with(&gone) {
            std::process::exit(0);
        }
        usual(panic);
    }));
}
