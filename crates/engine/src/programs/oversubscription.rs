//! Ranks that share processors: who waits lets those run that others wait for. Where there is none on its own processor, what it
//! waits for comes from another one, and sooner than two changes of threads are made.

use super::line::Line;
use castell_base::Rank;
use castell_host::clock::now_ns;
use castell_shm::job::Job;
use castell_shm::oversubscription::Awaited;
use std::sync::atomic::AtomicU64;

/// About what a change of threads costs: who looks for so long in vain has lost as much again, and not more. Nanoseconds.
const CHANGE_NS: u64 = 1_000;

/// A rank that waits among others, which see what it waits for.
pub(super) struct AnnouncedWait<'a> {
    job: &'a Job,
    me: Rank,
    context: u32,
    turn: u64,
}

impl<'a> Line<'a> {
    /// This rank waits until the word has this value, or for something that the others do not see.
    pub(super) fn announce_wait(&self, word: Option<(&AtomicU64, u64)>) -> AnnouncedWait<'a> {
        let (job, me, turn) = (&*self.shared.job, self.shared.me, self.turn);
        let context = self.set.index();
        if let Some((word, value)) = word {
            let offset = job.offset_of(word);
            job.control(me).awaits.begin(Awaited { offset, value, context, turn });
        }
        AnnouncedWait { job, me, context, turn }
    }
}

impl AnnouncedWait<'_> {
    /// Looks for what has to come for as long as nobody on this processor has anything to do, and for the time of a change of
    /// threads at most: others than ranks may want the processor, too. Returns whether it has come.
    pub(super) fn looks_on(&self, has_come: &dyn Fn() -> bool) -> bool {
        let here = self.job.control(self.me).runs_on.look();
        let has_to_do = |rank| rank != self.me && self.has_to_do(rank, here);
        let until = now_ns() + CHANGE_NS;
        while !(0..self.job.ranks()).map(Rank).any(has_to_do) && now_ns() < until {
            if has_come() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Whether a rank is on this processor and has anything to do that others wait for, as far as is seen.
    fn has_to_do(&self, rank: Rank, here: u32) -> bool {
        let control = self.job.control(rank);
        if !control.runs_on.is(here) {
            return false;
        }
        let Some(awaited) = control.awaits.get() else { return true };
        let has_come = self.job.word_at(awaited.offset).is_none_or(|word| awaited.has_come(word));
        has_come && (awaited.context != self.context || awaited.turn < self.turn)
    }
}

impl Drop for AnnouncedWait<'_> {
    fn drop(&mut self) {
        self.job.control(self.me).awaits.end();
    }
}
