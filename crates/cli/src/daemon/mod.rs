//! `castell daemon`.

mod metrics;
mod power;

use crate::session::{allocation, place_of_daemon, usual_place};
use crate::strategy::source::Source;
use anyhow::{Context as _, bail};
use castell_agent::Place as SessionPlace;
use castell_daemon::learn::Learning;
use castell_daemon::recording::Recording;
use castell_daemon::{Claim, DaemonError, Options, Sessions, expose, serve};
use castell_host::users::{Others, user_named};
use castell_host::{NODE_FOLDER, say, service};
use castell_policy::session::{Rules, Slowdown};
use castell_strategy::{Node, ResourceKind};
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  castell daemon                                      two resources: one core, and all cores
  castell daemon --resource one_core --resource all_cores --resource gpu --strategy plan-ahead
  castell daemon --resource gpu --resource one_core --forbid low:gpu --sensor battery=1
  castell daemon --resource gpu --resource one_core --forbid low:gpu --on-battery low --sensor battery    on a laptop
  castell daemon --strategy mine.luau:limit=9         SIGHUP reads mine.luau anew
  castell daemon --node --session-policy sidestep     as root, for all users of the node
  castell daemon --metrics 127.0.0.1:9464             http://127.0.0.1:9464/metrics tells Prometheus, and others, what it does
  castell daemon --session-policy sidestep            castell session run asks it, whatever --policy is left out
  castell daemon --session-policy overbook --max-slowdown 1.3    programs that slow each other more are not put side by side
  castell daemon --learn off                          castell learned shows what it has learned of sessions otherwise
  castell daemon --learn probe                        programs that it does not know meet a probe, and stand still for moments
  castell daemon --record monday.jsonl                then castell strategy simulate --recorded monday.jsonl

Programs ask it through castell_kernels.h or the Rust library; `castell strategy status` shows what it does, `castell strategy load`
exchanges its strategy, and `castell top` shows all of the node. Started by systemd it takes the socket that is handed over, and says when it
is ready: the units are in packaging/systemd. It may be killed and started again at any moment: programs and sessions go on, and nothing that they wait for is lost.";

/// Keep sessions on this node, and decide which kernels of programs run when and where, until SIGTERM or Ctrl-C
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Serve all users of this node, at /run/castell, where their programs look if they have no daemon of their own; for root
    #[arg(long, conflicts_with_all = ["socket", "allow"])]
    node: bool,
    /// Serve these users, too (all: everybody on this node); whoever starts the daemon alone looks after it
    #[arg(long, value_name = "USER,..", value_delimiter = ',')]
    allow: Vec<String>,
    /// A resource that runs one kernel at a time; again for more (default: one_core and all_cores)
    #[arg(long = "resource", value_name = "NAME", value_parser = word)]
    resources: Vec<String>,
    /// Who decides: one that comes with castell, or a file with a script, with parameters behind a colon
    #[arg(long, value_name = "STRATEGY", default_value = "short-term")]
    strategy: String,
    /// Resources that a level of the governor forbids, as in low:gpu
    #[arg(long, value_name = "LEVEL:RESOURCE,..")]
    forbid: Vec<String>,
    /// The governor's level at the beginning
    #[arg(long, value_name = "LEVEL", default_value = "high", value_parser = word)]
    governor: String,
    /// The governor's level while this machine runs on its battery
    #[arg(long, value_name = "LEVEL")]
    on_battery: Option<String>,
    /// The governor's level while the processors may take less power than they could (powercap)
    #[arg(long, value_name = "LEVEL")]
    capped: Option<String>,
    /// Where the machine says what its power comes from
    #[arg(long, value_name = "FOLDER", default_value = "/sys")]
    sys: PathBuf,
    /// A sensor that strategies may ask, and what it says at the beginning; `castell strategy sensor` says more later. battery without a
    /// value is as full as the machine's is
    #[arg(long, value_name = "NAME=VALUE")]
    sensor: Vec<String>,
    /// How many microseconds it looks out for more after an answer before it sleeps: answers come sooner, and a processor is kept busy
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    spin_us: u64,
    /// Tell what happens as metrics (OpenMetrics) over HTTP, at this address; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Metrics may be read from other machines, too
    #[arg(long, requires = "metrics")]
    metrics_public: bool,
    /// Where it keeps sessions (castell session --socket); none keeps none (default: where castell session looks, or PATH.sessions.sock
    /// beside a --socket of its own)
    #[arg(long, value_name = "PATH|none")]
    sessions: Option<PathBuf>,
    /// The policy of sessions, until somebody wants another one: wait, surpass, overbook, sidestep or give-way
    #[arg(long, value_name = "POLICY", default_value = "wait")]
    session_policy: Rules,
    /// Sessions wait where they, or one beside them, would be slowed down by more than this factor, by what was learned; what `castell session run
    /// --max-slowdown` says goes before it
    #[arg(long, value_name = "FACTOR")]
    max_slowdown: Option<Slowdown>,
    /// Sessions of different users may share processors where the policy has sessions share any; else only those of one user do
    #[arg(long)]
    share_users: bool,
    /// Learn how much the programs of sessions slow each other
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Learn::Watch)]
    learn: Learn,
    /// Where that is kept (default: where castell learned looks)
    #[arg(long, value_name = "FILE")]
    learned: Option<PathBuf>,
    /// Profiles that were kept of programs, from which it foretells what nobody has seen yet [default: those of `castell profile --keep`]
    #[arg(long, value_name = "DIR")]
    profiles: Option<PathBuf>,
    /// Write all that happens into a new file: castell strategy replay decides it once more, simulate --recorded under other strategies
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// How it learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Learn {
    /// Not at all
    Off,
    /// From what runs
    Watch,
    /// From what runs, and from a probe beside programs that nobody was seen beside as yet: for up to a hundredth of its time, and a second in
    /// all, such a program stands still where it runs alone
    Probe,
}

