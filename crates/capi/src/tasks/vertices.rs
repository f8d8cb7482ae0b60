//! What `include/castell_vertices.h` declares: tasks as vertices of GOAL graphs, and runs that a task's completion waits for.

use super::alpi::kept_label;
use super::runtime::Passed;
use crate::run::start_telling;
use crate::types::{GOAL_Handle, GOAL_Schedule};
use castell_comm::{Deferred, defer};
use castell_tasks::foreign::with_context;
use castell_tasks::{Context, Runtime};
use std::ffi::{c_char, c_void};

/// The header's `castell_vertex`.
#[repr(C)]
pub struct castell_vertex {
    runtime: *const Runtime,
    body: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    label: *const c_char,
}

/// For `GOAL_Call`: the vertex is over when the task is.
///
/// # Safety
/// `vertex` is a `castell_vertex` whose runtime runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_vertex_task(vertex: *mut c_void) {
    let deferred = defer();
    // SAFETY: the caller's promise.
    let vertex = unsafe { vertex.cast::<castell_vertex>().as_ref() };
    // SAFETY: as above.
    let runtime = vertex.and_then(|vertex| unsafe { vertex.runtime.as_ref() });
    let (Some(castell_vertex { body: Some(body), argument, label, .. }), Some(runtime)) = (vertex, runtime)
    else {
        return fail(deferred, "castell_vertex_task was given no vertex, no runtime or no body");
    };
    // SAFETY: the caller's promise.
    let label = unsafe { kept_label(*label) };
    let (body, argument) = (*body, Passed(*argument));
    let spawned = runtime.spawn(move |context: &Context<'_>| {
        // SAFETY: the header says that the body is called on other threads.
        let task = context.task().label(label).spawn((), move |_, ()| unsafe { body(argument.get()) });
        match task.wait(context) {
            Ok(()) => drop(deferred),
            Err(error) => fail(deferred, &error.to_string()),
        }
    });
    if let Err(error) = spawned {
        castell_host::say(&format!("a vertex that is a task did not run: {error}"));
    }
}

fn fail(deferred: Option<Deferred>, why: &str) {
    match deferred {
        Some(deferred) => deferred.fail(why),
        None => castell_host::say(why),
    }
}

/// Starts a run; the current task completes only when it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn castell_run_held(sched: GOAL_Schedule) -> GOAL_Handle {
    let event = with_context(|context| context.event());
    start_telling("castell_run_held", sched, event.is_some(), move |outcome| match (event, outcome) {
        (Some(event), Ok(())) => event.fulfill(),
        (Some(event), Err(failure)) => event.fail(failure),
        (None, _) => {}
    })
}
