//! The simulated chip against naive ones, and what must hold whatever runs.

use castell_cachesim::StackDistances;
use castell_cachesim::machine::{Cache, Chip, Core, MachineError, Shape, Stream, alone, run, slowdowns};
use castell_cachesim::programs::{Access, FRESH, Program, kernels, mixture, probe, solver};
use proptest::prelude::*;

fn chip(llc: Shape) -> Chip {
    let (l1, l2) = (Shape::sets(8, 2), Shape::sets(32, 4));
    Chip { l1, l2, llc, l2_ps: 2_000, llc_ps: 12_000, memory_ps: 70_000, transfer_ps: 4_571 }
}

/// Accesses to few enough blocks that all caches matter.
fn trace(blocks: u64) -> impl Strategy<Value = Vec<Access>> {
    let access = (0..blocks, 0..20_000u32).prop_map(|(block, compute_ps)| Access { block, compute_ps });
    prop::collection::vec(access, 1..400)
}

/// Sets as lists, the newest block first; a block evicts the oldest of those that the mask's ways hold.
struct NaiveCache {
    sets: Vec<Vec<(u64, usize)>>,
    ways: usize,
}

impl NaiveCache {
    fn new(blocks: usize, ways: usize) -> NaiveCache {
        NaiveCache { sets: vec![Vec::new(); blocks / ways], ways }
    }

    fn access(&mut self, block: u64, mask: u64) -> bool {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(block % count) as usize];
        if let Some(at) = set.iter().position(|entry| entry.0 == block) {
            let entry = set.remove(at);
            set.insert(0, entry);
            return true;
        }
        let allowed = |way: usize| mask >> way & 1 == 1;
        let free = (0..self.ways).find(|way| allowed(*way) && set.iter().all(|entry| entry.1 != *way));
        let way = free.unwrap_or_else(|| {
            let oldest = set.iter().rposition(|entry| allowed(entry.1)).expect("a way that is taken");
            set.remove(oldest).1
        });
        set.insert(0, (block, way));
        false
    }
}

/// Passes whose times are kept, the last of them.
const TURNS: usize = 12;

/// One core, access by access, without the division into own and shared caches: picoseconds of the last of some passes, and the misses of the last one.
fn naive(chip: &Chip, trace: &[Access], window: usize, passes: usize) -> (Vec<u64>, u64) {
    let ways = |shape: Shape| shape.ways().unwrap_or(shape.blocks());
    let caches = [chip.l1, chip.l2, chip.llc];
    let [mut l1, mut l2, mut llc] = caches.map(|shape| NaiveCache::new(shape.blocks(), ways(shape)));
    let (mut now, mut link_free, mut misses) = (0u64, 0u64, 0);
    let mut answers: Vec<u64> = Vec::new();
    let (mut last_issue, mut begin, mut took) = (0, 0, Vec::new());
    for pass in 0..passes {
        misses = 0;
        for access in trace {
            now += u64::from(access.compute_ps);
            if l1.access(access.block, u64::MAX) {
                continue;
            }
            if l2.access(access.block, u64::MAX) {
                now += chip.l2_ps;
                continue;
            }
            if answers.len() >= window {
                now = now.max(answers[answers.len() - window]);
            }
            last_issue = now;
            let mut answer = now + chip.llc_ps;
            if !llc.access(access.block, u64::MAX) {
                misses += 1;
                link_free = link_free.max(answer) + chip.transfer_ps;
                answer = link_free + chip.memory_ps;
            }
            answers.push(answer.max(answers.last().copied().unwrap_or(0)));
        }
        if pass + TURNS >= passes {
            took.push(last_issue - begin);
        }
        begin = last_issue;
    }
    (took, misses)
}

