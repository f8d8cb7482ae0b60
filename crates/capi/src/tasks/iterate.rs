//! Loops whose iterations have the same tasks: `castell_iterate` has the tasks of one described, and runs them again and again.
//!
//! While a thread describes, the functions that create tasks add to its graph instead.

use super::failure::{ARGUMENT, Failure, in_task};
use castell_tasks::dependences::Declaration;
use castell_tasks::replay::TaskGraph;
use castell_tasks::task::Attributes;
use castell_tasks::versions::Versions;
use castell_tasks::{Context, LeafKind};
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};

thread_local! {
    /// What the function on top of the stack describes.
    static DESCRIBED: RefCell<Option<TaskGraph<'static>>> = const { RefCell::new(None) };
    /// The iteration of the body on top of the stack, and whether it is one of a loop.
    static ITERATION: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Sets the number for the body that it runs, and then the one before.
struct Entered(Option<u64>);

impl Drop for Entered {
    fn drop(&mut self) {
        ITERATION.set(self.0);
    }
}

/// Describes the tasks of an iteration; anything but 0: it gave up.
type Describe = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Whether the calling thread describes tasks instead of creating them.
pub(super) fn is_describing() -> bool {
    DESCRIBED.with_borrow(Option::is_some)
}

/// For functions that are of no use there.
pub(super) fn refuse_describing(what: &str) -> Result<(), Failure> {
    if is_describing() {
        let why = "castell_iterate calls its function to have tasks described, before any of them runs";
        return Err(Failure::new(ARGUMENT, format!("{what} cannot be called here: {why}")));
    }
    Ok(())
}

/// Whether a task can be described: `refused` are flags that it must not have.
pub(super) fn check_flags(attributes: &Attributes, refused: u32) -> Result<(), Failure> {
    if attributes.flags & refused != 0 {
        let why = "in castell_iterate a task is neither CASTELL_FINAL nor CASTELL_UNDEFERRED";
        return Err(Failure::new(ARGUMENT, why));
    }
    Ok(())
}

/// Adds a task to what the calling thread describes; `made` is called only if it can be. The body gets the kind of workers that run it.
///
/// # Safety
/// As for `castell_submit`, for every call of the body.
pub(super) unsafe fn describe<B: Fn(LeafKind) + Send + Sync + 'static>(
    attributes: Attributes,
    versions: Option<Versions>,
    declared: &[Declaration],
    made: impl FnOnce() -> B,
) -> Result<(), Failure> {
    DESCRIBED.with_borrow_mut(|graph| {
        let graph = graph.as_mut().ok_or_else(|| Failure::new(ARGUMENT, "nothing is described here"))?;
        TaskGraph::check(declared)?;
        let body = made();
        let run = move |iteration, kind| {
            let _entered = Entered(ITERATION.replace(Some(iteration)));
            body(kind);
        };
        // SAFETY: the caller's promise.
        unsafe {
            match versions {
                None => graph.task_with(attributes, declared, move |context: &Context<'_>, iteration| {
                    run(iteration, context.kind());
                }),
                Some(versions) => {
                    let run = move |_: &Context<'_>, iteration, kind| run(iteration, kind);
                    graph.task_with_versions(attributes, versions, declared, run)
                }
            }
        }?;
        Ok(())
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn castell_iterate(
    describe: Option<Describe>,
    argument: *mut c_void,
    iterations: u64,
) -> c_int {
    in_task(|context| {
        let describe = describe.ok_or_else(|| Failure::new(ARGUMENT, "the function is NULL"))?;
        refuse_describing("castell_iterate")?;
        DESCRIBED.set(Some(TaskGraph::new()));
        // SAFETY: as the header says.
        let given_up = unsafe { describe(argument) } != 0;
        let graph = DESCRIBED.take();
        if given_up {
            return Err(Failure::new(ARGUMENT, "the function gave up describing: nothing has run"));
        }
        graph.expect("only this function takes it").run(context, iterations)?;
        Ok(0)
    })
}

/// In which iteration of the loop the calling task is.
#[unsafe(no_mangle)]
pub extern "C" fn castell_iteration() -> u64 {
    ITERATION.get().unwrap_or(0)
}
