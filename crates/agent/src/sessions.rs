//! All sessions: what the policy's scheduler decides about them goes to their runners and to the keepers.

mod adopt;
mod foresee;
mod kept;
mod restore;
mod steer;
mod still;

use self::restore::Adopting;
pub(crate) use self::restore::{Books, Reported};
use self::steer::Promised;
use crate::clients::Clients;
use crate::guard::{end_left, groups_in, remove, remove_left};
use crate::keepers::Keepers;
use crate::machine::{Machine, Node};
use crate::news::{Answer, Marks, News};
use crate::orders::Orders;
use crate::{AgentError, Foresight, Tree, here};
use castell_host::clock;
use castell_host::descriptor::{Peer, own_user};
use castell_host::topology::{Processors, print_list};
use castell_host::users::name_of;
use castell_policy::session::protocol::{FromAgent, Part, ToKeeper, Wanted};
use castell_policy::session::{Decision, Event, Request, Rules, Scheduler, SessionId, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

/// What a session gets to end in when its runner has died.
const GRACE: Duration = Duration::from_secs(5);
/// A session that was spawned ends when no process has joined it by then.
const JOINED_WITHIN: Duration = Duration::from_secs(60);
/// So often it is looked whether spawned processes have stayed where they were pinned to: a library that looks at the processors when its
/// program starts (hwloc, in most MPIs) binds itself to each, and then to what it had before, which may be from before it was pinned.
const LOOKS: u32 = 10;
/// How often it is looked which processors there are.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A session beside what the scheduler knows.
struct Live {
    /// Its runner, or who has asked for it; none where another agent had started it, and it has not come back as yet.
    client: Option<u64>,
    /// What it has said when it came back.
    reported: Option<Reported>,
    /// When this agent came to know of it.
    missing_since: Instant,
    wanted: Wanted,
    /// Whose it is.
    user: u32,
    parts: Vec<Part>,
    /// By the policy, as far as its decisions are carried out.
    suspended: bool,
    /// By whoever has stopped its runner.
    paused: bool,
    /// Who has joined it, and until when somebody has to, if it was spawned.
    spawned: Option<Spawned>,
    /// The nodes where something of it may be left, once it has ended.
    leaving: Option<BTreeSet<usize>>,
    /// The folder of a cpuset that an agent has made for it.
    kept: Option<String>,
    /// Its cpuset is another one than it should be, and that was noticed.
    has_drifted: bool,
}

impl Live {
    /// Whether this is one who does with it as he likes.
    fn is_of(&self, peer: Peer) -> bool {
        peer.user == self.user || peer.user == own_user()
    }

    /// Its processors, wherever they are.
    fn cpus(&self) -> Vec<u32> {
        self.parts.iter().flat_map(|part| part.cpus.iter().copied()).collect()
    }

    /// Whether it is not to be stopped for a measurement.
    fn is_unprobed(&self) -> bool {
        self.user != own_user() || self.wanted.unprobed || self.wanted.spawned_by.is_some()
    }

    /// Whether its runner has not come back as yet.
    fn is_awaited(&self) -> bool {
        self.client.is_none() && self.leaving.is_none() && self.wanted.spawned_by.is_none()
    }

    /// What it runs, as far as this is one who is told.
    fn command_for(&self, peer: Peer) -> String {
        match self.is_of(peer) {
            true => self.wanted.command.clone(),
            false => format!("(of {})", name_of(self.user)),
        }
    }
}

/// A session without a runner.
struct Spawned {
    joined: usize,
    until: Option<Instant>,
    /// How often it is still looked whether its processes are where they were pinned to.
    looks: u32,
}

impl Spawned {
    /// Nobody has joined it.
    fn unjoined() -> Spawned {
        Spawned { joined: 0, until: Some(Instant::now() + JOINED_WITHIN), looks: 0 }
    }
}

pub(crate) struct Sessions {
    machine: Machine,
    pub(crate) keepers: Keepers,
    pub(crate) clients: Clients,
    pub(crate) orders: Orders,
    scheduler: Scheduler,
    live: BTreeMap<SessionId, Live>,
    next: u64,
    /// The last number that keepers were told to answer with.
    turn: u64,
    promised: Vec<Promised>,
    post: Sender<News>,
    /// When it was last asked which processors there are.
    looked: Instant,
    foresight: Option<Box<dyn Foresight>>,
    /// What of it the scheduler knows.
    foreseen: Option<u64>,
    /// Who wants to know for how long sessions have stood still.
    stills: BTreeMap<SessionId, Answer>,
    /// Where the books of the last agent were of no use.
    adopting: Option<Adopting>,
}

impl Sessions {
    pub(crate) fn new(
        machine: Machine,
        keepers: Keepers,
        rules: Rules,
        post: Sender<News>,
        foresight: Option<Box<dyn Foresight>>,
    ) -> Sessions {
        Sessions {
            scheduler: Scheduler::new(machine.cluster.clone(), rules),
            machine,
            keepers,
            clients: Clients::default(),
            orders: Orders::default(),
            live: BTreeMap::new(),
            next: 1,
            turn: 0,
            promised: Vec::new(),
            post,
            looked: Instant::now(),
            foresight,
            foreseen: None,
            stills: BTreeMap::new(),
            adopting: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Somebody wants to run one.
    pub(crate) fn run(&mut self, client: u64, wanted: Wanted) {
        match self.admit(client, wanted) {
            Err(reason) => self.clients.refuse(client, reason),
            Ok(id) if self.scheduler.state(id) == Some(State::Waiting) => {
                self.clients.tell(client, &FromAgent::Waits { session: id.0 });
            }
            Ok(_) => {}
        }
    }

    fn admit(&mut self, client: u64, mut wanted: Wanted) -> Result<SessionId, String> {
        let peer = self.clients.get_mut(client).expect("it asked").peer;
        self.check_owner(peer, &mut wanted)?;
        self.look_at_processors();
        match &wanted.cpus {
            Some(named) => wanted.slots = named.cpus.len() as u32,
            None if wanted.slots == 0 => wanted.slots = self.machine.online(),
            None => {}
        }
        if let Some(name) = &wanted.policy {
            self.expect_policy(name)?;
        }
        if let Some(parent) = &wanted.spawned_by {
            let of_it = |(_, live): &(&SessionId, &Live)| live.wanted.mark == *parent;
            let (id, _) =
                self.live.iter().find(of_it).ok_or("the session that spawns it is none of this agent's")?;
            wanted.with = Some(id.0);
        }
        if wanted.program.as_deref().is_some_and(|program| !foresee::is_hash(program)) {
            return Err("a program is known by the SHA-256 of its file".into());
        }
        self.foresee(Some(&wanted));
        let id = SessionId(self.next);
        self.next += 1;
        let request = Event::Request(id, self.request(&wanted, peer.user)?);
        let decisions = self.scheduler.handle(self.now(), request).map_err(|refused| refused.to_string())?;
        let live = Live {
            client: Some(client),
            reported: None,
            missing_since: Instant::now(),
            user: peer.user,
            wanted,
            parts: Vec::new(),
            suspended: false,
            paused: false,
            spawned: None,
            leaving: None,
            kept: None,
            has_drifted: false,
        };
        self.live.insert(id, live);
        self.clients.get_mut(client).expect("it asked").session = Some(id);
        self.orders.add(decisions);
        Ok(id)
    }

    /// What the scheduler hears of a session.
    fn request(&self, wanted: &Wanted, user: u32) -> Result<Request, String> {
        let named = wanted.cpus.as_ref().map(|named| self.machine.named(named)).transpose()?;
        Ok(Request { user, ..wanted.request(named.unwrap_or_default()) })
    }

    /// Processes are found, stopped and ended by a session's mark: what other users say of theirs has to be true.
    fn check_owner(&self, peer: Peer, wanted: &mut Wanted) -> Result<(), String> {
        if peer.user == own_user() {
            return Ok(());
        }
        wanted.pid = peer.pid;
        let own = Tree::of(peer.pid)
            .ok_or("its process is in another PID namespace, and cannot be seen from here")?;
        let is_its = match &wanted.spawned_by {
            None => wanted.mark == own.mark(),
            Some(parent) => {
                let of_it = |live: &&Live| live.wanted.mark == *parent && live.user == peer.user;
                let number = own.mark().split('@').next().unwrap_or_default();
                self.live.values().any(|live| of_it(&live)) && wanted.mark == format!("{parent}/{number}")
            }
        };
        match &wanted.policy {
            _ if !is_its => Err("the mark is not that of the process that asks".into()),
            Some(name) if name.parse().map(|rules| self.as_here(rules)) != Ok(*self.scheduler.rules()) => {
                Err(format!(
                    "the sessions of this node run under {}, and only {} changes that: leave --policy out",
                    self.scheduler.rules(),
                    name_of(own_user()),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Looks which processors there are, and whether groups are left of runners that have died before they asked for anything, if that
    /// was not done just now.
    pub(crate) fn look_now_and_then(&mut self) {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.look_at_processors();
            if self.keepers.all().is_empty() {
                self.keep_spawned();
                remove_left();
            }
        }
    }

    /// Processors come and go (hot-plugging, the control group of whoever keeps sessions): the first session has those that there are.
    /// Whose are taken away later, shares what is left until they are back, and nobody is given any of them; more than there were at the
    /// first session are given to nobody. Processors of other nodes are their keepers' affair.
    fn look_at_processors(&mut self) {
        self.looked = Instant::now();
        if !self.keepers.all().is_empty() {
            return;
        }
        if !self.live.is_empty() {
            let usable = Processors::usable().cpus;
            self.use_only(&usable);
            self.repin_who_has_drifted(&usable);
            return;
        }
        let now = vec![Node::here()];
        if (now != self.machine.nodes || !self.machine.gone().is_empty())
            && let Some(machine) = Machine::new(now)
        {
            self.scheduler = Scheduler::new(machine.cluster.clone(), *self.scheduler.rules());
            self.machine = machine;
        }
    }

    fn use_only(&mut self, usable: &[u32]) {
        let Some(offline) = self.machine.only(usable) else { return };
        castell_host::say(&match &self.machine.gone()[..] {
            [] => "all processors of the sessions are back".to_owned(),
            gone => format!(
                "processors {} were taken away: sessions on them share the others, and nobody is given them",
                print_list(gone)
            ),
        });
        let decisions = self.scheduler.handle(self.now(), Event::Offline(offline));
        let mut decisions = decisions.expect("slots of this cluster");
        for (id, live) in self.live.iter().filter(|(_, live)| !live.parts.is_empty()) {
            let Some(pinned) = self.scheduler.pinned(*id) else { continue };
            let moves = |decision: &Decision| matches!(decision, Decision::Repin(other, _) if other == id);
            if self.machine.parts(pinned) != live.parts && !decisions.iter().any(moves) {
                decisions.push(Decision::Repin(*id, pinned.clone()));
            }
        }
        self.orders.add(decisions);
    }

    /// The same rules with what no policy changes.
    fn as_here(&self, rules: Rules) -> Rules {
        let Rules { slowdown_max, share_users, .. } = *self.scheduler.rules();
        Rules { slowdown_max, share_users, ..rules }
    }

    /// The first session chooses the policy.
    fn expect_policy(&mut self, name: &str) -> Result<(), String> {
        let rules = self.as_here(name.parse::<Rules>().map_err(|error| error.to_string())?);
        let there = self.scheduler.rules();
        if rules != *there {
            if !self.live.is_empty() {
                return Err(format!(
                    "the sessions here run under {there}: leave --policy out, or change it for all with `castell session set --policy {rules}`"
                ));
            }
            self.scheduler = Scheduler::new(self.machine.cluster.clone(), rules);
        }
        Ok(())
    }

    /// Tells runners and keepers what to do, up to the first that others have to wait for.
    pub(crate) fn carry_out(&mut self) {
        while let Some(decision) = self.orders.next() {
            let (Decision::Start(id, _)
            | Decision::Suspend(id)
            | Decision::Continue(id)
            | Decision::Repin(id, _)) = decision;
            // It may have ended since that was decided.
            let Some(live) = self.live.get_mut(&id).filter(|live| live.leaving.is_none()) else { continue };
            let (message, await_it) = match decision {
                Decision::Start(_, placement) => {
                    live.parts = self.machine.parts(&placement);
                    live.keep_on_parts();
                    let (parts, remote) = (live.parts.clone(), self.keepers.remote());
                    (FromAgent::Start { session: id.0, parts, remote }, false)
                }
                Decision::Suspend(_) => {
                    live.suspended = true;
                    (FromAgent::Suspend {}, true)
                }
                Decision::Continue(_) => {
                    live.suspended = false;
                    (FromAgent::Continue {}, false)
                }
                Decision::Repin(_, placement) => {
                    live.parts = self.machine.parts(&placement);
                    live.keep_on_parts();
                    let home = self.scheduler.home(id).unwrap_or(&placement);
                    let home = self.machine.all_parts(home);
                    (FromAgent::Repin { parts: live.parts.clone(), home }, true)
                }
            };
            let client = live.client;
            let is_spawned = live.wanted.spawned_by.is_some();
            if is_spawned && matches!(message, FromAgent::Start { .. }) {
                live.spawned = Some(Spawned::unjoined());
                // Who asked for it is not its runner, and may go.
                if let Some(known) = client.and_then(|client| self.clients.get_mut(client)) {
                    known.session = None;
                }
            }
            // Before the runner, which starts what keepers look for.
            self.hold(id);
            client.into_iter().for_each(|client| self.clients.tell(client, &message));
            if await_it {
                let runner = !is_spawned && client.is_some_and(|client| self.clients.is_there(client));
                self.orders.wait_for(id, runner, self.turn, self.keepers.all().collect());
            }
        }
        self.keep_promises();
    }

    /// Tells all keepers how a session's processes have to be.
    fn hold(&mut self, id: SessionId) {
        self.turn += 1;
        let Some(live) = self.live.get_mut(&id) else { return };
        if live.wanted.spawned_by.is_some() && self.keepers.all().is_empty() {
            hold_here(live);
            live.spawned.iter_mut().for_each(|spawned| spawned.looks = LOOKS);
        }
        for node in self.keepers.all() {
            let message = hold(live, self.keepers.name(node), self.turn);
            self.keepers.send(node, &message);
        }
    }

    /// Somebody has stopped a session's runner, or lets it go on.
    pub(crate) fn pause(&mut self, id: SessionId, paused: bool) {
        if let Some(live) = self.live.get_mut(&id).filter(|live| live.paused != paused) {
            live.paused = paused;
            self.hold(id);
        }
    }

    /// A process joins a session that was spawned, which this gives if there is one.
    pub(crate) fn join(&mut self, mark: &str, peer: Peer) -> Option<SessionId> {
        let of_it = |(_, live): &(&SessionId, &mut Live)| {
            live.wanted.mark == mark && live.leaving.is_none() && live.is_of(peer)
        };
        let (id, live) = self.live.iter_mut().find(of_it)?;
        let spawned = live.spawned.as_mut()?;
        spawned.joined += 1;
        spawned.until = None;
        let id = *id;
        self.hold(id);
        Some(id)
    }

    /// The same process has ended; the session has with its last one.
    pub(crate) fn part(&mut self, id: SessionId) {
        let spawned = self.live.get_mut(&id).and_then(|live| live.spawned.as_mut());
        if let Some(spawned) = spawned {
            spawned.joined -= 1;
            if spawned.joined == 0 {
                self.leave(id, true);
            }
        }
    }

    /// Ends spawned sessions that nobody has joined.
    pub(crate) fn give_up(&mut self) {
        let is_over = |live: &Live| {
            let until = live.spawned.as_ref().and_then(|spawned| spawned.until);
            live.leaving.is_none() && until.is_some_and(|until| Instant::now() >= until)
        };
        let over: Vec<SessionId> =
            self.live.iter().filter(|(_, live)| is_over(live)).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.leave(id, true));
    }

    /// The session is over: what is left of it is ended, and then its processors are free. Without keepers a runner that lives has done
    /// that itself; if it is dead, its processes may not be: they are let go on, and ended.
    pub(crate) fn leave(&mut self, id: SessionId, runner_died: bool) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let all: BTreeSet<usize> = self.keepers.all().collect();
        if !all.is_empty() {
            let end = ToKeeper::End { mark: live.wanted.mark.clone() };
            live.leaving = Some(all.clone());
            all.into_iter().for_each(|node| self.keepers.send(node, &end));
        } else if runner_died || live.kept.is_some() {
            let (mark, groups) = (live.wanted.mark.clone(), live.groups());
            let post = self.post.clone();
            live.leaving = Some(BTreeSet::new());
            thread::spawn(move || {
                match runner_died {
                    true => end_left(&mark, &groups, GRACE),
                    // It is gone itself in a moment.
                    false => remove(&groups_in(&mark, &groups)),
                }
                // Nobody hears it where the agent has ended meanwhile.
                let _ = post.send(News::Cleaned(id));
            });
        } else {
            self.ended(id);
        }
    }

    /// Nothing of it is left on a node.
    pub(crate) fn left(&mut self, mark: &str, node: usize) {
        let of_it = |(_, live): &(&SessionId, &mut Live)| live.wanted.mark == mark;
        let Some((id, live)) = self.live.iter_mut().find(of_it) else { return };
        if let Some(leaving) = &mut live.leaving {
            leaving.remove(&node);
            if leaving.is_empty() {
                let id = *id;
                self.ended(id);
            }
        }
    }

    /// Nothing of it is left anywhere.
    pub(crate) fn ended(&mut self, id: SessionId) {
        self.live.remove(&id);
        self.stills.remove(&id);
        self.orders.ended(id);
        if let Ok(decisions) = self.scheduler.handle(self.now(), Event::End(id)) {
            self.orders.add(decisions);
        }
    }

    /// Ends what sessions left whose runners have died together with their agent.
    pub(crate) fn clean(&mut self, abandoned: &[String]) {
        for mark in abandoned {
            let end = ToKeeper::End { mark: mark.clone() };
            self.keepers.all().for_each(|node| self.keepers.send(node, &end));
        }
        if self.keepers.all().is_empty() {
            for tree in Tree::abandoned() {
                thread::spawn(move || end_left(tree.mark(), &[], GRACE));
            }
        }
    }

    /// Another takes a keeper's place, and is told how all sessions have to be.
    ///
    /// # Errors
    /// That cannot be.
    pub(crate) fn keeper_died(&mut self, node: usize, attempt: u64) -> Result<(), AgentError> {
        let known = self.live.values().map(|live| live.wanted.mark.clone()).collect();
        if !self.keepers.start_again(node, attempt, known) {
            let node = self.keepers.name(node).to_owned();
            return Err(AgentError::Node { node, why: "it cannot be reached any more".into() });
        }
        self.orders.keeper_died(node);
        for live in self.live.values() {
            let message = match live.leaving {
                Some(_) => ToKeeper::End { mark: live.wanted.mark.clone() },
                None => hold(live, self.keepers.name(node), self.turn),
            };
            self.keepers.send(node, &message);
        }
        Ok(())
    }

    /// Those that stand still, and those that run here.
    pub(crate) fn marks(&self) -> Marks {
        let here = here();
        let stands = |live: &Live| live.suspended || live.paused;
        let runs = |live: &Live| {
            !stands(live) && live.leaving.is_none() && live.parts.iter().any(|part| part.node == here)
        };
        let of = |is_meant: &dyn Fn(&Live) -> bool| {
            self.live.values().filter(|live| is_meant(live)).map(|live| live.wanted.mark.clone()).collect()
        };
        Marks {
            standing: of(&stands),
            running: of(&runs),
            unprobed: of(&|live| runs(live) && live.is_unprobed()),
        }
    }

    pub(crate) fn list(&self, peer: Peer) -> FromAgent {
        let sessions = self.live.iter().map(|(id, live)| self.shown(*id, live, peer)).collect();
        let rules = self.scheduler.rules();
        FromAgent::Sessions { policy: rules.to_string(), slowdown_max: rules.slowdown_max, sessions }
    }

    /// Milliseconds of a clock that all agents of this host have in common, and that nobody sets.
    fn now(&self) -> u64 {
        clock::now_ns() / 1_000_000
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
    let (tree, cpus) = (Tree::marked(&live.wanted.mark), live.cpus());
    if !cpus.is_empty() {
        tree.pin(&cpus);
    }
    if live.suspended {
        tree.stop();
    } else {
        tree.go_on();
    }
}
