//! Paraver traces (`.prv`), as Extrae writes them of MPI programs, become GOAL programs.
//!
//! `docs/src/traces.md` says what becomes what. [`read`] goes in four steps: `header` and `records` read the text into
//! tables, `calls` finds each thread's MPI calls, `collectives` finds the calls that belong together and
//! `algorithms` what messages stand for them, `convert` builds the graphs.

mod algorithms;
mod calls;
mod collectives;
mod convert;
mod error;
mod header;
mod note;
mod records;

pub use error::ParaverError;
pub use note::Note;

use crate::program::Program;

/// What a trace became.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// A rank a task, tasks of several applications one behind the other.
    pub program: Program,
    /// What is not in the program, and what stands for what is not in the trace.
    pub notes: Vec<Note>,
}

/// How a trace begins.
pub const MAGIC: &[u8] = b"#Paraver";

/// Converts a trace: computation between MPI calls becomes `calc`, each communication record a send and a receive with
/// its size and tag, collective calls the messages of a usual algorithm; the calls of a thread wait for one another in
/// their order, immediate ones only for the start.
///
/// # Errors
/// Text that is no trace; collective calls that do not belong together; more than 2^27 operations for collective calls.
///
/// ```
/// let trace = "#Paraver (22/11/2026 at 10:00):1000_ns:1(2):1:2(1:1,1:1),0\n\
///              2:1:1:1:1:400:50000001:1\n\
///              2:2:1:2:1:100:50000001:2\n\
///              3:1:1:1:1:400:450:2:1:2:1:100:700:64:5\n\
///              2:1:1:1:1:500:50000001:0\n\
///              2:2:1:2:1:700:50000001:0\n";
/// let conversion = castell_goal::paraver::read(trace.as_bytes())?;
/// let mut text = String::new();
/// castell_goal::text::print(&conversion.program, &mut text).unwrap();
/// assert!(text.contains("v0: calc 400\nv1: send 64b to 1 tag 5\nv1 requires v0\n"));
/// assert!(text.contains("v0: calc 100\nv1: recv 64b from 0 tag 5\nv1 requires v0\n"));
/// # Ok::<(), castell_goal::paraver::ParaverError>(())
/// ```
pub fn read(trace: &[u8]) -> Result<Conversion, ParaverError> {
    let trace = records::read(trace)?;
    let threads: Vec<_> = trace.threads.iter().map(|thread| calls::find(thread, &trace.messages)).collect();
    let collectives = collectives::Collectives::find(&trace, &threads)?;
    convert::convert(&trace, &threads, &collectives)
}
