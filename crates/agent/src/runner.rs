//! Around one program: asks the agent for processors, starts the program on them, and does what it is told from then on.

use crate::allocation::here;
use crate::connection::Connection;
use crate::environment::{self, Environment, PROGRAM, SOCKET};
use crate::guard::{Guarded, NO_MEMORY_GROUP};
use crate::tree::{MARK, Tree};
use crate::workers::MAILBOX;
use crate::{AgentError, Allocation, Place};
use castell_host::clock;
use castell_host::descriptor::wait_readable;
use castell_host::process::{Birth, Ended, Pid, Process, adopt_orphans, spawn};
use castell_host::signal::{Arrived, Signals};
use castell_policy::session::protocol::{
    FromAgent, Known, Part, Stood, ToAgent, ToKeeper, VERSION, Wanted, encode,
};
use rustix::process::{Signal, WaitOptions};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, AsRawFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What is left of a session when its program has ended gets so long to end.
const GRACE: Duration = Duration::from_secs(5);
/// When there has been no agent for so long, the runner starts one.
const AGENT_AFTER: Duration = Duration::from_secs(2);
/// When that one has not come for so long, or was killed before this runner has found it, it starts another one.
const START_AGAIN_AFTER: Duration = Duration::from_secs(3);
/// How long it waits for that where the session goes on by itself: there may be one that is in its way, or no memory.
const START_ALONE_AFTER: Duration = Duration::from_secs(10);
/// When there has been none for so long, the session goes on by itself.
pub(crate) const ALONE_AFTER: Duration = Duration::from_secs(10);
/// How often one is looked for until then: the next one may be killed soon, too.
const LOOK_OFTEN: Duration = Duration::from_millis(100);
/// How often an agent is looked for then.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// For so long a session stands still at most, whoever measures something.
const STILL_MAX: Duration = Duration::from_millis(50);
/// What cannot be stopped within that is not worth the wait.
const HELD_WITHIN: Duration = Duration::from_millis(20);

/// A session to run.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What the agent hears of it; command, process and mark are filled in.
    pub wanted: Wanted,
    /// The nodes that sessions may use; none for this host alone.
    pub allocation: Option<Allocation>,
    /// This program, which is started as `castell session guard`.
    pub castell: PathBuf,
}

/// Runs a session to its end, and gives the code that its program ended with; 128 + signal where that is how it, or its waiting,
/// ended. `start_agent` is called where no agent listens; `say` tells people what happens.
///
/// # Errors
/// The agent refuses it, or the program cannot be started.
pub fn run(
    asked: &Asked,
    place: &Place,
    start_agent: &dyn Fn() -> io::Result<()>,
    say: &dyn Fn(&str),
) -> Result<i32, AgentError> {
    let signals = [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGTSTP,
        libc::SIGCONT,
        libc::SIGCHLD,
    ];
    let signals = Signals::take_over(&signals)?;
    adopt_orphans()?;
    let mut tree = Tree::of(std::process::id()).expect("this process lives");
    // On other nodes, and so on all, keepers stop processes one by one.
    let guarded = match asked.allocation {
        None => Guarded::new(&asked.castell, tree.mark()),
        Some(_) => None,
    };
    if let Some(guarded) = &guarded {
        tree = tree.in_groups(guarded.groups.clone());
    }
    let mut wanted = asked.wanted.clone();
    wanted.pid = std::process::id();
    wanted.mark = tree.mark().to_owned();
    wanted.groups = guarded.as_ref().map_or_else(Vec::new, Guarded::folders);
    if wanted.memory_bytes > 0 {
        let limited = guarded.as_ref().ok_or(NO_MEMORY_GROUP.to_owned());
        wanted.unlimited = limited.and_then(|guarded| guarded.limit_memory(wanted.memory_bytes)).err();
    } else if guarded.as_ref().is_none_or(|guarded| guarded.groups.memory.is_none()) {
        // For whoever asks for some later.
        wanted.unlimited = Some(NO_MEMORY_GROUP.to_owned());
    }
    let words: Vec<_> = asked.command.iter().map(|word| word.to_string_lossy()).collect();
    wanted.command = words.join(" ");
    let agent = ask(asked, place, start_agent, &wanted)?;
    let mut runner = Runner {
        asked,
        place,
        start_agent,
        lost: None,
        tree,
        guarded,
        signals,
        wanted,
        agent: Some(agent),
        folder: environment::folder(&place.socket),
        named_socket: place.named.then(|| place.socket.clone()),
        environment: None,
        number: None,
        home: Vec::new(),
        parts: Vec::new(),
        program: None,
        suspended: false,
        code: None,
        say,
    };
    let code = runner.work();
    runner.tree.end(GRACE);
    if let Some(agent) = &mut runner.agent {
        // An agent that is gone does not mind.
        let _ = agent.send(&ToAgent::Ended {});
    }
    code
}

