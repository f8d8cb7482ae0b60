//! What a word costs: messages, bytes, and time under models that have a closed form for it.

use super::{Fitted, Fold, Merged, Stage};
use castell_base::Time;
use castell_model::{Bsp, ClosedForms, Lb, Model, Plb};

/// What one stage costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageCost {
    /// The stage.
    pub stage: Stage,
    /// Messages that the busiest rank sends one after the other.
    pub in_a_row: u64,
    /// Size of the largest message.
    pub bytes: u64,
    /// Messages of all ranks.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes_total: u64,
    /// Messages that the busiest rank reduces into what it has; each as large as the others of the stage.
    pub reductions: u64,
}

/// What a word costs on its number of ranks.
///
/// ```
/// use castell_collectives::language::{Fitted, Word};
/// let word: Word = "m1g2a3,n1g3a2".parse()?;
/// let cost = Fitted::new(word, 7)?.cost(8);
/// assert_eq!((cost.messages(), cost.alpha_p(), cost.alpha_r()), (23, 2, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Stage by stage.
    pub stages: Vec<StageCost>,
}

impl Cost {
    /// How often α_p is paid: once a stage.
    pub fn alpha_p(&self) -> u64 {
        self.stages.len() as u64
    }

    /// How often α_r is paid: once for each message that the busiest rank of a stage sends.
    pub fn alpha_r(&self) -> u64 {
        self.stages.iter().map(|stage| stage.in_a_row).sum()
    }

    /// Messages of all ranks (equations 5.12 and 5.13 of the thesis).
    pub fn messages(&self) -> u64 {
        self.stages.iter().map(|stage| stage.messages).sum()
    }

    /// Bytes of all messages.
    pub fn bytes_total(&self) -> u64 {
        self.stages.iter().map(|stage| stage.bytes_total).sum()
    }

    /// Time under PLB: of each stage, α_p + b·α_r + nβ, and nγ for each message that is reduced (equations 5.1 to
    /// 5.5 of the thesis, where β and γ are 0).
    pub fn plb(&self, plb: &Plb) -> Time {
        let stage = |stage: &StageCost| {
            let sent = Time(plb.send_busy(stage.bytes).0.saturating_mul(stage.in_a_row));
            let reduced = Time(plb.reduction(stage.bytes).0.saturating_mul(stage.reductions));
            sent.saturating_add(plb.flight(stage.bytes)).saturating_add(reduced)
        };
        self.stages.iter().map(stage).fold(Time(0), Time::saturating_add)
    }

    /// Time under LB, where a sender is busy until its message was received: of each stage b·(α + nβ), and nγ for
    /// each message that is reduced.
    pub fn lb(&self, lb: &Lb) -> Time {
        let stage = |stage: &StageCost| {
            let sent = Time(lb.message(stage.bytes).0.saturating_mul(stage.in_a_row));
            sent.saturating_add(Time(lb.reduction(stage.bytes).0.saturating_mul(stage.reductions)))
        };
        self.stages.iter().map(stage).fold(Time(0), Time::saturating_add)
    }

    /// Time under BSP with a superstep a stage; computation is free.
    pub fn bsp(&self, bsp: &Bsp) -> Time {
        let stage = |stage: &StageCost| {
            let message = bsp.gap.saturating_add(bsp.gap_per_byte.of(stage.bytes));
            Time(message.0.saturating_mul(stage.in_a_row)).saturating_add(bsp.barrier)
        };
        self.stages.iter().map(stage).fold(Time(0), Time::saturating_add)
    }

    /// Time under any model that has a closed form for these stages: PLB, LB and BSP for all of them; the LogP family for
    /// words in which no rank sends more than one message a stage, where each stage is an exchange (an upper bound if
    /// not all ranks take part in each).
    pub fn under(&self, model: &Model) -> Option<Time> {
        match model {
            Model::Plb(plb) => Some(self.plb(plb)),
            Model::Lb(lb) => Some(self.lb(lb)),
            Model::Bsp(bsp) => Some(self.bsp(bsp)),
            other => self.stages.iter().all(|stage| stage.in_a_row == 1).then(|| self.exchanges(other)),
        }
    }