proptest! {
    #[test]
    fn a_cache_of_sets_equals_lists(
        accesses in prop::collection::vec((0..60u64, prop::sample::select(vec![0b1111u64, 0b0011, 0b1100, 0b0100])), 1..500),
    ) {
        let (mut cache, mut naive) = (Cache::new(Shape::sets(16, 4)), NaiveCache::new(16, 4));
        for (block, mask) in accesses {
            prop_assert_eq!(cache.access(block, mask), naive.access(block, mask));
        }
    }

    #[test]
    fn a_cache_without_sets_hits_what_is_near(blocks in prop::collection::vec(0..60u64, 1..500), size in 1..40usize) {
        let (mut cache, mut distances) = (Cache::new(Shape::full(size)), StackDistances::new());
        for block in blocks {
            let near = distances.access(block).is_some_and(|distance| distance < size as u64);
            prop_assert_eq!(cache.access(block, u64::MAX), near);
        }
    }

    /// What is run together is the same machine, only with the own caches done before.
    #[test]
    fn a_program_alone_takes_as_long_as_access_by_access(trace in trace(200), window in 1..6usize, full in any::<bool>()) {
        let chip = chip(if full { Shape::full(64) } else { Shape::sets(64, 4) });
        let program = Program::of_trace("random", window, trace.clone());
        let stream = Stream::of(&chip, &program, 0);
        prop_assume!(stream.bytes_into_l2() > 0);
        let core = Core { stream: &stream, program: 0, ways: chip.llc.all_ways() };
        // From one request to the same one of a later pass: both machines are periodic after enough passes, some only over several passes, which take
        // turns: what was measured is the mean of some that follow each other.
        let measured = run(&chip, &[core], 20).expect("all ways");
        let (took, misses) = naive(&chip, &trace, window, 30);
        prop_assert_eq!(measured[0].misses, misses as f64);
        let mean = |took: &[u64]| took.iter().sum::<u64>() as f64 / took.len() as f64;
        let is_mean = |took: &[u64]| (measured[0].pass_ps - mean(took)).abs() < 1.0;
        let is_one = (1..=took.len()).any(|passes| took.windows(passes).any(is_mean));
        prop_assert!(is_one, "{} is no mean of some of {took:?}", measured[0].pass_ps);
    }

    /// Programs whose ways differ do not see each other, but for the link; with a link that takes no time not at all.
    #[test]
    fn with_ways_of_its_own_a_program_has_no_neighbour(first in trace(200), second in trace(200)) {
        let chip = Chip { transfer_ps: 0, ..chip(Shape::sets(64, 4)) };
        let programs = [Program::of_trace("first", 3, first), Program::of_trace("second", 2, second)];
        for (program, ways) in programs.iter().zip([0b0011, 0b1100]) {
            let stream = Stream::of(&chip, program, 0);
            let pass = |warm| run(&chip, &[Core { stream: &stream, program: 0, ways }], warm).expect("ways")[0].pass_ps;
            // Else it depends on which of its passes are measured: some are steady only after many, or never.
            prop_assume!((3..40).all(|warm| pass(warm) == pass(2)));
        }
        let first = alone(&chip, &programs[0], Some(0b0011)).expect("ways");
        let second = alone(&chip, &programs[1], Some(0b1100)).expect("ways");
        for factor in slowdowns(&chip, &[&first, &second]).expect("ways") {
            prop_assert!((factor - 1.0).abs() < 0.02, "{factor}");
        }
    }
}

#[test]
fn two_streams_share_the_link_and_it_carries_no_more_than_it_can() {
    let chip = Chip::xeon_e5_4620(16);
    let stream = alone(&chip, &probe::probe(chip.llc.blocks() * 2, 1, 19), None).expect("all ways");
    let alone_rate = stream.alone().into_llc;
    let factors = slowdowns(&chip, &[&stream, &stream]).expect("all ways");
    let together: f64 = factors.iter().map(|factor| alone_rate / factor).sum();
    assert!(alone_rate > 0.95 * chip.bytes_per_second_max(), "{alone_rate}");
    assert!((0.98..1.001).contains(&(together / chip.bytes_per_second_max())), "{factors:?}");
}

#[test]
fn who_asks_for_nothing_is_not_disturbed_and_disturbs_nobody() {
    let chip = Chip::xeon_e5_4620(16);
    let quiet =
        Program::new("quiet", 1, |sink| (0..9_000).for_each(|_| sink(Access { block: 7, compute_ps: 500 })));
    let quiet = alone(&chip, &quiet, None).expect("all ways");
    assert_eq!((quiet.alone().pass_seconds, quiet.alone().into_l1), (4.5e-6, 0.0));
    let stream = alone(&chip, &probe::probe(chip.llc.blocks() * 2, 1, 10), None).expect("all ways");
    assert_eq!(slowdowns(&chip, &[&quiet, &stream]).expect("all ways"), [1.0, 1.0]);
}

