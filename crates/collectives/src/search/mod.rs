//! Which word to choose: a heuristic, and the best of all words.
//!
//! Start at [`Weights`] (what a model charges), then [`best`](Search::best) and [`heuristic`].

mod all;
mod best;
mod heuristic;

pub use all::{Counts, all_words, counts};
pub use best::Search;
pub use heuristic::{Order, heuristic};

use crate::language::Cost;
use castell_base::Time;
use castell_model::{ClosedForms, Plb, largest_useful_fan_out};

/// What PLB charges for the stages of a word, at one size of messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    plb: Plb,
    bytes: u64,
}

impl Weights {
    /// The charges for vectors of `bytes`.
    pub fn new(plb: Plb, bytes: u64) -> Weights {
        Weights { plb, bytes }
    }

    /// Bytes of the vector.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// For a stage whose messages hold `bytes` each: α_p + nβ.
    pub fn stage(&self, bytes: u64) -> u64 {
        self.plb.flight(bytes).0
    }

    /// For a message that a rank sends: α_r.
    pub fn send(&self, bytes: u64) -> u64 {
        self.plb.send_busy(bytes).0
    }

    /// For a message that a rank reduces: nγ.
    pub fn reduce(&self, bytes: u64) -> u64 {
        self.plb.reduction(bytes).0
    }

    /// For a stage `aF`.
    pub fn factor(&self, factor: u32, bytes: u64) -> u64 {
        let peer = self.send(bytes).saturating_add(self.reduce(bytes));
        self.stage(bytes).saturating_add(peer.saturating_mul(u64::from(factor) - 1))
    }

    /// How much a stage costs in units of a message: (α_p + nβ) / (α_r + nγ). The thesis has c = α_p / α_r.
    pub fn ratio(&self) -> f64 {
        self.stage(self.bytes) as f64 / (self.send(self.bytes) + self.reduce(self.bytes)) as f64
    }

    /// The largest factor that is worth a try: ⌊b_upper⌋ + 1, at most `ranks`.
    pub fn factor_max(&self, ranks: u32) -> u32 {
        let ratio = self.ratio();
        if ratio == f64::INFINITY {
            return ranks.max(2);
        }
        // A conversion saturates; NaN (no charge at all) becomes 0.
        (largest_useful_fan_out(ratio).floor() as u32).saturating_add(1).clamp(2, ranks.max(2))
    }

    /// Time of a word.
    pub fn time(&self, cost: &Cost) -> Time {
        cost.plb(&self.plb)
    }
}
