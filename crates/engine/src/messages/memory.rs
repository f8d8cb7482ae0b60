//! The memory of a message: one piece, or a list of them that counts as their concatenation.

/// Where a message's bytes are, or go. It names memory, and owns none: who hands it in keeps the memory, and the list of its
/// pieces, until the operation has ended or was cancelled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    base: *mut u8,
    bytes: u64,
    /// Four words a piece: offset from `base` and length, low halves first; null: one piece.
    pieces: *const u32,
    words: u32,
    /// What comes is dropped, what goes is whatever lies there.
    is_void: bool,
}

/// A piece of memory in this process.
pub(crate) struct Piece {
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
}

impl Memory {
    /// One piece.
    #[inline]
    pub(crate) fn plain(base: *mut u8, bytes: u64) -> Memory {
        Memory { base, bytes, pieces: std::ptr::null(), words: 0, is_void: false }
    }

    /// No memory: `base` stands in for it, of which nobody reads what was written.
    #[inline]
    pub(crate) fn void(base: *mut u8, bytes: u64) -> Memory {
        Memory { is_void: true, ..Memory::plain(base, bytes) }
    }

    /// Several pieces, `bytes` in all: four words each, offset from `base` and length, low halves first.
    pub(crate) fn pieces(base: *mut u8, bytes: u64, pieces: &[u32]) -> Memory {
        Memory { pieces: pieces.as_ptr(), words: pieces.len() as u32, ..Memory::plain(base, bytes) }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where all of it starts, if it is one piece.
    #[inline]
    pub(crate) fn start(&self) -> Option<*mut u8> {
        self.pieces.is_null().then_some(self.base)
    }

    /// Where all of it starts, if it is one piece that keeps what is written there.
    pub(crate) fn writable(&self) -> Option<*mut u8> {
        self.start().filter(|_| !self.is_void)
    }

    /// The parts that hold bytes `offset … offset + length`, in order; none is empty.
    pub(crate) fn cut(&self, offset: u64, length: u64) -> impl Iterator<Item = Piece> + use<> {
        let memory = *self;
        let (mut at, mut skip, mut left) = (0, offset, length);
        std::iter::from_fn(move || {
            while left > 0 {
                let (start, bytes) = memory.piece(at)?;
                at += 1;
                if skip >= bytes {
                    skip -= bytes;
                    continue;
                }
                let take = left.min(bytes - skip);
                let piece = Piece { start: start.wrapping_add(skip as usize), bytes: take as usize };
                (left, skip) = (left - take, 0);
                return Some(piece);
            }
            None
        })
    }

    fn piece(&self, at: usize) -> Option<(*mut u8, u64)> {
        if self.pieces.is_null() {
            return (at == 0).then_some((self.base, self.bytes));
        }
        // SAFETY: who made this keeps the list.
        let words = unsafe { std::slice::from_raw_parts(self.pieces, self.words as usize) };
        let piece = words.get(4 * at..4 * at + 4)?;
        let wide = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Some((self.base.wrapping_add(wide(piece[0], piece[1]) as usize), wide(piece[2], piece[3])))
    }

    /// The bytes in one piece: in place if they are, else gathered into `spare`.
    ///
    /// # Safety
    /// The memory is readable, and nobody writes to it while the slice lives.
    #[inline]
    pub(crate) unsafe fn gather<'a>(&self, spare: &'a mut Vec<u8>) -> &'a [u8] {
        if self.bytes == 0 {
            return &[];
        }
        if self.pieces.is_null() {
            // SAFETY: handed on from the caller.
            return unsafe { std::slice::from_raw_parts(self.base, self.bytes as usize) };
        }
        spare.clear();
        for piece in self.cut(0, self.bytes) {
            // SAFETY: handed on from the caller.
            spare.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.start, piece.bytes) });
        }
        spare
    }

    /// Writes `payload` behind the first `offset` bytes.
    ///
    /// # Safety
    /// The memory is writable, not `payload`'s, as long as that demands, and nobody else uses it meanwhile.
    #[inline]
    pub(crate) unsafe fn scatter(&self, offset: u64, payload: &[u8]) {
        if self.is_void {
            return;
        }
        if self.pieces.is_null() {
            let to = self.base.wrapping_add(offset as usize);
            // SAFETY: handed on from the caller.
            return unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), to, payload.len()) };
        }
        let mut rest = payload;
        for piece in self.cut(offset, payload.len() as u64) {
            let (part, behind) = rest.split_at(piece.bytes);
            // SAFETY: handed on from the caller; `part` has the piece's length.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), piece.start, part.len()) };
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_go_across_pieces() {
        let list: Vec<u32> =
            [(100, 10), (200, 5), (0, 0), (300, 20)].map(|(at, len)| [at, 0, len, 0]).concat();
        let memory = Memory::pieces(std::ptr::null_mut(), 35, &list);
        let cut = |offset, length| -> Vec<(usize, usize)> {
            memory.cut(offset, length).map(|piece| (piece.start as usize, piece.bytes)).collect()
        };
        assert_eq!(cut(0, 35), [(100, 10), (200, 5), (300, 20)]);
        assert_eq!(cut(8, 4), [(108, 2), (200, 2)]);
        assert_eq!(cut(15, 1), [(300, 1)]);
        assert_eq!(cut(35, 0), []);
    }
}
