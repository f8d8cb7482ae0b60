//! A probe: accesses to memory with known reuse distances, as fast as they go (Weidendorfer and Breitbart, COSH 2016: DistGen).
//!
//! [`Pattern`] says what is touched, a [`Probe`] is threads that do it, which can be stopped and go on. [`meet`] measures what it and a
//! program that runs anyway do to each other.

mod meeting;
mod pattern;

pub use meeting::{Meeting, Met, Still, meet};
pub use pattern::{BLOCK_BYTES, Dependence, Distance, Order, Pattern, PatternError, parse_size};

use castell_base::sync::{AtomicU32, AtomicU64, Ordering};
use castell_host::{clock, futex, topology};
use pattern::Walker;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const GO: u32 = 0;
const PAUSE: u32 = 1;
const END: u32 = 2;
/// The kind of sleeper on the words here; there is only one.
const BITS: u32 = 1;
/// How long a thread that should stop is waited for before its word is looked at again.
const PATIENCE: Duration = Duration::from_millis(100);

/// Why there is no probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Memory.
    #[error("there is no memory of {0} bytes for the probe")]
    Memory(u64),
    /// A thread.
    #[error("the probe's threads cannot be started: {0}")]
    Thread(std::io::Error),
    /// Processors.
    #[error(transparent)]
    Host(#[from] castell_host::HostError),
}

/// What the threads and who started them share. Each word is written by one side: `command` by the starter, the others by threads.
struct Shared {
    command: AtomicU32,
    /// Threads that are ready, then threads that do not touch memory now.
    ready: AtomicU32,
    resting: AtomicU32,
    /// Threads that have ended.
    ended: AtomicU32,
    /// A counter each, so far apart that none disturbs another.
    touched: Vec<Counter>,
    rounds_max: Option<u64>,
}

#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicU64);

/// Threads that touch memory.
pub struct Probe {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Probe {
    /// Starts the threads, at rest, each bound to one of the processors in turn (none: not bound). They end by themselves after so many
    /// sweeps over the largest working set, if that is given.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub fn start(pattern: &Pattern, cpus: &[u32], rounds_max: Option<u64>) -> Result<Probe, ProbeError> {
        let shared = Arc::new(Shared {
            command: AtomicU32::new(PAUSE),
            ready: AtomicU32::new(0),
            resting: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            touched: (0..pattern.threads).map(|_| Counter::default()).collect(),
            rounds_max,
        });
        let mut probe = Probe { shared, threads: Vec::new() };
        for number in 0..pattern.threads {
            let shared = Arc::clone(&probe.shared);
            let (pattern, cpu) = (pattern.clone(), cpus.get(number % cpus.len().max(1)).copied());
            let thread = std::thread::Builder::new().name(format!("probe {number}"));
            let thread =
                thread.spawn(move || run(&shared, &pattern, number, cpu)).map_err(ProbeError::Thread)?;
            probe.threads.push(thread);
        }
        let threads = pattern.threads as u32;
        wait_for(&probe.shared.ready, |ready| ready & COUNT == threads);
        // Acquire: pairs with the threads' Release when they are ready.
        if probe.shared.ready.load(Ordering::Acquire) & NO_MEMORY != 0 {
            return Err(ProbeError::Memory(pattern.bytes()));
        }
        Ok(probe)
    }

    /// Lets the threads go on.
    pub fn go(&self) {
        self.command(GO);
    }

    /// Stops the threads; returns once none touches memory any more.
    pub fn pause(&self) {
        self.command(PAUSE);
        let threads = self.threads.len() as u32;
        wait_for(&self.shared.resting, |resting| resting == threads);
    }

    /// Bytes that have been touched.
    pub fn bytes(&self) -> u64 {
        // Relaxed: a count that nothing hangs on.
        let blocks: u64 = self.shared.touched.iter().map(|count| count.0.load(Ordering::Relaxed)).sum();
        blocks * BLOCK_BYTES
    }

