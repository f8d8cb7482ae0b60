//! What few tasks need, beside their records: made when it is asked for.

use crate::error::Fault;
use crate::lifecycle::ancestry::Above;
use crate::lifecycle::group::Group;
use crate::lifecycle::task::Task;
use crate::lifecycle::versions::Version;
use castell_base::sync::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// What few tasks need.
#[derive(Default)]
pub struct Extras {
    /// The first failure in it or below it, until a wait takes it.
    pub(crate) fault: Mutex<Option<Fault>>,
    /// Made when it first owns data.
    pub(super) life: AtomicPtr<Life>,
    pub(super) awaited: AtomicPtr<Group>,
    /// See [`crate::lifecycle::ancestry`].
    pub(super) above: Above<Task>,
    /// For who pauses it.
    pub(crate) pause: PauseState,
    /// When its body is called again, if it suspends itself.
    pub(crate) suspension: Mutex<Suspension>,
    /// Called when it and its descendants are done.
    pub(crate) completion: Mutex<Option<Completion>>,
    /// If it has several bodies: which ones, and what was chosen.
    pub(crate) version: OnceLock<Box<Version>>,
    /// Called at the end of its body, by the thread that ran it.
    pub(crate) at_end_of_body: Mutex<Option<AtEnd>>,
}

/// What the end of a body does besides.
pub(crate) type AtEnd = Box<dyn FnOnce() + Send>;

/// Whom to tell that a task is done.
pub(crate) struct Completion {
    pub(crate) callback: unsafe extern "C" fn(*mut c_void),
    pub(crate) argument: *mut c_void,
}

// SAFETY: whoever asked for it said that any thread may call it.
unsafe impl Send for Completion {}

impl Drop for Extras {
    fn drop(&mut self) {
        let life = self.life.load(Ordering::Acquire);
        if !life.is_null() {
            // SAFETY: came from `Arc::into_raw` in `Task::life`.
            unsafe { Arc::from_raw(life) }.end();
        }
    }
}

/// Whether a task that owns data is done.
#[derive(Default)]
pub struct Life {
    pub(crate) ended: AtomicBool,
}

impl Life {
    /// The task and its descendants are done.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

/// Whether a body sleeps, and whether it was told to go on.
#[derive(Default)]
pub(crate) struct PauseState {
    pub(crate) word: AtomicU32,
}

/// Nobody sleeps, nobody has called.
pub(crate) const AWAKE: u32 = 0;
/// Somebody has called; the next pause ends at once.
pub(crate) const CALLED: u32 = 1;
/// The body sleeps, or is about to.
pub(crate) const ASLEEP: u32 = 2;
/// The body has returned, and is called again by the call.
pub(crate) const SUSPENDED: u32 = 3;

/// What becomes of a task that is suspended until it is unblocked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// It was already: whoever asked hands it on.
    Now,
    /// Whoever unblocks it does.
    Later,
}

impl PauseState {
    /// The body has returned and waits for a call.
    pub(crate) fn suspend(&self) -> Resumption {
        match self.word.compare_exchange(AWAKE, SUSPENDED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Resumption::Later,
            Err(_) => {
                self.word.store(AWAKE, Ordering::Relaxed); // the call was there first
                Resumption::Now
            }
        }
    }
}

/// When the body of a suspended task is called again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suspension {
    /// When somebody unblocks it ([`crate::foreign::wake`]); at once if that came first.
    #[default]
    Unblocked,
    /// As soon as a worker comes to it.
    Again,
    /// When a worker finds nothing else to run.
    Yield,
    /// After this time.
    After(Duration),
    /// When its external events are fulfilled.
    Events,
}