#[test]
fn masks_name_ways_that_are_there() {
    let chip = Chip::xeon_e5_4620(16);
    let stream = probe::probe(1000, 1, 4);
    assert_eq!(alone(&chip, &stream, Some(0)).unwrap_err(), MachineError::Mask { mask: 0, ways: 16 });
    assert!(alone(&chip, &stream, Some(1 << 16)).is_err());
    let full = Chip { llc: Shape::full(16384), ..chip };
    assert_eq!(alone(&full, &stream, Some(1)).unwrap_err(), MachineError::NoWays);
    assert!(alone(&full, &stream, None).is_ok());
}

#[test]
fn fewer_ways_for_a_stream_protect_its_neighbour() {
    let chip = Chip::xeon_e5_4620(16);
    let list =
        kernels::kernels(&chip).into_iter().find(|program| program.name() == "chase").expect("a kernel");
    let list = alone(&chip, &list, None).expect("all ways");
    let stream = |ways| alone(&chip, &probe::probe(chip.llc.blocks() * 2, 1, 10), ways).expect("ways");
    let beside = |ways| slowdowns(&chip, &[&list, &stream(ways)]).expect("ways")[0];
    let (unprotected, protected) = (beside(None), beside(Some(0b11)));
    assert!(unprotected > 5.0 && protected < 1.1, "{unprotected} {protected}");
}

#[test]
fn fresh_blocks_are_never_found() {
    let chip = Chip::xeon_e5_4620(16);
    let fresh = Program::new("fresh", 4, |sink| {
        (0..100).for_each(|block| sink(Access { block: FRESH | block, compute_ps: 100 }));
    });
    let fresh_alone = *alone(&chip, &fresh, None).expect("all ways").alone();
    assert!((fresh_alone.into_llc / fresh_alone.into_l1 - 1.0).abs() < 1e-9, "{fresh_alone:?}");
    assert_eq!(fresh.distances().first_accesses(), 100.0);
}

#[test]
fn mixtures_meet_their_flows() {
    let chip = Chip::xeon_e5_4620(16);
    let flows = mixture::Flows { into_llc: 2e9, llc_reuse: 4.0, l2_reuse: 3.0, window: 20, llc_part: 0.4 };
    let shown = *alone(&chip, &mixture::mixture("mixture", &flows, &chip), None).expect("all ways").alone();
    let near = |shown: f64, wanted: f64| (shown / wanted - 1.0).abs() < 0.1;
    assert!(near(shown.into_llc, 2e9), "{shown:?}");
    assert!(
        near(shown.into_l2 / shown.into_llc, 4.0) && near(shown.into_l1 / shown.into_l2, 3.0),
        "{shown:?}"
    );
}

#[test]
fn conjugate_gradients_come_back_to_matrix_vector_and_row() {
    let side = 200;
    let histogram = solver::conjugate_gradients(side, 1, 8).distances();
    let all = histogram.accesses();
    let [matrix, vector, row] = solver::conjugate_gradients_blocks(side);
    let part = |low: f64, high: f64| {
        let near =
            histogram.buckets().filter(|bucket| bucket.from as f64 >= low && (bucket.from as f64) < high);
        near.map(|bucket| bucket.accesses).sum::<f64>() / all
    };
    let [matrix, vector, row] = [matrix as f64, vector as f64, row as f64];
    // The matrix and the vectors are between two uses of a matrix block; one to four vectors between two of a vector.
    assert!(part(matrix, matrix + 5.5 * vector) > 0.05, "{}", part(matrix, matrix + 5.5 * vector));
    assert!(part(0.9 * vector, 4.5 * vector) > 0.02, "{}", part(0.9 * vector, 4.5 * vector));
    assert!(part(row, 20.0 * row) > 0.005, "{}", part(row, 20.0 * row));
    // Nothing between a row's neighbourhood and a vector.
    assert!(part(20.0 * row, 0.9 * vector) < 0.001, "{}", part(20.0 * row, 0.9 * vector));
}

#[test]
fn a_master_comes_back_at_the_distance_of_its_buffer_only() {
    let histogram = solver::search_master(1000).distances();
    let buckets: Vec<_> = histogram.buckets().collect();
    assert!(buckets.len() == 1 && (buckets[0].from..buckets[0].to).contains(&999), "{buckets:?}");
    assert_eq!((histogram.accesses(), histogram.first_accesses()), (2000.0, 0.0));
}
