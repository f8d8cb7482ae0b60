//! Raw memory: where buffers are, gathering and scattering blocks, local operations on them.

use crate::messages::Memory as Message;
use castell_goal::arithmetic;
use castell_goal::op::{Arithmetic, Block, Buffer, Memory, Op, Operator, Place};
use castell_goal::schedule::{OpId, Schedule};

/// The memories that one run's buffers may lie in.
#[derive(Clone, Copy)]
pub(super) struct Space {
    /// Start of the run's scratchpad.
    pub(super) scratchpad: *mut u8,
    /// Memory that stands in for buffers without one; as large as the largest message.
    pub(super) arena: *mut u8,
}

impl Space {
    /// Where a place is.
    pub(super) fn address(self, memory: Memory, offset: u64) -> *mut u8 {
        match memory {
            Memory::Void => self.arena,
            Memory::User => offset as *mut u8,
            Memory::Scratch => self.scratchpad.wrapping_add(offset as usize),
        }
    }

    pub(super) fn place(self, place: Place) -> *mut u8 {
        self.address(place.memory, place.offset)
    }

    fn block(self, memory: Memory, block: Block) -> *mut u8 {
        self.address(memory, block.offset)
    }

    /// The bytes of `buffer` in one piece: in place if it is one, else gathered into `spare`.
    ///
    /// # Safety
    /// The buffer's memory is readable, and nobody writes to it while the slice lives.
    pub(super) unsafe fn gather<'a>(
        self,
        buffer: Buffer<'_>,
        bytes: u64,
        spare: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        match buffer {
            Buffer::Plain(place) => {
                // SAFETY: handed on from the caller.
                unsafe { slice(self.place(place), bytes) }
            }
            Buffer::Vector(memory, blocks) => {
                spare.clear();
                for block in blocks.iter() {
                    // SAFETY: handed on from the caller.
                    spare.extend_from_slice(unsafe { slice(self.block(memory, block), block.bytes) });
                }
                spare
            }
        }
    }

    /// Writes `payload`, which has the buffer's size, to the buffer. Void buffers take nothing.
    ///
    /// # Safety
    /// The buffer's memory is writable, not `payload`'s, and nobody else uses it meanwhile.
    #[inline]
    pub(super) unsafe fn scatter(self, buffer: Buffer<'_>, payload: &[u8]) {
        match buffer {
            Buffer::Plain(Place { memory: Memory::Void, .. }) | Buffer::Vector(Memory::Void, _) => {}
            Buffer::Plain(place) => {
                // SAFETY: handed on from the caller.
                unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), self.place(place), payload.len()) }
            }
            Buffer::Vector(memory, blocks) => {
                let mut rest = payload;
                for block in blocks.iter() {
                    let (piece, behind) = rest.split_at(block.bytes as usize);
                    // SAFETY: handed on from the caller; `piece` has the block's length.
                    unsafe {
                        std::ptr::copy_nonoverlapping(piece.as_ptr(), self.block(memory, block), piece.len());
                    }
                    rest = behind;
                }
            }
        }
    }

    /// A message's buffer. The list of a vector's blocks is that of the schedule.
    #[inline]
    pub(super) fn message(self, buffer: Buffer<'_>, bytes: u64) -> Message {
        match buffer {
            Buffer::Plain(Place { memory: Memory::Void, .. }) | Buffer::Vector(Memory::Void, _) => {
                Message::void(self.arena, bytes)
            }
            Buffer::Plain(place) => Message::plain(self.place(place), bytes),
            Buffer::Vector(memory, blocks) => Message::pieces(self.address(memory, 0), bytes, blocks.words()),
        }
    }

    /// `b3[i] = b1[i] op b2[i]` over `bytes` bytes of each.
    ///
    /// # Safety
    /// The buffers are readable and `b3` is writable; nobody else uses them meanwhile. They may overlap: all
    /// operands count as read before anything is written.
    pub(super) unsafe fn local(
        self,
        arithmetic: Arithmetic,
        b1: Buffer<'_>,
        b2: Buffer<'_>,
        b3: Buffer<'_>,
        bytes: u64,
    ) {
        if let (Buffer::Plain(p1), Buffer::Plain(p2), Buffer::Plain(p3)) = (b1, b2, b3) {
            // SAFETY: handed on from the caller.
            unsafe { local_plain(arithmetic, self.place(p1), self.place(p2), self.place(p3), bytes) };
            return;
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        // SAFETY: handed on from the caller; the operands are copied out before the result is written.
        unsafe {
            let first = self.gather(b1, bytes, &mut first);
            let mut result = vec![0; bytes as usize];
            if arithmetic.operator() == Operator::Copy {
                arithmetic::apply(arithmetic, first, first, &mut result);
            } else {
                arithmetic::apply(arithmetic, first, self.gather(b2, bytes, &mut second), &mut result);
            }
            self.scatter(b3, &result);
        }
    }
}

