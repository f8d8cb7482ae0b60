//! `castell profile`.

use crate::look::LookArgs;
use crate::profiles;
use anyhow::{Context as _, bail};
use castell_host::process::Pid;
use castell_interference::class::Decision;
use castell_prof::binary::Binary;
use castell_prof::caches;
use castell_prof::counters::{Ended, Flows, Plan, Recording, Subject, watch};
use castell_prof::distances::{Observed, Options, observe};
use castell_prof::kept::machine::private_bytes;
use castell_prof::prints::Prints;
use castell_prof::profile::{Basis, Phase, Profile};
use castell_trace::Look;
use castell_trace::svg::{Axis, Chart, Mark, Panel, Point, Series, write_chart};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  castell profile -- ./program input             # flows, and its class
  castell profile -p 4711 --seconds 10           # one that runs already
  castell profile --svg flows.svg -- ./program   # activity over time, drawn
  castell profile --record it.json -- ./program  # keep the readings
  castell profile --replay it.json               # look at them again
  castell profile --keep --input C -- ./bt C     # keep its profile, by its binary and input class, for `castell place`

Counters of the processor are read while the program runs, which costs it nothing worth mention. Where there are none (in most \
virtual machines) the command says so, and falls back to reuse distances: it runs the program twice, once as it is for its time and \
once under an observer, 5 to 120 times slower. `--by counters` never does that.

Exit code: the program's own; 1 if it could not be profiled, 2 for wrong usage.";

/// Measure what a program moves through the memory hierarchy, and say of what class it is
///
/// Classes are those of Haritatos and others (COSH 2016): N stays in its private caches, C lives by the shared one, S streams from
/// memory. N disturbs nobody; S takes the memory's bandwidth and makes C lose its cache.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", required_unless_present_any = ["pid", "replay"], conflicts_with_all = ["pid", "replay"])]
    command: Vec<OsString>,
    /// Watch a running process and its children
    #[arg(short, long, value_name = "PID", conflicts_with = "replay")]
    pid: Option<i32>,
    /// Where the numbers come from
    #[arg(long, value_enum, default_value_t = By::Auto)]
    by: By,
    /// Watch for so long; a command is ended then
    #[arg(long, value_name = "S", value_parser = positive)]
    seconds: Option<f64>,
    /// Read the counters so often
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    every: u64,
    /// Part of the blocks that are looked at, by distances [default: 0.01, more of a program that has less than 100 MiB]
    #[arg(long, value_name = "RATE")]
    sample: Option<f64>,
    /// Keep the readings of the counters
    #[arg(long, value_name = "FILE.json")]
    record: Option<PathBuf>,
    /// Look at readings that were kept
    #[arg(long, value_name = "FILE.json")]
    replay: Option<PathBuf>,
    /// Keep the profile, for `castell place` and `castell predict`: with its distances, too, unless by counters only
    #[arg(long, conflicts_with_all = ["pid", "replay", "seconds"])]
    keep: bool,
    #[command(flatten)]
    kept: Kept,
    /// Draw the activity over time
    #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Under what name a profile is kept, and where.
#[derive(clap::Args)]
pub struct Kept {
    /// With --keep: the program's name [default: that of its file]
    #[arg(long, value_name = "NAME", requires = "keep", value_parser = name)]
    pub name: Option<String>,
    /// With --keep: the class of the input, as C or large
    #[arg(long, value_name = "CLASS", requires = "keep", value_parser = name)]
    pub input: Option<String>,
    /// With --keep: the folder of profiles [default: castell/profiles in the user's folder of data]
    #[arg(long, value_name = "DIR", requires = "keep")]
    pub profiles: Option<PathBuf>,
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| !letter.is_whitespace() && !letter.is_control() && !",:\"".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("a name has no spaces, commas, colons or quotes".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Counters if there are any, else distances
    Auto,
    /// Counters of the processor
    Counters,
    /// Reuse distances
    Distances,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number > 0.0 && number < 1e9 { Ok(number) } else { Err("give a number of seconds above 0".to_owned()) }
}

/// What is told in the end.
struct Report {
    recording: Recording,
    profile: Profile,
    status: Option<ExitStatus>,
    /// The distances, where they were observed.
    observed: Option<Observed>,
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    for path in [&args.svg, &args.record].into_iter().flatten() {
        // Before the program runs for hours.
        crate::output::check(path)?;
    }
    let binary = args.keep.then(|| binary(&args)).transpose()?;
    let report = match &args.replay {
        Some(path) => replayed(path)?,
        None => measured(&args)?,
    };
    if let Some(path) = &args.record {
        let text = serde_json::to_string(&report.recording)?;
        crate::output::write(path, text)?;
    }
    if let Some(path) = &args.svg {
        draw(&report, &args.look.look(), path)?;
    }
    if args.json {
        println!("{:#}", to_json(&report));
    } else {
        print!("{}", table(&report));
    }
    if let Some(binary) = &binary {
        keep(&args, &report, binary)?;
    }
    let Some(status) = report.status else { return Ok(ExitCode::SUCCESS) };
    if let Some(signal) = status.signal() {
        castell_host::say(&format!("the program was ended by {}", castell_host::signal::name(signal)));
    }
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.unwrap_or(1) as u8))
}

