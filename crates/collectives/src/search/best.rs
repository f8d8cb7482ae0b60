//! The best of all words: every factorisation, every collapse, every merge; and split vectors where they pay.

use super::Weights;
use crate::language::{Fold, Stage, Word};

/// The cheapest factorisations of all numbers up to some number of ranks, from which the best word for any number of
/// ranks up to that one is found.
///
/// Looked at are all factorisations, all 2-1 and larger collapses, all 3-2 eliminations and all merges around a
/// factorisation, with whole vectors; and for the number of ranks itself and the largest power of two in it, all ways
/// to split vectors in some of the stages.
///
/// ```
/// use castell_collectives::search::{Search, Weights};
/// use castell_model::Model;
/// let Model::Plb(plb) = Model::parse("plb:alpha_p=2911ps,alpha_r=1000ps")? else { unreachable!() };
/// let search = Search::new(48, Weights::new(plb, 8));
/// assert_eq!(search.best(48).to_string(), "a4,a4,a3");
/// assert_eq!(search.best(26).to_string(), "m8g6a3,a3,n8g9a2");
/// # Ok::<(), castell_model::ModelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Search {
    weights: Weights,
    /// Cost of the cheapest factorisation of each number, in picoseconds.
    costs: Vec<u64>,
    /// Factors above this one are dearer than recursive doubling on all ranks.
    factor_max: u32,
}

/// A kind of word, as small as it can be kept during the search.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Factors,
    Fold { fold: Fold, working: u32 },
    Merge { working: u32, first: u32, last: u32 },
}

impl Search {
    /// Prepares for up to `ranks_max` ranks; that takes time and memory in proportion to it.
    pub fn new(ranks_max: u32, weights: Weights) -> Search {
        let bytes = weights.bytes();
        let factor_max = factor_max(ranks_max, &weights);
        let mut costs = vec![u64::MAX; ranks_max as usize + 1];
        if let Some(one) = costs.get_mut(1) {
            *one = 0;
        }
        // Factors in ascending order: what a larger one multiplies has only smaller ones.
        for factor in 2..=factor_max {
            let cost = weights.factor(factor, bytes);
            let step = factor as usize;
            for (index, product) in (step..costs.len()).step_by(step).enumerate() {
                let with = costs[index + 1].saturating_add(cost);
                if with < costs[product] {
                    costs[product] = with;
                }
            }
        }
        Search { weights, costs, factor_max }
    }

    /// The best word for `ranks` ranks. Of words that cost the same it is a factorisation rather than a merge.
    ///
    /// # Panics
    /// Where `ranks` is 0 or beyond what the search was prepared for.
    pub fn best(&self, ranks: u32) -> Word {
        assert!(ranks > 0 && (ranks as usize) < self.costs.len(), "{ranks} ranks were not prepared for");
        let mut best = (self.costs[ranks as usize], Choice::Factors);
        self.collapses(ranks, &mut best);
        self.merges(ranks, &mut best);
        let word = self.word(ranks, best.1);
        match self.split(ranks) {
            Some((cost, split)) if cost < best.0 => split,
            _ => word,
        }
    }

    fn collapses(&self, ranks: u32, best: &mut (u64, Choice)) {
        let (bytes, weights) = (self.weights.bytes(), &self.weights);
        for block in 2..=ranks {
            let others = u64::from(block) - 1;
            let ends = 2 * weights.stage(bytes)
                + weights.send(bytes).saturating_mul(1 + others)
                + weights.reduce(bytes).saturating_mul(others);
            if ends >= best.0 {
                break;
            }
            for blocks in 1..=ranks / block {
                let working = ranks - blocks * (block - 1);
                let fold = Fold { ranks: blocks * block, block, keep: 1 };
                self.offer(best, ends.saturating_add(self.costs[working as usize]), || Choice::Fold {
                    fold,
                    working,
                });
            }
        }
        let half = bytes.div_ceil(2);
        let ends = 2 * weights.stage(half) + 3 * weights.send(half) + weights.reduce(half);
        for blocks in 1..=ranks / 3 {
            let working = ranks - blocks;
            let fold = Fold { ranks: 3 * blocks, block: 3, keep: 2 };
            self.offer(best, ends.saturating_add(self.costs[working as usize]), || Choice::Fold {
                fold,
                working,
            });
        }
    }

