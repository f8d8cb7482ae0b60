//! What a task waits for before it completes: the end of its body, and events that others fulfil, from any thread, also before the body is over.

use castell_base::sync::{AtomicU32, Ordering};

/// How many are still to happen; the end of the body is one of them. Whoever takes the last one away completes the task, and may find in memory
/// what all the others have written before.
pub(crate) struct Events(AtomicU32);

impl Events {
    /// Nothing but the body's end.
    #[inline]
    pub(crate) fn of_body() -> Events {
        Events(AtomicU32::new(1))
    }

    /// How many are still to happen: others may happen meanwhile.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// `count` more. Only from the body, or while another event has not happened: so it cannot have completed.
    pub(crate) fn add(&self, count: u32) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// `count` have happened; true if they were the last. If not, the task may be gone when this returns.
    #[inline]
    pub(crate) fn happened(&self, count: u32) -> bool {
        self.0.fetch_sub(count, Ordering::AcqRel) == count
    }

    /// The body is to run again, and nothing else is pending.
    pub(crate) fn restart(&self) {
        self.0.store(1, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use castell_base::sync::AtomicU32 as Cell;
    use loom::sync::Arc;
    use loom::thread;

    struct Detached {
        events: Events,
        written: [Cell; 2],
        completed: Cell,
    }

    impl Detached {
        fn complete_if(&self, last: bool) {
            if last {
                let seen = self.written.each_ref().map(|cell| cell.load(Ordering::Relaxed));
                assert_eq!(seen, [1, 1], "what was done before an event happened");
                self.completed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Two events of one task, from two threads, before, beside and behind the end of its body.
    #[test]
    fn one_completes_a_detached_task() {
        loom::model(|| {
            let task = Arc::new(Detached {
                events: Events::of_body(),
                written: [Cell::new(0), Cell::new(0)],
                completed: Cell::new(0),
            });
            task.events.add(2);
            let others = [0, 1].map(|number: usize| {
                let task = task.clone();
                thread::spawn(move || {
                    task.written[number].store(1, Ordering::Relaxed);
                    task.complete_if(task.events.happened(1));
                })
            });
            // As the end of a body does: the usual way without a write, if nothing else is pending.
            let last = task.events.pending() == 1 || task.events.happened(1);
            task.complete_if(last);
            others.into_iter().for_each(|other| other.join().expect("it ends"));
            assert_eq!(task.completed.load(Ordering::Relaxed), 1);
        });
    }
}
