//! Readings of counters over time, as they are kept, and the flows that follow from them.

use super::Plan;
use super::tables::Links;
use castell_interference::{Readings, class::ClassError};
use serde::{Deserialize, Serialize};

/// What was read of a program's counters. As JSON this is what `castell profile --record` writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// 1.
    pub version: u32,
    /// What was watched.
    pub program: String,
    /// The processor.
    pub processor: String,
    /// The table of events, or why there are none of the processor's.
    pub table: String,
    /// What to know about the numbers.
    pub notes: Vec<String>,
    /// The events of each link; none without hardware counters.
    pub links: Option<Links>,
    /// Bytes of a line, and of a load.
    pub bytes: [f64; 2],
    /// What was counted.
    pub events: Vec<String>,
    /// Readings, in order of time; the first is before the start.
    pub samples: Vec<Sample>,
}

/// A reading of all events.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Since the start.
    pub seconds: f64,
    /// An event each: its count, and nanoseconds in which it was to be counted and was.
    pub counts: Vec<[u64; 3]>,
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// No such form.
    #[error("this is no recording of counters: {0}")]
    Json(#[from] serde_json::Error),
    /// Of another version.
    #[error("this recording is of version {0}; this castell reads version 1")]
    Version(u32),
    /// Contradicts itself.
    #[error("the recording contradicts itself: {0}")]
    Broken(&'static str),
}

/// An interval of time: what an event counts in it, and which part of the time it was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaled {
    /// The count, scaled up where the event had a counter for a part of the time only.
    pub count: f64,
    /// That part; 1: always.
    pub share: f64,
}

/// Bytes a second on each link, and what else was counted, in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flows {
    /// When it began and ended. Seconds.
    pub from_s: f64,
    /// When it ended.
    pub to_s: f64,
    /// From memory into the LLC.
    pub memory_llc: Option<f64>,
    /// From the LLC into L2.
    pub llc_l2: Option<f64>,
    /// From L2 into L1.
    pub l2_l1: Option<f64>,
    /// From L1 into the core, at a fixed number of bytes a load.
    pub l1_core: Option<f64>,
    /// Instructions a cycle.
    pub ipc: Option<f64>,
    /// Processors kept busy.
    pub busy: Option<f64>,
}

impl Flows {
    /// What classes are decided by; none where a link was not counted.
    ///
    /// # Errors
    /// A flow that is no number.
    pub fn readings(&self) -> Option<Result<Readings, ClassError>> {
        Some(Readings::new(self.l2_l1?, self.llc_l2?, self.memory_llc?))
    }
}

