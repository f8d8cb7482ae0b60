//! Distances against their definition, and of programs whose distances follow from formulas.

use castell_cachesim::{Histogram, MissRatioCurve, Sampled, StackDistances};
use proptest::prelude::*;

/// By definition: the distinct blocks since the last access.
fn naive(trace: &[u64]) -> Vec<Option<u64>> {
    let of = |at: usize| {
        let last = trace[..at].iter().rposition(|block| *block == trace[at])?;
        let mut between = trace[last + 1..at].to_vec();
        between.sort_unstable();
        between.dedup();
        Some(between.len() as u64)
    };
    (0..trace.len()).map(of).collect()
}

fn fast(trace: impl IntoIterator<Item = u64>) -> Vec<Option<u64>> {
    let mut distances = StackDistances::new();
    trace.into_iter().map(|block| distances.access(block)).collect()
}

fn histogram_of(trace: impl IntoIterator<Item = u64>) -> Histogram {
    let (mut distances, mut histogram) = (StackDistances::new(), Histogram::default());
    trace.into_iter().for_each(|block| histogram.add(distances.access(block)));
    histogram
}

proptest! {
    #[test]
    fn distances_are_those_of_the_definition(
        trace in prop::collection::vec(prop_oneof![0..8u64, 0..300u64, any::<u64>().prop_map(|any| any | 1 << 63)], 0..700),
    ) {
        prop_assert_eq!(fast(trace.iter().copied()), naive(&trace));
    }
}

#[test]
fn a_round_over_many_blocks_has_their_number_as_distance_through_all_moves() {
    // From few blocks to more than the first table and the first slots hold, so often that the marks move several times.
    for blocks in [1u64, 63, 64, 65, 511, 512, 2047, 4096, 10_000] {
        let rounds = 6;
        let distances = fast((0..rounds).flat_map(|_| 0..blocks));
        assert!(distances[..blocks as usize].iter().all(Option::is_none), "{blocks}");
        assert!(
            distances[blocks as usize..].iter().all(|distance| *distance == Some(blocks - 1)),
            "{blocks}"
        );
    }
}

#[test]
fn near_and_far_are_counted_alike() {
    // A hot block between the steps of a long round: distance 1, while the round's blocks are that far and one further.
    let blocks = 5000;
    let round = || (0..blocks).flat_map(|block| [block, u64::MAX]);
    let distances = fast(round().chain(round()));
    let second = &distances[2 * blocks as usize..];
    assert!(second.iter().step_by(2).all(|distance| *distance == Some(blocks)));
    assert!(second.iter().skip(1).step_by(2).all(|distance| *distance == Some(1)));
}

#[test]
fn a_matrix_product_has_the_distances_that_its_loops_say() {
    // C[i][j] += A[i][k] * B[k][j], a block an element: B comes again after a row of the outer loop.
    let n = 24u64;
    let (a, b, c) = (0, 1 << 20, 2 << 20);
    let trace = (0..n).flat_map(|i| {
        (0..n).flat_map(move |j| (0..n).flat_map(move |k| [a + i * n + k, b + k * n + j, c + i * n + j]))
    });
    let distances = fast(trace);
    let again = |i: u64, j: u64, k: u64| ((i * n + j) * n + k) as usize * 3 + 1;
    // Since B[k][j] in the row before: the rest of B, two rows of A, and C's elements from there to here.
    let expected = (n * n - 1) + 2 * n + (n + 1);
    assert_eq!(distances[again(5, 7, 3)], Some(expected));
    // C's element stays between two steps of the inner loop: A and B lie between.
    assert_eq!(distances[again(5, 7, 3) + 1], Some(2));
}

#[test]
fn memory_follows_the_blocks_not_the_accesses() {
    let mut distances = StackDistances::new();
    let blocks = 1u64 << 16;
    for at in 0..40 * blocks {
        distances.access(at.wrapping_mul(0x9e37_79b9) % blocks);
    }
    assert_eq!(distances.blocks(), blocks);
    assert!(distances.bytes() <= 60 * blocks as usize, "{} bytes", distances.bytes());
}

#[test]
fn a_sample_comes_near_the_exact_curve_and_knows_how_near() {
    // Three working sets, touched with different shares.
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (which, place) = (state >> 60, (state >> 20) & 0xff_ffff);
        match which {
            0..8 => place % 3_000,
            8..13 => 1 << 30 | (place % 40_000),
            _ => 1 << 40 | (place % 300_000),
        }
    };
    let (mut exact, mut histogram, mut sampled) =
        (StackDistances::new(), Histogram::default(), Sampled::new(0.05).expect("a rate"));
    for _ in 0..2_000_000 {
        let block = next();
        histogram.add(exact.access(block));
        sampled.access(block);
    }
    let (exact, sample) = (MissRatioCurve::of(&histogram), MissRatioCurve::of(&sampled.histogram()));
    let (error, difference) = (sampled.error(), exact.distance_to(&sample));
    assert!(difference < 0.05, "{difference}");
    assert!(difference < 5.0 * error && error < 0.05, "{difference}, said to be {error}");
    // In a cache that holds the two smaller sets, and in one of fewer blocks than the sample tells apart.
    let near = |blocks: f64| (exact.at(blocks) - sample.at(blocks)).abs();
    assert!(near(60_000.0) < 5.0 * sampled.groups().standard_error(60_000.0), "{}", near(60_000.0));
    let mut whole = Sampled::new(1.0).expect("a rate");
    (0..1000).for_each(|at| whole.access(at % 70));
    assert_eq!(whole.error(), 0.0, "all blocks are no sample");
    assert!(Sampled::new(0.0).is_err() && Sampled::new(f64::NAN).is_err() && Sampled::new(1.5).is_err());
}

#[test]
fn the_curve_is_that_of_a_cache() {
    // A cache of the least recently used blocks, by hand.
    let trace: Vec<u64> = (0..3000u64).map(|at| (at * at + 3 * at) % 97 + at / 300 * 5).collect();
    let curve = MissRatioCurve::of(&histogram_of(trace.iter().copied()));
    for size in 1..16usize {
        let mut cache: Vec<u64> = Vec::new();
        let mut misses = 0;
        for block in &trace {
            let found = cache.iter().position(|kept| kept == block);
            misses += usize::from(found.is_none());
            found.map(|at| cache.remove(at));
            cache.insert(0, *block);
            cache.truncate(size);
        }
        let expected = misses as f64 / trace.len() as f64;
        assert!((curve.at(size as f64) - expected).abs() < 1e-9, "size {size}");
    }
}
