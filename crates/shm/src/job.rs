//! The job: one shared memory segment that every rank maps.
//!
//! `job/layout.rs` says where in it what lies.
//!
//! Nothing in it has a name in a file system: it lives exactly as long as a process has it open. Zeroed memory is
//! the valid first state of every part.

mod layout;
mod net;
mod place;

pub use layout::{HOST_NAME_BYTES_MAX, NET_ADDRESS_BYTES_MAX, area_bytes};
pub use net::{Interface, Interfaces, Net, OverTcp, Provider};
pub use place::Place;

use crate::board::{ENTRIES, Entry};
pub use crate::cma_probe::Reads;
pub use crate::group::{Death, RankControl, RankState};
use crate::group::{Group, State, Taken};
use crate::peer_progress::heap::{AREA_BYTES, BLOCKS};
use crate::pool;
use crate::queue::Geometry;
use crate::rendezvous::{DESCRIPTORS, Descriptor, PIPE_BYTES, PIPES};
use crate::slot::SlotSet;
use crate::slot::geometry::Geometry as Slots;
use crate::slot::line::{ConsumerIndex, Line};
use crate::slot::log::Log;
use crate::tuning::announced::{self, Announced};
use castell_base::Rank;
use castell_collectives::decision::Decisions;
use castell_host::secret::Secret;
use castell_host::shm::Segment;
use layout::*;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"castell1");
const VERSION: u32 = 20;

/// What `/proc` calls the files of jobs' segments.
pub const SEGMENT_LABEL: &str = "castell-job";

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

/// What a job is made with.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// Number of ranks.
    pub ranks: u32,
    /// 64-byte slots a half queue (power of two).
    pub queue_slots: u32,
    /// Whether pairs that a schedule names get rings, or everything goes through the queues.
    pub rings: bool,
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
    /// What carries messages. Over TCP nothing is put into slots, rings and pipes, and each rank's own thread makes progress,
    /// whatever else is asked for.
    pub net: Net,
    /// By rank, on which host it is; empty: all are on this one. Ranks of several hosts talk over TCP, each rank's own thread makes
    /// progress, and tuning files of one host choose nothing.
    pub hosts: Vec<u32>,
    /// What people call hosts 1, 2 and so on; those that have no name here have none.
    pub host_names: Vec<String>,
    /// By rank, in which isolation domain of its host it is, from 1; empty: there are none.
    pub domains: Vec<u32>,
    /// The host that this segment is for.
    pub here: u32,
    /// What the ranks prove to each other over a network; drawn if there is none.
    pub secret: Option<Secret>,
    /// Processors that all ranks count together when they choose algorithms; 0: those of this host are counted.
    pub processors: u32,
}

/// What only the ranks of a job know.
///
/// # Errors
/// The system has no random numbers.
pub fn draw_secret() -> Result<Secret, JobError> {
    Secret::random().map_err(|error| {
        JobError::Option(format!(
            "the system has no random numbers ({error}), and a job over a network needs a secret"
        ))
    })
}

