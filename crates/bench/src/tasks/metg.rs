//! `castell bench metg`: the smallest task that is worth its overhead, as Task Bench measures it (Slaughter et al. 2020,
//! section 4): the granularity at which half of the processors' time goes into the tasks' own work.

use super::{Case, TaskArgs, subjects};
use crate::bar::bar;
use crate::report::{Doubts, Params};
use crate::workload::{Effort, Subject, measure};
use indicatif::ProgressBar;
use serde::Serialize;

/// Columns a worker.
const WIDTH: u64 = 4;
/// Rows: enough tasks for the smallest, few enough for the largest.
const STEPS: u64 = 500;
/// Rounds of the tasks' loop, from tasks that cost nothing to some tens of microseconds.
const SPINS: [u64; 12] = [1, 64, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072];
/// Of the processors' time.
const EFFICIENCY: f64 = 0.5;

/// One size of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    spins: u64,
    /// Wall time times workers over tasks.
    granularity_ns: f64,
    /// The tasks' own work over the workers' time.
    efficiency: f64,
}

/// A row of the result.
#[derive(Serialize)]
pub struct Row {
    workload: &'static str,
    subject: String,
    params: Params,
    /// `None`: no size was efficient enough.
    metg_ns: Option<f64>,
    points: Vec<Point>,
}

/// Carries the command out.
pub fn run(args: &TaskArgs, effort: Effort) -> anyhow::Result<()> {
    let mut subjects = subjects(args, effort.peers);
    let (progress, doubts) = (bar(steps(&subjects, effort)), Doubts::from_now());
    let rows = rows(&mut subjects, args.workers, effort, &progress)?;
    progress.finish_and_clear();
    if effort.json {
        return doubts.print_json(&rows, |_| Some(args.workers.into()));
    }
    print!("{}", table(&rows));
    Ok(())
}

/// What is found for each subject, in words.
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.subject.len()).max().unwrap_or(0);
    let params = rows.first().map(|row| row.params.to_string()).unwrap_or_default();
    let mut text = format!("stencil_1d, {params}: the smallest task of which half is work (METG 50 %)\n");
    for row in rows {
        let metg = row.metg_ns.map_or("not reached".to_owned(), |ns| format!("{:.2} us", ns / 1e3));
        text.push_str(&format!("  {:width$}  {metg:>12}\n", row.subject));
    }
    text
}

/// How many times `rows` measures something.
pub fn steps(subjects: &[Box<dyn Subject>], effort: Effort) -> u64 {
    SPINS.len() as u64 * super::turns(subjects, effort)
}

/// Measures the subjects, which take turns; each time is a step.
pub fn rows(
    subjects: &mut [Box<dyn Subject>],
    workers: u32,
    effort: Effort,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Row>> {
    let columns = WIDTH * u64::from(workers);
    let cases = SPINS.map(|spins| Case::stencil(columns, STEPS, spins).arguments().with("workers", workers));
    let mut curves: Vec<(String, Vec<(u64, f64)>)> = Vec::new();
    for (case, spins) in cases.iter().zip(SPINS) {
        let measured =
            measure("metg", case, subjects, effort.rounds, effort.samples(3), &|| progress.inc(1))?;
        progress.suspend(|| super::tell(case, &measured));
        for measured in measured {
            let granularity_ns = measured.sample.median_ns * f64::from(workers);
            match curves.iter_mut().find(|(subject, _)| *subject == measured.subject) {
                Some((_, curve)) => curve.push((spins, granularity_ns)),
                None => curves.push((measured.subject, vec![(spins, granularity_ns)])),
            }
        }
    }
    let params = Params::new().with("width", columns).with("steps", STEPS).with("workers", workers);
    let row = |(subject, curve): (String, Vec<(u64, f64)>)| {
        let points = points(&curve);
        Row { workload: "metg", subject, params: params.clone(), metg_ns: metg(&points), points }
    };
    Ok(curves.into_iter().map(row).collect())
}

/// The work of a loop's round is what it costs where it costs least: the overhead counts least there.
fn points(curve: &[(u64, f64)]) -> Vec<Point> {
    let round_ns = curve.iter().map(|(spins, ns)| ns / *spins as f64).fold(f64::INFINITY, f64::min);
    let point = |&(spins, granularity_ns): &(u64, f64)| Point {
        spins,
        granularity_ns,
        efficiency: spins as f64 * round_ns / granularity_ns,
    };
    curve.iter().map(point).collect()
}

/// Where the curve, coming from large tasks, falls below the efficiency: between two sizes as a line over their logarithms.
fn metg(points: &[Point]) -> Option<f64> {
    let mut larger: Option<Point> = None;
    for &point in points.iter().rev() {
        if point.efficiency < EFFICIENCY {
            let above = larger?;
            let share = (EFFICIENCY - point.efficiency) / (above.efficiency - point.efficiency);
            let [low, high] = [point, above].map(|point| point.granularity_ns.ln());
            return Some((low + share * (high - low)).exp());
        }
        larger = Some(point);
    }
    larger.map(|smallest| smallest.granularity_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_found_between_two_sizes() {
        // 1 ns a round, 100 ns overhead a task: half at a task of 200 ns.
        let curve: Vec<_> = SPINS.iter().map(|&spins| (spins, spins as f64 + 100.0)).collect();
        let points = points(&curve);
        let found = metg(&points).expect("large tasks are efficient");
        assert!((150.0..250.0).contains(&found), "{found}");
        assert_eq!(metg(&points[..2]), None, "no size is efficient");
        assert!(metg(&points[4..]).expect("all are efficient") > 1000.0);
    }
}
