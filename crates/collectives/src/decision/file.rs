//! Tuning files: what was found out on a machine, as TOML.

use super::{Decisions, Operation, Question};
use crate::collective::{ALGORITHMS, Collective, Shape};
use castell_model::{Model, Plb};
use serde::Deserialize;
use std::fmt::{self, Write};

/// The version that is written and read.
const FORMAT: i64 = 1;
/// More rules than this no tuning finds.
const RULES_MAX: usize = 4096;
/// The algorithm of rules that leave the word to the model.
const MODEL: &str = "model";

/// The machine that a tuning file is for: on another one its choices mean nothing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name, for people: a machine like it may use the file, too.
    pub host: String,
    /// The processors' model.
    pub processor: String,
    /// How many of them are there.
    pub processors: u32,
    /// What messages go over.
    pub transport: String,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({} processors, {}) over {}",
            self.host, self.processors, self.processor, self.transport
        )
    }
}

/// What an algorithm took when its rule was made, for people and for later comparisons. Microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Measured {
    /// By the model's formula.
    pub predicted_us: Option<f64>,
    /// In the simulator.
    pub simulated_us: Option<f64>,
    /// For real, the median.
    pub measured_us: Option<f64>,
}

/// For which calls which algorithm is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The operation.
    pub operation: Operation,
    /// From how many ranks to how many.
    pub ranks: (u32, u32),
    /// From this size ([`Question::bytes`]).
    pub bytes_min: u64,
    /// Up to this size.
    pub bytes_max: u64,
    /// The algorithm with its operation, as in `allreduce:a4,a2`; `allreduce:model` and `barrier:model` are the best word
    /// under the fitted model.
    pub algorithm: String,
    /// Messages a round.
    pub ways: u32,
    /// Size of a segment. Bytes.
    pub segment_bytes: u64,
    /// What was measured.
    pub measured: Measured,
    keeps_order: bool,
}

impl Rule {
    /// A rule for calls of `operation` with these ranks and up to so many bytes; `algorithm` is what stands behind the colon.
    ///
    /// # Errors
    /// An algorithm that the operation does not have, a word that does not fit the ranks.
    pub fn new(
        operation: Operation,
        ranks: (u32, u32),
        bytes_max: u64,
        algorithm: &str,
    ) -> Result<Rule, String> {
        if ranks.0 == 0 || ranks.1 < ranks.0 {
            return Err(format!(
                "ranks go from {} to {}: expected two numbers from 1 on, the larger one last",
                ranks.0, ranks.1
            ));
        }
        let name = format!("{operation}:{algorithm}");
        let keeps_order = keeps_order(operation, ranks, algorithm, &name)?;
        let (ways, segment_bytes, measured) = (1, 65536, Measured::default());
        let (bytes_min, algorithm) = (0, name);
        Ok(Rule {
            operation,
            ranks,
            bytes_min,
            bytes_max,
            algorithm,
            ways,
            segment_bytes,
            measured,
            keeps_order,
        })
    }

    pub(super) fn is_of_model(&self) -> bool {
        self.algorithm.ends_with(":model")
    }

    pub(super) fn fits(&self, question: &Question) -> bool {
        let &Question { operation, ranks, bytes, commutative, packed, uniform, .. } = question;
        let algorithm = || ALGORITHMS.iter().find(|algorithm| algorithm.name == self.algorithm);
        // Rules were measured where ranks share memory.
        !question.is_for_hosts()
            && operation == self.operation
            && (self.ranks.0..=self.ranks.1).contains(&ranks)
            && (self.bytes_min..=self.bytes_max).contains(&bytes)
            && (commutative || self.keeps_order)
            && algorithm().is_none_or(|algorithm| algorithm.fits(ranks, packed, uniform))
    }
}

/// Whether the algorithm combines in the order of ranks; an error if there is none.
fn keeps_order(operation: Operation, ranks: (u32, u32), algorithm: &str, name: &str) -> Result<bool, String> {
    if algorithm == MODEL {
        return match operation {
            Operation::Allreduce | Operation::Barrier => Ok(operation == Operation::Barrier),
            _ => Err(format!("{name}: the model chooses words of allreduces and barriers only")),
        };
    }
    if let Some(known) = ALGORITHMS.iter().find(|known| known.name == name) {
        return Ok(known.keeps_order);
    }
    let at = |ranks| Collective::new(name, Shape::new(ranks, 1, 8)).map_err(|error| error.to_string());
    at(ranks.0)?;
    let takes_any = ["recursive-doubling", "rabenseifner", "direct", "hierarchical"].contains(&algorithm);
    if ranks.0 != ranks.1 && !takes_any {
        return Err(format!(
            "{name} is a word, which fits one number of ranks: write `ranks = {}` and a rule for each other number",
            ranks.0
        ));
    }
    Ok(takes_any || Collective::in_order(name, Shape::new(ranks.0, 1, 8)).is_ok())
}

