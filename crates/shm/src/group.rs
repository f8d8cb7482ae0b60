//! The ranks of a job: who they are, who lives, and how they are woken.

use crate::cma_probe::CmaProbe;
use crate::doorbell::{Doorbell, Sleeper};
use crate::oversubscription::{Awaits, RunsOn};
use crate::queue::{Intent, Intents};
use castell_base::Rank;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Processors are told apart up to 64 times this number.
const PROCESSOR_WORDS: usize = 16;

/// What the ranks know of each other together. Zeroed memory is a group that nobody has joined.
#[repr(C)]
pub(crate) struct State {
    /// Counts deaths and departures; a rank that sees it change looks through the control blocks.
    epoch: AtomicU32,
    /// Bumped when every rank is asked to print who waits for whom.
    stall_requests: AtomicU32,
    /// How often ranks have come to the gate, see [`Group::gate`].
    gate: AtomicU32,
    /// How many ranks have died or left.
    gone: AtomicU32,
    /// How many ranks have joined.
    joined: AtomicU32,
    /// How many of them run on this host.
    ranks_here: AtomicU32,
    /// The processors that some rank may run on, a bit each; more than fit here count as the last ones do.
    processors: [AtomicU64; PROCESSOR_WORDS],
    /// How many processors all ranks count when they choose algorithms; 0: nobody has asked yet.
    processors_counted: AtomicU32,
    /// How many threads sleep, or are about to, until something comes to a slot; those of killed ranks stay counted.
    slot_sleepers: SlotSleepers,
}

/// A line of its own: every sender reads it, and it hardly ever changes.
#[repr(C, align(64))]
struct SlotSleepers(AtomicU32);

/// How long whoever counts the processors first waits for ranks that have not joined. Nanoseconds.
const JOINING_NS: u64 = 200_000_000;

/// Where a rank is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankState {
    /// Its process has not joined yet.
    Unborn,
    /// Joined.
    Alive,
    /// Left in order.
    Finished,
    /// Ended without leaving in order; the status says how.
    Dead(Death),
}

/// How a rank ended that did not leave in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Exited with this code without finalizing.
    Exited(i32),
    /// Killed by this signal.
    Signaled(i32),
    /// Gone, and nobody saw how.
    Vanished,
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Death::Exited(code) => write!(f, "exited with code {code} without finalizing"),
            Death::Signaled(signal) => write!(f, "was killed by signal {signal}"),
            Death::Vanished => write!(f, "is gone"),
        }
    }
}

/// What a rank shows to the others. A cache line for each way in which it is used.
#[repr(C, align(64))]
pub struct RankControl {
    /// Read by every sender, written by the rank itself and by whoever wakes it.
    pub doorbell: Doorbell,
    state: AtomicU32,
    status: AtomicU32,
    pid: AtomicU32,
    pad1: [u8; 12],
    /// Who of the others it can read.
    pub cma_probe: CmaProbe,
    /// The reservation that this rank has open in somebody's queue, see `queue/README.md`.
    pub intent: Intent,
    /// What it waits for in a slot.
    pub awaits: Awaits,
    pad2: [u8; 40 - size_of::<Intent>()],
    /// Distinguishes a recycled process id: the process's start time in clock ticks.
    start_time: AtomicU64,
    /// The processor that it ran on when it last looked.
    pub runs_on: RunsOn,
    pad3: [u8; 52],
}

const _: () = assert!(size_of::<RankControl>() == 256);

impl State {
    /// How many ranks are on this host, and how many processors all ranks count; 0: who asks first counts.
    pub(crate) fn settle(&self, ranks_here: u32, processors: u32) {
        self.ranks_here.store(ranks_here, Ordering::Relaxed);
        self.processors_counted.store(processors, Ordering::Relaxed);
    }
}

