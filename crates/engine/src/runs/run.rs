//! A schedule under way.

use super::fold::{Fold, Folds};
use super::memory::Space;
use super::peer_progress::Block;
use super::reference::Scope;
use crate::handle_state::HandleState;
use castell_base::Rank;
use castell_goal::op::Op;
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::stepper::Stepper;
use std::sync::Arc;

pub(crate) struct Run {
    pub(super) schedule: Arc<Schedule>,
    pub(super) stepper: Stepper,
    pub(crate) scope: Scope,
    pub(super) serial: u64,
    /// `(peer, number of the channel with it)`, sorted by peer; the numbers are of no use in open runs.
    pub(super) numbers: Vec<(Rank, u32)>,
    /// 8-byte words, so that every element type is aligned at offsets that are multiples of its size.
    scratchpad: Box<[u64]>,
    /// Where the run lies if any process may carry it on; stepper and scratchpad above are empty then.
    pub(super) block: Option<Block>,
    pub(super) state: Arc<HandleState>,
    /// Its sends, and how many of them have not been started.
    sends: u32,
    sends_left: u32,
    folding: Folding,
    /// Whether peers may carry it on if its schedule allows that.
    pub(super) may_share: bool,
    /// Counted among those that peers look for in vain, see `peer_progress/README.md`.
    pub(super) is_unlisted: bool,
    /// In the list of runs that have something to start.
    pub(super) listed: bool,
    /// Of a call: since when it is known to wait; 0: it was not looked at yet.
    pub(crate) waiting_since_ns: u64,
    /// Ranks of other hosts that it waited for and told what it is.
    pub(crate) told: Vec<Rank>,
}

/// Large messages that are reduced as they come.
struct Folding {
    folds: Folds,
    /// Those that are under way, or have come and not been asked for yet.
    begun: Vec<Fold>,
}

impl Run {
    pub(super) fn new(
        schedule: Arc<Schedule>,
        block: Option<Block>,
        folds: Folds,
        state: Arc<HandleState>,
    ) -> Run {
        let sends = if folds.are_large() { sends(&schedule) } else { u32::MAX };
        let (stepper, scratchpad) = match block {
            Some(_) => (Stepper::default(), Box::default()),
            None => {
                let words = schedule.scratchpad_bytes().div_ceil(8) as usize;
                (Stepper::new(&schedule), vec![0; words].into_boxed_slice())
            }
        };
        Run {
            schedule,
            stepper,
            scope: Scope::Open,
            serial: 0,
            numbers: Vec::new(),
            scratchpad,
            block,
            state,
            sends,
            sends_left: sends,
            folding: Folding { folds, begun: Vec::new() },
            may_share: false,
            is_unlisted: false,
            listed: false,
            waiting_since_ns: 0,
            told: Vec::new(),
        }
    }

    /// Makes a finished run ready for the same schedule again without allocating.
    pub(super) fn reset(&mut self) {
        if self.block.is_none() {
            self.stepper.reset(&self.schedule);
        }
        self.is_unlisted = false;
        self.listed = false;
        self.folding.begun.clear();
        self.sends_left = self.sends;
        self.waiting_since_ns = 0;
        self.told.clear();
    }

    /// A send was started.
    #[inline]
    pub(super) fn starts_send(&mut self) {
        self.sends_left = self.sends_left.wrapping_sub(1);
    }

    /// Whether all that the run sends has been started, and nobody wants to hear of the end at once. Asked of runs with large
    /// messages only: others are not worth the counting.
    pub(super) fn has_sent_all(&self) -> bool {
        self.sends_left == 0 && !self.state.is_told
    }

    #[inline]
    pub(super) fn scratchpad(&mut self) -> *mut u8 {
        match &self.block {
            Some(block) => block.scratchpad(),
            None => self.scratchpad.as_mut_ptr().cast(),
        }
    }

    /// The number of the run's channel with `peer`; 0: none.
    #[inline]
    pub(super) fn number_with(&self, peer: Rank) -> u32 {
        if self.scope == Scope::Open {
            return 0;
        }
        if self.numbers.len() <= 8 {
            return self.numbers.iter().find(|(rank, _)| *rank == peer).map_or(0, |(_, number)| *number);
        }
        let found = self.numbers.binary_search_by_key(&peer, |(rank, _)| *rank);
        found.map_or(0, |at| self.numbers[at].1)
    }

    /// Before a receive's large message comes: whether an operation reads it as it comes.
    pub(super) fn begin_fold(&mut self, recv: OpId, space: Space) -> bool {
        let Some(local) = self.folding.folds.reader(recv) else { return false };
        if !self.stepper.lacks_one(&self.schedule, local) {
            return false;
        }
        let fold = Fold::new(&self.schedule, recv, local, space);
        self.folding.begun.extend(fold);
        self.folding.begun.last().is_some_and(|fold| fold.recv == recv)
    }

    /// How a message is reduced for which [`Run::begin_fold`] said yes.
    pub(super) fn fold_of(&self, recv: OpId) -> &Fold {
        self.folding.begun.iter().find(|fold| fold.recv == recv).expect("a message that is reduced")
    }

    /// Whether the operation was carried out as its message came.
    pub(super) fn was_folded(&mut self, local: OpId) -> bool {
        let at = self.folding.begun.iter().position(|fold| fold.local == local);
        at.map(|at| self.folding.begun.swap_remove(at)).is_some()
    }
}

/// How many sends a schedule has.
fn sends(schedule: &Schedule) -> u32 {
    schedule.operations().filter(|op| matches!(schedule.op(*op), Op::Send { .. })).count() as u32
}
