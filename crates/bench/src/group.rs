//! Castell as a subject: a group of its own processes, each pinned to a core, that measures and reports.

use crate::report::{Params, Sample};
use crate::workload::Subject;
use anyhow::Context as _;
use castell_base::Rank;
use castell_comm::job::JobOptions;
use castell_comm::launch::{Binding, Launch, Outcome};
use castell_comm::{Comm, Job};
use castell_host::shm::Segment;
use std::sync::atomic::Ordering;

/// What every rank of the group does: takes that many samples, in nanoseconds. Rank 0's count.
pub type Measure = fn(&Comm, &Params, u32) -> anyhow::Result<Option<Vec<f64>>>;

/// A group of castell's.
pub struct Group {
    /// As reports call it.
    pub name: String,
    /// Its size and memory.
    pub options: JobOptions,
    /// What it measures.
    pub measure: Measure,
}

impl Group {
    /// Castell as users get it.
    pub fn castell(ranks: u32, measure: Measure) -> Box<dyn Subject> {
        Box::new(Group { name: "castell".into(), options: JobOptions::new(ranks), measure })
    }
}

/// What rank 0 leaves behind: how many samples (`u64::MAX`: the case is not known), then the samples.
const COUNT: usize = 0;
const SAMPLES: usize = 1;

impl Subject for Group {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        let table = Segment::create("castell-samples", 8 * (SAMPLES + samples as usize))?;
        let launch =
            Launch { job: self.options.clone(), binding: Binding::Core, ..Launch::new(self.options.ranks) };
        let body = |rank: Rank, job: Job| {
            let comm = Comm::join(job, rank);
            comm.job().gate(1);
            let outcome = (self.measure)(&comm, case, samples);
            match outcome {
                Ok(taken) if rank == Rank(0) => leave_behind(&table, taken.as_deref()),
                Ok(_) => {}
                Err(error) => {
                    castell_host::say(&format!("rank {rank}: {error:#}"));
                    return 1;
                }
            }
            comm.finalize();
            0
        };
        let outcome = launch.fork(&body)?;
        sound(&outcome).with_context(|| self.name.clone())?;
        Ok(take_over(&table).map(Sample::of))
    }
}

/// Somebody asked the benchmark to end, by that signal.
#[derive(Debug, thiserror::Error)]
#[error("interrupted by {}", castell_host::signal::name(*.0))]
pub struct Interrupted(pub i32);

/// Insists on ranks that all ended well.
///
/// # Errors
/// [`Interrupted`], or which rank failed first, and how.
pub fn sound(outcome: &Outcome) -> anyhow::Result<()> {
    if let Some(signal) = outcome.signal {
        return Err(Interrupted(signal).into());
    }
    outcome.failure().map_or(Ok(()), |failure| Err(anyhow::Error::msg(failure)))
}

fn leave_behind(table: &Segment, taken: Option<&[f64]>) {
    let words = table.words();
    for (word, sample) in words[SAMPLES..].iter().zip(taken.unwrap_or_default()) {
        word.store(sample.to_bits(), Ordering::Relaxed);
    }
    words[COUNT].store(taken.map_or(u64::MAX, |samples| samples.len() as u64), Ordering::Release);
}

fn take_over(table: &Segment) -> Option<Vec<f64>> {
    let words = table.words();
    let count = words[COUNT].load(Ordering::Acquire);
    let samples = words[SAMPLES..].iter().map(|word| f64::from_bits(word.load(Ordering::Relaxed)));
    (count != u64::MAX && count > 0).then(|| samples.take(count as usize).collect())
}