/// Asks for the session; an agent that goes away meanwhile was killed, and the next one is asked.
fn ask(
    asked: &Asked,
    place: &Place,
    start_agent: &dyn Fn() -> io::Result<()>,
    wanted: &Wanted,
) -> Result<Connection, AgentError> {
    let begun = Instant::now();
    loop {
        let connection = Connection::open(place, asked.allocation.as_ref(), start_agent);
        let said = connection.and_then(|mut connection| {
            connection.send(&ToAgent::Run(Box::new(wanted.clone())))?;
            Ok(connection)
        });
        match said {
            Err(AgentError::Gone) if begun.elapsed() < ALONE_AFTER => {
                thread::sleep(Duration::from_millis(10))
            }
            said => return said,
        }
    }
}

struct Runner<'a> {
    asked: &'a Asked,
    place: &'a Place,
    start_agent: &'a dyn Fn() -> io::Result<()>,
    tree: Tree,
    guarded: Option<Guarded>,
    signals: Signals,
    wanted: Wanted,
    /// None when it has gone away: then the next one is looked for.
    agent: Option<Connection>,
    /// Since the agent has gone away, and until the next one has the session in its books.
    lost: Option<Lost>,
    /// For files that the program's environment names.
    folder: PathBuf,
    /// Where those find the agent whom the program starts, if not at the usual place.
    named_socket: Option<PathBuf>,
    environment: Option<Environment>,
    /// As the agent has told it.
    number: Option<u64>,
    /// What it was given.
    home: Vec<Part>,
    /// Where it is.
    parts: Vec<Part>,
    program: Option<Process>,
    suspended: bool,
    /// How it ended.
    code: Option<i32>,
    say: &'a dyn Fn(&str),
}

/// Between two agents.
struct Lost {
    since: Instant,
    /// When the next one is looked for.
    look: Instant,
    pause: Duration,
    /// When this runner has last started one.
    started: Option<Instant>,
    /// The session goes on by itself.
    is_alone: bool,
}

