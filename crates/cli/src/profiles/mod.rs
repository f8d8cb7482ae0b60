//! `castell profiles`: profiles that were kept, by program.

use anyhow::bail;
use castell_prof::binary::Binary;
use castell_prof::kept::{self, Entry, MACHINE, Store, machine};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

const EXAMPLES: &str = "\
Examples:
  castell profile --keep -- ./bt                           keep a profile of bt
  castell profile --keep --input C -- ./bt C               the same program with an input of another kind
  castell profiles list                                    what is kept, and whether the binary has changed since
  castell profiles show bt:C --json                        all of it
  castell profiles remove bt:B
  castell profiles machine                                 measure the machine anew: what predictions need besides profiles
  castell place bt:C:2,cg:2 --rule predicted               who goes beside whom, from these

A profile is known by its binary's content (SHA-256), its name and the class of its input (--input). They lie in
$XDG_DATA_HOME/castell/profiles (~/.local/share otherwise), or in /var/lib/castell/profiles where the user has none; --profiles names
another folder. It is one that `castell predict --train` reads.";

/// List, show and remove the profiles of programs that were kept
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List what is kept
    List(Kept),
    /// Print a profile
    Show(Named),
    /// Remove profiles
    Remove(Named),
    /// Measure the machine: its caches, and how long its memory takes
    Machine(Kept),
}

