//! Why a collective call failed.

use super::Operation;
use castell_collectives::collective::CollectiveError;
use castell_engine::{Failure, RunError};
use castell_goal::compile::CompileError;
use castell_goal::graph::GraphError;

/// Why a collective call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {reason}", operation.name())]
pub struct CallError {
    /// The operation.
    pub operation: Operation,
    /// What was wrong.
    pub reason: Reason,
}

/// What was wrong with a call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Reason {
    /// An argument that cannot be; nothing was started.
    #[error("{0}")]
    Argument(String),
    /// The algorithm that was named cannot do it; nothing was started.
    #[error(transparent)]
    Algorithm(#[from] CollectiveError),
    /// Too large for a graph; nothing was started.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Too large for a schedule; nothing was started.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// It could not be started.
    #[error(transparent)]
    Run(#[from] RunError),
    /// It failed: a rank died, or called something else.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Reason {
    pub(crate) fn of(self, operation: Operation) -> CallError {
        CallError { operation, reason: self }
    }
}
