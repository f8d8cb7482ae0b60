//! The state machine: what happens in, what has to be done out.

use super::company::Company;
use super::holders::Holders;
use super::occupancy::{NOT_USABLE, Occupancy, per_process};
use super::record::{Session, State};
use super::request::{Decision, Event, Refused, Request, SessionId};
use super::resources::{Cluster, Level, Placement, Slot};
use super::rules::{Policy, Rules};
use super::sidestep;
use super::turns::{Turn, Turns, Wish};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All sessions of one set of slots. Time comes in with each event, in any unit, and never goes back.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(super) rules: Rules,
    pub(super) occupancy: Occupancy,
    /// With the same capacity and nothing in it: what fits at all.
    empty: Occupancy,
    /// Whose processors were taken away.
    pub(super) offline: BTreeSet<Slot>,
    pub(super) sessions: HashMap<SessionId, Session>,
    pub(super) waiting: Turns,
    /// Who has which slot, under policies that suspend.
    pub(super) holders: Option<Holders>,
    /// By arrival.
    pub(super) running: BTreeMap<u64, SessionId>,
    /// By arrival.
    pub(super) suspended: BTreeMap<u64, SessionId>,
    /// Groups of more than one.
    pub(super) groups: BTreeMap<SessionId, Vec<SessionId>>,
    /// When those that run should have ended, where that is known.
    pub(super) ends: BTreeSet<(u64, SessionId)>,
    pub(super) arrivals: u64,
    pub(super) starts: u64,
    /// Whether sessions of different priorities have come.
    pub(super) priorities: Option<(i32, bool)>,
    /// Whether sessions of different users have come.
    pub(super) users: Option<(u32, bool)>,
    /// What the first of those that wait is waiting for, until something starts or ends.
    pub(super) reservation: Option<super::backfill::Reservation>,
    /// Per slot, how many of its holders the session that is being placed may disregard.
    pub(super) disregarded: Vec<u16>,
    /// Where processes are pinned that had to step aside.
    pub(super) aside: sidestep::Aside,
    /// What is foreseen, and for whom.
    pub(super) company: Company,
}

impl Scheduler {
    /// Nothing runs yet.
    pub fn new(cluster: Cluster, rules: Rules) -> Scheduler {
        Scheduler::without(cluster, rules, BTreeSet::new())
    }

    /// The same where some slots are offline.
    pub(super) fn without(cluster: Cluster, rules: Rules, offline: BTreeSet<Slot>) -> Scheduler {
        let occupancy = Occupancy::new(cluster).without(&offline);
        let mut holders = rules.policy.suspends().then(|| Holders::new(occupancy.cluster.num_slots()));
        if let Some(holders) = &mut holders {
            holders.withdraw(&offline);
        }
        Scheduler {
            offline,
            disregarded: vec![0; occupancy.cluster.num_slots()],
            aside: sidestep::Aside::new(occupancy.cluster.num_nodes()),
            company: Company::default(),
            rules,
            empty: Occupancy::new(occupancy.cluster.clone()),
            occupancy,
            sessions: HashMap::new(),
            waiting: Turns::default(),
            holders,
            running: BTreeMap::new(),
            suspended: BTreeMap::new(),
            groups: BTreeMap::new(),
            ends: BTreeSet::new(),
            arrivals: 0,
            starts: 0,
            priorities: None,
            users: None,
            reservation: None,
        }
    }

    /// Takes an event at a time, and says what to do now. Whoever calls does it in the order given.
    ///
    /// # Errors
    /// The event is not possible, and nothing has changed.
    pub fn handle(&mut self, now: u64, event: Event) -> Result<Vec<Decision>, Refused> {
        let mut decisions = Vec::new();
        match event {
            Event::Request(id, request) => {
                let turn = self.admit(now, id, request)?;
                if self.waiting.contains(&turn) {
                    self.arrived(now, turn, &mut decisions);
                }
            }
            Event::End(id) => {
                self.remove(id)?;
                self.give_turns(now, &mut decisions);
            }
            Event::Stop(id) => self.stop(now, id, &mut decisions)?,
            Event::Resume(id) => self.resume(now, id, &mut decisions)?,
            Event::Priority(id, priority) => self.prioritise(now, id, priority, &mut decisions)?,
            Event::Estimate(id, estimate) => self.estimate(now, id, estimate, &mut decisions)?,
            Event::Needs(id, needs) => self.need(now, id, needs, &mut decisions)?,
            Event::Rules(rules) => self.take_over(now, rules, &mut decisions)?,
            Event::Offline(slots) => self.withdraw(now, slots, &mut decisions)?,
            Event::Foreseen(foreseen) => self.foresee(now, foreseen, &mut decisions),
            Event::SlowdownMax(whose, most) => self.limit(now, whose, most, &mut decisions)?,
            Event::Program(id, program) => self.name(now, id, program, &mut decisions)?,
        }
        if self.rules.policy == Policy::Sidestep {
            sidestep::repin(self, &mut decisions);
        }
        Ok(decisions)
    }

