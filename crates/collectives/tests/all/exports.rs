//! Decisions in the words of Open MPI and MPICH: the numbers and names are those of their documentation, files are read
//! as these libraries read them, and find the algorithm that a rule says.

use castell_collectives::decision::Operation::{
    Allgather, Allreduce, Alltoall, Barrier, Broadcast, Exscan, Gather, Reduce, ReduceScatter, Scan, Scatter,
};
use castell_collectives::decision::export::{mpich, open_mpi};
use castell_collectives::decision::{Decisions, Operation, Rule};
use std::collections::BTreeSet;

/// So many ranks have the rules of these tests.
const RANKS: u32 = 4;

/// What a library gets for an algorithm with so many ways: nothing where it is left to the library.
fn notes_and<T>(
    operation: Operation,
    algorithm: &str,
    ways: u32,
    export: impl Fn(&Decisions) -> (T, BTreeSet<String>),
) -> (T, usize) {
    let mut rule = Rule::new(operation, (RANKS, RANKS), u64::MAX, algorithm).unwrap();
    (rule.ways, rule.segment_bytes) = (ways, 4096);
    let (found, notes) = export(&Decisions::with_rules(vec![rule], None));
    (found, notes.len())
}

/// Each collective of a file for Open MPI: its number, and of each number of ranks the sizes with algorithm, fan-out and segment.
type OpenMpi = Vec<(u64, Vec<(u64, Vec<[u64; 4]>)>)>;

fn read_open_mpi(text: &str) -> OpenMpi {
    let plain = text.lines().map(|line| line.split('#').next().unwrap());
    let mut numbers = plain.flat_map(str::split_whitespace).map(|word| word.parse::<u64>().unwrap());
    let mut next = || numbers.next().expect("a number more");
    let collectives = (0..next())
        .map(|_| {
            let number = next();
            let of_ranks = (0..next()).map(|_| {
                let ranks = next();
                (ranks, (0..next()).map(|_| [next(), next(), next(), next()]).collect())
            });
            (number, of_ranks.collect())
        })
        .collect();
    assert_eq!(numbers.next(), None, "numbers behind the end");
    collectives
}

