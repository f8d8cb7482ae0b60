//! `castell probe`.

use anyhow::bail;
use castell_host::topology::{Processors, parse_list};
use castell_prof::probe::{Dependence, Distance, Order, Pattern, Probe};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  castell probe --distance 16M                      # 16 MiB again and again
  castell probe --distance 64M --distance 256K:3    # mostly to 256 KiB
  castell probe --distance 1G --random --list       # latency: a linked list
  castell probe --distance 32M --threads 4          # 8 MiB for each thread
  castell distances -- castell probe --distance 1M --rounds 50

Prints its bandwidth each second and in the end.";

/// Access memory with given reuse distances, and say how fast it goes
///
/// For experiments: a neighbour whose behaviour is known (Weidendorfer and Breitbart, COSH 2016: DistGen). Blocks of 64 bytes are
/// read in rounds; SIZE is the sum over the threads.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A distance, and its part of the accesses in relation to the others' [default: 16M]
    #[arg(long, value_name = "SIZE[:SHARE]")]
    distance: Vec<Distance>,
    /// Threads
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Blocks in an order as if at random, which prefetchers don't guess
    #[arg(long, conflicts_with = "stream")]
    random: bool,
    /// Blocks one behind the other (the default)
    #[arg(long)]
    stream: bool,
    /// Each access waits for the one before
    #[arg(long, conflicts_with = "independent")]
    list: bool,
    /// As many accesses at a time as the processor can (the default)
    #[arg(long)]
    independent: bool,
    /// For so long
    #[arg(long, value_name = "S", default_value_t = 10.0, conflicts_with = "rounds")]
    seconds: f64,
    /// For so many rounds over the largest distance, however long they take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Processors that the threads are bound to in turn, as 0,2-3
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How often the bandwidth is told.
const TELL: Duration = Duration::from_secs(1);

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !(args.seconds > 0.0 && args.seconds < 1e9) {
        bail!("{} seconds: give a number above 0", args.seconds);
    }
    let distances =
        if args.distance.is_empty() { vec![Distance { bytes: 16 << 20, share: 1.0 }] } else { args.distance };
    let order = if args.random { Order::Random } else { Order::Stream };
    let dependence = if args.list { Dependence::List } else { Dependence::Independent };
    let pattern = Pattern::new(distances, order, dependence, args.threads.into())?;
    crate::afford::insist("the probe", pattern.bytes().into())?;
    let cpus = args.cpus.as_deref().map(parse_list).transpose()?.unwrap_or_default();
    let usable = Processors::usable().cpus;
    if let Some(cpu) = cpus.iter().find(|cpu| !usable.contains(cpu)) {
        bail!(
            "processor {cpu} may not be used here; usable are {}",
            castell_host::topology::print_list(&usable)
        );
    }
    let probe = Probe::start(&pattern, &cpus, args.rounds)?;
    let limit = args.rounds.is_none().then(|| Duration::from_secs_f64(args.seconds));
    let start = Instant::now();
    probe.go();
    let (mut told, mut told_bytes, mut intervals) = (start, 0, Vec::new());
    while !probe.has_ended() && limit.is_none_or(|limit| start.elapsed() < limit) {
        let until = limit.map_or(TELL, |limit| limit.saturating_sub(start.elapsed()));
        probe.wait(TELL.saturating_sub(told.elapsed()).min(until).max(Duration::from_millis(1)));
        if told.elapsed() >= TELL {
            let (now, bytes) = (Instant::now(), probe.bytes());
            let pace = (bytes - told_bytes) as f64 / (now - told).as_secs_f64();
            if !args.json {
                println!("{:8.1} s  {:8.3} GB/s", (now - start).as_secs_f64(), pace / 1e9);
            }
            intervals.push(pace);
            (told, told_bytes) = (now, bytes);
        }
    }
    let (seconds, bytes) = (start.elapsed().as_secs_f64(), probe.bytes());
    let pace = bytes as f64 / seconds;
    if args.json {
        let nominal = pattern.nominal();
        let nominal =
            nominal.iter().map(|distance| json!({"bytes": distance.bytes, "share": distance.share}));
        println!(
            "{:#}",
            json!({
                "threads": pattern.threads,
                "order": if order == Order::Random { "random" } else { "stream" },
                "dependence": if dependence == Dependence::List { "list" } else { "independent" },
                "distances": nominal.collect::<Vec<_>>(),
                "seconds": seconds,
                "bytes": bytes,
                "bytes_s": pace,
                "interval_bytes_s": intervals,
            })
        );
    } else {
        for distance in pattern.nominal() {
            println!("distance {} B: {:.1} % of the accesses", distance.bytes, distance.share * 100.0);
        }
        println!("{:.3} GB/s over {seconds:.2} s ({:.2} ns a block)", pace / 1e9, 64.0 / pace * 1e9);
    }
    Ok(ExitCode::SUCCESS)
}
