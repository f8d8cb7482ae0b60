//! Lent threads whose processors were taken away.
//!
//! Nobody can take such a thread's place, and what it does beside tasks is not the runtime's. So it is still what it was, but stands aside
//! where it could run tasks: in its team's barrier it sleeps, and while it waits for tasks of its own it leaves them to those that are
//! *free*: in the barrier, and not taken. If nobody is, it runs them after all, since nobody else may; see `waiting::yielding`.

use super::WorkerId;
use castell_host::futex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Where the count of news begins; in tests, where it soon begins again.
const NEWS_BEFORE: u32 = if cfg!(test) { u32::MAX } else { 0 };

/// Who stands aside, and how many do not have to.
pub(crate) struct Aside {
    threads: Box<[Thread]>,
    /// Threads that wait in the barrier and are not taken.
    free: AtomicU32,
}

#[repr(align(128))]
struct Thread {
    is_taken: AtomicBool,
    /// Grows with everything that it is to look at while it is aside; futex.
    news: AtomicU32,
}

impl Aside {
    pub(super) fn new(threads: usize) -> Aside {
        let thread = |_| Thread { is_taken: AtomicBool::new(false), news: AtomicU32::new(NEWS_BEFORE) };
        Aside { threads: (0..threads).map(thread).collect(), free: AtomicU32::new(0) }
    }

    fn of(&self, worker: WorkerId) -> &Thread {
        &self.threads[worker.index()]
    }

    /// Whether it is to stand aside.
    #[inline]
    pub(crate) fn is_taken(&self, worker: WorkerId) -> bool {
        self.of(worker).is_taken.load(Ordering::Relaxed)
    }

    pub(super) fn flag_of(&self, worker: WorkerId) -> &AtomicBool {
        &self.of(worker).is_taken
    }

    pub(super) fn take(&self, worker: WorkerId) {
        self.of(worker).is_taken.store(true, Ordering::SeqCst);
    }

    pub(super) fn give(&self, worker: WorkerId) {
        self.of(worker).is_taken.store(false, Ordering::SeqCst);
        self.wake(worker);
    }

    /// After something was written that [`Aside::sleep`] asks for.
    pub(super) fn wake_if_taken(&self, worker: WorkerId) {
        if self.of(worker).is_taken.load(Ordering::SeqCst) {
            self.wake(worker);
        }
    }

    fn wake(&self, worker: WorkerId) {
        let news = &self.of(worker).news;
        news.fetch_add(1, Ordering::SeqCst);
        futex::wake(news, i32::MAX, u32::MAX);
    }

    /// Sleeps while the worker is taken, unless something else is to be done: what changes that calls [`Aside::wake_if_taken`]. All of it is in one
    /// order (`SeqCst`): who has written it before it is asked for here is seen, and who writes it later sees that the worker is taken.
    pub(super) fn sleep(&self, worker: WorkerId, is_wanted: impl Fn() -> bool) {
        let thread = self.of(worker);
        loop {
            let seen = thread.news.load(Ordering::SeqCst);
            if !thread.is_taken.load(Ordering::SeqCst) || is_wanted() {
                return;
            }
            futex::wait(&thread.news, seen, u32::MAX, None);
        }
    }

    /// Whether there are threads that run whatever is ready.
    pub(crate) fn anybody_free(&self) -> bool {
        self.free.load(Ordering::Relaxed) > 0
    }

    /// The calling thread, which is not taken, waits in the barrier until the guard goes.
    pub(crate) fn free(&self) -> Free<'_> {
        self.free.fetch_add(1, Ordering::Relaxed);
        Free(self)
    }
}

/// A thread that runs whatever is ready.
pub(crate) struct Free<'a>(&'a Aside);

impl Drop for Free<'_> {
    fn drop(&mut self) {
        self.0.free.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn who_is_aside_hears_all_news_where_their_number_begins_again() {
        let (aside, worker) = (Aside::new(1), WorkerId(0));
        for round in 0..4 {
            aside.take(worker);
            let (before, is_wanted) = (aside.of(worker).news.load(Ordering::SeqCst), AtomicBool::new(false));
            thread::scope(|scope| {
                let sleeper = scope.spawn(|| aside.sleep(worker, || is_wanted.load(Ordering::SeqCst)));
                match round % 2 {
                    0 => aside.give(worker),
                    _ => {
                        is_wanted.store(true, Ordering::SeqCst);
                        aside.wake_if_taken(worker);
                    }
                }
                sleeper.join().expect("it is woken");
            });
            assert_eq!(aside.of(worker).news.load(Ordering::SeqCst), before.wrapping_add(1), "{round}");
        }
        assert!(aside.of(worker).news.load(Ordering::SeqCst) < 4, "it has begun again");
    }
}
