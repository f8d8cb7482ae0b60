//! `castell slowdown`.

use crate::look::LookArgs;
use anyhow::{anyhow, bail};
use castell_bench::bar::bar;
use castell_host::resctrl::FOLDER;
use castell_host::topology::{Processors, parse_list, print_list};
use castell_prof::binary::Binary;
use castell_prof::caches::{self, Cache};
use castell_prof::counters::Processor;
use castell_prof::kept::{Entry, Store};
use castell_prof::probe::parse_size;
use castell_prof::slowdown::{Cost, Division, Estimate, Options, Pace, Point, Steal, curves, who};
use castell_trace::svg::{Axis, Chart, Mark, Panel, Point as Dot, Powers, Series, write_chart};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  castell slowdown -- ./program input             # and a probe, of all sizes
  castell slowdown --sizes 256K,4M,64M -- ./program
  castell slowdown --svg curves.svg -- ./program  # both curves, drawn
  castell slowdown --who 4711,4712 -- ./program   # who costs it how much?
  castell slowdown --who 4711                     # what it costs a probe
  castell slowdown --ways 0-3 -- ./program        # with four ways of the cache for itself
  castell slowdown --keep -- ./program input      # add the curve to its profile (`castell profile --keep`): narrower predictions

The neighbour is stopped and goes on every moment; each interval with it is compared with the one without it beside it. The program's \
pace is its instructions, where these can be counted; else whole runs of the program are compared, one with the probe and one \
without by turns. The probe's pace is always its own bandwidth. The program is started again and again and its output is not shown.

Limits hold for all points together with 95 %. Exit code: 0, also where no effect was measured; 1 if nothing could be measured.";

