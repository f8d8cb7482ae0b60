//! `castell session run`, `list` and `agent`.

use super::allocation::allocation;
use super::words::{count_processors, memory, number};
use crate::launch::parse_duration;
use anyhow::Context as _;
use castell_agent::{
    Allocation, Asked, Life, MARK, NO_MARK, Options, Place, keep, list as ask_for_list, run as run_session,
    serve, until_found,
};
use castell_base::counted;
use castell_host::NODE_FOLDER;
use castell_host::topology::{parse_list, print_list};
use castell_host::users::Others;
use castell_policy::session::protocol::{FromAgent, Named, Part, Shown, Wanted};
use castell_policy::session::{Policy, Rules, Slowdown};
use castell_prof::binary::Binary;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  castell session run --policy sidestep -- mpirun -n 8 ./simulation    on all processors of this host
  castell session run -n 2 -- ./analysis                               on two; the simulation steps aside meanwhile
  castell session run --cpus 0,2-3 -- ./analysis                       on exactly these
  castell session run --max-slowdown 1.2 -- ./analysis                 not beside whom it, or who is there, would be a fifth slower
  castell session run --no-probe -- ./controller                       never stopped for a measurement (castell daemon --learn probe)
  castell session list                                                 who waits, runs, is suspended
  salloc -N 4                                                          in a Slurm job: on its nodes, from any of them
  castell session run --policy surpass -- srun ./simulation            the program's mpirun, srun or castell launch finds its nodes

The first session starts an agent, which keeps the state until none is left; its policy holds for all that are run meanwhile.
What a session starts is pinned to its processors. While it is suspended all of its processes are stopped, also those that ignore
SIGTSTP or have left its process group. Ctrl-C and Ctrl-Z reach all of them; what is left when the program ends is ended, too.

Exit code: the program's own; 128 + signal where a signal ended it, or the waiting for it; 1 if it could not be run.";

const ON_EXAMPLES: &str = "\
Examples:
  castell session on node2 hostname                    in a Slurm job of which node2 is a node
  OMPI_MCA_plm_rsh_agent='castell session on' ...      how a session's Open MPI starts its daemons";

/// Run a program as a session beside others, on processors of its own or as the policy says
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Processors (default: all of this host, or of all nodes of the allocation)
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    slots: Option<u32>,
    /// Exactly these processors, as 0,2-3; in a batch job those of one node, as node2:0-1. It waits until it can have each of them
    #[arg(long, value_name = "[NODE:]LIST", value_parser = named, conflicts_with = "slots")]
    cpus: Option<Named>,
    /// wait, surpass, overbook, sidestep or give-way (default: that of the sessions that are there, else wait)
    #[arg(long, value_name = "POLICY")]
    policy: Option<Rules>,
    /// The higher, the earlier
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    priority: i32,
    /// How long it takes at most: others may go first where that does no harm
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    estimate: Option<Duration>,
    /// Memory that it needs, as 500M or 1.5G, counted also while it is suspended. Where a control group with the memory controller can be made for
    /// it, it cannot have more either; `explain` says whether that is so
    #[arg(long, value_name = "BYTES", value_parser = memory, default_value = "0")]
    memory: u64,
    /// It waits where it, or a session beside it, would be slowed down by more than this factor, by what the node's daemon has learned of both
    /// programs (default: what `castell daemon --max-slowdown` or `session set --max-slowdown` allows all)
    #[arg(long, value_name = "FACTOR")]
    max_slowdown: Option<Slowdown>,
    /// It is never stopped for a moment to be measured, nor put beside a probe, as `castell daemon --learn probe` does with programs that it does not know
    #[arg(long)]
    no_probe: bool,
    /// A session (see `list`) that it talks to: neither waits for the other, nor suspends it
    #[arg(long, value_name = "SESSION", value_parser = number)]
    with: Option<u64>,
    #[command(flatten)]
    place: PlaceArgs,
    // From its first word on all is the program's; a word with a hyphen before that is an option, if a mistyped one.
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// List the sessions
#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Keep the sessions of a socket: `run` starts this where it is missing
#[derive(clap::Args)]
pub struct AgentArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// End when there has been no session for so long
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    idle: Duration,
}

/// See to the processes of sessions on a node, as the agent says on standard input, which starts this
#[derive(clap::Args)]
pub struct KeeperArgs {}

/// Run a shell command on a node of the allocation, as ssh does
#[derive(clap::Args)]
#[command(after_help = ON_EXAMPLES)]
pub struct OnArgs {
    /// The node
    node: String,
    /// Its words are joined with blanks, and given to a shell there
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Let the processes of control groups go on when standard input ends, and remove the groups: `run` starts this where it may make some
#[derive(clap::Args)]
pub struct GuardArgs {
    /// The folders of the groups
    #[arg(required = true)]
    groups: Vec<PathBuf>,
}

/// Join standard input and output with the agent of this node: `run` and `list` start this where that is another one
#[derive(clap::Args)]
pub struct RelayArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// How long the agent may take to listen
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    patience: Duration,
}