/// A slice that may be empty at any address.
///
/// # Safety
/// As for [`std::slice::from_raw_parts`], unless `bytes` is 0.
unsafe fn slice<'a>(address: *mut u8, bytes: u64) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: handed on from the caller.
    unsafe { std::slice::from_raw_parts(address, bytes as usize) }
}

/// `p3[i] = p1[i] op p2[i]`.
///
/// # Safety
/// As for [`Space::local`].
#[inline(always)]
pub(crate) unsafe fn local_plain(arithmetic: Arithmetic, p1: *mut u8, p2: *mut u8, p3: *mut u8, bytes: u64) {
    if bytes == 8 && arithmetic.operator() != Operator::Copy {
        // SAFETY: the caller's promise; both operands are read before anything is written.
        unsafe {
            let (first, second) = (p1.cast::<[u8; 8]>().read(), p2.cast::<[u8; 8]>().read());
            if let Some(result) = arithmetic::apply_to_one(arithmetic, first, second) {
                return p3.cast::<[u8; 8]>().write(result);
            }
        }
    }
    // SAFETY: handed on from the caller.
    unsafe { local_rows(arithmetic, p1, p2, p3, bytes) }
}

/// # Safety
/// As for [`local_plain`].
#[inline(never)]
unsafe fn local_rows(arithmetic: Arithmetic, p1: *mut u8, p2: *mut u8, p3: *mut u8, bytes: u64) {
    if bytes == 0 {
        return;
    }
    let length = bytes as usize;
    let apart = |a: *mut u8, b: *mut u8| (a as usize).abs_diff(b as usize) >= length;
    let copies = arithmetic.operator() == Operator::Copy;
    // SAFETY: the caller answers for the memory; each branch makes only slices that do not overlap.
    unsafe {
        let read = |p: *mut u8| std::slice::from_raw_parts(p, length);
        let write = |p: *mut u8| std::slice::from_raw_parts_mut(p, length);
        if copies {
            std::ptr::copy(p1, p3, length);
        } else if apart(p1, p3) && apart(p2, p3) {
            arithmetic::apply(arithmetic, read(p1), read(p2), write(p3));
        } else if p1 == p3 && apart(p2, p3) {
            arithmetic::apply_onto_first(arithmetic, write(p3), read(p2));
        } else if p2 == p3 && apart(p1, p3) {
            arithmetic::apply_onto_second(arithmetic, read(p1), write(p3));
        } else if p1 == p3 && p2 == p3 {
            arithmetic::apply_to_itself(arithmetic, write(p3));
        } else {
            // Partial overlaps: read everything first.
            let (first, second) = (read(p1).to_vec(), read(p2).to_vec());
            arithmetic::apply(arithmetic, &first, &second, write(p3));
        }
    }
}

/// Where a receive's message goes, and how long it is.
pub(super) fn receive_of(schedule: &Schedule, op: OpId) -> (Buffer<'_>, u64) {
    let Op::Recv { buffer, bytes, .. } = schedule.op(op) else {
        unreachable!("only receives wait for messages")
    };
    (buffer, bytes)
}

/// Memory that stands in for buffers without one. It only grows, and what was handed out stays where it is.
#[derive(Default)]
pub(super) struct Arena {
    generations: Vec<Vec<u64>>,
}

impl Arena {
    /// Makes sure that there are `bytes` bytes.
    pub(super) fn reserve(&mut self, bytes: u64) {
        let now = self.generations.last().map_or(0, |words| words.len() as u64 * 8);
        if bytes > now {
            let words = bytes.max(now * 2).max(4096).div_ceil(8);
            // Zeroed memory comes from the kernel untouched: pages that nobody writes cost nothing.
            self.generations.push(vec![0; words as usize]);
        }
    }

    pub(super) fn start(&mut self) -> *mut u8 {
        self.generations.last_mut().map_or(std::ptr::dangling_mut::<u64>(), |words| words.as_mut_ptr()).cast()
    }
}
