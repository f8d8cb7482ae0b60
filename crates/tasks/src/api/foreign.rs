//! For doors to other languages: tasks whose body is a function pointer and whose argument is bytes, and the current task
//! without a [`Context`] at hand.

use crate::api::context::{Context, refuse, settled_for};
use crate::api::runtime::Runtime;
use crate::dependences::Declaration;
use crate::error::TaskError;
use crate::lifecycle::current::Thread;
use crate::lifecycle::execute::{create_sized, submit};
use crate::lifecycle::shared::Shared;
use crate::waiting::pause::{add_events, fulfill, rest, unblock};
use crate::waiting::suspend::suspend;

use crate::lifecycle::extras::{Completion, Suspension};
use crate::lifecycle::task::{Attributes, Task, TaskRef, Verb, flag};
use crate::workers::WorkerId;
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Whether a task may declare all this together: other doors refuse it before they create anything.
///
/// # Errors
/// [`TaskError::Contradiction`].
pub fn check_declarations(label: &str, declared: &[Declaration]) -> Result<(), TaskError> {
    settled_for(label, declared, &mut Vec::new()).map(|_| ())
}

/// A body: gets the address of its argument.
pub type Function = unsafe extern "C" fn(*mut c_void);

/// What lies behind the header of a foreign task; the argument's bytes follow.
#[repr(C, align(16))]
struct Call {
    body: Function,
    /// Called with the argument's address when the task is over, also if it was skipped.
    destroy: Option<Function>,
}