/// Measure how much a program and a memory probe slow each other
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", required_unless_present = "who")]
    command: Vec<OsString>,
    /// Sizes that the probe goes over, the sum over its threads [default: around this machine's caches]
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size)]
    sizes: Vec<u64>,
    /// Threads of the probe
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Pairs of intervals for each point
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pairs: u32,
    /// Length of an interval
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    interval: u64,
    /// The program's processors [default: all but the probe's]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// The probe's processors [default: the last ones]
    #[arg(long, value_name = "LIST")]
    probe_cpus: Option<String>,
    /// Processes that run already: what does each of them cost?
    #[arg(long, value_name = "PID,…", value_delimiter = ',')]
    who: Vec<i32>,
    /// Ways of the last-level cache that the program fills, as 0-3; the probe fills the others. Needs resctrl (Intel's CAT or AMD's L3 QoS)
    #[arg(long, value_name = "LIST", conflicts_with = "who")]
    ways: Option<String>,
    /// With --ways: where resctrl is mounted
    #[arg(long, value_name = "DIR", requires = "ways", default_value = FOLDER)]
    resctrl: PathBuf,
    /// Orders within pairs are drawn from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Add the curves to the program's profile, which `castell profile --keep` has kept
    #[arg(long, conflicts_with = "who")]
    keep: bool,
    /// With --keep: the class of the input, as the profile has it
    #[arg(long, value_name = "CLASS", requires = "keep")]
    input: Option<String>,
    /// With --keep: the folder of profiles [default: castell/profiles in the user's folder of data]
    #[arg(long, value_name = "DIR", requires = "keep")]
    profiles: Option<PathBuf>,
    /// Draw the curves
    #[arg(long, value_name = "FILE.svg|png|pdf", conflicts_with = "who", group = "drawn", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "write sizes as 256K or 16M".to_owned())
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.svg {
        // Before minutes of measuring.
        crate::output::check(path)?;
    }
    let kept = if args.keep { Some(kept(&args)?) } else { None };
    let root = Path::new("/");
    let caches = caches::of_machine(root);
    let options = options(&args, &caches)?;
    let mut warnings = warnings(&options);
    let steal = Steal::begin(root);
    if args.who.is_empty() {
        let bar = bar(options.sizes.len() as u64).with_message("sizes of the probe");
        bar.tick();
        let progress = |point: &Point| {
            if !args.json {
                bar.suspend(|| println!("{}", point_text(point)));
            }
            bar.inc(1);
        };
        let (points, pace) = curves(&args.command, &options, progress)?;
        bar.finish_and_clear();
        warnings.extend(stolen(&steal));
        if let Some(mut entry) = kept {
            entry.value["slowdown"] = curves_json(&args, &options, &points, pace, &warnings);
            entry.write()?;
            castell_host::say(&format!("added to {}", entry.path.display()));
        }
        if let Some(path) = &args.svg {
            draw(&args, &points, &caches, path)?;
        }
        if args.json {
            println!("{:#}", curves_json(&args, &options, &points, pace, &warnings));
        } else {
            println!("{}", verdict(&points));
            tell(pace, &warnings);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (costs, pace) = who(&args.command, &args.who, &options)?;
    warnings.extend(stolen(&steal));
    if args.json {
        println!("{:#}", who_json(&options, &costs, pace, &warnings));
    } else {
        for cost in &costs {
            println!("process {} ({}): {}", cost.pid, cost.name, estimate_text(&cost.estimate));
        }
        tell(pace, &warnings);
    }
    Ok(ExitCode::SUCCESS)
}

/// The profile that the curves belong to.
fn kept(args: &Args) -> anyhow::Result<Entry> {
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let binary = Binary::of_command(&words);
    let mut store = Store::of(args.profiles.as_deref())?;
    let is_meant = |entry: &Entry| {
        entry.input == args.input
            && entry.binary.as_ref().map(|of| &of.sha256) == binary.as_ref().map(|of| &of.sha256)
    };
    let found = store.entries.iter().position(|entry| entry.binary.is_some() && is_meant(entry));
    let Some(found) = found else {
        bail!(
            "no profile of this program and input is kept in {}: `castell profile --keep -- {}` makes one",
            store.folder.display(),
            words.join(" ")
        );
    };
    Ok(store.entries.swap_remove(found))
}

fn options(args: &Args, caches: &[Cache]) -> anyhow::Result<Options> {
    let usable = Processors::usable().cpus;
    let list = |text: &Option<String>| text.as_deref().map(parse_list).transpose();
    let threads = usize::from(args.threads);
    let probe_cpus = match list(&args.probe_cpus)? {
        Some(cpus) => cpus,
        None if usable.len() < 2 => {
            bail!("there is one processor only: a program and a probe on it would just take turns")
        }
        None => usable[usable.len() - threads.min(usable.len() - 1)..].to_vec(),
    };
    let rest = || usable.iter().copied().filter(|cpu| !probe_cpus.contains(cpu)).collect();
    let program_cpus: Vec<u32> = list(&args.cpus)?.unwrap_or_else(rest);
    if let Some(cpu) = program_cpus.iter().chain(&probe_cpus).find(|cpu| !usable.contains(cpu)) {
        bail!("processor {cpu} may not be used here; usable are {}", print_list(&usable));
    }
    if program_cpus.is_empty() || program_cpus.iter().any(|cpu| probe_cpus.contains(cpu)) {
        bail!(
            "the program (processors {}) and the probe ({}) would take turns on a processor: give them different ones",
            print_list(&program_cpus),
            print_list(&probe_cpus)
        );
    }
    let mut sizes = if args.sizes.is_empty() { usual_sizes(caches) } else { args.sizes.clone() };
    sizes.sort_unstable();
    sizes.dedup();
    crate::afford::insist("the probe", sizes.iter().copied().max().unwrap_or(0).into())?;
    Ok(Options {
        sizes,
        threads,
        pairs: args.pairs as usize,
        interval: Duration::from_millis(args.interval),
        program_cpus,
        probe_cpus,
        seed: args.seed,
        division: division(args)?,
    })
}

fn division(args: &Args) -> anyhow::Result<Option<Division>> {
    let Some(list) = &args.ways else { return Ok(None) };
    let program = parse_list(list).map_err(|_| {
        anyhow!("--ways {list}: write ways of the cache as numbers and ranges, such as 0-3 or 0,1")
    })?;
    Ok(Some(Division { resctrl: args.resctrl.clone(), program }))
}

/// Within L2, behind it, and around the last level.
fn usual_sizes(caches: &[Cache]) -> Vec<u64> {
    let level = |level| caches.iter().find(|cache| cache.level == level).map(|cache| cache.bytes);
    let (second, last) = (level(2).unwrap_or(1 << 20), level(3).unwrap_or(16 << 20));
    vec![second / 2, second * 2, last / 2, last, last * 2]
}

/// What may make the answer another one than it would be elsewhere.
fn warnings(options: &Options) -> Vec<String> {
    let mut warnings = Vec::new();
    let cores = Processors::usable().cores(Path::new("/"));
    let shared = |core: &&Vec<u32>| {
        let has = |cpus: &[u32]| core.iter().any(|cpu| cpus.contains(cpu));
        has(&options.program_cpus) && has(&options.probe_cpus)
    };
    if let Some(core) = cores.iter().find(shared) {
        warnings.push(format!(
            "processors {} are hyper-threads of one core: program and probe share more than caches and memory",
            print_list(core)
        ));
    }
    warnings.extend(machine_warnings());
    warnings
}

/// What makes any comparison of programs on this machine doubtful.
pub fn machine_warnings() -> Vec<String> {
    let mut warnings = Vec::new();
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0);
    if load >= 1.0 {
        warnings.push(format!(
            "other programs keep {load:.1} processors busy (/proc/loadavg): limits will be wide"
        ));
    }
    if Processor::of_machine(Path::new("/")).is_virtual {
        warnings.push(
            "this is a virtual machine: its processors may be hyper-threads of one core, and neighbours that nobody sees here \
             use the same caches"
                .to_owned(),
        );
    }
    warnings
}

/// From this part on, stolen time is told.
const STEAL_TOLD: f64 = 0.01;

fn stolen(steal: &Steal) -> Option<String> {
    let share = steal.share(Path::new("/"));
    (share >= STEAL_TOLD)
        .then(|| format!("the hypervisor gave {:.1} % of the time to others (steal)", share * 100.0))
}

