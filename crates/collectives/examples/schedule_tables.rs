//! Prints, for 1 to 1024 ranks, how many allreduce schedules there are and what the heuristic, recursive doubling and the
//! best schedule cost: the data behind figures 5.15 and 5.16 and table 5.2 of Ruefenacht's thesis (2020), as CSV. Costs
//! are in units of α_r, with c = α_p / α_r = 2.911, under both rules for the last stage of a merge.

use castell_collectives::language::{Fitted, Stage, Word};
use castell_collectives::search::{Order, Search, Weights, counts, heuristic};
use castell_model::Model;

const RANKS_MAX: u32 = 1024;
const RATIO: f64 = 2.911;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Model::Plb(plb) = Model::parse("plb:alpha_p=2911ps,alpha_r=1000ps")? else { unreachable!() };
    let weights = Weights::new(plb, 8);
    let search = Search::new(RANKS_MAX, weights.clone());
    let printed = Printed::new();
    println!(
        "ranks,factored,collapsed,merged,best,best_cost,best_cost_printed,heuristic,heuristic_cost,\
         heuristic_cost_printed,descending_cost,descending_cost_printed,doubling_cost"
    );
    for (ranks, count) in (1..=RANKS_MAX).zip(&counts(RANKS_MAX)[1..]) {
        let quick = heuristic(ranks, 12, &weights, Order::Sorted);
        // As here, and as the thesis' own loop, which stops before the upper bound.
        let descending = heuristic(ranks, 12, &weights, Order::Descending);
        let stops_before = heuristic(ranks, 11, &weights, Order::Descending);
        let best = search.best(ranks);
        let cost = |word: &Word| {
            weights.time(&Fitted::new(word.clone(), ranks).expect("it fits").cost(8)).0 as f64 / 1e3
        };
        println!(
            "{ranks},{},{},{},\"{best}\",{:.3},{:.3},\"{quick}\",{:.3},{:.3},{:.3},{:.3},{:.3}",
            count.factored,
            count.collapsed,
            count.merged,
            cost(&best),
            printed.best(ranks),
            cost(&quick),
            Printed::cost_of(&quick),
            cost(&descending),
            Printed::cost_of(&stops_before),
            cost(&Word::recursive_doubling(ranks)),
        );
    }
    Ok(())
}

/// The rule behind the thesis' printed figures: the last stage of a merge sends to the ranks that stand aside as if there
/// were as many groups as the first factor says. The best schedules are listed with their largest factor first.
struct Printed {
    /// Of each number of working ranks, the cost and the largest factor of each factorisation, and their number.
    factorisations: Vec<Vec<(f64, u32, usize)>>,
}

impl Printed {
    fn new() -> Printed {
        let all = (0..=RANKS_MAX).map(|working| {
            let mut found = Vec::new();
            collect(working, working, (0.0, 1, 0), &mut found);
            found
        });
        Printed { factorisations: all.collect() }
    }

    fn best(&self, ranks: u32) -> f64 {
        let words = (1..=ranks).flat_map(|working| {
            let remainder = ranks - working;
            let factorisations = self.factorisations[working as usize].iter();
            let fits = factorisations.filter(move |&&(_, _, factors)| remainder == 0 || factors > 1);
            fits.map(move |&(cost, largest, _)| cost + merging(remainder, largest))
        });
        // With merges that dear, collapses pay now and then.
        let collapsed = (2..=ranks).flat_map(|block| {
            let ends = 2.0 * RATIO + f64::from(block);
            (1..=ranks / block).flat_map(move |blocks| {
                let inner = &self.factorisations[(ranks - blocks * (block - 1)) as usize];
                inner.iter().map(move |&(cost, _, _)| cost + ends)
            })
        });
        words.chain(collapsed).fold(f64::INFINITY, f64::min)
    }

    fn cost_of(word: &Word) -> f64 {
        let (mut cost, mut first, mut remainder) = (0.0, None, 0);
        for stage in &word.stages {
            let factor = match *stage {
                Stage::Factor { factor } => factor,
                Stage::Merge(merged) | Stage::InverseMerge(merged) => {
                    remainder = merged.remainder;
                    merged.factor
                }
                _ => unreachable!("the heuristic's words for so many ranks have no other stages"),
            };
            cost += RATIO + f64::from(factor) - 1.0;
            first.get_or_insert(factor);
        }
        cost + merging(remainder, first.unwrap_or(1))
    }
}

fn merging(remainder: u32, largest: u32) -> f64 {
    if remainder == 0 { 0.0 } else { f64::from(1 + remainder.div_ceil(largest)) }
}

/// Collects the factorisations of `number` into factors up to `most`, behind what `so_far` has.
fn collect(number: u32, most: u32, so_far: (f64, u32, usize), found: &mut Vec<(f64, u32, usize)>) {
    if number == 1 {
        return found.push(so_far);
    }
    let (cost, largest, factors) = so_far;
    for factor in (2..=most.min(number)).filter(|&factor| number.is_multiple_of(factor)) {
        let with = (cost + RATIO + f64::from(factor) - 1.0, largest.max(factor), factors + 1);
        collect(number / factor, factor, with, found);
    }
}
