//! The best split of a node's cores between two programs.

use anyhow::Context as _;
use castell_policy::placement::{Curve, Share, shares};
use castell_trace::Theme;
use castell_trace::svg::{NodeBox, NodesPlot, write_nodes};
use serde_json::json;
use std::path::Path;

pub(super) fn run(
    one: &Path,
    other: &Path,
    cores: Option<u32>,
    svg: Option<&Path>,
    as_json: bool,
) -> anyhow::Result<()> {
    let (first, second) = (curve(one)?, curve(other)?);
    let cores = cores.unwrap_or(first.cores_max().max(second.cores_max()));
    let shares = shares(&first, &second, cores);
    let best = shares.iter().copied().max_by(|a, b| a.combined().total_cmp(&b.combined()));
    let best = best.with_context(|| {
        format!(
            "no split of {cores} cores is known: {} and {} need lines for numbers of cores that add up to it",
            one.display(),
            other.display()
        )
    })?;
    let names = [one, other].map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    if let Some(path) = svg {
        draw(&shares, cores, &names, path)?;
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
            "{} cores for {}, {} for {}: {gain:.1} % more work done than one after the other",
            best.cores,
            names[0],
            cores - best.cores,
            names[1]
        ),
        false => println!("no split does more than one after the other"),
    }
    Ok(())
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

fn draw(shares: &[Share], cores: u32, names: &[String; 2], path: &Path) -> anyhow::Result<()> {
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
    write_nodes(&plot, Theme::Auto, &mut text)?;
    crate::output::write(path, text)
}