/// The file that is profiled, and that its profile can be kept: before it runs for hours.
fn binary(args: &Args) -> anyhow::Result<Binary> {
    profiles::to_keep_in(args.kept.profiles.as_deref())?;
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let said = || words.join(" ");
    Binary::of_command(&words)
        .with_context(|| format!("--keep: no word of `{}` is a program that can be read", said()))
}

fn keep(args: &Args, report: &Report, binary: &Binary) -> anyhow::Result<()> {
    if !report.status.is_some_and(|status| status.success()) {
        castell_host::say("its profile is not kept: the program did not end with 0");
        return Ok(());
    }
    let own = || binary.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let own_name = || own().map(|name| name.replace([',', ':', '"', ' '], "_"));
    let mut value = to_json(report);
    // Of interest for what it moves over time, not for what it does to others.
    value["intervals"].take();
    value["name"] = json!(args.kept.name.clone().or_else(own_name));
    value["input"] = json!(args.kept.input);
    value["binary"] = binary.to_json();
    value["kept_s"] = json!(profiles::seconds_now());
    let caches = caches::of_machine(Path::new("/"));
    let whole = report.recording.whole();
    let whole = whole.as_ref();
    value["seconds"] = json!(whole.map(|whole| whole.to_s - whole.from_s));
    let cores = whole.and_then(|whole| whole.busy).map_or(1.0, |busy| busy.round().max(1.0));
    value["cores"] = json!(cores);
    value["private_bytes"] = json!(private_bytes(&caches).map(|bytes| bytes as f64 * cores));
    if let Some(observed) = &report.observed {
        value["distances"] = crate::distances::to_json(observed, BLOCK_BYTES, &caches);
    }
    let path = profiles::keep(args.kept.profiles.as_deref(), &value, castell_host::say)?;
    castell_host::say(&format!("kept in {}", path.display()));
    Ok(())
}

fn replayed(path: &Path) -> anyhow::Result<Report> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    let recording = Recording::parse(&text).with_context(name)?;
    let profile = Profile::of_recording(&recording).with_context(name)?;
    Ok(Report { recording, profile, status: None, observed: None })
}

fn measured(args: &Args) -> anyhow::Result<Report> {
    let plan = Plan::of_machine(Path::new("/"));
    let by_distances = match (&plan.hardware, args.by) {
        (_, By::Distances) => true,
        (Ok(_), _) => false,
        (Err(why), By::Counters) => bail!("{why}; `--by distances` needs none"),
        (Err(why), By::Auto) if args.pid.is_some() => {
            bail!(
                "{why}; a process that runs already cannot be profiled without: start it with `castell profile -- CMD`"
            )
        }
        (Err(why), By::Auto) => {
            castell_host::say(&format!(
                "{why}\nfalling back to reuse distances: the program runs twice, the second time 5 to 120 times slower"
            ));
            true
        }
    };
    let subject = match args.pid {
        Some(pid) if by_distances => {
            bail!("process {pid} runs already: its distances cannot be observed any more")
        }
        Some(pid) => Subject::Process(Pid::from_raw(pid).with_context(|| format!("{pid} is no process"))?),
        None => Subject::Command(&args.command, prints(args)),
    };
    let limit = args.seconds.map(Duration::from_secs_f64);
    let watched = watch(subject, &plan, Duration::from_millis(args.every), limit)?;
    let memory_bytes = watched.memory_bytes;
    let (mut recording, ended) = (watched.recording, watched.ended);
    recording.notes.extend(watched.waited.and_then(has_waited));
    let status = match ended {
        Ended::Command(status) => Some(status),
        Ended::Gone | Ended::Stopped => None,
    };
    if !by_distances {
        let profile = Profile::of_recording(&recording)?;
        let wants_both = args.keep && args.by == By::Auto;
        let observed =
            if wants_both { Some(observed(args, status, memory_bytes, &mut recording)?) } else { None };
        return Ok(Report { recording, profile, status, observed });
    }
    let whole = recording.whole().context("the program ended at once: nothing to tell")?;
    let observed = observed(args, status, memory_bytes, &mut recording)?;
    recording.notes.push(
        "by reuse distances: caches as if fully associative, without prefetching; time passes with the accesses".to_owned(),
    );
    let caches = caches::of_machine(Path::new("/"));
    let seconds = whole.to_s - whole.from_s;
    let profile = Profile::of_distances(&observed.programs, BLOCK_BYTES, &caches, seconds, whole.busy)?;
    Ok(Report { recording, profile, status, observed: Some(observed) })
}

