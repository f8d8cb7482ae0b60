//! What the files of a folder say: profiles, the machine, and slowdowns of pairs that were measured.

use super::{KeptError, MACHINE, label};
use castell_cachesim::{Histogram, MissRatioCurve};
use castell_interference::{Behaviour, BesideProbe, Class, Host, Pair, Profile, Readings, Thresholds, class};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const SLOWDOWNS: &str = "slowdowns.csv";

/// Everything in a folder.
pub struct Folder {
    /// The machine.
    pub host: Host,
    /// Programs, in the order of their files' names.
    pub profiles: Vec<Profile>,
    /// Pairs of them that were measured: there may be none.
    pub pairs: Vec<Pair>,
}

impl Folder {
    /// Reads it. The table of slowdowns may be missing, as any of its cells may.
    ///
    /// # Errors
    /// A file cannot be read, or is wrong.
    pub fn read(folder: &Path) -> Result<Folder, KeptError> {
        let host = host(folder)?;
        let listed = std::fs::read_dir(folder).map_err(KeptError::system(folder.display().to_string()))?;
        let mut paths: Vec<PathBuf> = listed
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .filter(|path| path.file_name().is_some_and(|name| name != MACHINE))
            .collect();
        paths.sort();
        let profiles: Vec<Profile> =
            paths.iter().map(|path| profile(path, &host)).collect::<Result<_, _>>()?;
        let path = folder.join(SLOWDOWNS);
        let pairs = if path.exists() { pairs(&path, &profiles)? } else { Vec::new() };
        Ok(Folder { host, profiles, pairs })
    }

    /// Writes what [`read`](Folder::read) reads.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), KeptError> {
        std::fs::create_dir_all(folder).map_err(KeptError::system(folder.display().to_string()))?;
        let write = |name: String, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(KeptError::system(path.display().to_string()))
        };
        let host = &self.host;
        let machine = json!({
            "llc_bytes": host.llc_blocks * host.block_bytes,
            "block_bytes": host.block_bytes,
            "llc_ns": host.llc_seconds * 1e9,
            "memory_ns": host.memory_seconds * 1e9,
            "bytes_s_max": host.bytes_per_second_max,
        });
        write(MACHINE.to_owned(), format!("{machine:#}\n"))?;
        for profile in &self.profiles {
            write(format!("{}.json", field(&profile.name)), format!("{:#}\n", to_json(profile, host)))?;
        }
        let names: Vec<String> = self.profiles.iter().map(|profile| field(&profile.name)).collect();
        let mut table = format!("program,{}\n", names.join(","));
        for (program, name) in names.iter().enumerate() {
            let row = self.pairs.iter().filter(|pair| pair.program == program);
            let cells: Vec<String> = row.map(|pair| format!("{:.6}", pair.slowdown)).collect();
            table += &format!("{name},{}\n", cells.join(","));
        }
        write(SLOWDOWNS.to_owned(), table)
    }
}

pub(super) fn read(path: &Path) -> Result<Value, KeptError> {
    let text = std::fs::read_to_string(path).map_err(KeptError::system(path.display().to_string()))?;
    serde_json::from_str(&text).map_err(|error| KeptError::in_file(path, format!("not JSON: {error}")))
}

fn number(value: &Value, key: &str) -> Option<f64> {
    value[key].as_f64().filter(|number| number.is_finite())
}

