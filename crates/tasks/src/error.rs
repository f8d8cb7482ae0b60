//! What can go wrong with a task or a runtime.

use crate::dependences::Kind;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Why something that was asked of the runtime did not happen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// A task's body panicked; it reaches the wait of the task that created it.
    #[error("task `{label}` panicked: {message}; its successors were skipped")]
    Panicked {
        /// The label of the task.
        label: String,
        /// The panic's message.
        message: String,
    },
    /// A task's body said that it failed.
    #[error("task `{label}` failed: {message}; its successors were skipped")]
    Failed {
        /// The label of the task.
        label: String,
        /// The error as text.
        message: String,
        /// What else the body left for whoever handles it.
        payload: Option<Payload>,
    },
    /// A task was skipped: what it waited for failed, or its group was cancelled.
    #[error("task `{label}` was skipped: what it waited for failed, or its group was cancelled")]
    Skipped {
        /// The label of the task.
        label: String,
    },
    /// Data of another task that is not done.
    #[error(
        "task `{label}` used data that another task owns and that is not done: declare the access where the data is \
         owned, or wait for the owner first"
    )]
    NotOwner {
        /// The task that used it; empty outside of tasks.
        label: String,
    },
    /// An access that graphs which run again cannot have.
    #[error(
        "a graph that runs again has no {}{kind} accesses: create such tasks in the body of one that waits for them",
        if *.weak { "weak " } else { "" }
    )]
    NotInGraphs {
        /// What was declared.
        kind: Kind,
        /// Whether weakly.
        weak: bool,
    },
    /// Two requests of one task for the same bytes.
    #[error(
        "task `{label}` asks twice for bytes from {start:#x} (+{length}), and not only to read: ask once, or for parts \
         that do not overlap"
    )]
    Overlap {
        /// The task.
        label: String,
        /// Address of one of them.
        start: usize,
        /// Its length in bytes.
        length: usize,
    },
    /// Declarations of one task that contradict each other.
    #[error("task `{label}` was not created: {source}")]
    Contradiction {
        /// The task.
        label: String,
        /// What contradicts what.
        source: castell_deps::AccessError,
    },
    /// An access that a task made, or passed on to a child, without having declared it.
    #[error(
        "task `{label}` did not declare {kind} for {length} bytes from {start:#x}: add the access to its declarations"
    )]
    Undeclared {
        /// The task.
        label: String,
        /// What it did, or passed on.
        kind: Kind,
        /// Address of the first byte that it did not declare.
        start: usize,
        /// How many bytes from there on.
        length: usize,
    },
    /// A body touched watched memory without having declared it.
    #[error(
        "task `{label}` {} {address:#x} without having declared that; it declared [{declared}]: add the access to its \
         declarations",
        if *.writes { "wrote to" } else { "read" }
    )]
    Touched {
        /// The task.
        label: String,
        /// Whether it wrote, or only read.
        writes: bool,
        /// The first such address.
        address: usize,
        /// What the task declared.
        declared: String,
    },
    /// Memory could not be had.
    #[error("no {bytes} bytes of watched memory: {reason}")]
    NoMemory {
        /// How much was wanted.
        bytes: usize,
        /// The system's message.
        reason: String,
    },
    /// More tasks exist than the runtime may hold, and none of them can run.
    #[error(
        "task `{label}` was not created: {live} tasks exist, none of them can run, and the limit is {limit}: wait \
         before creating more, or raise the limit"
    )]
    TooManyTasks {
        /// The task that was to be created.
        label: String,
        /// How many exist.
        live: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The process was forked: threads do not survive that.
    #[error(
        "this runtime belongs to the process {owner}, of which this one is a fork: build a runtime of its own here"
    )]
    Forked {
        /// The process that built it.
        owner: u32,
    },
    /// The description of a scheduler or a machine cannot be read.
    #[error(transparent)]
    Description(#[from] castell_sched::SchedError),
    /// That of an environment variable cannot.
    #[error("{name}: {source}")]
    Variable {
        /// Which.
        name: &'static str,
        /// What is wrong.
        source: castell_sched::SchedError,
    },
    /// A task for devices of a kind of which the runtime has none.
    #[error(
        "task `{label}` was not created: no worker of this runtime runs tasks for devices of kind {kind}; register one \
         when the runtime is built"
    )]
    NoDevice {
        /// The task that was to be created.
        label: String,
        /// The kind.
        kind: u8,
    },
    /// A task has versions, and none for any worker of this runtime.
    #[error(
        "task `{label}` was not created: it has versions for {kinds}, and this runtime has no worker of such a kind; give it one for the \
         processors, or register a device when the runtime is built"
    )]
    NoVersion {
        /// The task that was to be created.
        label: String,
        /// What it has versions for, for people.
        kinds: String,
    },
    /// A task has two versions for one kind of workers.
    #[error("task `{label}` was not created: it has two versions for {kind}, of which only one can ever run")]
    VersionTwice {
        /// The task that was to be created.
        label: String,
        /// The kind, for people.
        kind: String,
    },
    /// A device was registered under a kind that devices cannot have.
    #[error("devices have kinds from 1 to 7, not {kind}; 0 stands for the processors")]
    NotADevice {
        /// The kind.
        kind: u8,
    },
    /// The mailbox that a runtime was to have could not be made.
    #[error(transparent)]
    Mailbox(Arc<castell_host::HostError>),
    /// Processors were to be shared with other programs and cannot be.
    #[error(transparent)]
    Board(Arc<castell_host::HostError>),
    /// A worker that is to be taken away is the last one.
    #[error("worker {worker} is the last of its kind: give another one back before taking it away")]
    LastWorker {
        /// Which one.
        worker: usize,
    },
    /// There is no such worker.
    #[error("there is no worker {worker}: this runtime has {workers}, counted from 0")]
    NoSuchWorker {
        /// Which one was named.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// A thread of the runtime could not be started.
    #[error("could not start worker {worker}: {reason}; ask for fewer workers or a smaller stack")]
    NoThread {
        /// Which one.
        worker: usize,
        /// The system's message.
        reason: String,
    },
}

/// Something that travels with a failure, from [`Context::fail_with`](crate::Context::fail_with) to the wait.
#[derive(Clone)]
pub struct Payload(pub Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Payload")
    }
}

/// A failure on its way to a wait.
#[derive(Clone)]
pub(crate) struct Fault {
    pub(crate) error: TaskError,
}

impl Fault {
    /// Whether another task's failure is behind it.
    pub(crate) fn is_consequence(&self) -> bool {
        matches!(self.error, TaskError::Skipped { .. })
    }
}

/// The text of a panic's payload.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(a payload that is no text)".to_owned())
}
