//! The `castell` command: each subcommand is a module with its arguments and a `run`.

mod afford;
mod agent;
mod bench;
mod clocks;
mod colour;
mod completions;
mod cpus;
mod daemon;
mod distances;
mod doubts;
mod examples;
mod excerpt;
mod fit;
mod goal;
mod hosts;
mod info;
mod lab;
mod launch;
mod learned;
mod loaded;
mod look;
mod model;
mod mpi;
mod omp;
mod output;
mod patterns;
mod picture;
mod place;
mod plot;
mod predict;
mod predicted;
mod preload;
mod probe;
mod profile;
mod profiles;
mod run;
mod say;
mod schedule;
mod session;
mod simulate;
mod slowdown;
mod source;
mod strategy;
mod tasks;
mod timeline;
mod top;
mod tune;
mod ways;
mod xdp;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::process::ExitCode;

/// Dependency graphs of messages and tasks, checked, compiled and run.
#[derive(Parser)]
#[command(name = "castell", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// Colours in what is printed: on terminals only, always, or never
    #[arg(long, global = true, value_enum, default_value_t = colour::When::Auto, value_name = "WHEN", hide_possible_values = true)]
    color: colour::When,
    /// Overwrite files that castell has not written itself
    #[arg(long, global = true)]
    force: bool,
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
    Lab(lab::Args),
    Ways(ways::Args),
    Xdp(xdp::Args),
    #[command(hide = true)]
    Agent(agent::Args),
    #[command(hide = true)]
    RunRank(run::RankArgs),
    #[command(hide = true)]
    TuneRank(tune::RankArgs),
    #[command(hide = true)]
    LabHost(lab::HostArgs),
    Place(Box<place::Args>),
    Session(session::Args),
    Strategy(strategy::Args),
    Mpi(mpi::Args),
    Cpus(cpus::Args),
    Daemon(daemon::Args),
    Bench(Box<bench::BenchArgs>),
    Distances(distances::Args),
    Probe(probe::Args),
    Profile(profile::Args),
    Profiles(profiles::Args),
    Slowdown(slowdown::Args),
    Learned(learned::Args),
    Omp(omp::Args),
    Fit(fit::Args),
    Plot(plot::Args),
    Predict(Box<predict::Args>),
    Tune(Box<tune::Args>),
    Tasks(tasks::Args),
    Top(top::Args),
    Info(info::Args),
    Completions(completions::Args),
    Man(completions::ManArgs),
}

/// All commands, as `--help` and the manual pages tell of them.
fn command() -> clap::Command {
    examples::readable(Cli::command())
}

fn main() -> ExitCode {
    end_with_the_reader();
    // Larger files than the limit allows (ulimit -f) are errors then, not a death without a word.
    castell_host::signal::ignore_file_size_limit();
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let command = examples::readable_of(Cli::command(), &|name| words.iter().any(|word| word == name));
    let asked = colour::asked(words.into_iter());
    let matches = command.color(asked.for_clap()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    colour::choose(cli.color);
    output::force(cli.force);
    let outcome = match cli.command {
        Command::Goal(args) => goal::run(args),
        Command::Run(args) => run::run(args),
        Command::Schedule(args) => schedule::run(args),
        Command::Simulate(args) => simulate::run(*args),
        Command::Launch(args) => launch::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Ways(args) => ways::run(args),
        Command::Xdp(args) => xdp::run(args),
        Command::Agent(_) => agent::run(),
        Command::RunRank(args) => run::live(&args),
        Command::TuneRank(args) => tune::live(&args),
        Command::LabHost(args) => lab::live(&args),
        Command::Place(args) => place::run(*args),
        Command::Session(args) => session::run(args),
        Command::Strategy(args) => strategy::run(args),
        Command::Mpi(args) => mpi::run(args),
        Command::Cpus(args) => cpus::run(args),
        Command::Daemon(args) => daemon::run(args),
        Command::Bench(args) => bench::run(*args),
        Command::Distances(args) => distances::run(args),
        Command::Probe(args) => probe::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Profiles(args) => profiles::run(args),
        Command::Slowdown(args) => slowdown::run(args),
        Command::Learned(args) => learned::run(args),
        Command::Omp(args) => omp::run(&args),
        Command::Fit(args) => fit::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Predict(args) => predict::run(*args),
        Command::Tune(args) => tune::run(*args),
        Command::Tasks(args) => tasks::run(args),
        Command::Top(args) => top::run(args),
        Command::Info(args) => info::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => completions::man(&args),
    };
    outcome.unwrap_or_else(|error| {
        say::failure(&error, std::env::args_os().any(|argument| argument == "--json"));
        let signal = error.chain().find_map(|cause| cause.downcast_ref::<castell_bench::Interrupted>());
        ExitCode::from(signal.map_or(1, |castell_bench::Interrupted(signal)| 128 + *signal as u8))
    })
}

/// Whoever reads the output may have seen enough, as `head` has: that ends the command without a word. Output that cannot be
/// written for another reason is an error like others.
fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let gone = std::io::Error::from_raw_os_error(libc::EPIPE).to_string();
        let said = panic.payload_as_str().unwrap_or_default();
        match said.strip_prefix("failed printing to stdout: ") {
            Some(reason) if reason == gone => std::process::exit(0),
            Some(reason) => {
                castell_host::say(&format!("cannot write to the standard output: {reason}"));
                std::process::exit(1);
            }
            None => usual(panic),
        }
    }));
}
