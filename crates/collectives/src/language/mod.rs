//! The allreduce schedule language: words for butterfly-like allreduces (Ruefenacht 2020, chapter 5).
//!
//! A word is a list of stages with commas between them. The *working ranks* are those that take part in a stage,
//! numbered from 0; `mask` is the product of the factors before it.
//!
//! | stage | what happens |
//! |---|---|
//! | `aF` | groups of F working ranks at distance `mask` exchange what they have, and all reduce what they get |
//! | `cTmB` | of the first T working ranks, each block of B sends to its last member, which goes on alone |
//! | `eTmB` | the result goes back to those that the matching `cTmB` sent home |
//! | `cTm3k2` | 3-2 elimination: the middle one of each three sends half of its vector to each neighbour, which go on |
//! | `eTm3k2` | both neighbours send the middle one their half of the result |
//! | `mRgGaF` | first stage: the first R ranks stand aside, each sending to all of one of the G groups of F; those do `aF` |
//! | `nRgGaF` | last stage: `aF` in G groups, which also send to the R ranks that stood aside |
//! | `rF` | reduce-scatter: as `aF`, but each member keeps one of F parts of the vector, and reduces that |
//! | `gF` | allgather: the members of the matching `rF` exchange their parts |
//!
//! Recursive doubling on 8 ranks is `a2,a2,a2`, recursive multiplying `a4,a2`, Rabenseifner's allreduce
//! `r2,r2,r2,g2,g2,g2`. Start at [`Word`] (parses and prints), then [`Fitted`] (a word on a number of ranks).

mod allreduce;
mod cost;
mod draw;
mod fit;
mod parse;
mod spaces;
mod steps;

pub use allreduce::Allreduce;
pub use cost::{Cost, StageCost};
pub use draw::DRAWN_RANKS_MAX;
pub use fit::{Fitted, Misfit, Problem};
pub use parse::ParseError;
pub use spaces::Labelling;
pub use steps::{Operand, Reduction, Segment, Step, Transfer};

use std::fmt;
use std::str::FromStr;

/// A word of the language: what the ranks do, stage by stage. It may be empty: one rank has nothing to do.
///
/// ```
/// use castell_collectives::language::Word;
/// let word: Word = "m1g2a3, n1g3a2".parse()?;
/// assert_eq!(word.to_string(), "m1g2a3,n1g3a2");
/// let error = "a4,c6a2".parse::<Word>().unwrap_err();
/// assert_eq!(error.to_string(), "`a4,c6a2`, character 6: expected `m` and the block size, as in `c6m2`, found `a`");
/// # Ok::<(), castell_collectives::language::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Word {
    /// The stages in order.
    pub stages: Vec<Stage>,
}

/// One stage of a [`Word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// `aF`: groups of `factor` ranks exchange and reduce.
    Factor {
        /// Members of a group, at least 2.
        factor: u32,
    },
    /// `cTmB`, `cTm3k2`: some ranks hand over what they have and wait.
    Collapse(Fold),
    /// `eTmB`, `eTm3k2`: they get the result.
    Expand(Fold),
    /// `mRgGaF`: a factor stage into which further ranks merge what they have.
    Merge(Merged),
    /// `nRgGaF`: a factor stage from which those ranks get the result.
    InverseMerge(Merged),
    /// `rF`: groups of `factor` ranks reduce, each member a part.
    ReduceScatter {
        /// Members of a group, at least 2.
        factor: u32,
    },
    /// `gF`: groups of `factor` ranks exchange the parts that the matching `rF` left them.
    Allgather {
        /// Members of a group, at least 2.
        factor: u32,
    },
}

/// Which ranks a collapse sends home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fold {
    /// So many working ranks, the first ones, are in blocks.
    pub ranks: u32,
    /// Ranks of a block, at least 2.
    pub block: u32,
    /// Ranks of a block that go on: 1, or 2 of 3.
    pub keep: u32,
}

