//! Who turns the crank, and when nobody has to.
//!
//! One thread at a time drives the engine: an application thread that waits (lowest latency), or the progress
//! thread when none waits. The rank's doorbell says which, so that a sender wakes the right one or nobody:
//!
//! - a waiting thread spins a little, yields, then sleeps on the doorbell as its waiter;
//! - other application threads that want the engine meanwhile, to start a run say, get it between two turns; those
//!   that want to wait sleep on their handles;
//! - a thread that leaves while runs go on hands over to the progress thread, which sleeps on the doorbell and costs
//!   nothing until a message comes; it is started at the first need;
//! - with no run going on, and nothing left that others wait for, nobody is woken: messages wait in the queue, and
//!   when it is full, with their senders.

use super::handle_state::HandleState;
use super::programs::Programs;
use super::turn::Engine;
use crate::board::Describe;
use castell_base::Rank;
use castell_host::board::Lent;
use castell_host::clock;
use castell_shm::doorbell::{Doorbell, Sleeper, Ticket};
use castell_shm::job::Job;
use castell_shm::pool::Pool;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a thread that waits stays on its processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Turns without anything moving before it starts to yield.
    pub(super) spins: u32,
    /// Yields before it sleeps.
    pub(super) yields: u32,
    /// A yield that takes longer shows that others use this processor for whole time slices: who sleeps instead is woken in the middle of
    /// one. Nanoseconds; `None`: however long it takes.
    pub(super) yield_ns: Option<u64>,
    /// Whether no processor is left for progress threads: what they do the application could as well have done, and to wake them
    /// costs both sides more than many a message.
    pub(super) is_frugal: bool,
}

impl Patience {
    /// A core for each rank: some 50 us of spinning.
    const ALONE: Patience = Patience { spins: 2000, yields: 50, yield_ns: None, is_frugal: false };
    /// More ranks than cores: who spins keeps another rank from running, perhaps the one that it waits for.
    const OVERSUBSCRIBED: Patience = Patience { spins: 0, yields: 100, yield_ns: None, is_frugal: true };

    /// Over a network each look is a system call, beside which a yield costs little; and whoever carries messages there (the kernel's
    /// threads, another program's) may want this processor.
    const NETWORKED: Patience =
        Patience { spins: 20, yields: 2000, yield_ns: Some(LONG_YIELD_NS), is_frugal: false };

    fn of(job: &Job) -> Patience {
        let alone = if job.is_networked() { Patience::NETWORKED } else { Patience::ALONE };
        let patience = match job.ranks().cmp(&job.processors_of_joined()) {
            Less => alone,
            Equal => Patience { is_frugal: true, ..alone },
            Greater => Patience::OVERSUBSCRIBED,
        };
        // Who lends its processor lets others run by that: on a busy node a yield may last for as long as others like.
        if Lent::is_wanted() { Patience { yields: 0, ..patience } } else { patience }
    }
}

/// So many turns in vain a waiting thread leaves the progress threads asleep that it has sent something to: an application
/// that has just started a run comes back to wait for it sooner than that, as a rule.
const RINGS_LATER_TURNS: u32 = 32;
/// Turns that an application thread takes before it goes if messages are there.
const TURNS_AT_LEAVING: u32 = 8;
/// How often it takes one more turn if something comes just when it goes.
const ATTEMPTS_AT_LEAVING: u32 = 4;
/// So long a thread that leaves looks for more of the large messages of which it has just moved something, if each rank has a
/// processor: others are at it, and what they leave behind later takes a change to the progress thread and back, and what that
/// displaces. Nanoseconds.
const LINGER_NS: u64 = 5_000;
/// The same if nothing has come yet, for those that start at the same time. Nanoseconds.
const LINGER_FIRST_NS: u64 = 1_000;
/// The progress thread spins but shortly: the application is computing.
const THREAD_TURNS: u32 = 20;
/// Pause before a refused message is tried again when nobody has anything better to do.
pub(super) const RETRY_PAUSE: Duration = Duration::from_micros(50);
/// The same when no run is left, but something for others: for how long depends on when they look.
const LATE_RETRY_PAUSE: Duration = Duration::from_millis(1);
/// How long the thread that drives lets those pass who want the engine, at a time. Yields.
const YIELDS_TO_OTHERS: u32 = 100;
/// A sleeper looks around this often even if nothing wakes it (liveness, stall reports).
const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// How long those sleep, at first and later, that have something to do meanwhile ([`Shared::meanwhile`]).
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];
/// See [`Patience::yield_ns`]: more than it takes to let some other ranks look for messages.
const LONG_YIELD_NS: u64 = 2_000_000;
/// For so long it is not tried again then. Nanoseconds.
const BUSY_NS: u64 = 100_000_000;
/// Who waits does that once in so many yields.
const YIELDS_BETWEEN: u32 = 8;