#[derive(clap::Args)]
pub(crate) struct PlaceArgs {
    /// The agent's socket (default: one for each user and batch job)
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Where a daemon keeps sessions that listens at this socket: at the usual place, or beside a socket that is not the usual one.
pub(crate) fn place_of_daemon(socket: &Path) -> anyhow::Result<Place> {
    if socket == castell_host::runtime_folder()?.join(castell_kernels::NAME) {
        return usual_place();
    }
    if socket == Path::new(NODE_FOLDER).join(castell_kernels::NAME) {
        return Ok(Place::of_node());
    }
    Ok(Place::at(std::path::absolute(socket.with_extension("sessions.sock"))?))
}

/// Where the sessions are that nobody has named.
pub(crate) fn usual_place() -> anyhow::Result<Place> {
    PlaceArgs { socket: None }.place()
}

impl PlaceArgs {
    pub(crate) fn place(&self) -> anyhow::Result<Place> {
        // Within a session, the one that it is of.
        let around =
            || std::env::var_os(castell_agent::SOCKET).filter(|path| !path.is_empty()).map(PathBuf::from);
        match self.socket.clone().or_else(around) {
            Some(socket) => Ok(Place::at(std::path::absolute(socket)?)),
            None => Ok(Place::usual()?),
        }
    }
}

/// `castell session run`.
pub fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let place = args.place.place()?;
    let wanted = Wanted {
        slots: args.slots.unwrap_or(0),
        cpus: args.cpus,
        memory_bytes: args.memory,
        priority: args.priority,
        estimate_ms: args.estimate.map(|time| time.as_millis() as u64),
        with: args.with,
        policy: args.policy.map(|rules| rules.to_string()),
        program: program(&args.command),
        slowdown_max: args.max_slowdown,
        unprobed: args.no_probe,
        ..Wanted::default()
    };
    let asked =
        Asked { command: args.command, wanted, allocation: allocation()?, castell: std::env::current_exe()? };
    let start = || start_agent(&place, asked.allocation.as_ref());
    let code = run_session(&asked, &place, &start, &|text| castell_host::say(text))?;
    Ok(ExitCode::from(code as u8))
}

/// Processors of a node.
pub(super) fn named(text: &str) -> Result<Named, String> {
    let (node, list) = match text.rsplit_once(':') {
        Some((node, list)) => (Some(node.to_owned()), list),
        None => (None, text),
    };
    match parse_list(list) {
        Ok(cpus) if !cpus.is_empty() => Ok(Named { node, cpus }),
        _ => Err("processors are written as 0,2-3, those of a node of a batch job as node2:0,2-3".into()),
    }
}

/// By what a daemon knows the program that is to run, as far as the words tell.
fn program(command: &[OsString]) -> Option<String> {
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Binary::of_command(&words).map(|binary| binary.sha256)
}

/// Starts an agent that outlives whoever starts it: in a session of its own, without a terminal, nobody's child; on the first node of
/// an allocation.
fn start_agent(place: &Place, allocation: Option<&Allocation>) -> io::Result<()> {
    if place.socket.starts_with(NODE_FOLDER) {
        return Err(io::Error::other(format!(
            "the daemon of this node does not answer at {}: whoever looks after the node has to start it",
            place.socket.display()
        )));
    }
    let log = OpenOptions::new().create(true).append(true).open(place.log())?;
    let mut arguments = vec!["session".to_owned(), "agent".into()];
    arguments.extend(place.options());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let agent = match allocation {
        Some(allocation) => allocation.command(&allocation.nodes[0], &arguments),
        None => {
            let mut agent = Command::new(std::env::current_exe()?);
            agent.args(&arguments);
            agent
        }
    };
    let mut command = Command::new("setsid");
    command.arg("--fork").arg(agent.get_program()).args(agent.get_args());
    command.envs(agent.get_envs().filter_map(|(name, value)| Some((name, value?))));
    // It is no part of whatever session this is in.
    command.env(MARK, NO_MARK);
    command.current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("setsid: {status}"))) }
}

