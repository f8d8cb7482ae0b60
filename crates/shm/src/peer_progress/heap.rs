//! A rank's memory for blocks: powers of two, never merged and never given back.
//!
//! Another process may try the lock of a block long after its run has ended. So the start of a block stays the start of
//! a block for ever.

/// Smallest block. Bytes.
const SMALLEST: usize = 1024;
/// Bytes of a rank's area: the table and all blocks. Untouched pages cost nothing.
pub const AREA_BYTES: usize = 1 << 20;
/// Blocks that a rank may have.
pub const BLOCKS: usize = 32;
/// Blocks start behind the table.
const FIRST: usize = SMALLEST;

/// What the owner knows of its area.
#[derive(Debug)]
pub struct Heap {
    /// Offsets of unused blocks, by the exponent of their size.
    free: [Vec<u32>; usize::BITS as usize],
    end: usize,
    blocks: usize,
}

impl Default for Heap {
    fn default() -> Heap {
        Heap { free: [const { Vec::new() }; usize::BITS as usize], end: FIRST, blocks: 0 }
    }
}

impl Heap {
    /// Offset of a block of at least `bytes` bytes, and whether it is new; none if the area is full.
    pub fn allocate(&mut self, bytes: usize) -> Option<(u32, bool)> {
        let size = bytes.max(SMALLEST).checked_next_power_of_two()?;
        if let Some(offset) = self.free[size.trailing_zeros() as usize].pop() {
            return Some((offset, false));
        }
        if self.blocks == BLOCKS || size > AREA_BYTES - self.end {
            return None;
        }
        let offset = self.end as u32;
        self.end += size;
        self.blocks += 1;
        Some((offset, true))
    }

    /// A block is no longer in use.
    pub fn free(&mut self, offset: u32, bytes: usize) {
        self.free[bytes.max(SMALLEST).next_power_of_two().trailing_zeros() as usize].push(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_reused_by_size_and_never_overlap() {
        let mut heap = Heap::default();
        let (first, new) = heap.allocate(100).expect("room");
        assert!(new && first as usize == FIRST);
        let (second, _) = heap.allocate(5000).expect("room");
        assert_eq!(second as usize, FIRST + 1024);
        heap.free(first, 100);
        assert_eq!(heap.allocate(1024), Some((first, false)));
        assert_eq!(heap.allocate(1).map(|(offset, _)| offset as usize), Some(FIRST + 1024 + 8192));
        assert_eq!(heap.allocate(AREA_BYTES), None);
        let more = std::iter::from_fn(|| heap.allocate(1)).count();
        assert_eq!(more, BLOCKS - 3);
    }
}
