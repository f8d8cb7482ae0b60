//! `castell session`: several programs in one allocation.

mod allocation;
mod chart;
mod run;
mod simulate;
mod spawned;
mod steer;
mod why;
pub(crate) mod words;

pub(crate) use self::allocation::allocation;
pub(crate) use self::run::{PlaceArgs, place_of_daemon, processors, usual_place};
pub(crate) use self::steer::explanation;
use std::process::ExitCode;

/// Run several programs in one set of processors, under a policy, or simulate that
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(run::RunArgs),
    List(run::ListArgs),
    Stop(steer::StopArgs),
    Resume(steer::ResumeArgs),
    End(steer::EndArgs),
    Set(steer::SetArgs),
    Explain(steer::ExplainArgs),
    On(run::OnArgs),
    Simulate(Box<simulate::Args>),
    Agent(run::AgentArgs),
    #[command(hide = true)]
    Keeper(run::KeeperArgs),
    #[command(hide = true)]
    Guard(run::GuardArgs),
    #[command(hide = true)]
    Ask(spawned::AskArgs),
    #[command(hide = true)]
    Member(spawned::MemberArgs),
    #[command(hide = true)]
    Watch(spawned::WatchArgs),
    #[command(hide = true)]
    Relay(run::RelayArgs),
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Run(args) => run::run(args),
        Command::List(args) => run::list(args),
        Command::Stop(args) => steer::stop(args),
        Command::Resume(args) => steer::resume(args),
        Command::End(args) => steer::end(args),
        Command::Set(args) => steer::set(args),
        Command::Explain(args) => steer::explain(args),
        Command::Simulate(args) => simulate::run(*args),
        Command::Agent(args) => run::agent(args),
        Command::Keeper(_) => run::keeper(),
        Command::On(args) => run::on(args),
        Command::Ask(args) => spawned::ask(args),
        Command::Member(args) => spawned::member(args),
        Command::Watch(args) => spawned::watch(args),
        Command::Guard(args) => run::guard(args),
        Command::Relay(args) => run::relay(args),
    }
}
