//! The pieces of an access that was split: where they lie, and which there are now.

use super::access::Access;
use super::dependent::{Dependent, Outcome};
use super::lock::Lock;
use castell_deps::Region;
use smallvec::SmallVec;
use std::mem::needs_drop;
use std::ptr::NonNull;

/// A few pieces, ascending.
pub(super) type Few<T> = SmallVec<[NonNull<Access<T>>; 6]>;

/// The pieces of an access: `this header | the pieces of the first split`, in one chunk of memory; each later split has a
/// chunk of its own.
pub(super) struct Pieces<T> {
    /// None until somebody looks: most pieces are only gone through in the order in which they lie.
    map: Lock<Option<Box<PieceMap<T>>>>,
    /// Pieces behind the header.
    behind: usize,
}

/// Which pieces there are now.
pub(super) struct PieceMap<T> {
    /// Ascending, disjoint.
    current: Few<T>,
    /// Chunks of later splits: where they start, and how many pieces they have.
    chunks: SmallVec<[(NonNull<Access<T>>, usize); 1]>,
}

/// Offset of the pieces behind a header.
const fn pieces_at<T>() -> usize {
    let align = align_of::<Access<T>>();
    size_of::<Pieces<T>>().next_multiple_of(align)
}

/// Bytes of a header with so many pieces behind it.
const fn bytes_with<T>(behind: usize) -> usize {
    pieces_at::<T>() + behind * size_of::<Access<T>>()
}

impl<T: Dependent> Pieces<T> {
    /// A header with room for `behind` pieces, and where these are to be written before anybody else sees it.
    pub(super) fn new(
        behind: usize,
        outcome: &mut impl Outcome<T>,
    ) -> (NonNull<Pieces<T>>, NonNull<Access<T>>) {
        let chunk = outcome.allocate(bytes_with::<T>(behind));
        // SAFETY: the chunk is large enough and aligned, and nobody else sees it.
        unsafe {
            let first = chunk.byte_add(pieces_at::<T>()).cast::<Access<T>>();
            chunk.cast::<Pieces<T>>().write(Pieces { map: Lock::new(None), behind });
            chunk.as_ptr().expose_provenance();
            (chunk.cast(), first)
        }
    }

    /// The pieces of the first split, if they are those of `whole`. Each is there for good, and says itself if it was split again.
    #[inline]
    pub(super) fn first_split(&self, whole: Region) -> Option<&[Access<T>]> {
        if self.behind == 0 {
            return None;
        }
        // SAFETY: so many lie behind the header, which were written before anybody else saw it.
        let pieces = unsafe { std::slice::from_raw_parts(self.first().as_ptr(), self.behind) };
        let starts = pieces[0].region().start() == whole.start();
        (starts && pieces[self.behind - 1].region().end() == whole.end()).then_some(pieces)
    }

    /// Where the pieces of the first split begin.
    fn first(&self) -> NonNull<Access<T>> {
        // In the same chunk: a reference to the header alone does not reach it.
        let at = std::ptr::from_ref(self).addr() + pieces_at::<T>();
        NonNull::new(std::ptr::with_exposed_provenance_mut(at)).expect("behind the header")
    }

    /// Calls `look` while nobody splits anything.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut PieceMap<T>) -> R) -> R {
        self.map.with(|map| look(map.get_or_insert_with(|| Box::new(self.new_map()))))
    }

    /// The pieces of the first split, as long as there was no other.
    fn new_map(&self) -> PieceMap<T> {
        let first = self.first();
        // SAFETY: so many lie there.
        let current = (0..self.behind).map(|index| unsafe { first.add(index) }).collect();
        PieceMap { current, chunks: SmallVec::new() }
    }

    /// Gives everything back through `free`.
    ///
    /// # Safety
    /// Nobody looks at it or at its pieces any more; `free` takes what [`Outcome::allocate`] gave.
    pub(super) unsafe fn dispose(this: NonNull<Pieces<T>>, free: &mut impl FnMut(NonNull<u8>, usize)) {
        // SAFETY: the caller's promise.
        let header = unsafe { &mut *this.as_ptr() };
        let behind = header.behind;
        let chunks = header.map.get_mut().take().map_or(SmallVec::new(), |map| map.chunks);
        for (start, count) in chunks {
            // SAFETY: as above.
            unsafe { drop_all(start, count) };
            free(start.cast(), count * size_of::<Access<T>>());
        }
        // SAFETY: as above; the pieces lie behind the header.
        unsafe {
            drop_all(this.byte_add(pieces_at::<T>()).cast::<Access<T>>(), behind);
            this.drop_in_place();
        }
        free(this.cast(), bytes_with::<T>(behind));
    }
}

/// # Safety
/// There are so many, and nobody looks at them any more.
pub(super) unsafe fn drop_all<T>(start: NonNull<Access<T>>, count: usize) {
    if needs_drop::<Access<T>>() {
        // SAFETY: the caller's promise.
        (0..count).for_each(|index| unsafe { start.add(index).drop_in_place() });
    }
}

impl<T: Dependent> PieceMap<T> {
    /// Replaces the piece that starts at `region`'s start, if there is one, by new ones in a chunk of their own.
    pub(super) fn replace(&mut self, region: Region, start: NonNull<Access<T>>, count: usize) {
        self.chunks.push((start, count));
        let at = self.position(region.start());
        // SAFETY: pieces live as long as this map.
        if self.current.get(at).is_some_and(|piece| unsafe { piece.as_ref() }.region() == region) {
            self.current.remove(at);
        }
        // SAFETY: in the chunk.
        self.current.insert_many(at, (0..count).map(|index| unsafe { start.add(index) }));
    }

    /// Those that touch `region`.
    pub(super) fn touching(&self, region: Region) -> Few<T> {
        // SAFETY: pieces live as long as this map.
        let touches = |piece: &&NonNull<Access<T>>| unsafe { piece.as_ref() }.region().start() < region.end();
        self.current[self.position(region.start())..].iter().take_while(touches).copied().collect()
    }

    /// The first piece that ends behind `start`.
    pub(super) fn first_behind(&self, start: usize) -> Option<NonNull<Access<T>>> {
        self.current.get(self.position(start)).copied()
    }

    /// Its place.
    fn position(&self, start: usize) -> usize {
        // SAFETY: as above.
        self.current.partition_point(|piece| unsafe { piece.as_ref() }.region().end() <= start)
    }
}