/// The machine of a folder.
///
/// # Errors
/// It is not known there, or its file is wrong.
pub fn host(folder: &Path) -> Result<Host, KeptError> {
    let path = &folder.join(MACHINE);
    let value = read(path)?;
    let of = |key: &str| {
        let missing = || KeptError::in_file(path, format!("{key} is missing or no number above 0"));
        number(&value, key).filter(|number| *number > 0.0).ok_or_else(missing)
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

/// A file's profile. What it lacks is missing in what can be predicted; what is there and wrong is an error.
///
/// # Errors
/// It cannot be read, or is wrong.
pub fn profile(path: &Path, host: &Host) -> Result<Profile, KeptError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    profile_of(&read(path)?, &stem, host).map_err(|wrong| KeptError::in_file(path, wrong))
}

/// A profile as it stands in a file; `stem` is its name where it has none.
///
/// # Errors
/// Something in it is wrong; a sentence.
pub fn profile_of(value: &Value, stem: &str, host: &Host) -> Result<Profile, String> {
    let name = label(value["name"].as_str().unwrap_or(stem), value["input"].as_str());
    let behaviour = behaviour(value, host)?;
    let flows = ["l2_l1_bytes_s", "llc_l2_bytes_s", "memory_llc_bytes_s"].map(|key| number(value, key));
    let readings = match (flows, &behaviour) {
        ([Some(l1), Some(l2), Some(llc)], _) => Some(Readings::new(l1, l2, llc).map_err(said)?),
        (_, Some(known)) => {
            // Without counters: what the distances say, for an L1 of 32 KiB.
            let l1 = 32.0 * 1024.0 / host.block_bytes;
            let caches = [l1, known.private_blocks, host.llc_blocks];
            let readings =
                Readings::of_curve(&known.curve, known.accesses_per_second, caches, host.block_bytes);
            Some(readings.map_err(said)?)
        }
        _ => None,
    };
    let cores = number(value, "cores").unwrap_or(1.0) as usize;
    let class = match (value["class"].as_str(), readings) {
        (Some(letter), _) => letter.parse::<Class>().map_err(said)?,
        (None, Some(readings)) => class::classify(&readings, &Thresholds::of_cores(cores)).class,
        (None, None) => {
            return Err(
                "neither bytes a second towards the core (`castell profile --json`) nor distances".into()
            );
        }
    };
    Ok(Profile { name, class, readings, behaviour })
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn behaviour(value: &Value, host: &Host) -> Result<Option<Behaviour>, String> {
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
    let buckets = seen["distances_blocks"].as_array().ok_or("distances: distances_blocks is missing")?;
    for bucket in buckets {
        let [from, to, accesses] = [0, 1, 2].map(|at| bucket[at].as_f64().unwrap_or(-1.0));
        if !(from >= 0.0 && to > from && accesses >= 0.0) {
            return Err(format!("distances: {bucket} is no bucket: [from, to, accesses] in blocks"));
        }
        histogram.add_weighted(Some(from as u64), accesses);
    }
    histogram.add_weighted(None, number(seen, "first_accesses").unwrap_or(0.0).max(0.0));
    let paced = number(value, "accesses_per_second");
    let timed = || number(value, "seconds").map(|seconds| histogram.accesses() / seconds);
    let Some(accesses_per_second) = paced.or_else(timed) else {
        return Err("distances without a pace: give `seconds`, the program's time when it runs alone".into());
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
fn beside(slowdown: &Value, host: &Host) -> Result<Vec<BesideProbe>, String> {
    let mut all = Vec::new();
    for point in slowdown["points"].as_array().into_iter().flatten() {
        let bytes = number(point, "bytes").filter(|bytes| *bytes > 0.0);
        let factor = number(&point["program"], "slowdown").filter(|factor| *factor > 0.0);
        let (Some(bytes), Some(factor)) = (bytes, factor) else {
            return Err(format!("slowdown: {point} is no point: bytes, program.slowdown"));
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
fn pairs(path: &Path, profiles: &[Profile]) -> Result<Vec<Pair>, KeptError> {
    let text = std::fs::read_to_string(path).map_err(KeptError::system(path.display().to_string()))?;
    let wrong =
        |line: usize, what: String| KeptError::Wrong(format!("{}:{}: {what}", path.display(), line + 1));
    let index = |name: &str, line: usize| {
        let found = profiles.iter().position(|profile| field(&profile.name) == name);
        found.ok_or_else(|| wrong(line, format!("{name} has no profile in the folder")))
    };
    let mut lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (head_line, head) = lines.next().ok_or_else(|| KeptError::in_file(path, "empty"))?;
    let neighbours: Vec<usize> =
        head.split(',').skip(1).map(|name| index(name.trim(), head_line)).collect::<Result<_, _>>()?;
    let mut pairs = Vec::new();
    for (line, text) in lines {
        let mut cells = text.split(',');
        let program = index(cells.next().unwrap_or_default().trim(), line)?;
        let cells: Vec<&str> = cells.map(str::trim).collect();
        if cells.len() != neighbours.len() {
            let (numbers, named) = (cells.len(), neighbours.len());
            return Err(wrong(line, format!("{numbers} numbers, but the head names {named} programs")));
        }
        for (cell, neighbour) in cells.into_iter().zip(&neighbours).filter(|(cell, _)| !cell.is_empty()) {
            let slowdown =
                cell.parse::<f64>().ok().filter(|slowdown| *slowdown > 0.0 && slowdown.is_finite());
            let none = || wrong(line, format!("{cell:?} is no slowdown: a factor, as 1.25"));
            pairs.push(Pair { program, neighbour: *neighbour, slowdown: slowdown.ok_or_else(none)? });
        }
    }
    Ok(pairs)
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
pub fn field(name: &str) -> String {
    name.replace([',', '/', '\n', '"'], "_")
}
