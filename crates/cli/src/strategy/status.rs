//! `castell strategy status`.

use crate::daemon::Place;
use crate::say::plain;
use anyhow::bail;
use castell_base::counted;
use castell_daemon::ask;
use castell_kernels::protocol::{FromDaemon, OnResource, Status, ToDaemon};
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell strategy status
  castell strategy status --json";

/// Show what the daemon of this node does: what runs where, what waits, and who decides
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let status = of(&args.place.find()?)?;
    match args.json {
        true => println!("{:#}", serde_json::to_value(&status)?),
        false => lines(&status).iter().for_each(|line| println!("{line}")),
    }
    Ok(ExitCode::SUCCESS)
}

/// What the daemon at a socket does.
///
/// # Errors
/// It does not answer.
pub fn of(socket: &Path) -> anyhow::Result<Status> {
    match ask(socket, &ToDaemon::Status {})? {
        FromDaemon::Status(status) => Ok(status),
        _ => bail!("the daemon has answered something else"),
    }
}

/// What a daemon does, for people: who decides, what the strategy and sensors say, what each resource does, what waits, who is registered.
pub fn lines(status: &Status) -> Vec<String> {
    let Status { strategy, governor, resources, waiting, applications, done, steps, .. } = status;
    let done = format!("{done} done in {}", counted(*steps, "step"));
    let mut lines = vec![format!("{} decides, governor {}; {done}", plain(strategy), plain(governor))];
    let numbers = status.shown.iter().chain(&status.sensors);
    let numbers: Vec<String> =
        numbers.map(|(name, value)| format!("{} {}", plain(name), number(*value))).collect();
    if !numbers.is_empty() {
        lines.push(numbers.join(", "));
    }
    let width = resources.iter().map(|on| plain(&on.resource).chars().count()).max().unwrap_or(0);
    lines.extend(resources.iter().map(|on| resource(on, width)));
    if !waiting.is_empty() {
        lines.push(format!("{} wait: {}", waiting.len(), few(waiting)));
    }
    if !applications.is_empty() {
        let shown = applications.iter().map(|application| {
            let own = match &application.strategy {
                None => String::new(),
                Some(own) if own.decides => format!(" by its own {}", own.name),
                Some(own) if own.stopped.is_some() => format!(" (its own {} was stopped)", own.name),
                Some(own) => format!(" (its own {} is tried out)", own.name),
            };
            let parked = if application.parked { ", stands still" } else { "" };
            format!(
                "{} ({}) {}{own}{parked}",
                application.application, application.pid, application.collections
            )
        });
        let shown: Vec<String> = shown.collect();
        lines.push(format!("{}: {}", counted(shown.len(), "application"), few(&shown)));
        for application in applications {
            if let Some(reason) = application.strategy.as_ref().and_then(|own| own.stopped.as_ref()) {
                lines.push(format!(
                    "own strategy of {} stopped: {}",
                    plain(&application.application),
                    plain(reason)
                ));
            }
        }
    }
    lines
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn resource(on: &OnResource, width: usize) -> String {
    let runs = match (&on.running, on.forbidden) {
        (Some(running), true) => format!("{} (drains)", plain(running)),
        (Some(running), false) => plain(running),
        (None, true) => "forbidden".to_owned(),
        (None, false) => "free".to_owned(),
    };
    let queue = match on.queue.len() {
        0 => String::new(),
        length => format!(", then {length}: {}", few(&on.queue)),
    };
    format!("{:width$}  {runs}{queue}", plain(&on.resource))
}

/// The first of many.
fn few(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(6).map(|name| plain(name)).collect();
    let rest = if names.len() > shown.len() { ", ..." } else { "" };
    format!("{}{rest}", shown.join(", "))
}
