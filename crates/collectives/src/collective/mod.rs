//! Collective operations that move data: every algorithm as a graph with buffers and local operations.
//!
//! An algorithm is written as a sequential program of one rank (send this, receive that, reduce); the edges of its
//! graph follow from the elements that the operations touch. Without memory the same algorithm is a
//! [`Pattern`] for simulations. Start at [`Collective`]; [`ALGORITHMS`] lists what there is.

mod alltoall;
mod barrier;
mod broadcast;
mod gather;
mod memory;
mod neighbours;
mod placement;
mod rabenseifner;
mod reduce;
mod scan;
mod shape;
mod two_level;
mod weaver;
mod words;

pub use memory::{Combine, Memory, Messages};
pub use neighbours::Neighbours;
pub use placement::Placement;
pub use shape::{Blocks, Shape};

use crate::language::{Fitted, Misfit, Word};
use crate::pattern::{PS_A_NS, Pattern};
use castell_base::{Rank, Time};
use castell_goal::graph::{Graph, GraphError};
use castell_goal::op::{Arithmetic, Place};
use weaver::Weaver;

/// One algorithm for one collective operation.
pub struct Algorithm {
    /// `operation:algorithm`.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Whether operands are combined in the order of the ranks, as operators need that don't commute; true of
    /// operations that reduce nothing.
    pub keeps_order: bool,
    /// What the shape must be like.
    needs: Needs,
    weave: fn(&Shape, &mut Weaver<'_>) -> Result<(), GraphError>,
}

impl Algorithm {
    /// Whether it does shapes with so many ranks whose blocks lie one behind the other (`packed`) or have one size besides
    /// (`uniform`).
    pub fn fits(&self, ranks: u32, packed: bool, uniform: bool) -> bool {
        match self.needs {
            Needs::Nothing => true,
            Needs::Packed => packed,
            Needs::PackedPowerOfTwo => packed && ranks.is_power_of_two(),
            Needs::Uniform => uniform,
        }
    }
}

/// What an algorithm needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Blocks that lie one behind the other in the order of their ranks.
    Packed,
    /// And a power of two as the number of ranks.
    PackedPowerOfTwo,
    /// Blocks of one size.
    Uniform,
}

/// Why there is no such collective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectiveError {
    /// A name that nobody has.
    #[error("`{name}` is no collective operation with its algorithm{}{word}", others(name))]
    Unknown {
        /// The name.
        name: String,
        /// Where words are taken: what is wrong with it as a word.
        word: String,
    },
    /// A word that does not fit.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// A shape that the algorithm cannot do.
    #[error("{name} needs {needs}; {instead}")]
    Shape {
        /// The algorithm.
        name: String,
        /// What it needs.
        needs: &'static str,
        /// What to do.
        instead: String,
    },
    /// An operator that does not commute.
    #[error(
        "{name} does not combine in the order of ranks, which an operator that does not commute needs{}",
        ordered(name)
    )]
    Order {
        /// The algorithm.
        name: String,
    },
}

fn operation(name: &str) -> &str {
    name.split_once(':').map_or(name, |(operation, _)| operation)
}

/// The algorithms of the same operation, as the rest of a sentence.
fn others(name: &str) -> String {
    let of_operation = |algorithm: &&Algorithm| operation(algorithm.name) == operation(name);
    let names: Vec<&str> = ALGORITHMS.iter().filter(of_operation).map(|algorithm| algorithm.name).collect();
    if names.is_empty() {
        "; `castell schedule list` shows them".into()
    } else {
        format!("; there are {}", names.join(", "))
    }
}

fn ordered(name: &str) -> String {
    let fits = |algorithm: &&Algorithm| algorithm.keeps_order && operation(algorithm.name) == operation(name);
    let names: Vec<&str> = ALGORITHMS.iter().filter(fits).map(|algorithm| algorithm.name).collect();
    if names.is_empty() { String::new() } else { format!("; {} do", names.join(", ")) }
}