impl JobOptions {
    /// Sensible defaults for `ranks` ranks.
    pub fn new(ranks: u32) -> JobOptions {
        JobOptions {
            ranks,
            queue_slots: 2048,
            rings: true,
            pipes: true,
            eager_bytes: 8192,
            progress: Progress::Auto,
            reads: Reads::Auto,
            stall_ms: 0,
            net: Net::Shm,
            hosts: Vec::new(),
            host_names: Vec::new(),
            domains: Vec::new(),
            here: 0,
            secret: None,
            processors: 0,
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry { ranks: self.ranks, slots: self.queue_slots }
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
    /// The rank cannot take part in the job's network.
    #[error("{0}")]
    Network(String),
    /// A second process for one rank.
    #[error(transparent)]
    Taken(#[from] Taken),
    /// The file is not a job's segment.
    #[error("the shared memory that was handed over is not a castell job of this version ({0})")]
    Foreign(&'static str),
}

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    ranks: AtomicU32,
    queue_slots: AtomicU32,
    eager_bytes: AtomicU32,
    rings: AtomicU32,
    pipes: AtomicU32,
    stall_ms: AtomicU32,
    progress: AtomicU32,
    reads: AtomicU32,
    net: AtomicU32,
    /// The network interface, the addresses or the provider, where that was named.
    name: [AtomicU64; 4],
    /// Whether ranks of one host share memory.
    is_shared: AtomicU32,
    /// Whether some ranks talk over a network.
    is_networked: AtomicU32,
    /// What the ranks prove to each other over a network.
    secret: [AtomicU64; 4],
    /// Bytes of each rank's pool.
    pool_bytes: AtomicU64,
    group: State,
}

impl Header {
    /// `None`: of another version, or damaged.
    fn net(&self) -> Option<Net> {
        match self.net.load(Ordering::Relaxed) {
            0 => Some(Net::Shm),
            kind @ (1 | 4) => {
                let place = Place::from_words([0, 1, 2, 3].map(|at| self.name_word(at)))?;
                Some(Net::Tcp(OverTcp { encrypts: kind == 4, place }))
            }
            2 => Interfaces::from_words([0, 1, 2, 3].map(|at| self.name_word(at))).map(Net::Esp),
            3 => Provider::from_words([0, 1, 2, 3].map(|at| self.name_word(at))).map(Net::Fabric),
            _ => None,
        }
    }

    fn name_word(&self, at: usize) -> u64 {
        self.name[at].load(Ordering::Relaxed)
    }
}

/// How the header says it: a number, and the words of a name.
fn written(net: Net) -> (u32, [u64; 4]) {
    match net {
        Net::Shm => (0, [0; 4]),
        Net::Tcp(OverTcp { encrypts, place }) => (if encrypts { 4 } else { 1 }, place.to_words()),
        Net::Esp(interfaces) => (2, interfaces.to_words()),
        Net::Fabric(provider) => (3, provider.to_words()),
    }
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// A mapped job: its group, and what else lies in its segment.
pub struct Job {
    group: Group,
    segment: Segment,
    geometry: Geometry,
    /// Where the ranks' areas begin, and bytes of each: every large message asks.
    areas_offset: usize,
    area_bytes: usize,
    eager_bytes: usize,
    pool_bytes: usize,
    decisions: OnceLock<Decisions>,
}

impl std::ops::Deref for Job {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
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
        let segment = Segment::create(SEGMENT_LABEL, bytes)?;
        // SAFETY: the segment is mapped and longer than the header, which is made of atomics.
        let header = unsafe { &*segment.as_ptr().cast::<Header>() };
        header.pool_bytes.store(pool_bytes as u64, Ordering::Relaxed);
        header.ranks.store(options.ranks, Ordering::Relaxed);
        header.queue_slots.store(options.queue_slots, Ordering::Relaxed);
        if !options.hosts.is_empty() && options.hosts.len() != options.ranks as usize {
            return Err(JobError::Option(format!(
                "{} ranks have hosts, of {}",
                options.hosts.len(),
                options.ranks
            )));
        }
        let has_hosts = options.hosts.iter().any(|host| *host != options.hosts[0]);
        let is_shared = options.net.leaves_shared_memory(has_hosts);
        let is_networked = !is_shared || has_hosts;
        header.is_shared.store(u32::from(is_shared), Ordering::Relaxed);
        header.pipes.store(u32::from(options.pipes && is_shared), Ordering::Relaxed);
        header.rings.store(u32::from(options.rings && is_shared), Ordering::Relaxed);
        if let (Net::Esp(_), false) = (options.net, is_networked) {
            let net = options.net;
            return Err(JobError::Option(format!(
                "{net} carries messages between hosts, and all ranks are on this one: name more hosts, or leave --net away"
            )));
        }
        let (net, name) = written(options.net);
        header.net.store(net, Ordering::Relaxed);
        for (word, of_name) in header.name.iter().zip(name) {
            word.store(of_name, Ordering::Relaxed);
        }
        header.is_networked.store(u32::from(is_networked), Ordering::Relaxed);
        if is_networked || options.secret.is_some() {
            let secret = options.secret.clone().map_or_else(draw_secret, Ok)?;
            for (word, bytes) in header.secret.iter().zip(secret.bytes().as_chunks::<8>().0) {
                word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
            }
        }
        let ranks_here = options.hosts.iter().filter(|host| **host == options.here).count() as u32;
        let ranks_here = if options.hosts.is_empty() { options.ranks } else { ranks_here };
        header.group.settle(ranks_here, options.processors);
        header.eager_bytes.store(options.eager_bytes, Ordering::Relaxed);
        header.stall_ms.store(options.stall_ms, Ordering::Relaxed);
        let progress = if is_networked { Progress::Thread } else { options.progress };
        header.progress.store(progress as u32, Ordering::Relaxed);
        header.reads.store(options.reads as u32, Ordering::Relaxed);
        // What hosts choose by has to be the same on all.
        let announced = if options.hosts.is_empty() { Announced::load() } else { Announced::Nothing };
        // SAFETY: the segment is this function's own until it is handed on.
        unsafe { announced::write(segment.as_ptr().add(tuning_offset(&geometry)), &announced) };
        header.version.store(VERSION, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        let job = Job::check(segment)?;
        for (rank, host) in (0..).map(Rank).zip(&options.hosts) {
            job.net_words(rank)[1].store(u64::from(*host), Ordering::Relaxed);
            if let Some(name) = (*host as usize).checked_sub(1).and_then(|at| options.host_names.get(at)) {
                let name = &name.as_bytes()[..name.len().min(HOST_NAME_BYTES_MAX)];
                write_bytes(&job.net_words(rank)[2 + NET_ADDRESS_BYTES_MAX / 8..], name);
            }
        }
        for (rank, domain) in (0..options.ranks).map(Rank).zip(&options.domains) {
            job.net_words(rank)[1].fetch_or(u64::from(*domain) << 32, Ordering::Relaxed);
        }
        Ok(job)
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
        // Where the secret is.
        segment.leave_out_of_core_files(HEADER_BYTES);
        // SAFETY: the segment is mapped, page aligned and longer than the header, which is made of atomics.
        let header = unsafe { &*segment.as_ptr().cast::<Header>() };
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(JobError::Foreign("wrong magic number"));
        }
        if header.version.load(Ordering::Relaxed) != VERSION {
            return Err(JobError::Foreign("another version"));
        }
        let geometry = Geometry {
            ranks: header.ranks.load(Ordering::Relaxed),
            slots: header.queue_slots.load(Ordering::Relaxed),
        };
        let slots_fit = geometry.slots.is_power_of_two() && QUEUE_SLOTS.contains(&geometry.slots);
        let ranks_fit = (1..=RANKS_MAX).contains(&geometry.ranks);
        let pool_bytes = header.pool_bytes.load(Ordering::Relaxed) as usize;
        let bytes = || {
            let pools = pool_bytes.checked_mul(geometry.ranks as usize)?;
            pools.checked_add(segment_bytes(&geometry))
        };
        if !ranks_fit
            || !slots_fit
            || header.net().is_none()
            || bytes().is_none_or(|bytes| segment.len() < bytes)
        {
            return Err(JobError::Foreign("inconsistent header"));
        }
        let eager = header.eager_bytes.load(Ordering::Relaxed) as usize;
        let eager_bytes = eager.min(geometry.message_bytes_max());
        // SAFETY: the segment, which the job keeps, is long enough for both, which are made of atomics.
        let group = unsafe {
            let controls = segment.as_ptr().add(HEADER_BYTES).cast::<RankControl>();
            Group::new(&raw const header.group, controls, geometry.ranks)
        };
        Ok(Job {
            group,
            segment,
            geometry,
            areas_offset: areas_offset(&geometry),
            area_bytes: area_bytes(&geometry),
            eager_bytes,
            pool_bytes,
            decisions: OnceLock::new(),
        })
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
    pub fn pool(&self, rank: Rank) -> (&Segment, std::ops::Range<usize>) {
        assert!(rank.0 < self.geometry.ranks, "rank {rank} is outside the job");
        let start = segment_bytes(&self.geometry) + rank.index() * self.pool_bytes;
        (&self.segment, start..start + self.pool_bytes)
    }

    /// What carries messages.
    pub fn net(&self) -> Net {
        self.header().net().expect("it was checked when the segment was mapped")
    }

    /// Whether some ranks talk over a network.
    pub fn is_networked(&self) -> bool {
        self.header().is_networked.load(Ordering::Relaxed) != 0
    }

    /// On which host a rank is; all are on host 0 where nobody has said.
    pub fn host_of(&self, rank: Rank) -> u32 {
        self.net_words(rank)[1].load(Ordering::Relaxed) as u32
    }

    /// In which isolation domain of its host a rank is, from 1; `None`: in none.
    pub fn domain_of(&self, rank: Rank) -> Option<u32> {
        let domain = (self.net_words(rank)[1].load(Ordering::Relaxed) >> 32) as u32;
        (domain > 0).then_some(domain)
    }

    /// What people call the host of a rank, if it has a name; long names are cut.
    pub fn host_name(&self, rank: Rank) -> Option<String> {
        let words = &self.net_words(rank)[2 + NET_ADDRESS_BYTES_MAX / 8..][..HOST_NAME_BYTES_MAX / 8];
        let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        (!name.is_empty()).then(|| String::from_utf8_lossy(&name).into_owned())
    }

    /// Whether ranks talk through shared memory.
    pub fn share_memory(&self, one: Rank, other: Rank) -> bool {
        let is_shared = self.header().is_shared.load(Ordering::Relaxed) != 0;
        is_shared && (!self.is_networked() || self.host_of(one) == self.host_of(other))
    }

    /// Whether some ranks are on other hosts than others.
    pub fn has_hosts(&self) -> bool {
        (1..self.ranks()).any(|rank| self.host_of(Rank(rank)) != self.host_of(Rank(0)))
    }

    /// What the ranks of a job over a network prove to each other that they know.
    pub fn secret(&self) -> Secret {
        Secret::filled(|place| {
            for (bytes, word) in place.chunks_exact_mut(8).zip(&self.header().secret) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
        })
    }

    /// Says where `rank` is found in the network; its own process does, once.
    ///
    /// # Panics
    /// If the address is longer than [`NET_ADDRESS_BYTES_MAX`], or empty.
    pub fn publish_net_address(&self, rank: Rank, address: &[u8]) {
        assert!((1..=NET_ADDRESS_BYTES_MAX).contains(&address.len()), "an address of a few bytes");
        let [length, _, words @ ..] = self.net_words(rank);
        write_bytes(words, address);
        // Who reads the length finds the rest.
        length.store(address.len() as u64, Ordering::Release);
    }

    /// Where `rank` is found, once its process has said so.
    pub fn net_address(&self, rank: Rank) -> Option<Box<[u8]>> {
        let [length, _, words @ ..] = self.net_words(rank);
        let bytes = length.load(Ordering::Acquire) as usize;
        let all = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        (bytes > 0).then(|| all.take(bytes).collect())
    }

    /// By which of its cards a rank reaches each of the first others, a byte for each.
    pub(crate) fn net_ways(&self, rank: Rank) -> &[AtomicU64] {
        &self.net_words(rank)[NET_ADDRESS_WORDS - NET_WAYS / 8..]
    }

    /// The length of a rank's address, its host and domain, the address, the host's name, and by which cards it reaches others.
    fn net_words(&self, rank: Rank) -> &[AtomicU64; NET_ADDRESS_WORDS] {
        assert!(rank.0 < self.geometry.ranks, "rank {rank} is outside the job");
        let offset = net_addresses_offset(&self.geometry) + rank.index() * NET_ADDRESS_BYTES;
        // SAFETY: checked against the segment's length at attach; these are atomics, from a multiple of 64 bytes on.
        unsafe { &*self.segment.as_ptr().add(offset).cast::<[AtomicU64; NET_ADDRESS_WORDS]>() }
    }

    /// Shape of the receive queues.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Largest message that is sent eagerly. Bytes.
    pub fn eager_bytes(&self) -> usize {
        self.eager_bytes
    }

    /// Whether pairs that a schedule names get rings.
    pub fn has_rings(&self) -> bool {
        self.header().rings.load(Ordering::Relaxed) != 0
    }

    /// Whether large messages may go through pipes.
    pub fn has_pipes(&self) -> bool {
        self.header().pipes.load(Ordering::Relaxed) != 0
    }

    /// Whether runs are put where peers can carry them on.
    pub fn peers_carry(&self) -> bool {
        match self.header().progress.load(Ordering::Relaxed) {
            0 => self.is_complete() && self.is_oversubscribed(),
            progress => progress == Progress::Peers as u32,
        }
    }

    /// Whether what [`Job::peers_carry`] says stays so.
    pub fn progress_is_settled(&self) -> bool {
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

    /// What all ranks choose by: the tuning file that was found where the group was made, and behind it the built-in
    /// choices. Where the file was refused, a process that `speaks` says why when it asks first.
    pub fn decisions(&self, speaks: bool) -> &Decisions {
        self.decisions.get_or_init(|| {
            // SAFETY: it was written before the segment was handed on, and never again.
            let announced = unsafe { announced::read(self.tuning()) };
            announced.decisions().unwrap_or_else(|reason| {
                if speaks {
                    castell_host::say(&reason);
                }
                Decisions::builtin()
            })
        })
    }

    /// Where the tuning is announced.
    fn tuning(&self) -> *mut u8 {
        let offset = tuning_offset(&self.geometry);
        // SAFETY: checked against the segment's length at attach, or just made.
        unsafe { self.segment.as_ptr().add(offset) }
    }

    /// Start of `rank`'s ring pool.
    pub fn ring_pool(&self, rank: Rank) -> *mut u8 {
        self.area(rank)
    }

    /// Start of `rank`'s receive queue.
    pub fn queue(&self, rank: Rank) -> *mut u8 {
        // SAFETY: inside the rank's area, which was checked against the segment's length.
        unsafe { self.area(rank).add(RINGS_BYTES) }
    }

    /// `rank`'s rendezvous descriptors, used by it as a sender.
    #[inline]
    pub fn descriptors(&self, rank: Rank) -> &[Descriptor; DESCRIPTORS] {
        let offset = self.area_bytes - PIPES * PIPE_BYTES as usize - AREA_BYTES - DESCRIPTORS_BYTES;
        // SAFETY: inside the rank's area; descriptors are made of atomics and 64-byte aligned like the area.
        unsafe { &*self.area(rank).add(offset).cast::<[Descriptor; DESCRIPTORS]>() }
    }

    /// The offsets of `rank`'s blocks in its area of runs; 0: none.
    pub fn blocks(&self, rank: Rank) -> &[AtomicU32; BLOCKS] {
        // SAFETY: the area of runs starts with the table, which is made of atomics.
        unsafe { &*self.runs(rank).cast() }
    }

    /// How many numbered runs of `rank` go on that are in no block.
    pub fn unlisted(&self, rank: Rank) -> &AtomicU32 {
        // SAFETY: behind the table, in front of the first block.
        unsafe { &*self.runs(rank).add(size_of::<[AtomicU32; BLOCKS]>()).cast() }
    }

    /// Start of `rank`'s area of runs.
    pub fn runs(&self, rank: Rank) -> *mut u8 {
        let offset = self.area_bytes - PIPES * PIPE_BYTES as usize - AREA_BYTES;
        // SAFETY: inside the rank's area, which was checked against the segment's length.
        unsafe { self.area(rank).add(offset) }
    }

    /// One of `rank`'s pipes, filled by it as a sender.
    pub fn pipe(&self, rank: Rank, pipe: usize) -> *mut u8 {
        assert!(pipe < PIPES, "a rank has {PIPES} pipes");
        let offset = self.area_bytes - (PIPES - pipe) * PIPE_BYTES as usize;
        // SAFETY: inside the rank's area, which was checked against the segment's length.
        unsafe { self.area(rank).add(offset) }
    }

    /// What `rank` has called.
    pub fn board(&self, rank: Rank) -> &[Entry; ENTRIES] {
        assert!(rank.0 < self.geometry.ranks, "rank {rank} is outside the job");
        let offset = boards_offset(&self.geometry) + rank.index() * BOARD_BYTES;
        // SAFETY: checked against the segment's length at attach; boards are made of atomics, from a page's start on.
        unsafe { &*self.segment.as_ptr().add(offset).cast::<[Entry; ENTRIES]>() }
    }

    /// Whether calls of this context go through slots where they can.
    pub fn has_slots(&self, context: u32) -> bool {
        context < crate::slot::CONTEXTS && self.has_rings() && !Slots::new(self.ranks()).is_empty()
    }

    /// A message's place in the first generation, and how far its line is from that of the next one. Bytes.
    pub fn slot(&self, set: SlotSet, receiver: Rank, sender: Rank, place: usize) -> (Line, usize) {
        let at = Slots::new(self.ranks()).place(set, receiver.index(), sender.index(), place);
        // SAFETY: both lie in the slots, which the segment has been checked to hold; the engine keeps to the protocol.
        let line = unsafe { Line::new(self.slots_at(at.line), self.slots_at(at.page)) };
        (line, at.next_line)
    }

    /// Where a rank's large messages of a context's calls with slots lie.
    pub fn bounce(&self, context: u32, sender: Rank, bounce: usize) -> *mut u8 {
        self.slots_at(Slots::new(self.ranks()).bounce(context, sender.index(), bounce))
    }

    /// How far a rank has come in the calls of a set of slots.
    pub fn consumer_index(&self, set: SlotSet, rank: Rank) -> ConsumerIndex {
        // SAFETY: it lies in the slots; the engine writes to its own rank's only, in the set's lock.
        unsafe {
            ConsumerIndex::new(self.slots_at(Slots::new(self.ranks()).consumer_index(set, rank.index())))
        }
    }

    /// What a rank has called with slots.
    pub fn call_log(&self, set: SlotSet, rank: Rank) -> Log {
        // SAFETY: as above.
        unsafe { Log::new(self.slots_at(Slots::new(self.ranks()).log(set, rank.index()))) }
    }

    /// How far into the segment a word of it lies. Bytes.
    pub fn offset_of(&self, word: &AtomicU64) -> u64 {
        (word.as_ptr().addr() - self.segment.as_ptr().addr()) as u64
    }

    /// The word that lies so far into the segment, if one does.
    pub fn word_at(&self, offset: u64) -> Option<&AtomicU64> {
        let fits = offset.is_multiple_of(8) && offset < self.segment.len() as u64;
        // SAFETY: the segment is mapped and has a whole number of words; all that is asked for this way is made of atomics.
        fits.then(|| unsafe { &*self.segment.as_ptr().add(offset as usize).cast() })
    }

    fn slots_at(&self, offset: usize) -> *mut u8 {
        // SAFETY: checked against the segment's length at attach.
        unsafe { self.segment.as_ptr().add(slots_offset(&self.geometry) + offset) }
    }

    #[inline]
    fn area(&self, rank: Rank) -> *mut u8 {
        assert!(rank.0 < self.geometry.ranks, "rank {rank} is outside the job");
        let offset = self.areas_offset + rank.index() * self.area_bytes;
        // SAFETY: checked against the segment's length at attach.
        unsafe { self.segment.as_ptr().add(offset) }
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the segment is mapped, page aligned and longer than the header, which is made of atomics.
        unsafe { &*self.segment.as_ptr().cast::<Header>() }
    }
}

fn write_bytes(words: &[AtomicU64], all: &[u8]) {
    for (word, bytes) in words.iter().zip(all.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_found_again_through_its_file() {
        let job = Job::create(&JobOptions::new(3)).expect("a small job");
        job.join(Rank(2), 77, 5, &[0]).expect("nobody has it");
        assert!(job.is_oversubscribed() && !job.is_complete());
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
    fn ranks_find_each_other_over_a_network() {
        let net: Net = "tcp+tls=eth0".parse().expect("a network");
        let job = Job::create(&JobOptions { net, ..JobOptions::new(2) }).expect("a small job");
        assert!(
            !job.has_pipes() && !job.has_slots(0) && !job.peers_carry(),
            "nothing goes through shared memory"
        );
        let address: Vec<u8> = (0..NET_ADDRESS_BYTES_MAX as u8).collect();
        job.publish_net_address(Rank(1), &address);
        let other = Job::attach(job.fd().try_clone_to_owned().expect("a descriptor")).expect("the same job");
        assert_eq!(other.net_address(Rank(0)), None);
        assert_eq!(other.net_address(Rank(1)).as_deref(), Some(&address[..]));
        assert_eq!((other.net(), other.secret()), (net, job.secret()));
        let another = Job::create(&JobOptions { net, ..JobOptions::new(2) }).expect("a small job");
        assert_ne!(another.secret(), job.secret());
    }

    #[test]
    fn ranks_of_several_hosts() {
        let secret = Secret::new([7; 32]);
        let hosts = vec![1, 1, 2, 1];
        let options =
            JobOptions { hosts, here: 2, secret: Some(secret), processors: 6, ..JobOptions::new(4) };
        let job = Job::create(&options).expect("a small job");
        assert!(job.is_networked() && job.has_hosts() && !job.peers_carry());
        assert!(job.share_memory(Rank(0), Rank(3)) && !job.share_memory(Rank(1), Rank(2)));
        assert_eq!((job.secret(), job.processors()), (Secret::new([7; 32]), 6));
        job.join(Rank(2), 77, 5, &[0]).expect("nobody has it");
        assert!(!job.is_oversubscribed() && !job.is_complete(), "one rank is here, on one processor");
        for rank in [0, 1, 3].map(Rank) {
            job.publish_net_address(rank, &[1; NET_ADDRESS_BYTES_MAX]);
            job.note_joined_elsewhere(rank);
            job.note_joined_elsewhere(rank);
            assert_eq!(job.host_of(rank), 1, "it stays");
        }
        assert!(job.is_complete());
        assert!(!format!("{options:?}").contains('7'), "no secret is shown");
        let few = Job::create(&JobOptions { hosts: vec![1], ..JobOptions::new(2) });
        assert!(matches!(few, Err(JobError::Option(_))));
        let one = Job::create(&JobOptions { hosts: vec![3, 3], here: 3, ..JobOptions::new(2) });
        assert!(!one.expect("a small job").is_networked(), "one host needs no network");
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