impl RankControl {
    /// Where the rank is in its life.
    pub fn state(&self) -> RankState {
        let status = |this: &Self| this.status.load(Ordering::Relaxed) as i32;
        match self.state.load(Ordering::Acquire) {
            0 => RankState::Unborn,
            1 => RankState::Alive,
            2 => RankState::Finished,
            3 => RankState::Dead(Death::Exited(status(self))),
            4 => RankState::Dead(Death::Signaled(status(self))),
            _ => RankState::Dead(Death::Vanished),
        }
    }

    /// The process of the rank; 0 while unborn.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire)
    }

    /// Start time of that process, see [`Group::join`].
    pub fn start_time(&self) -> u64 {
        self.start_time.load(Ordering::Acquire)
    }
}

/// A second process for one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "process {pid} has joined the group as rank {rank} already, and each rank is one process, once: start one \
     program a rank, and from a script no second one that uses castell"
)]
pub struct Taken {
    /// The rank.
    pub rank: Rank,
    /// The process that has it.
    pub pid: u32,
}

/// The ranks of a job, in its segment.
pub struct Group {
    state: *const State,
    controls: *const RankControl,
    ranks: u32,
}

// SAFETY: the memory is shared between processes by design; it is made of atomics.
unsafe impl Send for Group {}
// SAFETY: as above.
unsafe impl Sync for Group {}

impl Group {
    /// The group of so many ranks that lies there.
    ///
    /// # Safety
    /// Both are mapped and aligned as long as the result lives, with as many control blocks as ranks.
    pub(crate) unsafe fn new(state: *const State, controls: *const RankControl, ranks: u32) -> Group {
        Group { state, controls, ranks }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// What `rank` shows to the others.
    #[inline]
    pub fn control(&self, rank: Rank) -> &RankControl {
        assert!(rank.0 < self.ranks, "rank {rank} is outside the job");
        // SAFETY: `new` was promised so many.
        unsafe { &*self.controls.add(rank.index()) }
    }

    /// Enters this process as `rank`, which may run on `cpus`. `start_time` tells it from a later process with the same
    /// id.
    ///
    /// # Errors
    /// Another process, or this one before, was that rank: what it left in the queues cannot be taken over.
    pub fn join(&self, rank: Rank, pid: u32, start_time: u64, cpus: &[u32]) -> Result<(), Taken> {
        let control = self.control(rank);
        if let Err(before) = control.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire) {
            return Err(Taken { rank, pid: before });
        }
        control.start_time.store(start_time, Ordering::Relaxed);
        control.cma_probe.announce();
        for cpu in cpus {
            let bit = (*cpu as usize).min(64 * PROCESSOR_WORDS - 1);
            self.state().processors[bit / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
        self.state().joined.fetch_add(1, Ordering::Release);
        // Whoever watches may have announced this process's death before it came here.
        let _ = control.state.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
        Ok(())
    }

    /// Notes that a rank of another host has joined there.
    pub fn note_joined_elsewhere(&self, rank: Rank) {
        let joins =
            self.control(rank).state.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok();
        self.state().joined.fetch_add(u32::from(joins), Ordering::Release);
    }

    /// Marks `rank` as gone in order, and wakes those of `met` that sleep. The others find out when they look the next time:
    /// if all were woken, the ends of many ranks would cost all of them the square of their number.
    pub fn mark_finished(&self, rank: Rank, met: &[Rank]) {
        self.control(rank).state.store(2, Ordering::Release);
        self.count_gone();
        for peer in met {
            self.control(*peer).doorbell.ring();
        }
    }

    /// Marks `rank` as dead, unless it had left in order, and tells everybody.
    pub fn mark_dead(&self, rank: Rank, death: Death) {
        let control = self.control(rank);
        let (state, status) = match death {
            Death::Exited(code) => (3, code),
            Death::Signaled(signal) => (4, signal),
            Death::Vanished => (5, 0),
        };
        control.status.store(status as u32, Ordering::Relaxed);
        let marked =
            control.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (now < 2).then_some(state));
        if marked.is_ok() {
            self.count_gone();
            self.wake_everybody();
        }
    }

    fn count_gone(&self) {
        self.state().gone.fetch_add(1, Ordering::AcqRel);
        self.state().epoch.fetch_add(1, Ordering::AcqRel);
        castell_host::futex::wake(&self.state().gate, i32::MAX, u32::MAX);
    }

    /// Rings every rank's doorbell, whoever sleeps on it.
    pub fn wake_everybody(&self) {
        for rank in 0..self.ranks {
            let doorbell = &self.control(Rank(rank)).doorbell;
            doorbell.call(Sleeper::Thread);
            doorbell.call(Sleeper::Waiter);
        }
    }

    /// Counts deaths and departures.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.state().epoch.load(Ordering::Acquire)
    }

