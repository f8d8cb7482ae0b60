//! `castell strategy replay`.

use anyhow::{Context as _, bail};
use castell_daemon::recording::{Replay, Seen, replay};
use castell_host::say;
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell daemon --record monday.jsonl          somewhere else; then, also while it runs
  castell strategy replay monday.jsonl
  castell strategy replay monday.jsonl --json
  castell strategy simulate --recorded monday.jsonl short-term plan-ahead      what others would have decided

Decisions follow from what happened, when, and from the strategies, all of which are in the file: each line of the log has to be the
same, to the byte. It ends with 1 at the first that is not.";

/// Decide a recorded day of a daemon once more, and compare its log of decisions
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What `castell daemon --record` has written
    recording: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = args.recording.display();
    let file = File::open(&args.recording).with_context(|| format!("cannot read {path}"))?;
    let found = replay(BufReader::new(file), &mut |_: Seen<'_>| {}).with_context(|| path.to_string())?;
    let Replay { inputs, events, difference, is_cut, until } = &found;
    if args.json {
        let difference = difference.as_ref().map(|difference| {
            json!({"line": difference.line, "recorded": difference.recorded, "replayed": difference.replayed})
        });
        println!(
            "{:#}",
            json!({"inputs": inputs, "events": events, "until_s": until.as_s_f64(), "is_cut": is_cut, "difference": difference})
        );
        return Ok(if found.difference.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    if let Some(difference) = difference {
        let shown = |line: &Option<String>| line.clone().unwrap_or_else(|| "nothing".into());
        bail!(
            "{path}, line {}: recorded was `{}`, and now it is `{}`: was it another version of castell, or did a script take too long then?",
            difference.line,
            shown(&difference.recorded),
            shown(&difference.replayed)
        );
    }
    if *is_cut {
        say(&format!("{path} has no end: the daemon still runs, or was killed"));
    }
    println!("{inputs} times something happened within {until}; all {events} lines of the log are the same");
    Ok(ExitCode::SUCCESS)
}
