//! Lists of requests: one, a tuple, a vector or an array of them.

use super::guard::{Read, Shared, Weak, Write};
use super::request::{ReadOnly, ReadWrite, Request, mode};
use super::storage::Storage;
use crate::dependences::{Declaration, Kind};
use crate::error::TaskError;
use crate::lifecycle::task::Task;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// What a task is created with: a [`Request`], `()`, a tuple of lists, a `Vec` or an array of lists.
///
/// # Safety
/// `declare` must declare everything that the guards give access to.
pub unsafe trait Accesses: Sized {
    /// What the task keeps until it runs.
    type Stored: Send + 'static;
    /// What its body gets.
    type Guards<'t>;
    /// Adds the declarations; checks that `parent` may pass the data on.
    #[doc(hidden)]
    fn declare(&self, parent: &Task, declarations: &mut Declarations) -> Result<(), TaskError>;
    /// Keeps the data alive.
    #[doc(hidden)]
    fn store(self) -> Self::Stored;
    /// The guards.
    ///
    /// # Safety
    /// The task runs, `stored` belongs to it, and this is called once.
    #[doc(hidden)]
    unsafe fn guards(stored: &Self::Stored) -> Self::Guards<'_>;
    /// The body is over.
    ///
    /// # Safety
    /// Called at most once, after the guards are gone, before the task completes.
    #[doc(hidden)]
    #[inline]
    unsafe fn finish(_stored: &Self::Stored) {}
}

/// Declarations, on the stack up to a few.
pub struct Declarations {
    few: [MaybeUninit<Declaration>; FEW],
    count: usize,
    many: Vec<Declaration>,
}

const FEW: usize = 8;

impl Declarations {
    #[inline]
    pub(crate) fn new() -> Declarations {
        Declarations { few: [const { MaybeUninit::uninit() }; FEW], count: 0, many: Vec::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, declared: Declaration) {
        if self.count < FEW {
            self.few[self.count].write(declared);
            self.count += 1;
        } else {
            self.push_to_many(declared);
        }
    }

    #[cold]
    fn push_to_many(&mut self, declared: Declaration) {
        if self.many.is_empty() {
            let few = self.as_slice().to_vec();
            self.many = few;
        }
        self.many.push(declared);
    }

    /// All of them.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Declaration] {
        if !self.many.is_empty() {
            return &self.many;
        }
        // SAFETY: the first `count` were written.
        unsafe { std::slice::from_raw_parts(self.few.as_ptr().cast(), self.count) }
    }

    /// Refuses two guards that would give access to the same bytes, unless both only read.
    #[inline]
    pub(crate) fn check_disjoint(&self, label: &str) -> Result<(), TaskError> {
        let declared = self.as_slice();
        if declared.len() < 2 { Ok(()) } else { check_disjoint(declared, label) }
    }
}

fn check_disjoint(declared: &[Declaration], label: &str) -> Result<(), TaskError> {
    let harmless = |a: &Declaration, b: &Declaration| a.kind == Kind::In && b.kind == Kind::In;
    let overlap =
        |a: &Declaration, b: &Declaration| a.start < b.start + b.length && b.start < a.start + a.length;
    let refuse = |a: &Declaration| {
        Err(TaskError::Overlap { label: label.to_owned(), start: a.start, length: a.length })
    };
    if declared.len() <= FEW {
        for (index, one) in declared.iter().enumerate() {
            for other in &declared[..index] {
                if overlap(one, other) && !harmless(one, other) {
                    return refuse(one);
                }
            }
        }
        return Ok(());
    }
    let mut sorted: Vec<&Declaration> = declared.iter().collect();
    sorted.sort_unstable_by_key(|declared| declared.start);
    // The one that reaches farthest among all before, and the one among those that write.
    let mut farthest: Option<&Declaration> = None;
    let mut farthest_written: Option<&Declaration> = None;
    let end = |declared: &Declaration| declared.start + declared.length;
    for one in sorted {
        let against = if one.kind == Kind::In { farthest_written } else { farthest };
        if against.is_some_and(|earlier| overlap(one, earlier)) {
            return refuse(one);
        }
        if farthest.is_none_or(|earlier| end(earlier) < end(one)) {
            farthest = Some(one);
        }
        if one.kind != Kind::In && farthest_written.is_none_or(|earlier| end(earlier) < end(one)) {
            farthest_written = Some(one);
        }
    }
    Ok(())
}

/// A request, as its task keeps it.
pub struct Kept<T: ?Sized> {
    pointer: NonNull<T>,
    storage: Arc<Storage>,
}

// SAFETY: what it points to is `Send + Sync` in every request.
unsafe impl<T: ?Sized + Send + Sync> Send for Kept<T> {}

