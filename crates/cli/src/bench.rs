//! `castell bench`: [`castell_bench`] measures; what it has measured is drawn here.

use crate::look::LookArgs;
use anyhow::bail;
use castell_bench::report::Measurement;
use castell_trace::svg::{Axis, Chart, Panel, Point, Powers, Series, write_chart};
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
        let chart = chart(&rows);
        if chart.panels.is_empty() {
            bail!("--svg {}: nothing was measured over sizes, so there is nothing to draw", path.display());
        }
        let mut drawing = Vec::new();
        write_chart(&chart, &args.look.look(), &mut drawing)?;
        crate::picture::write(path, drawing)?;
    }
    Ok(code)
}

/// A panel for all that differs but the size, a line a subject: its median, and a band from there down to the least.
fn chart(rows: &[Measurement]) -> Chart {
    let with_sizes = rows.iter().filter_map(|row| Some((row, row.params.number("bytes")? as f64)));
    let mut panels: Vec<Panel> = Vec::new();
    for (row, bytes) in with_sizes {
        let case = row.params.clone().without("bytes").to_string();
        let comma = if case.is_empty() { "" } else { ", " };
        let title = format!("{}{comma}{case}", row.workload);
        let at = panels.iter().position(|panel| panel.title == title).unwrap_or_else(|| {
            let y = Some(Axis { unit: "us".into(), scale: Powers::Ten, ..Axis::default() });
            panels.push(Panel { title, y, ..Panel::default() });
            panels.len() - 1
        });
        let lines = &mut panels[at].series;
        let at = lines.iter().position(|line| line.name == row.subject).unwrap_or_else(|| {
            lines.push(Series { name: row.subject.clone(), ..Series::default() });
            lines.len() - 1
        });
        let (median, least) = (row.sample.median_ns * 1e-3, row.sample.min_ns * 1e-3);
        lines[at].points.push(Point::between(bytes, Some(median), least, median));
    }
    for line in panels.iter_mut().flat_map(|panel| &mut panel.series) {
        line.points.sort_by(|one, other| one.along().total_cmp(&other.along()));
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
    Chart {
        title: format!("castell bench: {}", names.join(", ")),
        subtitle: "medians over sizes; bands reach down to the fastest".into(),
        x: Axis { unit: "bytes".into(), scale: Powers::Two, ..Axis::default() },
        panels,
        ..Chart::default()
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
        let chart = chart(&rows);
        let titles: Vec<&str> = chart.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["allreduce, ranks 2", "allreduce, ranks 4"]);
        let line = &chart.panels[0].series[0];
        let [first, second] = [(8.0, 1.0), (64.0, 2.0)].map(|(x, y)| Point::between(x, Some(y), 0.5, y));
        assert_eq!((line.name.as_str(), &line.points[..]), ("castell", &[first, second][..]));
        assert_eq!(chart.panels[0].series.len(), 2);
        let none = Measurement::new("startup", "castell".into(), &Params::new(), rows[0].sample.clone());
        assert!(super::chart(&[none]).panels.is_empty());
    }
}