/// Of Open MPI's collectives an algorithm and its ways: algorithm, fan-out and segment there, and whether that is the same.
type OpenMpiRow = (u64, Operation, &'static str, u32, [u64; 3], bool);

/// Open MPI's numbers of collectives and of their algorithms (`ompi_info --param coll tuned --level 9`).
const OPEN_MPI: [OpenMpiRow; 60] = [
    (0, Allgather, "linear", 1, [1, 0, 0], true),
    (0, Allgather, "bruck", 1, [2, 0, 0], true),
    (0, Allgather, "bruck", 3, [2, 0, 0], false),
    (0, Allgather, "recursive-doubling", 1, [3, 0, 0], true),
    (0, Allgather, "ring", 1, [4, 0, 0], true),
    (0, Allgather, "gather-bcast", 1, [3, 0, 0], false),
    (2, Allreduce, "reduce-bcast", 1, [2, 0, 0], true),
    (2, Allreduce, "hierarchical", 1, [2, 0, 0], false),
    (2, Allreduce, "recursive-doubling", 1, [3, 0, 0], true),
    (2, Allreduce, "a2,a2", 1, [3, 0, 0], true),
    (2, Allreduce, "a4", 1, [3, 0, 0], false),
    (2, Allreduce, "linear", 1, [3, 0, 0], false),
    (2, Allreduce, "c4m2,a2,e4m2", 1, [3, 0, 0], false),
    (2, Allreduce, "ring", 1, [4, 0, 0], true),
    (2, Allreduce, "rabenseifner", 1, [6, 0, 0], true),
    (2, Allreduce, "r2,r2,g2,g2", 1, [6, 0, 0], true),
    (2, Allreduce, "r4,g4", 1, [6, 0, 0], false),
    (2, Allreduce, "direct", 1, [6, 0, 0], false),
    (3, Alltoall, "linear", 1, [1, 0, 0], true),
    (3, Alltoall, "pairwise", 1, [2, 0, 0], true),
    (3, Alltoall, "bruck", 1, [3, 0, 0], true),
    (3, Alltoall, "two-level", 1, [0, 0, 0], true),
    (6, Barrier, "linear", 1, [1, 0, 0], true),
    (6, Barrier, "recursive-doubling", 1, [3, 0, 0], true),
    (6, Barrier, "a2,a2", 1, [3, 0, 0], true),
    (6, Barrier, "a4", 1, [3, 0, 0], false),
    (6, Barrier, "dissemination", 1, [4, 0, 0], true),
    (6, Barrier, "dissemination", 3, [4, 0, 0], false),
    (6, Barrier, "tree", 1, [6, 0, 0], true),
    (7, Broadcast, "linear", 1, [1, 0, 0], true),
    (7, Broadcast, "chain", 1, [3, 0, 4096], true),
    (7, Broadcast, "binary", 1, [5, 0, 0], true),
    (7, Broadcast, "binary-segmented", 1, [5, 0, 4096], true),
    (7, Broadcast, "binomial", 1, [6, 0, 0], true),
    (7, Broadcast, "binomial-in-order", 1, [6, 0, 0], false),
    (7, Broadcast, "k-nomial", 3, [7, 4, 0], true),
    (7, Broadcast, "scatter-allgather", 1, [9, 0, 0], true),
    (8, Exscan, "linear", 1, [1, 0, 0], true),
    (8, Exscan, "recursive-doubling", 1, [2, 0, 0], true),
    (9, Gather, "linear", 1, [1, 0, 0], true),
    (9, Gather, "binomial", 1, [2, 0, 0], true),
    (9, Gather, "linear-sync", 1, [3, 0, 0], true),
    (11, Reduce, "linear", 1, [1, 0, 0], true),
    (11, Reduce, "chain", 1, [3, 0, 4096], true),
    (11, Reduce, "binomial", 1, [5, 0, 0], true),
    (11, Reduce, "binomial-in-order", 1, [6, 0, 0], false),
    (11, Reduce, "rabenseifner", 1, [7, 0, 0], true),
    (12, ReduceScatter, "reduce-scatter", 1, [1, 0, 0], true),
    (12, ReduceScatter, "linear", 1, [1, 0, 0], false),
    (12, ReduceScatter, "r2,r2", 1, [2, 0, 0], true),
    (12, ReduceScatter, "r4", 1, [2, 0, 0], false),
    (12, ReduceScatter, "ring", 1, [3, 0, 0], true),
    (13, ReduceScatter, "linear", 1, [1, 0, 0], false),
    (13, ReduceScatter, "reduce-scatter", 1, [1, 0, 0], false),
    (13, ReduceScatter, "r2,r2", 1, [3, 0, 0], true),
    (13, ReduceScatter, "ring", 1, [3, 0, 0], false),
    (14, Scan, "linear", 1, [1, 0, 0], true),
    (14, Scan, "recursive-doubling", 1, [2, 0, 0], true),
    (15, Scatter, "linear", 1, [1, 0, 0], true),
    (15, Scatter, "binomial", 1, [2, 0, 0], true),
];

#[test]
fn open_mpi_gets_its_own_numbers() {
    for (number, operation, algorithm, ways, expected, is_same) in OPEN_MPI {
        let (read, notes) = notes_and(operation, algorithm, ways, |decisions| {
            let exported = open_mpi(decisions);
            (read_open_mpi(&exported.text), exported.notes)
        });
        let what = format!("{operation}:{algorithm}, {ways} ways, collective {number}");
        let (_, of_ranks) = read.iter().find(|(found, _)| *found == number).expect(&what);
        let [choice, fan_out, segment] = expected;
        // Beyond the rule's ranks Open MPI is left to itself.
        let both = [(4, vec![[0, choice, fan_out, segment]]), (5, vec![[0, 0, 0, 0]])];
        assert_eq!(of_ranks[..], both, "{what}");
        // A reduce-scatter is two collectives, which may have different ones.
        let both_are = |is: bool| {
            let other = OPEN_MPI.iter().filter(|row| (row.1, row.2) == (operation, algorithm));
            other.clone().count() > 1 && other.clone().all(|row| row.5 == is)
        };
        let expected = match operation {
            ReduceScatter if both_are(true) => 0..=0,
            ReduceScatter => 1..=2,
            _ => {
                if is_same {
                    0..=0
                } else {
                    1..=1
                }
            }
        };
        assert!(expected.contains(&notes), "{what}: {notes} notes");
        let of_operation = if operation == ReduceScatter { 2 } else { 1 };
        assert_eq!(read.len(), of_operation, "{what}");
    }
}

/// Where sizes of all blocks count, they are said anew for groups of many sizes.
#[test]
fn thresholds_of_blocks_grow_with_the_group() {
    let rules = |operation, algorithms: [&str; 2]| {
        let [small, large] = algorithms;
        vec![
            Rule::new(operation, (4, 100), 99, small).unwrap(),
            Rule::new(operation, (4, 100), u64::MAX, large).unwrap(),
        ]
    };
    let of_ranks = |rules| {
        let read = read_open_mpi(&open_mpi(&Decisions::with_rules(rules, None)).text);
        read.into_iter().next().unwrap().1
    };
    let gathers = of_ranks(rules(Operation::Allgather, ["bruck", "ring"]));
    let ranks: Vec<u64> = gathers.iter().map(|(ranks, _)| *ranks).collect();
    assert_eq!(ranks, (4..=32).chain([64, 101]).collect::<Vec<u64>>());
    for (ranks, sizes) in &gathers[..gathers.len() - 1] {
        assert_eq!(sizes[..], [[0, 2, 0, 0], [100 * ranks, 4, 0, 0]], "{ranks} ranks");
    }
    let broadcasts = of_ranks(rules(Operation::Broadcast, ["linear", "chain"]));
    let sizes = vec![[0, 1, 0, 0], [100, 3, 0, 65536]];
    assert_eq!(broadcasts, [(4, sizes), (101, vec![[0, 0, 0, 0]])]);
    // What is the same for all sizes is so for all groups.
    let one = of_ranks(vec![Rule::new(Operation::Allgather, (4, 100), u64::MAX, "ring").unwrap()]);
    assert_eq!(one, [(4, vec![[0, 4, 0, 0]]), (101, vec![[0, 0, 0, 0]])]);
}

/// Conditions of a file for MPICH with what is below them; an algorithm has nothing below it.
#[derive(Debug, PartialEq)]
struct Tree(Vec<(String, Tree)>);

/// Reads the JSON of such a file: objects of objects, and nothing else.
fn read_mpich(text: &str) -> Tree {
    let mut rest = text.trim_end();
    let tree = object(&mut rest);
    assert_eq!(rest, "", "text behind the end");
    tree
}

fn skip<'a>(rest: &mut &'a str, wanted: char) -> bool {
    let trimmed: &'a str = rest.trim_start();
    let found = trimmed.strip_prefix(wanted);
    *rest = found.unwrap_or(trimmed);
    found.is_some()
}