    /// The slots, as they were given.
    pub fn cluster(&self) -> &Cluster {
        &self.occupancy.cluster
    }

    /// The policy and its bounds.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Where a session is in its life; none if it has ended or never came.
    pub fn state(&self, id: SessionId) -> Option<State> {
        let session = self.sessions.get(&id)?;
        match session.state {
            State::Running if session.stopped => Some(State::Suspended),
            state => Some(state),
        }
    }

    /// Since when it is so: when it came, started, went on or came to stand still.
    pub fn since(&self, id: SessionId) -> Option<u64> {
        self.sessions.get(&id).map(|session| session.since)
    }

    /// The slots that a session was given, which it also keeps while it is suspended or has stepped aside.
    pub fn home(&self, id: SessionId) -> Option<&Placement> {
        self.sessions.get(&id)?.home.as_ref()
    }

    /// Where a session's processes are now, if it was started: at home, or aside.
    pub fn pinned(&self, id: SessionId) -> Option<&Placement> {
        self.aside.pin(id).or_else(|| self.home(id))
    }

    /// How many wait for their turn, have their slots, and are suspended without them. Those are not counted that wait for slots which are
    /// offline.
    pub fn counts(&self) -> [usize; 3] {
        [self.waiting.len(), self.running.len(), self.suspended.len()]
    }

    /// Puts a session among those that wait.
    fn admit(&mut self, now: u64, id: SessionId, request: Request) -> Result<Turn, Refused> {
        if self.sessions.contains_key(&id) {
            return Err(Refused::Exists { session: id });
        }
        self.check(&request)?;
        self.check_mate(&request)?;
        let group = self.join(id, request.with)?;
        self.note_priority(request.priority);
        self.note_user(request.user);
        let session = Session::new(request, self.arrivals, now, group, &self.rules);
        self.arrivals += 1;
        let turn = session.turn(id);
        self.sessions.insert(id, session);
        self.await_turn(id);
        Ok(turn)
    }

    /// Joins a session, which is still to come, with those that talk to it, and gives their group.
    pub(super) fn join(&mut self, id: SessionId, with: Option<SessionId>) -> Result<SessionId, Refused> {
        let group = match with {
            Some(other) => self.sessions.get(&other).ok_or(Refused::Unknown { session: other })?.group,
            None => id,
        };
        if group != id {
            let members = self.groups.entry(group).or_default();
            if members.is_empty() {
                members.extend(with);
            }
            members.push(id);
            // They may use each other's slots.
            for member in members.iter().filter(|member| **member != id) {
                self.waiting.forget_wish(&self.sessions[member].turn(*member));
            }
        }
        Ok(group)
    }

