//! Memory that somebody lends to an operation which goes on after the call that named it.

// Not the facade's: loom's atomics do not lie in memory like the bytes that they stand for.
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A piece of memory that stays where it is while others read and write it: a buffer under a transfer, a window for one-sided
/// operations.
///
/// Rooms without `unsafe` can hold it, hand it on and copy through it: the promise was made where it was lent.
///
/// ```
/// use castell_base::Lent;
///
/// let memory = Lent::leak(64);
/// memory.write(8, b"castell");
/// let mut copy = [0; 7];
/// memory.read(8, &mut copy);
/// assert_eq!(&copy, b"castell");
/// assert!(memory.part(60, 8).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: who lends memory promises that it may be accessed from any thread; what is leaked here is accessed through
// atomics only.
unsafe impl Send for Lent {}

impl Lent {
    /// Lends `bytes` bytes at `address`.
    ///
    /// # Safety
    /// The memory is readable and writable, from any thread, for as long as anybody uses the result or a copy of it, and
    /// whoever else accesses it meanwhile does so as the operation that it is lent to allows.
    pub const unsafe fn new(address: *mut u8, bytes: usize) -> Lent {
        Lent { address, bytes }
    }

    /// Zeroed memory of its own, aligned to 8 bytes, that is never given back. For tests.
    pub fn leak(bytes: usize) -> Lent {
        let words = vec![0u64; bytes.div_ceil(8)].leak();
        Lent { address: words.as_mut_ptr().cast(), bytes }
    }

    /// Where it begins.
    pub const fn address(self) -> *mut u8 {
        self.address
    }

    /// Its length in bytes.
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// The `bytes` bytes from `at` on, if they lie inside.
    pub fn part(self, at: u64, bytes: u64) -> Option<Lent> {
        let end = at.checked_add(bytes)?;
        (end <= self.bytes as u64)
            .then(|| Lent { address: self.address.wrapping_add(at as usize), bytes: bytes as usize })
    }

    /// Copies what lies at `at` into `into`.
    ///
    /// # Panics
    /// Outside the memory.
    pub fn read(self, at: usize, into: &mut [u8]) {
        let bytes = self.cells(at, into.len());
        for (to, from) in into.iter_mut().zip(bytes) {
            *to = from.load(Ordering::Relaxed);
        }
    }

    /// Copies `from` to `at`.
    ///
    /// # Panics
    /// Outside the memory.
    pub fn write(self, at: usize, from: &[u8]) {
        for (to, from) in self.cells(at, from.len()).iter().zip(from) {
            to.store(*from, Ordering::Relaxed);
        }
    }

    /// Copies all of `from`, which is as long.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_from(self, from: Lent) {
        assert_eq!(self.bytes, from.bytes, "memory of {} bytes for {}", self.bytes, from.bytes);
        for (to, from) in self.cells(0, self.bytes).iter().zip(from.cells(0, from.bytes)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The 64-bit word at `at`, if one lies there: inside, and aligned.
    pub fn word(&self, at: u64) -> Option<&AtomicU64> {
        let place = self.part(at, 8)?.address.cast::<u64>();
        // SAFETY: inside the memory, aligned, and lent for such accesses.
        place.is_aligned().then(|| unsafe { AtomicU64::from_ptr(place) })
    }

    /// The bytes one by one: others may access them at the same time, which plain references would not allow.
    fn cells(&self, at: usize, bytes: usize) -> &[AtomicU8] {
        let part = self.part(at as u64, bytes as u64).expect("inside the memory that was lent");
        if bytes == 0 {
            return &[];
        }
        // SAFETY: inside the memory, which is lent for as long as `self` is used; an `AtomicU8` lies like a byte.
        unsafe { std::slice::from_raw_parts(part.address.cast::<AtomicU8>(), bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_words_lie_inside() {
        let memory = Lent::leak(24);
        assert!(memory.part(24, 0).is_some() && memory.part(25, 0).is_none());
        assert!(memory.part(u64::MAX, 2).is_none());
        assert!(memory.word(16).is_some() && memory.word(17).is_none() && memory.word(12).is_none());
        memory.word(8).expect("a word").store(0x0102_0304, Ordering::Relaxed);
        let mut bytes = [0; 8];
        memory.read(8, &mut bytes);
        assert_eq!(u64::from_ne_bytes(bytes), 0x0102_0304);
    }

    #[test]
    fn copies_between_pieces() {
        let (from, to) = (Lent::leak(100), Lent::leak(100));
        let bytes: Vec<u8> = (0..100).collect();
        from.write(0, &bytes);
        to.part(10, 50).expect("inside").copy_from(from.part(3, 50).expect("inside"));
        let mut copy = vec![0; 50];
        to.read(10, &mut copy);
        assert_eq!(copy, bytes[3..53]);
    }
}
