//! The table of runs that are going on, and the finished ones that are kept for the next time.

use super::reference::{RunRef, Scope};
use super::run::Run;
use crate::handle_state::HandleState;
use crate::messages::Token;
use castell_goal::schedule::Schedule;
use std::sync::Arc;

/// Finished runs kept for reuse.
const SPARE_RUNS: usize = 16;

pub(crate) struct Table {
    slots: Vec<Option<Box<Run>>>,
    free: Vec<u32>,
    #[expect(clippy::vec_box, reason = "runs move between this list and the table")]
    spare: Vec<Box<Run>>,
    next_serial: u64,
    running: usize,
    /// Runs in which something may be started.
    ready: Vec<RunRef>,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            next_serial: 1,
            running: 0,
            ready: Vec::new(),
        }
    }
}

impl Table {
    /// The run, if it is still there.
    #[inline]
    pub(super) fn get(&mut self, run: RunRef) -> Option<&mut Run> {
        let found = self.slots.get_mut(run.slot as usize)?.as_deref_mut()?;
        (found.serial == run.serial).then_some(found)
    }

    /// A run that is there.
    #[inline]
    pub(super) fn expect(&mut self, run: RunRef) -> &mut Run {
        self.slots[run.slot as usize].as_deref_mut().expect("a live run")
    }

    /// The run that an operation belongs to which is not finished.
    #[inline]
    pub(crate) fn run_of(&self, token: Token) -> RunRef {
        let found = self.slots[token.owner as usize].as_deref().expect("a live run");
        RunRef { slot: token.owner, serial: found.serial }
    }

    /// All runs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RunRef, &Run)> {
        let runs = (0..).zip(&self.slots).filter_map(|(slot, run)| Some((slot, run.as_deref()?)));
        runs.map(|(slot, run)| (RunRef { slot, serial: run.serial }, run))
    }

    /// All runs.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (RunRef, &mut Run)> {
        let runs = (0..).zip(&mut self.slots).filter_map(|(slot, run)| Some((slot, run.as_deref_mut()?)));
        runs.map(|(slot, run)| (RunRef { slot, serial: run.serial }, run))
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.running
    }

    /// The serial of the run that is inserted next.
    #[inline]
    pub(crate) fn next_serial(&self) -> u64 {
        self.next_serial
    }

    /// As after so many runs.
    pub(super) fn grow_old(&mut self, runs: u64) {
        self.next_serial = runs;
    }

    /// A serial for what is recorded like a run.
    pub(crate) fn take_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial - 1
    }

    /// A finished run of the schedule.
    #[inline]
    pub(super) fn take_spare(&mut self, schedule: &Arc<Schedule>, may_share: bool) -> Option<Box<Run>> {
        let fits = |spare: &Run| Arc::ptr_eq(&spare.schedule, schedule) && spare.may_share == may_share;
        let at = self.spare.iter().rposition(|spare| fits(spare))?;
        let mut run = self.spare.swap_remove(at);
        run.reset();
        Some(run)
    }

    /// Keeps a finished run, or gives it back.
    #[inline]
    pub(super) fn keep_spare(&mut self, run: Box<Run>) -> Option<Box<Run>> {
        if self.spare.len() == SPARE_RUNS {
            return Some(run);
        }
        self.spare.push(run);
        None
    }

    /// A run begins.
    #[inline]
    pub(super) fn insert(&mut self, mut run: Box<Run>, scope: Scope, state: Arc<HandleState>) -> RunRef {
        let serial = self.take_serial();
        (run.scope, run.serial, run.state) = (scope, serial, state);
        self.running += 1;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
        };
        self.slots[slot as usize] = Some(run);
        RunRef { slot, serial }
    }

    /// A run has ended.
    #[inline]
    pub(super) fn remove(&mut self, run: RunRef) -> Box<Run> {
        self.free.push(run.slot);
        self.running -= 1;
        self.slots[run.slot as usize].take().expect("a live run")
    }

    /// Notes that something in the run may be started.
    #[inline]
    pub(super) fn list(&mut self, run: RunRef) {
        if let Some(found) = self.get(run)
            && !found.listed
        {
            found.listed = true;
            self.ready.push(run);
        }
    }

    /// A run of which that was noted.
    #[inline]
    pub(super) fn next_ready(&mut self) -> Option<RunRef> {
        self.ready.pop()
    }
}
