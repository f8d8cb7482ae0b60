//! One clock for all processes of a host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds of the system's monotonic clock; the same in every process of this host, and never set back.
///
/// Goes through the kernel's shared page without a system call: about 25 ns on the processors we measured. It has no
/// relation to the time of day.
#[inline]
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live timespec that the call fills; CLOCK_MONOTONIC exists on every Linux, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Where times come from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The host's.
    #[default]
    Host,
    /// A test's: nanoseconds. Nobody is woken by it.
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// The time, nanoseconds.
    pub fn now(&self) -> u64 {
        match self {
            Clock::Host => now_ns(),
            Clock::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }
}

/// Time for which the calling thread has had a processor, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above; every Linux has this clock, too.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut used) };
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// [`now_ns`] in seconds: what a graph's `wtime` writes.
#[inline]
pub fn now_seconds() -> f64 {
    now_ns() as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_forward() {
        let first = now_ns();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let second = now_ns();
        assert!(second >= first + 2_000_000, "{first} {second}");
        assert!(now_seconds() >= second as f64 * 1e-9);
    }

    #[test]
    fn who_sleeps_uses_no_processor() {
        let first = thread_cpu_ns();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let slept = thread_cpu_ns() - first;
        let mut sum = 0_u64;
        while sum < 1000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(slept < 20_000_000 && thread_cpu_ns() > first + slept, "{slept}");
    }
}
