//! The agent: one thread hears each runner, one decides.

use crate::machine::Machine;
use crate::{AgentError, Place, Tree};
use castell_policy::session::protocol::{
    FromAgent, Lines, Shown, ToAgent, VERSION, Wanted, check_version, decode, encode,
};
use castell_policy::session::{Decision, Event, Placement, Rules, Scheduler, SessionId, State};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a runner may take to stop or move its processes before others start nevertheless: it may be stopped itself.
const DONE_MAX: Duration = Duration::from_secs(2);
/// What a session gets to end in when its runner has died.
const GRACE: Duration = Duration::from_secs(5);
/// Connections at a time.
const CLIENTS_MAX: usize = 4_096;

/// Keeps the sessions of a place until none has been there for `idle`. Returns at once where another agent does that already.
///
/// # Errors
/// The socket cannot be had.
pub fn serve(place: &Place, rules: Rules, idle: Duration) -> Result<(), AgentError> {
    let lock = File::create(place.lock()).map_err(AgentError::system("make the agent's lock"))?;
    match rustix::fs::flock(lock.as_fd(), rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(()),
        result => result.map_err(|error| AgentError::system("lock the agent's place")(error.into()))?,
    }
    // Left by an agent that died: the lock says that none lives.
    let _ = fs::remove_file(&place.socket);
    let listener = UnixListener::bind(&place.socket)
        .map_err(AgentError::system(format!("listen at {}", place.socket.display())))?;
    let (post, inbox) = channel();
    let news = post.clone();
    thread::spawn(move || listen(&listener, &news));
    for tree in Tree::abandoned() {
        thread::spawn(move || tree.end(GRACE));
    }
    let machine = Machine::here();
    let scheduler = Scheduler::new(machine.cluster.clone(), rules);
    let mut agent = Agent {
        machine,
        scheduler,
        began: Instant::now(),
        clients: BTreeMap::new(),
        sessions: BTreeMap::new(),
        next: 1,
        todo: VecDeque::new(),
        awaited: None,
        post,
    };
    agent.work(&inbox, idle);
    let _ = fs::remove_file(&place.socket);
    Ok(())
}

/// What the deciding thread hears.
enum News {
    Came(u64, UnixStream),
    Said(u64, ToAgent),
    /// The connection is closed, or speaks another language.
    Gone(u64),
    /// Nothing is left of a session whose runner died.
    Cleaned(SessionId),
}

fn listen(listener: &UnixListener, news: &Sender<News>) {
    for (client, stream) in (0..).zip(listener.incoming()) {
        let Ok(stream) = stream else { continue };
        let own = castell_host::descriptor::own_user();
        if castell_host::descriptor::peer_user(stream.as_fd()).ok() != Some(own) {
            continue;
        }
        let Ok(reading) = stream.try_clone() else { continue };
        let news = news.clone();
        if news.send(News::Came(client, stream)).is_err() {
            return;
        }
        thread::spawn(move || {
            // Whatever the reason: the connection is of no more use.
            let _ = hear(client, reading, &news);
            let _ = news.send(News::Gone(client));
        });
    }
}

fn hear(client: u64, mut stream: UnixStream, news: &Sender<News>) -> Result<(), AgentError> {
    let mut lines = Lines::default();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes).map_err(AgentError::system("hear a runner"))?;
        if count == 0 {
            return Ok(());
        }
        lines.push(&bytes[..count])?;
        while let Some(line) = lines.next_line() {
            if news.send(News::Said(client, decode(&line)?)).is_err() {
                return Ok(());
            }
        }
    }
}

struct Client {
    stream: UnixStream,
    greeted: bool,
    session: Option<SessionId>,
}

/// A session beside what the scheduler knows.
struct Live {
    client: u64,
    wanted: Wanted,
    tree: Option<Tree>,
    cpus: Vec<u32>,
}

struct Agent {
    machine: Machine,
    scheduler: Scheduler,
    began: Instant,
    clients: BTreeMap<u64, Client>,
    sessions: BTreeMap<SessionId, Live>,
    next: u64,
    /// Decisions that are not carried out yet, in order.
    todo: VecDeque<Decision>,
    /// Whose stopping or moving the rest waits for, and until when.
    awaited: Option<(SessionId, Instant)>,
    post: Sender<News>,
}

