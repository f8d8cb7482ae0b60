//! `castell strategy status`.

use crate::daemon::Place;
use anyhow::bail;
use castell_daemon::ask;
use castell_kernels::protocol::{FromDaemon, Status, ToDaemon};
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
    let FromDaemon::Status(status) = ask(&args.place.find()?, &ToDaemon::Status {})? else {
        bail!("the daemon has answered something else");
    };
    match args.json {
        true => println!("{:#}", serde_json::to_value(&status)?),
        false => print(&status),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(status: &Status) {
    println!(
        "{} decides, governor {}; {} collections done in {} steps",
        status.strategy, status.governor, status.done, status.steps
    );
    for (name, value) in status.shown.iter().chain(&status.sensors) {
        println!("{name} is {value}");
    }
    let width = status.resources.iter().map(|on| on.resource.chars().count()).max().unwrap_or(0);
    for on in &status.resources {
        let runs = on.running.as_deref().unwrap_or(if on.forbidden { "forbidden" } else { "free" });
        let queue = if on.queue.is_empty() { String::new() } else { format!(", then {}", few(&on.queue)) };
        println!("{:width$}  {runs}{queue}", on.resource);
    }
    if !status.waiting.is_empty() {
        println!("{} wait: {}", status.waiting.len(), few(&status.waiting));
    }
    for application in &status.applications {
        println!(
            "{} (process {}): {} under way",
            application.application, application.pid, application.collections
        );
    }
}

/// The first of many.
fn few(names: &[String]) -> String {
    let shown = names.iter().take(6).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 6 { format!("{shown}, ...") } else { shown }
}
