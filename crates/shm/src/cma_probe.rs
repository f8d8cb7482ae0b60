//! Whether the kernel lets the ranks of a job read each other's memory, and whether that is worth while.
//!
//! Each rank tells where in its memory a number lies that nobody else has, and tries to read those of the others. It tells whom it has
//! tried and whom it could read; both only grow, so that all who have waited until some ranks have tried all of
//! them come to the same verdict. Containers, other users, other namespaces of process ids and security modules make it
//! fail: an error, or another number.
//!
//! The kernel copies page by page. How dear that is differs a lot from machine to machine, so each rank measures it once, in its own
//! memory; what the one that finds it dearest found counts for all.

use crate::group::Group;
use castell_base::Rank;
use castell_host::memory;
use castell_host::process::Pid;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is measured: as many bytes, the fastest of so many times.
const MEASURED_BYTES: usize = 256 << 10;
const TIMES: usize = 5;
/// What a copy by the kernel may take, in copies by the processor alone, where ranks copy as much either way: it saves one of two, and
/// the sender's cache lines do not move twice.
pub const WORTH: u32 = 3;

/// When large blocking calls read their data out of the senders' own buffers, where the kernel permits that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reads {
    /// Where each rank finds, when it makes the first call that could, that the kernel copies fast.
    #[default]
    Auto,
    /// In all calls that can.
    Always,
}

/// A rank's part of the verdict, in its control block. Ranks above the 64th have none.
#[repr(C)]
pub struct CmaProbe {
    /// Where this process's number lies.
    address: AtomicU64,
    /// The number.
    number: AtomicU64,
    /// Whom it has tried to read, a bit a rank.
    tried: AtomicU64,
    /// Whom it could read.
    could: AtomicU64,
    /// How long a copy by the kernel takes, in copies by the processor alone, rounded up; 0: it was not asked.
    dearness: AtomicU32,
}

/// This process's number.
fn own_number() -> &'static u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    NUMBER.get_or_init(|| {
        let pid = u64::from(Pid::current().raw().unsigned_abs());
        // In containers processes may have the same number, and begin at the same time.
        let drawn = RandomState::new().build_hasher().finish();
        drawn ^ castell_host::clock::now_ns().rotate_left(24) ^ (pid << 1 | 1)
    })
}

/// A bit for each of these ranks.
pub fn mask_of(ranks: &[Rank]) -> u64 {
    ranks.iter().fold(0, |mask, rank| mask | 1 << rank.0)
}

impl CmaProbe {
    /// Tells where this process's number is, before the rank is seen to have joined.
    pub fn announce(&self) {
        let number = own_number();
        self.number.store(*number, Ordering::Relaxed);
        self.address.store(std::ptr::from_ref(number) as u64, Ordering::Relaxed);
    }

    /// Whether the rank has tried all of these.
    pub fn has_tried(&self, ranks: u64) -> bool {
        // Acquire: with whom it could was told before.
        self.tried.load(Ordering::Acquire) & ranks == ranks
    }

    /// Whether it could read all of these, once it has tried.
    pub fn could_read(&self, ranks: u64) -> bool {
        self.could.load(Ordering::Relaxed) & ranks == ranks
    }

    /// How long a copy by the kernel takes, in copies by the processor alone, once it has tried.
    fn dearness(&self) -> u32 {
        self.dearness.load(Ordering::Relaxed)
    }

    /// Whether it would rather not, once it has tried.
    pub fn declines(&self) -> bool {
        self.dearness() > WORTH
    }

    fn can_be_read(&self, pid: u32) -> bool {
        let Some(pid) = Pid::from_raw(pid as i32) else { return false };
        let mut found = [0; 8];
        let address = self.address.load(Ordering::Relaxed) as usize;
        let outcome = memory::read(pid, address, &mut found);
        outcome.is_ok() && u64::from_ne_bytes(found) == self.number.load(Ordering::Relaxed)
    }
}

/// How long a copy by the kernel takes here, in copies by the processor alone.
fn dearness() -> u32 {
    static DEARNESS: OnceLock<u32> = OnceLock::new();
    *DEARNESS.get_or_init(|| {
        let (source, mut target) = (vec![1_u8; MEASURED_BYTES], vec![0_u8; MEASURED_BYTES]);
        let (mut by_kernel, mut plain) = (Duration::MAX, Duration::MAX);
        for _ in 0..TIMES {
            let start = Instant::now();
            if memory::read(Pid::current(), source.as_ptr() as usize, &mut target).is_err() {
                return u32::MAX;
            }
            by_kernel = by_kernel.min(start.elapsed());
            let start = Instant::now();
            std::hint::black_box(&mut target).copy_from_slice(std::hint::black_box(&source));
            plain = plain.min(start.elapsed());
        }
        let times = by_kernel.as_nanos().div_ceil(plain.as_nanos().max(1));
        u32::try_from(times).unwrap_or(u32::MAX)
    })
}

/// Whether this process can read the memory of a rank, which has joined.
pub fn can_be_read(group: &Group, rank: Rank) -> bool {
    let control = group.control(rank);
    control.cma_probe.can_be_read(control.pid())
}

/// Tries to read these ranks, which have joined, and tells the others.
pub fn try_to_read(group: &Group, reads: Reads, me: Rank, ranks: &[Rank]) {
    let own = &group.control(me).cma_probe;
    let tried = own.tried.load(Ordering::Relaxed);
    let untried = || ranks.iter().filter(|rank| tried >> rank.0 & 1 == 0);
    let can = |rank: &&Rank| can_be_read(group, **rank);
    let could = untried().filter(can).fold(0, |mask, rank| mask | 1 << rank.0);
    own.could.fetch_or(could, Ordering::Relaxed);
    let dearness = match reads {
        Reads::Always => 0,
        Reads::Auto => dearness(),
    };
    own.dearness.store(dearness, Ordering::Relaxed);
    // Release: with whom it could was told before.
    own.tried.fetch_or(mask_of(ranks), Ordering::Release);
}

/// How long the dearest copy by the kernel of these ranks takes, in copies by the processor alone, once all have tried; `None`: one of
/// them cannot read all others.
pub fn all_read(group: &Group, ranks: &[Rank]) -> Option<u32> {
    let mask = mask_of(ranks);
    let probes = || ranks.iter().map(|rank| &group.control(*rank).cma_probe);
    let dearest = || probes().map(CmaProbe::dearness).max().unwrap_or(0);
    probes().all(|probe| probe.could_read(mask)).then(dearest)
}
