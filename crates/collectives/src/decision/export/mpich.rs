//! MPICH's file for the selection of collectives (`MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE`), version 4.0.
//!
//! The file is a tree of conditions, of which the first true one of a level is followed, with algorithms as its leaves.
//! MPICH stops where a call finds no leaf: so the file says something of every collective, and where no rule of ours does it
//! names an algorithm that takes every call.

use super::{Choice, Equivalent, Exported, Operation, algorithm, is_word_of};
use super::{Question, followed, note, of_blocks, ranks_that_matter, sizes_that_matter, with_those_between};
use crate::decision::{Decisions, builtin};
use std::collections::BTreeSet;

/// What built-in choices stand for groups of any size is that for so many ranks: more than those that read what one of them has written,
/// since a library of messages sends each its own.
const BUILTIN_RANKS: u32 = 96;

/// What MPICH can ask of the size of a call. It stops at questions that it does not know of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sizes {
    /// Nothing.
    None,
    /// That of the vector, or of a block.
    Vector,
    /// That of all blocks.
    All,
}

impl Sizes {
    fn of(operation: Operation) -> Sizes {
        match operation {
            Operation::Barrier | Operation::Scan | Operation::Exscan => Sizes::None,
            Operation::Alltoall => Sizes::Vector,
            _ if of_blocks(operation) => Sizes::All,
            _ => Sizes::Vector,
        }
    }

    fn condition(self, from: Option<u64>, ranks: u32) -> String {
        match (self, from) {
            (Sizes::All, Some(from)) => format!("total_msg_size<{}", from.saturating_mul(u64::from(ranks))),
            (Sizes::All, None) => "total_msg_size=any".to_owned(),
            (_, Some(from)) => format!("avg_msg_size<{from}"),
            (_, None) => "avg_msg_size=any".to_owned(),
        }
    }
}

/// A tree of conditions.
enum Node {
    Leaf(String),
    Branches(Vec<(String, Node)>),
}

impl Node {
    fn of(algorithm: &str) -> Node {
        Node::Leaf(format!("algorithm=MPIR_{algorithm}"))
    }

    fn print(&self, depth: usize, out: &mut String) {
        let pad = "  ".repeat(depth + 1);
        out.push_str("{\n");
        match self {
            Node::Leaf(name) => out.push_str(&format!("{pad}\"{name}\": {{}}\n")),
            Node::Branches(branches) => {
                for (index, (condition, node)) in branches.iter().enumerate() {
                    out.push_str(&format!("{pad}\"{condition}\": "));
                    node.print(depth + 1, out);
                    out.push_str(if index + 1 < branches.len() { ",\n" } else { "\n" });
                }
            }
        }
        out.push_str(&format!("{}}}", "  ".repeat(depth)));
    }
}

/// Name of a collective, our operation, and what is done between two groups.
const BLOCKING: [(&str, Operation, &str); 12] = [
    ("allgather", Operation::Allgather, "Allgather_inter_local_gather_remote_bcast"),
    ("allreduce", Operation::Allreduce, "Allreduce_inter_reduce_exchange_bcast"),
    ("alltoall", Operation::Alltoall, "Alltoall_inter_pairwise_exchange"),
    ("barrier", Operation::Barrier, "Barrier_inter_bcast"),
    ("bcast", Operation::Broadcast, "Bcast_inter_remote_send_local_bcast"),
    ("exscan", Operation::Exscan, ""),
    ("gather", Operation::Gather, "Gather_inter_linear"),
    ("reduce", Operation::Reduce, "Reduce_inter_local_reduce_remote_send"),
    ("reduce_scatter", Operation::ReduceScatter, "Reduce_scatter_inter_remote_reduce_local_scatter"),
    (
        "reduce_scatter_block",
        Operation::ReduceScatter,
        "Reduce_scatter_block_inter_remote_reduce_local_scatter",
    ),
    ("scan", Operation::Scan, ""),
    ("scatter", Operation::Scatter, "Scatter_inter_linear"),
];

