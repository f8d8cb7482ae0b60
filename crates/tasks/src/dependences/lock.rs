//! A lock for what is split, and for commutative tasks: std's, or loom's.

#[cfg(loom)]
use loom::sync::Mutex;
#[cfg(not(loom))]
use std::sync::Mutex;
use std::sync::PoisonError;

/// A value that one thread at a time looks at.
pub(super) struct Lock<V>(Mutex<V>);

impl<V> Lock<V> {
    pub(super) fn new(value: V) -> Self {
        Lock(Mutex::new(value))
    }

    /// The value, where nobody else can look.
    pub(super) fn get_mut(&mut self) -> &mut V {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `use_it` while nobody else looks.
    pub(super) fn with<R>(&self, use_it: impl FnOnce(&mut V) -> R) -> R {
        // Nothing that runs under the lock leaves the value half changed.
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