/// `castell session agent`.
pub fn agent(args: AgentArgs) -> anyhow::Result<ExitCode> {
    serve(Options {
        place: &args.place.place()?,
        rules: Rules::new(Policy::Wait),
        others: Others::Nobody,
        life: Life::Idle(args.idle),
        allocation: allocation()?.as_ref(),
        watcher: None,
        foresight: None,
        stills: None,
        ready: Box::new(|| {}),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `castell session keeper`.
pub fn keeper() -> anyhow::Result<ExitCode> {
    keep(io::stdin(), io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// `castell session on`: becomes the command that does it.
pub fn on(args: OnArgs) -> anyhow::Result<ExitCode> {
    let Some(allocation) = allocation()? else {
        anyhow::bail!("this is no job of Slurm, and no lab: there are no other nodes");
    };
    let Some(node) = allocation.nodes.iter().find(|node| **node == args.node) else {
        anyhow::bail!(
            "{} is no node of the allocation: these are {}",
            args.node,
            allocation.nodes.join(", ")
        );
    };
    // Words as a remote shell gets them: Open MPI quotes for one.
    let mut command = allocation.start(node, OsStr::new("/bin/sh"));
    let error = command.arg("-c").arg(args.command.join(" ")).exec();
    Err(error).with_context(|| format!("cannot start `{}`", command.get_program().display()))
}

/// `castell session guard`.
pub fn guard(args: GuardArgs) -> anyhow::Result<ExitCode> {
    castell_agent::guard(&args.groups, io::stdin())?;
    Ok(ExitCode::SUCCESS)
}

/// `castell session relay`.
pub fn relay(args: RelayArgs) -> anyhow::Result<ExitCode> {
    castell_agent::relay(&args.place.place()?, args.patience, io::stdin(), io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// `castell session list`.
pub fn list(args: ListArgs) -> anyhow::Result<ExitCode> {
    let place = args.place.place()?;
    let allocation = allocation()?;
    until_found(&place, allocation.as_ref())?;
    let (policy, slowdown_max, sessions) = match ask_for_list(&place, allocation.as_ref())? {
        Some(FromAgent::Sessions { policy, slowdown_max, sessions }) => {
            (Some(policy), slowdown_max, sessions)
        }
        Some(_) => anyhow::bail!("the agent at {} gave another answer than a list", place.socket.display()),
        None => (None, None, Vec::new()),
    };
    if args.json {
        let list = serde_json::to_value(&sessions).context("a list as JSON")?;
        println!(
            "{:#}",
            json!({"policy": policy, "slowdown_max": slowdown_max, "socket": place.socket, "sessions": list})
        );
        return Ok(ExitCode::SUCCESS);
    }
    match policy {
        None => println!("no session, and no agent at {}", place.socket.display()),
        Some(policy) => {
            let most = slowdown_max.map_or_else(String::new, |most| format!(" (max-slowdown {most})"));
            println!("{} under {policy}{most}", counted(sessions.len(), "session"));
            let width = width();
            sessions.iter().for_each(|session| println!("{}", line(session, width)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How many characters fit into a line, where standard output is a terminal.
pub(super) fn width() -> Option<usize> {
    let is_terminal = io::stdout().is_terminal();
    let size = is_terminal.then(ratatui::crossterm::terminal::size).and_then(Result::ok);
    size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// A session in a list. Its command is shortened so that the line has so many characters, but never to fewer than ten.
pub(super) fn line(shown: &Shown, width: Option<usize>) -> String {
    let Shown { session, state, pid, command, .. } = shown;
    let cpus = match (&shown.cpus, &shown.parts[..]) {
        (Some(named), []) => format!("wants {}", print_list(&named.cpus)),
        (None, []) => format!("wants {}", count_processors(shown.slots.into())),
        _ => format!("processors {}", processors(shown)),
    };
    let by = match (shown.stopped, shown.paused) {
        (true, _) => " (stopped by its user)",
        (false, true) => " (stopped, as Ctrl-Z does)",
        (false, false) if shown.awaited => " (its runner is awaited)",
        (false, false) => "",
    };
    let before = format!("{session:>5}  {state:<9}  {cpus:<23} process {pid:<8} ");
    let room = width.map(|width| width.saturating_sub(before.chars().count() + by.len()).max(10));
    let length = command.chars().count();
    match room.filter(|room| length > *room) {
        Some(room) => {
            let start: String = command.chars().take(room - 1).collect();
            format!("{before}{start}…{by}")
        }
        None => format!("{before}{command}{by}"),
    }
}

/// Where it is, with the nodes if that is not here.
pub(crate) fn processors(shown: &Shown) -> String {
    let cpus = |part: &Part| print_list(&part.cpus);
    match &shown.parts[..] {
        [part] if part.node == castell_agent::here() => cpus(part),
        parts => {
            parts.iter().map(|part| format!("{}:{}", part.node, cpus(part))).collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shortened_where_a_line_is_too_long() {
        let shown = serde_json::json!({
            "session": 2, "state": "waiting", "stopped": true, "paused": false, "awaited": false, "for_ms": 7, "slots": 1, "cpus": null,
            "priority": 0, "parts": [], "slowdown": null, "slowdown_max": null, "pinned_by": "cpuset",
            "stopped_by": "freezer", "memory": null, "pid": 5, "user": "alice", "command": "./program of many words é"
        });
        let mut shown: Shown = serde_json::from_value(shown).expect("a session");
        let whole = "    2  waiting    wants 1 processor       process 5        ./program of many words é (stopped by its user)";
        assert_eq!(
            (line(&shown, None), line(&shown, Some(whole.chars().count()))),
            (whole.into(), whole.into())
        );
        let shorter = line(&shown, Some(whole.chars().count() - 1));
        assert_eq!(shorter.chars().count(), whole.chars().count() - 1);
        assert!(shorter.ends_with("./program of many words… (stopped by its user)"), "{shorter}");
        assert!(line(&shown, Some(1)).ends_with("./program… (stopped by its user)"));
        shown.cpus = Some(Named { node: None, cpus: vec![0, 2, 3] });
        assert!(line(&shown, None).contains("  wants 0,2-3             process"));
    }
}