/// Which daemon.
#[derive(clap::Args, Clone, Debug)]
pub struct Place {
    /// The daemon's socket (default: CASTELL_DAEMON, or this user's usual one)
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Place {
    /// The one that this option names, if it names one.
    pub fn at(socket: Option<PathBuf>) -> Place {
        Place { socket }
    }

    /// The socket of a daemon that is to be this user's.
    fn find_own(&self) -> anyhow::Result<PathBuf> {
        let socket = self.find()?;
        match socket.starts_with(NODE_FOLDER) {
            true => Ok(castell_host::runtime_folder()?.join(castell_kernels::NAME)),
            false => Ok(socket),
        }
    }

    /// The socket.
    pub fn find(&self) -> anyhow::Result<PathBuf> {
        self.find_if_any()?
            .with_context(|| format!("{} says that there is no daemon", castell_kernels::VARIABLE))
    }

    /// The socket; none where there shall be no daemon.
    pub fn find_if_any(&self) -> anyhow::Result<Option<PathBuf>> {
        match &self.socket {
            Some(socket) => Ok(Some(socket.clone())),
            None => Ok(castell_kernels::socket()?),
        }
    }
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    // First of all, as long as there is no other thread.
    let handed = handed(service::take_listeners()?)?;
    let socket = match &handed {
        Some((_, path)) => path.clone(),
        None if args.node => node_socket()?,
        None => args.place.find_own()?,
    };
    let others = others(&args)?;
    let sessions = sessions(&args, &socket)?;
    let metrics = match args.metrics {
        Some(address) => {
            let place = sessions.as_ref().map_or_else(usual_place, |sessions| Ok(sessions.place.clone()))?;
            Some((metrics::listen(address, args.metrics_public)?, metrics::Sources::find(&socket, place)?))
        }
        None => None,
    };
    let follower = power::Follower::of(&args)?;
    let source = Source::find(&args.strategy)?;
    let mut claim = Claim::take(&socket).map_err(|error| match error {
        DaemonError::Taken { .. } => anyhow::anyhow!("{error}; another one needs a --socket of its own"),
        error => error.into(),
    })?;
    let (keeper, source) = claim.keeper(node(&args)?, source.found).map_err(anyhow::Error::msg)?;
    let taken_over = claim.taken_over();
    let strategy = keeper.strategy().to_owned();
    let asked = args.strategy.clone();
    let reload = Box::new(move || {
        Source::find(&asked).map(|source| source.found).map_err(|error| format!("{error:#}"))
    });
    let record = |path: &PathBuf| Recording::create(path, keeper.node(), &source);
    let options = Options {
        claim,
        listener: handed.map(|(listener, _)| listener),
        spin: Duration::from_micros(args.spin_us),
        reload: Some(reload),
        recording: args.record.as_ref().map(record).transpose()?,
        sessions,
        others,
    };
    let ready = || {
        say(&format!("the daemon listens at {}; {strategy} decides", socket.display()));
        taken_over.into_iter().for_each(|sentence| say(&sentence));
        if let Some(((listener, address), sources)) = metrics {
            say(&format!("metrics are at http://{address}/metrics"));
            expose(listener, sources.start());
        }
        follower.into_iter().for_each(|follower| follower.start(&socket));
        tell_manager("READY=1");
    };
    let outcome = serve(options, keeper, ready);
    tell_manager("STOPPING=1");
    outcome.map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::from)
}