/// A factor stage with ranks that stand aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Merged {
    /// Ranks that stand aside, at least 1.
    pub remainder: u32,
    /// Groups of the stage, at least 1.
    pub groups: u32,
    /// Members of a group, at least 2.
    pub factor: u32,
}

impl Word {
    /// The word of these factors: `a` stages.
    pub fn of_factors(factors: impl IntoIterator<Item = u32>) -> Word {
        Word { stages: factors.into_iter().map(|factor| Stage::Factor { factor }).collect() }
    }

    /// Recursive doubling on any number of ranks: factors of 2 for the largest power of two, of which the others
    /// are neighbours (a collapse before and an expand behind).
    pub fn recursive_doubling(ranks: u32) -> Word {
        let power = ranks.max(1).ilog2();
        let others = ranks.max(1) - (1 << power);
        let mut word = Word::of_factors((0..power).map(|_| 2));
        if others > 0 {
            let fold = Fold { ranks: 2 * others, block: 2, keep: 1 };
            word.stages.insert(0, Stage::Collapse(fold));
            word.stages.push(Stage::Expand(fold));
        }
        word
    }

    /// Rabenseifner's allreduce on any number of ranks: the vector is halved until each rank of the largest power of two
    /// has reduced a part, and the parts are put together again; the other ranks are neighbours of those (a collapse
    /// before and an expand behind).
    pub fn rabenseifner(ranks: u32) -> Word {
        let doubling = Word::recursive_doubling(ranks);
        let power = ranks.max(1).ilog2() as usize;
        let at = doubling.stages.iter().position(|stage| matches!(stage, Stage::Factor { .. })).unwrap_or(0);
        let mut word = doubling;
        let halves = [Stage::ReduceScatter { factor: 2 }, Stage::Allgather { factor: 2 }];
        word.stages
            .splice(at..at + power, halves.into_iter().flat_map(|stage| std::iter::repeat_n(stage, power)));
        word
    }

    /// Each rank reduces one part of the vector, which all others send to it, and sends the result to all others.
    pub fn direct(ranks: u32) -> Word {
        let stages = [Stage::ReduceScatter { factor: ranks }, Stage::Allgather { factor: ranks }];
        Word { stages: if ranks > 1 { stages.into() } else { Vec::new() } }
    }

    /// The word for `remainder` ranks beside the product of these factors (two or more): the first stage merges them,
    /// the last one gives them the result. Without a remainder it is [`Word::of_factors`].
    ///
    /// # Panics
    /// Where ranks are to be merged into less than two factors.
    pub fn merged(factors: &[u32], remainder: u32) -> Word {
        let mut word = Word::of_factors(factors.iter().copied());
        if remainder == 0 {
            return word;
        }
        assert!(factors.len() > 1, "merging takes two stages, there are {}", factors.len());
        let working: u32 = factors.iter().product();
        let merged = |factor| Merged { remainder, groups: working / factor, factor };
        let last = factors.len() - 1;
        word.stages[0] = Stage::Merge(merged(factors[0]));
        word.stages[last] = Stage::InverseMerge(merged(factors[last]));
        word
    }
}

impl FromStr for Word {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Word, ParseError> {
        parse::word(text)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stage) in self.stages.iter().enumerate() {
            write!(f, "{}{stage}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Factor { factor } => write!(f, "a{factor}"),
            Stage::Collapse(fold) => write!(f, "c{fold}"),
            Stage::Expand(fold) => write!(f, "e{fold}"),
            Stage::Merge(merged) => write!(f, "m{merged}"),
            Stage::InverseMerge(merged) => write!(f, "n{merged}"),
            Stage::ReduceScatter { factor } => write!(f, "r{factor}"),
            Stage::Allgather { factor } => write!(f, "g{factor}"),
        }
    }
}

impl fmt::Display for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}m{}", self.ranks, self.block)?;
        if self.keep > 1 { write!(f, "k{}", self.keep) } else { Ok(()) }
    }
}

impl fmt::Display for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}g{}a{}", self.remainder, self.groups, self.factor)
    }
}
