//! `castell strategy load`.

use super::source::Source;
use crate::daemon::Place;
use crate::say::plain;
use castell_daemon::ask;
use castell_kernels::protocol::ToDaemon;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell strategy load plan-ahead
  castell strategy load mine.luau:limit=9";

/// Have another strategy decide in the daemon that runs
///
/// The daemon reads it aside and tries it on random nodes; if it is sound it takes over, with all queues as they are. Nothing is lost and
/// nothing runs twice; if it fails later, the one before it goes on.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The strategy: one that comes with castell, or a file with a script
    strategy: String,
    #[command(flatten)]
    place: Place,
}

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let castell_daemon::Source { name, script, parameters } = Source::find(&args.strategy)?.found;
    let place = args.place.find()?;
    ask(&place, &ToDaemon::Load { name, script, parameters })?;
    println!("{} decides", plain(&super::status::of(&place)?.strategy));
    Ok(ExitCode::SUCCESS)
}
