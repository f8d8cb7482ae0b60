//! A task that forks: in the child only its thread exists. Nothing that the task created before is run there, and nobody takes what
//! it makes ready; so the child is told what it may not do, and ends where the body would end.
//!
//! Looks cost nothing elsewhere: in the child, the current task gets a flag, and with it flags and counts that lead it where the
//! flag is looked at.

use crate::error::TaskError;
use crate::lifecycle::current::Thread;
use crate::lifecycle::task::{Task, flag};
use std::sync::Once;

/// Has forks noticed from now on.
pub(crate) fn watch() {
    static WATCHES: Once = Once::new();
    // Without memory for the handler a child is not told: as in other libraries.
    WATCHES.call_once(|| drop(castell_host::process::after_forks(mark)));
}

/// In the child: marks the task that forked.
extern "C" fn mark() {
    let Some(thread) = Thread::current() else { return };
    // SAFETY: if a body is running, its task is alive.
    if let Some(task) = unsafe { thread.task.get().as_ref() } {
        // Final: whoever creates a task looks twice. One event more: so does the end of the body.
        task.set(flag::FORKED | flag::FINAL);
        task.events.add(1);
    }
}

/// What a body may not do if it runs in a fork of the process whose task it was.
///
/// # Errors
/// It does.
#[inline]
pub(crate) fn check(task: &Task) -> Result<(), TaskError> {
    if task.has(flag::FORKED) { Err(error(task)) } else { Ok(()) }
}

#[cold]
fn error(task: &Task) -> TaskError {
    // SAFETY: what threads share outlives the tasks.
    TaskError::Forked { owner: unsafe { (*task.shared).process } }
}

/// The body of a task is over, and others have to see to what it leaves behind: nobody can, in a fork.
pub(crate) fn end_if_forked(task: &Task) {
    if let Err(error) = check(task) {
        castell_host::say(&format!(
            "task `{}` ended in a process that it had forked: end that process, or call exec; {error}",
            task.label()
        ));
        castell_host::process::end_now(1);
    }
}
