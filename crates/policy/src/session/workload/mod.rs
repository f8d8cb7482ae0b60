//! What sessions come when: read from files, or made from a few numbers.

mod djsb;
mod json;
mod lublin;
mod swf;

pub use djsb::Djsb;
pub use lublin::Lublin;

use super::foreseen::Foreseen;
use super::request::Request;
use std::fmt;

/// More sessions than a workload may have.
pub const JOBS_MAX: usize = 20_000_000;

/// Times of a workload are below this, in milliseconds (about 280 years): sums of them cannot overflow.
pub const TIME_MAX_MS: u64 = 1 << 43;

/// A session to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number in the file; need not be unique.
    pub number: u64,
    /// When it is asked for, in milliseconds.
    pub submit_ms: u64,
    /// How long it runs where nobody disturbs it, in milliseconds.
    pub run_ms: u64,
    /// What it needs; `with` is the index of another job, which comes before it. Its estimate is in milliseconds.
    pub request: Request,
    /// What it is in the terms of the djsb benchmark.
    pub role: Role,
}

/// What a session is in the terms of the djsb benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Neither of the two.
    #[default]
    Other,
    /// The long one.
    Simulation,
    /// A short one, beside it.
    Analysis,
}

/// Sessions in the order in which they come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Where it is from.
    pub name: String,
    /// Sorted by the time at which they are asked for.
    pub jobs: Vec<Job>,
    /// What programs do to each other, where the file says so.
    pub foreseen: Foreseen,
    /// How many processors the machine had, where the file says so.
    pub processors: Option<u32>,
    /// Entries of the file of which no session came.
    pub left_out: LeftOut,
    /// Sessions that came earlier than one before them in the file: they were put in order.
    pub out_of_order: usize,
    /// Lines with more fields than the format has: what is behind those was not read.
    pub long_lines: usize,
}

/// Entries that say too little to run: counts by what is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// No run time, as of jobs that were cancelled while they waited.
    pub never_ran: usize,
    /// Neither processors that they had nor processors that they wanted.
    pub without_processors: usize,
    /// No time at which they were submitted.
    pub without_submission: usize,
}

impl LeftOut {
    /// How many all together.
    pub fn total(self) -> usize {
        self.never_ran + self.without_processors + self.without_submission
    }
}

/// Why a text is no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// A line that cannot be read.
    #[error(
        "line {line}: {found}; a line of the Standard Workload Format has 18 numbers, and comments begin with `;`"
    )]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        found: String,
    },
    /// JSON that is none, or says something else.
    #[error("{0}; see docs/src/sessions.md for the keys of a workload in JSON")]
    Json(String),
    /// A description such as `lublin:jobs=1000` that cannot be read.
    #[error("`{text}`: {found}; write it as in `{example}`")]
    Description {
        /// The text.
        text: String,
        /// What is wrong.
        found: String,
        /// A right one.
        example: &'static str,
    },
    /// No session at all.
    #[error("there is no session in it that could run")]
    Empty,
    /// Too many.
    #[error("more than {JOBS_MAX} sessions")]
    TooMany,
}

impl Workload {
    /// Reads a file: JSON where it begins with `{`, else the Standard Workload Format.
    ///
    /// # Errors
    /// It is neither.
    pub fn read(bytes: &[u8], name: &str) -> Result<Workload, WorkloadError> {
        match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => json::read(bytes, name),
            _ => swf::read(bytes, name),
        }
    }

    /// Makes one from a description: `djsb` or `lublin`, with `:key=value,…` behind it; none where the text is neither.
    ///
    /// # Errors
    /// It is one of them, and wrong.
    pub fn describe(text: &str) -> Option<Result<Workload, WorkloadError>> {
        let (kind, parameters) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "djsb" => Some(Djsb::parse(parameters).map(|djsb| djsb.workload())),
            "lublin" => Some(Lublin::parse(parameters).map(|lublin| lublin.workload())),
            _ => None,
        }
    }

    /// Prints it in the Standard Workload Format: seconds, so that fractions of them are lost, as are priorities, roles, threads
    /// and who talks to whom.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_swf(&self, out: &mut impl fmt::Write) -> fmt::Result {
        swf::write(self, out)
    }

    /// Sorts the sessions, and refuses what has none.
    fn finish(mut self) -> Result<Workload, WorkloadError> {
        if self.jobs.is_empty() {
            return Err(WorkloadError::Empty);
        }
        if self.jobs.len() > JOBS_MAX {
            return Err(WorkloadError::TooMany);
        }
        let pairs = self.jobs.windows(2);
        self.out_of_order = pairs.filter(|pair| pair[1].submit_ms < pair[0].submit_ms).count();
        self.jobs.sort_by_key(|job| job.submit_ms);
        Ok(self)
    }
}

/// Seconds as milliseconds; none for what is negative, not a number, or too long.
fn milliseconds(seconds: f64) -> Option<u64> {
    let ms = (seconds * 1e3 + 0.5).floor();
    (ms >= 0.0 && ms < TIME_MAX_MS as f64).then_some(ms as u64)
}

/// `key=value,…` one by one; nothing in an empty text.
fn settings<'a>(
    text: &'a str,
    example: &'static str,
) -> impl Iterator<Item = Result<(&'a str, &'a str), WorkloadError>> {
    let items = text.split(',').filter(move |_| !text.is_empty());
    items.map(move |item| {
        let pair = item.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        pair.ok_or_else(|| wrong(item, "a key without a value", example))
    })
}

/// A number in a description, within bounds.
fn number(value: &str, low: f64, high: f64, example: &'static str) -> Result<f64, WorkloadError> {
    let parsed = value.parse::<f64>().ok().filter(|number| (low..=high).contains(number));
    parsed.ok_or_else(|| wrong(value, format!("expected a number from {low} to {high}"), example))
}

fn wrong(text: &str, found: impl Into<String>, example: &'static str) -> WorkloadError {
    WorkloadError::Description { text: text.to_owned(), found: found.into(), example }
}
