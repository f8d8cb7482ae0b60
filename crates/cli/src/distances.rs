//! `castell distances`.

use crate::look::LookArgs;
use anyhow::Context as _;
use castell_cachesim::{Histogram, MissRatioCurve};
use castell_prof::caches::{self, Cache};
use castell_prof::distances::{Observed, Options, Seen, observe, of_trace};
use castell_prof::prints::Prints;
use castell_trace::Look;
use castell_trace::svg::{Axis, Chart, Kind, Mark, Panel, Place, Point, Powers, Series, write_chart};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell distances -- ./program input           # misses in every cache size
  castell distances --sample 0.01 -- ./program   # of 1 % of blocks: faster
  castell distances --functions -- ./program     # which functions miss
  castell distances --trace it -- ./program      # keep its accesses
  castell distances --svg curve.svg -- ./program # drawn

The program is not changed; it runs under Valgrind, 10 to 120 times slower, one thread at a time. Send castell SIGUSR1 to see \
what there is so far. An interrupt ends the program, and what was seen of it is printed.

Exit code: the program's own; 1 if it could not be observed, 2 for wrong usage.";

/// Measure the reuse distances of a program's memory accesses, and what they mean for caches
///
/// The distance of an access is how many distinct blocks were touched since the last access to its block: a cache that holds more
/// blocks than that hits. So one run tells the miss ratio of every cache size.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The program and its arguments
    #[arg(
        last = true,
        value_name = "CMD",
        required_unless_present = "from_trace",
        conflicts_with = "from_trace"
    )]
    command: Vec<OsString>,
    /// Look at this part of the blocks only, as 0.01
    #[arg(long, value_name = "RATE", conflicts_with_all = ["exact", "threads", "functions"])]
    sample: Option<f64>,
    /// Look at every access (the default)
    #[arg(long)]
    exact: bool,
    /// Bytes of a block (default: 64, or the trace's)
    #[arg(long, value_name = "BYTES")]
    block: Option<u64>,
    /// Leave out each thread's stack
    #[arg(long)]
    ignore_stack: bool,
    /// Each thread among its own accesses, too
    #[arg(long)]
    threads: bool,
    /// By function, too; accesses to the block touched just before are left out there
    #[arg(long)]
    functions: bool,
    /// Keep all accesses in a file
    #[arg(long, value_name = "FILE", conflicts_with = "sample")]
    trace: Option<PathBuf>,
    /// Distances of accesses that were kept
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "sample", "functions", "ignore_stack"])]
    from_trace: Option<PathBuf>,
    /// Draw histogram and miss ratios of the program with the most accesses
    #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Bytes of most machines' cache lines.
const BLOCK_BYTES: u64 = 64;

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        block_bytes: args.block.unwrap_or(BLOCK_BYTES),
        ignore_stack: args.ignore_stack,
        functions: args.functions,
        threads: args.threads,
        sample: args.sample,
        growth: false,
        trace: args.trace.clone(),
        // With JSON nothing else is printed.
        prints: if args.json { Prints::ToErrors } else { Prints::ToOutput },
    };
    let caches = caches::of_machine(Path::new("/"));
    if let Some(path) = &args.svg {
        // Before the program runs for hours.
        crate::output::check(path)?;
    }
    let (observed, block) = match &args.from_trace {
        Some(path) => kept(path, args.block, args.threads).with_context(|| path.display().to_string())?,
        None => {
            let observed = observe(&args.command, &options, |seen| {
                castell_host::say("so far");
                castell_host::say::raw(&table(&seen, options.block_bytes, &caches));
            })?;
            (observed, options.block_bytes)
        }
    };
    if let Some(path) = &args.svg {
        draw((&observed, block), &caches, &args.look.look(), path)?;
    }
    if args.json {
        println!("{:#}", to_json(&observed, block, &caches));
    } else {
        print!("{}", table(&observed.programs, block, &caches));
    }
    if let Some(signal) = observed.status.signal() {
        castell_host::say(&format!("the program was ended by {}", castell_host::signal::name(signal)));
    }
    for complaint in &observed.complaints {
        castell_host::say(&format!("of a program that was observed: {complaint}"));
    }
    if let (Some(error), Some(path)) = (observed.trace_error, &args.trace) {
        return Err(error)
            .with_context(|| format!("{} is cut off; what was measured is whole", path.display()));
    }
    let code = observed.status.code().or_else(|| observed.status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.unwrap_or(1) as u8))
}

