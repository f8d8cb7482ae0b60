//! Reductions: each task accumulates into a copy of its own, and the copies are combined into the data.

use super::list::{Accesses, Declarations};
use super::request::{Part, ReadWrite, reduction_declaration};
use super::storage::Storage;
use super::turns::{KeepsTurns as _, Turn};
use crate::error::TaskError;
use crate::lifecycle::task::Task;
use std::any::TypeId;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// How values of type `E` are combined. The operation has to be associative; unless the order is fixed by
/// [`Reducing::in_order`], it has to be commutative, too.
pub trait Reduction<E>: Send + Sync + 'static {
    /// What changes nothing when it is combined.
    fn identity(&self) -> E;
    /// `into` becomes `into` combined with `from`.
    fn combine(&self, into: &mut E, from: &E);
}

/// The sum.
pub struct Sum;
/// The product.
pub struct Product;
/// The smallest.
pub struct Min;
/// The largest.
pub struct Max;
/// The bits that all have.
pub struct And;
/// The bits that any has.
pub struct Or;
/// The bits that an odd number of them has.
pub struct Xor;

macro_rules! reduction {
    ($operation:ident, $($type:ty)+, $identity:expr, $a:ident $b:ident $combined:expr) => {
        $(impl Reduction<$type> for $operation {
            fn identity(&self) -> $type {
                $identity
            }

            fn combine(&self, into: &mut $type, from: &$type) {
                let ($a, $b) = (*into, *from);
                *into = $combined;
            }
        })+
    };
}

reduction!(Sum, i8 i16 i32 i64 isize u8 u16 u32 u64 usize, 0, a b a.wrapping_add(b));
reduction!(Sum, f32 f64, 0.0, a b a + b);
reduction!(Product, i8 i16 i32 i64 isize u8 u16 u32 u64 usize, 1, a b a.wrapping_mul(b));
reduction!(Product, f32 f64, 1.0, a b a * b);
macro_rules! extremes {
    ($($type:ident)+) => {
        $(
            reduction!(Min, $type, $type::MAX, a b a.min(b));
            reduction!(Max, $type, $type::MIN, a b a.max(b));
        )+
    };
}
extremes!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
reduction!(Min, f32, f32::INFINITY, a b a.min(b));
reduction!(Max, f32, f32::NEG_INFINITY, a b a.max(b));
reduction!(Min, f64, f64::INFINITY, a b a.min(b));
reduction!(Max, f64, f64::NEG_INFINITY, a b a.max(b));
reduction!(And, i8 i16 i32 i64 isize u8 u16 u32 u64 usize, !0, a b a & b);
reduction!(Or, i8 i16 i32 i64 isize u8 u16 u32 u64 usize, 0, a b a | b);
reduction!(Xor, i8 i16 i32 i64 isize u8 u16 u32 u64 usize, 0, a b a ^ b);
reduction!(And, bool, true, a b a & b);
reduction!(Or, bool, false, a b a | b);
reduction!(Xor, bool, false, a b a ^ b);

/// Data that is a number of elements: one value, or a slice.
///
/// ```
/// fn is_some<D: castell_tasks::data::Elements + ?Sized>() {}
///
/// trait Foreign: Send + Sync {}
///
/// is_some::<u64>();
/// is_some::<[f32]>();
/// ```
///
/// What it says of where they lie is relied on, so nobody else implements it:
///
/// ```compile_fail,E0277
/// use castell_tasks::data::Elements;
/// use std::ptr::NonNull;
///
/// trait Foreign: Send + Sync {}
///
/// impl Elements for dyn Foreign {
///     type Element = u64;
///     fn elements(_: NonNull<Self>) -> NonNull<[u64]> {
///         NonNull::slice_from_raw_parts(NonNull::dangling(), 1000)
///     }
///     fn view(_: &mut [u64]) -> &mut Self {
///         loop {}
///     }
/// }
/// ```
pub trait Elements: sealed::Sealed + Send + Sync + 'static {
    /// What is combined.
    type Element: Send + Sync + 'static;
    #[doc(hidden)]
    fn elements(this: NonNull<Self>) -> NonNull<[Self::Element]>;
    #[doc(hidden)]
    fn view(elements: &mut [Self::Element]) -> &mut Self;
}

mod sealed {
    pub trait Sealed {}
    impl<E> Sealed for E {}
    impl<E> Sealed for [E] {}
}

impl<E: Send + Sync + 'static> Elements for E {
    type Element = E;

    fn elements(this: NonNull<E>) -> NonNull<[E]> {
        NonNull::slice_from_raw_parts(this, 1)
    }

    fn view(elements: &mut [E]) -> &mut E {
        &mut elements[0]
    }
}

impl<E: Send + Sync + 'static> Elements for [E] {
    type Element = E;

    fn elements(this: NonNull<[E]>) -> NonNull<[E]> {
        this
    }

    fn view(elements: &mut [E]) -> &mut [E] {
        elements
    }
}

impl<'a, T: Elements + ?Sized> Part<'a, T, ReadWrite> {
    /// A child accumulates into it, at the same time as neighbours with the same operation: as [`Private`].
    pub fn reduce<O: Reduction<T::Element>>(self, operation: O) -> Reducing<'a, T, O> {
        Reducing { part: self, operation: Arc::new(operation), in_order: false }
    }
}

