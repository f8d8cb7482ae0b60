//! What is known of one session, and in which order those that wait take their turns.

use super::holders::{Claim, Rank};
use super::request::{Request, SessionId};
use super::resources::Placement;
use super::rules::{Policy, Rules};
use super::turns::Turn;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// So many of those that have suspended a session are remembered.
pub(crate) const SUSPENDED_BY_MAX: usize = 16;

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Has not been started yet.
    Waiting,
    /// Runs.
    Running,
    /// Was started, and is stopped until others have ended, or until its user resumes it.
    Suspended,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    pub(crate) request: Request,
    pub(crate) state: State,
    /// The how-manieth it was to come.
    pub(crate) arrival: u64,
    /// The how-manieth it was to be started.
    pub(crate) started: u64,
    /// When it came.
    pub(crate) came: u64,
    /// When it should have ended, under give-way.
    pub(crate) due: u64,
    /// The slots that it was given; none while it waits.
    pub(crate) home: Option<Placement>,
    /// How long it ran before `since`.
    pub(crate) ran: u64,
    /// When it last started, went on or came to stand still; when it came, before that.
    pub(crate) since: u64,
    /// Whether its user has stopped it: under policies that do not suspend it counts as one that runs nevertheless.
    pub(crate) stopped: bool,
    /// How often its user has.
    pub(crate) stops: u32,
    /// How often others have suspended it.
    pub(crate) suspensions: u32,
    /// The last of those.
    pub(crate) suspended_by: VecDeque<SessionId>,
    /// Whether so many started before it out of turn that it must be the next.
    pub(crate) overdue: bool,
    /// Those that ran on its slots while it was suspended, or suspended it.
    pub(crate) surpassed: u32,
    /// When it was promised to start at the latest, if estimates hold.
    pub(crate) promise: Option<u64>,
    /// All that talk to each other have one number.
    pub(crate) group: SessionId,
}

impl Session {
    pub(crate) fn new(request: Request, arrival: u64, now: u64, group: SessionId, rules: &Rules) -> Session {
        let mut session = Session {
            request,
            state: State::Waiting,
            arrival,
            started: 0,
            came: now,
            due: 0,
            home: None,
            ran: 0,
            since: now,
            stopped: false,
            stops: 0,
            suspensions: 0,
            suspended_by: VecDeque::new(),
            overdue: false,
            surpassed: 0,
            promise: None,
            group,
        };
        session.due = session.due_under(rules);
        session
    }

    /// When it should have ended.
    pub(crate) fn due_under(&self, rules: &Rules) -> u64 {
        match rules.policy {
            Policy::GiveWay => {
                let needs = self.request.estimate.unwrap_or(rules.assumed);
                needs.saturating_mul(rules.patience).saturating_add(self.came)
            }
            _ => 0,
        }
    }

    /// Another session has suspended it.
    pub(crate) fn note_suspension(&mut self, by: SessionId) {
        self.suspensions += 1;
        self.suspended_by.retain(|other| *other != by);
        if self.suspended_by.len() == SUSPENDED_BY_MAX {
            self.suspended_by.pop_front();
        }
        self.suspended_by.push_back(by);
    }

    /// Its place among those that wait.
    pub(crate) fn turn(&self, id: SessionId) -> Turn {
        match self.overdue {
            true => (false, Reverse(0), 0, self.arrival, id),
            false => (true, Reverse(self.request.priority), self.due, self.arrival, id),
        }
    }

    /// Its place among those that suspend each other.
    pub(crate) fn rank(&self) -> Rank {
        (self.request.priority, self.arrival)
    }

    /// What it has to say about its slots.
    pub(crate) fn claim(&self, id: SessionId) -> Claim {
        let running = self.state == State::Running;
        let left = || self.request.estimate.map(|most| most.saturating_sub(self.ran));
        let until = match running {
            true => left().map_or(u64::MAX, |left| self.since.saturating_add(left)),
            // Nobody knows when its user lets it go on, and until then it waits for nothing.
            false if self.stopped => u64::MAX - 1,
            false => left().unwrap_or(u64::MAX - 1),
        };
        let due = if self.stopped { u64::MAX } else { self.due };
        Claim { id, group: self.group, rank: self.rank(), due, running, until }
    }

    /// How long others must still need for it to suspend them under give-way; none where nobody knows how long it takes itself.
    pub(crate) fn gap(&self, rules: &Rules) -> Option<u64> {
        Some(self.request.estimate?.saturating_mul(rules.shorter))
    }

    /// How long it will still run at most, if its estimate holds and nobody disturbs it; nobody knows while its user has stopped it.
    pub(crate) fn remaining(&self, now: u64) -> Option<u64> {
        if self.stopped {
            return None;
        }
        let ran = self.ran + if self.state == State::Running { now.saturating_sub(self.since) } else { 0 };
        self.request.estimate.map(|estimate| estimate.saturating_sub(ran))
    }

    /// When it will have ended by its estimate; none if it has none, has overrun it, or is stopped by its user.
    pub(crate) fn expected_end(&self) -> Option<u64> {
        if self.stopped {
            return None;
        }
        let left = self.request.estimate?.checked_sub(self.ran)?;
        Some(self.since.saturating_add(left))
    }

    /// Whether this one, which wants to start, may suspend `other` or use its slots while that is suspended.
    pub(crate) fn may_surpass(&self, other: &Session, now: u64, rules: &Rules) -> bool {
        if self.group == other.group {
            return false;
        }
        let (mine, others) = (self.request.priority, other.request.priority);
        match rules.policy {
            Policy::Surpass => {
                (other.stopped || other.surpassed < rules.surpassed_max) && self.rank() > other.rank()
            }
            Policy::GiveWay if now >= other.due && !other.stopped => false,
            Policy::GiveWay if mine == others => match (self.gap(rules), other.remaining(now)) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(gap), Some(left)) => left >= gap,
            },
            Policy::GiveWay => mine > others,
            Policy::Wait | Policy::Overbook | Policy::Sidestep => false,
        }
    }
}