    fn exchanges(&self, model: &Model) -> Time {
        let last = self.stages.len().saturating_sub(1);
        let stage = |(index, stage): (usize, &StageCost)| {
            let (time, interval) = model.exchange(stage.bytes);
            let reduced = Time(model.reduction(stage.bytes).0.saturating_mul(stage.reductions));
            let all = time.saturating_add(reduced);
            if index == last { all } else { all.max(interval) }
        };
        self.stages.iter().enumerate().map(stage).fold(Time(0), Time::saturating_add)
    }
}

impl Fitted {
    /// What the word costs with a vector of `bytes` single bytes. Vectors that have fewer elements than parts cost
    /// fewer messages than is said here.
    pub fn cost(&self, bytes: u64) -> Cost {
        // What ranks hold is the vector's `parts`-th part.
        let mut parts = 1;
        let stages = self.word().stages.iter().zip(&self.places);
        let stages = stages.map(|(&stage, place)| {
            let width = u64::from(place.width);
            let whole = StageCost { stage, in_a_row: 0, bytes, messages: 0, bytes_total: 0, reductions: 0 };
            match stage {
                Stage::Factor { factor } => whole.exchange(factor, width, parts),
                Stage::Merge(merged) => whole.exchange(merged.factor, width, parts).merge(merged),
                Stage::InverseMerge(merged) => {
                    whole.exchange(merged.factor, width, parts).inverse_merge(merged)
                }
                Stage::Collapse(fold) => whole.collapse(fold, parts),
                Stage::Expand(fold) => whole.expand(fold, parts),
                Stage::ReduceScatter { factor } => {
                    parts *= u64::from(factor);
                    whole.exchange(factor, width, parts)
                }
                Stage::Allgather { factor } => {
                    let cost = StageCost { reductions: 0, ..whole.exchange(factor, width, parts) };
                    parts /= u64::from(factor);
                    cost
                }
            }
        });
        Cost { stages: stages.collect() }
    }
}

impl StageCost {
    /// `width` ranks send to the `factor` - 1 others of their group what they have.
    fn exchange(self, factor: u32, width: u64, parts: u64) -> StageCost {
        let peers = u64::from(factor) - 1;
        let messages = width * peers;
        let bytes_total = self.total(messages, parts);
        let bytes = self.bytes.div_ceil(parts);
        StageCost { in_a_row: peers, bytes, messages, bytes_total, reductions: peers, ..self }
    }

    /// Bytes of so many messages that hold a part each; together they hold whole vectors.
    fn total(&self, messages: u64, parts: u64) -> u64 {
        (u128::from(messages) * u128::from(self.bytes) / u128::from(parts)) as u64
    }

    fn merge(self, merged: Merged) -> StageCost {
        let Merged { remainder, groups, factor } = merged;
        let more = u64::from(remainder) * u64::from(factor);
        StageCost {
            in_a_row: u64::from(factor),
            reductions: self.reductions + u64::from(remainder.div_ceil(groups)),
            ..self.further(more)
        }
    }

    fn inverse_merge(self, merged: Merged) -> StageCost {
        let Merged { remainder, groups, factor } = merged;
        let more = u64::from(remainder) * u64::from(factor);
        StageCost { in_a_row: self.in_a_row + u64::from(remainder.div_ceil(groups)), ..self.further(more) }
    }

    fn further(self, messages: u64) -> StageCost {
        let bytes_total = self.bytes_total + messages * self.bytes;
        StageCost { messages: self.messages + messages, bytes_total, ..self }
    }

    fn collapse(self, fold: Fold, parts: u64) -> StageCost {
        let (in_a_row, reductions) = (u64::from(fold.keep), u64::from(fold.block - fold.keep));
        StageCost { in_a_row, reductions, ..self.fold(fold, parts) }
    }

    fn expand(self, fold: Fold, parts: u64) -> StageCost {
        let in_a_row = if fold.keep == 1 { u64::from(fold.block) - 1 } else { 1 };
        StageCost { in_a_row, reductions: 0, ..self.fold(fold, parts) }
    }

    fn fold(self, fold: Fold, parts: u64) -> StageCost {
        // Of three ranks of which two go on, one sends two halves.
        let keep = u64::from(fold.keep);
        let leaving = u64::from(fold.ranks / fold.block * (fold.block - fold.keep));
        let bytes_total = self.total(leaving, parts);
        StageCost { bytes: self.bytes.div_ceil(parts * keep), messages: leaving * keep, bytes_total, ..self }
    }
}
