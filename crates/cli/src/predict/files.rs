//! Profiles, machine and slowdowns as files.

use super::Known;
use anyhow::{Context as _, bail};
use castell_cachesim::{Histogram, MissRatioCurve};
use castell_interference::{Behaviour, BesideProbe, Class, Host, Pair, Profile, Readings, Thresholds, class};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const MACHINE: &str = "machine.json";
const SLOWDOWNS: &str = "slowdowns.csv";

/// Everything in a folder. The table of slowdowns may be missing, as any of its cells may.
pub(super) fn load(folder: &Path) -> anyhow::Result<Known> {
    let host = host(&folder.join(MACHINE))?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .filter(|path| path.file_name().is_some_and(|name| name != MACHINE))
        .collect();
    paths.sort();
    let profiles: Vec<Profile> =
        paths.iter().map(|path| profile(path, &host)).collect::<anyhow::Result<_>>()?;
    let path = folder.join(SLOWDOWNS);
    let pairs = if path.exists() { pairs(&path, &profiles)? } else { Vec::new() };
    Ok(Known { host, profiles, pairs, simulated: None })
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{}: not JSON", path.display()))
}

fn number(value: &Value, key: &str) -> Option<f64> {
    value[key].as_f64().filter(|number| number.is_finite())
}

pub(super) fn host(path: &Path) -> anyhow::Result<Host> {
    let value = read(path)?;
    let of = |key: &str| {
        let missing = || format!("{}: {key} is missing or no number above 0", path.display());
        number(&value, key).filter(|number| *number > 0.0).with_context(missing)
    };
    let block_bytes = of("block_bytes")?;
    Ok(Host {
        llc_blocks: of("llc_bytes")? / block_bytes,
        block_bytes,
        llc_seconds: of("llc_ns")? / 1e9,
        memory_seconds: of("memory_ns")? / 1e9,
        bytes_per_second_max: of("bytes_s_max")?,
    })
}

/// A profile. What it lacks is missing in what can be predicted; what is there and wrong is an error.
pub(super) fn profile(path: &Path, host: &Host) -> anyhow::Result<Profile> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    profile_of(&read(path)?, &stem, host).with_context(|| path.display().to_string())
}

/// A profile as it stands in a file; `stem` is its name where it has none.
pub(super) fn profile_of(value: &Value, stem: &str, host: &Host) -> anyhow::Result<Profile> {
    let name = crate::profiles::label(value["name"].as_str().unwrap_or(stem), value["input"].as_str());
    let behaviour = behaviour(value, host)?;
    let flows = ["l2_l1_bytes_s", "llc_l2_bytes_s", "memory_llc_bytes_s"].map(|key| number(value, key));
    let readings = match (flows, &behaviour) {
        ([Some(l1), Some(l2), Some(llc)], _) => Some(Readings::new(l1, l2, llc)?),
        (_, Some(known)) => {
            // Without counters: what the distances say, for an L1 of 32 KiB.
            let l1 = 32.0 * 1024.0 / host.block_bytes;
            let caches = [l1, known.private_blocks, host.llc_blocks];
            Some(Readings::of_curve(&known.curve, known.accesses_per_second, caches, host.block_bytes)?)
        }
        _ => None,
    };
    let cores = number(value, "cores").unwrap_or(1.0) as usize;
    let class = match (value["class"].as_str(), readings) {
        (Some(letter), _) => letter.parse::<Class>()?,
        (None, Some(readings)) => class::classify(&readings, &Thresholds::of_cores(cores)).class,
        (None, None) => {
            bail!("neither bytes a second towards the core (`castell profile --json`) nor distances")
        }
    };
    Ok(Profile { name, class, readings, behaviour })
}

fn behaviour(value: &Value, host: &Host) -> anyhow::Result<Option<Behaviour>> {
    let distances = &value["distances"];
    if distances.is_null() {
        return Ok(None);
    }
    // As `castell distances` prints it, with a list of programs, of which the busiest counts; or one of them.
    let busiest = distances["programs"].as_array().and_then(|programs| {
        programs.iter().max_by(|a, b| {
            number(a, "accesses").unwrap_or(0.0).total_cmp(&number(b, "accesses").unwrap_or(0.0))
        })
    });
    let seen = busiest.unwrap_or(distances);
    let mut histogram = Histogram::default();
    let buckets = seen["distances_blocks"].as_array().context("distances: distances_blocks is missing")?;
    for bucket in buckets {
        let [from, to, accesses] = [0, 1, 2].map(|at| bucket[at].as_f64().unwrap_or(-1.0));
        if !(from >= 0.0 && to > from && accesses >= 0.0) {
            bail!("distances: {bucket} is no bucket: [from, to, accesses] in blocks");
        }
        histogram.add_weighted(Some(from as u64), accesses);
    }
    histogram.add_weighted(None, number(seen, "first_accesses").unwrap_or(0.0).max(0.0));
    let paced = number(value, "accesses_per_second");
    let timed = || number(value, "seconds").map(|seconds| histogram.accesses() / seconds);
    let Some(accesses_per_second) = paced.or_else(timed) else {
        bail!("distances without a pace: give `seconds`, the program's time when it runs alone");
    };
    let private_bytes = number(value, "private_bytes").unwrap_or(256.0 * 1024.0);
    Ok(Some(Behaviour {
        curve: MissRatioCurve::of(&histogram),
        accesses_per_second,
        private_blocks: private_bytes / host.block_bytes,
        beside: beside(&value["slowdown"], host)?,
    }))
}

