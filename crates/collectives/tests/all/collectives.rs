//! Every algorithm of every collective operation, with real bytes, against what the operation means.

use crate::executor;
use crate::executor::{Function, Job, Reduce};
use castell_base::Rank;
use castell_collectives::collective::{
    ALGORITHMS, Blocks, Collective, CollectiveError, Memory, Neighbours, Placement, Shape,
};
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, ElementType, Op, Operator, Place};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use std::sync::Arc;

/// Rank counts go up to here.
const RANKS_MAX: u32 = 70;

/// 2 x 2 matrices of wrapping u32: their product does not commute, and is exact.
const MATRIX_BYTES: u64 = 16;

fn product(left: &[u8], right: &[u8]) -> Vec<u8> {
    let entry = |matrix: &[u8], row: usize, column: usize| {
        let at = 4 * (2 * row + column);
        u32::from_ne_bytes(matrix[at..at + 4].try_into().unwrap())
    };
    let sum = |row, column| {
        let term = |k| entry(left, row, k).wrapping_mul(entry(right, k, column));
        term(0).wrapping_add(term(1))
    };
    [(0, 0), (0, 1), (1, 0), (1, 1)]
        .into_iter()
        .flat_map(|(row, column)| sum(row, column).to_ne_bytes())
        .collect()
}

/// Bytes that tell ranks and places apart.
fn bytes(rank: u32, count: u64) -> Vec<u8> {
    // The highest byte: all of the rank and of the place goes into it.
    let word = |index: u64| (u64::from(rank) << 40 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..count).map(|index| word(index) as u8 | 1).collect()
}

fn operation(name: &str) -> &str {
    name.split_once(':').unwrap().0
}

/// Words for a number of ranks, by operation.
fn words(ranks: u32) -> Vec<String> {
    let mut factors = Vec::new();
    let mut left = ranks;
    for factor in 2..=ranks {
        while left.is_multiple_of(factor) {
            factors.push(factor);
            left /= factor;
        }
    }
    let stages = |letter: char, factors: &[u32]| {
        factors.iter().map(|factor| format!("{letter}{factor}")).collect::<Vec<_>>().join(",")
    };
    let reversed: Vec<u32> = factors.iter().rev().copied().collect();
    let (a, r, g) = (stages('a', &factors), stages('r', &factors), stages('g', &reversed));
    let mut words = vec![
        "allreduce:hierarchical".to_owned(),
        "barrier:recursive-doubling".into(),
        "allreduce:recursive-doubling".into(),
        "allreduce:rabenseifner".into(),
        "allreduce:direct".into(),
    ];
    if ranks > 1 {
        words.extend([format!("allreduce:{a}"), format!("barrier:{a}"), format!("allreduce:{r},{g}")]);
        words.extend([format!("reduce_scatter:{r}"), format!("allgather:{g}")]);
    }
    if factors.len() > 1 {
        let (first, others) = factors.split_first().unwrap();
        words.push(format!("allreduce:r{first},{},g{first}", stages('a', others)));
        words.push(format!("allreduce:r{first},g{first},{}", stages('a', others)));
    }
    match ranks {
        3 => words.push("allreduce:c3m3k2,a2,e3m3k2".into()),
        5 => words.push("allreduce:c3m3k2,r2,a2,g2,e3m3k2".into()),
        6 => words.push("allreduce:a2,c6m3k2,a2,e6m3k2".into()),
        7 => words.extend(["allreduce:m1g2a3,n1g3a2".into(), "allreduce:m3g2a2,n3g2a2".into()]),
        10 => words.push("allreduce:m4g3a2,n4g2a3".into()),
        14 => words.push("allreduce:r2,c6m3k2,a2,a3,e6m3k2,g2".into()),
        29 => words.push("allreduce:m4g5a5,n4g5a5".into()),
        _ => {}
    }
    words
}

/// All names for a number of ranks, and whether they are words.
fn names(ranks: u32) -> Vec<String> {
    ALGORITHMS.iter().map(|algorithm| algorithm.name.to_owned()).chain(words(ranks)).collect()
}

/// One call of an operation.
struct Case {
    name: String,
    shape: Shape,
    in_place: bool,
    seed: u64,
}

impl Case {
    fn count(&self, rank: u32) -> u64 {
        self.shape.blocks.block(rank, self.shape.ranks).1
    }

