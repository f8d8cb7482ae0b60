//! What each task waited for last, for the critical path of a timeline.

use super::Recording;
use castell_base::Rank;
use castell_trace::Dependence;

/// Nanoseconds as timelines count.
const PS: u64 = 1000;

/// A moment on a worker.
type Moment = (u64, u32);

impl Recording {
    /// For each task that ran, what of all that it waited for came last: its creation, or the end of one before it. And where a body
    /// waited, the last end of what it has created.
    pub(super) fn waited(&self) -> Vec<Dependence> {
        let end = |task: &usize| self.tasks[*task].ran.map(|(_, end, worker)| (end, worker));
        let mut waited = Vec::new();
        for task in &self.tasks {
            let Some((begin, _, worker)) = task.ran else { continue };
            // Who is no worker has no row.
            let creation = Some((task.created_ns, task.creator)).filter(|_| task.creator < self.workers);
            let ends = task.after.iter().filter_map(end).chain(creation);
            // What it saw of others' ends may be noted a little later than its beginning.
            waited.extend(last(ends, begin).map(|last| dependence(last, (begin, worker))));
        }
        let ends = self.ends_below();
        for (task, ends) in self.tasks.iter().zip(ends) {
            let Some((.., worker)) = task.ran else { continue };
            for &(_, went_on) in &task.pauses {
                let ended = last(ends.iter().copied(), went_on);
                waited.extend(ended.map(|ended| dependence(ended, (went_on, worker))));
            }
        }
        waited
    }

    /// By task that waited: the ends of all that its children and theirs did.
    fn ends_below(&self) -> Vec<Vec<Moment>> {
        let mut ends = vec![Vec::new(); self.tasks.len()];
        for task in &self.tasks {
            let Some((_, end, worker)) = task.ran else { continue };
            // The nearest that waited hears of it; those above hear of that one.
            let mut above = task.parent;
            while let Some((parent, _)) = above {
                if !self.tasks[parent].pauses.is_empty() {
                    ends[parent].push((end, worker));
                    break;
                }
                above = self.tasks[parent].parent;
            }
        }
        ends
    }
}

fn last(moments: impl Iterator<Item = Moment>, by_ns: u64) -> Option<Moment> {
    moments.filter(|(ns, _)| *ns <= by_ns).max()
}

fn dependence((ended, from): Moment, (began, to): Moment) -> Dependence {
    Dependence { from: Rank(from), ended_ps: ended * PS, to: Rank(to), began_ps: began * PS }
}
