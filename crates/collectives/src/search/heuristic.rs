//! Algorithm 7 of the thesis: a good word at once.

use super::Weights;
use crate::language::Word;

/// In which order the heuristic tries factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By (c + d - 1) / ln d, the cheapest first.
    Sorted,
    /// From the largest to the smallest.
    Descending,
}

/// So many remainders are tried one after the other, before smooth numbers are listed.
const TRIED: u32 = 16;
/// Factors up to here make few enough smooth numbers to list them.
const LISTED_FACTOR_MAX: u32 = 16;

/// A word for `ranks` ranks made of factors from 2 to `factor_max` (at least 2): each factor in turn is divided out as
/// often as it goes; if something is left, one rank more is merged. Where there is no such word it is recursive doubling.
///
/// ```
/// use castell_collectives::search::{Order, Weights, heuristic};
/// use castell_model::Model;
/// let Model::Plb(plb) = Model::parse("plb:alpha_p=2911ps,alpha_r=1000ps")? else { unreachable!() };
/// let word = heuristic(23, 12, &Weights::new(plb, 8), Order::Sorted);
/// assert_eq!(word.to_string(), "m1g2a11,n1g11a2");
/// # Ok::<(), castell_model::ModelError>(())
/// ```
///
/// # Panics
/// Where `factor_max` is below 2.
pub fn heuristic(ranks: u32, factor_max: u32, weights: &Weights, order: Order) -> Word {
    assert!(factor_max >= 2, "factors begin at 2, at most {factor_max} leaves none");
    let candidates = candidates(factor_max.min(ranks.max(2)), weights, order);
    for remainder in 0..ranks.min(TRIED) {
        if let Some(factors) = divide(ranks - remainder, &candidates, remainder) {
            return Word::merged(&factors, remainder);
        }
    }
    let working = if factor_max <= LISTED_FACTOR_MAX {
        largest_smooth(ranks, &candidates)
    } else {
        (2..ranks - ranks.min(TRIED)).rev().find(|&working| divide(working, &candidates, 1).is_some())
    };
    match working.and_then(|working| divide(working, &candidates, 1).map(|factors| (working, factors))) {
        Some((working, factors)) => Word::merged(&factors, ranks - working),
        None => Word::recursive_doubling(ranks),
    }
}

fn candidates(factor_max: u32, weights: &Weights, order: Order) -> Vec<u32> {
    let mut candidates: Vec<u32> = (2..=factor_max).rev().collect();
    if order == Order::Sorted {
        let ratio = weights.ratio();
        let mut priced: Vec<(f64, u32)> =
            candidates.iter().map(|&d| ((ratio + f64::from(d) - 1.0) / f64::from(d).ln(), d)).collect();
        priced.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        candidates = priced.into_iter().map(|(_, d)| d).collect();
    }
    candidates
}

/// Divides each candidate out as often as it goes; `None` if something is left, or if ranks could not be merged.
fn divide(working: u32, candidates: &[u32], remainder: u32) -> Option<Vec<u32>> {
    let mut left = working;
    for &factor in candidates {
        while left.is_multiple_of(factor) {
            left /= factor;
        }
    }
    if left != 1 {
        return None;
    }
    let mut factors = Vec::new();
    let mut left = working;
    for &factor in candidates {
        while left.is_multiple_of(factor) {
            factors.push(factor);
            left /= factor;
        }
    }
    (remainder == 0 || factors.len() > 1).then_some(factors)
}

/// The largest number up to `ranks` that is a product of two or more candidates.
fn largest_smooth(ranks: u32, candidates: &[u32]) -> Option<u32> {
    let is_prime = |number: u32| (2..number).all(|divisor| !number.is_multiple_of(divisor));
    let primes: Vec<u32> = candidates.iter().copied().filter(|&d| d > 2 && is_prime(d)).collect();
    let mut best = 0;
    extend(1, u64::from(ranks), &primes, &mut best);
    divide(best as u32, candidates, 1).is_some().then_some(best as u32)
}

/// Tries all products of `odd` with primes, each with the largest power of two that goes.
fn extend(odd: u64, most: u64, primes: &[u32], best: &mut u64) {
    let twos = (most / odd).ilog2();
    *best = (*best).max(odd << twos);
    for (index, &prime) in primes.iter().enumerate() {
        if odd * u64::from(prime) <= most {
            extend(odd * u64::from(prime), most, &primes[index..], best);
        }
    }
}