    /// Elements of all blocks, with what lies between them.
    fn all(&self, blocks: &Blocks) -> u64 {
        let ends = (0..self.shape.ranks)
            .map(|rank| blocks.block(rank, self.shape.ranks))
            .map(|(first, count)| first + count);
        ends.max().unwrap()
    }

    /// Elements of each rank's input and output.
    fn sizes(&self, rank: u32) -> (u64, u64) {
        let (count, blocks) = (self.shape.count, self.all(&self.shape.blocks));
        let is_root = self.shape.root == Rank(rank);
        match operation(&self.name) {
            "barrier" => (0, 0),
            "bcast" => (0, count),
            "reduce" | "allreduce" | "scan" | "exscan" => (count, count),
            "gather" => (self.count(rank), if is_root { blocks } else { 0 }),
            "scatter" => (if is_root { blocks } else { 0 }, self.count(rank)),
            "allgather" => (self.count(rank), blocks),
            "reduce_scatter" => (blocks, if self.in_place { blocks } else { self.count(rank) }),
            "alltoall" => (blocks, self.all(&self.shape.arriving)),
            other => panic!("{other}"),
        }
    }

    /// What the outputs have to be, in pieces: first element and bytes; elements between them don't matter.
    fn expected(&self, rank: u32, inputs: &[Vec<u8>], combine: Function) -> Vec<(u64, Vec<u8>)> {
        let (ranks, root, width) = (self.shape.ranks, self.shape.root, self.shape.element_bytes);
        if width == 0 {
            return Vec::new();
        }
        let piece = |rank: u32, first: u64, count: u64| {
            inputs[rank as usize][(first * width) as usize..((first + count) * width) as usize].to_vec()
        };
        let reduced = |ranks: std::ops::Range<u32>, first: u64, count: u64| {
            let all = ranks.map(|rank| piece(rank, first, count));
            all.reduce(|left, right| {
                let elements = left.chunks(width as usize).zip(right.chunks(width as usize));
                elements.flat_map(|(left, right)| combine(left, right)).collect()
            })
        };
        let count = self.shape.count;
        let block = |rank| self.shape.blocks.block(rank, ranks);
        match operation(&self.name) {
            "barrier" => vec![],
            "bcast" => vec![(0, piece(root.0, 0, count))],
            "allreduce" => vec![(0, reduced(0..ranks, 0, count).unwrap())],
            "reduce" if root == Rank(rank) => vec![(0, reduced(0..ranks, 0, count).unwrap())],
            "gather" if root != Rank(rank) => vec![],
            "reduce" => vec![],
            "scan" => vec![(0, reduced(0..rank + 1, 0, count).unwrap())],
            "exscan" => reduced(0..rank, 0, count).map(|bytes| (0, bytes)).into_iter().collect(),
            "gather" | "allgather" => {
                (0..ranks).map(|from| (block(from).0, piece(from, 0, block(from).1))).collect()
            }
            "scatter" => vec![(0, piece(root.0, block(rank).0, block(rank).1))],
            "reduce_scatter" => vec![(0, reduced(0..ranks, block(rank).0, block(rank).1).unwrap())],
            "alltoall" => {
                let arriving = |from| self.shape.arriving.block(from, ranks);
                // Each rank's own blocks are those that leave; what arrives has the size of the row of its sender.
                (0..ranks).map(|from| (arriving(from).0, piece(from, block(rank).0, block(rank).1))).collect()
            }
            other => panic!("{other}"),
        }
    }

