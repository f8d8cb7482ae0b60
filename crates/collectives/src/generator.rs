//! From names to patterns: `barrier:dissemination`, `allreduce:a4,a2`, `pingpong:100`.

use crate::collective::{ALGORITHMS, Blocks, Collective, CollectiveError, Placement, Shape};
use crate::dissemination::{Dissemination, WayDissemination};
use crate::halving::HalvingDoubling;
use crate::language::{self, Allreduce, Word};
use crate::linear::{self, Linear, LinearAlltoall, LinearBarrier};
use crate::pattern::{Named, PS_A_NS, Pattern};
use crate::point::{Multicast, PingPong};
use crate::ring::{ChainBroadcast, DoubleRing, RingAllreduce};
use crate::tree::{self, BinaryBroadcast, Binomial};
use castell_base::{Rank, Time};
use std::sync::Arc;

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
    /// Size of a piece, for what goes in pieces; at least 1.
    pub segment_bytes: u64,
    /// Messages that a rank sends a round, for what has a choice; at least 1.
    pub ways: u32,
    /// Who shares a host, for what works on two levels; `None`: so many consecutive ranks as `ways`, and one more.
    pub placement: Option<Arc<Placement>>,
}

impl Options {
    /// `ranks` ranks, 8 bytes, no computation, root 0, segments of 64 KiB, 1 way, no hosts.
    pub fn new(ranks: u32) -> Options {
        Options {
            ranks,
            bytes: 8,
            compute: Time(0),
            root: Rank(0),
            segment_bytes: 65536,
            ways: 1,
            placement: None,
        }
    }
}

/// Why there is no such pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorError {
    /// A name that nobody has.
    #[error(
        "`{name}` is no pattern; there are {}, and `allreduce:` with a word such as a4,a2; `castell schedule list` shows all",
        known()
    )]
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
    /// A collective that cannot be.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
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

/// A pattern that has a name.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The name, as `operation:algorithm` mostly.
    pub name: &'static str,
    /// What LogGOPSim's generator calls the same pattern, with the same vertices in the same order; or empty.
    pub alias: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    make: fn(&Options) -> Result<Box<dyn Pattern>, GeneratorError>,
}

impl Generator {
    /// The pattern of that name.
    ///
    /// Besides the names in [`GENERATORS`] there are those of [`ALGORITHMS`], `pingpong:` with a number of rounds, and
    /// `allreduce:`, `barrier:`, `reduce_scatter:` and `allgather:` with a word of the [`language`]. Where both tables have
    /// a name, this one's pattern is taken, which has the same messages.
    ///
    /// ```
    /// use castell_collectives::generator::{Generator, Options};
    /// let pattern = Generator::parse("allreduce:a4,a2", &Options::new(8))?;
    /// assert_eq!(pattern.name(), "allreduce:a4,a2");
    /// let error = Generator::parse("allreduce:a4,a2", &Options::new(16)).err().unwrap();
    /// assert!(error.to_string().contains("ranks 0 and 8 would disagree"), "{error}");
    /// # Ok::<(), castell_collectives::generator::GeneratorError>(())
    /// ```
    ///
    /// # Errors
    /// A name that nobody has, a word that does not fit, options that cannot be.
    pub fn parse(name: &str, options: &Options) -> Result<Box<dyn Pattern>, GeneratorError> {
        check(options)?;
        let is_named = |generator: &&Generator| name == generator.name || name == generator.alias;
        if let Some(generator) = GENERATORS.iter().find(is_named).filter(|_| !name.is_empty()) {
            return (generator.make)(options);
        }
        let &Options { ranks, bytes, compute, .. } = options;
        match name.split_once(':') {
            Some(("pingpong", rounds)) => {
                let rounds = rounds.parse().map_err(|_| GeneratorError::Count { name: name.into() })?;
                Ok(Box::new(PingPong::new(ranks, bytes, rounds)))
            }
            Some(_) if is_collective(name) => {
                let collective = Collective::new(name, shape(name, options))?;
                Ok(Box::new(collective.with_compute(compute)))
            }
            Some(("allreduce", word)) => {
                let word: Result<Word, _> = word.parse();
                let word = word.map_err(|error| GeneratorError::Word { name: name.into(), error })?;
                Ok(Box::new(Allreduce::new(word, ranks, bytes, compute)?))
            }
            _ => Err(GeneratorError::Unknown { name: name.into() }),
        }
    }
}

/// Whether this is an algorithm of a collective operation, or a word of one other than the allreduce.
fn is_collective(name: &str) -> bool {
    let is_named = ALGORITHMS.iter().any(|algorithm| algorithm.name == name);
    let words = ["barrier:", "reduce_scatter:", "allgather:"];
    is_named
        || ["allreduce:direct", "allreduce:hierarchical", "allreduce:rabenseifner"].contains(&name)
        || words.iter().any(|word| name.starts_with(word))
}

