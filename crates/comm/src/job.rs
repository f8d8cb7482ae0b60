//! The job: one shared memory segment that every rank maps.
//!
//! `job/layout.rs` says where in it what lies.
//!
//! Nothing in it has a name in a file system: it lives exactly as long as a process has it open. Zeroed memory is
//! the valid first state of every part.

mod layout;

pub use layout::area_bytes;

use crate::carry::heap::{AREA_BYTES, BLOCKS};
use crate::collective::board::{ENTRIES, Entry};
use crate::doorbell::{Doorbell, Sleeper};
use crate::pool;
use crate::queue::{Geometry, Intent, Intents, QueueKind};
use crate::reach::Reach;
use crate::rendezvous::{DESCRIPTORS, Descriptor, PIPE_BYTES, PIPES};
use crate::slot::geometry::Geometry as Slots;
use crate::slot::line::{Line, Standing};
use crate::slot::log::Log;
use crate::tuning::announced::{self, Announced};
use crate::whereabouts::{Awaits, RunsOn};
use castell_base::Rank;
use castell_collectives::decision::Decisions;
use castell_host::shm::Segment;
use layout::*;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"castell1");
const VERSION: u32 = 13;

/// Processors are told apart up to 64 times this number.
const PROCESSOR_WORDS: usize = 16;

/// The most ranks that one job may have.
pub const RANKS_MAX: u32 = 65_536;

/// Slots that a half queue may have.
const QUEUE_SLOTS: std::ops::RangeInclusive<u32> = 16..=65_536;

/// Who carries a run on while its process does something else, or sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Progress {
    /// Peers where there are more ranks than processors, else the process's own thread.
    #[default]
    Auto,
    /// A thread of the run's own process, which a sender wakes.
    Thread,
    /// The peer whose message made an operation ready, where all buffers lie in shared memory.
    Peers,
}

impl Progress {
    /// All of them, by number.
    pub const ALL: [Progress; 3] = [Progress::Auto, Progress::Thread, Progress::Peers];

    /// The word for it on command lines.
    pub fn name(self) -> &'static str {
        ["auto", "thread", "peers"][self as usize]
    }
}

impl std::str::FromStr for Progress {
    type Err = String;

    fn from_str(word: &str) -> Result<Progress, String> {
        let found = Progress::ALL.into_iter().find(|progress| progress.name() == word);
        found.ok_or_else(|| format!("`{word}` is not a way of progress: auto, thread or peers"))
    }
}

/// When large blocking calls read their data out of the senders' own buffers, where the kernel permits that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reads {
    /// Where each rank finds, when it makes the first call that could, that the kernel copies fast.
    #[default]
    Auto,
    /// In all calls that can.
    Always,
}

/// What a job is made with.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// Number of ranks.
    pub ranks: u32,
    /// Design of the receive queues.
    pub queue: QueueKind,
    /// 64-byte slots a half queue (power of two).
    pub queue_slots: u32,
    /// Ranks that count as one node (the `msgq` design needs to know).
    pub ranks_per_node: u32,
    /// Whether pairs that a schedule names get lanes, or everything goes through the queues.
    pub lanes: bool,
    /// Whether large messages may go through pipes, or are copied from process to process.
    pub pipes: bool,
    /// Messages up to this size are sent eagerly, larger ones by rendezvous. Bytes.
    pub eager_bytes: u32,
    /// Who carries runs on whose owner does not wait for them.
    pub progress: Progress,
    /// When large calls read their senders' buffers.
    pub reads: Reads,
    /// Print who waits for whom after this long without progress; 0: never. Milliseconds.
    pub stall_ms: u32,
}

impl JobOptions {
    /// Sensible defaults for `ranks` ranks.
    pub fn new(ranks: u32) -> JobOptions {
        JobOptions {
            ranks,
            queue: QueueKind::Scmp,
            queue_slots: 2048,
            ranks_per_node: ranks.max(1),
            lanes: true,
            pipes: true,
            eager_bytes: 8192,
            progress: Progress::Auto,
            reads: Reads::Auto,
            stall_ms: 0,
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            ranks_per_node: self.ranks_per_node.max(1),
            slots: self.queue_slots,
            ..Geometry::new(self.queue, self.ranks)
        }
    }
}