fn object(rest: &mut &str) -> Tree {
    assert!(skip(rest, '{'), "an object begins at {rest:.40}");
    let mut entries = Vec::new();
    if skip(rest, '}') {
        return Tree(entries);
    }
    loop {
        assert!(skip(rest, '"'), "a key begins at {rest:.40}");
        let (key, behind) = rest.split_once('"').expect("a key ends");
        *rest = behind;
        assert!(skip(rest, ':'), "a colon is at {rest:.40}");
        entries.push((key.to_owned(), object(rest)));
        if !skip(rest, ',') {
            assert!(skip(rest, '}'), "an object ends at {rest:.40}");
            return Tree(entries);
        }
    }
}

/// A call as MPICH asks about it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    ranks: u64,
    /// Of a vector or block, and of all blocks.
    bytes: [u64; 2],
    between_groups: bool,
    in_place: bool,
    commutative: bool,
    built_in: bool,
    /// Whether there are fewer elements than the largest power of two of ranks.
    few: bool,
}

impl Asked {
    fn new(ranks: u64, bytes: u64) -> Asked {
        let (commutative, built_in) = (true, true);
        let bytes = [bytes, bytes * ranks];
        Asked { ranks, bytes, between_groups: false, in_place: false, commutative, built_in, few: false }
    }

    fn is(&self, condition: &str) -> bool {
        let truth = |yes: bool| if yes { "yes" } else { "no" };
        match condition.split_once(['=', '<']).unwrap() {
            (_, "any") => true,
            ("comm_type", kind) => (kind == "inter") == self.between_groups,
            ("is_sendbuf_inplace", value) => value == truth(self.in_place),
            ("is_commutative", value) => value == truth(self.commutative),
            ("is_op_built_in", value) => value == truth(self.built_in),
            ("count", "pow2") => self.few,
            ("comm_size", "pow2") => self.ranks.is_power_of_two(),
            ("comm_size", below) => self.ranks < below.parse().unwrap(),
            ("avg_msg_size", below) => self.bytes[0] < below.parse().unwrap(),
            ("total_msg_size", below) => self.bytes[1] < below.parse().unwrap(),
            other => panic!("MPICH knows no {other:?}"),
        }
    }
}

