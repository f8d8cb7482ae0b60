//! What a body gets for its requests.

use super::request::{Part, ReadOnly, ReadWrite, subslice};
use super::storage::Storage;
use crate::api::context::Context;
use crate::dependences::Kind;
use crate::error::TaskError;
use crate::waiting::pause::Event;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// The body may read; so may its children, through [`Read::all`] and [`Read::part`].
pub struct Read<'t, T: ?Sized> {
    pointer: NonNull<T>,
    storage: &'t Arc<Storage>,
    value: PhantomData<&'t T>,
}

/// The body may read and write; so may its children, after [`Write::lend`].
pub struct Write<'t, T: ?Sized> {
    pointer: NonNull<T>,
    storage: &'t Arc<Storage>,
    value: PhantomData<&'t mut T>,
}

/// The body uses the data at the same time as others, through what `T` offers for that (atomics, locks).
pub struct Shared<'t, T: ?Sized> {
    pointer: NonNull<T>,
    value: PhantomData<&'t T>,
}

/// The body cannot look at the data, but its children may, with the rights `P`.
pub struct Weak<'t, T: ?Sized, P> {
    pointer: NonNull<T>,
    storage: &'t Arc<Storage>,
    // Not `Send`, not `Sync`: parts are for children of the body's own task.
    rights: PhantomData<(*mut T, P)>,
}

/// What a body had and lets its children write; [`Lent::reclaim`] waits for them and gives it back.
pub struct Lent<'t, T: ?Sized> {
    pointer: NonNull<T>,
    storage: &'t Arc<Storage>,
    // As for `Weak`.
    value: PhantomData<(*mut T, &'t mut T)>,
}

/// Data of an operation in flight, owned: the task completes, and its successors get the data, when this is dropped.
pub struct Held<T: ?Sized> {
    pointer: NonNull<T>,
    _storage: Arc<Storage>,
    _event: Event,
}

// SAFETY: exclusive access to the value, as `&mut T` gives.
unsafe impl<T: ?Sized + Send> Send for Write<'_, T> {}
// SAFETY: `&Write` gives `&T`.
unsafe impl<T: ?Sized + Sync> Sync for Write<'_, T> {}
// SAFETY: shared access to the value, as `&T` gives.
unsafe impl<T: ?Sized + Sync> Send for Read<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for Read<'_, T> {}
// SAFETY: shared access to the value, as `&T` gives.
unsafe impl<T: ?Sized + Sync> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for Shared<'_, T> {}
// SAFETY: exclusive access to the value until it is dropped.
unsafe impl<T: ?Sized + Send> Send for Held<T> {}
// SAFETY: `&Held` gives `&T`.
unsafe impl<T: ?Sized + Sync> Sync for Held<T> {}

impl<T: ?Sized> Clone for Read<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Read<'_, T> {}

impl<T: ?Sized> Deref for Read<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the task declared that it reads, and runs.
        unsafe { self.pointer.as_ref() }
    }
}

impl<'t, T: ?Sized> Read<'t, T> {
    #[inline]
    pub(super) fn new(pointer: NonNull<T>, storage: &'t Arc<Storage>) -> Self {
        Read { pointer, storage, value: PhantomData }
    }

    /// All of it, for children that read.
    #[inline]
    pub fn all(&self) -> Part<'t, T, ReadOnly> {
        Part::of_child(self.pointer, self.storage)
    }
}

impl<'t, T: Send + Sync + 'static> Read<'t, [T]> {
    /// A range of it, for children that read. Panics if the range leaves it.
    pub fn part(&self, range: Range<usize>) -> Part<'t, [T], ReadOnly> {
        self.all().part(range)
    }
}

impl<T: ?Sized> Deref for Write<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the task declared that it writes, and runs.
        unsafe { self.pointer.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Write<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the task declared that it writes, and runs; the guard is borrowed alone.
        unsafe { self.pointer.as_mut() }
    }
}

impl<'t, T: ?Sized + Send + Sync + 'static> Write<'t, T> {
    #[inline]
    pub(super) fn new(pointer: NonNull<T>, storage: &'t Arc<Storage>) -> Self {
        Write { pointer, storage, value: PhantomData }
    }

    /// From now on the children may access it, not the body itself.
    #[inline]
    pub fn lend(self) -> Lent<'t, T> {
        Lent { pointer: self.pointer, storage: self.storage, value: PhantomData }
    }

    /// Gives it to an operation in flight: the task completes only when the result was dropped.
    pub fn hold(self, context: &Context<'_>) -> Held<T> {
        Held { pointer: self.pointer, _storage: Arc::clone(self.storage), _event: context.event() }
    }

    /// Lets it go to the successors at once, before the body ends.
    pub fn release(self, context: &Context<'_>) {
        context.release_raw(super::request::declaration(self.pointer, Kind::InOut, false));
    }
}

impl<'t, T: Send + Sync + 'static> Write<'t, [T]> {
    /// The parts before and from `at`, each a guard of its own. Panics if `at` lies beyond the end.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let (first, second) = (0..at, at..self.pointer.len());
        (
            Write { pointer: subslice(self.pointer, first), ..self },
            Write { pointer: subslice(self.pointer, second), ..self },
        )
    }
}

impl<'t, T: ?Sized + Send + Sync + 'static> Lent<'t, T> {
    /// All of it, for children.
    #[inline]
    pub fn all(&self) -> Part<'_, T, ReadWrite> {
        Part::of_child(self.pointer, self.storage)
    }

    /// Waits until the children that access it are done, and gives it back to the body.
    ///
    /// # Errors
    /// One of them failed.
    pub fn reclaim(self, context: &Context<'_>) -> Result<Write<'t, T>, TaskError> {
        let declared = super::request::declaration(self.pointer, Kind::InOut, false);
        // SAFETY: only a wait: the empty task that stands for it touches nothing.
        unsafe { context.wait_for_raw(&[declared])? };
        Ok(Write { pointer: self.pointer, storage: self.storage, value: PhantomData })
    }
}

impl<T: Send + Sync + 'static> Lent<'_, [T]> {
    /// A range of it, for children. Panics if the range leaves it.
    #[inline]
    pub fn part(&self, range: Range<usize>) -> Part<'_, [T], ReadWrite> {
        self.all().part(range)
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

impl<'t, T: ?Sized, P> Weak<'t, T, P> {
    #[inline]
    pub(super) fn new(pointer: NonNull<T>, storage: &'t Arc<Storage>) -> Self {
        Weak { pointer, storage, rights: PhantomData }
    }

    /// All of it, for children.
    #[inline]
    pub fn all(&self) -> Part<'t, T, P> {
        Part::of_child(self.pointer, self.storage)
    }
}

impl<'t, T: Send + Sync + 'static, P> Weak<'t, [T], P> {
    /// A range of it, for children. Panics if the range leaves it.
    #[inline]
    pub fn part(&self, range: Range<usize>) -> Part<'t, [T], P> {
        self.all().part(range)
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

impl<'t, T: ?Sized> Shared<'t, T> {
    #[inline]
    pub(super) fn new(pointer: NonNull<T>, _storage: &'t Arc<Storage>) -> Self {
        Shared { pointer, value: PhantomData }
    }
}

impl<T: ?Sized> Deref for Shared<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the task runs, and those that run beside it got no more than `&T` either.
        unsafe { self.pointer.as_ref() }
    }
}

impl<T: ?Sized> Deref for Held<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the task that declared it has not completed: its event is ours.
        unsafe { self.pointer.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; nobody else has a guard for it.
        unsafe { self.pointer.as_mut() }
    }
}
