//! All words of some kinds: how many there are, and for small numbers of ranks which.

use crate::language::{Fold, Stage, Word};

/// How many words there are, factors without order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Factorisations.
    pub factored: u64,
    /// A collapse, a factorisation, an expand.
    pub collapsed: u64,
    /// Merges into a factorisation of two or more factors.
    pub merged: u64,
}

/// Counts the words for each number of ranks up to `ranks_max` (figure 5.15 of the thesis); the result is indexed by the
/// number of ranks.
pub fn counts(ranks_max: u32) -> Vec<Counts> {
    let length = ranks_max as usize + 1;
    let mut factored = vec![0_u64; length];
    if let Some(one) = factored.get_mut(1) {
        *one = 1;
    }
    for factor in 2..length {
        for (index, product) in (factor..length).step_by(factor).enumerate() {
            factored[product] += factored[index + 1];
        }
    }
    let mut merged = 0;
    let mut all = vec![Counts::default(); length];
    for ranks in 1..length {
        all[ranks].factored = factored[ranks];
        all[ranks].merged = merged;
        merged += factored[ranks] - 1;
        for block in 2..=ranks {
            let working = (1..=ranks / block).map(|blocks| ranks - blocks * (block - 1));
            all[ranks].collapsed += working.map(|working| factored[working]).sum::<u64>();
        }
    }
    // One rank has nothing to do, which is no word to choose.
    if let Some(one) = all.get_mut(1) {
        *one = Counts::default();
    }
    all
}

/// All words for `ranks` ranks out of factorisations (factors descending), collapses around one, and merges into one
/// with every choice of its first and last factor; at most `most` of them.
pub fn all_words(ranks: u32, most: usize) -> Vec<Word> {
    let mut words = Vec::new();
    for factors in factorisations(ranks, ranks) {
        words.push(Word::of_factors(factors));
    }
    for working in (4..ranks).rev() {
        for factors in factorisations(working, working) {
            merges(&factors, ranks - working, &mut words);
        }
        if words.len() >= most {
            break;
        }
    }
    for fold in folds(ranks) {
        if words.len() >= most {
            break;
        }
        let working = ranks - fold.ranks / fold.block * (fold.block - fold.keep);
        for factors in factorisations(working, working) {
            let mut word = Word::of_factors(factors);
            word.stages.insert(0, Stage::Collapse(fold));
            word.stages.push(Stage::Expand(fold));
            words.push(word);
        }
    }
    words.truncate(most);
    words
}

/// All collapses of some of `ranks` ranks.
fn folds(ranks: u32) -> impl Iterator<Item = Fold> {
    (2..=ranks).map(|block| (block, 1)).chain([(3, 2)]).flat_map(move |(block, keep)| {
        (1..=ranks / block).map(move |blocks| Fold { ranks: blocks * block, block, keep })
    })
}

/// Merges with each first and last factor.
fn merges(factors: &[u32], remainder: u32, words: &mut Vec<Word>) {
    for first in 0..factors.len() {
        for last in (0..factors.len()).filter(|&last| last != first) {
            let is_repeated = |at: usize| at > 0 && factors[at] == factors[at - 1];
            // Equal factors at other places make the same words again.
            if is_repeated(first) || (is_repeated(last) && last - 1 != first) {
                continue;
            }
            let middle = (0..factors.len()).filter(|&at| at != first && at != last).map(|at| factors[at]);
            let ordered: Vec<u32> =
                [factors[first]].into_iter().chain(middle).chain([factors[last]]).collect();
            words.push(Word::merged(&ordered, remainder));
        }
    }
}

/// The factorisations of a number into factors up to `most`, each descending.
fn factorisations(number: u32, most: u32) -> Vec<Vec<u32>> {
    if number == 1 {
        return vec![Vec::new()];
    }
    let factors = (2..=most.min(number)).rev().filter(|&factor| number.is_multiple_of(factor));
    let longer = |factor| {
        let rest = factorisations(number / factor, factor).into_iter();
        rest.map(move |rest| [vec![factor], rest].concat())
    };
    factors.flat_map(longer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_full_ends_the_search() {
        // All of them would take hours.
        assert_eq!(all_words(720_720, 1000).len(), 1000);
    }
}
