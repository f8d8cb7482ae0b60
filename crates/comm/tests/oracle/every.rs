//! Every collective call by every algorithm.

use super::{Case, Matrix, matrix_product};
use castell_collectives::collective::ALGORITHMS;
use castell_comm::collective::{Operation, Reason, Reduction};
use castell_comm::{Comm, Communicator};

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

/// Those of a whole communicator.
pub fn operations() -> impl Iterator<Item = Operation> {
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

/// All of them, with vectors of so many elements and these roots.
pub fn all(comm: &Comm, counts: &[u64], roots: &[u32]) {
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

/// By what is chosen for sums of so many numbers.
pub fn chosen(comm: &Comm, counts: &[u64]) {
    let world = comm.world();
    for operation in operations() {
        for &count in counts {
            for (root, in_place) in [(0, false), (world.size() - 1, true)] {
                let case = Case { operation, algorithm: None, count, root, in_place, blocks: false, salt: 0 };
                if case.is_sensible() {
                    case.run::<u64>(&world, &Reduction::Sum)
                        .unwrap_or_else(|error| panic!("{case:?}: {error}"));
                }
            }
        }
    }
}

/// Vectors of so many elements, one root.
pub fn sample(comm: &Comm, count: u64) {
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
