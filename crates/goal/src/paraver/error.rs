//! What can be wrong with a trace, and how it is said.

use crate::graph::GraphError;
use castell_base::Rank;

/// Why a Paraver trace cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParaverError {
    /// The first line is not as Paraver's.
    #[error(
        "line 1 is no header of a Paraver trace: expected {expected}, as in \
         #Paraver (dd/mm/yyyy at hh:mm):duration_ns:nodes(processors):applications:tasks(threads:node,…)"
    )]
    Header {
        /// What is missing or wrong.
        expected: &'static str,
    },
    /// A line that is no record.
    #[error("line {line}: expected {expected}")]
    Record {
        /// Line, from 1.
        line: u64,
        /// What may stand there.
        expected: &'static str,
    },
    /// A record of a task or thread that the header does not know.
    #[error(
        "line {line} names task {task}, thread {thread} of application {application}, which the header does not have"
    )]
    NoSuchThread {
        /// Line, from 1.
        line: u64,
        /// Application, from 1.
        application: u64,
        /// Task, from 1.
        task: u64,
        /// Thread, from 1.
        thread: u64,
    },
    /// A tag that MPI does not allow either.
    #[error("line {line}: the tag {tag} is too large: at most 2147483647")]
    Tag {
        /// Line, from 1.
        line: u64,
        /// The tag.
        tag: u64,
    },
    /// A time that does not fit into 64 bits of nanoseconds.
    #[error("line {line}: the time {time} is too large")]
    Time {
        /// Line, from 1.
        line: u64,
        /// The time, in the trace's unit.
        time: u64,
    },
    /// More communicating threads than GOAL has processors a rank.
    #[error("task {task}: thread {thread} communicates, but a rank has at most 256 processors in GOAL")]
    ThreadBeyond {
        /// Task, from 1.
        task: u64,
        /// Thread, from 1.
        thread: u64,
    },
    /// A collective call on a communicator without the caller.
    #[error(
        "rank {rank} calls {call} at {time_ns} ns on communicator {communicator}, of which it is no member"
    )]
    NotMember {
        /// Who calls.
        rank: Rank,
        /// MPI's name of the call.
        call: &'static str,
        /// When.
        time_ns: u64,
        /// The communicator's number.
        communicator: u64,
    },
    /// Members of a communicator that call different operations.
    #[error(
        "communicator {communicator}: in its collective call number {number}, rank {rank} calls {call} at {time_ns} ns, but \
         rank {other} calls {other_call}; a trace whose beginning is cut off cannot be converted: convert the whole one"
    )]
    CollectivesDiffer {
        /// The communicator's number.
        communicator: u64,
        /// Which call, from 1.
        number: usize,
        /// A member.
        rank: Rank,
        /// What it calls.
        call: &'static str,
        /// When.
        time_ns: u64,
        /// Another member.
        other: Rank,
        /// What that calls.
        other_call: &'static str,
    },
    /// Collective calls that would become too many operations.
    #[error(
        "the collective calls would become {operations} sends and receives: at most {max} are made; convert a shorter \
         piece of the trace",
        max = super::collectives::OPERATIONS_MAX
    )]
    CollectivesMany {
        /// So many.
        operations: u64,
    },
    /// A graph refused an operation.
    #[error("rank {rank}: {error}")]
    Graph {
        /// Whose.
        rank: Rank,
        /// Why.
        error: GraphError,
    },
}
