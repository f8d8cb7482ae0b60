//! Every collective call by every algorithm, against a serial oracle.

mod group;
mod oracle;

use castell_collectives::collective::ALGORITHMS;
use castell_comm::collective::{Operation, Reason, Reduction};
use castell_comm::job::{JobOptions, Net};
use castell_comm::{Comm, Communicator};
use group::{group, group_with};
use oracle::{Case, Matrix, matrix_product};

/// The names of an operation's algorithms, and words for some numbers of ranks.
fn algorithms(operation: Operation, ranks: u32) -> Vec<String> {
    let named = ALGORITHMS.iter().map(|algorithm| algorithm.name);
    let mut names: Vec<String> = named
        .filter(|name| name.split_once(':').is_some_and(|(of, _)| of == operation.name()))
        .map(str::to_owned)
        .collect();
    if matches!(operation, Operation::Allreduce | Operation::Barrier) {
        names.push(format!("{}:recursive-doubling", operation.name()));
        names.push(format!("{}:hierarchical", operation.name()));
    }
    if operation == Operation::Allreduce {
        names.push("allreduce:rabenseifner".to_owned());
        names.push("allreduce:direct".to_owned());
    }
    let words: &[&str] = match ranks {
        4 => &["a4", "a2,a2", "r2,r2,g2,g2"],
        6 => &["a3,a2", "c6m2,a2,e6m2"],
        8 => &["a8", "r2,a2,a2,g2"],
        9 => &["a3,a3", "r3,r3,g3,g3"],
        _ => &[],
    };
    if operation == Operation::Allreduce {
        names.extend(words.iter().map(|word| format!("allreduce:{word}")));
    }
    names
}

fn operations() -> impl Iterator<Item = Operation> {
    Operation::ALL.into_iter().filter(|operation| !operation.is_among_neighbours())
}

/// One call by an algorithm that may not be for it: with matrix products if it keeps the order, else with sums.
fn one(world: &Communicator, case: &Case<'_>, products: &Reduction) {
    match case.run::<Matrix>(world, products) {
        Ok(()) => {}
        Err(error) => match error.reason {
            Reason::Algorithm(castell_collectives::collective::CollectiveError::Order { .. }) => {
                case.run::<u64>(world, &Reduction::Sum).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            }
            // Not for this number of ranks, or not for such blocks.
            Reason::Algorithm(_) | Reason::Argument(_) if case.algorithm.is_some() => {}
            _ => panic!("{case:?}: {error}"),
        },
    }
}

fn all(comm: &Comm, counts: &[u64], roots: &[u32]) {
    let world = comm.world();
    let products = matrix_product();
    let ranks = world.size();
    for operation in operations() {
        let names = algorithms(operation, ranks);
        let names = names.iter().map(|name| Some(name.as_str())).chain([None]);
        for (salt, algorithm) in (0..).zip(names) {
            for &count in counts {
                for &root in roots {
                    for (in_place, blocks) in [(false, false), (true, false), (false, true), (true, true)] {
                        let case = Case { operation, algorithm, count, root, in_place, blocks, salt };
                        if case.is_sensible() {
                            one(&world, &case, &products);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn one_to_five_ranks() {
    for ranks in 1..=5 {
        group(ranks, |comm| all(comm, &[0, 1, 5], &[0, ranks - 1]));
    }
}

/// The same calls with the same results where messages go over TCP, also longer ones than go at once.
#[test]
fn over_tcp() {
    for ranks in [2, 3, 4] {
        let options = JobOptions { net: Net::Tcp, ..JobOptions::new(ranks) };
        let counts: &[u64] = if ranks == 3 { &[1, 3000] } else { &[0, 5] };
        group_with(&options, |comm| all(comm, counts, &[ranks - 1]));
    }
}

#[test]
fn six_to_nine_ranks() {
    for ranks in 6..=9 {
        group(ranks, |comm| all(comm, &[1, 11], &[ranks / 2]));
    }
}

#[test]
fn large_blocks() {
    for ranks in [2, 3, 4] {
        group(ranks, |comm| all(comm, &[3000], &[ranks - 1]));
    }
}

#[test]
fn many_ranks() {
    for ranks in [16, 33] {
        group(ranks, |comm| all(comm, &[2], &[ranks / 3]));
    }
}

/// Every algorithm, on more ranks than anybody has cores for; with `CASTELL_ALL_RANKS=1` on every number of ranks up to there,
/// which takes long where there are few cores.
#[test]
fn up_to_seventy_ranks() {
    let all_ranks = std::env::var_os("CASTELL_ALL_RANKS").is_some();
    for ranks in if all_ranks { 1 } else { 70 }..=70 {
        group(ranks, |comm| sample(comm, 3));
        if all_ranks {
            group(ranks, |comm| all(comm, &[2], &[ranks / 3]));
        }
    }
}

/// Vectors of so many elements, one root.
fn sample(comm: &Comm, count: u64) {
    let world = comm.world();
    let products = matrix_product();
    for operation in operations() {
        let names = algorithms(operation, world.size());
        for (salt, name) in (0..).zip(&names) {
            let (algorithm, root) = (Some(name.as_str()), world.size() / 2);
            let case = Case { operation, algorithm, count, root, in_place: false, blocks: false, salt };
            if case.is_sensible() {
                one(&world, &case, &products);
            }
        }
    }
}
