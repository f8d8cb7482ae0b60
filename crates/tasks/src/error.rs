//! What can go wrong with a task or a runtime.

use std::any::Any;

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
    /// A task's body returned an error.
    #[error("task `{label}` failed: {message}; its successors were skipped")]
    Failed {
        /// The label of the task.
        label: String,
        /// The error as text.
        message: String,
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

/// A failure on its way to a wait.
pub(crate) struct Fault {
    pub(crate) error: TaskError,
}

/// The text of a panic's payload.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(a payload that is no text)".to_owned())
}
