//! Interrupts the threads of this process at random places, so that what others do comes between any two of their steps.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How long the next thread that is interrupted stands still. Microseconds.
static PAUSE_US: AtomicU32 = AtomicU32::new(0);

/// What interrupts are counted in: a page that forked processes share.
pub fn shared_count() -> &'static AtomicU64 {
    // SAFETY: a new page of zeros that is never given back.
    unsafe {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), 4096, rights, kind, -1, 0);
        assert_ne!(page, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        &*page.cast::<AtomicU64>()
    }
}

/// One that is not queued, and that does nothing where it has no handler.
const SIGNAL: i32 = libc::SIGURG;

extern "C" fn stand_still(_: i32) {
    let nanoseconds = i64::from(PAUSE_US.load(Ordering::Relaxed)) * 1000;
    let pause = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    // SAFETY: both may be called in a handler; the thread's errno is as before.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::nanosleep(&raw const pause, std::ptr::null_mut());
        *errno = before;
    }
}

/// From now on until the process ends: again and again one of its threads is stopped where it is, for a while.
/// `kills`: one time it is killed instead, within so many interrupts.
pub fn begin(seed: u64, count: &'static AtomicU64, kills: Option<u32>) {
    // SAFETY: the handler keeps to what handlers may do, see there.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stand_still as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()), 0);
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let last = kills.map(|within| random.random_range(0..within));
    std::thread::spawn(move || {
        for interrupt in 0.. {
            // By powers of two: most places are reached soon, and sometimes the others do very much meanwhile.
            let micros = |random: &mut ChaCha8Rng, powers: u32| {
                let power = 1 << random.random_range(0..powers);
                random.random_range(power..2 * power)
            };
            std::thread::sleep(Duration::from_micros(micros(&mut random, 8)));
            let pause = micros(&mut random, 10);
            PAUSE_US.store(pause as u32, Ordering::Relaxed);
            if last == Some(interrupt) {
                // SAFETY: no arguments but a signal.
                unsafe { libc::raise(libc::SIGKILL) };
            }
            if stop_one(&mut random) {
                count.fetch_add(1, Ordering::Relaxed);
                // Until it goes on, so that all do at times.
                std::thread::sleep(Duration::from_micros(pause));
            }
        }
    });
}

/// Interrupts some thread but this one.
fn stop_one(random: &mut ChaCha8Rng) -> bool {
    // SAFETY: no arguments.
    let me = unsafe { libc::gettid() };
    let entries = std::fs::read_dir("/proc/self/task").expect("/proc").flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others: Vec<i32> = all.filter(|thread| *thread != me).collect();
    if others.is_empty() {
        return false;
    }
    let thread = others[random.random_range(0..others.len())];
    // SAFETY: integers; it has a handler. A thread that has just ended is an error that does not matter.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) == 0 }
}
