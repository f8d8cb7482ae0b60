//! Who may use a page: protection keys (`pkeys(7)`), or rights for all threads.

use super::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Numbers of threads, and with them keys: the processor has 16 keys, one is everybody's, and one closes.
const THREADS_MAX: usize = 14;

/// The key of closed pages; below zero: there are no keys.
static CLOSED: AtomicI32 = AtomicI32::new(-1);
/// The key of each thread's open pages, and which are taken.
static KEYS: [AtomicI32; THREADS_MAX] = [const { AtomicI32::new(-1) }; THREADS_MAX];
static TAKEN: [AtomicBool; THREADS_MAX] = [const { AtomicBool::new(false) }; THREADS_MAX];
/// The bits of all our keys in a thread's rights.
static OURS: AtomicU32 = AtomicU32::new(0);

/// Takes what keys there are, unless the environment variable `CASTELL_NO_PROTECTION_KEYS` is set.
pub(super) fn find_keys() {
    if std::env::var_os("CASTELL_NO_PROTECTION_KEYS").is_some() {
        return;
    }
    let Some(closed) = allocate() else { return };
    for place in &KEYS {
        let Some(key) = allocate() else { break };
        place.store(key, Ordering::Relaxed);
    }
    CLOSED.store(closed, Ordering::Release);
}

fn allocate() -> Option<i32> {
    // SAFETY: asks for a key with all rights for the calling thread.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0_usize, 0_usize) };
    let key = i32::try_from(key).ok().filter(|key| *key > 0)?;
    OURS.fetch_or(3 << (2 * key), Ordering::Relaxed);
    Some(key)
}

/// The key of closed pages, below zero if there are no keys.
pub(super) fn shared_key() -> i32 {
    CLOSED.load(Ordering::Acquire)
}

/// A number for the calling thread, from 1; 0 if there is none left.
pub(super) fn key_for_thread() -> u8 {
    for (index, taken) in TAKEN.iter().enumerate() {
        let has_key = shared_key() < 0 || KEYS[index].load(Ordering::Relaxed) > 0;
        if has_key && !taken.swap(true, Ordering::AcqRel) {
            GIVEN.with(|given| given.0.set(Some(index)));
            return index as u8 + 1;
        }
    }
    0
}

/// Gives a number back when its thread ends.
struct Given(std::cell::Cell<Option<usize>>);

thread_local! {
    static GIVEN: Given = const { Given(std::cell::Cell::new(None)) };
}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some(index) = self.0.get() {
            TAKEN[index].store(false, Ordering::Release);
        }
    }
}

/// Closes pages to watched threads; without keys, to all.
pub(super) fn close(start: usize, bytes: usize) {
    match shared_key() {
        key if key >= 0 => protect_with_key(start, bytes, libc::PROT_READ | libc::PROT_WRITE, key),
        _ => protect(start, bytes, libc::PROT_NONE),
    }
}

/// Opens pages to the thread of this number; without keys, to all.
pub(super) fn open(start: usize, bytes: usize, number: u8, writes: bool) {
    let rights = if writes { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    if shared_key() >= 0 {
        protect_with_key(start, bytes, rights, KEYS[usize::from(number) - 1].load(Ordering::Relaxed));
    } else {
        protect(start, bytes, rights);
    }
}

/// Opens one page to everybody, without keys.
pub(super) fn open_to_all(page: usize, bytes: usize) {
    protect(page, bytes, libc::PROT_READ | libc::PROT_WRITE);
}

fn protect(start: usize, bytes: usize, rights: i32) {
    // SAFETY: pages of a mapping of ours; the rights change as the module says.
    let result = unsafe { libc::mprotect(start as *mut libc::c_void, bytes, rights) };
    assert_eq!(result, 0, "rights of our own pages can be changed");
}

fn protect_with_key(start: usize, bytes: usize, rights: i32, key: i32) {
    // SAFETY: as above; the key is ours.
    let result = unsafe { libc::syscall(libc::SYS_pkey_mprotect, start, bytes, rights, key) };
    assert_eq!(result, 0, "keys of our own pages can be changed");
}

/// What a watched thread of this number may not use, in a word of rights: bits of all our keys but its own.
pub(super) fn without(rights: u32, number: u8) -> u32 {
    let own = number.checked_sub(1).map_or(-1, |index| KEYS[usize::from(index)].load(Ordering::Relaxed));
    let denied = OURS.load(Ordering::Relaxed) & if own > 0 { !(3 << (2 * own)) } else { !0 };
    (rights & !OURS.load(Ordering::Relaxed)) | (denied & 0x5555_5555)
}

/// The same word with all rights to our keys.
pub(super) fn with_all(rights: u32) -> u32 {
    rights & !OURS.load(Ordering::Relaxed)
}

/// The calling thread's rights to keys.
pub(super) fn current() -> u32 {
    if shared_key() < 0 { 0 } else { read() }
}

/// The calling thread, of this number, is watched.
pub(super) fn take_away(number: u8) {
    if shared_key() >= 0 {
        write(without(read(), number));
    }
}

/// The calling thread has these rights again.
pub(super) fn restore(rights: u32) {
    if shared_key() >= 0 {
        write(rights);
    }
}

#[cfg(target_arch = "x86_64")]
fn read() -> u32 {
    let rights: u32;
    // SAFETY: the processor has keys: one was given to us.
    unsafe {
        std::arch::asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nomem, nostack));
    }
    rights
}

#[cfg(target_arch = "x86_64")]
fn write(rights: u32) {
    // SAFETY: as above; only our keys' bits change. Memory accesses are not to be moved across.
    unsafe { std::arch::asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack)) };
}

#[cfg(not(target_arch = "x86_64"))]
fn read() -> u32 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn write(_rights: u32) {}
