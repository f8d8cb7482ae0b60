//! What is predicted about sessions beside each other, as it is told to people.

use super::foreseen::Slowdown;
use serde::{Deserialize, Serialize};

/// By which factor a session's program is expected to run longer beside others than alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// The most likely factor.
    pub slowdown: Slowdown,
    /// The truth lies from here,
    pub low: Slowdown,
    /// to here, in 90 of 100 cases.
    pub high: Slowdown,
    /// Comparisons of these programs that it comes from.
    pub comparisons: u64,
    /// Whether it follows from a probe alone.
    #[serde(default)]
    pub foretold: bool,
    /// Whether too much is left open for an answer.
    pub cannot_tell: bool,
    /// The same as a sentence, with where it comes from.
    pub because: String,
}

/// A session that runs beside another one, on whatever processors of the same node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Its number.
    pub session: u64,
    /// What it runs.
    pub command: String,
    /// What it does to the one that was asked about; none where nothing is known.
    pub slows: Option<Predicted>,
    /// What the one that was asked about does to it.
    pub slowed: Option<Predicted>,
}

/// Why a session does not start beside another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldBack {
    /// Who runs already.
    pub beside: u64,
    /// Which of the two would be slowed down too much.
    pub slowed: u64,
    /// How much, beside all that run there.
    pub slowdown: Slowdown,
    /// How much is allowed.
    pub slowdown_max: Slowdown,
}
