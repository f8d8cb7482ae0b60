//! `castell top`: processors, sessions and kernel collections of this node as they are now, on a screen or as text or JSON.

mod draw;
mod picture;
mod screen;
mod snapshot;
mod source;
mod view;
mod words;

pub(crate) use self::snapshot::{list, status};
pub(crate) use self::source::Source;

use self::snapshot::Watch;
use self::view::View;
use crate::colour::Stream;
use crate::daemon::Place as DaemonPlace;
use crate::launch::parse_duration;
use crate::look::LookArgs;
use crate::session::{PlaceArgs, allocation};
use anyhow::bail;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// What a processor did is seen over such a time, unless another one is asked for.
const INTERVAL: Duration = Duration::from_secs(1);
/// A screen is not drawn more often.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  castell top                        a full screen; the keys stand in its last line, and ? explains them
  castell top --once                 one moment as text
  castell top --json                 one moment as JSON
  castell top --json --every 5       a line of JSON every five seconds, until it is ended or nobody reads it any more
  castell top --every 250ms          a quicker screen
  castell top --svg top.svg          a picture of one moment, for a talk or a ticket; .png, .pdf, --theme light
  ssh -t node2 castell top           another node; 80 columns are enough

Each processor of this node stands with how busy it was, by the system's own count (all programs, also those that are no sessions), and the
numbers of your sessions that run there. Sessions are those of one agent, as in `castell session list`; kernel collections are those of the
node's daemon, as in `castell strategy status`, with what its strategy shows of itself, such as a budget. Where one of the two is not there,
that is said, and the rest is shown. Pressure is the part of the last ten seconds in which some task waited for a processor, memory, or input
and output (PSI).

On the screen, up and down (or k and j) select a session; s stops it, r resumes it, e ends it, x explains it. p chooses another policy for all
sessions, g another level of the daemon's governor, l another strategy for it. q leaves. Where the standard output is no terminal, one moment
is printed as text. NO_COLOR and --color are heeded.";

/// Show processors, sessions and kernel collections of this node as they are now, and steer them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print one moment as text, and end
    #[arg(long, conflicts_with = "json")]
    once: bool,
    /// Print JSON: one moment, or with --every a line each
    #[arg(long)]
    json: bool,
    /// Draw one moment as it stands on a screen of 80 columns, and end
    #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file, conflicts_with_all = ["once", "json"])]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// How often, as in 250ms; a plain number is seconds [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "once")]
    every: Option<Duration>,
    #[command(flatten)]
    sessions: PlaceArgs,
    /// The daemon's socket (default: CASTELL_DAEMON, or this user's usual one)
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let every = args.every.unwrap_or(INTERVAL);
    if every < INTERVAL_MIN {
        bail!(
            "--every: {every:?} is too short: what a processor does is counted in hundredths of a second, so take 100ms or more"
        );
    }
    args.svg.iter().try_for_each(|path| crate::output::check(path))?;
    let is_screen = !args.once && !args.json && args.svg.is_none() && std::io::stdout().is_terminal();
    let sources = snapshot::Sources {
        proc: Path::new("/proc").to_owned(),
        sessions: args.sessions.place()?,
        allocation: allocation()?,
        daemon: DaemonPlace::at(args.daemon).find_if_any()?,
    };
    if is_screen {
        return screen::show(sources, every, Stream::output().has_colours());
    }
    let mut watch = Watch::begin(sources)?;
    loop {
        thread::sleep(every);
        let snapshot = watch.next()?;
        if let Some(path) = &args.svg {
            let drawing = picture::svg(&draw::drawn(&View::new(snapshot, true))?, &args.look.look());
            crate::picture::write(path, drawing)?;
            return Ok(ExitCode::SUCCESS);
        }
        match (args.json, args.every) {
            (false, _) => words::lines(&snapshot).iter().for_each(|line| println!("{line}")),
            (true, None) => println!("{:#}", serde_json::to_value(&snapshot)?),
            (true, Some(_)) => {
                println!("{}", serde_json::to_string(&snapshot)?);
                continue;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
}
