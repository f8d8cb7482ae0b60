//! Loops as tasks: many tasks of some iterations each, or one task that several workers run.

use crate::api::context::{Context, NewTask};
use crate::api::data::{Accesses, Elements, Reducing, Reduction, Request, mode};
use crate::scheduler::schedulable::Schedulable as _;
use castell_base::sync::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::ops::{Deref as _, DerefMut as _, Range};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

impl Context<'_> {
    /// Creates a task for every `grain` iterations of `range`, with the accesses that `accesses` makes for them.
    pub fn taskloop<A: Accesses>(
        &self,
        range: Range<usize>,
        grain: usize,
        accesses: impl Fn(Range<usize>) -> A,
        body: impl for<'b> Fn(&Context<'b>, Range<usize>, A::Guards<'b>) + Send + Sync + 'static,
    ) {
        let body = Arc::new(body);
        for part in parts(range, grain) {
            let body = Arc::clone(&body);
            let wanted = accesses(part.clone());
            self.task().label("taskloop").submit(wanted, move |context, guards| body(context, part, guards));
        }
    }
}

impl Context<'_> {
    /// Runs `body` over `range`, `chunk` at a time, together with the workers that come to help; returns when all is done. A
    /// failure becomes that of this task.
    pub fn share_loop(
        &self,
        range: Range<usize>,
        chunk: usize,
        body: &(dyn Fn(&Context<'_>, Range<usize>) + Sync),
    ) {
        share(self, range, chunk, &|context, next| run_chunks(context, next, body));
    }

    /// As [`Context::share_loop`]; whoever takes part does so inside a call of `around`, which calls once what it is given.
    pub fn share_loop_around(
        &self,
        range: Range<usize>,
        chunk: usize,
        around: &(dyn Fn(&mut dyn FnMut()) + Sync),
        body: &(dyn Fn(&Context<'_>, Range<usize>) + Sync),
    ) {
        share(self, range, chunk, &|context, next| around(&mut || run_chunks(context, next, body)));
    }
}

/// `range` in pieces of `grain`.
fn parts(range: Range<usize>, grain: usize) -> impl Iterator<Item = Range<usize>> {
    let grain = grain.max(1);
    let end = range.end;
    range.step_by(grain).map(move |start| start..end.min(start.saturating_add(grain)))
}

impl NewTask<'_, '_> {
    /// One task whose iterations are run by as many workers as come, `chunk` at a time: a worksharing loop. All of them
    /// share the guards.
    pub fn submit_for<A: Accesses>(
        self,
        range: Range<usize>,
        chunk: usize,
        accesses: A,
        body: impl for<'b> Fn(&Context<'b>, Range<usize>, &A::Guards<'b>) + Send + Sync + 'static,
    ) where
        for<'b> A::Guards<'b>: Sync,
    {
        self.submit(accesses, move |context, guards| {
            context.share_loop(range, chunk, &|context: &Context<'_>, part: Range<usize>| {
                // SAFETY: the guards' lifetime is that of this body, which waits for all who run the loop. What they call
                // sees it as the lifetime of their own, shorter view of the runtime.
                let guards = unsafe { NonNull::from(&guards).cast::<A::Guards<'_>>().as_ref() };
                body(context, part, guards);
            });
        });
    }

    /// As [`NewTask::submit_for`], with an accumulator for each who takes part; they are combined into the task's own when the loop
    /// is over. With [`Reducing::in_order`] each chunk has one, combined in the order of the iterations: the same result every time.
    pub fn submit_for_reducing<A: Accesses, T: Elements + ?Sized, O: Reduction<T::Element>>(
        self,
        range: Range<usize>,
        chunk: usize,
        accesses: A,
        reducing: Reducing<'_, T, O>,
        body: impl for<'b> Fn(&Context<'b>, Range<usize>, &A::Guards<'b>, &mut T) + Send + Sync + 'static,
    ) where
        for<'b> A::Guards<'b>: Sync,
    {
        let (operation, in_order) = reducing.operation();
        self.submit((accesses, reducing), move |context, (guards, private)| {
            let whole = Mutex::new(private);
            let chunks = Mutex::new(BTreeMap::new());
            let lock = || whole.lock().unwrap_or_else(PoisonError::into_inner);
            share(context, range, chunk, &|context, next| {
                // SAFETY: as in `submit_for`.
                let guards = unsafe { NonNull::from(&guards).cast::<A::Guards<'_>>().as_ref() };
                let mut copy = None;
                while let Some(part) = next() {
                    let mut own = copy.take().unwrap_or_else(|| lock().fresh(&*operation));
                    let start = part.start;
                    body(context, part, guards, T::view(&mut own));
                    if in_order {
                        chunks.lock().unwrap_or_else(PoisonError::into_inner).insert(start, own);
                    } else {
                        copy = Some(own);
                    }
                }
                copy.into_iter().for_each(|copy| lock().combine(&*operation, &copy));
            });
            let chunks = chunks.into_inner().unwrap_or_else(PoisonError::into_inner);
            chunks.values().for_each(|copy| lock().combine(&*operation, copy));
        });
    }

    /// One task whose iterations are run by as many workers as come: each gets `chunk` elements of the data at a time and
    /// the number of the first one.
    pub fn submit_for_chunks<T: Send + Sync + 'static>(
        self,
        data: Request<'_, [T], mode::Write>,
        chunk: usize,
        body: impl Fn(&Context<'_>, usize, &mut [T]) + Send + Sync + 'static,
    ) {
        self.submit(data, move |context, mut data| {
            let length = data.deref().len();
            let start = Start(data.deref_mut().as_mut_ptr());
            context.share_loop(0..length, chunk, &|context: &Context<'_>, part: Range<usize>| {
                // SAFETY: each part is handed out once, and the guard lasts until all are done.
                let elements = unsafe { std::slice::from_raw_parts_mut(start.at(part.start), part.len()) };
                body(context, part.start, elements);
            });
        });
    }
}

/// The start of elements that several threads share out among them.
struct Start<T>(*mut T);
// SAFETY: each thread uses elements of its own.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// The element `index`.
    fn at(&self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}

/// Gives the next part of a loop; `None`: nothing is left.
type Next<'a> = dyn FnMut() -> Option<Range<usize>> + 'a;

/// What each who takes part in a loop does, once.
type Part<'a> = dyn Fn(&Context<'_>, &mut Next<'_>) + Sync + 'a;

/// What those who help need of a loop, on the stack of its task.
struct Loop<'a> {
    next: AtomicUsize,
    end: usize,
    chunk: usize,
    part: &'a Part<'a>,
}

/// Runs all parts that are left.
fn run_chunks(context: &Context<'_>, next: &mut Next<'_>, body: &dyn Fn(&Context<'_>, Range<usize>)) {
    while let Some(part) = next() {
        body(context, part);
    }
}

/// Has `range` run by calls of `part`: here and by whoever comes to help; returns when all is done.
fn share(context: &Context<'_>, range: Range<usize>, chunk: usize, part: &Part<'_>) {
    let chunk = chunk.max(1);
    let chunks = range.len().div_ceil(chunk);
    let work = Loop { next: AtomicUsize::new(range.start), end: range.end, chunk, part };
    let helpers = chunks.saturating_sub(1).min(context.thread().shared.worker_count.saturating_sub(1));
    // Waits also when the body panics: the helpers look at this stack.
    let finished = context.group(|| {
        for _ in 0..helpers {
            let work = Shared(NonNull::from(&work).cast());
            let help = move |context: &Context<'_>, ()| {
                let work = work;
                // SAFETY: the group ends, and with it the stack that holds the loop, only when this task is done.
                unsafe { work.0.as_ref() }.run(context);
            };
            let helper = context.task().label(context.label()).helping();
            helper.on(context.current().kind()).submit((), help);
        }
        work.run(context);
    });
    if let Err(error) = finished {
        context.fail(error);
    }
}

/// A pointer to a loop that is alive while its helpers are.
struct Shared(NonNull<Loop<'static>>);
// SAFETY: what a loop holds is `Sync`.
unsafe impl Send for Shared {}

impl Loop<'_> {
    fn run(&self, context: &Context<'_>) {
        (self.part)(context, &mut || self.next(context));
    }

    fn next(&self, context: &Context<'_>) -> Option<Range<usize>> {
        loop {
            // Relaxed: who gets which part is all that this says; the data is ordered by the group.
            let start = self.next.load(Ordering::Relaxed);
            if start >= self.end || context.is_cancelled() {
                return None;
            }
            let end = self.end.min(start.saturating_add(self.chunk));
            if self.next.compare_exchange(start, end, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Some(start..end);
            }
        }
    }
}