    fn run(&self, collective: &Collective, reduce: &Reduce, combine: Function) -> Vec<Vec<u8>> {
        let width = self.shape.element_bytes;
        let ranks = self.shape.ranks;
        let what = format!("{} in place {}, seed {}: {:?}", self.name, self.in_place, self.seed, self.shape);
        let mut inputs: Vec<Vec<u8>> =
            (0..ranks).map(|rank| bytes(rank, self.sizes(rank).0 * width)).collect();
        let mut outputs: Vec<Vec<u8>> =
            (0..ranks).map(|rank| vec![0x5a; (self.sizes(rank).1 * width) as usize]).collect();
        let root = self.shape.root.index();
        if operation(&self.name) == "bcast" {
            inputs[root] = bytes(root as u32, self.shape.count * width);
            outputs[root] = inputs[root].clone();
        }
        let mut given = inputs.clone();
        if self.in_place && operation(&self.name) != "scatter" {
            for rank in (0..ranks).filter(|&rank| self.sizes(rank).1 > 0) {
                let at = match operation(&self.name) {
                    "gather" | "allgather" => self.shape.blocks.block(rank, ranks).0 * width,
                    _ => 0,
                } as usize;
                let input = &inputs[rank as usize];
                outputs[rank as usize][at..at + input.len()].copy_from_slice(input);
                if operation(&self.name) != "gather" || self.shape.root == Rank(rank) {
                    // It is nowhere else.
                    given[rank as usize].fill(0xc3);
                }
            }
        }
        let job = Job {
            collective,
            inputs: given.clone(),
            outputs: outputs.clone(),
            in_place: self.in_place,
            in_place_only: matches!(operation(&self.name), "gather" | "scatter").then_some(self.shape.root),
            reduce,
            seed: self.seed,
            check: ranks <= 12 || ranks == 33,
        };
        let ends = job.run();
        for (rank, (output, input)) in ends.iter().enumerate() {
            assert_eq!(input, &given[rank], "{what}: rank {rank}'s input was changed");
            if matches!(operation(&self.name), "reduce" | "gather") && rank != root {
                assert_eq!(output, &outputs[rank], "{what}: rank {rank} has no output");
            }
            if self.in_place && operation(&self.name) == "scatter" && rank == root {
                continue;
            }
            for (first, bytes) in self.expected(rank as u32, &inputs, combine) {
                let at = (first * width) as usize;
                assert!(
                    output[at..at + bytes.len()] == bytes,
                    "{what}: rank {rank} has something else at {first}"
                );
            }
        }
        ends.into_iter().map(|(output, _)| output).collect()
    }
}

/// Broadcasts and barriers have no input.
fn can_be_in_place(case: &Case) -> bool {
    !matches!(operation(&case.name), "bcast" | "barrier")
}

fn shape(ranks: u32, count: u64, width: u64, root: u32) -> Shape {
    Shape { segment: 3, ways: 1 + ranks % 3, ..Shape::new(ranks, count, width).with_root(Rank(root)) }
}

