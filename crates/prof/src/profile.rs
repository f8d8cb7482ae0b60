//! What a program does to the memory hierarchy: flows on each link, its class, and phases, from counters or from reuse distances.

use crate::caches::Cache;
use crate::counters::{Flows, Recording};
use crate::distances::Seen;
use castell_cachesim::{Histogram, MissRatioCurve};
use castell_interference::class::{Decision, READING_ERROR, classify};
use castell_interference::phases::phases;
use castell_interference::{Readings, Thresholds};

/// Phases have at least so many intervals.
const PHASE_INTERVALS_MIN: usize = 3;

/// Where the flows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Counters of the processor.
    Counters,
    /// Reuse distances, and the time of another run.
    Distances,
}

/// A stretch of time in which a program does about the same.
#[derive(Clone, Debug)]
pub struct Phase {
    /// What flows.
    pub flows: Flows,
    /// Its class; none where a link was not counted.
    pub decision: Option<Decision>,
}

/// What a program does.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Where it comes from.
    pub basis: Basis,
    /// Over the whole time.
    pub whole: Phase,
    /// One after the other; one where it does the same all the time.
    pub phases: Vec<Phase>,
    /// As finely as it was read.
    pub intervals: Vec<Flows>,
}

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// It ended at once.
    #[error("the program ended before anything could be read: there is nothing to tell")]
    NoTime,
    /// The caches are not known.
    #[error("this machine's kernel lists no {0}: without its size, reuse distances say nothing about it")]
    NoCache(&'static str),
}

impl Profile {
    /// From counters.
    ///
    /// # Errors
    /// [`ProfileError::NoTime`].
    pub fn of_recording(recording: &Recording) -> Result<Profile, ProfileError> {
        let whole = recording.whole().ok_or(ProfileError::NoTime)?;
        let intervals = recording.intervals();
        let rows: Vec<Vec<f64>> = intervals.iter().map(row).collect();
        let parts = phases(&rows, PHASE_INTERVALS_MIN);
        let found = parts.into_iter().map(|part| joined(&intervals[part]));
        Ok(Profile {
            basis: Basis::Counters,
            whole: decided(whole, COUNTED),
            phases: found.map(|flows| decided(flows, COUNTED)).collect(),
            intervals,
        })
    }

    /// From the distances of all processes of a program (blocks of so many bytes), and the seconds and processors that it takes when
    /// nobody observes it. Time is taken to pass with the accesses.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn of_distances(
        programs: &[Seen],
        block_bytes: u64,
        caches: &[Cache],
        seconds: f64,
        busy: Option<f64>,
    ) -> Result<Profile, ProfileError> {
        let blocks = cache_blocks(caches, block_bytes)?;
        let mut together = Histogram::default();
        programs.iter().for_each(|seen| together.merge(&seen.together));
        let accesses = together.accesses();
        if accesses <= 0.0 || seconds <= 0.0 {
            return Err(ProfileError::NoTime);
        }
        let errors = reading_errors(programs, &together, blocks);
        let decided = |flows| decided(flows, errors);
        let pace = accesses / seconds;
        let flows = |histogram: &Histogram, from: f64, to: f64| Flows {
            busy,
            ..flows_of(histogram, pace, blocks, block_bytes as f64, from / pace, to / pace)
        };
        let mut intervals = Vec::new();
        let mut begin = 0.0;
        for seen in programs {
            let mut before = (0, Histogram::default());
            for (accesses, state) in &seen.growth {
                let (from, to) = (begin + before.0 as f64, begin + *accesses as f64);
                intervals.push(flows(&state.since(&before.1), from, to));
                before = (*accesses, state.clone());
            }
            begin += seen.together.accesses();
        }
        let rows: Vec<Vec<f64>> = intervals.iter().map(row).collect();
        let parts = phases(&rows, PHASE_INTERVALS_MIN);
        let found: Vec<Phase> = parts.into_iter().map(|part| decided(joined(&intervals[part]))).collect();
        let whole = decided(flows(&together, 0.0, accesses));
        Ok(Profile { basis: Basis::Distances, whole, phases: found, intervals })
    }
}