impl Tree {
    fn of(&self, collective: &str) -> &Tree {
        let name = format!("collective={collective}");
        &self.0.iter().find(|(key, _)| *key == name).unwrap_or_else(|| panic!("{name}")).1
    }

    /// The algorithm that a call gets, the first condition that is true being followed.
    fn algorithm(&self, call: Asked) -> &str {
        if let [(name, Tree(below))] = &self.0[..]
            && let Some(name) = name.strip_prefix("algorithm=MPIR_")
        {
            assert_eq!(below[..], [], "{name}");
            return name;
        }
        let found = self.0.iter().find(|(condition, _)| call.is(condition));
        found.unwrap_or_else(|| panic!("{call:?} finds nothing in {self:?}")).1.algorithm(call)
    }

    /// No size is asked for that makes no difference.
    fn asks_what_matters(&self) {
        let is_leaf = self.0[0].0.starts_with("algorithm=");
        assert_eq!(is_leaf, self.0.len() == 1, "{self:?}");
        let is_of_size = self.0[0].0.contains("msg_size");
        assert!(!is_of_size || self.0.windows(2).all(|pair| pair[0].1 != pair[1].1), "{self:?}");
        self.0.iter().filter(|_| !is_leaf).for_each(|(_, below)| below.asks_what_matters());
    }
}

const SPLIT: &str = "Allreduce_intra_reduce_scatter_allgather";
const WHOLE: &str = "Allreduce_intra_recursive_doubling";

/// MPICH's names of algorithms (its `coll_algorithms.txt`), and whether that is the same.
const MPICH: [(Operation, &str, u32, &str, bool); 41] = [
    (Allgather, "ring", 1, "Allgather_intra_ring", true),
    (Allgather, "recursive-doubling", 1, "Allgather_intra_recursive_doubling", true),
    (Allgather, "bruck", 1, "Allgather_intra_brucks", true),
    (Allgather, "bruck", 2, "Allgather_intra_brucks", false),
    (Allgather, "linear", 1, "Allgather_intra_brucks", false),
    (Allreduce, "recursive-doubling", 1, WHOLE, true),
    (Allreduce, "a2,a2", 1, WHOLE, true),
    (Allreduce, "a4", 1, WHOLE, false),
    (Allreduce, "linear", 1, WHOLE, false),
    (Allreduce, "hierarchical", 1, WHOLE, false),
    (Allreduce, "c4m2,a2,e4m2", 1, WHOLE, false),
    (Allreduce, "rabenseifner", 1, SPLIT, true),
    (Allreduce, "r2,r2,g2,g2", 1, SPLIT, true),
    (Allreduce, "r4,g4", 1, SPLIT, false),
    (Allreduce, "direct", 1, SPLIT, false),
    (Allreduce, "ring", 1, SPLIT, false),
    (Alltoall, "linear", 1, "Alltoall_intra_scattered", true),
    (Alltoall, "pairwise", 1, "Alltoall_intra_pairwise", true),
    (Alltoall, "bruck", 1, "Alltoall_intra_brucks", true),
    (Barrier, "dissemination", 1, "Barrier_intra_dissemination", true),
    (Barrier, "tree", 1, "Barrier_intra_dissemination", false),
    (Broadcast, "binomial", 1, "Bcast_intra_binomial", true),
    (Broadcast, "linear", 1, "Bcast_intra_binomial", false),
    (Broadcast, "scatter-allgather", 1, "Bcast_intra_scatter_ring_allgather", true),
    (Broadcast, "chain", 1, "Bcast_intra_scatter_ring_allgather", false),
    (Broadcast, "binary-segmented", 1, "Bcast_intra_scatter_ring_allgather", false),
    (Exscan, "recursive-doubling", 1, "Exscan_intra_recursive_doubling", true),
    (Exscan, "linear", 1, "Exscan_intra_recursive_doubling", false),
    (Gather, "binomial", 1, "Gather_intra_binomial", true),
    (Gather, "linear", 1, "Gather_intra_binomial", false),
    (Reduce, "binomial", 1, "Reduce_intra_binomial", true),
    (Reduce, "chain", 1, "Reduce_intra_binomial", false),
    (Reduce, "rabenseifner", 1, "Reduce_intra_reduce_scatter_gather", true),
    (ReduceScatter, "linear", 1, "Reduce_scatter_intra_pairwise", true),
    (ReduceScatter, "ring", 1, "Reduce_scatter_intra_pairwise", false),
    (ReduceScatter, "r2,r2", 1, "Reduce_scatter_intra_recursive_halving", true),
    (ReduceScatter, "r4", 1, "Reduce_scatter_intra_recursive_halving", false),
    (Scan, "recursive-doubling", 1, "Scan_intra_recursive_doubling", true),
    (Scan, "linear", 1, "Scan_intra_recursive_doubling", false),
    (Scatter, "binomial", 1, "Scatter_intra_binomial", true),
    (Scatter, "linear", 1, "Scatter_intra_binomial", false),
];

