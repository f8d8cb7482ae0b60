//! The doorbell: how a sender wakes a receiver that sleeps, and pays nothing when it does not.
//!
//! One a rank, in shared memory. Whoever attends to the rank's queues says so in one state word; a sender looks at it
//! after each insertion and makes a system call only if somebody sleeps, and then only the first sender does.
//! `doorbell.md` beside this file has the states and why no wake-up is lost.

use std::time::Duration;

use castell_base::sync::{AtomicU32, Ordering, fence};

pub use castell_transport::Sleeper;

/// Somebody polls, or will before it sleeps. What zeroed memory says.
const AWAKE: u32 = 0;
/// The progress thread sleeps, or is about to.
const THREAD: u32 = 1;
/// An application thread sleeps, or is about to.
const WAITER: u32 = 2;
/// Nobody needs messages now: they may lie.
const QUIET: u32 = 3;
/// They may lie, but for those whose senders wait until they are taken.
const LATER: u32 = 4;

/// The state of a rank of which only this one sleeps.
fn state_of(sleeper: Sleeper) -> u32 {
    match sleeper {
        Sleeper::Thread => THREAD,
        Sleeper::Waiter => WAITER,
    }
}

/// A rank's doorbell. Zeroed memory is a doorbell at which somebody is awake.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Doorbell {
    state: AtomicU32,
    /// How often each sleeper was called, a futex each.
    calls: [AtomicU32; 2],
    #[cfg(loom)]
    bed: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

/// The right to one sleep, from [`Doorbell::prepare`].
#[derive(Debug)]
#[must_use = "look into the queues, then sleep or cancel"]
pub struct Ticket {
    sleeper: Sleeper,
    calls: u32,
}

impl Doorbell {
    /// After inserting: wakes the receiver if it sleeps. True: a system call was made.
    #[inline(always)]
    pub fn ring(&self) -> bool {
        // Orders the insertion before the look at the state; the receiver's fence orders its state before its look into
        // the queue. One of the two sees the other.
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        matches!(state, THREAD | WAITER) && self.wake_from(state)
    }

    /// As [`Doorbell::ring`], but lets a progress thread sleep. True: it sleeps, and has to be rung for later, unless the
    /// application attends before: it often hands over only to come back at once, and waking costs both sides much.
    #[inline]
    pub fn ring_unless_thread(&self) -> bool {
        fence(Ordering::SeqCst);
        match self.state.load(Ordering::Relaxed) {
            WAITER => {
                self.wake_from(WAITER);
                false
            }
            state => state == THREAD,
        }
    }

    /// As [`Doorbell::ring`], for a message whose sender waits until it is taken: wakes a progress thread also for one that does
    /// what can wait later.
    #[inline]
    pub fn ring_pressing(&self) -> bool {
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        matches!(state, THREAD | WAITER | LATER) && self.wake_from(state)
    }

    /// As [`Doorbell::ring_unless_thread`], for such a message.
    #[inline]
    pub fn ring_pressing_unless_thread(&self) -> bool {
        self.ring_unless_thread() || self.state.load(Ordering::Relaxed) == LATER
    }

    /// A run has ended: wakes an application thread that waits; the progress thread sleeps on.
    #[inline]
    pub fn ring_waiter(&self) -> bool {
        fence(Ordering::SeqCst);
        self.state.load(Ordering::Relaxed) == WAITER && self.wake_from(WAITER)
    }