impl Agent {
    fn work(&mut self, inbox: &Receiver<News>, idle: Duration) {
        let mut quiet = Instant::now();
        loop {
            if !self.clients.is_empty() || !self.sessions.is_empty() {
                quiet = Instant::now();
            }
            let until = self.awaited.map_or(quiet + idle, |(_, until)| until);
            let patience = until.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
            match inbox.recv_timeout(patience) {
                Ok(news) => self.hear(news),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.awaited.is_some_and(|(_, until)| Instant::now() >= until) {
                self.awaited = None;
            }
            self.carry_out();
            if self.clients.is_empty() && self.sessions.is_empty() && quiet.elapsed() >= idle {
                return;
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Came(client, stream) => {
                // Who does not read for so long is stopped, or dead.
                let _ = stream.set_write_timeout(Some(DONE_MAX));
                if self.clients.len() < CLIENTS_MAX {
                    self.clients.insert(client, Client { stream, greeted: false, session: None });
                }
            }
            News::Said(client, message) => self.answer(client, message),
            News::Gone(client) => {
                let Some(Client { session: Some(id), .. }) = self.clients.remove(&client) else { return };
                self.runner_died(id);
            }
            News::Cleaned(id) => self.ended(id),
        }
    }

    fn answer(&mut self, client: u64, message: ToAgent) {
        let Some(known) = self.clients.get_mut(&client) else { return };
        let session = known.session;
        match message {
            ToAgent::Hello { version } => {
                known.greeted = true;
                match check_version(version) {
                    Ok(()) => self.tell(client, &FromAgent::Hello { version: VERSION }),
                    Err(error) => self.refuse(client, error.to_string()),
                }
            }
            _ if !known.greeted => self.refuse(client, "a greeting comes first".into()),
            ToAgent::Run(_) if session.is_some() => {
                self.refuse(client, "a connection has one session".into())
            }
            ToAgent::Run(wanted) => self.run(client, *wanted),
            ToAgent::Done {} => {
                if self.awaited.is_some_and(|(awaited, _)| Some(awaited) == session) {
                    self.awaited = None;
                }
            }
            ToAgent::Ended {} => {
                known.session = None;
                session.into_iter().for_each(|id| self.ended(id));
            }
            ToAgent::List {} => {
                let list = self.list();
                self.tell(client, &list);
            }
        }
    }

    fn run(&mut self, client: u64, wanted: Wanted) {
        if let Some(name) = &wanted.policy {
            match name.parse::<Rules>() {
                Err(error) => return self.refuse(client, error.to_string()),
                Ok(rules) if rules == *self.scheduler.rules() => {}
                Ok(rules) if self.sessions.is_empty() => {
                    self.scheduler = Scheduler::new(self.machine.cluster.clone(), rules);
                }
                Ok(_) => {
                    let there = self.scheduler.rules();
                    let text = format!(
                        "the sessions here run under {there}: leave --policy out, or wait until they have ended"
                    );
                    return self.refuse(client, text);
                }
            }
        }
        let id = SessionId(self.next);
        self.next += 1;
        let tree = Tree::of(wanted.pid);
        match self.scheduler.handle(self.now(), Event::Request(id, wanted.request())) {
            Err(refused) => self.refuse(client, refused.to_string()),
            Ok(decisions) => {
                self.sessions.insert(id, Live { client, wanted, tree, cpus: Vec::new() });
                self.clients.get_mut(&client).expect("it asked").session = Some(id);
                self.todo.extend(decisions);
                if self.scheduler.state(id) == Some(State::Waiting) {
                    self.tell(client, &FromAgent::Waits { session: id.0 });
                }
            }
        }
    }

    /// Tells runners what to do, up to the first that others have to wait for.
    fn carry_out(&mut self) {
        while self.awaited.is_none() {
            let Some(decision) = self.todo.pop_front() else { return };
            let (id, message, await_it) = match decision {
                Decision::Start(id, placement) => {
                    let cpus = self.pinned(id, &placement);
                    (id, FromAgent::Start { session: id.0, cpus }, false)
                }
                Decision::Suspend(id) => (id, FromAgent::Suspend {}, true),
                Decision::Continue(id) => (id, FromAgent::Continue {}, false),
                Decision::Repin(id, placement) => {
                    let cpus = self.pinned(id, &placement);
                    (id, FromAgent::Repin { cpus }, true)
                }
            };
            // It may have ended since that was decided.
            let Some(live) = self.sessions.get(&id) else { continue };
            let client = live.client;
            self.tell(client, &message);
            if await_it && self.clients.contains_key(&client) {
                self.awaited = Some((id, Instant::now() + DONE_MAX));
            }
        }
    }

    fn pinned(&mut self, id: SessionId, placement: &Placement) -> Vec<u32> {
        let cpus = self.machine.cpus(placement);
        if let Some(live) = self.sessions.get_mut(&id) {
            live.cpus.clone_from(&cpus);
        }
        cpus
    }

    /// The runner is dead, its processes may not be: they are let go on, and ended.
    fn runner_died(&mut self, id: SessionId) {
        let post = self.post.clone();
        let tree = self.sessions.get(&id).and_then(|live| live.tree.clone());
        thread::spawn(move || {
            tree.iter().for_each(|tree| tree.end(GRACE));
            // Nobody hears it where the agent has ended meanwhile.
            let _ = post.send(News::Cleaned(id));
        });
    }

    fn ended(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        if self.awaited.is_some_and(|(awaited, _)| awaited == id) {
            self.awaited = None;
        }
        if let Ok(decisions) = self.scheduler.handle(self.now(), Event::End(id)) {
            self.todo.extend(decisions);
        }
    }

    fn list(&self) -> FromAgent {
        let shown = |(id, live): (&SessionId, &Live)| Shown {
            session: id.0,
            state: match self.scheduler.state(*id) {
                Some(State::Waiting) | None => "waiting",
                Some(State::Running) => "running",
                Some(State::Suspended) => "suspended",
            }
            .into(),
            cpus: live.cpus.clone(),
            pid: live.wanted.pid,
            command: live.wanted.command.clone(),
        };
        FromAgent::Sessions {
            policy: self.scheduler.rules().to_string(),
            sessions: self.sessions.iter().map(shown).collect(),
        }
    }

    fn refuse(&mut self, client: u64, reason: String) {
        self.tell(client, &FromAgent::Refused { reason });
    }

    /// A runner that cannot be told has died, and the thread that hears it says so.
    fn tell(&mut self, client: u64, message: &FromAgent) {
        if let Some(known) = self.clients.get_mut(&client)
            && let Err(error) = known.stream.write_all(&encode(message))
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            eprintln!("castell: cannot tell runner {client}: {error}");
            let _ = known.stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Milliseconds since the agent began.
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}