/// What a trace has, and the bytes of its blocks.
fn kept(path: &Path, block_bytes: Option<u64>, threads: bool) -> anyhow::Result<(Observed, u64)> {
    let (block_bytes, programs) = of_trace(&std::fs::read(path)?, block_bytes, threads)?;
    let status = std::process::ExitStatus::default();
    Ok((Observed { status, programs, complaints: Vec::new(), trace_error: None }, block_bytes))
}

fn table(programs: &[Seen], block_bytes: u64, caches: &[Cache]) -> String {
    let mut text = String::new();
    for seen in programs {
        let footprint = size_text(seen.blocks * block_bytes);
        text += &format!(
            "{} (process {}): {} accesses to {footprint}{}\n",
            seen.name,
            seen.pid,
            seen.accesses,
            if seen.is_complete { "" } else { "; incomplete: it did not end in order, or runs on" }
        );
        let curve = MissRatioCurve::of(&seen.together);
        for cache in caches {
            let ratio = curve.at((cache.bytes / block_bytes) as f64);
            let name = cache_name(cache);
            text += &format!("  would miss in {name:<20} {:8.4} % of its accesses\n", ratio * 100.0);
        }
        if let Some(error) = seen.error {
            text += &format!("  standard error of these: at most {:.4} % (a sample)\n", error * 100.0);
        }
        for (thread, histogram) in &seen.threads {
            text += &format!(
                "  thread {thread}: {} accesses, {}\n",
                histogram.accesses(),
                misses(histogram, block_bytes, caches)
            );
        }
        let mut functions: Vec<(&String, &Histogram)> = seen.functions.iter().collect();
        functions.sort_by(|a, b| b.1.accesses().total_cmp(&a.1.accesses()));
        for (name, histogram) in functions.iter().take(FUNCTIONS_MAX) {
            text += &format!(
                "  {name}: {} accesses, {}\n",
                histogram.accesses(),
                misses(histogram, block_bytes, caches)
            );
        }
        if functions.len() > FUNCTIONS_MAX {
            text +=
                &format!("  and {} functions with fewer; --json has all\n", functions.len() - FUNCTIONS_MAX);
        }
    }
    text
}

/// Functions that are listed for people.
const FUNCTIONS_MAX: usize = 20;

fn misses(histogram: &Histogram, block_bytes: u64, caches: &[Cache]) -> String {
    let curve = MissRatioCurve::of(histogram);
    let of = |cache: &Cache| {
        format!("L{} {:.3} %", cache.level, curve.at((cache.bytes / block_bytes) as f64) * 100.0)
    };
    let parts: Vec<String> = caches.iter().map(of).collect();
    format!("misses in {}", parts.join(", "))
}

/// Smaller shares are not drawn, %.
const SHARE_MIN: f64 = 1e-4;

fn cache_name(cache: &Cache) -> String {
    format!("L{} ({})", cache.level, size_text(cache.bytes))
}

fn size_text(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(units.len() as u32 - 1);
    let number = bytes as f64 / (1u64 << (10 * unit)) as f64;
    if number.fract() == 0.0 {
        format!("{number} {}", units[unit as usize])
    } else {
        format!("{number:.1} {}", units[unit as usize])
    }
}