/// Runs the program once more, under the observer.
fn observed(
    args: &Args,
    status: Option<ExitStatus>,
    memory_bytes: Option<u64>,
    recording: &mut Recording,
) -> anyhow::Result<Observed> {
    let sample = args.sample.unwrap_or_else(|| {
        let seconds = recording.whole().map_or(0.0, |whole| whole.to_s - whole.from_s);
        sample_of(memory_bytes, seconds)
    });
    let options = Options {
        block_bytes: BLOCK_BYTES,
        ignore_stack: false,
        functions: false,
        threads: false,
        sample: Some(sample),
        growth: true,
        trace: None,
        prints: prints(args),
    };
    let observed = observe(&args.command, &options, |_| {})?;
    if observed.status != status.unwrap_or(observed.status) {
        recording
            .notes
            .push(format!("the program ended otherwise when it was observed: {}", observed.status));
    }
    let error = observed.programs.iter().filter_map(|seen| seen.error).fold(0.0, f64::max);
    recording.notes.push(format!(
        "{:.3} % of the blocks were looked at: miss ratios are off by {:.2} % of all accesses at most (standard error)",
        sample * 100.0,
        error * 100.0
    ));
    Ok(observed)
}

/// From this part of the time on it is told that the program waited.
const WAITED_TOLD: f64 = 0.05;

/// What to know about flows of a program that had no processor for a part of the time.
fn has_waited(part: f64) -> Option<String> {
    (part >= WAITED_TOLD).then(|| {
        format!(
            "it waited for a processor for {:.0} % of the time that it could have run: other programs had it, and with a processor of its own all \
             flows are about {:.1} times as large",
            part * 100.0,
            1.0 / (1.0 - part.min(0.999))
        )
    })
}

/// Blocks of a sample from which on its error is small beside that of taking caches for fully associative ones.
const SAMPLED_BLOCKS: f64 = 16_384.0;
/// A program of less time is looked at as a whole if nobody has seen its memory.
const SHORT_S: f64 = 0.1;

/// The part of the blocks that is looked at of a program that had so much memory: a hundredth of a few thousand blocks would say nothing.
fn sample_of(memory_bytes: Option<u64>, seconds: f64) -> f64 {
    let blocks = match memory_bytes {
        Some(bytes) => bytes as f64 / BLOCK_BYTES as f64,
        None if seconds < SHORT_S => 0.0,
        None => f64::INFINITY,
    };
    (SAMPLED_BLOCKS / blocks).clamp(0.01, 1.0)
}

/// With JSON nothing else is printed.
fn prints(args: &Args) -> Prints {
    if args.json { Prints::ToErrors } else { Prints::ToOutput }
}