/// Collectives of which we have no rules: their algorithm within a group, and between two groups; those with one name have
/// one algorithm for both.
const OTHERS: [(&str, &str, &str); 32] = [
    ("allgatherv", "Allgatherv_intra_ring", "Allgatherv_inter_remote_gather_local_bcast"),
    ("alltoallv", "Alltoallv_intra_scattered", "Alltoallv_inter_pairwise_exchange"),
    ("alltoallw", "Alltoallw_intra_scattered", "Alltoallw_inter_pairwise_exchange"),
    ("gatherv", "Gatherv_allcomm_linear", ""),
    ("scatterv", "Scatterv_allcomm_linear", ""),
    ("neighbor_allgather", "Neighbor_allgather_allcomm_nb", ""),
    ("neighbor_allgatherv", "Neighbor_allgatherv_allcomm_nb", ""),
    ("neighbor_alltoall", "Neighbor_alltoall_allcomm_nb", ""),
    ("neighbor_alltoallv", "Neighbor_alltoallv_allcomm_nb", ""),
    ("neighbor_alltoallw", "Neighbor_alltoallw_allcomm_nb", ""),
    ("iallgather", "Iallgather_intra_sched_ring", "Iallgather_inter_sched_local_gather_remote_bcast"),
    ("iallgatherv", "Iallgatherv_intra_sched_ring", "Iallgatherv_inter_sched_remote_gather_local_bcast"),
    (
        "iallreduce",
        "Iallreduce_intra_sched_recursive_doubling",
        "Iallreduce_inter_sched_remote_reduce_local_bcast",
    ),
    ("ialltoall", "Ialltoall_intra_sched_permuted_sendrecv", "Ialltoall_inter_sched_pairwise_exchange"),
    ("ialltoallv", "Ialltoallv_intra_sched_blocked", "Ialltoallv_inter_sched_pairwise_exchange"),
    ("ialltoallw", "Ialltoallw_intra_sched_blocked", "Ialltoallw_inter_sched_pairwise_exchange"),
    ("ibarrier", "Ibarrier_intra_sched_recursive_doubling", "Ibarrier_inter_sched_bcast"),
    ("ibcast", "Ibcast_intra_sched_binomial", "Ibcast_inter_sched_flat"),
    ("iexscan", "Iexscan_intra_sched_recursive_doubling", ""),
    ("igather", "Igather_intra_sched_binomial", "Igather_inter_sched_long"),
    ("igatherv", "Igatherv_allcomm_sched_linear", ""),
    ("ineighbor_allgather", "Ineighbor_allgather_allcomm_sched_linear", ""),
    ("ineighbor_allgatherv", "Ineighbor_allgatherv_allcomm_sched_linear", ""),
    ("ineighbor_alltoall", "Ineighbor_alltoall_allcomm_sched_linear", ""),
    ("ineighbor_alltoallv", "Ineighbor_alltoallv_allcomm_sched_linear", ""),
    ("ineighbor_alltoallw", "Ineighbor_alltoallw_allcomm_sched_linear", ""),
    ("ireduce", "Ireduce_intra_sched_binomial", "Ireduce_inter_sched_local_reduce_remote_send"),
    (
        "ireduce_scatter",
        "Ireduce_scatter_intra_sched_recursive_doubling",
        "Ireduce_scatter_inter_sched_remote_reduce_local_scatterv",
    ),
    (
        "ireduce_scatter_block",
        "Ireduce_scatter_block_intra_sched_recursive_doubling",
        "Ireduce_scatter_block_inter_sched_remote_reduce_local_scatterv",
    ),
    ("iscan", "Iscan_intra_sched_recursive_doubling", ""),
    ("iscatter", "Iscatter_intra_sched_binomial", "Iscatter_inter_sched_linear"),
    ("iscatterv", "Iscatterv_allcomm_sched_linear", ""),
];