/// What `castell tune` found out.
///
/// ```
/// use castell_collectives::decision::{Operation, Question, TuningFile};
/// let file = TuningFile::parse(
///     r#"
///     format = 1
///     castell = "0.1.0"
///     model = "plb:alpha_p=880ns,alpha_r=380ns"
///     [machine]
///     host = "tower"
///     processor = "Example 3000"
///     processors = 2
///     transport = "shared memory"
///     [[rule]]
///     operation = "allreduce"
///     ranks = 8
///     bytes_max = 4096
///     algorithm = "a4,a2"
///     "#,
/// )?;
/// let here = file.machine.clone();
/// let decisions = file.decisions_on(&here)?;
/// let choice = decisions.choose(&Question::new(Operation::Allreduce, 8, 8));
/// assert_eq!(choice.algorithm, "allreduce:a4,a2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TuningFile {
    /// The version of castell that wrote it.
    pub castell: String,
    /// Where it was measured.
    pub machine: Machine,
    /// The fitted model.
    pub model: Option<Plb>,
    /// The first one that fits a call is taken.
    pub rules: Vec<Rule>,
}

/// Why a text is no tuning file: what is wrong, where, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a tuning file: {0}")]
pub struct TuningError(String);

/// A tuning file of another machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is of another machine: its {what} is `{found}`, here it is `{here}`; run `castell tune` here")]
pub struct Foreign {
    what: &'static str,
    found: String,
    here: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(rename = "format")]
    _format: i64,
    castell: String,
    model: Option<String>,
    machine: Machine,
    #[serde(default, rename = "rule")]
    rules: Vec<RuleText>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number of ranks, or two: the smallest and the largest")]
enum RanksText {
    One(u32),
    Two(u32, u32),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    operation: String,
    ranks: RanksText,
    bytes_min: Option<u64>,
    bytes_max: Option<u64>,
    algorithm: String,
    ways: Option<u32>,
    segment_bytes: Option<u64>,
    predicted_us: Option<f64>,
    simulated_us: Option<f64>,
    measured_us: Option<f64>,
}

impl RuleText {
    fn rule(&self) -> Result<Rule, String> {
        let operation = Operation::with_choice(&self.operation).ok_or_else(|| {
            let known: Vec<&str> = Operation::WITH_CHOICE.iter().map(|operation| operation.name()).collect();
            format!("unknown operation `{}`: expected one of {}", self.operation, known.join(", "))
        })?;
        let ranks = match self.ranks {
            RanksText::One(ranks) => (ranks, ranks),
            RanksText::Two(from, to) => (from, to),
        };
        let rule = Rule::new(operation, ranks, self.bytes_max.unwrap_or(u64::MAX), &self.algorithm)?;
        let (ways, segment_bytes) = (self.ways.unwrap_or(1), self.segment_bytes.unwrap_or(65536));
        if ways == 0 || segment_bytes == 0 {
            return Err("ways and segment_bytes begin at 1".to_owned());
        }
        let &RuleText { predicted_us, simulated_us, measured_us, .. } = self;
        let measured = Measured { predicted_us, simulated_us, measured_us };
        Ok(Rule { bytes_min: self.bytes_min.unwrap_or(0), ways, segment_bytes, measured, ..rule })
    }
}