/// L1, L2 and the last-level cache. Blocks.
fn cache_blocks(caches: &[Cache], block_bytes: u64) -> Result<[f64; 3], ProfileError> {
    let of = |cache: Option<&Cache>, name| {
        cache.map(|cache| (cache.bytes / block_bytes) as f64).ok_or(ProfileError::NoCache(name))
    };
    let level = |level| caches.iter().find(|cache| cache.level == level);
    let last = caches.iter().max_by_key(|cache| cache.level).filter(|cache| cache.level >= 3);
    Ok([of(level(1), "L1")?, of(level(2), "L2")?, of(last, "last-level cache")?])
}

fn flows_of(
    histogram: &Histogram,
    pace: f64,
    blocks: [f64; 3],
    block_bytes: f64,
    from_s: f64,
    to_s: f64,
) -> Flows {
    let curve = MissRatioCurve::of(histogram);
    let readings = Readings::of_curve(&curve, pace, blocks, block_bytes).ok();
    Flows {
        from_s,
        to_s,
        memory_llc: readings.map(|readings| readings.into_llc()),
        llc_l2: readings.map(|readings| readings.into_l2()),
        l2_l1: readings.map(|readings| readings.into_l1()),
        ..Flows::default()
    }
}

/// What is compared when phases are looked for.
fn row(flows: &Flows) -> Vec<f64> {
    let links = [flows.memory_llc, flows.llc_l2, flows.l2_l1].map(|flow| flow.unwrap_or(0.0));
    let rest = [flows.ipc, flows.busy].map(|value| value.unwrap_or(0.0));
    links.into_iter().chain(rest).map(|value| value.max(1e-3)).collect()
}

/// The mean over neighbouring intervals, by their lengths.
fn joined(intervals: &[Flows]) -> Flows {
    let seconds: f64 = intervals.iter().map(|flows| flows.to_s - flows.from_s).sum();
    let mean = |of: fn(&Flows) -> Option<f64>| {
        // Intervals in which something had no counter do not count.
        let parts = intervals.iter().filter_map(|flows| Some((of(flows)?, flows.to_s - flows.from_s)));
        let (sum, time) =
            parts.fold((0.0, 0.0), |(sum, time), (value, part)| (sum + value * part, time + part));
        (time > 0.0).then(|| sum / time)
    };
    debug_assert!(seconds >= 0.0);
    Flows {
        from_s: intervals.first().map_or(0.0, |flows| flows.from_s),
        to_s: intervals.last().map_or(0.0, |flows| flows.to_s),
        memory_llc: mean(|flows| flows.memory_llc),
        llc_l2: mean(|flows| flows.llc_l2),
        l2_l1: mean(|flows| flows.l2_l1),
        l1_core: mean(|flows| flows.l1_core),
        ipc: mean(|flows| flows.ipc),
        busy: mean(|flows| flows.busy),
    }
}

/// Errors of readings from counters.
const COUNTED: [f64; 3] = [READING_ERROR; 3];
/// A reading that is off by more than this factor's logarithm tells as little as this one.
const READING_ERROR_MAX: f64 = 3.0;

/// How far off the flows into these caches are, relative to them, where they come from a sample of the blocks.
fn reading_errors(programs: &[Seen], together: &Histogram, blocks: [f64; 3]) -> [f64; 3] {
    let curve = MissRatioCurve::of(together);
    blocks.map(|blocks| {
        // Programs are observed one by one, so that their errors have nothing to do with each other.
        let misses = |seen: &Seen| {
            seen.together.accesses()
                * seen.groups.as_ref().map_or(0.0, |groups| groups.standard_error(blocks))
        };
        let error = programs.iter().map(|seen| misses(seen).powi(2)).sum::<f64>().sqrt();
        let missed = curve.at(blocks) * together.accesses();
        if error > 0.0 { (error / missed).clamp(READING_ERROR, READING_ERROR_MAX) } else { READING_ERROR }
    })
}

