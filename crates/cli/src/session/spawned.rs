//! `castell session ask`, `member` and `watch`: what the MPI door uses where a program spawns processes.

use super::allocation::allocation;
use super::run::PlaceArgs;
use anyhow::Context as _;
use castell_agent::{ask as ask_for, become_member, watch as watch_process};
use std::ffi::OsString;
use std::process::ExitCode;

/// Ask for slots for processes that this session's program spawns; prints their mark, and a node for each slot
#[derive(clap::Args)]
pub struct AskArgs {
    /// Slots
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    slots: u32,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Become a program that is a process of a spawned session
#[derive(clap::Args)]
pub struct MemberArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// What `ask` has printed
    mark: String,
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Tell the agent when a process of a spawned session ends
#[derive(clap::Args)]
pub struct WatchArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The process
    pid: u32,
    /// What `ask` has printed
    mark: String,
}

/// `castell session ask`.
pub fn ask(args: AskArgs) -> anyhow::Result<ExitCode> {
    let parent =
        std::env::var("CASTELL_SESSION").context("this is no session: CASTELL_SESSION is not set")?;
    let granted = ask_for(&args.place.place()?, allocation()?.as_ref(), &parent, args.slots)?;
    println!("{}", granted.mark);
    for part in &granted.parts {
        (0..part.slots).for_each(|_| println!("{}", part.node));
    }
    Ok(ExitCode::SUCCESS)
}

/// `castell session member`.
pub fn member(args: MemberArgs) -> anyhow::Result<ExitCode> {
    let castell = std::env::current_exe()?;
    let error = become_member(&castell, &args.place.place()?.options(), &args.mark, &args.command);
    Err(error).with_context(|| format!("cannot start `{}`", args.command[0].to_string_lossy()))
}

/// `castell session watch`.
pub fn watch(args: WatchArgs) -> anyhow::Result<ExitCode> {
    watch_process(&args.place.place()?, allocation()?.as_ref(), args.pid, &args.mark)?;
    Ok(ExitCode::SUCCESS)
}
