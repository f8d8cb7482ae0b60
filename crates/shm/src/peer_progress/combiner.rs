//! The lock of a run that any process may carry on, and the tickets that tell its holder what has happened.
//!
//! Nobody waits for the lock. Who has news puts a ticket down and tries the lock; if another process holds it, that
//! one takes the ticket: it looks for tickets again after it has unlocked.

use castell_base::sync::{AtomicU32, Ordering, fence};

/// Lock and tail of the tickets; the tickets themselves lie behind it. Zeroed memory is a free lock without tickets.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Combiner {
    /// 0: free; else the holder's rank + 1.
    lock: AtomicU32,
    /// Somebody wants what is held back to be tried again.
    retry: AtomicU32,
    tail: AtomicU32,
}

impl Combiner {
    /// Back to no tickets. Only with the lock in hand and nobody left who pushes.
    pub fn reset(&self, tickets: &[AtomicU32]) {
        self.retry.store(0, Ordering::Relaxed);
        self.tail.store(0, Ordering::Relaxed);
        for ticket in tickets {
            ticket.store(0, Ordering::Relaxed);
        }
    }

    /// Puts a ticket down (not 0). Try the lock next. There is a place for each ticket that a run can have.
    pub fn push(&self, tickets: &[AtomicU32], ticket: u32) {
        let at = self.tail.fetch_add(1, Ordering::Relaxed) as usize;
        tickets[at].store(ticket, Ordering::Release);
        // Orders the ticket before the look at the lock; `unlock` orders the lock before the look at the tickets.
        fence(Ordering::SeqCst);
    }

    /// Asks for what is held back to be tried again. Try the lock next.
    pub fn ask_for_retry(&self) {
        self.retry.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether somebody asked since the last time. With the lock in hand.
    pub fn take_retry(&self) -> bool {
        self.retry.load(Ordering::Relaxed) != 0 && self.retry.swap(0, Ordering::AcqRel) != 0
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self, rank: u32) -> bool {
        self.lock.load(Ordering::Relaxed) == 0
            && self.lock.compare_exchange(0, rank + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the lock back. True: there is news that nobody may have seen; try the lock again.
    pub fn unlock(&self, tickets: &[AtomicU32], head: u32) -> bool {
        self.lock.store(0, Ordering::Release);
        fence(Ordering::SeqCst);
        let ticket = tickets.get(head as usize).is_some_and(|ticket| ticket.load(Ordering::Relaxed) != 0);
        ticket || self.retry.load(Ordering::Relaxed) != 0
    }

    /// The next ticket, if it has been written. With the lock in hand.
    pub fn next(&self, tickets: &[AtomicU32], head: &mut u32) -> Option<u32> {
        let ticket = tickets.get(*head as usize)?.load(Ordering::Acquire);
        if ticket == 0 {
            return None;
        }
        *head += 1;
        Some(ticket)
    }

    /// The rank that holds the lock.
    pub fn holder(&self) -> Option<u32> {
        self.lock.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Whether a place was taken whose ticket was not written: for good if its writer died.
    pub fn has_gap(&self, tickets: &[AtomicU32]) -> bool {
        let taken = self.tail.load(Ordering::Acquire) as usize;
        tickets.iter().take(taken).any(|ticket| ticket.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Shared {
        combiner: Combiner,
        tickets: Vec<AtomicU32>,
        /// The holder's; plain memory in the real thing, so that loom must see each access ordered by the lock.
        state: loom::cell::UnsafeCell<(u32, u32)>,
        retried: AtomicU32,
        /// What each ticket tells of, and what a retry is asked for after: plain memory too, written before and read
        /// afterwards.
        told: Vec<loom::cell::UnsafeCell<u32>>,
    }

    // SAFETY: `state` is used with the lock in hand only, which is what loom checks.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}

    fn drive(shared: &Shared, me: u32) {
        while shared.combiner.try_lock(me) {
            let head = shared.state.with_mut(|state| {
                // SAFETY: with the lock in hand.
                let (head, sum) = unsafe { &mut *state };
                while let Some(ticket) = shared.combiner.next(&shared.tickets, head) {
                    *sum += ticket;
                    // SAFETY: written before the ticket was put down.
                    assert_eq!(shared.told[ticket as usize - 1].with(|told| unsafe { *told }), ticket);
                }
                *head
            });
            if shared.combiner.take_retry() {
                // SAFETY: written before the retry was asked for.
                assert_eq!(shared.told.last().expect("a place").with(|told| unsafe { *told }), 99);
                shared.retried.store(1, Ordering::Relaxed);
            }
            if !shared.combiner.unlock(&shared.tickets, head) {
                return;
            }
        }
    }

    fn model(pushers: u32, retries: bool) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared = Arc::new(Shared {
                combiner: Combiner::default(),
                tickets: (0..pushers).map(|_| AtomicU32::new(0)).collect(),
                state: loom::cell::UnsafeCell::new((0, 0)),
                retried: AtomicU32::new(0),
                told: (0..=pushers).map(|_| loom::cell::UnsafeCell::new(0)).collect(),
            });
            let work = |shared: Arc<Shared>, me: u32| {
                // SAFETY: nobody reads it before the ticket is down.
                shared.told[me as usize].with_mut(|told| unsafe { *told = me + 1 });
                shared.combiner.push(&shared.tickets, me + 1);
                drive(&shared, me);
            };
            let mut threads: Vec<_> = (1..pushers)
                .map(|me| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || work(shared, me))
                })
                .collect();
            if retries {
                let shared = Arc::clone(&shared);
                threads.push(thread::spawn(move || {
                    // SAFETY: nobody reads it before the retry is asked for.
                    shared.told.last().expect("a place").with_mut(|told| unsafe { *told = 99 });
                    shared.combiner.ask_for_retry();
                    drive(&shared, 7);
                }));
            }
            work(Arc::clone(&shared), 0);
            for thread in threads {
                thread.join().expect("no panic");
            }
            assert!(shared.combiner.try_lock(9), "everybody has left");
            // SAFETY: with the lock in hand.
            let (head, sum) = shared.state.with(|state| unsafe { *state });
            assert_eq!((head, sum), (pushers, (1..=pushers).sum()), "a ticket was left lying");
            assert_eq!(shared.retried.load(Ordering::Relaxed), u32::from(retries));
        });
    }

    #[test]
    fn every_ticket_is_taken() {
        model(3, false);
    }

    #[test]
    fn nobody_asks_in_vain() {
        model(2, true);
    }
}