impl Recording {
    /// Of what was read of the events of a plan.
    pub fn of(plan: &Plan, program: String, samples: Vec<Sample>) -> Recording {
        let table = plan.hardware.as_ref().ok();
        Recording {
            version: 1,
            program,
            processor: plan.processor.to_string(),
            table: table.map_or_else(String::new, |table| table.name.clone()),
            notes: plan.notes(),
            links: table.map(|table| table.links.clone()),
            bytes: table.map_or([64.0, 8.0], |table| [table.line_bytes, table.load_bytes]),
            events: plan.events(),
            samples,
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// See [`RecordingError`].
    pub fn parse(text: &str) -> Result<Recording, RecordingError> {
        let recording: Recording = serde_json::from_str(text)?;
        if recording.version != 1 {
            return Err(RecordingError::Version(recording.version));
        }
        let broken = |why| Err(RecordingError::Broken(why));
        if recording.samples.iter().any(|sample| sample.counts.len() != recording.events.len()) {
            return broken("a sample has another number of counts than there are events");
        }
        let times = recording.samples.iter().map(|sample| sample.seconds);
        if !times.clone().all(|time| time.is_finite() && time >= 0.0) || !times.is_sorted() {
            return broken("its times do not ascend");
        }
        Ok(recording)
    }

    /// The whole time; none without two readings.
    pub fn whole(&self) -> Option<Flows> {
        let (first, last) = (self.samples.first()?, self.samples.last()?);
        (last.seconds > first.seconds).then(|| self.between(first, last))
    }

    /// Each interval between two readings.
    pub fn intervals(&self) -> Vec<Flows> {
        let pairs = self.samples.windows(2).filter(|pair| pair[1].seconds > pair[0].seconds);
        pairs.map(|pair| self.between(&pair[0], &pair[1])).collect()
    }

    /// The events that had no counter all the time, with the part that they had.
    pub fn multiplexed(&self) -> Vec<(&str, f64)> {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return Vec::new();
        };
        let shares = self.events.iter().enumerate().map(|(at, name)| {
            let [enabled, running] =
                [1, 2].map(|field| last.counts[at][field].saturating_sub(first.counts[at][field]));
            (name.as_str(), if enabled == 0 { 1.0 } else { running as f64 / enabled as f64 })
        });
        shares.filter(|(_, share)| *share < 0.999).collect()
    }

    /// An event's count over the whole time.
    pub fn count(&self, event: &str) -> Option<Scaled> {
        self.scaled(event, self.samples.first()?, self.samples.last()?)
    }

    fn scaled(&self, event: &str, from: &Sample, to: &Sample) -> Option<Scaled> {
        let at = self.events.iter().position(|name| name == event)?;
        let [value, enabled, running] =
            [0, 1, 2].map(|field| to.counts[at][field].saturating_sub(from.counts[at][field]));
        if enabled > 0 && running == 0 {
            return None;
        }
        let share = if enabled == 0 { 1.0 } else { (running as f64 / enabled as f64).min(1.0) };
        Some(Scaled { count: value as f64 / share, share })
    }

    fn between(&self, from: &Sample, to: &Sample) -> Flows {
        let seconds = to.seconds - from.seconds;
        let sum = |events: &[String], bytes: f64| -> Option<f64> {
            let counts = events.iter().map(|event| Some(self.scaled(event, from, to)?.count));
            Some(counts.sum::<Option<f64>>()? * bytes / seconds)
        };
        let of = |event: &str| Some(self.scaled(event, from, to)?.count);
        let link = |choose: fn(&Links) -> &Vec<String>, bytes| sum(choose(self.links.as_ref()?), bytes);
        let [line, load] = self.bytes;
        Flows {
            from_s: from.seconds,
            to_s: to.seconds,
            memory_llc: link(|links| &links.memory_llc, line),
            llc_l2: link(|links| &links.llc_l2, line),
            l2_l1: link(|links| &links.l2_l1, line),
            l1_core: link(|links| &links.l1_core, load),
            ipc: of("instructions")
                .zip(of("cycles"))
                .and_then(|(done, cycles)| (cycles > 0.0).then(|| done / cycles)),
            busy: of("task-clock").map(|ns| ns / 1e9 / seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(samples: &[(f64, [[u64; 3]; 3])]) -> Recording {
        let name = |name: &str| vec![name.to_owned()];
        Recording {
            version: 1,
            program: "made up".to_owned(),
            processor: String::new(),
            table: String::new(),
            notes: Vec::new(),
            links: Some(Links {
                memory_llc: name("a"),
                llc_l2: name("b"),
                l2_l1: name("b"),
                l1_core: name("c"),
            }),
            bytes: [64.0, 8.0],
            events: ["a", "b", "c"].map(str::to_owned).into(),
            samples: samples
                .iter()
                .map(|(seconds, counts)| Sample { seconds: *seconds, counts: counts.to_vec() })
                .collect(),
        }
    }

    #[test]
    fn flows_follow_from_counts_and_what_was_not_counted_is_scaled_or_left_out() {
        // a: always counted; b: half of the time; c: never.
        let samples = [(0.0, [[0; 3]; 3]), (2.0, [[1000, 100, 100], [500, 100, 50], [0, 100, 0]])];
        let recording = recording(&samples);
        let flows = recording.whole().expect("two readings");
        assert_eq!(flows.memory_llc, Some(1000.0 * 64.0 / 2.0));
        assert_eq!(flows.llc_l2, Some(1000.0 * 64.0 / 2.0));
        assert_eq!((flows.l1_core, flows.ipc), (None, None));
        assert_eq!(recording.multiplexed(), [("b", 0.5), ("c", 0.0)]);
        let text = serde_json::to_string(&recording).expect("JSON");
        assert_eq!(Recording::parse(&text).expect("the same").samples, recording.samples);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let good = recording(&[(0.0, [[0; 3]; 3]), (1.0, [[1; 3]; 3])]);
        let with = |change: fn(&mut Recording)| {
            let mut bad = good.clone();
            change(&mut bad);
            Recording::parse(&serde_json::to_string(&bad).expect("JSON")).expect_err("refused").to_string()
        };
        assert!(with(|bad| bad.version = 2).contains("version 2"));
        assert!(with(|bad| bad.samples[1].seconds = -1.0).contains("times"));
        assert!(with(|bad| bad.events.truncate(2)).contains("number of counts"));
        assert!(Recording::parse("{").is_err());
    }
}