    /// It is in its group no longer.
    pub(super) fn part(&mut self, id: SessionId, group: SessionId) {
        if let Some(members) = self.groups.get_mut(&group) {
            members.retain(|member| *member != id);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// Puts a session among those that wait for their turns, if what is online suffices for it: who waits for more holds up nobody.
    pub(super) fn await_turn(&mut self, id: SessionId) {
        let session = &self.sessions[&id];
        if self.offline.is_empty() || self.fits(&self.empty.clone().without(&self.offline), &session.request)
        {
            self.waiting.insert(session.turn(id), self.wish(session));
        }
    }

    /// There is a session of this priority.
    pub(super) fn note_priority(&mut self, priority: i32) {
        let (first, _) = *self.priorities.get_or_insert((priority, false));
        if first != priority {
            self.priorities = Some((first, true));
        }
    }

    /// Whether a request can ever be fulfilled.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refused> {
        if request.processes == 0 || request.threads == 0 {
            return Err(Refused::Nothing);
        }
        let there = self.cluster().num_slots() as u64;
        if !request.slots.is_empty() {
            self.check_exact(request)?;
        }
        let (per_process, wanted) = (per_process(request, self.cluster()), self.slots_of(request));
        if wanted > there {
            return Err(Refused::TooManySlots { wanted, there });
        }
        if self.fits(&self.empty, request) {
            return Ok(());
        }
        // Of slots that are named any have the same memory as those that are too many.
        let request = &Request { slots: Vec::new(), ..request.clone() };
        let fits =
            |processes| self.empty.compact(&Request { processes, ..request.clone() }, 0, |_| 0).is_some();
        let (mut low, mut high) = (0, request.processes);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        Err(Refused::NeverFits {
            processes: request.processes,
            per_process,
            memory_bytes: request.memory_bytes,
            fitting: low,
        })
    }

    /// Whether a request fits where nobody is.
    fn fits(&self, empty: &Occupancy, request: &Request) -> bool {
        let wanted = self.slots_of(request);
        let simple = wanted == u64::from(request.processes)
            && request.memory_bytes == 0
            && request.per_node_max.is_none()
            && request.slots.is_empty();
        wanted <= empty.online_total()
            && (simple || empty.compact(request, 0, |slot| empty.running(slot)).is_some())
    }

    /// Whether there are the slots that a request names.
    fn check_exact(&self, request: &Request) -> Result<(), Refused> {
        let is_exact = request.threads == 1
            && request.whole == Level::Thread
            && request.per_node_max.is_none()
            && request.slots.len() == request.processes as usize
            && request.slots.is_sorted_by(|one, next| one < next);
        let there = self.cluster().num_slots() as u64;
        match request.slots.iter().find(|slot| u64::from(**slot) >= there) {
            _ if !is_exact => Err(Refused::NotExact),
            Some(slot) => Err(Refused::NoSlot { slot: *slot, there }),
            None => Ok(()),
        }
    }

    /// A session has ended, whatever it was doing.
    fn remove(&mut self, id: SessionId) -> Result<(), Refused> {
        let session = self.sessions.remove(&id).ok_or(Refused::Unknown { session: id })?;
        self.reservation = None;
        match session.state {
            State::Waiting => drop(self.waiting.remove(&session.turn(id))),
            State::Running => drop(self.running.remove(&session.arrival)),
            State::Suspended => drop(self.suspended.remove(&session.arrival)),
        }
        if let Some(home) = &session.home {
            match session.state {
                State::Suspended => self.occupancy.hold(home, false),
                _ => self.occupancy.stop(home),
            }
            self.occupancy.remember(home, session.request.memory_bytes, false);
            if let Some(holders) = &mut self.holders {
                holders.left(id, session.group, home);
                let surpassed = session.surpassed >= self.rules.surpassed_max && !session.stopped;
                if self.rules.policy == Policy::Surpass && surpassed {
                    holders.leave_alone(home, false);
                }
            }
            if session.state == State::Running {
                self.company.left(id, home, &self.occupancy.cluster);
            }
            if self.rules.policy == Policy::Sidestep {
                self.aside.left(id, &home.nodes(&self.occupancy.cluster));
            }
        }
        if let Some(end) = session.expected_end() {
            self.ends.remove(&(end, id));
        }
        self.part(id, session.group);
        Ok(())
    }

    /// Somebody came: only that one can have a new chance.
    pub(super) fn arrived(&mut self, now: u64, turn: Turn, decisions: &mut Vec<Decision>) {
        let first = self.waiting.first().expect("it was just put in");
        if first == turn {
            self.reservation = None;
            self.start(now, turn, decisions);
        } else {
            self.out_of_turn(now, first, turn, decisions);
        }
    }

    /// Something has ended: suspended ones go on where they can, then those that wait take their turns.
    pub(super) fn give_turns(&mut self, now: u64, decisions: &mut Vec<Decision>) {
        if !self.suspended.is_empty() {
            self.go_on(now, decisions);
        }
        let mut first = None;
        while let Some(turn) = self.waiting.first() {
            if !self.start(now, turn, decisions) {
                first = Some(turn);
                break;
            }
        }
        if let Some(first) = first {
            self.fill(now, first, decisions);
        }
    }

    /// The first does not fit: looks who else does.
    fn fill(&mut self, now: u64, first: Turn, decisions: &mut Vec<Decision>) {
        let others: Vec<(Turn, Wish)> = self.waiting.iter().skip(1).take(self.rules.backfill_depth).collect();
        for (turn, wish) in others {
            if self.occupancy.free_total() == 0
                && !self.rules.policy.shares()
                && !self.rules.policy.suspends()
            {
                break;
            }
            if let Some(reservation) = &self.reservation {
                let closed = reservation.promise.is_none() && self.sessions[&first.4].overdue;
                if closed && self.groups.is_empty() {
                    return;
                }
                if wish.slots > self.room(now, wish.gap) {
                    continue;
                }
            }
            // Being overtaken may have changed its turn.
            if self.waiting.contains(&turn) {
                self.out_of_turn(now, first, turn, decisions);
            }
        }
    }

    /// No session that talks to nobody can have more slots than these now, if it suspends those that need so long still.
    fn room(&mut self, now: u64, gap: u64) -> u64 {
        let gap = if self.priorities_differ() { 0 } else { gap };
        match (self.rules.policy, &mut self.holders) {
            (Policy::Surpass, Some(holders)) => holders.slots_below((i32::MAX, u64::MAX)),
            (Policy::GiveWay, Some(holders)) => holders.slots_with_left(now, gap),
            (policy, _) if policy.shares() => self.occupancy.below(self.rules.sharing_max),
            _ => self.occupancy.free_total(),
        }
    }

    /// Whether sessions of different priorities have come.
    pub(super) fn priorities_differ(&self) -> bool {
        self.priorities.is_some_and(|(_, differ)| differ)
    }

    /// Starts a session that waits, if it fits now.
    pub(super) fn start(&mut self, now: u64, turn: Turn, decisions: &mut Vec<Decision>) -> bool {
        let id = turn.4;
        let Some(placement) = self.find(now, id) else { return false };
        self.reservation = None;
        self.waiting.remove(&turn);
        self.make_room(now, id, &placement, decisions);
        let session = self.sessions.get_mut(&id).expect("it waits");
        session.state = State::Running;
        session.since = now;
        session.started = self.starts;
        self.starts += 1;
        self.running.insert(session.arrival, id);
        if let Some(end) = session.expected_end() {
            self.ends.insert((end, id));
        }
        let (arrival, priority, memory_bytes) =
            (session.arrival, session.request.priority, session.request.memory_bytes);
        let claim = session.claim(id);
        session.home = Some(placement.clone());
        self.occupancy.run(&placement);
        self.occupancy.remember(&placement, memory_bytes, true);
        if let Some(holders) = &mut self.holders {
            holders.came(claim, &placement);
        }
        self.company.came(id, &placement, &self.occupancy.cluster);
        if self.rules.policy == Policy::Sidestep {
            self.aside.came(id, &placement, &self.occupancy.cluster);
        }
        decisions.push(Decision::Start(id, placement));
        if self.priorities_differ() {
            let later = |other: &Turn| other.3 < arrival && other.1.0 < priority;
            let overdue = self.waiting.overtake(self.rules.overtaken_max, later);
            self.are_overdue(overdue);
        }
        true
    }

    /// These were overtaken too often: they are the next.
    pub(super) fn are_overdue(&mut self, overdue: Vec<Turn>) {
        for turn in overdue {
            self.waiting.remove(&turn);
            let session = self.sessions.get_mut(&turn.4).expect("it waits");
            session.overdue = true;
            let after = session.turn(turn.4);
            let wish = self.wish(&self.sessions[&turn.4]);
            self.waiting.insert(after, wish);
            self.reservation = None;
        }
    }

    /// How many slots a request takes.
    pub(super) fn slots_of(&self, request: &Request) -> u64 {
        u64::from(request.processes) * u64::from(per_process(request, self.cluster()))
    }

    /// What a session that waits cannot start without.
    pub(super) fn wish(&self, session: &Session) -> Wish {
        match self.groups.contains_key(&session.group) {
            true => Wish::default(),
            false => Wish {
                slots: self.slots_of(&session.request),
                gap: session.gap(&self.rules).unwrap_or(u64::MAX),
            },
        }
    }

    /// Where a session would go now, whoever is beside it there; under suspending policies others may have to make room.
    pub(super) fn find_anywhere(&mut self, now: u64, id: SessionId) -> Option<Placement> {
        let others = self.slots_of_other_users(id);
        let request = &self.sessions[&id].request;
        let occupancy = &self.occupancy;
        let wanted = self.slots_of(request);
        let free = |slot: usize| if occupancy.holders(slot) == 0 { 0 } else { NOT_USABLE };
        let alone = match occupancy.free_total() >= wanted {
            true => occupancy.compact(request, 0, free),
            false => None,
        };
        if alone.is_some() {
            return alone;
        }
        if self.rules.policy.shares() {
            if wanted > occupancy.below(self.rules.sharing_max) {
                return None;
            }
            let crowd =
                |slot: usize| if others.contains(&slot) { NOT_USABLE } else { occupancy.running(slot) };
            let mut levels = 1..self.rules.sharing_max;
            return levels.find_map(|level| match self.rules.spread {
                _ if wanted > occupancy.below(level + 1) => None,
                true => occupancy.spread(request, level, crowd),
                false => occupancy.compact(request, level, crowd),
            });
        }
        if self.rules.policy.suspends() || self.groups.contains_key(&self.sessions[&id].group) {
            return self.find_among_holders(now, id, wanted);
        }
        None
    }
}