pub(super) struct Shared {
    engine: Mutex<Engine>,
    pub(super) job: Arc<Job>,
    pub(super) me: Rank,
    /// Known for good once every rank has joined.
    patience: OnceLock<Patience>,
    /// Until then nobody yields who can sleep: others keep this processor busy. By the host's clock.
    busy_until: AtomicU64,
    others: Others,
    /// Changes only with the engine in hand.
    app_drives: AtomicBool,
    thread: ProgressThread,
    pub(super) shut_down: AtomicBool,
    /// Whether runs go on, as far as the last thread knew that left the engine.
    runs: AtomicBool,
    /// Whether what is left of them is put off until somebody asks for it.
    is_put_off: AtomicBool,
    pub(super) programs: Programs,
    pub(super) describe: Describe,
    pub(super) pool: Pool,
    /// What application threads do while they wait in vain.
    pub(super) meanwhile: OnceLock<Meanwhile>,
}

/// Application threads beside the one that drives.
#[derive(Default)]
struct Others {
    /// How many want the engine and do not have it.
    wanting: AtomicU32,
    /// Handles on which threads sleep because another one drives.
    waiting: Mutex<Vec<Arc<HandleState>>>,
    /// How many those are, or will be.
    beside: AtomicU32,
}

/// The thread that drives where no application thread does, from the first need on.
#[derive(Default)]
struct ProgressThread {
    handle: Mutex<Option<JoinHandle<()>>>,
    runs: AtomicBool,
}

/// See [`Process::set_meanwhile`](super::Process::set_meanwhile).
pub(super) type Meanwhile = Box<dyn Fn() + Send + Sync>;

impl Shared {
    pub(super) fn new(engine: Engine, job: Arc<Job>, me: Rank) -> Shared {
        let programs = Programs::new(&job, me, engine.runs.contexts.numbers());
        Shared {
            programs,
            describe: engine.runs.describe_call,
            pool: Pool::new(job.pool(me).1),
            runs: AtomicBool::new(false),
            is_put_off: AtomicBool::new(false),
            meanwhile: OnceLock::new(),
            engine: Mutex::new(engine),
            job,
            me,
            patience: OnceLock::new(),
            busy_until: AtomicU64::new(0),
            others: Others::default(),
            app_drives: AtomicBool::new(false),
            thread: ProgressThread::default(),
            shut_down: AtomicBool::new(false),
        }
    }

    fn bell(&self) -> &Doorbell {
        &self.job.control(self.me).doorbell
    }

    /// Whether a yield would last for others' time slices, as far as is known.
    fn is_awake_for_nothing(&self) -> bool {
        let until = self.busy_until.load(Ordering::Relaxed);
        until > 0 && clock::now_ns() < until
    }

    /// An application thread waits, and has yielded so often. Whether that took longer than it should.
    pub(super) fn spend_yield(&self, yields: u32, at_most_ns: Option<u64>) -> bool {
        if yields % YIELDS_BETWEEN == YIELDS_BETWEEN - 1
            && let Some(meanwhile) = self.meanwhile.get()
        {
            meanwhile();
        }
        let Some(at_most_ns) = at_most_ns else {
            std::thread::yield_now();
            return false;
        };
        let since = clock::now_ns();
        std::thread::yield_now();
        let now = clock::now_ns();
        let is_long = now - since > at_most_ns;
        if is_long {
            self.busy_until.store(now + BUSY_NS, Ordering::Relaxed);
        }
        is_long
    }