    /// Ends `state` and wakes who is in it; of several senders the first one does.
    #[cold]
    fn wake_from(&self, state: u32) -> bool {
        // Failure: another sender was faster, or the receiver went on by itself; it looks into its queues after every
        // change that it makes.
        if self.state.compare_exchange(state, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        self.call(if state == WAITER { Sleeper::Waiter } else { Sleeper::Thread });
        true
    }

    /// Wakes a sleeper whatever the state says: there is other work than messages.
    pub fn call(&self, sleeper: Sleeper) {
        self.calls[sleeper as usize].fetch_add(1, Ordering::Release);
        self.wake(sleeper);
    }

    /// As after so many calls more. Before anybody sleeps.
    #[doc(hidden)]
    pub fn grow_old(&self, calls: u32) {
        for count in &self.calls {
            count.fetch_add(calls, Ordering::Relaxed);
        }
    }

    /// The first step of falling asleep. Look into the queues next: if something is there [`Doorbell::cancel`], else
    /// [`Doorbell::sleep`].
    pub fn prepare(&self, sleeper: Sleeper) -> Ticket {
        let calls = self.calls[sleeper as usize].load(Ordering::Acquire);
        self.enter(state_of(sleeper));
        Ticket { sleeper, calls }
    }

    /// The right to sleep while another drives: taken before the look that tells so. The state stays as it is.
    pub fn ticket(&self, sleeper: Sleeper) -> Ticket {
        Ticket { sleeper, calls: self.calls[sleeper as usize].load(Ordering::Acquire) }
    }

    /// Stays awake after all.
    pub fn cancel(&self, ticket: Ticket) {
        self.leave(ticket.sleeper);
    }

    /// The word that changes when somebody calls, and its value when the ticket was taken, for who sleeps on it by other means
    /// than [`Doorbell::sleep`]. Awake, it says [`Doorbell::leave`].
    pub fn word(&self, ticket: Ticket) -> (&AtomicU32, u32) {
        (&self.calls[ticket.sleeper as usize], ticket.calls)
    }

    /// Sleeps until a sender rings, somebody calls, or the time is up (true); spurious wake-ups happen. Afterwards the
    /// sleeper is awake.
    pub fn sleep(&self, ticket: Ticket, timeout: Option<Duration>) -> bool {
        let is_up = self.wait(&ticket, timeout);
        self.leave(ticket.sleeper);
        is_up
    }

    /// An application thread polls from now on: senders need not ring. The progress thread may sleep on.
    #[inline]
    pub fn attend(&self) {
        // Senders that read an older state ring in vain. Who is awake already leaves the line in the senders' caches.
        if self.state.load(Ordering::Relaxed) != AWAKE {
            self.state.store(AWAKE, Ordering::Relaxed);
        }
    }

    /// An application thread stops polling and the (sleeping) progress thread answers the bell again. Look into the queues
    /// next: if something is there, [`Doorbell::call`] the thread.
    pub fn hand_over(&self) {
        self.enter(THREAD);
    }

    /// Nobody needs messages: nobody rings. The progress thread may sleep on.
    pub fn quiet(&self) {
        self.enter(QUIET);
    }

    /// What comes can wait until the application asks for it: senders ring only when they wait until it is taken. The progress
    /// thread may sleep on. Look into the queues next, as after [`Doorbell::hand_over`].
    pub fn put_off(&self) {
        self.enter(LATER);
    }

    fn enter(&self, state: u32) {
        self.state.store(state, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Ends the sleeper's own state, but no state that another has set meanwhile.
    pub fn leave(&self, sleeper: Sleeper) {
        let _ = self.state.compare_exchange(state_of(sleeper), AWAKE, Ordering::SeqCst, Ordering::Relaxed);
    }

    #[cfg(not(loom))]
    fn wait(&self, ticket: &Ticket, timeout: Option<Duration>) -> bool {
        use castell_host::futex::{Woken, wait};
        wait(&self.calls[ticket.sleeper as usize], ticket.calls, u32::MAX, timeout) == Woken::TimedOut
    }

    #[cfg(not(loom))]
    fn wake(&self, sleeper: Sleeper) {
        castell_host::futex::wake(&self.calls[sleeper as usize], i32::MAX, u32::MAX);
    }

    /// What a futex does: compare and fall asleep in one step.
    #[cfg(loom)]
    fn wait(&self, ticket: &Ticket, _timeout: Option<Duration>) -> bool {
        let bed = self.bed.0.lock().expect("no thread panicked");
        if self.calls[ticket.sleeper as usize].load(Ordering::Acquire) == ticket.calls {
            drop(self.bed.1.wait(bed));
        }
        false
    }

    #[cfg(loom)]
    fn wake(&self, _sleeper: Sleeper) {
        let _bed = self.bed.0.lock().expect("no thread panicked");
        self.bed.1.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    #[test]
    fn nobody_asleep_means_no_call() {
        let bell = Doorbell::default();
        assert!(!bell.ring());
        bell.put_off();
        assert!(!bell.ring());
        assert!(bell.ring_pressing());
        assert!(!bell.ring_pressing());
        bell.quiet();
        assert!(!bell.ring() && !bell.ring_pressing());
        let ticket = bell.prepare(Sleeper::Waiter);
        assert!(bell.ring());
        assert!(!bell.ring(), "one call a sleep");
        // Called before it slept: returns at once.
        bell.sleep(ticket, None);
        let ticket = bell.prepare(Sleeper::Thread);
        bell.cancel(ticket);
        assert!(!bell.ring());
    }

    #[test]
    fn the_time_is_up() {
        let bell = Doorbell::default();
        let ticket = bell.prepare(Sleeper::Thread);
        bell.sleep(ticket, Some(Duration::from_millis(1)));
        assert!(!bell.ring(), "awake again");
    }

    #[test]
    fn the_thread_sleeps_on_while_a_waiter_comes_and_goes() {
        let bell = Doorbell::default();
        let work = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                while work.load(Ordering::SeqCst) == 0 {
                    let ticket = bell.prepare(Sleeper::Thread);
                    if work.load(Ordering::SeqCst) == 0 {
                        bell.sleep(ticket, None);
                    } else {
                        bell.cancel(ticket);
                    }
                }
            });
            while bell.state.load(Ordering::SeqCst) != THREAD {
                std::thread::yield_now();
            }
            // The application polls for itself, then leaves it to the thread again.
            bell.attend();
            assert!(!bell.ring());
            bell.hand_over();
            work.store(1, Ordering::SeqCst);
            assert!(bell.ring());
            thread.join().expect("the thread ends");
        });
    }