/// These decisions as MPICH's selection of collectives; where no rule says anything, our built-in choices.
pub fn mpich(decisions: &Decisions) -> Exported {
    let mut notes = BTreeSet::new();
    let mut branches = Vec::new();
    for (name, operation, between) in BLOCKING {
        let within = guarded(name, by_ranks(decisions, name, operation, &mut notes));
        branches.push(collective(name, within, between));
    }
    for (name, within, between) in OTHERS {
        let within = match name {
            "alltoallv" => in_place(Node::of("Alltoallv_intra_pairwise_sendrecv_replace"), Node::of(within)),
            "alltoallw" => in_place(Node::of("Alltoallw_intra_pairwise_sendrecv_replace"), Node::of(within)),
            "ialltoall" | "ialltoallv" | "ialltoallw" => {
                let replace = format!("I{}_intra_sched_inplace", &name[1..]);
                in_place(Node::of(&replace), Node::of(within))
            }
            _ => Node::of(within),
        };
        branches.push(collective(name, within, between));
    }
    let mut text = String::new();
    Node::Branches(branches).print(0, &mut text);
    text.push('\n');
    Exported { text, notes }
}

fn collective(name: &str, within: Node, between: &str) -> (String, Node) {
    let node = match between {
        "" => within,
        between => {
            let kinds = [("comm_type=intra", within), ("comm_type=inter", Node::of(between))];
            Node::Branches(kinds.map(|(kind, node)| (kind.to_owned(), node)).into())
        }
    };
    (format!("collective={name}"), node)
}

fn in_place(replaces: Node, otherwise: Node) -> Node {
    let branches = [("is_sendbuf_inplace=yes", replaces), ("is_sendbuf_inplace=no", otherwise)];
    Node::Branches(branches.map(|(condition, node)| (condition.to_owned(), node)).into())
}

/// Behind the conditions under which MPICH's fast algorithms can be taken at all.
fn guarded(name: &str, node: Node) -> Node {
    let commutative = |node, otherwise: &str| {
        let branches = [("is_commutative=yes", node), ("is_commutative=no", Node::of(otherwise))];
        Node::Branches(branches.map(|(condition, node)| (condition.to_owned(), node)).into())
    };
    match name {
        "alltoall" => in_place(Node::of("Alltoall_intra_pairwise_sendrecv_replace"), node),
        "reduce_scatter" => commutative(node, "Reduce_scatter_intra_recursive_doubling"),
        "reduce_scatter_block" => commutative(node, "Reduce_scatter_block_intra_recursive_doubling"),
        _ => node,
    }
}

fn by_ranks(decisions: &Decisions, name: &str, operation: Operation, notes: &mut BTreeSet<String>) -> Node {
    let mut starts = ranks_that_matter(&decisions.rules, operation);
    if Sizes::of(operation) == Sizes::All && sizes_that_matter(&decisions.rules, operation).len() > 1 {
        starts = with_those_between(starts);
    }
    // Groups that no rule is about get what is built in for some ranks.
    starts.insert(0, if starts.is_empty() { BUILTIN_RANKS } else { 1 });
    if starts.len() == 1 {
        return by_bytes(decisions, name, operation, starts[0], notes);
    }
    let mut branches = Vec::new();
    for (index, &ranks) in starts.iter().enumerate() {
        let condition = match starts.get(index + 1) {
            Some(next) => format!("comm_size<{next}"),
            None => "comm_size=any".to_owned(),
        };
        branches.push((condition, by_bytes(decisions, name, operation, ranks, notes)));
    }
    Node::Branches(branches)
}

