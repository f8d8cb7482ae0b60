//! Which algorithm serves a call: built-in defaults, and rules from a tuning file in front of them.
//!
//! Start at [`Decisions::choose`]. A [`TuningFile`] holds what `castell tune` found out on a machine; it is text here, and
//! where it lies is not this room's business.

mod builtin;
pub mod export;
mod file;

pub use crate::operation::Operation;
pub use file::{Foreign, Machine, Measured, Rule, TuningError, TuningFile};

use crate::search::{Search, Weights};
use castell_model::Plb;
use std::borrow::Cow;

/// Up to so many ranks the model's best word is searched for; beyond, the heuristic's is taken, which is found at once.
const SEARCHED_RANKS_MAX: u32 = 4096;

/// What is known of a call. All ranks have to ask the same question, or they would run different algorithms: what only
/// some of them know must not be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The operation.
    pub operation: Operation,
    /// Size of the group, at least 1.
    pub ranks: u32,
    /// Size of the vector that is broadcast or reduced; of the block of one rank where blocks are gathered, scattered or
    /// exchanged, and of that which stays with a rank for reduce-scatters. 0 where not all ranks know it. Bytes.
    pub bytes: u64,
    /// Whether the operator commutes; true where nothing is reduced.
    pub commutative: bool,
    /// Whether the blocks lie one behind the other in the order of their ranks.
    pub packed: bool,
    /// Whether the blocks have one size besides.
    pub uniform: bool,
    /// How many processors the ranks share. Where there are fewer than ranks, every wait of a rank costs a change of
    /// processes, and algorithms in which a rank waits seldom are chosen, however many messages they send.
    pub processors: u32,
    /// Whether the call is started, to be waited for later: each message costs more then, and on shared processors others carry it on.
    pub started: bool,
    /// How many hosts the ranks are on; 1 where they share memory, and where nobody knows.
    pub hosts: u32,
    /// Whether reductions have to give the same bits wherever the ranks are, also where these share memory.
    pub same_bits: bool,
}

impl Question {
    /// For an operator that commutes, for blocks of one size one behind the other, a processor for each rank, and a call that is waited
    /// for.
    pub fn new(operation: Operation, ranks: u32, bytes: u64) -> Question {
        let processors = u32::MAX;
        Question {
            operation,
            ranks,
            bytes,
            commutative: true,
            packed: true,
            uniform: true,
            processors,
            started: false,
            hosts: 1,
            same_bits: false,
        }
    }

    /// Whether it is for an algorithm that knows of hosts, as where messages between some ranks cross a network.
    pub fn is_for_hosts(&self) -> bool {
        self.hosts > 1 || self.same_bits && self.operation.reduces()
    }

    /// Whether ranks share processors.
    pub fn is_crowded(&self) -> bool {
        self.ranks > self.processors
    }
}

/// An algorithm with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The name, as [`Collective::new`](crate::collective::Collective::new) takes it: `allreduce:a4,a2`.
    pub algorithm: Cow<'a, str>,
    /// Messages a round, where the algorithm has a choice ([`Shape::ways`](crate::collective::Shape::ways)).
    pub ways: u32,
    /// Size of a segment, where the algorithm works in segments. Bytes.
    pub segment_bytes: u64,
}

impl<'a> Choice<'a> {
    /// One message a round, segments of 64 KiB.
    pub fn new(algorithm: impl Into<Cow<'a, str>>) -> Choice<'a> {
        Choice { algorithm: algorithm.into(), ways: 1, segment_bytes: 65536 }
    }

    /// The same with a name of its own.
    pub fn into_owned(self) -> Choice<'static> {
        Choice { algorithm: Cow::Owned(self.algorithm.into_owned()), ..self }
    }
}

/// What to choose when.
///
/// ```
/// use castell_collectives::decision::{Decisions, Operation, Question};
/// let decisions = Decisions::builtin();
/// let choice = decisions.choose(&Question::new(Operation::Allreduce, 8, 8));
/// assert_eq!(choice.algorithm, "allreduce:a8");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    rules: Vec<Rule>,
    model: Option<Plb>,
}

impl Decisions {
    /// What is chosen without a tuning file.
    pub fn builtin() -> Decisions {
        Decisions::default()
    }

    /// These rules, in their order, before the built-in defaults; `model` for rules that leave the choice to it.
    pub fn with_rules(rules: Vec<Rule>, model: Option<Plb>) -> Decisions {
        Decisions { rules, model }
    }

    /// The algorithm for a call: that of the first rule that fits, or the built-in one. It fits the question's ranks and
    /// blocks, and keeps the order of operands where the operator does not commute.
    ///
    /// Allocates only where a rule leaves the word to the model, and for words that depend on the number of ranks.
    pub fn choose(&self, question: &Question) -> Choice<'_> {
        let rule = self.rules.iter().find(|rule| rule.fits(question));
        rule.and_then(|rule| self.follow(rule, question)).unwrap_or_else(|| builtin::choose(question))
    }

    fn follow<'a>(&'a self, rule: &'a Rule, question: &Question) -> Option<Choice<'a>> {
        let algorithm = if rule.is_of_model() {
            Cow::Owned(self.word_of_model(question)?)
        } else {
            Cow::Borrowed(rule.algorithm.as_str())
        };
        Some(Choice { algorithm, ways: rule.ways, segment_bytes: rule.segment_bytes })
    }

    fn word_of_model(&self, question: &Question) -> Option<String> {
        use crate::search::{Order, heuristic};
        let weights = Weights::new(self.model.clone()?, question.bytes);
        let ranks = question.ranks.max(1);
        let word = if ranks <= SEARCHED_RANKS_MAX {
            Search::new(ranks, weights).best(ranks)
        } else {
            heuristic(ranks, weights.factor_max(ranks), &weights, Order::Sorted)
        };
        Some(format!("{}:{word}", question.operation))
    }
}