#[test]
fn mpich_gets_its_own_names() {
    for (operation, algorithm, ways, expected, is_same) in MPICH {
        let (tree, notes) = notes_and(operation, algorithm, ways, |decisions| {
            let exported = mpich(decisions);
            (read_mpich(&exported.text), exported.notes)
        });
        let what = format!("{operation}:{algorithm}, {ways} ways");
        let call = Asked::new(u64::from(RANKS), 1000);
        assert_eq!(tree.of(operation.name()).algorithm(call), expected, "{what}");
        let collectives = if operation == ReduceScatter { 2 } else { 1 };
        assert_eq!(notes, if is_same { 0 } else { collectives }, "{what}");
        if operation == ReduceScatter {
            let of_blocks = expected.replace("Reduce_scatter", "Reduce_scatter_block");
            assert_eq!(tree.of("reduce_scatter_block").algorithm(call), of_blocks, "{what}");
        }
    }
}

/// Some rules, with sizes.
fn decisions() -> Decisions {
    let rule = |operation, bytes_max, algorithm| Rule::new(operation, (3, 40), bytes_max, algorithm).unwrap();
    let rules = vec![
        rule(Operation::Allreduce, 100, "recursive-doubling"),
        rule(Operation::Allreduce, 1000, "rabenseifner"),
        rule(Operation::Allreduce, u64::MAX, "direct"),
        rule(Operation::Reduce, u64::MAX, "rabenseifner"),
        rule(Operation::Allgather, 10, "bruck"),
        rule(Operation::Allgather, u64::MAX, "ring"),
        rule(Operation::Alltoall, 10, "bruck"),
        rule(Operation::Alltoall, u64::MAX, "pairwise"),
        rule(Operation::Barrier, 5, "dissemination"),
        rule(Operation::Barrier, u64::MAX, "tree"),
        rule(Operation::Scan, 5, "recursive-doubling"),
        rule(Operation::Scan, u64::MAX, "linear"),
    ];
    Decisions::with_rules(rules, None)
}

/// MPICH stops where a call finds nothing, and asks nothing of calls that they do not have.
#[test]
fn every_call_finds_an_algorithm_of_mpich() {
    for decisions in [Decisions::builtin(), decisions()] {
        let text = mpich(&decisions).text;
        let tree = read_mpich(&text);
        tree.asks_what_matters();
        for (name, below) in &tree.0 {
            for ranks in [1, 2, 3, 8, 31, 32, 33, 41, 1000] {
                for bytes in [0, 9, 10, 11, 1000, 1 << 22] {
                    for flags in 0..32 {
                        let is = |flag: u32| flags >> flag & 1 == 1;
                        let call = Asked {
                            between_groups: is(0),
                            in_place: is(1),
                            commutative: is(2),
                            built_in: is(3),
                            few: is(4),
                            ..Asked::new(ranks, bytes)
                        };
                        let found = below.algorithm(call).to_lowercase();
                        let name = name.strip_prefix("collective=").unwrap();
                        assert!(found.starts_with(name), "{name} gets {found}");
                    }
                }
            }
        }
        // A level is two spaces deeper than the one around it.
        let mut depth = 0;
        for line in text.lines() {
            let closes = line.trim_start().starts_with('}');
            depth -= usize::from(closes);
            assert_eq!(line.len() - line.trim_start().len(), 2 * depth, "{line}");
            depth += usize::from(line.ends_with('{'));
        }
        assert_eq!(depth, 0);
    }
}