fn by_bytes(
    decisions: &Decisions,
    name: &str,
    operation: Operation,
    ranks: u32,
    notes: &mut BTreeSet<String>,
) -> Node {
    let asked = Sizes::of(operation);
    let mut sizes = sizes_that_matter(&decisions.rules, operation);
    if asked == Sizes::None {
        sizes.truncate(1);
    } else if decisions.rules.iter().all(|rule| rule.operation != operation) {
        sizes.extend(builtin::SIZES);
    }
    let mut branches: Vec<(String, Node)> = Vec::new();
    let mut before = "";
    for (index, &bytes) in sizes.iter().enumerate() {
        let question = Question::new(operation, ranks, bytes);
        let rule = followed(&decisions.rules, operation, ranks, bytes);
        let choice = rule.and_then(|rule| decisions.follow(rule, &question));
        let chosen = choice.is_some();
        let choice =
            choice.unwrap_or_else(|| builtin::choose(&Question { ranks: BUILTIN_RANKS, ..question }));
        let Equivalent { name: found, exact } = equivalent(name, &choice);
        if chosen && !exact {
            notes.insert(note("MPICH", &choice, found));
        }
        let condition = asked.condition(sizes.get(index + 1).copied(), ranks);
        if before == found && !branches.is_empty() {
            branches.last_mut().expect("there is one").0 = condition;
        } else {
            branches.push((condition, leaf(found)));
        }
        before = found;
    }
    match branches.pop() {
        // Nothing has to be asked.
        Some((_, node)) if branches.is_empty() => node,
        last => {
            branches.extend(last);
            Node::Branches(branches)
        }
    }
}

/// An algorithm; what splits vectors is taken only for built-in operators and vectors that have enough elements.
fn leaf(name: &'static str) -> Node {
    if name == "Allgather_intra_recursive_doubling" {
        let branches = [("comm_size=pow2", name), ("comm_size=any", "Allgather_intra_brucks")];
        return Node::Branches(
            branches.map(|(condition, name)| (condition.to_owned(), Node::of(name))).into(),
        );
    }
    let whole = match name {
        "Allreduce_intra_reduce_scatter_allgather" => "Allreduce_intra_recursive_doubling",
        "Reduce_intra_reduce_scatter_gather" => "Reduce_intra_binomial",
        _ => return Node::of(name),
    };
    let by_count = [("count<pow2", Node::of(whole)), ("count=any", Node::of(name))];
    let by_count = Node::Branches(by_count.map(|(condition, node)| (condition.to_owned(), node)).into());
    let branches = [("is_op_built_in=yes", by_count), ("is_op_built_in=no", Node::of(whole))];
    Node::Branches(branches.map(|(condition, node)| (condition.to_owned(), node)).into())
}