    pub(super) fn patience(&self) -> Patience {
        match self.patience.get() {
            Some(patience) => *patience,
            None if self.job.is_complete() => *self.patience.get_or_init(|| Patience::of(&self.job)),
            None => Patience::of(&self.job),
        }
    }

    /// Whether runs may go on that somebody should look after.
    #[inline]
    pub(super) fn runs_go_on(&self) -> bool {
        self.runs.load(Ordering::Relaxed)
    }

    /// Whether an application thread drives the engine. Stays so while the engine is in hand.
    pub(super) fn is_driven(&self) -> bool {
        self.app_drives.load(Ordering::SeqCst)
    }

    /// Takes the engine for an application thread.
    pub(super) fn enter(&self) -> MutexGuard<'_, Engine> {
        let mut engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => self.enter_after_another(),
        };
        self.is_put_off.store(false, Ordering::Relaxed);
        // A progress thread that is woken for the first piece only takes its application's processor more often.
        engine.messages.put_off_rings(true);
        self.bell().attend();
        engine
    }

    #[cold]
    fn enter_after_another(&self) -> MutexGuard<'_, Engine> {
        self.others.wanting.fetch_add(1, Ordering::SeqCst);
        // A thread that drives may be asleep with the engine in hand.
        self.bell().call(Sleeper::Waiter);
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        self.others.wanting.fetch_sub(1, Ordering::SeqCst);
        engine
    }

    /// The thread that drives lets those pass who want the engine.
    #[cold]
    fn give_way<'a>(&'a self, engine: MutexGuard<'a, Engine>) -> MutexGuard<'a, Engine> {
        drop(engine);
        for _ in 0..YIELDS_TO_OTHERS {
            if self.others.wanting.load(Ordering::SeqCst) == 0 {
                break;
            }
            std::thread::yield_now();
        }
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        self.bell().attend();
        engine
    }

    /// Gives the engine back; hands over to the progress thread if something is going on.
    pub(super) fn leave(self: &Arc<Self>, mut engine: MutexGuard<'_, Engine>) {
        // Runs that others have carried to their end.
        if engine.runs.peer_progress.has_runs() {
            engine.settle();
        }
        // What has come already is taken in here: the progress thread would have to be woken for it.
        let mut turns = 0;
        while turns < TURNS_AT_LEAVING && !engine.is_idle() && engine.has_arrivals() {
            engine.turn();
            turns += 1;
        }
        // So is what goes into pipes put there, once: who starts a run need not carry out all of it.
        if turns == 0 && !engine.is_at_rest() && engine.messages.has_transfer_news() {
            engine.turn();
        }
        engine.messages.ring_finally();
        if engine.messages.has_transfers() && self.patience().spins > 0 {
            self.linger(&mut engine);
        }
        for attempt in 0.. {
            let is_idle = engine.is_idle();
            if self.runs.load(Ordering::Relaxed) == is_idle {
                self.runs.store(!is_idle, Ordering::Relaxed);
            }
            if self.app_drives.load(Ordering::SeqCst) {
                // Who drives waits for the engine, and attends to the bell when it has it.
                return;
            }
            if is_idle {
                // Awake is as good as quiet, and the line stays in the senders' caches.
                if !engine.is_at_rest() {
                    self.ensure_thread();
                }
                return;
            }
            self.ensure_thread();
            if engine.needs_turning() {
                self.bell().call(Sleeper::Thread);
                return;
            }
            if self.patience().is_frugal && engine.can_wait() {
                self.is_put_off.store(true, Ordering::Relaxed);
                self.bell().put_off();
            } else {
                self.bell().hand_over();
            }
            if !engine.has_news() {
                return;
            }
            if attempt == ATTEMPTS_AT_LEAVING {
                self.bell().call(Sleeper::Thread);
                return;
            }
            // It came in this moment. A turn costs far less than to wake the thread for it.
            self.bell().attend();
            engine.turn();
            engine.messages.ring_finally();
        }
    }

    /// Whether the run has ended: somebody asks, so that what was put off is done now.
    #[inline]
    pub(super) fn ask(self: &Arc<Self>, state: &HandleState) -> bool {
        state.is_done()
            || match state.set {
                Some(set) => self.ask_started(set, state),
                None => self.is_put_off.load(Ordering::Relaxed) && self.catch_up(state),
            }
    }

    #[cold]
    fn catch_up(self: &Arc<Self>, state: &HandleState) -> bool {
        // Else another thread is at it.
        if let Ok(mut engine) = self.engine.try_lock()
            && engine.has_news()
        {
            self.is_put_off.store(false, Ordering::Relaxed);
            self.bell().attend();
            engine.turn();
            self.leave(engine);
        }
        state.is_done()
    }

    /// Looks for large messages for as long as more of them comes.
    #[inline(never)]
    fn linger(&self, engine: &mut Engine) {
        let (mut since, mut patience_ns) = (clock::now_ns(), LINGER_FIRST_NS);
        while engine.messages.has_transfers()
            && !engine.is_at_rest()
            && !self.app_drives.load(Ordering::Relaxed)
            && self.others.wanting.load(Ordering::Relaxed) == 0
            && clock::now_ns() - since < patience_ns
        {
            if !engine.has_news() || !engine.turn() {
                std::hint::spin_loop();
                continue;
            }
            engine.messages.ring_finally();
            patience_ns = if engine.can_wait() { LINGER_FIRST_NS } else { LINGER_NS };
            since = clock::now_ns();
        }
    }

    /// Waits for a run, driving the engine meanwhile if nobody else does.
    pub(super) fn wait(self: &Arc<Self>, state: &Arc<HandleState>) {
        if let Some(set) = state.set {
            return self.wait_for_started(set, state);
        }
        while !state.is_done() {
            if self.app_drives.load(Ordering::SeqCst) {
                self.wait_beside(state);
                continue;
            }
            let engine = self.enter();
            self.drive_for(engine, state);
        }
    }

    /// Another application thread drives: sleeps until the run is done or the driver leaves.
    fn wait_beside(&self, state: &Arc<HandleState>) {
        let _lent = Lent::begin();
        self.others.beside.fetch_add(1, Ordering::SeqCst);
        self.others.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(state));
        if self.app_drives.load(Ordering::SeqCst) && !state.is_done() {
            state.sleep(Duration::from_millis(10));
        }
        let mut waiting = self.others.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = waiting.iter().position(|other| Arc::ptr_eq(other, state)) {
            waiting.swap_remove(at);
        }
        self.others.beside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Drives until `state` is done, then leaves. Leaves at once if another application thread drives.
    pub(super) fn drive_for<'a>(self: &'a Arc<Self>, engine: MutexGuard<'a, Engine>, state: &HandleState) {
        if state.is_done() || self.app_drives.load(Ordering::SeqCst) {
            return self.leave(engine);
        }
        self.drive_until(engine, &|| state.is_done(), &|| false);
    }

    /// Drives until `is_done`, or until `is_in_vain`, which is asked before each sleep; then leaves. No other application thread
    /// drives.
    pub(super) fn drive_until<'a>(
        self: &'a Arc<Self>,
        mut engine: MutexGuard<'a, Engine>,
        is_done: &(impl Fn() -> bool + ?Sized),
        is_in_vain: &impl Fn() -> bool,
    ) {
        self.app_drives.store(true, Ordering::Relaxed);
        engine.is_late = false;
        // Before it sleeps for the first time it lends its processor, until it goes on.
        let mut lent = None;
        let patience = self.patience();
        let rings_later = RINGS_LATER_TURNS.min(patience.spins + 2);
        let (mut idle, mut nap) = (0, NAPS[0]);
        while !is_done() {
            if self.others.wanting.load(Ordering::Relaxed) > 0 {
                engine = self.give_way(engine);
            }
            engine.messages.put_off_rings(idle < rings_later);
            if engine.turn() {
                idle = 0;
                engine.moved();
                continue;
            }
            engine.is_late = false;
            if engine.runs.calculations.is_computing() {
                engine.messages.ring_finally();
                engine.report_if_asked();
                continue;
            }
            idle += 1;
            if idle == 1 {
                engine.messages.press_receivers();
            }
            if idle < patience.spins {
                std::hint::spin_loop();
            } else if idle < patience.spins + patience.yields {
                if self.is_awake_for_nothing() || self.spend_yield(idle - patience.spins, patience.yield_ns) {
                    idle = patience.spins + patience.yields;
                }
            } else {
                if is_in_vain() {
                    break;
                }
                let mut at_most = LOOK_PERIOD;
                if let Some(meanwhile) = self.meanwhile.get() {
                    meanwhile();
                    (at_most, nap) = (nap, NAPS[1].min(nap * 2));
                }
                lent = lent.or_else(Lent::begin);
                self.sleep_as_waiter(&mut engine, is_done, at_most);
                engine.look_around();
                // One more round of yields before the next sleep, no more spinning.
                idle = patience.spins;
            }
        }
        if is_done() {
            engine.note_if_late();
        }
        engine.is_late = false;
        engine.waiting = None;
        self.app_drives.store(false, Ordering::SeqCst);
        self.leave(engine);
        if self.others.beside.load(Ordering::SeqCst) > 0 {
            for other in self.others.waiting.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                other.nudge();
            }
        }
    }

    fn sleep_as_waiter(
        &self,
        engine: &mut Engine,
        is_done: &(impl Fn() -> bool + ?Sized),
        at_most: Duration,
    ) {
        if engine.messages.is_blocked() {
            std::thread::sleep(RETRY_PAUSE);
            return;
        }
        let Some(patience) = time_to_sleep(engine) else { return };
        let patience = patience.min(at_most);
        engine.flush_held_back();
        let ticket = self.bell().prepare(Sleeper::Waiter);
        let is_wanted = self.others.wanting.load(Ordering::SeqCst) > 0;
        if is_wanted || engine.has_news() || is_done() {
            return self.bell().cancel(ticket);
        }
        let is_up = self.bell().sleep(ticket, Some(patience));
        engine.is_late = is_up && patience == LOOK_PERIOD;
        engine.note_woken();
    }

    pub(super) fn ensure_thread(self: &Arc<Self>) {
        if self.thread.runs.load(Ordering::Relaxed) || self.thread.runs.swap(true, Ordering::SeqCst) {
            return;
        }
        let shared = Arc::clone(self);
        let thread =
            std::thread::Builder::new().name("castell-progress".into()).spawn(move || shared.progress());
        match thread {
            Ok(thread) => *self.thread.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
            // Without a thread, runs go on only while somebody waits.
            Err(_) => self.thread.runs.store(false, Ordering::SeqCst),
        }
    }

    /// The progress thread.
    fn progress(self: &Arc<Self>) {
        // The ticket is taken before the looks below: a call that comes after them ends the sleep at once.
        let (mut ticket, mut patience) = (self.bell().ticket(Sleeper::Thread), Duration::ZERO);
        let mut has_missed = false;
        loop {
            let is_up = self.bell().sleep(ticket, Some(patience)) && patience == LOOK_PERIOD;
            ticket = self.bell().ticket(Sleeper::Thread);
            patience = LOOK_PERIOD;
            if self.shut_down.load(Ordering::SeqCst) {
                return;
            }
            let looks_soon = self.look_after_started();
            if looks_soon {
                patience = LATE_RETRY_PAUSE;
            }
            if self.app_drives.load(Ordering::SeqCst) || self.others.wanting.load(Ordering::SeqCst) > 0 {
                // Who drives, or is about to, leaves the bell as it must be.
                continue;
            }
            // To wait for the engine could take as long as an application sleeps with it in hand, and nobody would look after started
            // calls.
            let mut engine = match self.engine.try_lock() {
                Ok(engine) => engine,
                Err(TryLockError::Poisoned(error)) => error.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    // Who has it may have handed over already.
                    patience = if has_missed { LATE_RETRY_PAUSE } else { RETRY_PAUSE };
                    has_missed = true;
                    continue;
                }
            };
            has_missed = false;
            if !engine.is_at_rest() {
                engine.is_late = is_up;
                engine.note_woken();
                self.bell().attend();
                (ticket, patience) = self.drive_unattended(engine);
                if looks_soon {
                    patience = patience.min(LATE_RETRY_PAUSE);
                }
            }
        }
    }

    /// Drives while there is something to do; says how long to sleep then.
    fn drive_unattended(&self, mut engine: MutexGuard<'_, Engine>) -> (Ticket, Duration) {
        let (mut idle, mut turns) = (0, 0);
        while !engine.is_at_rest() && self.others.wanting.load(Ordering::SeqCst) == 0 && idle < THREAD_TURNS {
            // Others' threads are woken once for all that there is to do here, unless that is much.
            engine.messages.put_off_rings(turns < RINGS_LATER_TURNS && idle == 0);
            turns += 1;
            if engine.turn() {
                idle = 0;
                engine.moved();
                continue;
            }
            engine.is_late = false;
            if !engine.runs.calculations.is_computing() {
                idle += 1;
                std::hint::spin_loop();
            }
        }
        engine.messages.ring_finally();
        engine.look_around();
        engine.flush_held_back();
        if engine.is_idle() {
            let ticket = self.bell().ticket(Sleeper::Thread);
            self.bell().quiet();
            return (ticket, LOOK_PERIOD);
        }
        if self.patience().is_frugal && engine.can_wait() {
            let ticket = self.bell().ticket(Sleeper::Thread);
            self.is_put_off.store(true, Ordering::Relaxed);
            self.bell().put_off();
            return (ticket, if engine.has_news() { Duration::ZERO } else { LOOK_PERIOD });
        }
        let ticket = self.bell().prepare(Sleeper::Thread);
        if engine.has_news() {
            return (ticket, Duration::ZERO);
        }
        if engine.messages.is_blocked() {
            return (ticket, if !engine.runs.is_empty() { RETRY_PAUSE } else { LATE_RETRY_PAUSE });
        }
        (ticket, time_to_sleep(&engine).unwrap_or(Duration::ZERO))
    }

    /// Wakes all that sleep for slots, if any do: this rank has passed started calls, which few wait for, and nobody knows who.
    #[inline]
    pub(super) fn ring_all_if_seen(&self) {
        if self.job.slot_sleepers().load(Ordering::Relaxed) != 0 {
            for rank in (0..self.job.ranks()).map(Rank).filter(|rank| *rank != self.me) {
                self.job.control(rank).doorbell.ring_waiter();
            }
        }
    }

    /// See [`Engine::leave_network`].
    pub(super) fn leave_network(&self) {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner).leave_network();
    }

    /// Ends the progress thread.
    pub(super) fn stop(&self) {
        self.bell().call(Sleeper::Thread);
        if let Some(thread) = self.thread.handle.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A panic in it has been printed; nothing is left to do about it here.
            let _ = thread.join();
        }
    }
}

/// How long nothing but a message can have work for the engine; `None`: there is work now.
fn time_to_sleep(engine: &Engine) -> Option<Duration> {
    if engine.runs.calculations.is_computing() || engine.messages.copies() {
        return None;
    }
    match engine.runs.calculations.next_timer_ns() {
        None => Some(LOOK_PERIOD),
        Some(due) => {
            let left = due.saturating_sub(clock::now_ns());
            (left > 0).then(|| Duration::from_nanos(left).min(LOOK_PERIOD))
        }
    }
}