pub fn to_json(observed: &Observed, block_bytes: u64, caches: &[Cache]) -> serde_json::Value {
    let histogram = |histogram: &Histogram| {
        let curve = MissRatioCurve::of(histogram);
        let buckets = histogram.buckets().map(|bucket| json!([bucket.from, bucket.to, bucket.accesses]));
        let ratios = caches.iter().map(|cache| curve.at((cache.bytes / block_bytes) as f64));
        json!({
            "accesses": histogram.accesses(),
            "first_accesses": histogram.first_accesses(),
            "distances_blocks": buckets.collect::<Vec<_>>(),
            "miss_ratios": ratios.collect::<Vec<_>>(),
        })
    };
    let programs = observed.programs.iter().map(|seen| {
        let mut all = histogram(&seen.together);
        // Those of a sample add up to it but for what is lost in adding.
        all["accesses"] = json!(seen.accesses as f64);
        all["process"] = json!(seen.pid);
        all["parent"] = json!(seen.parent);
        all["program"] = json!(seen.name);
        all["blocks"] = json!(seen.blocks);
        all["complete"] = json!(seen.is_complete);
        all["miss_ratio_error"] = json!(seen.error);
        let threads = seen.threads.iter().map(|(id, of)| (id.to_string(), histogram(of)));
        all["threads"] = threads.collect::<serde_json::Map<_, _>>().into();
        let functions = seen.functions.iter().map(|(name, of)| (name.clone(), histogram(of)));
        all["functions"] = functions.collect::<serde_json::Map<_, _>>().into();
        all
    });
    let caches = caches
        .iter()
        .map(|cache| json!({"level": cache.level, "bytes": cache.bytes, "shared_by": cache.shared_by}));
    json!({
        "block_bytes": block_bytes,
        "caches": caches.collect::<Vec<_>>(),
        "exit_code": observed.status.code(),
        "signal": observed.status.signal(),
        "programs": programs.collect::<Vec<_>>(),
    })
}

fn draw(
    (observed, block_bytes): (&Observed, u64),
    caches: &[Cache],
    look: &Look,
    path: &Path,
) -> anyhow::Result<()> {
    let Some(seen) = observed.programs.iter().max_by_key(|seen| seen.accesses) else { return Ok(()) };
    let bytes = block_bytes as f64;
    // 0 has no place on the axis.
    let least = bytes / 2.0;
    let all = seen.together.accesses().max(1.0);
    let bars = seen
        .together
        .buckets()
        .filter(|bucket| bucket.accesses > 0.0)
        .map(|bucket| (bucket.from as f64 * bytes, bucket.to as f64 * bytes, bucket.accesses / all))
        .map(|(from, to, share)| Point::wide(from.max(least), to, 100.0 * share));
    let curve = MissRatioCurve::of(&seen.together);
    let corner = |(blocks, ratio): &(f64, f64)| Point::new((blocks * bytes).max(least), Some(100.0 * ratio));
    let mut corners: Vec<Point> = curve.corners().iter().map(corner).collect();
    // Larger caches have as many misses.
    let largest = caches.iter().map(|cache| cache.bytes as f64).fold(0.0, f64::max);
    corners.extend(
        corners
            .last()
            .filter(|last| last.along() < largest)
            .map(|last| Point { x: Some(Place::Number(largest)), ..last.clone() }),
    );
    let panel = |title: &str, axis, kind, points| Panel {
        title: title.to_owned(),
        y: Some(Axis { unit: "%".to_owned(), ..axis }),
        series: vec![Series { kind, points, ..Series::default() }],
        ..Panel::default()
    };
    let shares = Axis { from: Some(SHARE_MIN), to: Some(100.0), scale: Powers::Ten, ..Axis::default() };
    let ratios = Axis { from: Some(0.0), to: Some(100.0), ..Axis::default() };
    let mark = |cache: &Cache| Mark { at: cache.bytes as f64, text: cache_name(cache) };
    let marks = caches.iter().map(mark).collect();
    let chart = Chart {
        title: format!("Reuse distances of {}", seen.name),
        subtitle: format!(
            "{} accesses to {}; blocks of {block_bytes} B",
            seen.accesses,
            size_text(seen.blocks * block_bytes)
        ),
        x: Axis { unit: "bytes".to_owned(), scale: Powers::Two, marks, ..Axis::default() },
        panels: vec![
            panel("share of the accesses by reuse distance", shares, Kind::Histogram, bars.collect()),
            panel("miss ratio by cache size", ratios, Kind::Line, corners),
        ],
        ..Chart::default()
    };
    let mut text = Vec::new();
    write_chart(&chart, look, &mut text)?;
    crate::picture::write(path, text)
}
