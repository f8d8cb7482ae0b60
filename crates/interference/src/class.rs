//! Classes of programs: N, C and S (Haritatos, Nikas, Goumas and Koziris, COSH 2016, figure 3).
//!
//! Watched is the data that flows towards the core on each link: memory to LLC, LLC to L2, L2 to L1. A cache's reuse CR is what flows
//! out of it towards the core divided by what flows into it. No activity in L1: N. No reuse in any cache: S. Else N where the reuse
//! is mostly in the private caches, C where it is mostly in the last-level one. How data is reused within L1 needs no reading: it
//! shows as less activity.

use crate::normal::ELEVENTHS;
use castell_cachesim::MissRatioCurve;
use std::fmt;

/// What a program does with the resources that it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Streams: data flows through all caches and is used once.
    S,
    /// Lives by the last-level cache.
    C,
    /// Stays in the core and its private caches.
    N,
}

impl Class {
    /// All of them, in the order of the seed's figures.
    pub const ALL: [Class; 3] = [Class::S, Class::C, Class::N];
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Class::S => "S",
            Class::C => "C",
            Class::N => "N",
        })
    }
}

impl std::str::FromStr for Class {
    type Err = ClassError;

    fn from_str(text: &str) -> Result<Class, ClassError> {
        let named = Class::ALL.into_iter().find(|class| class.to_string() == text);
        named.ok_or_else(|| ClassError::Unknown { name: text.to_owned() })
    }
}

/// What cannot be classified.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClassError {
    /// A flow that is no flow.
    #[error("{bytes_per_second} bytes a second into {into}: a flow is a number, 0 or more")]
    NoFlow {
        /// The cache.
        into: &'static str,
        /// What was given.
        bytes_per_second: f64,
    },
    /// A letter that names no class.
    #[error("no class is called {name:?}: they are N, C and S")]
    Unknown {
        /// What was given.
        name: String,
    },
}

/// Bytes a second that flow towards the core into each cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readings {
    l1: f64,
    l2: f64,
    llc: f64,
}

impl Readings {
    /// Bytes a second into L1, into L2 and into the last-level cache.
    ///
    /// # Errors
    /// One of them is negative or not a number.
    pub fn new(into_l1: f64, into_l2: f64, into_llc: f64) -> Result<Readings, ClassError> {
        for (into, bytes_per_second) in [("L1", into_l1), ("L2", into_l2), ("the LLC", into_llc)] {
            if !(bytes_per_second >= 0.0 && bytes_per_second.is_finite()) {
                return Err(ClassError::NoFlow { into, bytes_per_second });
            }
        }
        Ok(Readings { l1: into_l1, l2: into_l2, llc: into_llc })
    }

    /// From the flow out of memory and the two caches' reuse, as the seed's table 2 gives them.
    ///
    /// # Errors
    /// As [`Readings::new`].
    pub fn from_reuse(into_llc: f64, llc_reuse: f64, l2_reuse: f64) -> Result<Readings, ClassError> {
        let into_l2 = into_llc * llc_reuse;
        Readings::new(into_l2 * l2_reuse, into_l2, into_llc)
    }

    /// Without counters: what a miss-ratio curve and the pace of accesses say about caches of these sizes (L1, L2 and the part of
    /// the last-level one that the program has, in blocks).
    ///
    /// # Errors
    /// As [`Readings::new`].
    pub fn of_curve(
        curve: &MissRatioCurve,
        accesses_per_second: f64,
        cache_blocks: [f64; 3],
        block_bytes: f64,
    ) -> Result<Readings, ClassError> {
        let [l1, l2, llc] = cache_blocks.map(|blocks| accesses_per_second * curve.at(blocks) * block_bytes);
        Readings::new(l1, l2, llc)
    }

    /// Bytes a second from L2 into L1.
    pub fn into_l1(&self) -> f64 {
        self.l1
    }

    /// Bytes a second from the last-level cache into L2.
    pub fn into_l2(&self) -> f64 {
        self.l2
    }

    /// Bytes a second from memory into the last-level cache.
    pub fn into_llc(&self) -> f64 {
        self.llc
    }

