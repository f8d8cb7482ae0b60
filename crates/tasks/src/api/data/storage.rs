//! The owner's handle.

use super::request::{Part, ReadWrite, Request, mode};
use super::turns::{KeepsTurns, Turns};
use crate::api::context::Context;
use crate::dependences::{Declaration, Kind};
use crate::error::TaskError;
use crate::lifecycle::extras::Life;
use crate::lifecycle::task::Task;
use castell_base::sync::{AtomicPtr, Ordering};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// A value that tasks access. See the [module](crate::data).
///
/// ```
/// use castell_tasks::{Runtime, data::Data};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let sum = runtime.run(|context| {
///     let mut numbers = Data::from(vec![1, 2, 3, 4]);
///     let mut sum = Data::new(0);
///     context.submit(numbers.part(2..4).write(), |_, mut part| part[1] = 40);
///     context.submit((numbers.read(), sum.write()), |_, (numbers, mut sum)| *sum = numbers.iter().sum());
///     *sum.get(context).unwrap()
/// })?;
/// assert_eq!(sum, 46);
/// # Ok::<(), castell_tasks::TaskError>(())
/// ```
pub struct Data<T: ?Sized> {
    pointer: NonNull<T>,
    storage: Arc<Storage>,
}

// SAFETY: the handle gives access to the value on whatever thread its owner runs.
unsafe impl<T: ?Sized + Send + Sync> Send for Data<T> {}
// SAFETY: what `&Data` gives is ordered by the dependences of one owner; a second owner is refused.
unsafe impl<T: ?Sized + Send + Sync> Sync for Data<T> {}

/// What keeps a value alive, and whose it is.
pub struct Storage {
    /// Whose children may access it; null while nobody's.
    owner: AtomicPtr<Life>,
    /// Keeps `owner`'s address from being used again.
    keep: Mutex<Option<Arc<Life>>>,
    /// Under which copies of reductions are combined.
    turns: Turns,
    /// Drops the value.
    free: Box<dyn Fn() + Send + Sync>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        (self.free)();
    }
}

impl KeepsTurns for Arc<Storage> {
    fn turns(&self) -> &Turns {
        &self.turns
    }
}

impl Storage {
    /// Whether the children of `task` may access the value; makes `task` the owner if nobody is any more.
    #[inline]
    pub(crate) fn claim(&self, task: &Task) -> Result<(), TaskError> {
        let owner = self.owner.load(Ordering::Acquire);
        if !owner.is_null() && std::ptr::eq(owner, task.life_if_any()) {
            return Ok(());
        }
        self.claim_from_others(task)
    }

    #[cold]
    fn claim_from_others(&self, task: &Task) -> Result<(), TaskError> {
        let mut keep = self.keep.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(life) = keep.as_ref().filter(|life| !life.ended.load(Ordering::Acquire)) {
            if std::ptr::eq(Arc::as_ptr(life), task.life_if_any()) {
                return Ok(());
            }
            return Err(TaskError::NotOwner { label: task.label().to_owned() });
        }
        let life = task.life();
        self.owner.store(Arc::as_ptr(&life).cast_mut(), Ordering::Release);
        *keep = Some(life);
        Ok(())
    }
}

/// A pointer that a destructor may use wherever it runs.
struct Owned<T: ?Sized>(NonNull<T>);
// SAFETY: only the destructor uses it, once.
unsafe impl<T: ?Sized + Send> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Owned<T> {}

impl<T: ?Sized> Owned<T> {
    /// Drops the value.
    ///
    /// # Safety
    /// It came from a box, and this is called once.
    unsafe fn free(&self) {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<T: Send + Sync + 'static> Data<T> {
    /// Owns `value`.
    pub fn new(value: T) -> Data<T> {
        Data::from(Box::new(value))
    }
}

impl<T: ?Sized + Send + Sync + 'static> From<Box<T>> for Data<T> {
    fn from(value: Box<T>) -> Data<T> {
        let pointer = NonNull::from(Box::leak(value));
        let owned = Owned(pointer);
        // SAFETY: leaked from a box just now; the storage is dropped once, when no handle, task or guard is left.
        let free = Box::new(move || unsafe { owned.free() });
        let storage = Storage {
            owner: AtomicPtr::new(std::ptr::null_mut()),
            keep: Mutex::new(None),
            turns: Turns::new(),
            free,
        };
        Data { pointer, storage: Arc::new(storage) }
    }
}

impl<T: Send + Sync + 'static> From<Vec<T>> for Data<[T]> {
    fn from(values: Vec<T>) -> Data<[T]> {
        Data::from(values.into_boxed_slice())
    }
}

impl<T: ?Sized + Send + Sync + 'static> Data<T> {
    /// All of it, for requests.
    #[inline]
    pub fn all(&self) -> Part<'_, T, ReadWrite> {
        Part::of_owner(self.pointer, &self.storage)
    }

    /// A child reads it.
    #[inline]
    pub fn read(&self) -> Request<'_, T, mode::Read> {
        self.all().read()
    }

    /// A child reads and writes it.
    #[inline]
    pub fn write(&self) -> Request<'_, T, mode::Write> {
        self.all().write()
    }

    /// The owner itself looks at it: waits until the children that access it are done.
    ///
    /// # Errors
    /// Another task owns it and is not done, or one of the children that were waited for failed.
    pub fn get<'a>(&'a mut self, context: &Context<'_>) -> Result<&'a mut T, TaskError> {
        self.claim_for(context)?;
        // SAFETY: only a wait: the empty task that stands for it touches nothing.
        unsafe { context.wait_for_raw(&[self.declaration()])? };
        // SAFETY: all children that had access are done, and new ones need `&self`.
        Ok(unsafe { self.pointer.as_mut() })
    }

    /// The value, outside of tasks.
    ///
    /// # Errors
    /// A task owns it and is not done; the handle comes back.
    pub fn get_outside(&mut self) -> Result<&mut T, TaskError> {
        let keep = self.storage.keep.lock().unwrap_or_else(PoisonError::into_inner);
        if keep.as_ref().is_some_and(|life| !life.ended.load(Ordering::Acquire)) {
            return Err(TaskError::NotOwner { label: String::new() });
        }
        drop(keep);
        // SAFETY: the owner and its descendants are done, and only `&self` starts others.
        Ok(unsafe { self.pointer.as_mut() })
    }

    fn claim_for(&self, context: &Context<'_>) -> Result<(), TaskError> {
        self.storage.claim(context.current())
    }

    fn declaration(&self) -> Declaration {
        super::request::declaration(self.pointer, Kind::InOut, false)
    }
}

impl<T: Send + Sync + 'static> Data<[T]> {
    /// A range of it, for requests. Panics if the range leaves it.
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
