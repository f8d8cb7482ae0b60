//! Sleeping on a word of (possibly shared) memory until somebody changes it.
//!
//! Waits and wakes carry a set of bits: a wake reaches only the sleepers that share a bit with it, so two kinds of
//! sleepers can use one word. All calls work between processes.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Why [`wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Woken, interrupted by a signal, or the word had changed already: look at the word again.
    Maybe,
    /// The time was up.
    TimedOut,
}

/// Sleeps while `word` holds `expected`, until a [`wake`] with a common bit or until `timeout`.
pub fn wait(word: &AtomicU32, expected: u32, bits: u32, timeout: Option<Duration>) -> Woken {
    // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time.
    let deadline = timeout.map(|timeout| {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let ns = now.tv_nsec as u64 + u64::from(timeout.subsec_nanos());
        let seconds = now.tv_sec + timeout.as_secs() as i64 + (ns / 1_000_000_000) as i64;
        libc::timespec { tv_sec: seconds, tv_nsec: (ns % 1_000_000_000) as i64 }
    });
    let deadline = deadline.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a live 32-bit word, the deadline is null or a live timespec; the kernel only reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET,
            expected,
            deadline,
            std::ptr::null::<u32>(),
            bits,
        )
    };
    if result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT) {
        return Woken::TimedOut;
    }
    Woken::Maybe
}

/// Wakes up to `count` sleepers on `word` that share a bit with `bits`; says how many.
pub fn wake(word: &AtomicU32, count: i32, bits: u32) -> usize {
    // SAFETY: `word` is a live 32-bit word; the kernel uses its address only as a key.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE_BITSET,
            count,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            bits,
        )
    };
    result.max(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn times_out_and_sees_changes() {
        let word = AtomicU32::new(7);
        assert_eq!(wait(&word, 7, 1, Some(Duration::from_millis(5))), Woken::TimedOut);
        assert_eq!(wait(&word, 8, 1, None), Woken::Maybe);
    }

    #[test]
    fn wakes_only_its_kind() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while word.load(Ordering::SeqCst) == 0 {
                    wait(&word, 0, 2, None);
                }
            });
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(wake(&word, 1, 1), 0);
            word.store(1, Ordering::SeqCst);
            wake(&word, 1, 2);
            sleeper.join().expect("the sleeper ends");
        });
    }
}
