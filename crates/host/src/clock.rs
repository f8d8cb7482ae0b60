//! One clock for all processes of a host.

use std::os::unix::thread::JoinHandleExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

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

/// Time for which another thread has had a processor, in nanoseconds; none once it has ended. To the moment, also while it runs.
pub fn cpu_ns_of<T>(thread: &JoinHandle<T>) -> Option<u64> {
    let (mut clock, mut used) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: a thread that was not joined has a number that is its own, and both results are live. A thread that has ended has no clock,
    // which is an error of either call.
    let known = unsafe {
        libc::pthread_getcpuclockid(thread.as_pthread_t(), &mut clock) == 0
            && libc::clock_gettime(clock, &mut used) == 0
    };
    known.then(|| used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64)
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

    #[test]
    fn another_thread_is_seen_to_work_and_to_sleep() {
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let (working, works) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            while woken.try_recv().is_err() {
                std::hint::black_box(());
            }
            drop(working);
            let _ = woken.recv();
        });
        let of = || cpu_ns_of(&thread).expect("it lives");
        let first = of();
        while of() == first {
            std::thread::yield_now();
        }
        wake.send(()).expect("it listens");
        let _ = works.recv();
        // It is about to wait, and then does so.
        let mut last = of();
        loop {
            std::thread::sleep(std::time::Duration::from_millis(10));
            match of() {
                now if now == last => break,
                now => last = now,
            }
        }
        drop(wake);
        while !thread.is_finished() {
            std::thread::yield_now();
        }
        thread.join().expect("it ends");
    }
}