    /// Whether every rank has joined.
    pub fn is_complete(&self) -> bool {
        self.state().joined.load(Ordering::Acquire) >= self.ranks
    }

    /// Whether there are more ranks on this host than processors that those may run on which have joined.
    pub fn is_oversubscribed(&self) -> bool {
        self.state().ranks_here.load(Ordering::Relaxed) > self.processors_of_joined()
    }

    /// Processors that those ranks may run on which have joined.
    pub fn processors_of_joined(&self) -> u32 {
        let words = self.state().processors.iter();
        words.map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// How many processors the ranks share: the same number for all of them, whoever asks first and whenever. Who does
    /// waits for the others to join, though not for ever: then those that are there are counted.
    pub fn processors(&self) -> u32 {
        let agreed = &self.state().processors_counted;
        let before = agreed.load(Ordering::Relaxed);
        if before > 0 {
            return before;
        }
        let start = castell_host::clock::now_ns();
        while !self.is_complete() && castell_host::clock::now_ns() - start < JOINING_NS {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let counted = self.processors_of_joined().max(1);
        agreed
            .compare_exchange(0, counted, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|other| other, |_| counted)
    }

    /// Waits until all living ranks stand here for the `round`-th time (from 1): the start of a timed run.
    pub fn gate(&self, round: u32) {
        let (gate, gone) = (&self.state().gate, &self.state().gone);
        let wanted = self.ranks.saturating_mul(round);
        let is_open =
            |came: u32| came.saturating_add(gone.load(Ordering::Acquire).saturating_mul(round)) >= wanted;
        if is_open(gate.fetch_add(1, Ordering::AcqRel) + 1) {
            // Only the last one wakes the others: each would otherwise wake all that stand here.
            castell_host::futex::wake(gate, i32::MAX, u32::MAX);
            return;
        }
        loop {
            let came = gate.load(Ordering::Acquire);
            if is_open(came) {
                return;
            }
            // Somebody may go between the look and the sleep.
            let patience = std::time::Duration::from_millis(200);
            castell_host::futex::wait(gate, came, u32::MAX, Some(patience));
        }
    }

    /// Asks every rank to print who waits for whom.
    pub fn request_stall_report(&self) {
        self.state().stall_requests.fetch_add(1, Ordering::Relaxed);
        self.wake_everybody();
    }

    /// How often every rank was asked to print who waits for whom.
    #[inline]
    pub fn stall_requests(&self) -> u32 {
        self.state().stall_requests.load(Ordering::Relaxed)
    }

    /// How many threads sleep until something comes to a slot.
    #[inline]
    pub fn slot_sleepers(&self) -> &AtomicU32 {
        &self.state().slot_sleepers.0
    }

    /// Where every rank's open reservation stands.
    pub fn intents(&self) -> Intents {
        let first = &raw const self.control(Rank(0)).intent;
        // SAFETY: every rank's control block lies in the segment, `size_of::<RankControl>()` apart; the engine keeps the job
        // mapped for as long as it has queues.
        unsafe { Intents::new(first, size_of::<RankControl>(), self.ranks) }
    }

    #[inline]
    fn state(&self) -> &State {
        // SAFETY: `new` was promised that it is mapped; it is made of atomics.
        unsafe { &*self.state }
    }
}
