//! The debug mode's memory: what a body does there without having declared it fails its task.

use crate::dependences::Kind;
use crate::error::TaskError;
use crate::lifecycle::current::{Thread, Undeclared};
use crate::lifecycle::execute::fail;
use crate::lifecycle::task::{Task, Verb, flag};
use castell_host::watched::{Verdict, Watched, set_judge, watch};
use std::ptr::NonNull;
use std::sync::Once;

/// Memory whose every access by a task's body is compared with what the task declared, in a runtime with
/// [`Builder::debug`](crate::Builder::debug); elsewhere it is memory like any other, and costs nothing.
///
/// A task that reads or writes a byte of it that it did not declare so goes on, and fails when its body ends: the wait of its
/// creator gets [`TaskError::Touched`]. Weak accesses give no right to touch. The body of [`Runtime::run`](crate::Runtime::run)
/// and [`Runtime::spawn`](crate::Runtime::spawn) may touch everything.
///
/// The compare costs a fault for each region that a body uses, if the region is whole pages; bytes on a page that is not wholly
/// the task's, or that is being read by several tasks, cost two signals an access. Needs Linux on x86-64. With the processor's
/// protection keys it is exact for up to 14 threads; without them only with one worker. System calls that are given such
/// memory fail (`EFAULT`) unless the task has touched the region before.
#[derive(Debug)]
pub struct WatchedMemory(Watched);

impl WatchedMemory {
    /// So many bytes, rounded up to whole pages; zeros.
    ///
    /// # Errors
    /// The system's reason.
    pub fn new(bytes: usize) -> Result<WatchedMemory, TaskError> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| set_judge(judge));
        Watched::new(bytes)
            .map(WatchedMemory)
            .map_err(|error| TaskError::NoMemory { bytes, reason: error.to_string() })
    }

    /// The first byte. Dropping this object ends the memory.
    pub fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// Runs, skips or drops a task's closure while its accesses are judged.
///
/// # Safety
/// As for [`Run`](crate::task::Run).
#[cold]
pub(crate) unsafe fn run(thread: &Thread, task: &Task, verb: Verb) {
    let outer = thread.undeclared.take();
    let before = watch(true);
    // SAFETY: the caller's promise.
    unsafe { (task.run)(thread, task, verb) };
    watch(before);
    if let Some(Undeclared { address, writes }) = thread.undeclared.replace(outer) {
        let declared = task.accesses().iter().map(|access| {
            let weak = if access.state().is_weak() { "weak " } else { "" };
            format!("{weak}{} {}", access.kind(), access.region())
        });
        let declared = declared.collect::<Vec<_>>().join(", ");
        fail(task, TaskError::Touched { label: task.label().to_owned(), writes, address, declared });
    }
}

/// What the body on top of the calling thread's stack may do at an address. Called in a signal handler.
fn judge(address: usize, writes: bool) -> Verdict {
    let Some(thread) = Thread::current() else { return Verdict::Once };
    // SAFETY: a body is running, so its task is alive.
    let Some(mut task) = (unsafe { thread.task.get().as_ref() }) else { return Verdict::Once };
    while task.has(flag::HELPS)
        && let Some(helped) = task.parent()
    {
        task = helped;
    }
    if task.has(flag::ROOT) {
        return Verdict::Region { start: 0, end: usize::MAX, writes: true };
    }
    for access in task.accesses() {
        let (region, kind) = (access.region(), access.kind());
        let covers = region.start() <= address && address < region.end();
        if covers && !access.state().is_weak() && (kind != Kind::In || !writes) {
            return Verdict::Region { start: region.start(), end: region.end(), writes: kind != Kind::In };
        }
    }
    if thread.undeclared.get().is_none() {
        thread.undeclared.set(Some(Undeclared { address, writes }));
    }
    Verdict::Once
}
