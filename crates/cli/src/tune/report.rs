//! What came out, for people and for programs.

use castell_bench::collectives::ours::Candidate;
use castell_collectives::decision::Operation;
use serde_json::{Value, json};

/// Times of one algorithm. Microseconds.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The algorithm.
    pub candidate: Candidate,
    /// By formula, where there is one.
    pub predicted_us: Option<f64>,
    /// Where there is a model.
    pub simulated_us: Option<f64>,
    /// For real.
    pub measured_us: f64,
}

impl Tried {
    /// What stands behind the colon, with the ways where they are not 1.
    pub fn name(&self) -> String {
        self.candidate.name()
    }
}

/// One call: everything that was tried, and the peers.
#[derive(Clone, Debug)]
pub struct Case {
    /// The operation.
    pub operation: Operation,
    /// Size of the group.
    pub ranks: u32,
    /// Size of the vector or block.
    pub bytes: u64,
    /// The fastest first.
    pub tried: Vec<Tried>,
    /// Name and time.
    pub peers: Vec<(String, f64)>,
}

impl Case {
    /// What is chosen.
    pub fn choice(&self) -> &Tried {
        &self.tried[0]
    }

    fn recursive_doubling(&self) -> Option<f64> {
        self.tried.iter().find(|tried| tried.name() == "recursive-doubling").map(|tried| tried.measured_us)
    }

    /// The best peer's time over ours.
    fn ratio(&self) -> Option<f64> {
        let best = self.peers.iter().map(|(_, us)| *us).min_by(f64::total_cmp)?;
        Some(best / self.choice().measured_us)
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let tried = |tried: &Tried| {
            json!({"algorithm": tried.candidate.choice.algorithm, "ways": tried.candidate.choice.ways,
                "predicted_us": tried.predicted_us, "simulated_us": tried.simulated_us, "measured_us": tried.measured_us})
        };
        let peers: serde_json::Map<String, Value> =
            self.peers.iter().map(|(name, us)| (name.clone(), json!(us))).collect();
        json!({"operation": self.operation.name(), "ranks": self.ranks, "bytes": self.bytes,
            "choice": self.choice().candidate.choice.algorithm, "ways": self.choice().candidate.choice.ways,
            "predicted_us": self.choice().predicted_us, "simulated_us": self.choice().simulated_us,
            "measured_us": self.choice().measured_us, "recursive_doubling_us": self.recursive_doubling(),
            "peers_us": peers, "ratio": self.ratio(), "tried": self.tried.iter().map(tried).collect::<Vec<_>>()})
    }
}

/// Four significant digits.
fn number(us: Option<f64>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us) if us < 10.0 => format!("{us:.3}"),
        Some(us) if us < 1000.0 => format!("{us:.1}"),
        Some(us) => format!("{us:.0}"),
    }
}

/// The table, a line a call; with `all`, a line for everything that was tried, too.
pub fn table(cases: &[Case], all: bool) -> String {
    let peers: Vec<&String> =
        cases.first().map_or(Vec::new(), |case| case.peers.iter().map(|(name, _)| name).collect());
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut header: Vec<String> = [
        "operation",
        "ranks",
        "bytes",
        "choice",
        "predicted",
        "simulated",
        "measured",
        "rec.doubling",
        "second",
    ]
    .map(str::to_owned)
    .to_vec();
    header.extend(peers.iter().map(|name| (*name).clone()));
    header.push("ratio".to_owned());
    rows.push(header);
    for case in cases {
        let choice = case.choice();
        let second = case.tried.get(1).map(|tried| tried.measured_us);
        let mut row = vec![
            case.operation.name().to_owned(),
            case.ranks.to_string(),
            case.bytes.to_string(),
            choice.name(),
        ];
        let times = [
            choice.predicted_us,
            choice.simulated_us,
            Some(choice.measured_us),
            case.recursive_doubling(),
            second,
        ];
        row.extend(times.map(number));
        row.extend(case.peers.iter().map(|(_, us)| number(Some(*us))));
        row.push(case.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        rows.push(row);
        for tried in case.tried.iter().skip(1).filter(|_| all) {
            let mut row = vec![String::new(), String::new(), String::new(), tried.name()];
            row.extend([tried.predicted_us, tried.simulated_us, Some(tried.measured_us)].map(number));
            rows.push(row);
        }
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let line = |row: &Vec<String>| {
        let cell = |(column, cell): (usize, &String)| {
            let width = widths[column];
            if [0, 3].contains(&column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_bench::collectives::ours::Way;
    use castell_collectives::decision::Choice;

    #[test]
    fn a_line_a_call_with_the_fastest_in_front() {
        let tried = |name: &'static str, measured_us: f64| Tried {
            candidate: Candidate {
                operation: Operation::Allreduce,
                bytes: 8,
                choice: Choice::new(name),
                way: Way::Named,
            },
            predicted_us: Some(1.0),
            simulated_us: None,
            measured_us,
        };
        let case = Case {
            operation: Operation::Allreduce,
            ranks: 8,
            bytes: 8,
            tried: vec![tried("allreduce:a4,a2", 2.0), tried("allreduce:recursive-doubling", 3.0)],
            peers: vec![("A".into(), 5.0), ("B".into(), 4.0)],
        };
        let text = table(std::slice::from_ref(&case), false);
        let line: Vec<&str> = text.lines().nth(1).expect("a line").split_whitespace().collect();
        assert_eq!(
            line,
            [
                "allreduce",
                "8",
                "8",
                "a4,a2",
                "1.000",
                "-",
                "2.000",
                "3.000",
                "3.000",
                "5.000",
                "4.000",
                "2.00"
            ]
        );
        assert_eq!(table(std::slice::from_ref(&case), true).lines().count(), 3);
        assert_eq!(case.json()["ratio"], 2.0);
    }
}
