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
const VERSION: u32 = 2;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Recording(Head),
    /// Kernels that collections are made of; they are numbered from 0 in the order of the file.
    Shape(Shape),
    Register {
        at_ps: u128,
        application: String,
        shape: usize,
        steps: u32,
    },
    Adopt {
        at_ps: u128,
        application: String,
        shape: usize,
        steps: u32,
        on: String,
    },
    Ended {
        at_ps: u128,
        on: String,
    },
    Withdraw {
        at_ps: u128,
        collection: u64,
    },
    Governor {
        at_ps: u128,
        level: String,
    },
    Sensor {
        at_ps: u128,
        name: String,
        value: Exact,
    },
    Tick {
        at_ps: u128,
    },
    /// Another strategy takes over.
    Strategy {
        at_ps: u128,
        strategy: Source,
    },
    /// An application's own strategy has a say from now on, or none any more. What it chose are the collections that follow, with one kernel
    /// and one step each: for whoever reads, and nothing follows from it.
    Own {
        at_ps: u128,
        application: String,
        strategy: Option<Source>,
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
pub(crate) struct Exact(pub(crate) f64);

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

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::{Moment, Time};
    use castell_strategy::{Input, Keeper, Kernel, Kernels, Node, ResourceId, ResourceKind};
    use std::io::BufReader;
    use std::sync::Arc;

    /// As `serve` does, between 0 and the year after next.
    #[test]
    fn a_recording_of_years_is_replayed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("years.jsonl");
        let node = || Node::new([("gpu".to_owned(), ResourceKind::Device)]).expect("a name");
        let script = castell_luau::shipped::named("banking").expect("it comes with castell").text.into();
        let source = Source { name: "banking".into(), script, parameters: Vec::new() };
        let mut recording = Recording::create(&path, &node(), &source).expect("it can be made");
        let mut keeper = Keeper::new(node(), source.strategy().expect("a strategy"));
        keeper.take_events();
        let kernel = Kernel { resource: ResourceId(0), step_time: Some(Time::from_us(1)) };
        let kernels = Arc::new(Kernels::new(vec![kernel], Vec::new()).expect("kernels"));
        for days in (0..700).step_by(10) {
            let at = |s: u64| Moment::from_ns((days * 86_400 + s) * 1_000_000_000);
            let application = "a".into();
            let register = Input::Register { application, kernels: kernels.clone(), steps: 1 };
            for (now, input) in
                [(at(1), register), (at(7), Input::Tick), (at(8), Input::Ended(ResourceId(0)))]
            {
                keeper.apply(now, input.clone()).expect("it can happen");
                while keeper.decide() {}
                recording.input(now, &input);
                keeper.take_events().iter().for_each(|event| recording.event(event));
            }
        }
        recording.end();
        let file = BufReader::new(std::fs::File::open(&path).expect("it is there"));
        let replayed = replay(file, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((replayed.difference, replayed.is_cut, replayed.inputs), (None, false, 210));
        assert!(replayed.until > Moment::from(Time::MAX), "{}", replayed.until);
    }
}
