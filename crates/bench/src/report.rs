//! What a measurement is, and how it is printed.

use crate::bar::bar;
use castell_host::conditions::{CROWD, Conditions, Setup};
use castell_host::topology::Processors;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// The parameters of a case, by name: `{"bytes": 8, "window": 64}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(Map<String, Value>);

impl Params {
    /// No parameters.
    pub fn new() -> Params {
        Params::default()
    }

    /// Adds one.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Params {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Without one of them.
    pub fn without(mut self, name: &str) -> Params {
        self.0.remove(name);
        self
    }

    /// A number among them.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// A word among them.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// As the arguments of a benchmark program: `--bytes 8 --window 64`.
    pub fn arguments(&self) -> Vec<String> {
        self.words().flat_map(|(name, value)| [format!("--{name}"), value]).collect()
    }

    fn words(&self) -> impl Iterator<Item = (&String, String)> {
        self.0
            .iter()
            .map(|(name, value)| (name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.words().map(|(name, value)| format!("{name} {value}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// What one subject needed for one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Median over the samples.
    pub median_ns: f64,
    /// The fastest.
    pub min_ns: f64,
    /// How many.
    pub samples: u64,
    /// Time on processors, of all threads together: the median, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<f64>,
}

impl Sample {
    /// Sums up one round.
    ///
    /// # Panics
    /// Without samples.
    pub fn of(ns: Vec<f64>) -> Sample {
        let samples = ns.len() as u64;
        let median_ns = median(ns.clone()).expect("a round has at least one sample");
        let min_ns = ns.into_iter().fold(f64::INFINITY, f64::min);
        Sample { median_ns, min_ns, samples, cpu_ns: None }
    }

    /// The median of the rounds' medians, the minimum of their minima; `None` without rounds.
    pub fn over_rounds(rounds: &[Sample]) -> Option<Sample> {
        let median_ns = median(rounds.iter().map(|round| round.median_ns).collect())?;
        let min_ns = rounds.iter().map(|round| round.min_ns).fold(f64::INFINITY, f64::min);
        let cpu_ns = rounds.iter().map(|round| round.cpu_ns).collect::<Option<Vec<f64>>>().and_then(median);
        let samples = rounds.iter().map(|round| round.samples).sum();
        Some(Sample { median_ns, min_ns, samples, cpu_ns })
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some(0.5 * (values[middle - 1] + values[middle])),
    }
}

/// A row of the result.
#[derive(Debug, Serialize)]
pub struct Measurement {
    /// What was measured.
    pub workload: String,
    /// Who was measured.
    pub subject: String,
    /// The case.
    pub params: Params,
    /// What came out.
    #[serde(flatten)]
    pub sample: Sample,
    /// Millions of bytes a second, where the case says how long its text is.
    #[serde(skip_serializing_if = "Option::is_none")]
    mb_per_s: Option<f64>,
    /// What castell chose by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<String>,
    /// Why the figure is doubtful, in the short names of [`castell_host::conditions`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    doubts: Vec<&'static str>,
}

impl Measurement {
    /// One subject, one case; times are kept to a picosecond.
    pub fn new(workload: &str, subject: String, params: &Params, sample: Sample) -> Measurement {
        let rounded = |ns: f64| (ns * 1e3).round() / 1e3;
        let (median_ns, min_ns) = (rounded(sample.median_ns), rounded(sample.min_ns));
        let sample = Sample { median_ns, min_ns, ..sample };
        let rate = |bytes: u64| (bytes as f64 * 1e4 / median_ns).round() / 10.0;
        let mb_per_s = params.number("text_bytes").map(rate);
        Measurement {
            workload: workload.to_owned(),
            subject,
            params: params.clone(),
            sample,
            mb_per_s,
            algorithm: None,
            doubts: Vec::new(),
        }
    }

    /// With what makes it doubtful.
    pub fn doubted(self, doubts: Vec<&'static str>) -> Measurement {
        Measurement { doubts, ..self }
    }

    /// The row of a choice among algorithms.
    pub fn by(self, algorithm: &str) -> Measurement {
        Measurement { algorithm: Some(algorithm.to_owned()), ..self }
    }
}

/// Where rows go: tables are printed as soon as they are there, so that who interrupts a long run has them; JSON is one array,
/// and comes last. Meanwhile a bar on the standard error tells how far it is.
pub struct Report {
    json: bool,
    rows: Vec<Measurement>,
    progress: indicatif::ProgressBar,
    doubts: Doubts,
}

/// What makes rows doubtful, seen from when this was made until they are there.
pub struct Doubts(Conditions);

impl Doubts {
    /// From now on.
    pub fn from_now() -> Doubts {
        Doubts(Conditions::before(Setup { ranks: 1, is_bound: true }))
    }

    /// In the short names of [`castell_host::conditions`], of a row of so many ranks or workers.
    pub fn of(&self, together: Option<u64>) -> Vec<&'static str> {
        let mut kinds: Vec<&str> = self.0.after().iter().map(|doubt| doubt.kind).collect();
        if together.is_some_and(|together| together > Processors::usable().count() as u64) {
            kinds.push(CROWD);
        }
        kinds
    }

    /// Prints rows that have no place for doubts as a JSON array, with them; `together`: a row's ranks or workers.
    ///
    /// # Errors
    /// Rows that JSON cannot express.
    pub fn print_json<R: Serialize>(
        &self,
        rows: &[R],
        together: impl Fn(&R) -> Option<u64>,
    ) -> anyhow::Result<()> {
        let rows: Vec<_> = rows.iter().map(|row| self.beside(row, together(row))).collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
        Ok(())
    }

    /// A row with its doubts.
    pub fn beside<'r, R: Serialize>(&self, row: &'r R, together: Option<u64>) -> Doubted<'r, R> {
        Doubted { row, doubts: self.of(together) }
    }
}

/// A row that has no place for doubts, with them.
#[derive(Serialize)]
pub struct Doubted<'r, R> {
    #[serde(flatten)]
    row: &'r R,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    doubts: Vec<&'static str>,
}

impl Report {
    /// For so many steps.
    pub fn new(json: bool, steps: u64) -> Report {
        Report { json, rows: Vec::new(), progress: bar(steps), doubts: Doubts::from_now() }
    }