/// Writes the table of algorithms.
macro_rules! algorithms {
    ($($name:literal, $summary:literal, $keeps_order:literal, $needs:ident, $weave:expr;)*) => {
        &[$(Algorithm { name: $name, summary: $summary, keeps_order: $keeps_order, needs: Needs::$needs, weave: $weave }),*]
    };
}

/// All algorithms that have a name; words of the schedule language are algorithms, too.
pub const ALGORITHMS: &[Algorithm] = algorithms! {
    "barrier:dissemination", "⌈log ranks⌉ rounds of `ways` messages", true, Nothing, barrier::dissemination;
    "barrier:linear", "rank 0 hears from all, then tells all", true, Nothing, barrier::linear;
    "barrier:tree", "up a binomial tree and down again", true, Nothing, barrier::tree;
    "barrier:two-level", "leaders of hosts hear from theirs, do recursive doubling, and tell them", true, Nothing, two_level::barrier;
    "bcast:linear", "the root sends to all", true, Nothing, broadcast::linear;
    "bcast:chain", "along a chain, in segments", true, Nothing, broadcast::chain;
    "bcast:binary", "along a binary tree", true, Nothing, broadcast::binary;
    "bcast:binary-segmented", "along a binary tree, in segments", true, Nothing, broadcast::binary_segmented;
    "bcast:binomial", "along a binomial tree, distances double", true, Nothing, broadcast::binomial;
    "bcast:binomial-in-order", "along a binomial tree whose subtrees are consecutive ranks", true, Nothing, broadcast::binomial_in_order;
    "bcast:k-nomial", "along a tree in which each rank sends `ways` messages a round", true, Nothing, broadcast::k_nomial;
    "bcast:scatter-allgather", "a binomial scatter, then a ring (van de Geijn)", true, Nothing, broadcast::scatter_allgather;
    "bcast:two-level", "along a binomial tree of the hosts, then within them", true, Nothing, two_level::broadcast;
    "bcast:two-level-split", "scattered over the hosts, a ring of their leaders, then within them", true, Nothing, two_level::broadcast_split;
    "gather:linear", "all others send to the root", true, Nothing, gather::gather_linear;
    "gather:linear-sync", "the root calls for each rank's rest once it is ready for it", true, Nothing, gather::gather_linear_sync;
    "gather:binomial", "up a binomial tree", true, Nothing, gather::gather_binomial;
    "gather:two-level", "leaders of hosts send their host's blocks together", true, Nothing, two_level::gather;
    "scatter:linear", "the root sends to all others", true, Nothing, gather::scatter_linear;
    "scatter:binomial", "down a binomial tree", true, Nothing, gather::scatter_binomial;
    "scatter:two-level", "a host's blocks go to its leader together", true, Nothing, two_level::scatter;
    "allgather:linear", "everybody sends to everybody", true, Nothing, gather::allgather_linear;
    "allgather:ring", "blocks go round a ring", true, Nothing, gather::allgather_ring;
    "allgather:recursive-doubling", "pairs exchange what they have, distances double", true, PackedPowerOfTwo, gather::allgather_doubling;
    "allgather:bruck", "⌈log ranks⌉ rounds of `ways` messages, then blocks are put in order", true, Nothing, gather::allgather_bruck;
    "allgather:gather-bcast", "rank 0 hears from all, then tells all", true, Packed, gather::allgather_gather_bcast;
    "allgather:two-level", "leaders of hosts exchange their hosts' blocks by recursive doubling", true, Packed, two_level::allgather;
    "allgather:two-level-ring", "hosts' blocks go round a ring of their leaders", true, Packed, two_level::allgather_ring;
    "reduce:linear", "all others send to the root, which reduces", true, Nothing, reduce::reduce_linear;
    "reduce:direct", "each rank reduces a part, which the root gathers", true, Nothing, reduce::reduce_direct;
    "reduce:chain", "down the ranks, in segments", true, Nothing, reduce::reduce_chain;
    "reduce:binomial", "up a binomial tree that begins at the root", false, Nothing, reduce::reduce_binomial;
    "reduce:binomial-in-order", "up a binomial tree to rank 0, and on to the root", true, Nothing, reduce::reduce_binomial_in_order;
    "reduce:rabenseifner", "the vector is halved until each rank has reduced a part, then gathered", true, Nothing, rabenseifner::reduce;
    "reduce:two-level", "within hosts, then up a binomial tree of them", true, Nothing, two_level::reduce;
    "allreduce:linear", "rank 0 hears from all and reduces, then tells all", true, Nothing, reduce::allreduce_linear;
    "allreduce:reduce-bcast", "up a binomial tree and down again", true, Nothing, reduce::allreduce_reduce_bcast;
    "allreduce:ring", "a reduce-scatter round the ring, then an allgather", false, Nothing, reduce::allreduce_ring;
    "allreduce:two-level", "leaders of hosts reduce, do recursive doubling, and hand the result out", true, Nothing, two_level::allreduce;
    "allreduce:two-level-split", "each rank leads for a slice, of which each host reduces a part", true, Nothing, two_level::allreduce_split;
    "reduce_scatter:linear", "everybody sends each block to its owner, which reduces", true, Nothing, reduce::reduce_scatter_linear;
    "reduce_scatter:ring", "partial results go round a ring", false, Nothing, reduce::reduce_scatter_ring;
    "reduce_scatter:reduce-scatter", "a binomial reduction, then a binomial scatter", true, Packed, reduce::reduce_scatter_tree;
    "reduce_scatter:two-level", "leaders of hosts reduce and send each other what the other's ranks get", true, Packed, two_level::reduce_scatter;
    "alltoall:linear", "everybody sends to everybody at once", true, Nothing, alltoall::linear;
    "alltoall:pairwise", "one partner after the other", true, Nothing, alltoall::pairwise;
    "alltoall:bruck", "⌈log2 ranks⌉ rounds of half of the blocks", true, Uniform, alltoall::bruck;
    "alltoall:two-level", "leaders of hosts exchange what goes from host to host", true, Uniform, two_level::alltoall;
    "scan:linear", "along the ranks", true, Nothing, scan::scan_linear;
    "scan:recursive-doubling", "distances double", true, Nothing, scan::scan_doubling;
    "scan:two-level", "leaders of hosts exchange their parts, and compute what theirs get", true, Nothing, two_level::scan;
    "exscan:linear", "along the ranks", true, Nothing, scan::exscan_linear;
    "exscan:recursive-doubling", "distances double", true, Nothing, scan::exscan_doubling;
    "exscan:two-level", "leaders of hosts exchange their parts, and compute what theirs get", true, Nothing, two_level::exscan;
};

