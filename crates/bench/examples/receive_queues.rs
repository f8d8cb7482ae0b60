//! Takes the data of experiments/receive-queues: insertion, latency and memory of the four receive queues.
//!
//! `receive_queues FOLDER [SAMPLES]` writes insertion.csv, latency.csv and memory.csv into FOLDER. The designs take turns
//! within each case, over several rounds, so that a machine that slows down slows down all of them.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use castell_bench::measure::queues::{Insertion, Load, Times, Way, insertion, latency, processors};
use castell_queues::{Geometry, QueueKind};

/// Rounds in which the designs take turns.
const TURNS: u32 = 5;
const PRODUCERS: [u32; 9] = [1, 2, 4, 8, 12, 16, 20, 24, 31];
const BYTES: [usize; 12] = [0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
const RANKS: [u32; 15] = [2, 4, 8, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 2048, 5000, 10_000];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: receive_queues FOLDER [SAMPLES]")?;
    let samples = arguments.next().map_or(Ok(24_500), |samples| samples.parse())?;
    let write = |name: &str, text: String| std::fs::write(Path::new(&folder).join(name), text);
    write("memory.csv", memory())?;
    write("latency.csv", latencies(samples)?)?;
    write("insertion.csv", insertions(samples)?)?;
    eprintln!("{} processors", processors());
    Ok(())
}

/// Nodes of 24 ranks for memory, as in the source; of 8 ranks for insertion, so that 31 senders fill four.
fn geometry(kind: QueueKind, ranks: u32, ranks_per_node: u32) -> Geometry {
    Geometry { ranks_per_node, ..Geometry::new(kind, ranks) }
}

fn memory() -> String {
    let mut csv = String::from("design,ranks,bytes\n");
    for kind in QueueKind::ALL {
        for ranks in RANKS {
            let _ = writeln!(csv, "{kind},{ranks},{}", geometry(kind, ranks, 24).bytes_per_rank());
        }
    }
    csv
}

fn latencies(samples: u32) -> Result<String, Box<dyn Error>> {
    let mut csv = String::from("design,bytes,turn,p25_ns,median_ns,p75_ns,p99_ns,samples\n");
    for bytes in BYTES {
        eprintln!("latency, {bytes} bytes");
        for turn in 0..TURNS {
            for way in Way::ALL {
                let Some(times) = latency(way, bytes, samples / TURNS)? else { continue };
                let quantiles = quantiles(&times, &[0.25, 0.5, 0.75, 0.99], 1);
                let _ = writeln!(csv, "{way},{bytes},{turn},{quantiles},{}", times.samples().len());
            }
        }
    }
    Ok(csv)
}

fn insertions(samples: u32) -> Result<String, Box<dyn Error>> {
    let mut csv = String::from(
        "design,load,producers,turn,p1_ns,p25_ns,median_ns,p75_ns,p99_ns,p999_ns,mean_ns,samples,messages_per_second\n",
    );
    for producers in PRODUCERS {
        eprintln!("insertion, {producers} producers");
        for turn in 0..TURNS {
            for (name, load) in [("rounds", Load::Rounds), ("flood", Load::Flood)] {
                for kind in QueueKind::ALL {
                    // A flood needs time to fill the queue, and several time slices for each sender.
                    let together = if load == Load::Rounds { producers } else { 1 };
                    let rounds = (samples / TURNS / together).max(1);
                    let geometry = geometry(kind, producers + 1, 8);
                    let Insertion { times, messages_per_second } =
                        insertion(geometry, load, producers, rounds)?;
                    let count = times.samples().len();
                    let mean = times.samples().iter().sum::<f64>() / count as f64;
                    let quantiles = quantiles(&times, &[0.01, 0.25, 0.5, 0.75, 0.99, 0.999], 0);
                    let rate = messages_per_second.round();
                    let _ = writeln!(
                        csv,
                        "{kind},{name},{producers},{turn},{quantiles},{mean:.0},{count},{rate}"
                    );
                }
            }
        }
    }
    Ok(csv)
}

fn quantiles(times: &Times, of: &[f64], digits: usize) -> String {
    of.iter().map(|&q| format!("{:.digits$}", times.quantile(q))).collect::<Vec<_>>().join(",")
}