/// Runs every algorithm that takes the shape: with an operator that does not commute if it keeps the order.
fn all_algorithms(ranks: u32, counts: &[u64], roots: &[u32], in_place: &[bool]) {
    let xor = Reduce::Local(Arithmetic::new(Operator::Xor, ElementType::U8).unwrap());
    let bits: Function = |left, right| vec![left[0] ^ right[0]];
    for name in names(ranks) {
        for (index, &count) in counts.iter().enumerate() {
            let root = roots[index % roots.len()];
            let (collective, ordered) =
                match Collective::in_order(&name, shape(ranks, count, MATRIX_BYTES, root)) {
                    Ok(collective) => (collective, true),
                    Err(CollectiveError::Order { .. }) => {
                        (Collective::new(&name, shape(ranks, count, 1, root)).unwrap(), false)
                    }
                    Err(CollectiveError::Shape { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
            for &in_place in in_place {
                let (name, seed) = (name.clone(), u64::from(ranks) * 1000 + count);
                let case = Case { name, shape: collective.shape().clone(), in_place, seed };
                if in_place && !can_be_in_place(&case) {
                    continue;
                }
                if ordered {
                    case.run(&collective, &Reduce::call(product, MATRIX_BYTES), product);
                } else {
                    case.run(&collective, &xor, bits);
                }
            }
        }
    }
}

#[test]
fn small_groups_in_all_sizes() {
    for ranks in 1..=9 {
        all_algorithms(ranks, &[0, 1, 2, 7, 24], &[0, ranks - 1, ranks / 2], &[false, true]);
    }
}

#[test]
fn groups_up_to_thirty_ranks() {
    for ranks in 10..=30 {
        all_algorithms(ranks, &[u64::from(ranks) + 3], &[ranks / 3, 0], &[false, true]);
    }
}

#[test]
fn groups_up_to_fifty_ranks() {
    for ranks in 31..=50 {
        all_algorithms(ranks, &[u64::from(ranks % 7) + 1], &[ranks - 1], &[ranks % 2 == 0]);
    }
}

#[test]
fn groups_up_to_seventy_ranks() {
    for ranks in 51..=RANKS_MAX {
        all_algorithms(ranks, &[u64::from(ranks % 5) + 1], &[ranks / 2], &[ranks % 2 == 0]);
    }
}

/// While one rank has not entered, no other one leaves.
#[test]
fn barriers_hold_everybody_back() {
    let xor = Reduce::Local(Arithmetic::new(Operator::Xor, ElementType::U8).unwrap());
    for ranks in 2..=20 {
        for name in names(ranks).iter().filter(|name| operation(name) == "barrier") {
            let collective = Collective::new(name, shape(ranks, 1, 1, 0)).unwrap();
            for late in [0, ranks / 2, ranks - 1] {
                executor::nobody_leaves_without(&collective, Rank(late), &xor);
            }
        }
    }
}

#[test]
fn blocks_of_any_size_and_place() {
    let xor = Reduce::Local(Arithmetic::new(Operator::Xor, ElementType::U8).unwrap());
    for ranks in [1, 2, 3, 4, 7, 8, 13, 16] {
        let counts: Vec<u64> = (0..ranks).map(|rank| u64::from(rank * 5 % 4)).collect();
        let apart = counts.iter().scan(2 * counts.len() as u64 * 4, |at, &count| {
            // From the last place to the first, with room between.
            *at -= 8;
            Some((*at, count))
        });
        for (blocks, root) in [(Blocks::packed(&counts), 0), (Blocks::Listed(apart.collect()), ranks / 2)] {
            for name in names(ranks) {
                let sized = ["gather", "scatter", "allgather", "reduce_scatter"];
                if !sized.contains(&operation(&name)) {
                    continue;
                }
                let shape = shape(ranks, 1, 1, root).with_blocks(blocks.clone());
                let collective = match Collective::new(&name, shape.clone()) {
                    Ok(collective) => collective,
                    Err(CollectiveError::Shape { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                let case = Case { name, shape, in_place: false, seed: u64::from(ranks) };
                let bits: Function = |left, right| vec![left[0] ^ right[0]];
                case.run(&collective, &xor, bits);
            }
        }
    }
}

/// An alltoall whose blocks have a size for each pair: what a rank sends and gets is its own business.
#[test]
fn alltoalls_of_any_sizes() {
    let xor = Reduce::Local(Arithmetic::new(Operator::Xor, ElementType::U8).unwrap());
    let size = |from: u32, to: u32| u64::from((3 * from + 5 * to) % 4);
    for ranks in 1..=12 {
        for name in ["alltoall:linear", "alltoall:pairwise"] {
            let shape = |rank: u32| {
                let leaving: Vec<u64> = (0..ranks).map(|to| size(rank, to)).collect();
                let arriving: Vec<u64> = (0..ranks).map(|from| size(from, rank)).collect();
                Shape {
                    blocks: Blocks::packed(&leaving),
                    arriving: Blocks::packed(&arriving),
                    ..Shape::new(ranks, 1, 1)
                }
            };
            executor::alltoall_by_rank(name, ranks, &shape, &size, &xor);
        }
    }
}

#[test]
fn floats_have_the_same_bits_everywhere_and_every_time() {
    let add = Reduce::Local(Arithmetic::new(Operator::Add, ElementType::F64).unwrap());
    for ranks in [2, 3, 5, 6, 7, 8, 10, 12, 14, 16, 29, 33, 64, 70] {
        for name in names(ranks).iter().filter(|name| operation(name) == "allreduce") {
            let collective = Collective::new(name, shape(ranks, 5, 8, 0)).unwrap();
            let inputs: Vec<Vec<u8>> = (0..ranks)
                .map(|rank| {
                    (0..5).flat_map(|i| (f64::from(rank * 7 + i).sin() * 1e3).to_ne_bytes()).collect()
                })
                .collect();
            let run = |seed| {
                let (outputs, inputs) = (vec![vec![0; 40]; ranks as usize], inputs.clone());
                let job = Job {
                    collective: &collective,
                    inputs,
                    outputs,
                    in_place: false,
                    in_place_only: None,
                    reduce: &add,
                    seed,
                    check: false,
                };
                job.run()
            };
            let first = run(1);
            assert!(first.iter().all(|(output, _)| *output == first[0].0), "{name} on {ranks} ranks");
            assert_eq!(run(2)[0].0, first[0].0, "{name} on {ranks} ranks");
        }
    }
}

/// Hosts of as many ranks as drawn, wherever these are: consecutive, in turns, or anyhow.
fn placement(ranks: u32, seed: u64) -> Placement {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let hosts = random.random_range(1..=ranks);
    let host_of: Vec<u32> = match seed % 3 {
        0 => (0..ranks).map(|rank| rank * hosts / ranks).collect(),
        1 => (0..ranks).map(|rank| rank % hosts).collect(),
        _ => (0..ranks).map(|_| random.random_range(0..hosts)).collect(),
    };
    Placement::new(host_of)
}

fn two_level() -> impl Iterator<Item = String> {
    let names = ALGORITHMS.iter().map(|algorithm| algorithm.name.to_owned());
    names.filter(|name| name.contains("two-level"))
}

#[test]
fn ranks_are_on_any_hosts() {
    let xor = Reduce::Local(Arithmetic::new(Operator::Xor, ElementType::U8).unwrap());
    let bits: Function = |left, right| vec![left[0] ^ right[0]];
    for (seed, ranks) in (0..).zip([1, 2, 3, 4, 5, 7, 8, 11, 12, 16, 19, 26, 33, 6, 9, 10, 13, 14]) {
        let placement = Arc::new(placement(ranks, seed));
        for name in two_level() {
            for (count, root, in_place) in [(3, 0, false), (40, ranks - 1, true), (0, ranks / 2, false)] {
                let placed = |width, is_exact| Shape {
                    placement: Some(Arc::clone(&placement)),
                    is_exact,
                    ..shape(ranks, count, width, root)
                };
                let products = Collective::in_order(&name, placed(MATRIX_BYTES, false)).unwrap();
                let sums = Collective::new(&name, placed(1, true)).unwrap();
                for (collective, reduce, function) in [
                    (&products, &Reduce::call(product, MATRIX_BYTES), product as Function),
                    (&sums, &xor, bits),
                ] {
                    let shape = collective.shape().clone();
                    let case = Case { name: name.clone(), shape, in_place, seed };
                    if !in_place || can_be_in_place(&case) {
                        case.run(collective, reduce, function);
                    }
                }
            }
        }
    }
}

/// What a sum of floats comes to does not depend on who shares a host, and not on which of the algorithms for hosts it is.
#[test]
fn floats_have_the_same_bits_on_any_hosts() {
    let add = Reduce::Local(Arithmetic::new(Operator::Add, ElementType::F64).unwrap());
    for ranks in [2, 3, 4, 6, 7, 8, 12, 13, 24] {
        let mut known: HashMap<String, Vec<Vec<u8>>> = HashMap::new();
        let reducing = ["reduce", "allreduce", "reduce_scatter", "scan", "exscan"];
        for name in two_level().filter(|name| reducing.contains(&operation(name))) {
            for seed in 0..9 {
                let placement = Some(Arc::new(placement(ranks, seed)));
                let count = u64::from(ranks) * 3;
                let shape =
                    Shape { placement, ..shape(ranks, count, 8, ranks / 2).with_blocks(Blocks::Uniform(3)) };
                let collective = Collective::new(&name, shape).unwrap();
                let input = |rank: u32| {
                    let number =
                        |i: u64| f64::from(rank * 7 + i as u32).sin() * 10f64.powi((rank % 5) as i32 * 3);
                    (0..count).flat_map(|i| number(i).to_ne_bytes()).collect::<Vec<u8>>()
                };
                let job = Job {
                    collective: &collective,
                    inputs: (0..ranks).map(input).collect(),
                    outputs: vec![vec![0; 8 * count as usize]; ranks as usize],
                    in_place: false,
                    in_place_only: None,
                    reduce: &add,
                    seed,
                    check: false,
                };
                let outputs: Vec<Vec<u8>> = job.run().into_iter().map(|(output, _)| output).collect();
                let key = operation(&name).to_owned();
                let expected = known.entry(key).or_insert_with(|| outputs.clone());
                assert!(*expected == outputs, "{name} on {ranks} ranks, seed {seed}");
            }
        }
        // The root of a reduction has what all have of an allreduce, and the last rank of a scan.
        let whole = &known["allreduce"][0];
        assert_eq!(&known["reduce"][ranks as usize / 2], whole, "{ranks} ranks");
        if ranks.is_power_of_two() {
            assert_eq!(&known["scan"][ranks as usize - 1], whole, "{ranks} ranks");
        }
    }
}

#[test]
fn simulated_and_real_messages_are_the_same() {
    let xor = Reduce::Local(Arithmetic::new(Operator::Xor, ElementType::U8).unwrap());
    for ranks in [1, 2, 3, 6, 8, 13, 16] {
        for name in names(ranks) {
            if let Ok(collective) = Collective::new(&name, shape(ranks, 10, 1, ranks / 2)) {
                executor::same_messages_without_memory(&collective, &xor);
            }
        }
    }
}

/// Where all ranks work, the last halving writes to where the result belongs.
#[test]
fn nothing_is_copied_to_the_root_of_a_power_of_two() {
    let collective = Collective::new("reduce:rabenseifner", shape(8, 24, 1, 3)).unwrap();
    let sum = Reduce::Local(Arithmetic::new(Operator::Add, ElementType::U8).unwrap());
    for rank in (0..8).map(Rank) {
        let [input, output, temporary] = [0, 1 << 10, 1 << 20].map(Place::scratch);
        let memory = Memory { input, output, temporary, in_place: false, combine: &sum };
        let mut graph = Graph::new();
        collective.weave(rank, &memory, &mut graph).unwrap();
        let local = graph.vertices().filter(|vertex| matches!(graph.op(*vertex), Op::Local { .. })).count();
        assert_eq!(local, 3, "rank {rank:?} reduces after each of three halvings");
    }
}

#[test]
fn refusals_say_what_to_take_instead() {
    let refusal =
        |name: &str, ranks| Collective::new(name, Shape::new(ranks, 1, 8)).err().unwrap().to_string();
    assert!(refusal("bcast:magic", 4).contains("there are bcast:linear, bcast:chain"));
    assert!(refusal("nothing", 4).contains("castell schedule list"));
    assert!(refusal("allgather:recursive-doubling", 6).contains("a power of two"));
    assert!(refusal("allreduce:a4", 6).contains("no multiple of 4"));
    let error = Collective::in_order("reduce:binomial", Shape::new(4, 1, 8)).err().unwrap().to_string();
    assert!(error.contains("reduce:rabenseifner, reduce:two-level do"), "{error}");
    let uneven = Shape::new(3, 1, 8).with_blocks(Blocks::packed(&[1, 2, 1]));
    let error = Collective::new("alltoall:bruck", uneven).err().unwrap().to_string();
    assert!(error.contains("blocks of one size"), "{error}");
}

#[test]
fn neighbours_exchange_their_blocks() {
    let xor = Arithmetic::new(Operator::Xor, ElementType::U8).unwrap();
    let reduce = Reduce::Local(xor);
    for ranks in [1, 2, 3, 8, 11] {
        // Rank r sends 1 byte to r + 1, 2 to r + 2 and 3 to r + 3.
        let lists = |rank: u32, back: bool| {
            let steps = if back { [3 * ranks - 1, 3 * ranks - 2, 3 * ranks - 3] } else { [1, 2, 3] };
            steps.map(|step| Rank((rank + step) % ranks)).to_vec()
        };
        let blocks = Blocks::packed(&[1, 2, 3]);
        for all_the_same in [false, true] {
            let (mut graphs, mut inputs) = (Vec::new(), Vec::new());
            for rank in 0..ranks {
                let neighbours = Neighbours {
                    sources: lists(rank, true),
                    destinations: lists(rank, false),
                    element_bytes: 1,
                    leaving: if all_the_same { Blocks::Uniform(2) } else { blocks.clone() },
                    arriving: if all_the_same { Blocks::Uniform(2) } else { blocks.clone() },
                };
                let [input, output, temporary] = [0, 6, 12].map(Place::scratch);
                let memory = Memory { input, output, temporary, in_place: false, combine: &xor };
                let mut graph = Graph::new();
                graph.allocate_scratchpad(12);
                if all_the_same {
                    neighbours.allgather(Rank(rank), &memory, &mut graph).unwrap();
                } else {
                    neighbours.alltoall(Rank(rank), &memory, &mut graph).unwrap();
                }
                graphs.push(graph);
                inputs.push((0..6).map(|place| (rank * 8 + place) as u8).collect::<Vec<u8>>());
            }
            let outputs = executor::run_graphs(graphs, &inputs, &vec![vec![0; 6]; ranks as usize], &reduce);
            for rank in 0..ranks {
                let from = |back: usize| &inputs[lists(rank, true)[back].index()];
                let expected: Vec<u8> = if all_the_same {
                    (0..3).flat_map(|back| from(back)[..2].to_vec()).collect()
                } else {
                    [&from(0)[..1], &from(1)[1..3], &from(2)[3..]].concat()
                };
                assert_eq!(outputs[rank as usize], expected, "rank {rank} of {ranks}");
            }
        }
    }
}
