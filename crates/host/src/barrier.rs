//! Memory barriers that cost one side next to nothing: whoever meets rarely pays for whoever meets often.
//!
//! Two threads that each write one word and then read the other's need a full barrier between write and read, both of
//! them. Where one of them does it millions of times a second and the other hardly ever, the first calls [`light`]
//! and the second [`heavy`], for which the kernel interrupts every processor that runs a thread of this process.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

const UNKNOWN: u8 = 0;
const KERNEL: u8 = 1;
const FENCES: u8 = 2;
/// Whether the kernel does the heavy part for this process.
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

const QUERY: libc::c_int = 0;
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Asks the kernel for its help (`membarrier`); true if it gives it. To be called before [`light`] is, once a process;
/// more calls do no harm. After a fork the child need not call it again.
pub fn prepare() -> bool {
    if MODE.load(Ordering::Acquire) == UNKNOWN {
        let known = membarrier(QUERY);
        let helps = known >= 0
            && known & i64::from(PRIVATE_EXPEDITED) != 0
            && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0;
        MODE.store(if helps { KERNEL } else { FENCES }, Ordering::Release);
    }
    MODE.load(Ordering::Acquire) == KERNEL
}

/// The side that meets often: what it wrote before is visible to a thread that calls [`heavy`] later, or what that
/// thread wrote before is visible to what this one reads after.
#[inline]
pub fn light() {
    // Only the compiler has to keep the order if the kernel interrupts us; else, or before `prepare`, the processor too.
    if MODE.load(Ordering::Relaxed) == KERNEL {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The side that meets rarely. Costs about a microsecond.
pub fn heavy() {
    fence(Ordering::SeqCst);
    if MODE.load(Ordering::Relaxed) == KERNEL {
        let result = membarrier(PRIVATE_EXPEDITED);
        assert_eq!(result, 0, "membarrier fails after it was registered");
    }
}

fn membarrier(command: libc::c_int) -> i64 {
    // Miri is a kernel that does not help.
    if cfg!(miri) {
        return -1;
    }
    // SAFETY: three integers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn one_of_two_sees_the_other() {
        prepare();
        let (here, there, start) = (&AtomicU32::new(0), &AtomicU32::new(0), &Barrier::new(2));
        for round in 1..2_000 {
            let (often, rarely) = std::thread::scope(|scope| {
                let often = scope.spawn(move || {
                    start.wait();
                    here.store(round, Ordering::Relaxed);
                    light();
                    there.load(Ordering::Relaxed)
                });
                start.wait();
                there.store(round, Ordering::Relaxed);
                heavy();
                let rarely = here.load(Ordering::Relaxed);
                (often.join().expect("the thread ends"), rarely)
            });
            assert!(often == round || rarely == round, "round {round}: {often} {rarely}");
        }
    }
}
