//! Which of the formats some bytes are in, told by the bytes themselves.

use crate::binary::{self, BinaryError};
use crate::paraver::{self, ParaverError};
use crate::program::Program;
use crate::schedule_set::{self, ScheduleSet, SetFormatError};
use crate::text::{self, ParseErrors};
use castell_base::{OwnThread, Threads};

/// How files of gzip begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A format for whole programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// GOAL text.
    Text,
    /// LogGOPSim's binary.
    LogGopSim,
    /// Compiled schedules of all ranks.
    Schedules,
    /// A Paraver trace, which is converted.
    Paraver,
}

impl Format {
    /// The format in which these bytes begin; text is whatever is nothing else.
    pub fn of(bytes: &[u8]) -> Format {
        if bytes.starts_with(&schedule_set::MAGIC) {
            Format::Schedules
        } else if binary::is_loggopsim(bytes) {
            Format::LogGopSim
        } else if bytes.starts_with(paraver::MAGIC) {
            Format::Paraver
        } else {
            Format::Text
        }
    }
}

/// What a file holds.
#[derive(Clone, Debug)]
pub enum Contents {
    /// Graphs that can be changed and compiled.
    Program(Program),
    /// Graphs that have been compiled.
    Schedules(ScheduleSet),
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nothing in it.
    #[error("{0}: the file is empty")]
    Empty(String),
    /// Bytes that are none of the formats.
    #[error(
        "{0}: neither GOAL text nor a binary that is known here: byte {1} is no text, and the file begins neither like \
         LogGOPSim's binaries nor like compiled schedules"
    )]
    Unknown(String, usize),
    /// Wrong text.
    #[error("{0}")]
    Text(ParseErrors),
    /// A wrong binary of LogGOPSim's.
    #[error("{0}: {1}")]
    LogGopSim(String, BinaryError),
    /// Wrong compiled schedules.
    #[error("{0}: {1}")]
    Schedules(String, SetFormatError),
    /// A trace that cannot be converted.
    #[error("{0}: {1}")]
    Paraver(String, ParaverError),
    /// A compressed file.
    #[error("{0}: the file is compressed; unpack it first (gunzip)")]
    Compressed(String),
}

/// Reads bytes in whatever format they are; `name` is the file's, for messages. What a converted trace does not say by
/// itself is not told here: [`paraver::read`] does. Compiled schedules with addresses are
/// refused unless `trusting_addresses`, which is right only to look at them.
///
/// # Errors
/// What the format's own reader says.
///
/// ```
/// use castell_goal::file::{self, Contents};
/// let contents = file::read(b"num_ranks 1\nrank 0 { calc 5 }", "small.goal", false)?;
/// assert!(matches!(contents, Contents::Program(program) if program.operations() == 1));
/// # Ok::<(), file::ReadError>(())
/// ```
pub fn read(bytes: &[u8], name: &str, trusting_addresses: bool) -> Result<Contents, ReadError> {
    read_on(bytes, name, trusting_addresses, &OwnThread)
}

/// As [`read`], on threads that the caller lends: text is read faster with several.
///
/// # Errors
/// As [`read`].
pub fn read_on(
    bytes: &[u8],
    name: &str,
    trusting_addresses: bool,
    threads: &dyn Threads,
) -> Result<Contents, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Empty(name.into()));
    }
    match Format::of(bytes) {
        Format::LogGopSim => {
            let program = binary::read(bytes).map_err(|error| ReadError::LogGopSim(name.into(), error))?;
            Ok(Contents::Program(program))
        }
        Format::Schedules => {
            let set = match trusting_addresses {
                true => ScheduleSet::from_bytes_trusting_addresses(bytes),
                false => ScheduleSet::from_bytes(bytes),
            };
            Ok(Contents::Schedules(set.map_err(|error| ReadError::Schedules(name.into(), error))?))
        }
        Format::Paraver => {
            let conversion = paraver::read(bytes).map_err(|error| ReadError::Paraver(name.into(), error))?;
            Ok(Contents::Program(conversion.program))
        }
        Format::Text if bytes.starts_with(&GZIP) => Err(ReadError::Compressed(name.into())),
        Format::Text => {
            let program = text::parse_on(bytes, name, threads);
            program.map(Contents::Program).map_err(|errors| match control_byte(bytes) {
                Some(at) => ReadError::Unknown(name.into(), at),
                None => ReadError::Text(errors),
            })
        }
    }
}

/// Where the first byte of the first lines stands that no text has.
fn control_byte(bytes: &[u8]) -> Option<usize> {
    let first = &bytes[..bytes.len().min(4096)];
    first.iter().position(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}

impl Contents {
    /// The program, taken back from its schedules where it was compiled.
    pub fn into_program(self) -> Program {
        match self {
            Contents::Program(program) => program,
            Contents::Schedules(set) => set.to_program(),
        }
    }
}
