//! A daemon's day as a file: all that happened to its node from outside, and the log of what was decided.
//!
//! A line of JSON each. The first says what the node was like and who decided; then come what happened, when, and the lines of the log in
//! their order. The log is not needed to have the day again: it follows from the rest, and [`replay`] compares.

mod day;
mod replay;
mod write;

pub use day::{Day, day};
pub use replay::{Difference, RecordingError, Replay, Seen, replay};
pub use write::Recording;

use crate::Source;
use castell_kernels::protocol::Shape;
use serde::{Deserialize, Serialize};

/// The version of the file.
const VERSION: u32 = 1;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Recording(Head),
    /// Kernels that collections are made of; they are numbered from 0 in the order of the file.
    Shape(Shape),
    Register {
        at_ps: u64,
        application: String,
        shape: usize,
        steps: u32,
    },
    Adopt {
        at_ps: u64,
        application: String,
        shape: usize,
        steps: u32,
        on: String,
    },
    Ended {
        at_ps: u64,
        on: String,
    },
    Withdraw {
        at_ps: u64,
        collection: u64,
    },
    Governor {
        at_ps: u64,
        level: String,
    },
    Sensor {
        at_ps: u64,
        name: String,
        value: Exact,
    },
    Tick {
        at_ps: u64,
    },
    /// Another strategy takes over.
    Strategy {
        at_ps: u64,
        strategy: Source,
    },
    /// A line of the log.
    Log(String),
    /// The daemon has ended, and nothing is missing.
    End {},
}

/// What a node was like at the beginning, and who decided.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    version: u32,
    resources: Vec<String>,
    forbids: Vec<(String, Vec<String>)>,
    governor: String,
    sensors: Vec<(String, Exact)>,
    strategy: Source,
}

/// A number as a text that gives the same bits again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Exact(f64);

impl From<Exact> for String {
    fn from(exact: Exact) -> String {
        format!("{:?}", exact.0)
    }
}

impl TryFrom<String> for Exact {
    type Error = std::num::ParseFloatError;

    fn try_from(text: String) -> Result<Exact, Self::Error> {
        Ok(Exact(text.parse()?))
    }
}
