//! What a creator does when there are too many tasks.

use crate::error::TaskError;
use crate::lifecycle::counts::{LOOK_EVERY, Limits};
use crate::lifecycle::current::Thread;
use crate::lifecycle::shared::Shared;
use crate::lifecycle::task::Task;
use crate::waiting::wait::{leaves_to_others, run_descendant};
use crate::waiting::yielding::Yielding;
use std::time::{Duration, Instant};

/// How long a creator sleeps before it looks again whether enough tasks are gone.
const NAP: Duration = Duration::from_micros(100);

/// Whether it is not time to [`make_room`].
#[inline]
pub(crate) fn has_room(thread: &Thread) -> bool {
    !thread.created().is_multiple_of(LOOK_EVERY)
}

/// Called by a body before it creates a task: with too many about, runs some first.
///
/// A task that is run here keeps the creator from going on until it is over. One that pauses until the creator has gone on would
/// hold up both; so once tasks of this runtime pause, a creator sleeps instead, and others run them on its CPU.
///
/// # Errors
/// There are too many, and nothing can be run here.
#[inline]
pub(crate) fn make_room(thread: &Thread, label: &str) -> Result<(), TaskError> {
    if has_room(thread) { Ok(()) } else { look(thread, label) }
}

#[cold]
fn look(thread: &Thread, label: &str) -> Result<(), TaskError> {
    // Who disposes of as many as it creates, as in recursion, need not ask all threads how many there are.
    if !thread.has_grown(LOOK_EVERY) {
        return Ok(());
    }
    let counts = &thread.shared.counts;
    let Limits { high, low, hard } = counts.limits;
    if counts.live() < high.min(hard) {
        return Ok(());
    }
    // SAFETY: a body's task is alive.
    let task = unsafe { thread.task.get().as_ref() };
    let journal = thread.shared.journal.as_ref().map(|journal| (journal, Instant::now()));
    if thread.shared.stall.tasks_pause() {
        thread.without_cpu(|| sleep_until(&thread.shared, low));
    } else if let Some(task) = task {
        wait_for_others(thread, low);
        help(thread, task, low);
        thread.tell_ended();
        // It may have asked in vain: what it creates from now on is not to be handed to itself.
        thread.worker.get().into_iter().for_each(|worker| thread.shared.scheduler.leave(worker));
    }
    if let (Some((journal, since)), Some(task)) = (journal, task) {
        journal.held_up(task, since.elapsed());
    }
    let live = counts.live();
    if live >= hard {
        return Err(TaskError::TooManyTasks { label: label.to_owned(), live, limit: hard });
    }
    Ok(())
}

/// Does nothing while others run what this thread has created, if its processor was taken away.
fn wait_for_others(thread: &Thread, low: u64) {
    let mut yielding = Yielding::default();
    while thread.shared.counts.live() > low && leaves_to_others(thread, &mut yielding) {
        thread.tell_ended();
        thread.worker.get().into_iter().for_each(|worker| thread.shared.scheduler.clear(worker));
        thread.give_processor();
        std::thread::sleep(NAP);
    }
    thread.ensure_processor();
}

fn help(thread: &Thread, task: &Task, low: u64) {
    let mut ran = 0_u64;
    while run_descendant(thread, task) {
        ran += 1;
        if ran.is_multiple_of(LOOK_EVERY) && thread.shared.counts.live() <= low {
            return;
        }
    }
}

/// Sleeps until no more than `low` records are left, or nothing goes on: no task ended lately, and none is ready.
fn sleep_until(shared: &Shared, low: u64) {
    let mut disposed = shared.counts.disposed();
    loop {
        std::thread::sleep(NAP);
        let before = std::mem::replace(&mut disposed, shared.counts.disposed());
        if shared.counts.live() <= low || disposed == before && shared.scheduler.is_empty() {
            return;
        }
    }
}