/// Why a job could not be made or joined.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// No rank, or too many.
    #[error("a job of {0} ranks cannot be made: ask for 1 to {RANKS_MAX}")]
    Ranks(u32),
    /// An option out of range.
    #[error("{0}")]
    Option(String),
    /// The segment could not be made or mapped.
    #[error("the job's shared memory could not be set up: {0}")]
    Memory(#[from] castell_host::HostError),
    /// A second process for one rank.
    #[error(
        "process {pid} has joined the group as rank {rank} already, and each rank is one process, once: start one \
         program a rank, and from a script no second one that uses castell"
    )]
    Taken {
        /// The rank.
        rank: Rank,
        /// The process that has it.
        pid: u32,
    },
    /// The file is not a job's segment.
    #[error("the shared memory that was handed over is not a castell job of this version ({0})")]
    Foreign(&'static str),
}

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    ranks: AtomicU32,
    queue: AtomicU32,
    queue_slots: AtomicU32,
    ranks_per_node: AtomicU32,
    eager_bytes: AtomicU32,
    lanes: AtomicU32,
    pipes: AtomicU32,
    stall_ms: AtomicU32,
    progress: AtomicU32,
    reads: AtomicU32,
    /// Counts deaths and departures; a rank that sees it change looks through the control blocks.
    epoch: AtomicU32,
    /// Bumped when every rank is asked to print who waits for whom.
    stall_requests: AtomicU32,
    /// How often ranks have come to the gate, see [`Job::gate`].
    gate: AtomicU32,
    /// How many ranks have died or left.
    gone: AtomicU32,
    /// How many ranks have joined.
    joined: AtomicU32,
    /// The processors that some rank may run on, a bit each; more than fit here count as the last ones do.
    processors: [AtomicU64; PROCESSOR_WORDS],
    /// How many processors all ranks count when they choose algorithms; 0: nobody has asked yet.
    processors_counted: AtomicU32,
    /// Bytes of each rank's pool.
    pool_bytes: AtomicU64,
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
    pub(crate) reach: Reach,
    /// The reservation that this rank has open in somebody's queue, see `queue/README.md`.
    pub intent: Intent,
    pub(crate) awaits: Awaits,
    pad2: [u8; 40 - size_of::<Intent>()],
    /// Distinguishes a recycled process id: the process's start time in clock ticks.
    start_time: AtomicU64,
    pub(crate) runs_on: RunsOn,
    pad3: [u8; 52],
}

const _: () = assert!(size_of::<RankControl>() == CONTROL_BYTES && size_of::<Header>() <= HEADER_BYTES);

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

    /// Start time of that process, see [`Job::join`].
    pub fn start_time(&self) -> u64 {
        self.start_time.load(Ordering::Acquire)
    }
}

/// A mapped job.
pub struct Job {
    segment: Segment,
    geometry: Geometry,
    eager_bytes: usize,
    pool_bytes: usize,
    decisions: OnceLock<Decisions>,
}

