//! Reads jobs and slowdowns.

use anyhow::Context as _;
use castell_policy::placement::{Jobs, Program, Slowdowns};
use std::path::Path;

/// A file, `NAME:INSTANCES,…` or `PROGRAMSxINSTANCES`.
pub(super) fn jobs(text: &str) -> anyhow::Result<Jobs> {
    let path = Path::new(text);
    if path.exists() {
        let lines = std::fs::read_to_string(path).with_context(|| format!("cannot read {text}"))?;
        return Jobs::parse(&lines).with_context(|| text.to_owned());
    }
    if let Some((programs, instances)) = text.split_once('x')
        && let (Ok(programs), Ok(instances)) = (programs.parse(), instances.parse())
    {
        anyhow::ensure!(programs <= 1_000_000, "{programs} programs are more than a million");
        return Ok(Jobs::alike(programs, instances)?);
    }
    anyhow::ensure!(
        text.contains(':'),
        "there is no file {text}, and it is no list of jobs such as bt:2,cg:2 or 10x2"
    );
    let programs: anyhow::Result<Vec<Program>> = text.split(',').map(listed).collect();
    Ok(Jobs::new(programs?)?)
}

fn listed(text: &str) -> anyhow::Result<Program> {
    let (name, instances) = text.rsplit_once(':').unwrap_or((text, "1"));
    let instances = instances.trim().parse();
    let instances = instances.with_context(|| format!("{text:?} is no NAME:INSTANCES"))?;
    Ok(Program { name: name.trim().to_owned(), instances })
}

/// The table of a file, for the programs of the jobs and in their order.
pub(super) fn slowdowns(path: &Path, jobs: &Jobs) -> anyhow::Result<Slowdowns> {
    let named = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {named}"))?;
    let table = Slowdowns::parse(&text).with_context(|| named.clone())?;
    table.select(jobs.programs().iter().map(|program| program.name.as_str())).context(named)
}

/// `10%` or `1.1`, as a factor.
pub(super) fn slowdown(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| "a slowdown is 10% or 1.1".to_owned());
    let factor = match text.strip_suffix('%') {
        Some(percent) => 1.0 + number(percent)? / 100.0,
        None => number(text)?,
    };
    match factor.is_finite() && factor >= 1.0 {
        true => Ok(factor),
        false => Err("at least 0%, which is 1.0 as a factor".to_owned()),
    }
}

/// `NAME=PROGRAM,PROGRAM`.
pub(super) fn group(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, programs) = text.split_once('=').ok_or("a group is NAME=PROGRAM,PROGRAM,…")?;
    Ok((name.to_owned(), programs.split(',').map(|program| program.trim().to_owned()).collect()))
}