/// The points of `castell slowdown --json`. Where the probe's own pace is not told, it is taken to fill the link.
fn beside(slowdown: &Value, host: &Host) -> anyhow::Result<Vec<BesideProbe>> {
    let mut all = Vec::new();
    for point in slowdown["points"].as_array().into_iter().flatten() {
        let bytes = number(point, "bytes").filter(|bytes| *bytes > 0.0);
        let factor = number(&point["program"], "slowdown").filter(|factor| *factor > 0.0);
        let (Some(bytes), Some(factor)) = (bytes, factor) else {
            bail!("slowdown: {point} is no point: bytes, program.slowdown");
        };
        let pace = number(point, "probe_bytes_s").unwrap_or(host.bytes_per_second_max);
        all.push(BesideProbe {
            blocks: bytes / host.block_bytes,
            accesses_per_second: pace / host.block_bytes,
            slowdown: factor,
        });
    }
    Ok(all)
}

/// The table of measured slowdowns: names in the head and in the first column; an empty cell was not measured.
fn pairs(path: &Path, profiles: &[Profile]) -> anyhow::Result<Vec<Pair>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let at = |line: usize| format!("{}:{}", path.display(), line + 1);
    let index = |name: &str, line: usize| {
        let found = profiles.iter().position(|profile| field(&profile.name) == name);
        found.with_context(|| format!("{}: {name} has no profile in the folder", at(line)))
    };
    let mut lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (head_line, head) = lines.next().with_context(|| format!("{}: empty", path.display()))?;
    let neighbours: Vec<usize> =
        head.split(',').skip(1).map(|name| index(name.trim(), head_line)).collect::<anyhow::Result<_>>()?;
    let mut pairs = Vec::new();
    for (line, text) in lines {
        let mut cells = text.split(',');
        let program = index(cells.next().unwrap_or_default().trim(), line)?;
        let cells: Vec<&str> = cells.map(str::trim).collect();
        if cells.len() != neighbours.len() {
            bail!("{}: {} numbers, but the head names {} programs", at(line), cells.len(), neighbours.len());
        }
        for (cell, neighbour) in cells.into_iter().zip(&neighbours).filter(|(cell, _)| !cell.is_empty()) {
            let slowdown =
                cell.parse::<f64>().ok().filter(|slowdown| *slowdown > 0.0 && slowdown.is_finite());
            let slowdown = slowdown
                .with_context(|| format!("{}: {cell:?} is no slowdown: a factor, as 1.25", at(line)))?;
            pairs.push(Pair { program, neighbour: *neighbour, slowdown });
        }
    }
    Ok(pairs)
}

/// Writes what [`load`] reads.
pub(super) fn keep(folder: &Path, known: &Known) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let write = |name: String, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    };
    let host = &known.host;
    let machine = json!({
        "llc_bytes": host.llc_blocks * host.block_bytes,
        "block_bytes": host.block_bytes,
        "llc_ns": host.llc_seconds * 1e9,
        "memory_ns": host.memory_seconds * 1e9,
        "bytes_s_max": host.bytes_per_second_max,
    });
    write(MACHINE.to_owned(), format!("{machine:#}\n"))?;
    for profile in &known.profiles {
        write(format!("{}.json", field(&profile.name)), format!("{:#}\n", to_json(profile, host)))?;
    }
    let names: Vec<String> = known.profiles.iter().map(|profile| field(&profile.name)).collect();
    let mut table = format!("program,{}\n", names.join(","));
    for (program, name) in names.iter().enumerate() {
        let row = known.pairs.iter().filter(|pair| pair.program == program);
        let cells: Vec<String> = row.map(|pair| format!("{:.6}", pair.slowdown)).collect();
        table += &format!("{name},{}\n", cells.join(","));
    }
    write(SLOWDOWNS.to_owned(), table)
}

fn to_json(profile: &Profile, host: &Host) -> Value {
    let mut all = json!({"name": profile.name, "class": profile.class.to_string()});
    if let Some(readings) = &profile.readings {
        all["memory_llc_bytes_s"] = json!(readings.into_llc());
        all["llc_l2_bytes_s"] = json!(readings.into_l2());
        all["l2_l1_bytes_s"] = json!(readings.into_l1());
    }
    if let Some(known) = &profile.behaviour {
        // A curve's corners are where buckets begin and end: its steps down are their parts.
        let corners = known.curve.corners().windows(2).filter(|pair| pair[1].1 < pair[0].1);
        let buckets: Vec<Value> = corners
            .map(|pair| json!([pair[0].0, pair[1].0.max(pair[0].0 + 1.0), (pair[0].1 - pair[1].1) * 1e9]))
            .collect();
        let rest = known.curve.corners().last().map_or(0.0, |corner| corner.1);
        all["distances"] = json!({"distances_blocks": buckets, "first_accesses": rest * 1e9});
        all["accesses_per_second"] = json!(known.accesses_per_second);
        all["private_bytes"] = json!(known.private_blocks * host.block_bytes);
        let points = known.beside.iter().map(|run| {
            json!({
                "bytes": run.blocks * host.block_bytes,
                "probe_bytes_s": run.accesses_per_second * host.block_bytes,
                "program": {"slowdown": run.slowdown},
            })
        });
        all["slowdown"] = json!({"points": points.collect::<Vec<_>>()});
    }
    all
}

/// A name as it may stand in a table and as a file.
pub(super) fn field(name: &str) -> String {
    name.replace([',', '/', '\n', '"'], "_")
}
