//! A row a subject, a column a program.

use super::Row;
use std::fmt::Write as _;

/// What the names of castell's own subjects begin with.
const OURS: &str = "castell";

/// The medians in nanoseconds a task, and below them the first subject's against the best of those that are not castell.
pub fn table(rows: &[Row]) -> String {
    let mut cases: Vec<String> = Vec::new();
    let mut subjects: Vec<&str> = Vec::new();
    for row in rows {
        let case = heading(row);
        if !cases.contains(&case) {
            cases.push(case);
        }
        if !subjects.contains(&row.subject.as_str()) {
            subjects.push(&row.subject);
        }
    }
    let median = |subject: &str, case: &str| {
        let row = rows.iter().find(|row| row.subject == subject && heading(row) == case);
        row.map(|row| row.ns_per_task)
    };
    let width = subjects.iter().map(|subject| subject.len()).max().unwrap_or(0).max("castell / best".len());
    let mut text = String::from("ns a task (wall time over tasks), medians\n\n");
    let columns: Vec<usize> = cases.iter().map(|case| case.len().max(8)).collect();
    let mut line = |first: &str, cells: Vec<String>| {
        let mut line = format!("{first:width$}");
        for (cell, width) in cells.iter().zip(&columns) {
            // Writing to a string does not fail.
            let _ = write!(line, "  {cell:>width$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line("", cases.clone());
    for subject in &subjects {
        let cells = cases.iter().map(|case| median(subject, case).map_or("-".to_owned(), short));
        line(subject, cells.collect());
    }
    let best: Vec<_> = cases
        .iter()
        .map(|case| {
            let others = subjects
                .iter()
                .filter(|subject| !subject.starts_with(OURS))
                .filter_map(|subject| Some((median(subject, case)?, *subject)));
            others.min_by(|a, b| a.0.total_cmp(&b.0))
        })
        .collect();
    if best.iter().any(Option::is_some) {
        let ratio = |(case, best): (&String, &Option<(f64, &str)>)| {
            let ours = median(subjects.first()?, case)?;
            best.map(|(best, _)| format!("{:.2}", ours / best))
        };
        line(
            "castell / best",
            cases.iter().zip(&best).map(|pair| ratio(pair).unwrap_or("-".to_owned())).collect(),
        );
        let mut names: Vec<String> = Vec::new();
        for (case, best) in cases.iter().zip(&best) {
            names.extend(best.map(|(_, subject)| format!("{case}: {subject}")));
        }
        let _ = write!(text, "\nbest of the others: {}\n", names.join("; "));
    }
    text
}

fn heading(row: &Row) -> String {
    format!("{} {}", row.workload, row.tasks)
}

/// Three digits or so.
fn short(ns: f64) -> String {
    match ns {
        ns if ns < 99.95 => format!("{ns:.1}"),
        ns => format!("{ns:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Params;

    fn row(workload: &'static str, subject: &str, ns_per_task: f64) -> Row {
        let (subject, params) = (subject.to_owned(), Params::new());
        Row { workload, subject, params, tasks: 10, ns_per_task, min_ns_per_task: ns_per_task, samples: 1 }
    }

    #[test]
    fn the_best_of_the_others_is_the_yardstick() {
        let rows = [
            row("empty", "castell, tree", 50.0),
            row("empty", "castell, central", 10.0),
            row("empty", "a", 100.0),
            row("empty", "b", 200.0),
            row("chain", "castell, tree", 90.0),
            row("chain", "castell, central", 300.0),
            row("chain", "b", 45.0),
        ];
        let text = table(&rows);
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).expect("a line");
            line[name.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(line("castell / best"), ["0.50", "2.00"]);
        assert_eq!(line("a "), ["100", "-"]);
        assert!(text.ends_with("best of the others: empty 10: a; chain 10: b\n"), "{text}");
    }
}