    #[test]
    fn no_wake_up_is_lost() {
        let (bell, back) = (Doorbell::default(), Doorbell::default());
        let (there, here) = (AtomicU64::new(0), AtomicU64::new(0));
        let begin = Instant::now();
        let listen = |bell: &Doorbell, word: &AtomicU64, round: u64| {
            while word.load(Ordering::Acquire) < round {
                let ticket = bell.prepare(Sleeper::Waiter);
                if word.load(Ordering::Acquire) < round {
                    bell.sleep(ticket, None);
                } else {
                    bell.cancel(ticket);
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=20_000 {
                    listen(&bell, &there, round);
                    here.store(round, Ordering::Release);
                    back.ring();
                }
            });
            for round in 1..=20_000 {
                there.store(round, Ordering::Release);
                bell.ring();
                listen(&back, &here, round);
            }
        });
        println!("20000 round trips in {:?}", begin.elapsed());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    /// A deadlock, which loom finds, is a lost wake-up.
    fn explore(scene: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(scene);
    }

    #[derive(Default)]
    struct Scene {
        bell: Doorbell,
        messages: AtomicU32,
    }

    impl Scene {
        fn send(&self) {
            self.messages.fetch_add(1, Ordering::Relaxed);
            self.bell.ring();
        }

        fn listen(&self, sleeper: Sleeper, messages: u32) {
            while self.messages.load(Ordering::Relaxed) < messages {
                let ticket = self.bell.prepare(sleeper);
                if self.messages.load(Ordering::Relaxed) < messages {
                    self.bell.sleep(ticket, None);
                } else {
                    self.bell.cancel(ticket);
                }
            }
        }
    }

    #[test]
    fn no_wake_up_is_lost() {
        explore(|| {
            let scene = Arc::new(Scene::default());
            let senders = [1, 2].map(|_| {
                let scene = scene.clone();
                thread::spawn(move || scene.send())
            });
            scene.listen(Sleeper::Waiter, 2);
            senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
        });
    }

    /// What can wait lies until somebody asks; what a sender waits for is taken at once, though the thread has never prepared.
    #[test]
    fn what_presses_wakes_the_thread() {
        explore(|| {
            let scene = Arc::new(Scene::default());
            scene.bell.attend();
            let ticket = scene.bell.ticket(Sleeper::Thread);
            let of_thread = scene.clone();
            let progress = thread::spawn(move || {
                let mut ticket = ticket;
                while of_thread.messages.load(Ordering::Relaxed) == 0 {
                    of_thread.bell.sleep(ticket, None);
                    ticket = of_thread.bell.ticket(Sleeper::Thread);
                }
            });
            let of_sender = scene.clone();
            let sender = thread::spawn(move || {
                of_sender.messages.fetch_add(1, Ordering::Relaxed);
                of_sender.bell.ring_pressing();
            });
            // The application goes.
            scene.bell.put_off();
            if scene.messages.load(Ordering::Relaxed) > 0 {
                scene.bell.call(Sleeper::Thread);
            }
            sender.join().expect("no panic");
            progress.join().expect("no panic");
        });
    }

    #[test]
    fn no_wake_up_is_lost_at_the_hand_over() {
        explore(|| {
            let scene = Arc::new(Scene::default());
            let of_thread = scene.clone();
            let progress = thread::spawn(move || of_thread.listen(Sleeper::Thread, 1));
            let of_sender = scene.clone();
            let sender = thread::spawn(move || of_sender.send());
            // The application polls once and goes.
            scene.bell.attend();
            scene.messages.load(Ordering::Relaxed);
            scene.bell.hand_over();
            if scene.messages.load(Ordering::Relaxed) > 0 {
                scene.bell.call(Sleeper::Thread);
            }
            sender.join().expect("no panic");
            progress.join().expect("no panic");
        });
    }
}
