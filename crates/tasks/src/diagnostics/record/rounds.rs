//! What lies between two meetings of a team's threads: their implicit tasks, of which each waits for all of the round before, with what those
//! created; and between two parallel regions, what the program did without a team.

use std::collections::BTreeMap;

/// From one meeting of a team's threads to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The roots that began in it.
    pub roots: Vec<usize>,
    /// Before the first round of a region: how long the program did something else, in nanoseconds.
    pub serial_ns: u64,
}

/// Rounds while notes are read.
#[derive(Default)]
pub(super) struct Rounds {
    /// By the team's count of its meetings: places in `all`.
    places: BTreeMap<u32, usize>,
    all: Vec<Round>,
    /// When the last body was over.
    last_end_ns: u64,
}

impl Rounds {
    fn place(&mut self, round: u32) -> usize {
        // No round begins before all of the one before have met: new ones come in order.
        *self.places.entry(round).or_insert_with(|| {
            self.all.push(Round::default());
            self.all.len() - 1
        })
    }

    /// A region begins.
    pub(super) fn begins_region(&mut self, round: u32, now: u64) {
        let place = self.place(round);
        if place > 0 {
            self.all[place].serial_ns = now.saturating_sub(self.last_end_ns);
        }
    }

    /// A root begins; the place of its round.
    pub(super) fn begins(&mut self, round: u32, root: usize) -> usize {
        let place = self.place(round);
        self.all[place].roots.push(root);
        place
    }

    /// A body is over.
    pub(super) fn ends_body(&mut self, now: u64) {
        self.last_end_ns = now;
    }

    /// All of them.
    pub(super) fn all(self) -> Vec<Round> {
        self.all
    }
}