#[derive(clap::Args)]
struct Kept {
    /// The folder [default: the user's, else /var/lib/castell/profiles]
    #[arg(long, value_name = "DIR")]
    profiles: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Named {
    /// NAME, NAME:INPUT, the beginning of the binary's hash, or the file of the program
    program: String,
    #[command(flatten)]
    kept: Kept,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List(kept) => list(&kept)?,
        Command::Show(named) => show(&named)?,
        Command::Remove(named) => remove(&named)?,
        Command::Machine(kept) => {
            let folder = to_keep_in(kept.profiles.as_deref())?;
            let value = measure()?;
            kept::write(&folder.join(MACHINE), &value)?;
            match kept.json {
                true => println!("{value:#}"),
                false => println!("{}\n  {}", folder.join(MACHINE).display(), machine::sentence(&value)),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Keeps a profile. The machine is measured if it never was; `say` is told what happens.
pub fn keep(named: Option<&Path>, value: &Value, say: impl Fn(&str)) -> anyhow::Result<PathBuf> {
    let folder = to_keep_in(named)?;
    let path = Store::keep(&folder, value)?;
    if !folder.join(MACHINE).exists() {
        say("measuring this machine's caches and memory, once, for predictions");
        match measure() {
            Ok(value) => kept::write(&folder.join(MACHINE), &value)?,
            Err(error) => say(&format!("there will be no predictions: {error:#}")),
        }
    }
    Ok(path)
}

fn measure() -> anyhow::Result<Value> {
    crate::afford::insist("the probe", machine::memory_bytes().into())?;
    Ok(machine::measure()?)
}

/// Whether a profile could be kept: before minutes of measuring.
pub fn to_keep_in(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let folder = named.map_or_else(Store::users, |folder| Ok(folder.to_owned()))?;
    let cannot =
        |error: std::io::Error| anyhow::anyhow!("cannot keep profiles in {}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    tempfile::tempfile_in(&folder).map_err(cannot)?;
    Ok(folder)
}

pub fn seconds_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// What has become of the binary that was profiled.
fn state(entry: &Entry) -> &'static str {
    let Some(binary) = &entry.binary else { return "no binary was named" };
    match Binary::of_file(&binary.path) {
        Some(now) if now.sha256 == binary.sha256 => "as profiled",
        Some(_) => "changed since",
        None => "not there any more",
    }
}

fn entry_json(entry: &Entry) -> Value {
    json!({
        "name": entry.name,
        "input": entry.input,
        "binary": entry.binary.as_ref().map(Binary::to_json),
        "state": state(entry),
        "class": entry.value["class"],
        "by": entry.value["by"],
        "has_distances": !entry.value["distances"].is_null(),
        "has_slowdown": !entry.value["slowdown"].is_null(),
        "seconds": entry.value["seconds"],
        "kept_s": entry.kept,
        "file": entry.path.display().to_string(),
    })
}

fn list(kept: &Kept) -> anyhow::Result<()> {
    let store = Store::of(kept.profiles.as_deref())?;
    if kept.json {
        let profiles: Vec<Value> = store.entries.iter().map(entry_json).collect();
        println!(
            "{:#}",
            json!({"folder": store.folder.display().to_string(), "machine": store.folder.join(MACHINE).exists(), "profiles": profiles, "unreadable": store.complaints})
        );
        return Ok(());
    }
    println!("{} in {}", count(store.entries.len()), store.folder.display());
    let width = store.entries.iter().map(|entry| entry.label().chars().count()).max().unwrap_or(0).max(8);
    for entry in &store.entries {
        let hash = entry.binary.as_ref().map_or("-", |binary| &binary.sha256[..12]);
        let class = entry.value["class"].as_str().unwrap_or("-");
        let path =
            entry.binary.as_ref().map_or_else(String::new, |binary| format!(" ({})", binary.path.display()));
        println!("  {:<width$}  class {class}  {hash:<12}  {}{path}", entry.label(), state(entry));
    }
    store.complaints.iter().for_each(|complaint| castell_host::say(&format!("left out: {complaint}")));
    if !store.folder.join(MACHINE).exists() {
        println!(
            "  nothing is known of the machine: `castell profiles machine` measures it, for predictions"
        );
    }
    Ok(())
}

fn count(profiles: usize) -> String {
    if profiles == 1 { "1 profile".to_owned() } else { format!("{profiles} profiles") }
}

/// The profiles that are meant.
fn meant<'a>(store: &'a Store, named: &Named) -> anyhow::Result<Vec<&'a Entry>> {
    let program = named.program.as_str();
    let of_file =
        Some(program).filter(|program| program.contains('/')).and_then(|path| Binary::of_file(path.as_ref()));
    let is_hash = program.len() >= 6 && program.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_meant = |entry: &&Entry| {
        let hash = entry.binary.as_ref().map_or("", |binary| binary.sha256.as_str());
        entry.name == program
            || entry.label() == program
            || of_file.as_ref().is_some_and(|file| file.sha256 == hash)
            || is_hash && hash.starts_with(&program.to_lowercase())
    };
    let meant: Vec<&Entry> = store.entries.iter().filter(is_meant).collect();
    if meant.is_empty() {
        let labels: Vec<String> = store.entries.iter().map(Entry::label).collect();
        let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
        bail!("no profile of {program} is kept in {}; there are: {labels}", store.folder.display());
    }
    Ok(meant)
}

fn show(named: &Named) -> anyhow::Result<()> {
    let store = Store::of(named.kept.profiles.as_deref())?;
    let meant = meant(&store, named)?;
    if named.kept.json {
        let profiles: Vec<&Value> = meant.iter().map(|entry| &entry.value).collect();
        println!("{:#}", json!({"profiles": profiles}));
        return Ok(());
    }
    for entry in meant {
        println!("{} ({})", entry.label(), entry.path.display());
        if let Some(binary) = &entry.binary {
            println!("  binary    {} of {} B, {}", binary.path.display(), binary.bytes, state(entry));
            println!("  sha256    {}", binary.sha256);
        }
        if let Some(because) = entry.value["because"].as_str() {
            println!("  class     {because}");
        }
        if let Some(seconds) = entry.value["seconds"].as_f64() {
            println!("  alone     {seconds:.2} s");
        }
        let has = |key: &str, what: &str, lacks: &str| match entry.value[key].is_null() {
            true => println!("  {key:<9} none: {lacks}"),
            false => println!("  {key:<9} {what}"),
        };
        has("distances", "observed", "`castell profile --keep` without `--by counters` observes them");
        has("slowdown", "measured beside a probe", "`castell slowdown --keep` lets predictions be narrower");
    }
    Ok(())
}

fn remove(named: &Named) -> anyhow::Result<()> {
    let store = Store::of(named.kept.profiles.as_deref())?;
    let meant = meant(&store, named)?;
    let removed: Vec<Value> = meant.iter().map(|entry| entry_json(entry)).collect();
    for entry in &meant {
        std::fs::remove_file(&entry.path)
            .map_err(|error| anyhow::anyhow!("cannot remove {}: {error}", entry.path.display()))?;
        if !named.kept.json {
            println!("removed {} ({})", entry.label(), entry.path.display());
        }
    }
    if named.kept.json {
        println!("{:#}", json!({"removed": removed}));
    }
    Ok(())
}