fn decided(flows: Flows, reading_errors: [f64; 3]) -> Phase {
    let cores = flows.busy.map_or(1, |busy| busy.ceil().max(1.0) as usize);
    let readings = flows.readings().and_then(Result::ok);
    let decision = readings
        .map(|readings| classify(&readings, &Thresholds { reading_errors, ..Thresholds::of_cores(cores) }));
    Phase { flows, decision }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_cachesim::Sampled;
    use castell_interference::Class;

    fn caches() -> Vec<Cache> {
        [(1, 32 << 10), (2, 1 << 20), (3, 32 << 20)]
            .map(|(level, bytes)| Cache { level, bytes, shared_by: 1 })
            .into()
    }

    fn seen(parts: &[(u64, u64)]) -> Seen {
        // Parts of a run: so many accesses at a distance of so many blocks.
        let mut seen = Seen::default();
        for (accesses, distance) in parts {
            for _ in 0..20 {
                seen.together.add_weighted(Some(*distance), *accesses as f64 / 20.0);
                seen.accesses += accesses / 20;
                seen.growth.push((seen.accesses, seen.together.clone()));
            }
        }
        seen
    }

    #[test]
    fn phases_by_distances_have_their_own_classes() {
        // First it streams through more than the last level holds, then it stays in the last level.
        let program = seen(&[(1_000_000_000, 1 << 22), (1_000_000_000, 1 << 16)]);
        let profile = Profile::of_distances(&[program], 64, &caches(), 4.0, Some(1.0)).expect("a profile");
        let classes: Vec<Class> =
            profile.phases.iter().map(|phase| phase.decision.as_ref().expect("decided").class).collect();
        assert_eq!(classes, [Class::S, Class::C]);
        let border = profile.phases[0].flows.to_s;
        assert!((border - 2.0).abs() < 1e-6, "{border}");
        assert_eq!(profile.phases[1].flows.memory_llc, Some(0.0));
        // Half of the accesses miss in all caches.
        let whole = profile.whole.flows.memory_llc.expect("a flow");
        assert!((whole - 64.0 * 1e9 / 4.0).abs() < 1e3, "{whole}");
    }

    #[test]
    fn a_sample_that_is_too_coarse_leaves_the_class_open() {
        // A loop that just fits L2, and a hundredth of its blocks: whether it fits cannot be told.
        let blocks = 15_500;
        let of = |rate: f64| {
            let mut sampled = Sampled::new(rate).expect("a rate");
            (0..40 * blocks).for_each(|at| sampled.access(at % blocks));
            let (together, groups) = (sampled.histogram(), Some(sampled.groups()));
            let seen = Seen { accesses: 40 * blocks, together, groups, ..Seen::default() };
            let profile = Profile::of_distances(&[seen], 64, &caches(), 0.001, Some(1.0)).expect("a profile");
            profile.whole.decision.expect("decided")
        };
        let (coarse, whole) = (of(0.01), of(1.0));
        assert!(coarse.confidence < 0.9, "{}", coarse.confidence);
        assert!(whole.class == Class::N && whole.confidence > 0.99, "{}", whole.because());
    }

    #[test]
    fn what_cannot_be_known_is_said() {
        let short = Profile::of_distances(&[Seen::default()], 64, &caches(), 1.0, None);
        assert_eq!(short.err(), Some(ProfileError::NoTime));
        let few = Profile::of_distances(&[seen(&[(100, 1)])], 64, &caches()[..2], 1.0, None);
        assert_eq!(few.err(), Some(ProfileError::NoCache("last-level cache")));
    }
}