    /// Nanoseconds for which its threads have had processors, those that have ended left out.
    pub fn cpu_ns(&self) -> u64 {
        self.threads.iter().filter_map(clock::cpu_ns_of).sum()
    }

    /// Whether all threads have done their rounds.
    pub fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire) as usize == self.threads.len()
    }

    /// Waits until all threads have done their rounds, or for so long; says whether they have.
    pub fn wait(&self, longest: Duration) -> bool {
        let ended = self.shared.ended.load(Ordering::Acquire);
        if (ended as usize) < self.threads.len() {
            futex::wait(&self.shared.ended, ended, BITS, Some(longest));
        }
        self.has_ended()
    }

    fn command(&self, command: u32) {
        // Release: pairs with the threads' Acquire.
        self.shared.command.store(command, Ordering::Release);
        futex::wake(&self.shared.command, i32::MAX, BITS);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.command(END);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// In `ready`: the number of threads, and whether one got no memory.
const COUNT: u32 = 0xffff;
const NO_MEMORY: u32 = 1 << 16;

fn wait_for(word: &AtomicU32, is_it: impl Fn(u32) -> bool) {
    loop {
        let now = word.load(Ordering::Acquire);
        if is_it(now) {
            return;
        }
        futex::wait(word, now, BITS, Some(PATIENCE));
    }
}

fn run(shared: &Shared, pattern: &Pattern, number: usize, cpu: Option<u32>) {
    if let Some(cpu) = cpu {
        // Not being bound is slower, not wrong.
        let _ = topology::bind_thread(&[cpu]);
    }
    let walker = Walker::new(pattern);
    let add = |word: &AtomicU32, what: u32| {
        // Release: what this thread did before is seen by whoever sees the sum.
        word.fetch_add(what, Ordering::Release);
        futex::wake(word, i32::MAX, BITS);
    };
    add(&shared.ready, if walker.is_some() { 1 } else { 1 | NO_MEMORY });
    add(&shared.resting, 1);
    let mut sum = 0;
    let mut walker = walker;
    loop {
        match shared.command.load(Ordering::Acquire) {
            GO => {}
            PAUSE => {
                futex::wait(&shared.command, PAUSE, BITS, Some(PATIENCE));
                continue;
            }
            _ => break,
        }
        let Some(walker) =
            walker.as_mut().filter(|walker| shared.rounds_max.is_none_or(|most| walker.rounds < most))
        else {
            break;
        };
        shared.resting.fetch_sub(1, Ordering::AcqRel);
        while shared.command.load(Ordering::Acquire) == GO
            && shared.rounds_max.is_none_or(|most| walker.rounds < most)
        {
            let touched = walker.step(&mut sum);
            // Relaxed: a count that nothing hangs on.
            shared.touched[number].0.fetch_add(touched as u64, Ordering::Relaxed);
        }
        add(&shared.resting, 1);
    }
    std::hint::black_box(sum);
    add(&shared.ended, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(threads: usize) -> Pattern {
        let distances = vec![Distance { bytes: 1 << 16, share: 1.0 }];
        Pattern::new(distances, Order::Stream, Dependence::Independent, threads).expect("a pattern")
    }

    #[test]
    fn a_probe_rests_when_it_is_told_to_and_goes_on() {
        let probe = Probe::start(&pattern(2), &[], None).expect("a probe");
        assert_eq!(probe.bytes(), 0);
        for _ in 0..5 {
            let before = probe.bytes();
            probe.go();
            while probe.bytes() == before {
                std::thread::yield_now();
            }
            probe.pause();
            let rest = probe.bytes();
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(probe.bytes(), rest, "it rests");
        }
    }

    #[test]
    fn a_probe_does_as_many_rounds_as_it_should() {
        let probe = Probe::start(&pattern(4), &[], Some(10)).expect("a probe");
        probe.go();
        while !probe.wait(Duration::from_millis(10)) {}
        assert_eq!(probe.bytes(), 10 << 16);
        probe.pause();
    }
}