impl Job {
    /// Makes a job's segment.
    ///
    /// # Errors
    /// Options out of range, or no memory.
    pub fn create(options: &JobOptions) -> Result<Job, JobError> {
        if options.ranks == 0 || options.ranks > RANKS_MAX {
            return Err(JobError::Ranks(options.ranks));
        }
        let slots = options.queue_slots;
        if !slots.is_power_of_two() || !QUEUE_SLOTS.contains(&slots) {
            let (low, high) = (QUEUE_SLOTS.start(), QUEUE_SLOTS.end());
            return Err(JobError::Option(format!(
                "{slots} slots a half queue: ask for a power of two from {low} to {high}"
            )));
        }
        let geometry = options.geometry();
        let pool_bytes = pool::bytes_for(options.ranks);
        let bytes = segment_bytes(&geometry) + options.ranks as usize * pool_bytes;
        let segment = Segment::create("castell-job", bytes)?;
        let job = Job { segment, geometry, eager_bytes: 0, pool_bytes, decisions: OnceLock::new() };
        let header = job.header();
        header.pool_bytes.store(pool_bytes as u64, Ordering::Relaxed);
        header.ranks.store(options.ranks, Ordering::Relaxed);
        header.queue.store(options.queue as u32, Ordering::Relaxed);
        header.queue_slots.store(options.queue_slots, Ordering::Relaxed);
        header.ranks_per_node.store(options.ranks_per_node.max(1), Ordering::Relaxed);
        header.pipes.store(u32::from(options.pipes), Ordering::Relaxed);
        header.lanes.store(u32::from(options.lanes), Ordering::Relaxed);
        header.eager_bytes.store(options.eager_bytes, Ordering::Relaxed);
        header.stall_ms.store(options.stall_ms, Ordering::Relaxed);
        header.progress.store(options.progress as u32, Ordering::Relaxed);
        header.reads.store(options.reads as u32, Ordering::Relaxed);
        // SAFETY: the segment is this function's own until it is handed on.
        unsafe { announced::write(job.tuning(), &Announced::load()) };
        header.version.store(VERSION, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Job::check(job.segment)
    }

    /// Maps a job that another process made.
    ///
    /// # Errors
    /// The file is no job of this version, or cannot be mapped.
    pub fn attach(fd: OwnedFd) -> Result<Job, JobError> {
        Job::check(Segment::from_fd(fd)?)
    }

    fn check(segment: Segment) -> Result<Job, JobError> {
        if segment.len() < HEADER_BYTES {
            return Err(JobError::Foreign("too short"));
        }
        // SAFETY: the segment is mapped, page aligned and longer than the header, which is made of atomics.
        let header = unsafe { &*segment.as_ptr().cast::<Header>() };
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(JobError::Foreign("wrong magic number"));
        }
        if header.version.load(Ordering::Relaxed) != VERSION {
            return Err(JobError::Foreign("another version"));
        }
        let kind = QueueKind::ALL.get(header.queue.load(Ordering::Relaxed) as usize).copied();
        let kind = kind.ok_or(JobError::Foreign("unknown queue"))?;
        let geometry = Geometry {
            ranks_per_node: header.ranks_per_node.load(Ordering::Relaxed),
            slots: header.queue_slots.load(Ordering::Relaxed),
            ..Geometry::new(kind, header.ranks.load(Ordering::Relaxed))
        };
        let slots_fit = geometry.slots.is_power_of_two() && QUEUE_SLOTS.contains(&geometry.slots);
        let ranks_fit = (1..=RANKS_MAX).contains(&geometry.ranks) && geometry.ranks_per_node > 0;
        let pool_bytes = header.pool_bytes.load(Ordering::Relaxed) as usize;
        let bytes = || {
            let pools = pool_bytes.checked_mul(geometry.ranks as usize)?;
            pools.checked_add(segment_bytes(&geometry))
        };
        if !ranks_fit || !slots_fit || bytes().is_none_or(|bytes| segment.len() < bytes) {
            return Err(JobError::Foreign("inconsistent header"));
        }
        let eager = header.eager_bytes.load(Ordering::Relaxed) as usize;
        let eager_bytes = eager.min(geometry.message_bytes_max());
        Ok(Job { segment, geometry, eager_bytes, pool_bytes, decisions: OnceLock::new() })
    }

