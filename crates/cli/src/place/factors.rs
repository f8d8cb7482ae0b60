//! How slowdowns are written.

use castell_policy::placement::Outcome;
use serde_json::{Value, json};

/// A factor as what it costs more.
pub fn percent(factor: f64) -> String {
    // Without the sign of a nothing below 0.
    let more = (factor - 1.0) * 100.0;
    format!("{:.2} %", if more.abs() < 0.005 { 0.0 } else { more })
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