/// What makes a collective's graphs.
#[derive(Clone)]
enum Method {
    Named(&'static Algorithm),
    /// The first word, for barriers and allreduces; or a reduce-scatter's or allgather's half of one.
    Word(Box<Fitted>),
}

/// A collective operation by one algorithm on data of one shape: for simulation ([`Pattern`]) or for real
/// ([`Collective::weave`]).
///
/// ```
/// use castell_base::Rank;
/// use castell_collectives::collective::{Collective, Memory, Shape};
/// use castell_goal::graph::Graph;
/// use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
///
/// let sum = Arithmetic::new(Operator::Add, ElementType::F64)?;
/// let allreduce = Collective::new("allreduce:a4,a2", Shape::new(8, 100, 8))?;
/// let memory = Memory {
///     input: Place::scratch(0),
///     output: Place::scratch(800),
///     temporary: Place::scratch(1600),
///     in_place: false,
///     combine: &sum,
/// };
/// let mut graph = Graph::new();
/// allreduce.weave(Rank(3), &memory, &mut graph)?;
/// assert_eq!(graph.len(), 12); // 4 sends, 4 receives, 4 sums
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Collective {
    name: String,
    method: Method,
    shape: Shape,
    compute: Time,
    messages: Messages,
}

impl Collective {
    /// The operation and algorithm of that name; `barrier:`, `allreduce:`, `reduce_scatter:` (of `r` stages) and
    /// `allgather:` (of `g` stages) take words.
    ///
    /// # Errors
    /// A name that nobody has, a word that does not fit, a shape that the algorithm cannot do.
    pub fn new(name: &str, shape: Shape) -> Result<Collective, CollectiveError> {
        // A barrier has one element without bytes, which carries what waits for what.
        let blocks = Blocks::Uniform(1);
        let shape = match operation(name) {
            "barrier" => Shape { count: 1, element_bytes: 0, arriving: blocks.clone(), blocks, ..shape },
            _ => shape,
        };
        let method = match name {
            "allreduce:recursive-doubling" | "barrier:recursive-doubling" => {
                Method::Word(Box::new(fit(Word::recursive_doubling(shape.ranks), &shape)?))
            }
            "allreduce:rabenseifner" => Method::Word(Box::new(fit(Word::rabenseifner(shape.ranks), &shape)?)),
            "allreduce:direct" => Method::Word(Box::new(fit(Word::direct(shape.ranks), &shape)?)),
            "allreduce:hierarchical" => {
                let word = Word::hierarchical(shape.ranks, shape.ways.saturating_add(1));
                Method::Word(Box::new(fit(word, &shape)?))
            }
            _ => match ALGORITHMS.iter().find(|algorithm| algorithm.name == name) {
                Some(algorithm) => Method::Named(algorithm),
                None => Method::Word(Box::new(word_of(name, &shape)?)),
            },
        };
        let collective =
            Collective { name: name.into(), method, shape, compute: Time(0), messages: Messages::default() };
        collective.refuse_shape()?;
        Ok(collective)
    }