#[test]
fn mpich_finds_what_the_rules_say() {
    let tree = read_mpich(&mpich(&decisions()).text);
    let of = |collective: &str, call: Asked| tree.of(collective).algorithm(call).to_owned();
    for ranks in [3, 8, 33, 40] {
        let call = |bytes| Asked::new(ranks, bytes);
        for (collective, bytes, expected) in [
            ("allreduce", 100, "Allreduce_intra_recursive_doubling"),
            ("allreduce", 101, "Allreduce_intra_reduce_scatter_allgather"),
            ("allreduce", 1001, "Allreduce_intra_reduce_scatter_allgather"),
            ("alltoall", 10, "Alltoall_intra_brucks"),
            ("alltoall", 11, "Alltoall_intra_pairwise"),
            ("barrier", 1000, "Barrier_intra_dissemination"),
        ] {
            assert_eq!(of(collective, call(bytes)), expected, "{collective}, {ranks} ranks, {bytes} bytes");
        }
        // What splits vectors needs elements enough, and an operator that it knows.
        for call in [Asked { few: true, ..call(500) }, Asked { built_in: false, ..call(500) }] {
            assert_eq!(of("allreduce", call), "Allreduce_intra_recursive_doubling");
            assert_eq!(of("reduce", call), "Reduce_intra_binomial");
        }
        assert_eq!(of("reduce", call(500)), "Reduce_intra_reduce_scatter_gather");
    }
    // The size of all blocks grows with the group: said exactly up to 32 ranks.
    for ranks in 3..=32 {
        assert_eq!(of("allgather", Asked::new(ranks, 10)), "Allgather_intra_brucks", "{ranks}");
        assert_eq!(of("allgather", Asked::new(ranks, 11)), "Allgather_intra_ring", "{ranks}");
    }
    let refusing = |collective: &str| {
        let call = Asked::new(8, 8);
        let (placed, ordered) = (Asked { in_place: true, ..call }, Asked { commutative: false, ..call });
        [of(collective, placed), of(collective, ordered)]
    };
    assert_eq!(refusing("alltoall")[0], "Alltoall_intra_pairwise_sendrecv_replace");
    assert_eq!(refusing("alltoallv")[0], "Alltoallv_intra_pairwise_sendrecv_replace");
    assert_eq!(refusing("alltoallw")[0], "Alltoallw_intra_pairwise_sendrecv_replace");
    assert_eq!(refusing("ialltoall")[0], "Ialltoall_intra_sched_inplace");
    assert_eq!(refusing("ialltoallw")[0], "Ialltoallw_intra_sched_inplace");
    assert_eq!(refusing("reduce_scatter")[1], "Reduce_scatter_intra_recursive_doubling");
    assert_eq!(refusing("reduce_scatter_block")[1], "Reduce_scatter_block_intra_recursive_doubling");
    // Without a rule it is what is built in, whatever others have.
    assert_eq!(of("bcast", Asked::new(8, (256 << 10) - 1)), "Bcast_intra_binomial");
    assert_eq!(of("bcast", Asked::new(8, 256 << 10)), "Bcast_intra_scatter_ring_allgather");
    let builtin = read_mpich(&mpich(&Decisions::builtin()).text);
    for (bytes, expected) in [
        (1, "Allreduce_intra_recursive_doubling"),
        ((32 << 10) - 1, "Allreduce_intra_recursive_doubling"),
        (32 << 10, "Allreduce_intra_reduce_scatter_allgather"),
    ] {
        assert_eq!(builtin.of("allreduce").algorithm(Asked::new(8, bytes)), expected, "{bytes} bytes");
    }
}

/// A word that merges ranks splits no vectors, though it has a `g`.
#[test]
fn words_that_merge_ranks_are_no_splits() {
    let rule = Rule::new(Allreduce, (5, 5), u64::MAX, "m1g2a2,n1g2a2").unwrap();
    let decisions = Decisions::with_rules(vec![rule], None);
    let found = read_mpich(&mpich(&decisions).text).of("allreduce").algorithm(Asked::new(5, 1000)).to_owned();
    assert_eq!(found, WHOLE);
    let read = read_open_mpi(&open_mpi(&decisions).text);
    assert_eq!(read[0].1[0], (5, vec![[0, 3, 0, 0]]));
}
