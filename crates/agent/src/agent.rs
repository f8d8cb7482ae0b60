//! Who decides: what runners and keepers say goes to the policy's scheduler, and what that decides to them.

use crate::keepers::{Keepers, News as Kept};
use crate::machine::Machine;
use crate::serve::News;
use crate::{AgentError, Tree};
use castell_policy::session::protocol::{
    FromAgent, FromKeeper, Part, Shown, ToAgent, ToKeeper, VERSION, Wanted, check_version, encode,
};
use castell_policy::session::{Decision, Event, Placement, Rules, Scheduler, SessionId, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How long runners and keepers may take to stop or move processes before others start nevertheless: they may be stopped themselves.
const DONE_MAX: Duration = Duration::from_secs(10);
/// Who does not read for so long is stopped, or dead.
const SENT_WITHIN: Duration = Duration::from_secs(2);
/// What a session gets to end in when its runner has died.
const GRACE: Duration = Duration::from_secs(5);
/// A session that was spawned ends when no process has joined it by then.
const JOINED_WITHIN: Duration = Duration::from_secs(60);
/// Connections at a time.
const CLIENTS_MAX: usize = 4_096;

struct Client {
    stream: UnixStream,
    greeted: bool,
    session: Option<SessionId>,
    /// What it has joined.
    joined: Option<SessionId>,
}

/// A session beside what the scheduler knows.
struct Live {
    client: u64,
    wanted: Wanted,
    parts: Vec<Part>,
    /// By the policy, as far as its decisions are carried out.
    suspended: bool,
    /// By whoever has stopped its runner.
    paused: bool,
    /// Who has joined it, and until when somebody has to, if it was spawned.
    spawned: Option<Spawned>,
    /// The nodes where something of it may be left, once it has ended.
    leaving: Option<BTreeSet<usize>>,
}

/// A session without a runner.
struct Spawned {
    joined: usize,
    until: Option<Instant>,
}

/// Whose stopping or moving the rest waits for.
struct Awaited {
    session: SessionId,
    runner: bool,
    turn: u64,
    keepers: BTreeSet<usize>,
    until: Instant,
}

pub(crate) struct Agent {
    machine: Machine,
    keepers: Keepers,
    scheduler: Scheduler,
    began: Instant,
    clients: BTreeMap<u64, Client>,
    sessions: BTreeMap<SessionId, Live>,
    next: u64,
    /// Decisions that are not carried out yet, in order.
    todo: VecDeque<Decision>,
    awaited: Option<Awaited>,
    /// The last number that keepers were told to answer with.
    turn: u64,
    post: Sender<News>,
}

impl Agent {
    pub(crate) fn new(machine: Machine, keepers: Keepers, rules: Rules, post: Sender<News>) -> Agent {
        Agent {
            scheduler: Scheduler::new(machine.cluster.clone(), rules),
            machine,
            keepers,
            began: Instant::now(),
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            next: 1,
            todo: VecDeque::new(),
            awaited: None,
            turn: 0,
            post,
        }
    }

    /// Ends what sessions left whose runners have died together with their agent.
    pub(crate) fn clean(&mut self, abandoned: &[String]) {
        for mark in abandoned {
            let end = ToKeeper::End { mark: mark.clone() };
            self.keepers.all().for_each(|node| self.keepers.send(node, &end));
        }
        if self.keepers.all().is_empty() {
            Tree::abandoned().into_iter().for_each(|tree| drop(thread::spawn(move || tree.end(GRACE))));
        }
    }

    /// Until there has been no session for `idle`.
    pub(crate) fn work(&mut self, inbox: &Receiver<News>, idle: Duration) -> Result<(), AgentError> {
        let mut quiet = Instant::now();
        loop {
            if !self.clients.is_empty() || !self.sessions.is_empty() {
                quiet = Instant::now();
            }
            let until = self.awaited.as_ref().map_or(quiet + idle, |awaited| awaited.until);
            let patience = until.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
            match inbox.recv_timeout(patience) {
                Ok(news) => self.hear(news)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.awaited.as_ref().is_some_and(|awaited| Instant::now() >= awaited.until) {
                self.awaited = None;
            }
            self.give_up();
            self.carry_out();
            if self.clients.is_empty() && self.sessions.is_empty() && quiet.elapsed() >= idle {
                return Ok(());
            }
        }
    }

    /// Closes all connections: nobody is told anything any more, and lets everything go on.
    pub(crate) fn let_go(&mut self) {
        for client in self.clients.values() {
            // One that is closed already needs no more.
            let _ = client.stream.shutdown(Shutdown::Both);
        }
        self.keepers.close();
    }

    fn hear(&mut self, news: News) -> Result<(), AgentError> {
        match news {
            News::Came(client, stream) => {
                let _ = stream.set_write_timeout(Some(SENT_WITHIN));
                if self.clients.len() < CLIENTS_MAX {
                    self.clients
                        .insert(client, Client { stream, greeted: false, session: None, joined: None });
                }
            }
            News::Said(client, message) => self.answer(client, message),
            News::Gone(client) => {
                let Some(gone) = self.clients.remove(&client) else { return Ok(()) };
                gone.session.into_iter().for_each(|id| self.leave(id, true));
                gone.joined.into_iter().for_each(|id| self.member_gone(id));
            }
            News::Cleaned(id) => self.ended(id),
            News::Kept(Kept::Said(node, message)) => self.hear_keeper(node, message),
            News::Kept(Kept::Gone(node, attempt)) => self.keeper_died(node, attempt)?,
        }
        Ok(())
    }

    fn member_gone(&mut self, id: SessionId) {
        let spawned = self.sessions.get_mut(&id).and_then(|live| live.spawned.as_mut());
        if let Some(spawned) = spawned {
            spawned.joined -= 1;
            if spawned.joined == 0 {
                self.leave(id, true);
            }
        }
    }

    /// Ends spawned sessions that nobody has joined.
    fn give_up(&mut self) {
        let is_over = |live: &Live| {
            let until = live.spawned.as_ref().and_then(|spawned| spawned.until);
            live.leaving.is_none() && until.is_some_and(|until| Instant::now() >= until)
        };
        let over: Vec<SessionId> =
            self.sessions.iter().filter(|(_, live)| is_over(live)).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.leave(id, true));
    }

    fn hear_keeper(&mut self, node: usize, message: FromKeeper) {
        match message {
            FromKeeper::Hello { .. } => {}
            FromKeeper::Done { turn } => {
                if let Some(awaited) = self.awaited.as_mut().filter(|awaited| awaited.turn == turn) {
                    awaited.keepers.remove(&node);
                }
            }
            FromKeeper::Ended { mark } => {
                let of_it = |(_, live): &(&SessionId, &mut Live)| live.wanted.mark == mark;
                let Some((id, live)) = self.sessions.iter_mut().find(of_it) else { return };
                if let Some(leaving) = &mut live.leaving {
                    leaving.remove(&node);
                    if leaving.is_empty() {
                        let id = *id;
                        self.ended(id);
                    }
                }
            }
        }
    }

    /// Another takes its place, and is told how all sessions have to be; where that cannot be, all are let go on.
    fn keeper_died(&mut self, node: usize, attempt: u64) -> Result<(), AgentError> {
        let known = self.sessions.values().map(|live| live.wanted.mark.clone()).collect();
        if !self.keepers.start_again(node, attempt, known) {
            let node = self.keepers.name(node).to_owned();
            return Err(AgentError::Node { node, why: "it cannot be reached any more".into() });
        }
        if let Some(awaited) = &mut self.awaited {
            awaited.keepers.remove(&node);
        }
        let turn = self.turn;
        for live in self.sessions.values() {
            let message = match live.leaving {
                Some(_) => ToKeeper::End { mark: live.wanted.mark.clone() },
                None => hold(live, self.keepers.name(node), turn),
            };
            self.keepers.send(node, &message);
        }
        Ok(())
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
                if let Some(awaited) = &mut self.awaited
                    && Some(awaited.session) == session
                {
                    awaited.runner = false;
                }
            }
            ToAgent::Paused { paused } => {
                let live = session.and_then(|id| self.sessions.get_mut(&id).map(|live| (id, live)));
                if let Some((id, live)) = live.filter(|(_, live)| live.paused != paused) {
                    live.paused = paused;
                    self.hold(id);
                }
            }
            ToAgent::Join { mark } => {
                let of_it =
                    |(_, live): &(&SessionId, &mut Live)| live.wanted.mark == mark && live.leaving.is_none();
                let found = self.sessions.iter_mut().find(of_it);
                let joined = found.and_then(|(id, live)| {
                    let spawned = live.spawned.as_mut()?;
                    spawned.joined += 1;
                    spawned.until = None;
                    Some(*id)
                });
                known.joined = joined;
                match joined {
                    Some(id) => self.hold(id),
                    None => self.refuse(client, "there is no such session to join".into()),
                }
            }
            ToAgent::Ended {} => {
                known.session = None;
                session.into_iter().for_each(|id| self.leave(id, false));
            }
            ToAgent::List {} => {
                let list = self.list();
                self.tell(client, &list);
            }
        }
    }

    fn run(&mut self, client: u64, mut wanted: Wanted) {
        if wanted.slots == 0 {
            wanted.slots = self.machine.cluster.num_slots() as u32;
        }
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
        if let Some(parent) = &wanted.spawned_by {
            let of_it = |(_, live): &(&SessionId, &Live)| live.wanted.mark == *parent;
            let Some((id, _)) = self.sessions.iter().find(of_it) else {
                return self.refuse(client, "the session that spawns it is none of this agent's".into());
            };
            wanted.with = Some(id.0);
        }
        let id = SessionId(self.next);
        self.next += 1;
        match self.scheduler.handle(self.now(), Event::Request(id, wanted.request())) {
            Err(refused) => self.refuse(client, refused.to_string()),
            Ok(decisions) => {
                let live = Live {
                    client,
                    wanted,
                    parts: Vec::new(),
                    suspended: false,
                    paused: false,
                    spawned: None,
                    leaving: None,
                };
                self.sessions.insert(id, live);
                self.clients.get_mut(&client).expect("it asked").session = Some(id);
                self.todo.extend(decisions);
                if self.scheduler.state(id) == Some(State::Waiting) {
                    self.tell(client, &FromAgent::Waits { session: id.0 });
                }
            }
        }
    }

    /// Tells runners and keepers what to do, up to the first that others have to wait for.
    fn carry_out(&mut self) {
        loop {
            if self.awaited.as_ref().is_some_and(|awaited| awaited.runner || !awaited.keepers.is_empty()) {
                return;
            }
            self.awaited = None;
            let Some(decision) = self.todo.pop_front() else { return };
            let (Decision::Start(id, _)
            | Decision::Suspend(id)
            | Decision::Continue(id)
            | Decision::Repin(id, _)) = decision;
            // It may have ended since that was decided.
            if self.sessions.get(&id).is_none_or(|live| live.leaving.is_some()) {
                continue;
            }
            let (message, await_it) = match decision {
                Decision::Start(_, placement) => {
                    let parts = self.placed(id, &placement);
                    (FromAgent::Start { session: id.0, parts, remote: self.keepers.remote() }, false)
                }
                Decision::Suspend(_) => (FromAgent::Suspend {}, true),
                Decision::Continue(_) => (FromAgent::Continue {}, false),
                Decision::Repin(_, placement) => {
                    (FromAgent::Repin { parts: self.placed(id, &placement) }, true)
                }
            };
            let live = self.sessions.get_mut(&id).expect("it was there");
            match message {
                FromAgent::Suspend {} => live.suspended = true,
                FromAgent::Continue {} => live.suspended = false,
                _ => {}
            }
            let client = live.client;
            let is_spawned = live.wanted.spawned_by.is_some();
            if is_spawned && matches!(message, FromAgent::Start { .. }) {
                live.spawned = Some(Spawned { joined: 0, until: Some(Instant::now() + JOINED_WITHIN) });
                // Who asked for it is not its runner, and may go.
                if let Some(known) = self.clients.get_mut(&client) {
                    known.session = None;
                }
            }
            // Before the runner, which starts what keepers look for.
            self.hold(id);
            self.tell(client, &message);
            if await_it {
                self.awaited = Some(Awaited {
                    session: id,
                    runner: !is_spawned && self.clients.contains_key(&client),
                    turn: self.turn,
                    keepers: self.keepers.all().collect(),
                    until: Instant::now() + DONE_MAX,
                });
            }
        }
    }

    fn placed(&mut self, id: SessionId, placement: &Placement) -> Vec<Part> {
        let parts = self.machine.parts(placement);
        if let Some(live) = self.sessions.get_mut(&id) {
            live.parts.clone_from(&parts);
        }
        parts
    }

    /// Tells all keepers how a session's processes have to be.
    fn hold(&mut self, id: SessionId) {
        self.turn += 1;
        let Some(live) = self.sessions.get(&id) else { return };
        if live.wanted.spawned_by.is_some() && self.keepers.all().is_empty() {
            hold_here(live);
        }
        for node in self.keepers.all() {
            let message = hold(live, self.keepers.name(node), self.turn);
            self.keepers.send(node, &message);
        }
    }

    /// The session is over: what is left of it is ended, and then its processors are free. Without keepers a runner that lives has done
    /// that itself; if it is dead, its processes may not be: they are let go on, and ended.
    fn leave(&mut self, id: SessionId, runner_died: bool) {
        let Some(live) = self.sessions.get_mut(&id) else { return };
        let all: BTreeSet<usize> = self.keepers.all().collect();
        if !all.is_empty() {
            let end = ToKeeper::End { mark: live.wanted.mark.clone() };
            live.leaving = Some(all.clone());
            all.into_iter().for_each(|node| self.keepers.send(node, &end));
        } else if runner_died {
            let tree = Tree::marked(&live.wanted.mark);
            let post = self.post.clone();
            live.leaving = Some(BTreeSet::new());
            thread::spawn(move || {
                tree.end(GRACE);
                // Nobody hears it where the agent has ended meanwhile.
                let _ = post.send(News::Cleaned(id));
            });
        } else {
            self.ended(id);
        }
    }

    fn ended(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        if self.awaited.as_ref().is_some_and(|awaited| awaited.session == id) {
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
            parts: live.parts.clone(),
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
            let _ = known.stream.shutdown(Shutdown::Both);
        }
    }

    /// Milliseconds since the agent began.
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

/// What a keeper hears of a session.
fn hold(live: &Live, node: &str, turn: u64) -> ToKeeper {
    let part = live.parts.iter().find(|part| part.node == node);
    ToKeeper::Hold {
        mark: live.wanted.mark.clone(),
        cpus: part.map_or_else(Vec::new, |part| part.cpus.clone()),
        suspended: live.suspended || live.paused,
        turn,
    }
}

/// The same, where there is no keeper: the processes of a session without a runner.
fn hold_here(live: &Live) {
    let tree = Tree::marked(&live.wanted.mark);
    let cpus: Vec<u32> = live.parts.iter().flat_map(|part| part.cpus.iter().copied()).collect();
    if !cpus.is_empty() {
        tree.pin(&cpus);
    }
    if live.suspended {
        tree.stop();
    } else {
        tree.go_on();
    }
}