    /// CR of L2: out of it by into it; 0 where nothing flows at all, infinite where all that flows out was there before.
    pub fn l2_reuse(&self) -> f64 {
        reuse(self.l1, self.l2)
    }

    /// CR of the last-level cache.
    pub fn llc_reuse(&self) -> f64 {
        reuse(self.l2, self.llc)
    }
}

fn reuse(out: f64, into: f64) -> f64 {
    if out <= 0.0 { 0.0 } else { out / into }
}

/// Where the tree divides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Bytes a second into L1 from which on a program is active there: the seed gives no number; its table 2 is met by any in this
    /// range. The geometric middle is taken, and the range counts in the confidence.
    pub l1_active: (f64, f64),
    /// CR from which on there is reuse.
    pub reuse: f64,
    /// Standard errors of the readings, relative to them: of what flows into L1, into L2 and into the last-level cache.
    pub reading_errors: [f64; 3],
}

/// What a reading is off by at least, relative to it.
pub const READING_ERROR: f64 = 0.05;

impl Thresholds {
    /// For a program on so many cores. The seed's programs ran on four.
    pub fn of_cores(cores: usize) -> Thresholds {
        let share = cores.max(1) as f64 / 4.0;
        Thresholds {
            l1_active: (0.7e9 * share, 8.8e9 * share),
            reuse: 2.0,
            reading_errors: [READING_ERROR; 3],
        }
    }

    fn l1_middle(&self) -> f64 {
        (self.l1_active.0 * self.l1_active.1).sqrt()
    }
}

/// What the tree asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Is there activity in L1?
    Activity,
    /// Is there reuse in a cache?
    Reuse,
    /// Is the reuse mostly in the last-level cache?
    InLastLevel,
}

/// A question on the way through the tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// What is asked.
    pub question: Question,
    /// What was read: bytes a second, or a CR.
    pub value: f64,
    /// What it is compared with, in the same unit.
    pub threshold: f64,
    /// Whether the value reaches the threshold.
    pub yes: bool,
    /// The class if it were the other way, all else being equal.
    pub class_otherwise: Class,
}

/// From this confidence down, an answer is called ambiguous.
const AMBIGUOUS: f64 = 0.75;

/// A class, and the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The class.
    pub class: Class,
    /// The questions on the way, in order.
    pub path: Vec<Step>,
    /// How likely the class stands if the readings have the error that the thresholds name, and the threshold of activity lies
    /// anywhere in its range.
    pub confidence: f64,
    readings: Readings,
}

impl Decision {
    /// Whether another class is about as likely.
    pub fn is_ambiguous(&self) -> bool {
        self.confidence < AMBIGUOUS
    }

    /// The decision in a sentence: `S since B_LLC 9.8 GB/s and CR 1.2 < 2 in every cache`.
    pub fn because(&self) -> String {
        let llc = self.readings.llc / 1e9;
        let Some(last) = self.path.last() else { return self.class.to_string() };
        let class = self.class;
        match last.question {
            Question::Activity => format!(
                "{class} since only {:.3} GB/s flow into L1, less than {:.2}",
                last.value / 1e9,
                last.threshold / 1e9
            ),
            Question::Reuse => {
                format!(
                    "{class} since B_LLC {llc:.1} GB/s and CR {:.2} < {} in every cache",
                    last.value, last.threshold
                )
            }
            Question::InLastLevel => {
                let (most, other) = if last.yes {
                    ("the LLC", "the private caches")
                } else {
                    ("the private caches", "the LLC")
                };
                let (most_reuse, other_reuse) =
                    if last.yes { (last.value, last.threshold) } else { (last.threshold, last.value) };
                format!(
                    "{class} since data is reused mostly in {most}: CR {most_reuse:.2}, in {other} {other_reuse:.2}"
                )
            }
        }
    }

    /// What would change the class, a line for each question on the way, the nearest first.
    pub fn what_would_change_it(&self) -> Vec<String> {
        let mut steps: Vec<&Step> =
            self.path.iter().filter(|step| step.class_otherwise != self.class && step.value > 0.0).collect();
        // Equally far ones stay in the order of the path.
        let far = |step: &Step| ((step.threshold / step.value).ln().abs() * 1e9).round();
        steps.sort_by(|a, b| far(a).total_cmp(&far(b)));
        steps.iter().map(|step| step.turned()).collect()
    }
}

