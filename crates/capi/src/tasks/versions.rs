//! Tasks with several bodies, of which one runs.

use super::failure::{ARGUMENT, Failure, in_task};
use super::iterate;
use super::reduction::Reductions;
use super::submit::{Argument, Given, castell_access, castell_task, kind, list, with_task_declarations};
use castell_tasks::foreign::Function;
use castell_tasks::versions::Versions;
use castell_tasks::{Context, LeafKind};
use std::ffi::{c_double, c_int, c_uint, c_void};

/// The header's `castell_version`.
#[repr(C)]
pub struct castell_version {
    device: c_uint,
    body: Option<Function>,
    seconds: c_double,
}

/// In `castell_task.flags`: the versions stand best first.
const RANKED: c_uint = 16;

/// What versions a task has, and their bodies by kind.
struct Bodies {
    versions: Versions,
    of_kinds: [Option<Function>; LeafKind::COUNT],
}

impl Bodies {
    fn of(given: &[castell_version], is_ranked: bool) -> Result<Bodies, Failure> {
        let mut bodies = Bodies { versions: Versions::default(), of_kinds: [None; LeafKind::COUNT] };
        bodies.versions.is_ranked = is_ranked;
        if given.is_empty() {
            return Err(Failure::new(ARGUMENT, "a task with versions needs one at least"));
        }
        for (number, version) in given.iter().enumerate() {
            let kind = kind(version.device)?;
            let refuse =
                |what: String| Failure::new(ARGUMENT, format!("version {number} of the task {what}"));
            let body = version.body.ok_or_else(|| refuse("has the body NULL".into()))?;
            let seconds = version.seconds;
            if !(seconds.is_finite() && seconds >= 0.0) {
                return Err(refuse(format!("takes {seconds} s: give a time, or 0 if nobody knows")));
            }
            if !bodies.versions.add(kind, (seconds * 1e9) as u64) {
                return Err(refuse(format!("is the second one for the kind of workers {}", version.device)));
            }
            bodies.of_kinds[kind.index()] = Some(body);
        }
        Ok(bodies)
    }

    /// Calls the one for this kind.
    ///
    /// # Safety
    /// As the header says.
    unsafe fn call(&self, kind: LeafKind, argument: &Argument) {
        let body = self.of_kinds[kind.index()].expect("only one of the versions is chosen");
        // SAFETY: the caller's promise.
        unsafe { body(argument.start()) };
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_submit_versions(
    versions: *const castell_version,
    version_count: usize,
    argument: *const c_void,
    argument_bytes: usize,
    accesses: *const castell_access,
    access_count: usize,
    task: *const castell_task,
) -> c_int {
    in_task(|context: &Context<'_>| {
        // SAFETY: the caller's promise.
        unsafe {
            let given = Given::new(argument, argument_bytes, accesses, access_count, task)?;
            if given.attributes.kind != LeafKind::CPU {
                let why = "a task with versions runs where one of them does: leave its `device` 0";
                return Err(Failure::new(ARGUMENT, why));
            }
            let is_ranked = task.as_ref().is_some_and(|task| task.flags & RANKED != 0);
            let bodies = Bodies::of(list(versions, version_count, "versions")?, is_ranked)?;
            let versions = bodies.versions;
            if iterate::is_describing() {
                return given.describe(Some(versions), |argument| move |kind| bodies.call(kind, &argument));
            }
            with_task_declarations(given.accesses, |declared| {
                let argument = given.argument();
                let reductions = Reductions::among(given.accesses);
                context.submit_versions_raw(given.attributes, versions, declared, move |_, kind| {
                    reductions.around(|| bodies.call(kind, &argument));
                });
            })?;
        }
        Ok(0)
    })
}
