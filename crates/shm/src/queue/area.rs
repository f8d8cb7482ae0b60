//! A queue's memory: an array of 64-bit words that other processes see, too.
//!
//! Every queue addresses its memory by word index through this type, so that the same code runs on mapped memory and,
//! under loom, on an array of loom's words. Payloads are not atomic: each is written by one producer before its header's
//! first word is published (release) and read by one consumer after it saw that word (acquire).

use castell_base::sync::{AtomicU64, Ordering};

use super::header::{HEADER_BYTES, Header, SLOT_WORDS};

#[cfg(not(loom))]
type Word = AtomicU64;

/// A word, and whom its slot belongs to: whoever publishes there or empties it has it alone, and loom complains where
/// nothing orders two such accesses. (It would not find out from the words: to loom, stores come in the order in which
/// threads run.)
#[cfg(loom)]
#[derive(Default)]
pub struct Word {
    value: AtomicU64,
    owned: loom::cell::UnsafeCell<()>,
}

/// A queue's memory, zeroed before its first use and aligned to a slot.
#[derive(Clone, Copy)]
pub struct Area {
    words: *const Word,
}

// SAFETY: the memory is shared between processes by design; all access goes through atomics or through the
// publication protocol described above.
unsafe impl Send for Area {}

impl Area {
    /// Takes hold of the memory at `base`.
    ///
    /// # Safety
    /// `base` is aligned to 64 bytes (under loom: points to an array of loom's words) and stays mapped, and large
    /// enough for every index that is used, as long as the result lives.
    pub unsafe fn new(base: *mut u8) -> Area {
        debug_assert!(
            cfg!(loom) || base.addr().is_multiple_of(64),
            "a queue's memory starts on a cache line"
        );
        Area { words: base.cast::<Word>().cast_const() }
    }

    /// The word at `index`.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: `new` promised that the memory is mapped and large enough.
        unsafe { &*self.words.add(index) }
    }

    #[cfg(loom)]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { &(*self.words.add(index)).value }
    }

    /// Tells loom that the slots from word `index` on are the caller's alone.
    #[cfg(loom)]
    fn own(&self, index: usize, slots: usize) {
        for slot in 0..slots {
            // SAFETY: as in `word`.
            unsafe { &*self.words.add(index + slot * SLOT_WORDS) }.owned.with_mut(|_| ());
        }
    }

    /// The area that starts at word `index`.
    pub fn at(&self, index: usize) -> Area {
        // SAFETY: as in `word`.
        Area { words: unsafe { self.words.add(index) } }
    }

    /// Writes a message into the slot that starts at word `index`, its first word last (release).
    #[inline(always)]
    pub fn publish(&self, index: usize, header: &Header, spare: u16, payload: &[u8]) {
        #[cfg(loom)]
        self.own(index, super::header::slots_for(payload.len()));
        self.write_payload(index + HEADER_BYTES / 8, payload);
        let words = header.to_words(spare);
        self.word(index + 1).store(words[1], Ordering::Relaxed);
        self.word(index + 2).store(words[2], Ordering::Relaxed);
        self.word(index + 3).store(words[3], Ordering::Relaxed);
        self.word(index).store(words[0], Ordering::Release);
    }

    /// Hands the message at word `index` to `deliver`, in place; `first` is its first word, loaded with acquire.
    #[inline(always)]
    pub fn deliver(&self, index: usize, first: u64, deliver: &mut impl FnMut(&Header, &[u8])) -> Header {
        let header = Header::from_words([
            first,
            self.word(index + 1).load(Ordering::Relaxed),
            self.word(index + 2).load(Ordering::Relaxed),
            self.word(index + 3).load(Ordering::Relaxed),
        ]);
        self.with_payload(index + HEADER_BYTES / 8, header.bytes as usize, |payload| {
            deliver(&header, payload)
        });
        header
    }

    /// Empties `slots` slots from word `index` on. Zero in a slot's first word means "empty".
    #[inline(always)]
    pub fn clear_slots(&self, index: usize, slots: usize) {
        #[cfg(loom)]
        self.own(index, slots);
        for slot in 0..slots {
            self.word(index + slot * SLOT_WORDS).store(0, Ordering::Relaxed);
        }
    }

    /// Asks for the cache line at word `index`, to write there soon.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: asking changes nothing, whatever the address.
        unsafe {
            // The intrinsic asks for a copy to read, as long as the compiler does not know that the processor has this
            // instruction; to those that have not it is a `nop`.
            let line = self.word(index).as_ptr();
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        let _ = index;
    }

    #[cfg(not(loom))]
    #[inline(always)]
    fn write_payload(&self, index: usize, payload: &[u8]) {
        let target = self.word(index).as_ptr();
        if let Ok(eight) = <[u8; 8]>::try_from(payload) {
            // The commonest length, kept from a call of memcpy.
            self.word(index).store(u64::from_ne_bytes(eight), Ordering::Relaxed);
            return;
        }
        // SAFETY: the caller reserved the slots from here to the payload's end and nobody reads them before the header
        // is published; the payload is the caller's own memory.
        unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), target.cast::<u8>(), payload.len()) };
    }

    #[cfg(not(loom))]
    #[inline(always)]
    fn with_payload(&self, index: usize, bytes: usize, read: impl FnOnce(&[u8])) {
        // SAFETY: the header was published after the payload was written, and the producer does not touch the slots
        // again before this consumer has emptied them.
        read(unsafe { std::slice::from_raw_parts(self.word(index).as_ptr().cast::<u8>(), bytes) });
    }

    #[cfg(loom)]
    fn write_payload(&self, index: usize, payload: &[u8]) {
        for (i, chunk) in payload.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(index + i).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    #[cfg(loom)]
    fn with_payload(&self, index: usize, bytes: usize, read: impl FnOnce(&[u8])) {
        let words = (0..bytes.div_ceil(8)).map(|i| self.word(index + i).load(Ordering::Relaxed));
        let copy: Vec<u8> = words.flat_map(u64::to_ne_bytes).take(bytes).collect();
        read(&copy);
    }
}