impl Step {
    fn turned(&self) -> String {
        let side = if self.yes { "below" } else { "from" };
        let percent = (self.threshold / self.value - 1.0) * 100.0;
        let by = if percent.is_finite() { format!(" ({percent:+.0} %)") } else { String::new() };
        let (name, scale, unit) = match self.question {
            Question::Activity => ("the flow into L1", 1e9, " GB/s"),
            Question::Reuse => ("the largest CR", 1.0, ""),
            Question::InLastLevel => ("the CR of the LLC", 1.0, ""),
        };
        format!(
            "{} if {name}, {:.3}{unit}, were {side} {:.3}{unit}{by}",
            self.class_otherwise,
            self.value / scale,
            self.threshold / scale
        )
    }
}

/// The class of a program with these readings.
///
/// ```
/// use castell_interference::{Class, Readings, Thresholds, class};
///
/// let stream = Readings::from_reuse(9.8e9, 1.0, 1.2)?;
/// let decision = class::classify(&stream, &Thresholds::of_cores(4));
/// assert_eq!(decision.class, Class::S);
/// assert_eq!(decision.because(), "S since B_LLC 9.8 GB/s and CR 1.20 < 2 in every cache");
/// # Ok::<(), castell_interference::class::ClassError>(())
/// ```
pub fn classify(readings: &Readings, thresholds: &Thresholds) -> Decision {
    let active = thresholds.l1_middle();
    let (class, mut path) = walk(readings, active, thresholds.reuse, None);
    for step in &mut path {
        step.class_otherwise = walk(readings, active, thresholds.reuse, Some(step.question)).0;
    }
    Decision { class, path, confidence: confidence(class, readings, thresholds), readings: *readings }
}

/// The class alone: without how sure it is, which costs a thousand times as much.
pub fn class_of(readings: &Readings, thresholds: &Thresholds) -> Class {
    class_at(readings, thresholds.l1_middle(), thresholds.reuse)
}

/// Down the tree; the answer to the question `turned` is turned round.
fn walk(readings: &Readings, active: f64, reuse: f64, turned: Option<Question>) -> (Class, Vec<Step>) {
    let (private, shared) = (readings.l2_reuse(), readings.llc_reuse());
    let mut path = Vec::new();
    let mut ask = |question, value: f64, threshold: f64| {
        let yes = value >= threshold;
        path.push(Step { question, value, threshold, yes, class_otherwise: Class::N });
        yes != (turned == Some(question))
    };
    let class = if !ask(Question::Activity, readings.l1, active) {
        Class::N
    } else if !ask(Question::Reuse, private.max(shared), reuse) {
        Class::S
    } else if ask(Question::InLastLevel, shared, private) {
        Class::C
    } else {
        Class::N
    };
    (class, path)
}

/// The part of the readings and thresholds around the given ones that gives the same class.
fn confidence(class: Class, readings: &Readings, thresholds: &Thresholds) -> f64 {
    let (low, high) = thresholds.l1_active;
    let count = ELEVENTHS.len();
    let [of_l1, of_l2, of_llc] = thresholds.reading_errors;
    let near = |value: f64, deviation: f64, error: f64| value * (deviation * error).exp();
    let mut same = 0;
    for l1 in ELEVENTHS {
        for l2 in ELEVENTHS {
            for llc in ELEVENTHS {
                let moved = Readings {
                    l1: near(readings.l1, l1, of_l1),
                    l2: near(readings.l2, l2, of_l2),
                    llc: near(readings.llc, llc, of_llc),
                };
                for part in 0..count {
                    let active = low * (high / low).powf((part as f64 + 0.5) / count as f64);
                    same += usize::from(class_at(&moved, active, thresholds.reuse) == class);
                }
            }
        }
    }
    same as f64 / count.pow(4) as f64
}

/// As [`walk`], without the way.
fn class_at(readings: &Readings, active: f64, reuse: f64) -> Class {
    let (private, shared) = (readings.l2_reuse(), readings.llc_reuse());
    if readings.l1 < active {
        Class::N
    } else if private.max(shared) < reuse {
        Class::S
    } else if shared >= private {
        Class::C
    } else {
        Class::N
    }
}