fn equivalent(collective: &str, choice: &Choice<'_>) -> Equivalent<&'static str> {
    let same = |name: &'static str| Equivalent::same(name);
    let near = |name: &'static str| Equivalent::nearest(name);
    let word = algorithm(choice);
    let splits = word.contains('r') && word.contains('g') && word.contains(',');
    match (collective, word) {
        ("allgather", "ring") => same("Allgather_intra_ring"),
        ("allgather", "recursive-doubling") => same("Allgather_intra_recursive_doubling"),
        ("allgather", "bruck") if choice.ways == 1 => same("Allgather_intra_brucks"),
        ("allgather", _) => near("Allgather_intra_brucks"),
        ("allreduce", "recursive-doubling") => same("Allreduce_intra_recursive_doubling"),
        ("allreduce", "rabenseifner") => same("Allreduce_intra_reduce_scatter_allgather"),
        ("allreduce", "ring") => near("Allreduce_intra_reduce_scatter_allgather"),
        ("allreduce", word) if is_word_of(word, &["a2"]) => same("Allreduce_intra_recursive_doubling"),
        ("allreduce", word) if is_word_of(word, &["r2", "g2"]) => {
            same("Allreduce_intra_reduce_scatter_allgather")
        }
        ("allreduce", word) if splits || word == "direct" => near("Allreduce_intra_reduce_scatter_allgather"),
        ("allreduce", _) => near("Allreduce_intra_recursive_doubling"),
        ("alltoall", "bruck") => same("Alltoall_intra_brucks"),
        ("alltoall", "pairwise") => same("Alltoall_intra_pairwise"),
        ("alltoall", _) => same("Alltoall_intra_scattered"),
        ("barrier", "dissemination") if choice.ways == 1 => same("Barrier_intra_dissemination"),
        ("barrier", _) => near("Barrier_intra_dissemination"),
        ("bcast", "binomial") => same("Bcast_intra_binomial"),
        ("bcast", "scatter-allgather") => same("Bcast_intra_scatter_ring_allgather"),
        ("bcast", "chain" | "binary-segmented") => near("Bcast_intra_scatter_ring_allgather"),
        ("bcast", _) => near("Bcast_intra_binomial"),
        ("exscan", "recursive-doubling") => same("Exscan_intra_recursive_doubling"),
        ("exscan", _) => near("Exscan_intra_recursive_doubling"),
        ("gather", "binomial") => same("Gather_intra_binomial"),
        ("gather", _) => near("Gather_intra_binomial"),
        ("reduce", "binomial") => same("Reduce_intra_binomial"),
        ("reduce", "rabenseifner") => same("Reduce_intra_reduce_scatter_gather"),
        ("reduce", _) => near("Reduce_intra_binomial"),
        ("reduce_scatter", "linear") => same("Reduce_scatter_intra_pairwise"),
        ("reduce_scatter", "ring") => near("Reduce_scatter_intra_pairwise"),
        ("reduce_scatter", word) if is_word_of(word, &["r2"]) => {
            same("Reduce_scatter_intra_recursive_halving")
        }
        ("reduce_scatter", _) => near("Reduce_scatter_intra_recursive_halving"),
        ("reduce_scatter_block", "linear") => same("Reduce_scatter_block_intra_pairwise"),
        ("reduce_scatter_block", "ring") => near("Reduce_scatter_block_intra_pairwise"),
        ("reduce_scatter_block", word) if is_word_of(word, &["r2"]) => {
            same("Reduce_scatter_block_intra_recursive_halving")
        }
        ("reduce_scatter_block", _) => near("Reduce_scatter_block_intra_recursive_halving"),
        ("scan", "recursive-doubling") => same("Scan_intra_recursive_doubling"),
        ("scan", _) => near("Scan_intra_recursive_doubling"),
        ("scatter", "binomial") => same("Scatter_intra_binomial"),
        (_, _) => near("Scatter_intra_binomial"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that are one of MPICH's algorithms are that one; of others it gets the nearest.
    #[test]
    fn only_what_does_the_same_is_called_the_same() {
        let (whole, split) =
            ("Allreduce_intra_recursive_doubling", "Allreduce_intra_reduce_scatter_allgather");
        let halving = "Reduce_scatter_intra_recursive_halving";
        let bruck = "Allgather_intra_brucks";
        let dissemination = "Barrier_intra_dissemination";
        for (algorithm, ways, name, exact) in [
            ("allreduce:a2,a2", 1, whole, true),
            ("allreduce:a4,a2", 1, whole, false),
            ("allreduce:r2,r2,g2,g2", 1, split, true),
            ("allreduce:r4,g4", 1, split, false),
            ("allreduce:direct", 1, split, false),
            ("allreduce:ring", 1, split, false),
            ("allgather:bruck", 1, bruck, true),
            ("allgather:bruck", 2, bruck, false),
            ("allgather:linear", 1, bruck, false),
            ("barrier:dissemination", 1, dissemination, true),
            ("barrier:dissemination", 2, dissemination, false),
            ("reduce_scatter:r2,r2", 1, halving, true),
            ("reduce_scatter:r4", 1, halving, false),
            ("reduce_scatter:linear", 1, "Reduce_scatter_intra_pairwise", true),
            ("alltoall:linear", 1, "Alltoall_intra_scattered", true),
            ("scatter:linear", 1, "Scatter_intra_binomial", false),
        ] {
            let (collective, _) = algorithm.split_once(':').unwrap_or_default();
            let found = equivalent(collective, &Choice { ways, ..Choice::new(algorithm) });
            assert_eq!((found.name, found.exact), (name, exact), "{algorithm}, {ways} ways");
        }
    }
}