fn tell(pace: Pace, warnings: &[String]) {
    if pace == Pace::Runs {
        println!(
            "note: instructions cannot be counted here: the program's slowdown is that of whole runs, by turns"
        );
    }
    for warning in warnings {
        println!("warning: {warning}");
    }
}

fn estimate_text(estimate: &Estimate) -> String {
    let Estimate { slowdown, low, high, pairs } = estimate;
    if estimate.is_effect() {
        format!(
            "{:+.1} % ({:+.1} to {:+.1})",
            (slowdown - 1.0) * 100.0,
            (low - 1.0) * 100.0,
            (high - 1.0) * 100.0
        )
    } else {
        let [low, high] = [low, high].map(|limit| (limit - 1.0) * 100.0);
        format!("no measurable effect ({low:+.1} to {high:+.1} %, {pairs} pairs)")
    }
}

fn point_text(point: &Point) -> String {
    format!(
        "probe of {:>9}: program {}; probe {}",
        size_text(point.bytes),
        estimate_text(&point.program),
        estimate_text(&point.probe)
    )
}

fn size_text(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes as f64 / f64::from(1 << 20)),
        bytes => format!("{} KiB", bytes as f64 / 1024.0),
    }
}

fn verdict(points: &[Point]) -> String {
    let worst = |of: fn(&Point) -> &Estimate| {
        let effects = points.iter().filter(|point| of(point).is_effect());
        effects.max_by(|a, b| of(a).slowdown.total_cmp(&of(b).slowdown))
    };
    let text = |name: &str, of: fn(&Point) -> &Estimate| match worst(of) {
        None => format!("{name}: no measurable effect"),
        Some(point) => {
            format!("{name}: {} at most, at {}", estimate_text(of(point)), size_text(point.bytes))
        }
    };
    format!(
        "{}\n{}",
        text("the program by the probe", |point| &point.program),
        text("the probe by the program", |point| &point.probe)
    )
}

fn estimate_json(estimate: &Estimate) -> Value {
    json!({
        "slowdown": estimate.slowdown,
        "low": estimate.low,
        "high": estimate.high,
        "pairs": estimate.pairs,
        "effect": estimate.is_effect(),
    })
}

fn pace_name(pace: Pace) -> &'static str {
    if pace == Pace::Instructions { "instructions" } else { "runs" }
}

fn curves_json(args: &Args, options: &Options, points: &[Point], pace: Pace, warnings: &[String]) -> Value {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let points = points.iter().map(|point| {
        json!({"bytes": point.bytes, "program": estimate_json(&point.program), "probe": estimate_json(&point.probe)})
    });
    json!({
        "program": words.join(" "),
        "pace": pace_name(pace),
        "interval_s": options.interval.as_secs_f64(),
        "program_cpus": options.program_cpus,
        "probe_cpus": options.probe_cpus,
        "ways": options.division.as_ref().map(|division| &division.program),
        "points": points.collect::<Vec<_>>(),
        "warnings": warnings,
    })
}

fn who_json(options: &Options, costs: &[Cost], pace: Pace, warnings: &[String]) -> Value {
    let costs = costs.iter().map(|cost| {
        let mut all = estimate_json(&cost.estimate);
        all["pid"] = json!(cost.pid);
        all["name"] = json!(cost.name);
        all
    });
    json!({
        "pace": pace_name(pace),
        "interval_s": options.interval.as_secs_f64(),
        "neighbours": costs.collect::<Vec<_>>(),
        "warnings": warnings,
    })
}

fn draw(args: &Args, points: &[Point], caches: &[Cache], path: &Path) -> anyhow::Result<()> {
    let panel = |title: &str, of: fn(&Point) -> &Estimate| {
        let dot = |point: &Point| {
            let Estimate { slowdown, low, high, .. } = of(point);
            Dot::between(point.bytes as f64, Some(*slowdown), *low, *high)
        };
        let points = points.iter().map(dot).collect();
        let series = vec![Series { name: "time / time alone".to_owned(), points, ..Series::default() }];
        let y = Some(Axis { base: Some(1.0), ..Axis::default() });
        Panel { title: title.to_owned(), y, series, ..Panel::default() }
    };
    let mark = |cache: &Cache| Mark { at: cache.bytes as f64, text: format!("L{}", cache.level) };
    let marks = caches.iter().map(mark).collect();
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let chart = Chart {
        title: format!("{} against a probe", words.join(" ")),
        subtitle: "slowdown by the probe's size; bands hold together with 95 %".to_owned(),
        x: Axis { unit: "bytes".to_owned(), scale: Powers::Two, marks, ..Axis::default() },
        panels: vec![
            panel("the program beside the probe", |point| &point.program),
            panel("the probe beside the program", |point| &point.probe),
        ],
        ..Chart::default()
    };
    let mut text = Vec::new();
    write_chart(&chart, &args.look.look(), &mut text)?;
    crate::picture::write(path, text)
}