/// Where a daemon for all users listens.
fn node_socket() -> anyhow::Result<PathBuf> {
    let folder = Path::new(NODE_FOLDER);
    let made = DirBuilder::new().mode(0o755).recursive(true).create(folder);
    made.with_context(|| format!("cannot make {NODE_FOLDER}: --node is for root"))?;
    Ok(folder.join(castell_kernels::NAME))
}

/// Who else is served.
fn others(args: &Args) -> anyhow::Result<Others> {
    if args.node || args.allow.iter().any(|name| name == "all") {
        return Ok(Others::Everybody);
    }
    if args.allow.is_empty() {
        return Ok(Others::Nobody);
    }
    let number = |name: &String| {
        user_named(name).with_context(|| format!("--allow {name}: there is no such user on this node"))
    };
    Ok(Others::These(args.allow.iter().map(number).collect::<anyhow::Result<_>>()?))
}

/// The sessions that it keeps, if any.
fn sessions(args: &Args, socket: &Path) -> anyhow::Result<Option<Sessions>> {
    let place = match &args.sessions {
        Some(path) if path.as_os_str() == "none" => return Ok(None),
        Some(path) => SessionPlace::at(std::path::absolute(path)?),
        None => place_of_daemon(socket)?,
    };
    let allocation = allocation()?;
    if allocation.as_ref().is_some_and(|allocation| !allocation.begins_here()) {
        say("this is not the first node of the allocation, which has the sessions: this daemon keeps none");
        return Ok(None);
    }
    let rules =
        Rules { slowdown_max: args.max_slowdown, share_users: args.share_users, ..args.session_policy };
    Ok(Some(Sessions { place, rules, allocation, learning: learning(args) }))
}

/// What it learns of them. Without a place to keep it, nothing.
fn learning(args: &Args) -> Option<Learning> {
    if args.learn == Learn::Off {
        return None;
    }
    let file = args.learned.clone().map_or_else(|| crate::learned::usual_file(args.node), Ok);
    match file.and_then(|file| Ok(std::path::absolute(file)?)) {
        Ok(file) => {
            Some(Learning { file, probes: args.learn == Learn::Probe, profiles: args.profiles.clone() })
        }
        Err(error) => {
            say(&format!("nothing is learned of what runs here: {error:#}"));
            None
        }
    }
}

/// The socket that a service manager has opened, and where it is.
fn handed(listeners: Vec<UnixListener>) -> anyhow::Result<Option<(UnixListener, PathBuf)>> {
    let count = listeners.len();
    let Some(listener) = listeners.into_iter().next() else { return Ok(None) };
    let path = listener.local_addr().ok().and_then(|address| Some(address.as_pathname()?.to_owned()));
    let Some(path) = path.filter(|_| count == 1) else {
        bail!(
            "a service manager has handed over {count} sockets: a daemon takes one, with a path (ListenStream=)"
        );
    };
    Ok(Some((listener, path)))
}

/// Nothing depends on it but what it waits for.
fn tell_manager(state: &str) {
    if let Err(error) = service::notify(state) {
        say(&format!("{error}"));
    }
}

/// A name as it can be told from others in a line, and stands in metrics.
fn word(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    let is_word = (1..=64).contains(&text.chars().count()) && text.chars().all(is_plain);
    is_word.then(|| text.to_owned()).ok_or_else(|| "a name of up to 64 letters, digits, and _ - .".to_owned())
}

fn node(args: &Args) -> anyhow::Result<Node> {
    let names = match args.resources.is_empty() {
        true => vec!["one_core".into(), "all_cores".into()],
        false => args.resources.clone(),
    };
    let mut node = Node::new(names.into_iter().map(|name| {
        let kind = ResourceKind::of(&name);
        (name, kind)
    }))?;
    for text in &args.forbid {
        let (level, names) = text
            .split_once(':')
            .with_context(|| format!("--forbid {text}: write LEVEL:RESOURCE, as in low:gpu"))?;
        let names: Vec<_> = names.split(',').map(|name| name.trim().to_owned()).collect();
        node.set_forbidden(level, &names).with_context(|| format!("--forbid {text}"))?;
    }
    for text in &args.sensor {
        let said = match text.contains('=') {
            true => reading(text),
            false => power::measured(text, &args.sys).map(|value| (&text[..], value)),
        };
        let (name, value) = said.with_context(|| format!("--sensor {text}"))?;
        node.set_sensor(name, value);
    }
    node.set_governor(&args.governor);
    Ok(node)
}

/// `battery=0.9`.
fn reading(text: &str) -> anyhow::Result<(&str, f64)> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let pair = pair.and_then(|(name, value)| Some((name, value.parse().ok()?)));
    pair.filter(|(_, value): &(_, f64)| value.is_finite()).context("write NAME=NUMBER, as in battery=0.9")
}