/// The data of a collective: single bytes, `bytes` of them in the vector or in each rank's block; of a reduce-scatter, in
/// all blocks together.
fn shape(name: &str, options: &Options) -> Shape {
    let &Options { ranks, bytes, root, segment_bytes, ways, .. } = options;
    let placement = options.placement.clone();
    let shape =
        Shape { segment: segment_bytes, ways, placement, ..Shape::new(ranks, bytes, 1).with_root(root) };
    if name.starts_with("reduce_scatter:") { shape.with_blocks(Blocks::Even(bytes)) } else { shape }
}

/// Writes the table of generators: name, alias, summary, and the pattern made of options `o`.
macro_rules! generators {
    ($($name:literal, $alias:literal, $summary:literal, |$o:ident| $make:expr;)*) => {
        &[$(Generator {
            name: $name,
            alias: $alias,
            summary: $summary,
            make: |$o: &Options| -> Result<Box<dyn Pattern>, GeneratorError> { Ok(Box::new($make)) },
        }),*]
    };
}

/// All patterns that have a name.
pub const GENERATORS: &[Generator] = generators! {
    "pingpong", "", "ranks 0 and 1 send a message to and fro; pingpong:100 does it 100 times",
        |o| PingPong::new(o.ranks, o.bytes, 1);
    "multicast", "", "the root sends a message to each other rank", |o| Multicast::new(o.ranks, o.bytes, o.root);
    "double-ring", "doublering", "a message round the ring in both directions",
        |o| DoubleRing::new(o.ranks, o.bytes);
    "barrier:dissemination", "dissemination", "⌈log2 ranks⌉ rounds, distances double",
        |o| Dissemination::new(o.ranks, o.bytes, o.compute);
    "barrier:linear", "linbarrier", "rank 0 hears from all, then tells all (1-byte messages)",
        |o| LinearBarrier::new(o.ranks);
    "bcast:binomial", "binomialtreebcast", "along a binomial tree, distances double",
        |o| Binomial::new(tree::Direction::Broadcast, o.ranks, o.bytes, o.root);
    "bcast:binary", "binarytreebcast", "along a binary tree",
        |o| BinaryBroadcast::new(o.ranks, o.bytes, o.root);
    "bcast:chain", "pipelinedring", "along a chain, in segments",
        |o| ChainBroadcast::new(o.ranks, o.bytes, o.segment_bytes, o.root, false);
    "bcast:chain-in-step", "pipelinedringdep", "along a chain; the next segment is taken once the last one is passed on",
        |o| ChainBroadcast::new(o.ranks, o.bytes, o.segment_bytes, o.root, true);
    "gather:linear", "gather", "all others send to the root",
        |o| Linear::new(linear::Direction::Gather, o.ranks, o.bytes, o.root);
    "scatter:linear", "scatter", "the root sends to all others",
        |o| Linear::new(linear::Direction::Scatter, o.ranks, o.bytes, o.root);
    "alltoall:linear", "linear_alltoall", "everybody sends to everybody at once",
        |o| LinearAlltoall::new(o.ranks, o.bytes);
    "reduce:binomial", "binomialtreereduce", "along a binomial tree, distances double",
        |o| Binomial::new(tree::Direction::Reduce, o.ranks, o.bytes, o.root);
    "allreduce:recursive-doubling", "", "pairs exchange and reduce, distances double",
        |o| {
            let word = Word::recursive_doubling(o.ranks);
            Named { name: "allreduce:recursive-doubling", pattern: Allreduce::new(word, o.ranks, o.bytes, o.compute)? }
        };
    "allreduce:halving-doubling", "allreduce_recdoub",
        "recursive halving and reducing, then recursive doubling; powers of two",
        |o| {
            let name = "allreduce:halving-doubling";
            let pattern = HalvingDoubling::new(o.ranks, o.bytes, o.compute);
            pattern.ok_or(GeneratorError::PowerOfTwo { name: name.into(), ranks: o.ranks })?
        };
    "allreduce:ring", "allreduce_ring", "a reduce-scatter round the ring, then an allgather",
        |o| RingAllreduce::new(o.ranks, o.bytes, o.compute);
    "allreduce:dissemination", "nwaydissemination", "each round to `ways` others; a calc of 1 ns a byte",
        |o| WayDissemination::new(o.ranks, o.bytes, o.ways);
};

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
    if options.segment_bytes == 0 || options.ways == 0 {
        return refuse("segments have at least 1 byte, and there is at least 1 way".into());
    }
    if let Some(places) = options.placement.as_ref().map(|it| it.ranks()).filter(|it| *it != options.ranks) {
        return refuse(format!("{places} ranks have a host, and the group has {}", options.ranks));
    }
    if !options.compute.0.is_multiple_of(PS_A_NS) {
        return refuse(format!("the computation of {} is not whole nanoseconds", options.compute));
    }
    Ok(())
}

fn known() -> String {
    GENERATORS.iter().map(|generator| generator.name).collect::<Vec<_>>().join(", ")
}
