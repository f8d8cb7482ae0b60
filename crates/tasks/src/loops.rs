//! Loops as tasks: many tasks of some iterations each, or one task that several workers run.

use crate::context::{Context, NewTask};
use crate::data::{Accesses, Request, mode};
use crate::schedulable::Schedulable as _;
use castell_base::sync::{AtomicUsize, Ordering};
use std::ops::{Deref as _, DerefMut as _, Range};
use std::ptr::NonNull;
use std::sync::Arc;

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
        share(self, range, chunk, None, body);
    }

    /// As [`Context::share_loop`]; whoever takes part does so inside a call of `around`, which calls once what it is given.
    pub fn share_loop_around(
        &self,
        range: Range<usize>,
        chunk: usize,
        around: &(dyn Fn(&mut dyn FnMut()) + Sync),
        body: &(dyn Fn(&Context<'_>, Range<usize>) + Sync),
    ) {
        share(self, range, chunk, Some(around), body);
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
            share(context, range, chunk, None, &|context: &Context<'_>, part: Range<usize>| {
                // SAFETY: the guards' lifetime is that of this body, which waits for all who run the loop. What they call
                // sees it as the lifetime of their own, shorter view of the runtime.
                let guards = unsafe { NonNull::from(&guards).cast::<A::Guards<'_>>().as_ref() };
                body(context, part, guards);
            });
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
            share(context, 0..length, chunk, None, &|context: &Context<'_>, part: Range<usize>| {
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

/// A loop's body, as those who help see it.
type Body<'a> = dyn Fn(&Context<'_>, Range<usize>) + Sync + 'a;

/// What each who takes part does before and after.
type Around<'a> = dyn Fn(&mut dyn FnMut()) + Sync + 'a;

/// What those who help need of a loop, on the stack of its task.
struct Loop<'a> {
    next: AtomicUsize,
    end: usize,
    chunk: usize,
    around: Option<&'a Around<'a>>,
    body: &'a Body<'a>,
}

/// Runs `body` over `range` together with whoever comes to help; returns when all is done.
fn share(
    context: &Context<'_>,
    range: Range<usize>,
    chunk: usize,
    around: Option<&Around<'_>>,
    body: &Body<'_>,
) {
    let chunk = chunk.max(1);
    let chunks = range.len().div_ceil(chunk);
    let work = Loop { next: AtomicUsize::new(range.start), end: range.end, chunk, around, body };
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
        match self.around {
            Some(around) => around(&mut || self.run_chunks(context)),
            None => self.run_chunks(context),
        }
    }

    fn run_chunks(&self, context: &Context<'_>) {
        loop {
            // Relaxed: who gets which part is all that this says; the data is ordered by the group.
            let start = self.next.load(Ordering::Relaxed);
            if start >= self.end || context.is_cancelled() {
                return;
            }
            let end = self.end.min(start.saturating_add(self.chunk));
            if self.next.compare_exchange(start, end, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                (self.body)(context, start..end);
            }
        }
    }
}
