//! What can be wrong with jobs, slowdowns and nodes.

use thiserror::Error;

/// Why jobs cannot be read, counted or placed.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A line of a list of jobs is no job.
    #[error("line {line} of the jobs: {reason}; a line is NAME or NAME,INSTANCES")]
    Job {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A line of a table of slowdowns is wrong.
    #[error("line {line} of the slowdowns: {reason}")]
    Slowdown {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The slowdowns say nothing about a program.
    #[error("the slowdowns have no row or column for {0:?}; add one, or leave the program out of the jobs")]
    Unknown(String),
    /// More jobs than there are slots.
    #[error(
        "{jobs} jobs need more than the {slots} slots of these nodes; give more nodes or more slots a node"
    )]
    TooManyJobs {
        /// Jobs to place.
        jobs: u64,
        /// Slots there are.
        slots: u64,
    },
    /// A line of a curve of run times is wrong.
    #[error("line {line} of the run times: {reason}")]
    Curve {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The optimum was asked for, and nothing is known to find it by.
    #[error("the optimum needs slowdowns: give a table, or take the rule twins, which needs nothing")]
    NoSlowdowns,
    /// No placement keeps every job below the slowdown that is allowed.
    #[error(
        "no placement on {nodes} nodes was found in which every job stays at or below {:.1} % slowdown; {enough} nodes are enough, or allow more",
        (slowdown_max - 1.0) * 100.0
    )]
    TooSlow {
        /// The factor that no job may exceed.
        slowdown_max: f64,
        /// Nodes there are.
        nodes: u64,
        /// Nodes with which it is possible.
        enough: u64,
    },
    /// Too large to be done exactly.
    #[error("{what} would take more than {limit}; {instead}")]
    TooLarge {
        /// What was asked for.
        what: &'static str,
        /// The bound that it exceeds.
        limit: String,
        /// What can be done.
        instead: &'static str,
    },
}
