//! `castell bench`: [`castell_bench`] measures; what it has measured is drawn here.

use crate::look::LookArgs;
use anyhow::bail;
use castell_bench::report::Measurement;
use castell_trace::svg::{Axis, Line, LinePlot, Panel, write_line_plot};
use std::path::PathBuf;
use std::process::ExitCode;

/// So many panels stand below each other; of more cases the first ones are drawn, and that is said.
const PANELS_MAX: usize = 12;

// What is measured, and what the command is about, is the other's.
#[derive(clap::Args)]
pub struct BenchArgs {
    /// Draw medians over sizes, each with a band down to the least; of pingpong, messages, collectives, net and others with sizes
    #[arg(long, group = "drawn", value_name = "FILE.svg|png|pdf", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    #[command(flatten)]
    measured: castell_bench::Args,
}

/// Carries the command out.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.svg {
        crate::output::check(path)?;
    }
    let (code, rows) = castell_bench::run(args.measured)?;
    if let Some(path) = &args.svg {
        let plot = plot(&rows);
        if plot.panels.is_empty() {
            bail!("--svg {}: nothing was measured over sizes, so there is nothing to draw", path.display());
        }
        let mut drawing = Vec::new();
        write_line_plot(&plot, &args.look.look(), &mut drawing)?;
        crate::picture::write(path, drawing)?;
    }
    Ok(code)
}

/// A panel for all that differs but the size, a line a subject: its median, and a band from there down to the least.
fn plot(rows: &[Measurement]) -> LinePlot {
    let with_sizes = rows.iter().filter_map(|row| Some((row, row.params.number("bytes")? as f64)));
    let mut panels: Vec<Panel> = Vec::new();
    for (row, bytes) in with_sizes {
        let case = row.params.clone().without("bytes").to_string();
        let comma = if case.is_empty() { "" } else { ", " };
        let label = format!("{}{comma}{case}: us", row.workload);
        let at = panels.iter().position(|panel| panel.label == label).unwrap_or_else(|| {
            panels.push(Panel { label, by_powers: true, ..Panel::default() });
            panels.len() - 1
        });
        let lines = &mut panels[at].lines;
        let at = lines.iter().position(|line| line.name == row.subject).unwrap_or_else(|| {
            lines.push(Line { name: row.subject.clone(), ..Line::default() });
            lines.len() - 1
        });
        let (median, least) = (row.sample.median_ns * 1e-3, row.sample.min_ns * 1e-3);
        lines[at].points.push((bytes, Some(median)));
        lines[at].band.push((bytes, least, median));
    }
    for line in panels.iter_mut().flat_map(|panel| &mut panel.lines) {
        line.points.sort_by(|one, other| one.0.total_cmp(&other.0));
        line.band.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    if panels.len() > PANELS_MAX {
        castell_host::say(&format!(
            "warning: {} cases, of which the first {PANELS_MAX} are drawn",
            panels.len()
        ));
        panels.truncate(PANELS_MAX);
    }
    let mut names: Vec<&str> = rows.iter().map(|row| row.workload.as_str()).collect();
    names.dedup();
    LinePlot {
        title: format!("castell bench: {}", names.join(", ")),
        subtitle: "medians over sizes; bands reach down to the fastest".into(),
        axis: Axis::Bytes,
        panels,
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_bench::report::{Params, Sample};

    #[test]
    fn a_case_is_a_panel_and_a_subject_a_line() {
        let row = |subject: &str, ranks: u64, bytes: u64, median_ns| {
            let params = Params::new().with("ranks", ranks).with("bytes", bytes);
            let sample = Sample { median_ns, min_ns: 500.0, samples: 3, cpu_ns: None };
            Measurement::new("allreduce", subject.into(), &params, sample)
        };
        let rows = [
            row("castell", 2, 64, 2000.0),
            row("mpi", 2, 64, 3000.0),
            row("castell", 2, 8, 1000.0),
            row("castell", 4, 8, 9e3),
        ];
        let plot = plot(&rows);
        let labels: Vec<&str> = plot.panels.iter().map(|panel| panel.label.as_str()).collect();
        assert_eq!(labels, ["allreduce, ranks 2: us", "allreduce, ranks 4: us"]);
        let line = &plot.panels[0].lines[0];
        assert_eq!(
            (line.name.as_str(), &line.points[..]),
            ("castell", &[(8.0, Some(1.0)), (64.0, Some(2.0))][..])
        );
        assert_eq!(line.band[1], (64.0, 0.5, 2.0));
        assert_eq!(plot.panels[0].lines.len(), 2);
        let none = Measurement::new("startup", "castell".into(), &Params::new(), rows[0].sample.clone());
        assert!(super::plot(&[none]).panels.is_empty());
    }
}
