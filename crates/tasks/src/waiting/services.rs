//! Polling services: functions that look for something outside of tasks and tell tasks about it.
//!
//! Each says how it wants to be called when no worker is idle enough to do so anyway: when a descriptor has something
//! to read, or once in an interval. One thread sleeps for all of them, so an idle runtime uses no CPU besides the
//! intervals that were asked for.

use crate::error::TaskError;
use crate::lifecycle::shared::Shared;
use castell_base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When a service wants to be called.
#[derive(Debug)]
pub enum Wake {
    /// When this has something to read; the service has to take that away.
    Readable(OwnedFd),
    /// Once in this time.
    Every(Duration),
}

/// What a service says after each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Call it again.
    Again,
    /// It is over.
    End,
}

/// Ends its service when it is dropped; a call that is going on is waited for.
#[must_use = "the service ends when this is dropped"]
pub struct Registration {
    entry: Arc<Entry>,
    shared: Arc<Shared>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.entry.over.store(true, Ordering::Release);
        drop(self.entry.lock());
        self.shared.services.forget_ended();
    }
}

/// A registered service.
pub(crate) struct Entry {
    wake: Wake,
    over: AtomicBool,
    /// How often it was called.
    calls: AtomicU64,
    poll: Mutex<Box<dyn FnMut() -> Next + Send>>,
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, Box<dyn FnMut() -> Next + Send>> {
        self.poll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Calls it, unless somebody does so already.
    fn call(&self) {
        let mut poll = match self.poll.try_lock() {
            Ok(poll) => poll,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if self.is_over() {
            return;
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut **poll));
        // A service that panicked has printed why; it is not called again.
        if next.unwrap_or(Next::End) == Next::End {
            self.over.store(true, Ordering::Release);
        }
    }
}

/// All services of a runtime.
#[derive(Default)]
pub(crate) struct Services {
    count: AtomicU32,
    entries: Mutex<Vec<Arc<Entry>>>,
    thread: Mutex<Option<Sleeper>>,
    stopping: AtomicBool,
}

/// The thread that sleeps for all services.
struct Sleeper {
    handle: JoinHandle<()>,
    /// A byte in it makes the thread look at the list again.
    nudge: std::fs::File,
}

impl Services {
    /// Calls every service once: for workers that have nothing to run. True if there are services.
    #[inline]
    pub(crate) fn poll(&self) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.snapshot().iter().for_each(|entry| entry.call());
        true
    }

    /// Adds one; starts the thread if it is the first.
    pub(crate) fn register(
        shared: &Arc<Shared>,
        wake: Wake,
        poll: Box<dyn FnMut() -> Next + Send>,
    ) -> Result<Registration, TaskError> {
        let services = &shared.services;
        shared.stall.expect_pauses();
        let entry = Arc::new(Entry {
            wake,
            over: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            poll: Mutex::new(poll),
        });
        let mut thread = services.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = services.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Arc::clone(&entry));
        services.count.store(entries.len() as u32, Ordering::Relaxed);
        drop(entries);
        match thread.as_mut() {
            // A full pipe is nudge enough.
            Some(sleeper) => drop(sleeper.nudge.write(b"n")),
            None => *thread = Some(services.start(shared)?),
        }
        Ok(Registration { entry, shared: Arc::clone(shared) })
    }

    fn start(&self, shared: &Arc<Shared>) -> Result<Sleeper, TaskError> {
        let refuse = |reason: String| TaskError::NoThread { worker: 0, reason };
        let (read, write) = castell_host::descriptor::pipe().map_err(|error| refuse(error.to_string()))?;
        let weak = Arc::downgrade(shared);
        let handle = std::thread::Builder::new()
            .name("castell-poll".to_owned())
            .spawn(move || {
                while let Some(shared) = weak.upgrade() {
                    if shared.services.stopping.load(Ordering::Acquire) {
                        return;
                    }
                    shared.services.sleep(&read);
                }
            })
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Sleeper { handle, nudge: write.into() })
    }

    /// Sleeps until something is due and calls what is.
    fn sleep(&self, nudges: &OwnedFd) {
        let entries = self.snapshot();
        let mut files: Vec<BorrowedFd<'_>> = vec![nudges.as_fd()];
        let mut waits = Vec::new();
        let mut interval: Option<Duration> = None;
        for entry in &entries {
            match &entry.wake {
                Wake::Readable(descriptor) => {
                    files.push(descriptor.as_fd());
                    waits.push(entry);
                }
                Wake::Every(time) => interval = Some(interval.map_or(*time, |least| least.min(*time))),
            }
        }
        // Rounded up: a wait of nothing would be no sleep at all.
        let timeout = interval.map_or(-1, |time| (time.as_micros().div_ceil(1000)).clamp(1, 1 << 30) as i32);
        let begun = Instant::now();
        let Ok(readable) = castell_host::descriptor::wait_readable(&files, timeout) else {
            // A descriptor that cannot be waited for: as seldom as a second.
            std::thread::sleep(Duration::from_secs(1));
            return;
        };
        if readable[0] {
            use std::io::Read as _;
            let mut bytes = [0; 64];
            if let Ok(copy) = nudges.try_clone() {
                // What is left is read next time.
                let _ = std::fs::File::from(copy).read(&mut bytes);
            }
        }
        waits
            .iter()
            .zip(&readable[1..])
            .filter(|(_, readable)| **readable)
            .for_each(|(entry, _)| entry.call());
        let due = |entry: &&Arc<Entry>| matches!(entry.wake, Wake::Every(_));
        if begun.elapsed() >= interval.unwrap_or(Duration::MAX) || !readable.contains(&true) {
            entries.iter().filter(due).for_each(|entry| entry.call());
        }
        self.forget_ended();
    }

    fn snapshot(&self) -> Vec<Arc<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn forget_ended(&self) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| !entry.is_over());
        self.count.store(entries.len() as u32, Ordering::Relaxed);
    }

    /// Ends the thread; services are not called any more.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let sleeper = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut sleeper) = sleeper {
            let _ = sleeper.nudge.write(b"n");
            // Services catch their panics; the thread has none of its own.
            let _ = sleeper.handle.join();
        }
    }
}