    /// The same, refusing algorithms that do not combine in the order of ranks; words merge ranks beside the groups that
    /// they join.
    ///
    /// # Errors
    /// As [`Collective::new`]; [`CollectiveError::Order`].
    pub fn in_order(name: &str, shape: Shape) -> Result<Collective, CollectiveError> {
        let shape = Shape { in_order: true, ..shape };
        let collective = Collective::new(name, shape)?;
        if collective.keeps_order() {
            Ok(collective)
        } else {
            Err(CollectiveError::Order { name: collective.name })
        }
    }

    /// With so much computation for each reduction where nothing is computed for real (whole nanoseconds).
    pub fn with_compute(self, compute: Time) -> Collective {
        Collective { compute, ..self }
    }

    /// With messages that go as told.
    pub fn with_messages(self, messages: Messages) -> Collective {
        Collective { messages, ..self }
    }

    /// Whether operands are combined in the order of ranks.
    pub fn keeps_order(&self) -> bool {
        match &self.method {
            Method::Named(algorithm) => algorithm.keeps_order,
            Method::Word(fitted) => fitted.keeps_order(),
        }
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Appends `rank`'s operations, moving data in `memory`; returns the bytes of temporary memory that they use. If
    /// that is in the scratchpad, the scratchpad becomes large enough.
    ///
    /// # Errors
    /// A graph that is full, buffers beyond 64 bits.
    pub fn weave(&self, rank: Rank, memory: &Memory<'_>, graph: &mut Graph) -> Result<u64, GraphError> {
        assert!(rank.0 < self.shape.ranks, "rank {rank} of {}", self.shape.ranks);
        let input_at = match operation(&self.name) {
            "gather" | "allgather" => Some(self.shape.block(rank.0).0),
            "scatter" => None,
            _ => Some(0),
        };
        let weaver = Weaver::new(graph, rank, self.shape.element_bytes, 0).with_messages(&self.messages);
        let mut weaver = weaver.with_memory(memory, input_at);
        self.run(&mut weaver)?;
        let bytes = weaver.temporary_bytes();
        if memory.temporary.memory == castell_goal::op::Memory::Scratch && bytes > 0 {
            let end = memory.temporary.offset + bytes;
            graph.allocate_scratchpad(graph.scratchpad_bytes().max(end));
        }
        Ok(bytes)
    }

    /// Bytes of temporary memory that [`Collective::weave`] uses for a rank.
    ///
    /// # Errors
    /// A graph that is full.
    pub fn temporary_bytes(&self, rank: Rank, in_place: bool) -> Result<u64, GraphError> {
        let add = Arithmetic::new(castell_goal::op::Operator::Add, castell_goal::op::ElementType::U8);
        let combine = add.expect("bytes can be added");
        let [input, output, temporary] = [Place::VOID; 3];
        let memory = Memory { input, output, temporary, in_place, combine: &combine };
        self.weave(rank, &memory, &mut Graph::new())
    }

    fn run(&self, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
        match &self.method {
            Method::Named(algorithm) => (algorithm.weave)(&self.shape, weaver),
            Method::Word(fitted) => match operation(&self.name) {
                "reduce_scatter" => words::reduce_scatter(fitted, &self.shape, weaver),
                "allgather" => words::allgather(fitted, &self.shape, weaver),
                // A barrier is one of an element that has no bytes.
                _ => words::allreduce(fitted, self.shape.count, weaver),
            },
        }
    }

    fn refuse_shape(&self) -> Result<(), CollectiveError> {
        let Method::Named(algorithm) = self.method else { return Ok(()) };
        let (power, packed, uniform) = (
            self.shape.ranks.is_power_of_two(),
            self.shape.blocks.is_packed(),
            self.shape.blocks.is_uniform(),
        );
        let needs = match algorithm.needs {
            Needs::PackedPowerOfTwo if !power => "a power of two as the number of ranks",
            Needs::Packed | Needs::PackedPowerOfTwo if !packed => "blocks one behind the other",
            Needs::Uniform if !uniform => "blocks of one size",
            _ => return Ok(()),
        };
        let instead = format!("take another algorithm{}", others(&self.name));
        Err(CollectiveError::Shape { name: self.name.clone(), needs, instead })
    }
}

fn fit(word: Word, shape: &Shape) -> Result<Fitted, CollectiveError> {
    let labelling = if shape.in_order {
        crate::language::Labelling::Neighbours
    } else {
        crate::language::Labelling::RemaindersFirst
    };
    Ok(Fitted::with_labelling(word, shape.ranks, labelling)?)
}

/// The word behind the colon; of a reduce-scatter or an allgather, with the other half.
fn word_of(name: &str, shape: &Shape) -> Result<Fitted, CollectiveError> {
    let unknown = || CollectiveError::Unknown { name: name.into(), word: String::new() };
    let (operation, text) = name.split_once(':').ok_or_else(unknown)?;
    if !["allreduce", "barrier", "reduce_scatter", "allgather"].contains(&operation) {
        return Err(unknown());
    }
    let no_word = |error: &dyn std::fmt::Display| CollectiveError::Unknown {
        name: name.into(),
        word: format!("; as a word: {error}"),
    };
    let mut word: Word = text.parse().map_err(|error| no_word(&error))?;
    if matches!(operation, "reduce_scatter" | "allgather") {
        let stages = if operation == "allgather" {
            "allgathers have g stages only"
        } else {
            "reduce-scatters have r stages only"
        };
        word = words::whole(word, operation).ok_or_else(|| no_word(&stages))?;
    }
    fit(word, shape)
}

impl Pattern for Collective {
    fn ranks(&self) -> u32 {
        self.shape.ranks
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        assert!(rank.0 < self.shape.ranks, "rank {rank} of {}", self.shape.ranks);
        let compute_ns = self.compute.0 / PS_A_NS;
        let weaver = Weaver::new(graph, rank, self.shape.element_bytes, compute_ns);
        self.run(&mut weaver.with_messages(&self.messages))
    }

    fn operations(&self, rank: Rank) -> u64 {
        let mut graph = Graph::new();
        self.build(rank, &mut graph).map_or(0, |()| graph.len() as u64)
    }
}
