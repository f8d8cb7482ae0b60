//! `castell cpus`.

mod ask;
mod node;

use crate::session::PlaceArgs;
use anyhow::{Context, bail};
use castell_host::mailbox::{Agent, FOLDER, default_path, found_in};
use castell_host::topology::parse_list;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  CASTELL_TASKS_MAILBOX=1 ./program &     # a program with tasks that listens
  castell omp --malleable -- ./program &  # an OpenMP program that does
  castell cpus                            # all such programs of this user
  castell cpus 4711                       # its workers
  castell cpus 4711 --take 2,3            # these two get no more tasks
  castell cpus 4711 --give 2-3 --json     # they do again
  CASTELL_SHARE=1 ./program &             # a program that lends processors to others by itself
  castell cpus --node                     # who has the right to which processor, and who has it

A worker that is taken away ends the task that it runs, and what it had queued goes to others. The last worker of a kind is \
refused, which is an error. Of an OpenMP program, worker n is the thread with that number in each team.

A program within `castell session run` has as many workers as its session has processors: whoever keeps the sessions (the node's daemon, \
where it runs) is told, and leaves out those that were taken away here, also when it moves the session. A worker that is given back has to \
wait until the session has a processor for it, which is said.

Exit code: 0 if all was done, 1 if something was refused or nobody answered, 2 for wrong usage.";

/// Take CPUs away from a running program's tasks and give them back
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Process number of the program; without it, all programs that listen are listed
    pid: Option<u32>,
    /// Workers to take away, such as 1,3-5
    #[arg(long, value_name = "LIST")]
    take: Option<String>,
    /// Workers to give back
    #[arg(long, value_name = "LIST")]
    give: Option<String>,
    /// Print the workers; the default without --take and --give
    #[arg(long)]
    list: bool,
    /// The mailbox itself, where the program was told to put it elsewhere
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    mailbox: Option<PathBuf>,
    /// Show the node's board, on which programs lend processors to each other by themselves
    #[arg(long, conflicts_with_all = ["pid", "take", "give", "list", "mailbox"])]
    node: bool,
    /// The board itself, where programs were told to use another one (CASTELL_SHARE=FILE)
    #[arg(long, value_name = "FILE", requires = "node")]
    board: Option<PathBuf>,
    /// Where programs put their mailboxes
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    folder: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
    /// How long to wait for the program's answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    wait: f64,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.node {
        return node::show(args.board.as_deref(), args.json);
    }
    let path = args.mailbox.clone().or_else(|| args.pid.map(|pid| default_path(&args.folder, pid)));
    let Some(path) = path else {
        if args.take.is_some() || args.give.is_some() {
            bail!("of which program? `castell cpus PID --take ...`; `castell cpus` lists those that listen");
        }
        return list_all(&args);
    };
    let agent = Agent::open(&path)
        .context("start the program with CASTELL_TASKS_MAILBOX=1, as the same user, and give the number of its process")?;
    let numbers = |list: &Option<String>| list.as_deref().map_or(Ok(Vec::new()), parse_list);
    let (take, give) = (numbers(&args.take)?, numbers(&args.give)?);
    let changes = !take.is_empty() || !give.is_empty();
    let mut left = Vec::new();
    if changes {
        let patience = Duration::try_from_secs_f64(args.wait).context("--wait is no time")?;
        left = ask::change(&agent, &take, &give, &args.place.place()?, patience)?;
    }
    if args.list || args.json || !changes {
        print(&agent, args.json);
    }
    left.iter().for_each(|sentence| castell_host::say(sentence));
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print(agent: &Agent, as_json: bool) {
    let workers = agent.workers();
    if as_json {
        let rows = workers.iter().enumerate().map(|(number, state)| {
            json!({
                "worker": number,
                "cpu": state.place.cpu,
                "kind": state.place.kind,
                "wanted": state.wanted,
                "enabled": state.enabled,
                "held": state.held,
            })
        });
        let rows: Vec<_> = rows.collect();
        println!("{}", json!({"pid": agent.owner(), "refusals": agent.refusals(), "workers": rows}));
        return;
    }
    println!("process {}, mailbox {}", agent.owner(), agent.path().display());
    println!("{:>6} {:>6} {:>10}  state", "worker", "cpu", "runs");
    for (number, state) in workers.iter().enumerate() {
        let cpu = state.place.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
        let runs =
            if state.place.kind == 0 { "tasks".to_owned() } else { format!("device {}", state.place.kind) };
        let word = match (state.wanted, state.enabled) {
            (true, true) => "given",
            (false, false) if state.held => "taken by hand",
            (false, false) => "taken",
            (false, true) => "to be taken",
            (true, false) => "to be given",
        };
        println!("{number:>6} {cpu:>6} {runs:>10}  {word}");
    }
}

/// One line a program that listens.
fn list_all(args: &Args) -> anyhow::Result<ExitCode> {
    let agents: Vec<Agent> =
        found_in(&args.folder)?.iter().filter_map(|path| Agent::open(path).ok()).collect();
    let enabled = |agent: &Agent| agent.workers().iter().filter(|state| state.enabled).count();
    let sessions = if agents.is_empty() { Vec::new() } else { ask::sessions(&args.place.place()?)? };
    let session = |agent: &Agent| ask::session_of(agent.owner(), &sessions);
    if args.json {
        let row = |agent: &Agent| json!({"pid": agent.owner(), "mailbox": agent.path(), "workers": agent.workers().len(), "enabled": enabled(agent), "session": session(agent)});
        println!("{}", json!(agents.iter().map(row).collect::<Vec<_>>()));
        return Ok(ExitCode::SUCCESS);
    }
    if agents.is_empty() {
        println!("no program listens in {}: start one with CASTELL_TASKS_MAILBOX=1", args.folder.display());
    }
    for agent in &agents {
        let of = session(agent).map_or_else(String::new, |number| format!(", session {number}"));
        println!("{:>8}: {} of {} workers{of}", agent.owner(), enabled(agent), agent.workers().len());
    }
    Ok(ExitCode::SUCCESS)
}
