//! The best split of a node's cores between two programs: from their run times, measured here, or simulated.

mod measured;
mod simulated;

use anyhow::Context as _;
use castell_bench::bar::bar;
use castell_policy::placement::{Curve, Share, shares};
use castell_trace::Look;
use castell_trace::svg::{NodeBox, NodesPlot, write_nodes};
use measured::Measurement;
use serde_json::json;
use std::path::Path;

/// Where times come from.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Source {
    /// Files of times that were taken before.
    Files,
    /// Runs of the commands, so many in each case.
    Measured(u32),
    /// The simulated chip.
    Simulated,
}

pub(super) fn run(
    of: [&str; 2],
    source: Source,
    cores: Option<u32>,
    svg: Option<(&Path, Look)>,
    as_json: bool,
) -> anyhow::Result<()> {
    let (shares, cores, names) = match source {
        Source::Files => of_files(of.map(Path::new), cores)?,
        Source::Measured(runs) => {
            let measurement = Measurement::new(of, cores, runs)?;
            for warning in crate::slowdown::machine_warnings() {
                castell_host::say(&format!("warning: {warning}"));
            }
            let bar = bar(measurement.cases());
            bar.tick();
            let shares = measurement.shares(|told| {
                bar.suspend(|| castell_host::say(&told));
                bar.inc(1);
            })?;
            bar.finish_and_clear();
            let first = |command: &str| command.split_whitespace().next().unwrap_or("?").to_owned();
            (shares, measurement.cpus.len() as u32, of.map(first))
        }
        Source::Simulated => {
            let cores = cores.unwrap_or(simulated::CORES);
            let bar = bar(u64::from(3 * cores) - 1);
            let shares = simulated::shares(of, cores, || bar.inc(1))?;
            bar.finish_and_clear();
            (shares, cores, of.map(str::to_owned))
        }
    };
    let best = shares.iter().copied().max_by(|a, b| a.combined().total_cmp(&b.combined()));
    let best = best.context("there is no way to split so few cores")?;
    if let Some((path, look)) = &svg {
        draw((&shares, cores), &names, look, path)?;
    }
    if as_json {
        let shares: Vec<_> = shares.iter().map(|share| to_json(share, cores)).collect();
        println!(
            "{:#}",
            json!({"cores": cores, "programs": names, "best": to_json(&best, cores), "shares": shares})
        );
        return Ok(());
    }
    let width = names.iter().map(String::len).max().unwrap_or(0).max(10);
    println!("{:>width$} {:>width$}   together, of one after the other at their best", names[0], names[1]);
    for share in &shares {
        let mark = if share.cores == best.cores { "  <- best" } else { "" };
        println!("{:>width$} {:>width$}   {:.3}{mark}", share.cores, cores - share.cores, share.combined());
    }
    let gain = (best.combined() - 1.0) * 100.0;
    match gain > 0.0 {
        true => println!(
            "cores for {}: {}, for {}: {}; {gain:.1} % more work done than one after the other",
            names[0],
            best.cores,
            names[1],
            cores - best.cores
        ),
        false => println!("no split does more than one after the other"),
    }
    Ok(())
}

/// What two files of times give if neither program disturbs the other.
fn of_files([one, other]: [&Path; 2], cores: Option<u32>) -> anyhow::Result<(Vec<Share>, u32, [String; 2])> {
    let (first, second) = (curve(one)?, curve(other)?);
    let cores = cores.unwrap_or(first.cores_max().max(second.cores_max()));
    let shares = shares(&first, &second, cores);
    anyhow::ensure!(
        !shares.is_empty(),
        "no split of {cores} cores is known: {} and {} need lines for numbers of cores that add up to it",
        one.display(),
        other.display()
    );
    let names = [one, other].map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    Ok((shares, cores, names))
}

fn curve(path: &Path) -> anyhow::Result<Curve> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Curve::parse(&text).with_context(|| path.display().to_string())
}

fn to_json(share: &Share, cores: u32) -> serde_json::Value {
    json!({
        "cores": [share.cores, cores - share.cores],
        "seconds": share.seconds,
        "efficiency": share.efficiency,
        "combined": share.combined(),
    })
}

fn draw(
    (shares, cores): (&[Share], u32),
    names: &[String; 2],
    look: &Look,
    path: &Path,
) -> anyhow::Result<()> {
    let boxes = shares.iter().map(|share| {
        let job = |at: usize, cores: u32| {
            (Some(format!("{} on {cores}", names[at])), Some(1.0 / share.efficiency[at]))
        };
        NodeBox {
            label: format!("together {:.3}", share.combined()),
            jobs: vec![job(0, share.cores), job(1, cores - share.cores)],
        }
    });
    let plot = NodesPlot {
        title: format!("{} and {} on {cores} cores", names[0], names[1]),
        subtitle: "how much longer each takes than at its best with the node alone".to_owned(),
        nodes: boxes.collect(),
    };
    let mut text = Vec::new();
    write_nodes(&plot, look, &mut text)?;
    crate::picture::write(path, text)
}