/// Calls `action` with the calling thread's current task; `None` outside of tasks.
#[inline]
pub fn with_context<R>(action: impl FnOnce(&Context<'_>) -> R) -> Option<R> {
    let thread = Thread::current().filter(|thread| !thread.task.get().is_null())?;
    Some(action(&Context::of(thread)))
}

/// Creates a task that calls `body` with the address of a copy of `argument`, aligned to 16 bytes.
///
/// # Safety
/// As for [`Context::submit_raw`]; `body` and `destroy` must be callable on any thread, once, with such an argument, and must
/// not unwind.
#[inline]
pub unsafe fn submit_bytes(
    context: &Context<'_>,
    mut attributes: Attributes,
    declared: &[Declaration],
    body: Function,
    destroy: Option<Function>,
    argument: &[u8],
) {
    let (thread, parent) = (context.thread(), context.current());
    attributes.flags |= flag::REPEATABLE;
    let checked = context.check_passed_on(declared);
    let (mut declared, mut room) = (declared, None);
    let mut refused = None;
    if checked.is_err() || !context.is_usual(&attributes, declared) {
        (declared, refused) = context.look_closer(&mut attributes, declared, &mut room, checked);
    }
    let undeferred = attributes.flags & flag::UNDEFERRED != 0;
    let bytes = size_of::<Call>() + argument.len();
    // SAFETY: the record has room for the call and the argument; the rest is the caller's promise.
    unsafe {
        let references = 1 + u32::from(undeferred);
        let task = create_sized(thread, parent, attributes, bytes, declared.len(), references, run);
        let call = task.as_ref().closure().cast::<Call>();
        call.write(Call { body, destroy });
        call.add(1).cast::<u8>().copy_from_nonoverlapping(argument.as_ptr(), argument.len());
        if let Some(error) = refused {
            refuse(task, *error);
        }
        let is_ours = submit(thread, task, declared);
        if undeferred {
            context.finish_undeferred(task, is_ours);
        }
    }
}

/// A task whose argument is a block that its creator fills in place, aligned as it needs: what OpenMP compilers make.
pub struct Block {
    /// Gets the address of the block.
    pub body: Function,
    /// Gets it in place of the body if the task is skipped.
    pub skipped: Option<Function>,
    /// Bytes of the block.
    pub bytes: usize,
    /// A power of two.
    pub align: usize,
    /// Events besides the end of the body that the task has to see before it completes.
    pub events: u32,
}

/// What lies behind the header of a task with a [`Block`]; the block follows.
#[repr(C, align(16))]
struct BlockCall {
    body: Function,
    skipped: Option<Function>,
    argument: *mut c_void,
    /// Where a large block lies elsewhere: how to give it back.
    elsewhere: Option<Layout>,
}

/// A record cannot be longer than 512 KiB.
const BLOCK_BYTES_MAX: usize = 256 << 10;

/// Creates a task with a [`Block`], which `fill` fills: it gets the task's address, as in [`fulfil_events`], and the block's.
///
/// # Safety
/// As for [`submit_bytes`]; `fill` does not unwind.
pub unsafe fn submit_block(
    context: &Context<'_>,
    mut attributes: Attributes,
    declared: &[Declaration],
    block: &Block,
    fill: impl FnOnce(NonNull<c_void>, *mut c_void),
) {
    let (thread, parent) = (context.thread(), context.current());
    let (mut declared, mut room) = (declared, None);
    let mut refused = None;
    if !context.is_usual(&attributes, declared) {
        (declared, refused) = context.look_closer(&mut attributes, declared, &mut room, Ok(()));
    }
    let undeferred = attributes.flags & flag::UNDEFERRED != 0;
    let layout =
        Layout::from_size_align(block.bytes.max(1), block.align).expect("a block that a compiler made");
    let elsewhere = (block.bytes + block.align > BLOCK_BYTES_MAX).then_some(layout);
    let bytes = size_of::<BlockCall>() + if elsewhere.is_none() { block.bytes + block.align } else { 0 };
    // SAFETY: the record has room for the call and the block; the rest is the caller's promise.
    unsafe {
        let references = 1 + u32::from(undeferred);
        let task = create_sized(thread, parent, attributes, bytes, declared.len(), references, run_block);
        let call = task.as_ref().closure().cast::<BlockCall>();
        let argument = match elsewhere {
            Some(layout) => alloc(layout),
            None => {
                let behind = call.add(1).cast::<u8>();
                behind.add(behind.align_offset(block.align))
            }
        };
        assert!(!argument.is_null(), "no memory for a task's {} bytes", block.bytes);
        let (body, skipped) = (block.body, block.skipped);
        call.write(BlockCall { body, skipped, argument: argument.cast(), elsewhere });
        if block.events > 0 {
            add_events(task.as_ref(), block.events);
        }
        fill(task.cast(), argument.cast());
        if let Some(error) = refused {
            refuse(task, *error);
        }
        let is_ours = submit(thread, task, declared);
        if undeferred {
            context.finish_undeferred(task, is_ours);
        }
    }
}

unsafe fn run_block(_thread: &Thread, task: &Task, verb: Verb) {
    // SAFETY: written by `submit_block`.
    let BlockCall { body, skipped, argument, elsewhere } =
        unsafe { task.closure().cast::<BlockCall>().read() };
    // SAFETY: the caller's promise there.
    unsafe {
        match (verb, skipped) {
            (Verb::Call, _) => body(argument),
            (Verb::Skip, Some(skipped)) => skipped(argument),
            _ => {}
        }
        if let (Some(layout), Verb::Call | Verb::Skip) = (elsewhere, verb) {
            dealloc(argument.cast(), layout);
        }
    }
}

/// A function, and what it is called with.
#[derive(Clone, Copy)]
pub struct Callback {
    /// What is called.
    pub function: Function,
    /// Its argument.
    pub argument: *mut c_void,
}

/// Creates a task without a parent and without accesses: it calls `body`, and `completion` is called when it and its
/// descendants are done, before the runtime counts it as ended.
///
/// # Safety
/// Both may be called on any thread, `completion` once, and do not unwind.
unsafe fn spawn_root(shared: &Arc<Shared>, mut attributes: Attributes, body: Callback, completion: Callback) {
    attributes.flags |= flag::ROOT | flag::REPEATABLE;
    let thread = Thread::new(shared, None);
    shared.roots.begin();
    // SAFETY: the record has room for the call and the argument's address; the rest is the caller's promise.
    unsafe {
        let bytes = size_of::<Call>() + size_of::<Callback>();
        let root = create_sized(&thread, std::ptr::null(), attributes, bytes, 0, 1, run);
        let call = root.as_ref().closure().cast::<Call>();
        call.write(Call { body: call_back, destroy: None });
        call.add(1).cast::<Callback>().write(body);
        let Callback { function: callback, argument } = completion;
        *root.as_ref().extras().completion.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Completion { callback, argument });
        submit(&thread, root, &[]);
    }
}

unsafe extern "C" fn call_back(at: *mut c_void) {
    // SAFETY: `spawn_root` put it there.
    let Callback { function, argument } = unsafe { at.cast::<Callback>().read() };
    // SAFETY: the caller's promise there.
    unsafe { function(argument) };
}

impl Runtime {
    /// Creates a task of its own that calls `body`; `completion` is called when it and its descendants are done.
    ///
    /// # Errors
    /// The process was forked since the runtime was built.
    ///
    /// # Safety
    /// Both may be called on any thread, `completion` once, and do not unwind.
    pub unsafe fn spawn_function(
        &self,
        attributes: Attributes,
        body: Callback,
        completion: Callback,
    ) -> Result<(), TaskError> {
        self.check_process()?;
        // SAFETY: the caller's promise.
        unsafe { spawn_root(self.shared(), attributes, body, completion) };
        Ok(())
    }

    /// How many workers there are, those for devices and those that are taken away included.
    pub fn worker_count(&self) -> usize {
        self.shared().workers.count()
    }
}

