//! From names to patterns: `barrier:dissemination`, `allreduce:a4,a2`, `pingpong:100`.

use crate::dissemination::Dissemination;
use crate::language::{self, Allreduce, Stage, Word};
use crate::pattern::{PS_A_NS, Pattern};
use crate::point::{Multicast, PingPong};
use crate::tree::BinomialBroadcast;
use castell_base::{Rank, Time};

/// What a pattern needs to know besides its name; each pattern takes what it has use for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of the group, at least 1.
    pub ranks: u32,
    /// Size of a message, or of the vector that each rank contributes.
    pub bytes: u64,
    /// How long a rank computes a stage; whole nanoseconds.
    pub compute: Time,
    /// Where broadcasts begin and reductions end.
    pub root: Rank,
}

impl Options {
    /// `ranks` ranks, 8 bytes, no computation, root 0.
    pub fn new(ranks: u32) -> Options {
        Options { ranks, bytes: 8, compute: Time(0), root: Rank(0) }
    }
}

/// Why there is no such pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorError {
    /// A name that nobody has.
    #[error("`{name}` is no pattern; there are {}, and `allreduce:` with a word such as a4,a2", known())]
    Unknown {
        /// The name.
        name: String,
    },
    /// `allreduce:` with something that is no word.
    #[error("`{name}`: neither an algorithm that is known nor a word: {error}")]
    Word {
        /// The name.
        name: String,
        /// What is wrong with it as a word.
        error: language::ParseError,
    },
    /// A word for another number of ranks.
    #[error(transparent)]
    Misfit(#[from] language::Misfit),
    /// Something behind the colon that is no number.
    #[error("`{name}`: expected a number of rounds behind the colon, as in pingpong:100")]
    Count {
        /// The name.
        name: String,
    },
    /// Options that cannot be.
    #[error("{0}")]
    Options(String),
    /// An algorithm for powers of two only.
    #[error("`{name}` takes a power of two as the number of ranks, not {ranks}")]
    PowerOfTwo {
        /// The name.
        name: String,
        /// The number asked for.
        ranks: u32,
    },
}

/// Finds patterns by name.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The name, with `[...]` around what may be left out.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
}

/// All patterns that have a name.
pub const GENERATORS: &[Generator] = &[
    Generator { name: "pingpong[:rounds]", summary: "ranks 0 and 1 send a message to and fro" },
    Generator { name: "multicast", summary: "the root sends a message to each other rank" },
    Generator { name: "barrier:dissemination", summary: "⌈log2 ranks⌉ rounds, distances double" },
    Generator { name: "bcast:binomial", summary: "along a binomial tree, distances double" },
    Generator {
        name: "allreduce:recursive-doubling",
        summary: "pairs exchange and reduce, distances double",
    },
];

impl Generator {
    /// The pattern of that name.
    ///
    /// ```
    /// use castell_collectives::generator::{Generator, Options};
    /// let pattern = Generator::parse("allreduce:a4,a2", &Options::new(8))?;
    /// assert_eq!(pattern.name(), "allreduce:a4,a2");
    /// let error = Generator::parse("allreduce:a4,a2", &Options::new(7)).err().unwrap();
    /// assert!(error.to_string().contains("is for 8 ranks"), "{error}");
    /// # Ok::<(), castell_collectives::generator::GeneratorError>(())
    /// ```
    ///
    /// # Errors
    /// A name that nobody has, a word that does not fit, options that cannot be.
    pub fn parse(name: &str, options: &Options) -> Result<Box<dyn Pattern>, GeneratorError> {
        check(options)?;
        let &Options { ranks, bytes, compute, root } = options;
        let (operation, algorithm) = name.split_once(':').map_or((name, None), |(o, a)| (o, Some(a)));
        Ok(match (operation, algorithm) {
            ("pingpong", rounds) => {
                let rounds = rounds.unwrap_or("1").parse();
                let rounds = rounds.map_err(|_| GeneratorError::Count { name: name.into() })?;
                Box::new(PingPong::new(ranks, bytes, rounds))
            }
            ("multicast", None) => Box::new(Multicast::new(ranks, bytes, root)),
            ("barrier", Some("dissemination")) => Box::new(Dissemination::new(ranks, bytes, compute)),
            ("bcast", Some("binomial")) => Box::new(BinomialBroadcast::new(ranks, bytes, root)),
            ("allreduce", Some("recursive-doubling")) => {
                if !ranks.is_power_of_two() {
                    return Err(GeneratorError::PowerOfTwo { name: name.into(), ranks });
                }
                let stages = vec![Stage::Factor { factor: 2 }; ranks.trailing_zeros() as usize];
                Box::new(Allreduce::new(Word { stages }, ranks, bytes, compute)?)
            }
            ("allreduce", Some(word)) => {
                let word: Result<Word, _> = word.parse();
                let word = word.map_err(|error| GeneratorError::Word { name: name.into(), error })?;
                Box::new(Allreduce::new(word, ranks, bytes, compute)?)
            }
            _ => return Err(GeneratorError::Unknown { name: name.into() }),
        })
    }
}

fn check(options: &Options) -> Result<(), GeneratorError> {
    let refuse = |message: String| Err(GeneratorError::Options(message));
    if options.ranks == 0 {
        return refuse("a group has at least 1 rank; give --ranks".into());
    }
    if options.ranks == u32::MAX {
        return refuse(format!("{} ranks are too many: at most {}", options.ranks, u32::MAX - 1));
    }
    if options.root.0 >= options.ranks {
        let (root, ranks) = (options.root, options.ranks);
        return refuse(format!("root {root} is not among the ranks 0 to {}", ranks - 1));
    }
    if !options.compute.0.is_multiple_of(PS_A_NS) {
        return refuse(format!("the computation of {} is not whole nanoseconds", options.compute));
    }
    Ok(())
}

fn known() -> String {
    GENERATORS.iter().map(|generator| generator.name).collect::<Vec<_>>().join(", ")
}