    /// The file behind the segment, to hand over to the ranks' processes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.segment.fd()
    }

    /// Size of the segment without the ranks' pools; memory is used only where it is touched. Bytes.
    pub fn bytes(&self) -> usize {
        segment_bytes(&self.geometry)
    }

    /// The segment, and where in it a rank's pool lies.
    pub(crate) fn pool(&self, rank: Rank) -> (&Segment, std::ops::Range<usize>) {
        assert!(rank.0 < self.geometry.ranks, "rank {rank} is outside the job");
        let start = segment_bytes(&self.geometry) + rank.index() * self.pool_bytes;
        (&self.segment, start..start + self.pool_bytes)
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.geometry.ranks
    }

    /// Shape of the receive queues.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Largest message that is sent eagerly. Bytes.
    pub fn eager_bytes(&self) -> usize {
        self.eager_bytes
    }

    /// Whether pairs that a schedule names get lanes.
    pub fn has_lanes(&self) -> bool {
        self.header().lanes.load(Ordering::Relaxed) != 0
    }

    /// Whether large messages may go through pipes.
    pub fn has_pipes(&self) -> bool {
        self.header().pipes.load(Ordering::Relaxed) != 0
    }

    /// Whether runs are put where peers can carry them on.
    pub fn peers_carry(&self) -> bool {
        match self.header().progress.load(Ordering::Relaxed) {
            0 => self.is_complete() && self.is_crowded(),
            progress => progress == Progress::Peers as u32,
        }
    }

    /// Whether what [`Job::peers_carry`] says stays so.
    pub(crate) fn progress_is_settled(&self) -> bool {
        self.header().progress.load(Ordering::Relaxed) != Progress::Auto as u32 || self.is_complete()
    }

    /// When large calls read their senders' buffers.
    pub fn reads(&self) -> Reads {
        match self.header().reads.load(Ordering::Relaxed) {
            0 => Reads::Auto,
            _ => Reads::Always,
        }
    }

    /// After how long without progress a waiting rank prints who waits for whom; 0: never. Milliseconds.
    pub fn stall_ms(&self) -> u32 {
        self.header().stall_ms.load(Ordering::Relaxed)
    }

    /// Counts deaths and departures.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.header().epoch.load(Ordering::Acquire)
    }

    /// How often every rank was asked to print who waits for whom.
    pub fn stall_requests(&self) -> u32 {
        self.header().stall_requests.load(Ordering::Relaxed)
    }

    /// Whether every rank has joined.
    pub fn is_complete(&self) -> bool {
        self.header().joined.load(Ordering::Acquire) >= self.ranks()
    }

    /// Whether there are more ranks than processors that those may run on which have joined.
    pub fn is_crowded(&self) -> bool {
        self.ranks() > self.processors_of_joined()
    }

    pub(crate) fn processors_of_joined(&self) -> u32 {
        let words = self.header().processors.iter();
        words.map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// How many processors the ranks share: the same number for all of them, whoever asks first and whenever. Who does
    /// waits for the others to join, though not for ever: then those that are there are counted.
    pub fn processors(&self) -> u32 {
        let agreed = &self.header().processors_counted;
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

    /// What all ranks choose by: the tuning file that was found where the group was made, and behind it the built-in
    /// choices. Where the file was refused, a process that `speaks` says why when it asks first.
    pub fn decisions(&self, speaks: bool) -> &Decisions {
        self.decisions.get_or_init(|| {
            // SAFETY: it was written before the segment was handed on, and never again.
            let announced = unsafe { announced::read(self.tuning()) };
            announced.decisions().unwrap_or_else(|reason| {
                if speaks {
                    eprintln!("castell: {reason}");
                }
                Decisions::builtin()
            })
        })
    }

    /// Where the tuning is announced.
    fn tuning(&self) -> *mut u8 {
        let offset = segment_bytes(&self.geometry) - announced::BYTES;
        // SAFETY: checked against the segment's length at attach, or just made.
        unsafe { self.segment.as_ptr().add(offset) }
    }

    /// Asks every rank to print who waits for whom.
    pub fn request_stall_report(&self) {
        self.header().stall_requests.fetch_add(1, Ordering::Relaxed);
        self.wake_everybody();
    }

    /// What `rank` shows to the others.
    pub fn control(&self, rank: Rank) -> &RankControl {
        assert!(rank.0 < self.geometry.ranks, "rank {rank} is outside the job");
        let offset = HEADER_BYTES + rank.index() * CONTROL_BYTES;
        // SAFETY: checked against the segment's length at attach; control blocks are made of atomics.
        unsafe { &*self.segment.as_ptr().add(offset).cast::<RankControl>() }
    }

    /// Where every rank's open reservation stands.
    pub(crate) fn intents(&self) -> Intents {
        let first = &raw const self.control(Rank(0)).intent;
        // SAFETY: every rank's control block lies in the segment, `CONTROL_BYTES` apart; the engine keeps the job
        // mapped for as long as it has queues.
        unsafe { Intents::new(first, CONTROL_BYTES, self.geometry.ranks) }
    }

    /// Enters this process as `rank`, which may run on `cpus`. `start_time` tells it from a later process with the same
    /// id.
    ///
    /// # Errors
    /// Another process, or this one before, was that rank: what it left in the queues cannot be taken over.
    pub fn join(&self, rank: Rank, pid: u32, start_time: u64, cpus: &[u32]) -> Result<(), JobError> {
        let control = self.control(rank);
        if let Err(before) = control.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire) {
            return Err(JobError::Taken { rank, pid: before });
        }
        control.start_time.store(start_time, Ordering::Relaxed);
        control.reach.announce();
        for cpu in cpus {
            let bit = (*cpu as usize).min(64 * PROCESSOR_WORDS - 1);
            self.header().processors[bit / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
        self.header().joined.fetch_add(1, Ordering::Release);
        // Whoever watches may have announced this process's death before it came here.
        let _ = control.state.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
        Ok(())
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
        self.header().gone.fetch_add(1, Ordering::AcqRel);
        self.header().epoch.fetch_add(1, Ordering::AcqRel);
        castell_host::futex::wake(&self.header().gate, i32::MAX, u32::MAX);
    }

    /// Rings every rank's doorbell, whoever sleeps on it.
    pub fn wake_everybody(&self) {
        for rank in 0..self.ranks() {
            let doorbell = &self.control(Rank(rank)).doorbell;
            doorbell.call(Sleeper::Thread);
            doorbell.call(Sleeper::Waiter);
        }
    }

    /// Waits until all living ranks stand here for the `round`-th time (from 1): the start of a timed run.
    pub fn gate(&self, round: u32) {
        let (gate, gone) = (&self.header().gate, &self.header().gone);
        let wanted = self.ranks().saturating_mul(round);
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

    /// Start of `rank`'s lane pool.
    pub(crate) fn lane_pool(&self, rank: Rank) -> *mut u8 {
        self.area(rank)
    }

    /// Start of `rank`'s receive queue.
    pub(crate) fn queue(&self, rank: Rank) -> *mut u8 {
        // SAFETY: inside the rank's area, which was checked against the segment's length.
        unsafe { self.area(rank).add(LANES_BYTES) }
    }

    /// `rank`'s rendezvous descriptors, used by it as a sender.
    pub(crate) fn descriptors(&self, rank: Rank) -> &[Descriptor; DESCRIPTORS] {
        let offset = LANES_BYTES + round_up(self.geometry.bytes_per_rank(), PAGE);
        // SAFETY: inside the rank's area; descriptors are made of atomics and 64-byte aligned like the area.
        unsafe { &*self.area(rank).add(offset).cast::<[Descriptor; DESCRIPTORS]>() }
    }

    /// The offsets of `rank`'s blocks in its area of runs; 0: none.
    pub(crate) fn blocks(&self, rank: Rank) -> &[AtomicU32; BLOCKS] {
        // SAFETY: the area of runs starts with the table, which is made of atomics.
        unsafe { &*self.runs(rank).cast() }
    }

    /// How many numbered runs of `rank` go on that are in no block.
    pub(crate) fn unlisted(&self, rank: Rank) -> &AtomicU32 {
        // SAFETY: behind the table, in front of the first block.
        unsafe { &*self.runs(rank).add(size_of::<[AtomicU32; BLOCKS]>()).cast() }
    }

    /// Start of `rank`'s area of runs.
    pub(crate) fn runs(&self, rank: Rank) -> *mut u8 {
        let offset = area_bytes(&self.geometry) - PIPES * PIPE_BYTES as usize - AREA_BYTES;
        // SAFETY: inside the rank's area, which was checked against the segment's length.
        unsafe { self.area(rank).add(offset) }
    }

    /// One of `rank`'s pipes, filled by it as a sender.
    pub(crate) fn pipe(&self, rank: Rank, pipe: usize) -> *mut u8 {
        assert!(pipe < PIPES, "a rank has {PIPES} pipes");
        let offset = area_bytes(&self.geometry) - (PIPES - pipe) * PIPE_BYTES as usize;
        // SAFETY: inside the rank's area, which was checked against the segment's length.
        unsafe { self.area(rank).add(offset) }
    }

    /// What `rank` has called.
    pub(crate) fn board(&self, rank: Rank) -> &[Entry; ENTRIES] {
        assert!(rank.0 < self.geometry.ranks, "rank {rank} is outside the job");
        let offset = boards_offset(&self.geometry) + rank.index() * BOARD_BYTES;
        // SAFETY: checked against the segment's length at attach; boards are made of atomics, from a page's start on.
        unsafe { &*self.segment.as_ptr().add(offset).cast::<[Entry; ENTRIES]>() }
    }

    /// Whether calls of this context go through slots where they can.
    pub(crate) fn has_slots(&self, context: u32) -> bool {
        context < crate::slot::CONTEXTS && self.has_lanes() && !Slots::new(self.ranks()).is_empty()
    }

    /// A message's place in the first generation, and how far its line is from that of the next one. Bytes.
    pub(crate) fn slot(&self, context: u32, receiver: Rank, sender: Rank, place: usize) -> (Line, usize) {
        let at = Slots::new(self.ranks()).place(context, receiver.index(), sender.index(), place);
        // SAFETY: both lie in the slots, which the segment has been checked to hold; the engine keeps to the protocol.
        let line = unsafe { Line::new(self.slots_at(at.line), self.slots_at(at.page)) };
        (line, at.next_line)
    }

    /// Where a rank's large messages of a context's calls with slots lie.
    pub(crate) fn heap(&self, context: u32, sender: Rank, heap: usize) -> *mut u8 {
        self.slots_at(Slots::new(self.ranks()).heap(context, sender.index(), heap))
    }

    /// How far a rank has come in a context's calls with slots.
    pub(crate) fn standing(&self, context: u32, rank: Rank) -> Standing {
        // SAFETY: it lies in the slots; the engine writes to its own rank's only, in the context's lock.
        unsafe { Standing::new(self.slots_at(Slots::new(self.ranks()).standing(context, rank.index()))) }
    }

    /// What a rank has called with slots.
    pub(crate) fn call_log(&self, context: u32, rank: Rank) -> Log {
        // SAFETY: as above.
        unsafe { Log::new(self.slots_at(Slots::new(self.ranks()).log(context, rank.index()))) }
    }

    /// How many threads sleep until something comes to a slot.
    #[inline]
    pub(crate) fn slot_sleepers(&self) -> &AtomicU32 {
        &self.header().slot_sleepers.0
    }

    /// How far into the segment a word of it lies. Bytes.
    pub(crate) fn offset_of(&self, word: &AtomicU64) -> u64 {
        (word.as_ptr().addr() - self.segment.as_ptr().addr()) as u64
    }

    /// The word that lies so far into the segment, if one does.
    pub(crate) fn word_at(&self, offset: u64) -> Option<&AtomicU64> {
        let fits = offset.is_multiple_of(8) && offset < self.segment.len() as u64;
        // SAFETY: the segment is mapped and has a whole number of words; all that is asked for this way is made of atomics.
        fits.then(|| unsafe { &*self.segment.as_ptr().add(offset as usize).cast() })
    }

    fn slots_at(&self, offset: usize) -> *mut u8 {
        // SAFETY: checked against the segment's length at attach.
        unsafe { self.segment.as_ptr().add(slots_offset(&self.geometry) + offset) }
    }

    fn area(&self, rank: Rank) -> *mut u8 {
        assert!(rank.0 < self.geometry.ranks, "rank {rank} is outside the job");
        let offset = areas_offset(&self.geometry) + rank.index() * area_bytes(&self.geometry);
        // SAFETY: checked against the segment's length at attach.
        unsafe { self.segment.as_ptr().add(offset) }
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the segment is mapped, page aligned and longer than the header, which is made of atomics.
        unsafe { &*self.segment.as_ptr().cast::<Header>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_found_again_through_its_file() {
        let job = Job::create(&JobOptions::new(3)).expect("a small job");
        job.join(Rank(2), 77, 5, &[0]).expect("nobody has it");
        assert!(job.is_crowded() && !job.is_complete());
        assert_eq!(job.processors(), 1, "that of the rank that has joined");
        job.join(Rank(1), 78, 5, &[1, 2]).expect("nobody has it");
        let error = job.join(Rank(2), 78, 6, &[1]).expect_err("taken").to_string();
        assert!(error.contains("process 77") && error.contains("rank 2"), "{error}");
        let other = Job::attach(job.fd().try_clone_to_owned().expect("a descriptor")).expect("the same job");
        assert_eq!((other.ranks(), other.processors()), (3, 1), "all count the same");
        assert_eq!((other.control(Rank(2)).pid(), other.control(Rank(2)).state()), (77, RankState::Alive));
        other.mark_dead(Rank(2), Death::Signaled(9));
        assert_eq!(job.control(Rank(2)).state(), RankState::Dead(Death::Signaled(9)));
        assert_eq!(job.epoch(), 1);
        job.mark_finished(Rank(1), &[]);
        job.mark_dead(Rank(1), Death::Exited(1));
        assert_eq!(job.control(Rank(1)).state(), RankState::Finished);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(matches!(Job::create(&JobOptions::new(0)), Err(JobError::Ranks(0))));
        let segment = Segment::create("castell-test", 8192).expect("a segment");
        let fd = segment.fd().try_clone_to_owned().expect("a descriptor");
        assert!(matches!(Job::attach(fd), Err(JobError::Foreign(_))));
    }

    #[test]
    fn receiving_memory_does_not_grow_with_the_ranks() {
        let of = |ranks| area_bytes(&JobOptions::new(ranks).geometry());
        assert_eq!(of(2), of(10_000));
    }
}