    /// A step is done.
    pub fn step(&self) {
        self.progress.inc(1);
    }

    /// The rows of some cases, all of each.
    pub fn rows(&mut self, mut rows: Vec<Measurement>) {
        for row in &mut rows {
            row.doubts = self.doubts.of(row.params.number("ranks"));
        }
        if !self.json {
            self.progress.suspend(|| print_table(&rows));
        }
        self.rows.extend(rows);
    }

    /// Nothing more comes: all rows.
    ///
    /// # Errors
    /// Rows that JSON cannot express.
    pub fn end(self) -> anyhow::Result<Vec<Measurement>> {
        self.progress.finish_and_clear();
        if self.json {
            print_json(&self.rows)?;
        }
        Ok(self.rows)
    }
}

/// Prints all rows as a JSON array.
pub fn print_json(measurements: &[Measurement]) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(measurements)?);
    Ok(())
}

/// Prints a table a case; the last column compares with the first subject.
pub fn print_table(measurements: &[Measurement]) {
    let width = measurements.iter().map(|row| row.subject.len()).max().unwrap_or(0).max("subject".len());
    for case in measurements.chunk_by(|a, b| a.params == b.params && a.workload == b.workload) {
        let first = &case[0];
        let chosen = first.algorithm.as_ref().map(|name| format!(" (castell: {name})")).unwrap_or_default();
        println!("{}: {}{chosen}", first.workload, first.params);
        println!(
            "  {:width$}  {:>12}  {:>12}  {:>8}  {}",
            "subject",
            "median",
            "min",
            "samples",
            ratio_title(first)
        );
        for row in case {
            let Sample { median_ns, min_ns, samples, .. } = row.sample;
            let ratio = first.sample.median_ns / median_ns;
            let ratio = if std::ptr::eq(row, first) { String::new() } else { format!("{ratio:.2}") };
            let rate = row.mb_per_s.map(|rate| format!("  {rate} MB/s")).unwrap_or_default();
            println!(
                "  {:width$}  {:>12}  {:>12}  {samples:>8}  {ratio}{rate}",
                row.subject,
                time(median_ns),
                time(min_ns)
            );
        }
        println!();
    }
}

fn ratio_title(first: &Measurement) -> String {
    format!("{} / subject", first.subject)
}

/// Four significant digits with a unit.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e4 => (ns, "ns"),
        ns if ns < 1e7 => (ns / 1e3, "us"),
        ns => (ns / 1e6, "ms"),
    };
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_summed_up() {
        let rounds = [vec![3.0, 1.0, 2.0], vec![9.0], vec![5.0, 4.0]].map(Sample::of);
        let sample = Sample::over_rounds(&rounds).expect("three rounds");
        assert_eq!(sample, Sample { median_ns: 4.5, min_ns: 1.0, samples: 6, cpu_ns: None });
        assert_eq!(Sample::over_rounds(&[]), None);
    }

    #[test]
    fn parameters_as_words() {
        let params = Params::new().with("what", "init").with("bytes", 8);
        assert_eq!(params.to_string(), "bytes 8, what init");
        assert_eq!(params.arguments(), ["--bytes", "8", "--what", "init"]);
    }
}