fn table(report: &Report) -> String {
    let Report { recording, profile, .. } = report;
    let whole = &profile.whole.flows;
    let mut text = format!("{}: {:.2} s", recording.program, whole.to_s - whole.from_s);
    if let Some(busy) = whole.busy {
        text += &format!(", {busy:.2} processors busy");
    }
    if let Some(ipc) = whole.ipc {
        text += &format!(", {ipc:.2} instructions a cycle");
    }
    text.push('\n');
    for (name, flow, cache, reuse) in links(whole) {
        let Some(flow) = flow else { continue };
        let reuse = reuse.map_or_else(String::new, |reuse| format!("   CR of {cache} {reuse:.2}"));
        text += &format!("  {name:<14} {:>9.3} GB/s{reuse}\n", flow / 1e9);
    }
    match &profile.whole.decision {
        Some(decision) => text += &decision_text(decision),
        None => text += "  no class: the links of the memory hierarchy were not counted\n",
    }
    if profile.phases.len() > 1 {
        text += "  phases:\n";
        for phase in profile.phases.iter().take(PHASES_MAX) {
            text += &format!("    {}\n", phase_text(phase, whole.to_s - whole.from_s));
        }
        if profile.phases.len() > PHASES_MAX {
            text += &format!("    and {} more; --json has all\n", profile.phases.len() - PHASES_MAX);
        }
    }
    for (event, share) in recording.multiplexed() {
        text += &if share > 0.0 {
            format!("  {event} had a counter for {:.0} % of the time and is scaled up\n", share * 100.0)
        } else {
            format!("  {event} never had a counter: others have them\n")
        };
    }
    for note in &recording.notes {
        text += &format!("  note: {note}\n");
    }
    text
}

/// Bytes of most machines' cache lines.
const BLOCK_BYTES: u64 = 64;
/// Phases that are listed for people.
const PHASES_MAX: usize = 20;

/// Name, flow, the cache that it flows out of, and its CR.
type LinkRow = (&'static str, Option<f64>, &'static str, Option<f64>);

fn links(flows: &Flows) -> [LinkRow; 4] {
    let reuse = |out: Option<f64>, into: Option<f64>| {
        out.zip(into).and_then(|(out, into)| (into > 0.0).then(|| out / into))
    };
    [
        ("memory -> LLC", flows.memory_llc, "memory", None),
        ("LLC -> L2", flows.llc_l2, "the LLC", reuse(flows.llc_l2, flows.memory_llc)),
        ("L2 -> L1", flows.l2_l1, "L2", reuse(flows.l2_l1, flows.llc_l2)),
        ("L1 -> core", flows.l1_core, "L1", reuse(flows.l1_core, flows.l2_l1)),
    ]
}

fn decision_text(decision: &Decision) -> String {
    let ambiguous = if decision.is_ambiguous() { ", ambiguous" } else { "" };
    let mut text =
        format!("  class {} (confidence {:.2}{ambiguous})\n", decision.because(), decision.confidence);
    for change in decision.what_would_change_it() {
        text += &format!("    {change}\n");
    }
    text
}

/// Digits behind the point that tell times to a hundredth of the whole.
fn digits(whole_s: f64) -> usize {
    (2.0 - whole_s.max(1e-6).log10()).ceil().max(2.0) as usize
}

fn phase_text(phase: &Phase, whole_s: f64) -> String {
    let digits = digits(whole_s);
    let flows = &phase.flows;
    let because = phase.decision.as_ref().map_or_else(|| "no class".to_owned(), Decision::because);
    format!("{:.digits$} to {:.digits$} s: {because}", flows.from_s, flows.to_s)
}

fn to_json(report: &Report) -> Value {
    let Report { recording, profile, status, .. } = report;
    let counts = recording.events.iter().map(|event| {
        let count = recording.count(event).map(|of| json!({"count": of.count, "share": of.share}));
        (event.clone(), count.unwrap_or(Value::Null))
    });
    let mut all = phase_json(&profile.whole);
    all["program"] = json!(recording.program);
    all["processor"] = json!(recording.processor);
    all["by"] = json!(if profile.basis == Basis::Counters { "counters" } else { "distances" });
    all["table"] = json!(recording.table);
    all["notes"] = json!(recording.notes);
    all["counts"] = counts.collect::<serde_json::Map<_, _>>().into();
    all["phases"] = profile.phases.iter().map(phase_json).collect();
    all["intervals"] = profile.intervals.iter().map(flows_json).collect();
    all["exit_code"] = json!(status.and_then(|status| status.code()));
    all["signal"] = json!(status.and_then(|status| status.signal()));
    all
}

