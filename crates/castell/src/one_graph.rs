//! Tasks as vertices of a GOAL graph, and runs that a task's completion waits for.

use castell_comm::{Deferred, Failure, defer};
use castell_tasks::{Context, Event, Runtime};
use std::sync::Arc;

/// A function for [`ScopedGraph::call`](crate::ScopedGraph::call) that makes the vertex a task: each time the vertex is reached,
/// `body` runs as a task of `runtime`, and the vertex is over when that task and all its descendants are done. If one of them fails
/// and nobody below waited for it, the run fails with its error.
///
/// ```
/// use castell::tasks::Runtime;
/// use castell::{Comm, as_task};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let comm = Comm::init()?;
/// let runtime = Arc::new(Runtime::builder().workers(2).build()?);
/// let (sum, doubled) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
/// let add = as_task(&runtime, {
///     let sum = Arc::clone(&sum);
///     move |context| {
///         for number in 1..=4 {
///             let sum = Arc::clone(&sum);
///             context.submit((), move |_, ()| { sum.fetch_add(number, Ordering::Relaxed); });
///         }
///     }
/// });
/// let double = as_task(&runtime, {
///     let (sum, doubled) = (Arc::clone(&sum), Arc::clone(&doubled));
///     move |_| doubled.store(2 * sum.load(Ordering::Relaxed), Ordering::Relaxed)
/// });
/// comm.scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
///     let mut graph = scope.graph();
///     let (add, double) = (graph.call(&add)?, graph.call(&double)?);
///     graph.requires(add, double)?; // after the four small tasks, too
///     Ok(scope.run(&graph.compile()?)?.wait()?)
/// })?;
/// assert_eq!(doubled.load(Ordering::Relaxed), 20);
/// comm.finalize();
/// # Ok(())
/// # }
/// ```
pub fn as_task(
    runtime: &Arc<Runtime>,
    body: impl Fn(&Context<'_>) + Send + Sync + 'static,
) -> impl Fn() + Send + Sync + 'static {
    let (runtime, body) = (Arc::clone(runtime), Arc::new(body));
    move || {
        // Elsewhere than in a run, it is only a way to spawn a task.
        let vertex = Vertex(defer());
        let body = Arc::clone(&body);
        let spawned = runtime.spawn(move |context| {
            let task = context.task().label("vertex").spawn((), move |context, ()| body(context));
            match task.wait(context) {
                Ok(()) => drop(vertex),
                Err(error) => vertex.fail(error),
            }
        });
        if let Err(error) = spawned {
            // The vertex went with what could not be spawned: the next run says so.
            castell_host::say(&format!("a vertex that is a task did not run: {error}"));
        }
    }
}

struct Vertex(Option<Deferred>);

impl Vertex {
    fn fail(mut self, error: impl std::fmt::Display) {
        if let Some(deferred) = self.0.take() {
            deferred.fail(error);
        }
    }
}

/// What to give to [`Scope::run_then`](crate::Scope::run_then) or [`Comm::run_then`](crate::Process::run_then) so that the calling task
/// completes only when that run has ended: its successors get its data then. If the run fails, so does the task.
///
/// ```
/// use castell::tasks::{Runtime, data::Data};
/// use castell::{Comm, Graph, held_until};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let comm = Comm::init()?;
/// let runtime = Runtime::builder().workers(2).build()?;
/// let mut graph = Graph::new();
/// graph.sleep(2_000_000)?; // a message, as a rule
/// let schedule = Arc::new(graph.compile()?);
/// let (there, run) = (comm.clone(), Arc::clone(&schedule));
/// let slept = runtime.run(move |context| {
///     let mut ended = Data::new(false);
///     context.submit(ended.write(), move |context, mut ended| {
///         *ended = true;
///         // SAFETY: the schedule names no memory.
///         let handle = unsafe { there.run_then(&run, held_until(context)) };
///         handle.expect("the schedule fits");
///     });
///     ended.get(context).copied()
/// })??;
/// assert!(slept);
/// comm.finalize();
/// # Ok(())
/// # }
/// ```
pub fn held_until(context: &Context<'_>) -> impl FnOnce(Result<(), Failure>) + Send + 'static {
    let event: Event = context.event();
    move |outcome| match outcome {
        Ok(()) => event.fulfill(),
        Err(failure) => event.fail(failure),
    }
}