    fn offer(&self, best: &mut (u64, Choice), cost: u64, choice: impl FnOnce() -> Choice) {
        if cost < best.0 {
            *best = (cost, choice());
        }
    }

    fn merges(&self, ranks: u32, best: &mut (u64, Choice)) {
        let bytes = self.weights.bytes();
        let (send, reduce) = (self.weights.send(bytes), self.weights.reduce(bytes));
        for working in (4..ranks).rev() {
            // One message more in the first stage, at least one in the last, and one reduction.
            let least = self.costs[working as usize].saturating_add(2 * send + reduce);
            if least >= best.0 {
                continue;
            }
            let remainder = ranks - working;
            for last in self.factors(working) {
                let inner = working / last;
                let groups_cost = send.saturating_mul(u64::from(remainder.div_ceil(inner)));
                let ends = self.weights.factor(last, bytes).saturating_add(groups_cost).saturating_add(send);
                if ends >= best.0 || inner == 1 {
                    continue;
                }
                // Of words that cost the same, the one that begins with the largest factor.
                for first in self.factors(inner).rev() {
                    let joining = u64::from(remainder.div_ceil(working / first));
                    let cost = ends
                        .saturating_add(self.weights.factor(first, bytes))
                        .saturating_add(reduce.saturating_mul(joining))
                        .saturating_add(self.costs[(inner / first) as usize]);
                    self.offer(best, cost, || Choice::Merge { working, first, last });
                }
            }
        }
    }

    /// The factors of a number that are cheap enough, in ascending order.
    fn factors(&self, number: u32) -> impl DoubleEndedIterator<Item = u32> + use<> {
        (2..=self.factor_max.min(number)).filter(move |&factor| number.is_multiple_of(factor))
    }

    /// The cheapest factorisation of a number, largest factor first.
    fn factorisation(&self, number: u32) -> Vec<u32> {
        let (mut left, mut factors) = (number, Vec::new());
        while left > 1 {
            let cost = self.costs[left as usize];
            let fits = |&factor: &u32| {
                let rest = self.costs[(left / factor) as usize];
                rest.saturating_add(self.weights.factor(factor, self.weights.bytes())) == cost
            };
            let factor = self.factors(left).rfind(fits).expect("a number with a cost has factors");
            factors.push(factor);
            left /= factor;
        }
        factors.sort_unstable_by(|a, b| b.cmp(a));
        factors
    }

    fn word(&self, ranks: u32, choice: Choice) -> Word {
        match choice {
            Choice::Factors => Word::of_factors(self.factorisation(ranks)),
            Choice::Fold { fold, working } => {
                let mut word = Word::of_factors(self.factorisation(working));
                word.stages.insert(0, Stage::Collapse(fold));
                word.stages.push(Stage::Expand(fold));
                word
            }
            Choice::Merge { working, first, last } => {
                let mut factors = self.factorisation(working / last / first);
                factors.insert(0, first);
                factors.push(last);
                Word::merged(&factors, ranks - working)
            }
        }
    }

    /// The cheapest word that splits vectors, if messages have a size at all.
    fn split(&self, ranks: u32) -> Option<(u64, Word)> {
        if self.weights.bytes() < 2 || ranks < 2 {
            return None;
        }
        let mut best = Splitting::new(&self.weights, ranks).run();
        let power = 1 << ranks.ilog2();
        if power < ranks {
            let bytes = self.weights.bytes();
            let fold = Fold { ranks: 2 * (ranks - power), block: 2, keep: 1 };
            let ends =
                2 * (self.weights.stage(bytes) + self.weights.send(bytes)) + self.weights.reduce(bytes);
            let (cost, mut word) = Splitting::new(&self.weights, power).run();
            word.stages.insert(0, Stage::Collapse(fold));
            word.stages.push(Stage::Expand(fold));
            if cost.saturating_add(ends) < best.0 {
                best = (cost.saturating_add(ends), word);
            }
        }
        Some(best)
    }
}

