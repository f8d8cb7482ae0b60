//! Parts of data, and requests for access to them.

use super::storage::Storage;
use crate::dependences::{Declaration, Kind};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Children may read it.
pub enum ReadOnly {}
/// Children may read and write it.
pub enum ReadWrite {}

/// What a request asks for.
pub mod mode {
    /// To read, at the same time as other readers: [`Read`](crate::data::Read).
    pub enum Read {}
    /// To read and write, alone: [`Write`](crate::data::Write).
    pub enum Write {}
    /// To use at the same time as others that ask for the same: [`Shared`](crate::data::Shared).
    pub enum Concurrent {}
    /// To pass on to children that read: [`Weak`](crate::data::Weak).
    pub enum WeakRead {}
    /// To pass on to children that write: [`Weak`](crate::data::Weak).
    pub enum WeakWrite {}
}

/// All or a range of some data, of which the body that holds it can make requests for its children.
pub struct Part<'a, T: ?Sized, P> {
    pointer: NonNull<T>,
    storage: &'a Arc<Storage>,
    /// Whether the current task has to own it; otherwise it is among what the current task declared.
    by_owner: bool,
    rights: PhantomData<P>,
}

impl<T: ?Sized, P> Clone for Part<'_, T, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized, P> Copy for Part<'_, T, P> {}

impl<'a, T: ?Sized, P> Part<'a, T, P> {
    #[inline]
    pub(super) fn of_owner(pointer: NonNull<T>, storage: &'a Arc<Storage>) -> Self {
        Part { pointer, storage, by_owner: true, rights: PhantomData }
    }

    #[inline]
    pub(super) fn of_child(pointer: NonNull<T>, storage: &'a Arc<Storage>) -> Self {
        Part { pointer, storage, by_owner: false, rights: PhantomData }
    }
}

impl<'a, T: ?Sized> Part<'a, T, ReadWrite> {
    /// Where it lies, what keeps it alive, and whether the current task has to own it.
    #[inline]
    pub(super) fn parts(&self) -> (NonNull<T>, &'a Arc<Storage>, bool) {
        (self.pointer, self.storage, self.by_owner)
    }
}

impl<'a, T: ?Sized + Send + Sync + 'static, P> Part<'a, T, P> {
    /// A child reads it: as [`Read`](crate::data::Read).
    #[inline]
    pub fn read(self) -> Request<'a, T, mode::Read> {
        self.request(Kind::In, false)
    }

    /// A child's children read it, the child itself does not: as [`Weak`](crate::data::Weak).
    #[inline]
    pub fn weak_read(self) -> Request<'a, T, mode::WeakRead> {
        self.request(Kind::In, true)
    }

    #[inline]
    fn request<M>(self, kind: Kind, weak: bool) -> Request<'a, T, M> {
        let declared = declaration(self.pointer, kind, weak);
        Request { part: Part { rights: PhantomData, ..self_as(self) }, declared, mode: PhantomData }
    }
}

/// The same part, seen with all rights: for requests, which say themselves what they may.
#[inline]
fn self_as<'a, T: ?Sized, P>(part: Part<'a, T, P>) -> Part<'a, T, ReadWrite> {
    Part { pointer: part.pointer, storage: part.storage, by_owner: part.by_owner, rights: PhantomData }
}

impl<'a, T: ?Sized + Send + Sync + 'static> Part<'a, T, ReadWrite> {
    /// The same part, without the right to write.
    #[inline]
    pub fn read_only(self) -> Part<'a, T, ReadOnly> {
        Part { pointer: self.pointer, storage: self.storage, by_owner: self.by_owner, rights: PhantomData }
    }

    /// A child reads and writes it: as [`Write`](crate::data::Write).
    #[inline]
    pub fn write(self) -> Request<'a, T, mode::Write> {
        self.request(Kind::InOut, false)
    }

    /// A child overwrites it and needs nothing of what was there: as [`Write`](crate::data::Write).
    #[inline]
    pub fn overwrite(self) -> Request<'a, T, mode::Write> {
        self.request(Kind::Out, false)
    }

    /// A child reads and writes it; among neighbours that ask the same, the order does not matter: as
    /// [`Write`](crate::data::Write).
    #[inline]
    pub fn commutative(self) -> Request<'a, T, mode::Write> {
        self.request(Kind::Commutative, false)
    }

    /// A child uses it at the same time as neighbours that ask the same: as [`Shared`](crate::data::Shared).
    #[inline]
    pub fn concurrent(self) -> Request<'a, T, mode::Concurrent> {
        self.request(Kind::Concurrent, false)
    }

    /// A child's children read and write it, the child itself does not: as [`Weak`](crate::data::Weak).
    #[inline]
    pub fn weak_write(self) -> Request<'a, T, mode::WeakWrite> {
        self.request(Kind::InOut, true)
    }
}

impl<T: Send + Sync + 'static, P> Part<'_, [T], P> {
    /// A range of it. Panics if the range leaves it.
    #[inline]
    pub fn part(self, range: Range<usize>) -> Self {
        Part { pointer: subslice(self.pointer, range), ..self }
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.pointer.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A part and what a child wants with it.
pub struct Request<'a, T: ?Sized, M> {
    part: Part<'a, T, ReadWrite>,
    declared: Declaration,
    mode: PhantomData<M>,
}

impl<T: ?Sized, M> Request<'_, T, M> {
    #[inline]
    pub(super) fn declared(&self) -> Declaration {
        self.declared
    }

    #[inline]
    pub(super) fn pointer(&self) -> NonNull<T> {
        self.part.pointer
    }

    /// What keeps the data alive, and whether the current task has to own it.
    #[inline]
    pub(super) fn storage(&self) -> (&Arc<Storage>, bool) {
        (self.part.storage, self.part.by_owner)
    }
}

/// The bytes of `pointer`'s value as an access. Values without bytes count as one, so that they, too, are kept apart.
#[inline]
pub(super) fn declaration<T: ?Sized>(pointer: NonNull<T>, kind: Kind, weak: bool) -> Declaration {
    // Others may be writing it meanwhile: behind a cell nothing is read, and nothing promised.
    // SAFETY: data is alive while somebody holds its storage, and the size is in the pointer.
    let length = size_of_val(unsafe { &*(pointer.as_ptr() as *const UnsafeCell<T>) }).max(1);
    Declaration { start: pointer.cast::<u8>().as_ptr() as usize, length, kind, weak, reduction: 0 }
}

/// The elements in `range`.
#[inline]
pub(super) fn subslice<T>(pointer: NonNull<[T]>, range: Range<usize>) -> NonNull<[T]> {
    let length = pointer.len();
    assert!(
        range.start <= range.end && range.end <= length,
        "the part {}..{} leaves data of {length} elements",
        range.start,
        range.end
    );
    // SAFETY: inside the slice.
    let start = unsafe { pointer.cast::<T>().add(range.start) };
    NonNull::slice_from_raw_parts(start, range.end - range.start)
}

/// The bytes of `pointer`'s value as a reduction of the given number.
pub(super) fn reduction_declaration<T: ?Sized>(pointer: NonNull<T>, number: u32) -> Declaration {
    Declaration { reduction: number, ..declaration(pointer, Kind::Reduction, false) }
}