impl TuningFile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// Text that is not TOML, another version, unknown or missing keys, algorithms that there are not.
    pub fn parse(text: &str) -> Result<TuningFile, TuningError> {
        let wrong = |error: toml::de::Error| TuningError(error.to_string().trim_end().to_owned());
        let table: toml::Table = text.parse().map_err(wrong)?;
        match table.get("format") {
            Some(toml::Value::Integer(FORMAT)) => {}
            Some(other) => {
                let other = match other {
                    toml::Value::Integer(number) => number.to_string(),
                    other => format!("a {}", other.type_str()),
                };
                return Err(TuningError(format!(
                    "its format is {other}, this castell reads format {FORMAT}; run `castell tune` again"
                )));
            }
            None => return Err(TuningError(format!("expected a line `format = {FORMAT}`"))),
        }
        let file: FileText = toml::from_str(text).map_err(wrong)?;
        if file.rules.len() > RULES_MAX {
            return Err(TuningError(format!("{} rules; at most {RULES_MAX} are read", file.rules.len())));
        }
        let model = match file.model.as_deref().map(Model::parse).transpose() {
            Ok(Some(Model::Plb(plb))) => Some(plb),
            Ok(None) => None,
            Ok(Some(other)) => {
                return Err(TuningError(format!("the model is {}, expected plb", other.name())));
            }
            Err(error) => return Err(TuningError(format!("model: {error}"))),
        };
        let rule = |(index, rule): (usize, &RuleText)| {
            let rule = rule.rule().map_err(|error| TuningError(format!("rule {}: {error}", index + 1)))?;
            if rule.is_of_model() && model.is_none() {
                return Err(TuningError(format!("rule {}: {} needs a model", index + 1, rule.algorithm)));
            }
            Ok(rule)
        };
        let rules = file.rules.iter().enumerate().map(rule).collect::<Result<_, _>>()?;
        Ok(TuningFile { castell: file.castell, machine: file.machine, model, rules })
    }

    /// The decisions of a file that was made on a machine like `here`.
    ///
    /// # Errors
    /// Another kind or number of processors, another transport. The host's name may differ.
    pub fn decisions_on(self, here: &Machine) -> Result<Decisions, Foreign> {
        let there = &self.machine;
        let compared = [
            ("processor", there.processor.clone(), here.processor.clone()),
            ("number of processors", there.processors.to_string(), here.processors.to_string()),
            ("transport", there.transport.clone(), here.transport.clone()),
        ];
        match compared.into_iter().find(|(_, found, here)| found != here) {
            Some((what, found, here)) => Err(Foreign { what, found, here }),
            None => Ok(self.decisions()),
        }
    }

    /// The decisions, wherever the file was made: for texts that were compared with this machine before.
    pub fn decisions(self) -> Decisions {
        Decisions::with_rules(self.rules, self.model)
    }

    /// Takes over what an `earlier` file of this machine says of calls that this one says nothing of, and its model where this one
    /// has none. Rules of an earlier file that nobody has measured stay behind.
    pub fn merge(&mut self, earlier: TuningFile) {
        let own = self.rules.len();
        for rule in earlier.rules {
            let is_measured = rule.measured.measured_us.is_some();
            if is_measured && !self.rules[..own].iter().any(|newer| newer.covers(&rule)) {
                self.rules.push(rule);
            }
        }
        self.rules.truncate(RULES_MAX);
        self.model = self.model.take().or(earlier.model);
    }

    /// The text; [`TuningFile::parse`] reads it as the same file.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        self.print(&mut text).expect("a string takes everything");
        text
    }

    fn print(&self, out: &mut String) -> fmt::Result {
        let Machine { host, processor, processors, transport } = &self.machine;
        writeln!(out, "# Which algorithms castell takes on this machine. `castell tune` adds to it.")?;
        writeln!(out, "format = {FORMAT}\ncastell = {}", quoted(&self.castell))?;
        if let Some(model) = &self.model {
            writeln!(out, "model = {}", quoted(&Model::Plb(model.clone()).to_string()))?;
        }
        writeln!(out, "\n[machine]\nhost = {}\nprocessor = {}", quoted(host), quoted(processor))?;
        writeln!(out, "processors = {processors}\ntransport = {}", quoted(transport))?;
        self.rules.iter().try_for_each(|rule| rule.print(out))
    }
}

impl Rule {
    /// Whether it is taken for every call that `other` fits.
    fn covers(&self, other: &Rule) -> bool {
        self.operation == other.operation
            && self.ranks.0 <= other.ranks.0
            && other.ranks.1 <= self.ranks.1
            && self.bytes_min <= other.bytes_min
            && other.bytes_max <= self.bytes_max
    }

    fn print(&self, out: &mut String) -> fmt::Result {
        let algorithm = self.algorithm.split_once(':').map_or("", |(_, algorithm)| algorithm);
        writeln!(out, "\n[[rule]]\noperation = \"{}\"", self.operation)?;
        match self.ranks {
            (from, to) if from == to => writeln!(out, "ranks = {from}")?,
            (from, to) => writeln!(out, "ranks = [{from}, {to}]")?,
        }
        if self.bytes_min > 0 {
            writeln!(out, "bytes_min = {}", self.bytes_min)?;
        }
        if self.bytes_max < u64::MAX {
            writeln!(out, "bytes_max = {}", self.bytes_max)?;
        }
        writeln!(out, "algorithm = {}", quoted(algorithm))?;
        if self.ways != 1 {
            writeln!(out, "ways = {}", self.ways)?;
        }
        if self.segment_bytes != 65536 {
            writeln!(out, "segment_bytes = {}", self.segment_bytes)?;
        }
        let Measured { predicted_us, simulated_us, measured_us } = self.measured;
        let times = [("predicted", predicted_us), ("simulated", simulated_us), ("measured", measured_us)];
        for (name, time) in times {
            if let Some(time) = time {
                writeln!(out, "{name}_us = {time:?}")?;
            }
        }
        Ok(())
    }
}

/// As a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                write!(quoted, "\\u{:04X}", u32::from(control)).expect("a string takes everything");
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}