/// A request to accumulate.
pub struct Reducing<'a, T: ?Sized, O> {
    part: Part<'a, T, ReadWrite>,
    operation: Arc<O>,
    in_order: bool,
}

impl<T: ?Sized, O> Reducing<'_, T, O> {
    /// The copies are combined in the order in which the tasks were created: the same result every time, also in floating
    /// point. All neighbours have to ask for it, with the same part.
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// For loops, whose parts have copies of their own.
    pub(crate) fn operation(&self) -> (Arc<O>, bool) {
        (Arc::clone(&self.operation), self.in_order)
    }
}

/// The body's own accumulator; it starts as the operation's identity.
pub struct Private<'t, T: ?Sized> {
    value: &'t mut T,
}

impl<T: Elements + ?Sized> Private<'_, T> {
    /// A fresh copy beside this one: as many elements, each the operation's identity.
    pub(crate) fn fresh<O: Reduction<T::Element>>(&self, operation: &O) -> Box<[T::Element]> {
        let length = T::elements(NonNull::from(&*self.value)).len();
        (0..length).map(|_| operation.identity()).collect()
    }

    /// Combines such a copy into this one.
    pub(crate) fn combine<O: Reduction<T::Element>>(&mut self, operation: &O, copy: &[T::Element]) {
        // SAFETY: the elements of a value that is borrowed for writing.
        let elements = unsafe { T::elements(NonNull::from(&mut *self.value)).as_mut() };
        elements.iter_mut().zip(copy).for_each(|(into, from)| operation.combine(into, from));
    }
}

impl<T: ?Sized> Deref for Private<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T: ?Sized> DerefMut for Private<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

/// A request to accumulate, as its task keeps it.
pub struct KeptReducing<T: Elements + ?Sized, O> {
    target: NonNull<[T::Element]>,
    storage: Arc<Storage>,
    operation: Arc<O>,
    copy: UnsafeCell<Box<[T::Element]>>,
    turn: Option<Turn<Arc<Storage>>>,
}

// SAFETY: the elements are `Send + Sync`; the target is only touched under the lock of its place.
unsafe impl<T: Elements + ?Sized, O: Send + Sync> Send for KeptReducing<T, O> {}

// SAFETY: the guard gives access to a copy; the target is combined with under a lock while the declared access lasts.
unsafe impl<T: Elements + ?Sized, O: Reduction<T::Element>> Accesses for Reducing<'_, T, O> {
    type Stored = KeptReducing<T, O>;
    type Guards<'t> = Private<'t, T>;

    fn declare(&self, parent: &Task, declarations: &mut Declarations) -> Result<(), TaskError> {
        let (pointer, storage, by_owner) = self.part.parts();
        if by_owner {
            storage.claim(parent)?;
        }
        declarations.push(reduction_declaration(pointer, number_of::<T::Element, O>()));
        Ok(())
    }

    fn store(self) -> Self::Stored {
        let (pointer, storage, _) = self.part.parts();
        let target = T::elements(pointer);
        let turn =
            self.in_order.then(|| Turn::take(target.cast::<u8>().as_ptr() as usize, Arc::clone(storage)));
        let copy = UnsafeCell::new(Box::default());
        KeptReducing { target, storage: Arc::clone(storage), operation: self.operation, copy, turn }
    }

    unsafe fn guards(stored: &Self::Stored) -> Private<'_, T> {
        // SAFETY: called once, before `finish`: nobody else looks at the copy.
        let copy = unsafe { &mut *stored.copy.get() };
        *copy = (0..stored.target.len()).map(|_| stored.operation.identity()).collect();
        Private { value: T::view(copy) }
    }

    unsafe fn finish(stored: &Self::Stored) {
        // SAFETY: after the body, so its guard is gone.
        let copy = std::mem::take(unsafe { &mut *stored.copy.get() });
        let operation = Arc::clone(&stored.operation);
        let target = Target(stored.target);
        let combine = move || {
            let target = target;
            // SAFETY: the task, or a later one of its group, has not completed, so the declared access lasts; all who
            // combine into this data hold the lock.
            let elements = unsafe { &mut *target.0.as_ptr() };
            elements.iter_mut().zip(&copy).for_each(|(into, from)| operation.combine(into, from));
        };
        match &stored.turn {
            None => stored.storage.turns().alone(combine),
            Some(turn) => turn.pass(Box::new(combine)),
        }
    }
}

/// A target on its way to whoever combines.
struct Target<E>(NonNull<[E]>);
// SAFETY: the elements are `Send`, and used by one thread at a time.
unsafe impl<E: Send> Send for Target<E> {}

/// A number for a pair of types, the same in the whole process: neighbours with the same one run at once.
fn number_of<E: 'static, O: 'static>() -> u32 {
    static NUMBERS: Mutex<Option<HashMap<TypeId, u32>>> = Mutex::new(None);
    let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let numbers = numbers.get_or_insert_default();
    let next = numbers.len() as u32 + 1;
    *numbers.entry(TypeId::of::<(PhantomData<E>, O)>()).or_insert(next)
}
