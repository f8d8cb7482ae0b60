//! `castell strategy governor` and `castell strategy sensor`.

use crate::daemon::Place;
use crate::say::plain;
use castell_daemon::ask;
use castell_host::say;
use castell_kernels::protocol::{Status, ToDaemon};
use std::process::ExitCode;

const GOVERNOR_EXAMPLES: &str = "\
Examples:
  castell strategy governor low
  castell strategy governor high";

/// Levels that strategies of castell know.
const USUAL: [&str; 2] = ["high", "low"];

/// Set the governor's level in the daemon that runs
///
/// What runs on a resource that the level forbids runs to the end of its step; what waits for it waits for others.
#[derive(clap::Args)]
#[command(after_help = GOVERNOR_EXAMPLES)]
pub struct GovernorArgs {
    /// high, low, or any level that `castell daemon --forbid` or the strategy knows
    level: String,
    #[command(flatten)]
    place: Place,
}

const SENSOR_EXAMPLES: &str = "\
Examples:
  castell strategy sensor battery 0.2";

/// Tell the daemon what a sensor says now, as strategies that ask for it will see it
#[derive(clap::Args)]
#[command(after_help = SENSOR_EXAMPLES)]
pub struct SensorArgs {
    /// One that `castell daemon --sensor` has named
    name: String,
    /// What it says
    #[arg(allow_negative_numbers = true)]
    value: f64,
    #[command(flatten)]
    place: Place,
}

/// Carries `governor` out.
pub fn governor(args: &GovernorArgs) -> anyhow::Result<ExitCode> {
    let place = args.place.find()?;
    ask(&place, &ToDaemon::Governor { level: args.level.clone() })?;
    let Status { governor, resources, .. } = super::status::of(&place)?;
    let forbidden: Vec<String> =
        resources.iter().filter(|on| on.forbidden).map(|on| plain(&on.resource)).collect();
    let what = match &*forbidden {
        [] => "no resource is forbidden".to_owned(),
        [one] => format!("{one} is forbidden"),
        some => format!("{} are forbidden", some.join(", ")),
    };
    println!("governor {}: {what}", plain(&governor));
    // Any word may be a level: a strategy of somebody's own may know it.
    if forbidden.is_empty() && !USUAL.contains(&&*args.level) {
        say(&format!(
            "{} is neither high nor low, and no `castell daemon --forbid` names it: the strategies of castell take it for high",
            plain(&args.level)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Carries `sensor` out.
pub fn sensor(args: &SensorArgs) -> anyhow::Result<ExitCode> {
    // Words of the protocol are JSON, which has no such numbers.
    anyhow::ensure!(args.value.is_finite(), "{} cannot be {}", args.name, args.value);
    ask(&args.place.find()?, &ToDaemon::Sensor { name: args.name.clone(), value: args.value })?;
    println!("{} says {}", args.name, args.value);
    Ok(ExitCode::SUCCESS)
}
