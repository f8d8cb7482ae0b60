//! Barriers and sleeping as the scheduler needs them, and what stands for them under loom, which knows no kernel.

use castell_base::sync::AtomicU32;

#[cfg(not(loom))]
pub(super) use castell_host::barrier::{heavy, light};

/// Sleeps while `word` holds `expected`, until woken; may return early.
#[cfg(not(loom))]
pub(super) fn sleep(word: &AtomicU32, expected: u32) {
    castell_host::futex::wait(word, expected, u32::MAX, None);
}

/// [`sleep`], no longer than `timeout`.
#[cfg(not(loom))]
pub(super) fn sleep_for(word: &AtomicU32, expected: u32, timeout: Option<std::time::Duration>) {
    castell_host::futex::wait(word, expected, u32::MAX, timeout);
}

/// Wakes who sleeps on `word`.
#[cfg(not(loom))]
pub(super) fn wake(word: &AtomicU32) {
    castell_host::futex::wake(word, i32::MAX, u32::MAX);
}

/// Both sides pay.
#[cfg(loom)]
pub(super) fn light() {
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

#[cfg(loom)]
pub(super) use light as heavy;

#[cfg(loom)]
loom::lazy_static! {
    /// What a futex does: compare and fall asleep in one step. One bed for all words.
    static ref BED: (loom::sync::Mutex<()>, loom::sync::Condvar) =
        (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
}

#[cfg(loom)]
pub(super) fn sleep(word: &AtomicU32, expected: u32) {
    let bed = BED.0.lock().expect("no thread panicked");
    if word.load(loom::sync::atomic::Ordering::Acquire) == expected {
        drop(BED.1.wait(bed));
    }
}

#[cfg(loom)]
pub(super) fn sleep_for(word: &AtomicU32, expected: u32, _timeout: Option<std::time::Duration>) {
    sleep(word, expected);
}

#[cfg(loom)]
pub(super) fn wake(_word: &AtomicU32) {
    let _bed = BED.0.lock().expect("no thread panicked");
    BED.1.notify_all();
}

/// Lets other threads run: one of them is between two instructions and has lost its processor.
pub(super) fn give_way() {
    #[cfg(not(loom))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Lets a barrier of the heavy kind happen only so often, whoever wants it: each interrupts all workers, and they are carried out one after
/// the other.
pub(super) struct Rarely {
    last_ns: castell_base::sync::AtomicU64,
}

impl Rarely {
    /// So that interrupts take a small part of the time, however many want them.
    #[cfg(not(loom))]
    const EVERY_NS: u64 = 20_000;

    pub(super) fn new() -> Rarely {
        Rarely { last_ns: castell_base::sync::AtomicU64::new(0) }
    }

    /// Whether it is time; then the caller is the one who may.
    #[cfg(not(loom))]
    pub(super) fn is_time(&self) -> bool {
        use castell_base::sync::Ordering::Relaxed;
        let (now, last) = (castell_host::clock::now_ns(), self.last_ns.load(Relaxed));
        now.saturating_sub(last) >= Rarely::EVERY_NS
            && self.last_ns.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
    }

    #[cfg(loom)]
    pub(super) fn is_time(&self) -> bool {
        self.last_ns.load(castell_base::sync::Ordering::Relaxed) == 0
    }
}