fn flows_json(flows: &Flows) -> Value {
    let reuses = links(flows).map(|(_, _, _, reuse)| reuse);
    json!({
        "from_s": flows.from_s,
        "to_s": flows.to_s,
        "memory_llc_bytes_s": flows.memory_llc,
        "llc_l2_bytes_s": flows.llc_l2,
        "l2_l1_bytes_s": flows.l2_l1,
        "l1_core_bytes_s": flows.l1_core,
        "reuse_llc": reuses[1],
        "reuse_l2": reuses[2],
        "reuse_l1": reuses[3],
        "ipc": flows.ipc,
        "processors_busy": flows.busy,
    })
}

fn phase_json(phase: &Phase) -> Value {
    let mut all = flows_json(&phase.flows);
    let decision = phase.decision.as_ref();
    all["class"] = json!(decision.map(|decision| decision.class.to_string()));
    all["because"] = json!(decision.map(Decision::because));
    all["confidence"] = json!(decision.map(|decision| decision.confidence));
    all["ambiguous"] = json!(decision.map(Decision::is_ambiguous));
    all["what_would_change_it"] = json!(decision.map(Decision::what_would_change_it));
    all
}

fn draw(report: &Report, look: &Look, path: &Path) -> anyhow::Result<()> {
    let Report { recording, profile, .. } = report;
    let middle = |flows: &Flows| (flows.from_s + flows.to_s) / 2.0;
    let line = |name: &str, of: fn(&Flows) -> Option<f64>, scale: f64| {
        let point = |flows| Point::new(middle(flows), of(flows).map(|value| value * scale));
        let points = profile.intervals.iter().map(point).collect();
        Series { name: name.to_owned(), points, ..Series::default() }
    };
    let panel = |title: &str, series| Panel { title: title.to_owned(), series, ..Panel::default() };
    let mut panels = Vec::new();
    if profile.whole.flows.l2_l1.is_some() {
        let series = vec![
            line("memory -> LLC", |flows| flows.memory_llc, 1e-9),
            line("LLC -> L2", |flows| flows.llc_l2, 1e-9),
            line("L2 -> L1", |flows| flows.l2_l1, 1e-9),
        ];
        panels.push(panel("GB/s towards the core", series));
    }
    if profile.whole.flows.ipc.is_some() {
        let series = vec![line("instructions a cycle", |flows| flows.ipc, 1.0)];
        panels.push(panel("instructions a cycle", series));
    }
    if profile.basis == Basis::Counters {
        panels.push(panel("processors busy", vec![line("processors busy", |flows| flows.busy, 1.0)]));
    }
    let marks = profile.phases.iter().map(|phase| {
        let class = phase.decision.as_ref().map_or_else(String::new, |decision| decision.class.to_string());
        Mark { at: phase.flows.from_s, text: class }
    });
    let decision = profile.whole.decision.as_ref();
    // Each panel has its own scale, from 0.
    let y = || Some(Axis { base: Some(0.0), ..Axis::default() });
    panels.iter_mut().for_each(|panel| panel.y = y());
    let marks = if profile.phases.len() <= PHASES_MAX { marks.collect() } else { Vec::new() };
    let chart = Chart {
        title: format!("What {} moves", recording.program),
        subtitle: decision.map_or_else(|| "no class".to_owned(), Decision::because),
        x: Axis { unit: "s".to_owned(), marks, ..Axis::default() },
        panels,
        ..Chart::default()
    };
    let mut text = Vec::new();
    write_chart(&chart, look, &mut text)?;
    crate::picture::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_of_short_runs_are_told_apart() {
        assert_eq!([400.0, 1.0, 0.04, 0.0].map(digits), [2, 2, 4, 8]);
    }

    #[test]
    fn a_program_of_less_memory_is_looked_at_more_closely() {
        let of = |bytes: u64| sample_of(Some(bytes), 10.0);
        assert_eq!([of(1 << 33), of(1 << 20), of(64)], [0.01, 1.0, 1.0]);
        assert!((of(10 << 20) - 0.1).abs() < 1e-9, "{}", of(10 << 20));
        assert_eq!(has_waited(0.01), None);
        assert!(
            has_waited(0.75).is_some_and(|told| told.contains("75 %") && told.contains("about 4.0 times"))
        );
        assert_eq!([sample_of(None, 0.01), sample_of(None, 10.0)], [1.0, 0.01]);
    }
}