/// A request's mode gives a guard.
macro_rules! request {
    ($mode:ty, $guard:ident $(, $rights:ty)?) => {
        // SAFETY: the request's own declaration covers the guard's bytes.
        unsafe impl<T: ?Sized + Send + Sync + 'static> Accesses for Request<'_, T, $mode> {
            type Stored = Kept<T>;
            type Guards<'t> = $guard<'t, T $(, $rights)?>;

            #[inline]
            fn declare(&self, parent: &Task, declarations: &mut Declarations) -> Result<(), TaskError> {
                let (storage, by_owner) = self.storage();
                if by_owner {
                    storage.claim(parent)?;
                }
                declarations.push(self.declared());
                Ok(())
            }

            #[inline]
            fn store(self) -> Kept<T> {
                Kept { pointer: self.pointer(), storage: Arc::clone(self.storage().0) }
            }

            #[inline]
            unsafe fn guards(stored: &Kept<T>) -> Self::Guards<'_> {
                $guard::new(stored.pointer, &stored.storage)
            }
        }
    };
}

request!(mode::Read, Read);
request!(mode::Write, Write);
request!(mode::Concurrent, Shared);
request!(mode::WeakRead, Weak, ReadOnly);
request!(mode::WeakWrite, Weak, ReadWrite);

// SAFETY: nothing is declared, and there is no guard.
unsafe impl Accesses for () {
    type Stored = ();
    type Guards<'t> = ();

    #[inline]
    fn declare(&self, _parent: &Task, _declarations: &mut Declarations) -> Result<(), TaskError> {
        Ok(())
    }

    #[inline]
    fn store(self) {}

    #[inline]
    unsafe fn guards((): &()) {}
}

// SAFETY: each element declares its own.
unsafe impl<A: Accesses> Accesses for Vec<A> {
    type Stored = Vec<A::Stored>;
    type Guards<'t> = Vec<A::Guards<'t>>;

    fn declare(&self, parent: &Task, declarations: &mut Declarations) -> Result<(), TaskError> {
        self.iter().try_for_each(|one| one.declare(parent, declarations))
    }

    fn store(self) -> Self::Stored {
        self.into_iter().map(A::store).collect()
    }

    unsafe fn guards(stored: &Self::Stored) -> Self::Guards<'_> {
        // SAFETY: the caller's promise, for each.
        stored.iter().map(|stored| unsafe { A::guards(stored) }).collect()
    }

    #[inline]
    unsafe fn finish(stored: &Self::Stored) {
        // SAFETY: the caller's promise, for each.
        stored.iter().for_each(|stored| unsafe { A::finish(stored) });
    }
}

// SAFETY: each element declares its own.
unsafe impl<A: Accesses, const N: usize> Accesses for [A; N] {
    type Stored = [A::Stored; N];
    type Guards<'t> = [A::Guards<'t>; N];

    #[inline]
    fn declare(&self, parent: &Task, declarations: &mut Declarations) -> Result<(), TaskError> {
        self.iter().try_for_each(|one| one.declare(parent, declarations))
    }

    #[inline]
    fn store(self) -> Self::Stored {
        self.map(A::store)
    }

    #[inline]
    unsafe fn guards(stored: &Self::Stored) -> Self::Guards<'_> {
        // SAFETY: the caller's promise, for each.
        stored.each_ref().map(|stored| unsafe { A::guards(stored) })
    }

    #[inline]
    unsafe fn finish(stored: &Self::Stored) {
        // SAFETY: the caller's promise, for each.
        stored.iter().for_each(|stored| unsafe { A::finish(stored) });
    }
}

/// A tuple gives a tuple of guards.
macro_rules! tuple {
    ($($name:ident $index:tt),+) => {
        // SAFETY: each element declares its own.
        unsafe impl<$($name: Accesses),+> Accesses for ($($name,)+) {
            type Stored = ($($name::Stored,)+);
            type Guards<'t> = ($($name::Guards<'t>,)+);

            #[inline]
            fn declare(&self, parent: &Task, declarations: &mut Declarations) -> Result<(), TaskError> {
                $(self.$index.declare(parent, declarations)?;)+
                Ok(())
            }

            #[inline]
            fn store(self) -> Self::Stored {
                ($(self.$index.store(),)+)
            }

            #[inline]
            unsafe fn guards(stored: &Self::Stored) -> Self::Guards<'_> {
                // SAFETY: the caller's promise, for each.
                unsafe { ($($name::guards(&stored.$index),)+) }
            }

            #[inline]
            unsafe fn finish(stored: &Self::Stored) {
                // SAFETY: the caller's promise, for each.
                unsafe { $($name::finish(&stored.$index);)+ }
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
