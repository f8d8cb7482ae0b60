//! How slowdowns are written.

use castell_policy::placement::Outcome;
use serde_json::{Value, json};

/// A factor as what it costs more.
pub fn percent(factor: f64) -> String {
    format!("{:.2} %", (factor - 1.0) * 100.0)
}

/// What comes out of a placement.
pub fn outcome_json(outcome: &Outcome) -> Value {
    json!({
        "average": outcome.average,
        "best": outcome.best,
        "worst": outcome.worst,
        "twins": outcome.twins,
    })
}