/// No factor above this one is in the best word: alone it is dearer than recursive doubling.
fn factor_max(ranks: u32, weights: &Weights) -> u32 {
    let bytes = weights.bytes();
    let stages = u64::from(ranks.max(1).ilog2()) + 2;
    let doubling = weights.factor(2, bytes).saturating_mul(stages);
    let peer = weights.send(bytes).saturating_add(weights.reduce(bytes));
    // Where messages cost nothing but their stage, no factor is too large.
    let peers = doubling.saturating_sub(weights.stage(bytes)).checked_div(peer).unwrap_or(u64::MAX);
    peers.saturating_add(1).min(u64::from(ranks)) as u32
}

/// Finds the cheapest way to do a number of ranks stage by stage, each with whole vectors or split ones.
struct Splitting<'a> {
    weights: &'a Weights,
    ranks: u32,
    divisors: Vec<u32>,
}

impl Splitting<'_> {
    fn new(weights: &Weights, ranks: u32) -> Splitting<'_> {
        let small = (1..=ranks.isqrt()).filter(|&divisor| ranks.is_multiple_of(divisor));
        let mut divisors: Vec<u32> = small.flat_map(|divisor| [divisor, ranks / divisor]).collect();
        divisors.sort_unstable();
        divisors.dedup();
        Splitting { weights, ranks, divisors }
    }

    /// Size of a part of the vector.
    fn part(&self, parts: u32) -> u64 {
        self.weights.bytes().div_ceil(u64::from(parts))
    }

    /// Splits first, reduces whole parts then. `split[i]`: cheapest cost of what is left to do once vectors are in
    /// `divisors[i]` parts.
    fn run(&self) -> (u64, Word) {
        let mut split: Vec<(u64, Option<u32>)> = Vec::new();
        for &parts in self.divisors.iter().rev() {
            let mut best = (self.whole(parts, self.ranks / parts).0, None);
            for &factor in &self.divisors[1..] {
                let more = u64::from(parts) * u64::from(factor);
                let Ok(then) = self.divisors.binary_search(&u32::try_from(more).unwrap_or(u32::MAX)) else {
                    continue;
                };
                let part = self.part(parts * factor);
                let both = 2 * self.weights.stage(part)
                    + (u64::from(factor) - 1) * (2 * self.weights.send(part) + self.weights.reduce(part));
                // Divisors were done from the last one on.
                let cost = both.saturating_add(split[self.divisors.len() - 1 - then].0);
                if cost < best.0 {
                    best = (cost, Some(factor));
                }
            }
            split.push(best);
        }
        split.reverse();
        let (mut parts, mut factors) = (1, Vec::new());
        while let Some(factor) = split[self.divisors.binary_search(&parts).expect("parts divide the ranks")].1
        {
            factors.push(factor);
            parts *= factor;
        }
        let scatter = factors.iter().map(|&factor| Stage::ReduceScatter { factor });
        let whole =
            self.whole(parts, self.ranks / parts).1.into_iter().map(|factor| Stage::Factor { factor });
        let gather = factors.iter().rev().map(|&factor| Stage::Allgather { factor });
        (split[0].0, Word { stages: scatter.chain(whole).chain(gather).collect() })
    }

    /// The cheapest factors of `number` for vectors in so many parts.
    fn whole(&self, parts: u32, number: u32) -> (u64, Vec<u32>) {
        let bytes = self.part(parts);
        let divisors: Vec<u32> =
            self.divisors.iter().copied().filter(|&d| number.is_multiple_of(d)).collect();
        let mut costs = vec![(u64::MAX, 1); divisors.len()];
        costs[0].0 = 0;
        for to in 1..divisors.len() {
            for from in (0..to).filter(|&from| divisors[to].is_multiple_of(divisors[from])) {
                let factor = divisors[to] / divisors[from];
                let cost = costs[from].0.saturating_add(self.weights.factor(factor, bytes));
                if cost < costs[to].0 {
                    costs[to] = (cost, factor);
                }
            }
        }
        let (mut at, mut factors) = (divisors.len() - 1, Vec::new());
        while at > 0 {
            factors.push(costs[at].1);
            let rest = divisors[at] / costs[at].1;
            at = divisors.binary_search(&rest).expect("what is left divides, too");
        }
        factors.sort_unstable_by(|a, b| b.cmp(a));
        (costs[divisors.len() - 1].0, factors)
    }
}
