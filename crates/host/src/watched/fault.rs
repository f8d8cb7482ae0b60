//! The handlers: of faults in watched memory, and of the step behind them.
//!
//! They call only what may be called in a handler: system calls, atomics, the judge.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) use x86_64::install;

/// Nothing to install where nothing is watched.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(super) fn install() {}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod x86_64 {
    use super::super::rights;
    use super::super::{
        JUDGE, Judge, Ordering, STEPPED_MAX, Slot, THREAD, Thread, Verdict, page_bytes, slot_of,
    };
    use libc::{c_int, c_void, siginfo_t, ucontext_t};
    use std::cell::UnsafeCell;
    use std::mem::{MaybeUninit, transmute};

    /// Where the faulting instruction's flags say: run one instruction, then stop.
    const TRAP_FLAG: i64 = 1 << 8;
    /// In the fault's error code: it was a write.
    const WRITES: i64 = 1 << 1;
    /// Offsets in what the kernel keeps of the extended registers, and the number of the keys' rights there (Intel SDM 13.4).
    const SOFTWARE_BYTES_AT: usize = 464;
    const COMPONENTS_AT: usize = 512;
    const MAGIC: u32 = 0x4650_5853;
    const KEY_RIGHTS: u32 = 9;

    /// What handled the signals before.
    struct Before(UnsafeCell<[MaybeUninit<libc::sigaction>; 2]>);
    // SAFETY: written once, before a handler that reads it is installed.
    unsafe impl Sync for Before {}
    static BEFORE: Before = Before(UnsafeCell::new([const { MaybeUninit::uninit() }; 2]));
    const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGTRAP];

    pub(in super::super) fn install() {
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            let handler = if signal == libc::SIGSEGV { on_fault } else { on_step };
            // SAFETY: a handler with the signature that SA_SIGINFO asks for.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                let before = (*BEFORE.0.get())[index].as_mut_ptr();
                libc::sigaction(signal, std::ptr::null(), before);
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }

    /// Not ours: whoever handled the signal before does.
    unsafe fn pass_on(index: usize, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: written in `install`.
        let before = unsafe { (*BEFORE.0.get())[index].assume_init_ref() };
        match before.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                // SAFETY: puts the former action back; the instruction faults again.
                unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
            }
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: installed with this signature.
                let handler: unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    unsafe { transmute(handler) };
                // SAFETY: as the system calls it.
                unsafe { handler(signal, info, context) };
            }
            handler => {
                // SAFETY: installed with this signature.
                let handler: unsafe extern "C" fn(c_int) = unsafe { transmute(handler) };
                // SAFETY: as the system calls it.
                unsafe { handler(signal) };
            }
        }
    }

    unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: given by the system.
        let (address, machine) = unsafe { ((*info).si_addr() as usize, &mut *context.cast::<ucontext_t>()) };
        let Some((slot, page)) = slot_of(address) else {
            // SAFETY: as it came.
            return unsafe { pass_on(0, signal, info, context) };
        };
        let registers = &mut machine.uc_mcontext;
        let writes = registers.gregs[libc::REG_ERR as usize] & WRITES != 0;
        THREAD.with(|thread| {
            if thread.watched.get() {
                if judged(thread, slot, address, writes) {
                    return;
                }
                thread.close_around(page); // it may be open for reading only
            } else if rights::shared_key() >= 0 {
                // Nobody judges it: from now on it may use all.
                change_rights(registers, rights::with_all);
                return;
            }
            if rights::shared_key() >= 0 {
                change_rights(registers, rights::with_all);
            } else {
                rights::open_to_all(page, page_bytes());
                let count = thread.stepped_count.get() % STEPPED_MAX;
                thread.stepped[count].set(page);
                thread.stepped_count.set(count + 1);
            }
            thread.stepping.set(true);
            registers.gregs[libc::REG_EFL as usize] |= TRAP_FLAG;
        });
    }

    /// Whether the access may go on without being watched.
    fn judged(thread: &Thread, slot: &Slot, address: usize, writes: bool) -> bool {
        let judge = JUDGE.load(Ordering::Acquire);
        if judge.is_null() {
            return false;
        }
        // SAFETY: came from `set_judge`.
        let judge: Judge = unsafe { transmute(judge) };
        match judge(address, writes) {
            Verdict::Once => false,
            Verdict::Region { start, end, writes } => thread.open(slot, address, start, end, writes),
        }
    }

    unsafe extern "C" fn on_step(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        THREAD.with(|thread| {
            if !thread.stepping.replace(false) {
                // SAFETY: as it came.
                return unsafe { pass_on(1, signal, info, context) };
            }
            // SAFETY: given by the system.
            let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext };
            registers.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
            for page in &thread.stepped[..thread.stepped_count.replace(0)] {
                rights::close(page.get(), page_bytes());
            }
            if rights::shared_key() >= 0 {
                change_rights(registers, |rights| rights::without(rights, thread.number.get()));
            }
        });
    }

    /// Changes the interrupted thread's rights to keys, in what the kernel keeps of its registers.
    fn change_rights(registers: &mut libc::mcontext_t, change: impl FnOnce(u32) -> u32) {
        let state = registers.fpregs.cast::<u8>();
        // SAFETY: the kernel writes this state, with its size and a mark in the bytes that the processor leaves to software, and
        // reads it back. The offset is the processor's, for the uncompacted form, which the kernel uses here.
        unsafe {
            let magic = state.add(SOFTWARE_BYTES_AT).cast::<u32>().read_unaligned();
            let size = state.add(SOFTWARE_BYTES_AT + 16).cast::<u32>().read_unaligned();
            let at = std::arch::x86_64::__cpuid_count(0xd, KEY_RIGHTS).ebx;
            if magic != MAGIC || at == 0 || at + 4 > size {
                libc::abort(); // no way to go on: the instruction would fault for ever
            }
            let components = state.add(COMPONENTS_AT).cast::<u64>();
            let place = state.add(at as usize).cast::<u32>();
            let is_set = components.read_unaligned() >> KEY_RIGHTS & 1 == 1;
            let rights = if is_set { place.read_unaligned() } else { 0 };
            place.write_unaligned(change(rights));
            components.write_unaligned(components.read_unaligned() | 1 << KEY_RIGHTS);
        }
    }
}