unsafe fn run(_thread: &Thread, task: &Task, verb: Verb) {
    let call = task.closure().cast::<Call>();
    // SAFETY: written by `submit_bytes` or `spawn_root`.
    let (Call { body, destroy }, argument) = unsafe { (call.read(), call.add(1).cast::<c_void>()) };
    // SAFETY: the caller's promise there.
    unsafe {
        if verb == Verb::Call {
            body(argument);
        }
        if let (Some(destroy), Verb::Call | Verb::Skip) = (destroy, verb)
            && !task.has(flag::SUSPENDED)
        {
            destroy(argument);
        }
    }
}

impl Context<'_> {
    /// The address of the current task, for [`wake`], [`fulfil_events`] and other languages.
    pub fn address(&self) -> NonNull<c_void> {
        NonNull::from(self.current()).cast()
    }

    /// Whether somebody wants to know what tasks do: then all of them have to be submitted.
    pub fn is_watched(&self) -> bool {
        self.thread().shared.watches
    }

    /// Adds `count` events that [`fulfil_events`] has to fulfil before this task completes.
    pub fn add_events(&self, count: u32) {
        add_events(self.current(), count);
    }

    /// At the end of this body, or of this call of it, the thread that runs it calls what `make` makes; `make` is called only if nobody has
    /// asked for such a thing in this body before.
    pub fn at_end_of_body(&self, make: impl FnOnce() -> Box<dyn FnOnce() + Send>) {
        let task = self.current();
        let mut asked = task.extras().at_end_of_body.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_none() {
            *asked = Some(make());
            // With an event no task ends plainly: its end looks closer.
            add_events(task, 1);
        }
    }

    /// How many events of this task are not fulfilled. Others may fulfil some meanwhile.
    pub fn pending_events(&self) -> u32 {
        let task = self.current();
        // Besides: its body, and that it is suspended.
        let own = 1 + u32::from(task.has(flag::SUSPENDED));
        task.events.pending().saturating_sub(own)
    }

    /// As [`Runtime::spawn_function`], on this task's runtime; the new task has nothing to do with this one.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn spawn_function(&self, attributes: Attributes, body: Callback, completion: Callback) {
        // SAFETY: the caller's promise.
        unsafe { spawn_root(&self.thread().shared, attributes, body, completion) };
    }

    /// When the body of this task is called again if it suspends itself.
    pub fn set_suspension(&self, when: Suspension) {
        *self.current().extras().suspension.lock().unwrap_or_else(PoisonError::into_inner) = when;
    }

    /// Once this body has returned, the task is not over: the body is called again, when [`Context::set_suspension`] says. Only
    /// that and the next return. False if this task's body cannot be called twice: of what this module makes, it can.
    #[must_use = "a task that cannot be suspended ends with its body"]
    pub fn suspend(&self) -> bool {
        suspend(self.current())
    }

    /// Does nothing for `time` while another thread uses the CPU. Wakers have no part in it.
    pub fn rest(&self, time: Duration) {
        rest(self.thread(), time);
    }

    /// The number of the worker that runs this.
    pub fn worker(&self) -> Option<usize> {
        self.thread().worker.get().map(WorkerId::index)
    }

    /// How many workers the runtime has.
    pub fn worker_count(&self) -> usize {
        self.thread().shared.workers.count()
    }

    /// Waits until the children that access the declared regions in a way that conflicts with it are done.
    ///
    /// # Errors
    /// As for [`Context::taskwait`].
    ///
    /// # Safety
    /// The regions lie inside those that the current task may pass on.
    pub unsafe fn wait_for(&self, declared: &[Declaration]) -> Result<(), TaskError> {
        // SAFETY: the caller's promise.
        unsafe { self.wait_for_raw(declared) }
    }

    /// Lets the parts of this task's accesses that lie inside a region go to the successors, before the body ends.
    ///
    /// # Safety
    /// Neither the body nor a child that it creates later touches them again.
    pub unsafe fn release(&self, declared: Declaration) {
        self.release_raw(declared);
    }
}

/// `count` events of the task at `task` ([`Context::address`]) have happened.
///
/// # Safety
/// They were added and not fulfilled yet.
pub unsafe fn fulfil_events(task: NonNull<c_void>, count: u32) {
    // SAFETY: the caller's promise.
    unsafe { fulfill(task.cast(), count) };
}

/// Lets the task at `task` ([`Context::address`]) go on after its pause, or not begin its next.
///
/// # Safety
/// The task has not ended.
pub unsafe fn wake(task: NonNull<c_void>) {
    let task: TaskRef = task.cast();
    // SAFETY: the caller's promise.
    unblock(unsafe { task.as_ref() });
}