impl Runner<'_> {
    fn work(&mut self) -> Result<i32, AgentError> {
        loop {
            if let Some(code) = self.code {
                return Ok(code);
            }
            let mut watched = vec![self.signals.as_fd()];
            watched.extend(self.agent.as_ref().map(Connection::as_fd));
            let look = self.lost.as_ref().filter(|_| self.agent.is_none()).map(|lost| lost.look);
            let patience = look.map(|look| look.saturating_duration_since(Instant::now()).as_millis() as i32);
            let ready = wait_readable(&watched, patience.map_or(-1, |ms| ms + 1))?;
            while let Some(arrived) = self.signals.next() {
                self.signal(arrived.signal, arrived.from_kernel);
            }
            if ready.get(1) == Some(&true) {
                self.hear()?;
            }
            if self.code.is_none() && self.agent.is_none() {
                self.look_for_agent()?;
            }
        }
    }

    fn hear(&mut self) -> Result<(), AgentError> {
        let Some(agent) = &mut self.agent else { return Ok(()) };
        let mut messages = Vec::new();
        let mut lost = agent.fill().is_err();
        loop {
            match agent.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => {
                    lost = true;
                    break;
                }
            }
        }
        for message in messages {
            self.act(message)?;
        }
        if lost {
            self.lose();
        }
        Ok(())
    }

    /// The agent has gone away: all stays as it is until there is another one.
    fn lose(&mut self) {
        self.agent = None;
        let now = Instant::now();
        let lost =
            Lost { since: now, look: now, pause: Duration::from_millis(10), started: None, is_alone: false };
        self.lost.get_or_insert(lost).look = now;
    }

    fn look_for_agent(&mut self) -> Result<(), AgentError> {
        let Some(lost) = self.lost.as_mut().filter(|lost| Instant::now() >= lost.look) else { return Ok(()) };
        match Connection::existing(self.place, self.asked.allocation.as_ref()) {
            Ok(mut agent) => {
                let return_ = ToAgent::Return {
                    mark: self.tree.mark().to_owned(),
                    started: self.program.is_some(),
                    suspended: self.suspended,
                    paused: false,
                    parts: self.parts.clone(),
                    known: Box::new(Known {
                        session: self.number,
                        wanted: self.wanted.clone(),
                        home: self.home.clone(),
                    }),
                };
                if agent.send(&return_).is_ok() {
                    self.agent = Some(agent);
                    return Ok(());
                }
            }
            Err(AgentError::NoAgent { .. } | AgentError::Unreached { .. } | AgentError::Gone) => {}
            Err(error) => return self.be_alone_for_good(error),
        }
        lost.look = Instant::now() + lost.pause;
        // In an allocation that starts a program on another node.
        let is_cheap = self.asked.allocation.is_none() && !lost.is_alone;
        lost.pause = (2 * lost.pause).min(if is_cheap { LOOK_OFTEN } else { LOOK_AGAIN });
        let is_due = match lost.started {
            None => lost.since.elapsed() >= AGENT_AFTER,
            Some(started) if lost.is_alone => started.elapsed() >= START_ALONE_AFTER,
            Some(started) => started.elapsed() >= START_AGAIN_AFTER,
        };
        if is_due && self.place.is_own() {
            let is_first = lost.started.replace(Instant::now()).is_none();
            if let (Err(error), true) = ((self.start_agent)(), is_first) {
                (self.say)(&format!(
                    "the agent of the sessions is gone, and no other one can be started: {error}"
                ));
            }
        }
        if lost.since.elapsed() >= ALONE_AFTER && !lost.is_alone {
            lost.is_alone = true;
            if self.program.is_none() {
                return Err(AgentError::Gone);
            }
            (self.say)(
                "the agent of the sessions is gone: this one goes on by itself until there is another one",
            );
            self.go_on();
        }
        Ok(())
    }

    /// The next agent will not have the session.
    fn be_alone_for_good(&mut self, reason: AgentError) -> Result<(), AgentError> {
        (self.agent, self.lost) = (None, None);
        if self.program.is_none() {
            return Err(reason);
        }
        (self.say)(&format!("{reason}: this session goes on by itself"));
        self.go_on();
        Ok(())
    }

    fn go_on(&mut self) {
        self.suspended = false;
        self.tree.go_on();
        self.let_go_elsewhere();
    }

    fn act(&mut self, message: FromAgent) -> Result<(), AgentError> {
        match message {
            // The last agent was killed before it had written the session down: it is a new one here.
            FromAgent::Refused { .. } if self.lost.is_some() && self.program.is_none() => {
                self.lost = None;
                let wanted = Box::new(self.wanted.clone());
                self.tell(&ToAgent::Run(wanted));
            }
            FromAgent::Refused { reason } if self.lost.is_some() => {
                self.be_alone_for_good(AgentError::Refused(reason))?;
            }
            FromAgent::Refused { reason } => return Err(AgentError::Refused(reason)),
            FromAgent::Returned { session } => {
                self.number = Some(session);
                if self.lost.take().is_some_and(|lost| lost.is_alone) {
                    (self.say)(&format!("there is an agent again: this is session {session}"));
                }
            }
            FromAgent::LetGo { reason } => self.be_alone_for_good(AgentError::Refused(reason))?,
            FromAgent::Waits { session } => {
                self.number = Some(session);
                (self.say)(&format!("session {session} waits for processors"));
            }
            FromAgent::Start { session, parts, remote } => {
                (self.number, self.home) = (Some(session), parts.clone());
                self.start(parts, &remote)?;
            }
            FromAgent::Suspend {} => {
                self.suspended = true;
                self.tree.stop();
                self.done();
            }
            FromAgent::Continue {} => {
                self.suspended = false;
                self.tree.go_on();
            }
            FromAgent::Repin { parts, home } => {
                (self.parts, self.home) = (parts, home);
                let cpus = self.cpus_here();
                if !cpus.is_empty() {
                    self.tree.pin(&cpus);
                }
                self.done();
            }
            FromAgent::StandStill { longest_us } => {
                let stood = self.stand_still(Duration::from_micros(longest_us));
                self.tell(&ToAgent::Stood(stood));
            }
            // What is left then ends with it.
            FromAgent::End {} if self.program.is_none() => self.code = Some(128 + libc::SIGTERM),
            FromAgent::End {} => self.tree.end(GRACE),
            FromAgent::Hello { .. }
            | FromAgent::Sessions { .. }
            | FromAgent::Ordered { .. }
            | FromAgent::Explained(_) => {}
        }
        Ok(())
    }

    /// Stops the session for a moment. It is this process that lets it go on, whatever happens to who has asked for it.
    fn stand_still(&mut self, longest: Duration) -> Option<Stood> {
        if self.suspended || self.program.is_none() || self.wanted.unprobed {
            return None;
        }
        let begun_ns = clock::now_ns();
        let Some(held) = self.tree.hold(HELD_WITHIN) else {
            // Some of it may have stood.
            let now_ns = clock::now_ns();
            return Some(Stood { from_ns: now_ns, until_ns: now_ns, cost_ns: now_ns - begun_ns });
        };
        let from_ns = clock::now_ns();
        let arrived = self.wait_a_moment(from_ns + longest.min(STILL_MAX).as_nanos() as u64);
        let until_ns = clock::now_ns();
        self.tree.release(held);
        let cost_ns = clock::now_ns() - begun_ns;
        arrived.into_iter().for_each(|arrived| self.signal(arrived.signal, arrived.from_kernel));
        Some(Stood { from_ns, until_ns, cost_ns })
    }

    /// Until then, or until somebody says something, which a child that stands still or has ended does not; gives the signal that it was, if
    /// it was one. An agent that is gone is heard at once.
    fn wait_a_moment(&mut self, until_ns: u64) -> Option<Arrived> {
        loop {
            let left = Duration::from_nanos(until_ns.saturating_sub(clock::now_ns()));
            let mut watched = vec![self.signals.as_fd()];
            watched.extend(self.agent.as_ref().map(Connection::as_fd));
            let ready = wait_readable(&watched, left.as_micros().div_ceil(1000) as i32).unwrap_or_default();
            while let Some(arrived) = self.signals.next() {
                match arrived.signal {
                    libc::SIGCHLD => self.bury(),
                    _ => return Some(arrived),
                }
            }
            if left.is_zero() || self.code.is_some() || ready.get(1) != Some(&false) {
                return None;
            }
        }
    }

    fn start(&mut self, parts: Vec<Part>, remote: &[String]) -> Result<(), AgentError> {
        self.parts = parts;
        if self.asked.allocation.is_some() {
            let made = Environment::of(&self.parts, remote, &self.asked.castell, self.folder.clone());
            self.environment = Some(made.map_err(AgentError::system("write files for launchers"))?);
        }
        // Should this process be killed: the agent ends what is left, and where there is none either, nothing stays stopped.
        let entrances = self.guarded.as_ref().and_then(|guarded| guarded.groups.entrances().ok());
        let cpus = self.cpus_here();
        self.tree.allow(&cpus);
        let birth = Birth {
            cpus,
            parent_death_signal: Some(libc::SIGCONT),
            groups: entrances.iter().flatten().map(AsRawFd::as_raw_fd).collect(),
            ..Birth::default()
        };
        let mut started = spawn(&mut self.command(), &birth);
        if started.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
            && !birth.cpus.is_empty()
        {
            // Its processors were taken away since the agent has looked; it is told where to go when the agent looks again.
            started = spawn(&mut self.command(), &Birth { cpus: Vec::new(), ..birth });
        }
        self.program = Some(started?);
        Ok(())
    }

    /// The program with its arguments and its environment.
    fn command(&self) -> Command {
        let (program, arguments) = self.asked.command.split_first().expect("there is a program");
        let mut command = Command::new(program);
        command.args(arguments).env(MARK, self.tree.mark()).env(PROGRAM, &self.asked.castell);
        if std::env::var_os(MAILBOX).is_none() {
            command.env(MAILBOX, "1");
        }
        if let Some(socket) = &self.named_socket {
            command.env(SOCKET, socket);
        }
        command.envs(self.environment.iter().flat_map(|environment| &environment.variables));
        command
    }

    /// What it has on the node of this process; nothing where that is outside of the allocation.
    fn cpus_here(&self) -> Vec<u32> {
        let here = here();
        self.parts.iter().find(|part| part.node == here).map_or_else(Vec::new, |part| part.cpus.clone())
    }

    /// Keepers let everything go on when their agent is gone; where one was killed with it, a new one does so.
    fn let_go_elsewhere(&self) {
        let Some(allocation) = &self.asked.allocation else { return };
        for part in &self.parts {
            let hello = ToKeeper::Hello { version: VERSION, known: Vec::new() };
            let Ok((mut keeper, mut stream)) =
                allocation.talk_to(&part.node, &["session", "keeper"], Stdio::inherit())
            else {
                continue;
            };
            let _ = stream.write_all(&encode(&hello)).and_then(|()| stream.shutdown(Shutdown::Write));
            // It ends with its input.
            thread::spawn(move || keeper.wait().map(|_| drop(stream)));
        }
    }

    fn done(&mut self) {
        self.tell(&ToAgent::Done {});
    }

    fn tell(&mut self, message: &ToAgent) {
        if let Some(agent) = &mut self.agent {
            // Where it is gone, that is noticed when it is next heard.
            let _ = agent.send(message);
        }
    }

    fn signal(&mut self, signal: i32, from_terminal: bool) {
        match signal {
            libc::SIGCHLD => self.bury(),
            libc::SIGTSTP => {
                self.tell(&ToAgent::Paused { paused: true });
                self.tree.stop();
                // Here this process stands still until somebody continues it.
                let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
                self.awake();
            }
            libc::SIGCONT => self.awake(),
            _ if self.program.is_none() => self.code = Some(128 + signal),
            // The program has it, too; what is stopped goes on to take it.
            _ if from_terminal => self.tree.go_on(),
            _ => self.tree.signal(signal),
        }
    }

    /// Somebody has continued this process.
    fn awake(&mut self) {
        self.tell(&ToAgent::Paused { paused: false });
        if !self.suspended {
            self.tree.go_on();
        }
    }

    /// Takes notice of children that have ended, adopted ones included.
    fn bury(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let is_program =
                self.program.as_ref().map(Process::pid) == Pid::from_raw(pid.as_raw_nonzero().get());
            if is_program && (status.exited() || status.signaled()) {
                self.code = Some(Ended::from_wait_status(status.as_raw()).code());
            }
        }
    }
}
