//! The allreduce schedule language: words for butterfly-like allreduces (Ruefenacht 2020, chapter 5).
//!
//! A word is a list of stages with commas between them. In `aF` the ranks are cut in groups of F, each member sends
//! what it has to the F - 1 others of its group, and all of them reduce what they got. Recursive doubling on 8 ranks
//! is `a2,a2,a2`; `a4,a2` is recursive multiplying. Start at [`Word`].

mod factors;
mod parse;

pub use factors::{Allreduce, Misfit};
pub use parse::ParseError;

use std::fmt;
use std::str::FromStr;

/// A word of the language: what the ranks do, stage by stage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
        }
    }
}
