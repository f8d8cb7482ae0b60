//! What observing costs: a program as it is, under the observer (all blocks, and one of a hundred), and under Valgrind's cachegrind
//! and with no tool, in turns.
//!
//! `cargo run --release -p castell-prof --example cost_of_observing -- ROUNDS ./program input`

use castell_cachesim::MissRatioCurve;
use castell_prof::distances::{Options, Seen, observe};
use castell_prof::prints::Prints;
use std::ffi::OsString;
use std::process::{Command, Stdio};

const OPTIONS: Options = Options {
    block_bytes: 64,
    ignore_stack: false,
    functions: false,
    threads: false,
    sample: None,
    growth: false,
    trace: None,
    prints: Prints::ToOutput,
};

/// The part of the blocks in samples.
const RATE: f64 = 0.01;

/// Seconds of the processors' time: of this process, and of those that it started.
fn processor_seconds() -> [f64; 2] {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<f64> = text[text.rfind(')').expect("a name") + 1..]
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    // Ticks of a hundredth of a second, on every Linux of today.
    [fields[11] + fields[12], fields[13] + fields[14]].map(|ticks| ticks / 100.0)
}

/// What something takes: seconds of this process's and of its children's processors.
fn cost<T>(what: impl FnOnce() -> T) -> ([f64; 2], T) {
    let before = processor_seconds();
    let result = what();
    let after = processor_seconds();
    ([after[0] - before[0], after[1] - before[1]], result)
}

fn plain(words: &[OsString]) {
    let status =
        Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.unwrap_or_else(|error| panic!("{words:?}: {error}"));
}

fn under(tool: &[&str], words: &[OsString]) {
    let tool = ["valgrind", "-q"].iter().chain(tool).map(OsString::from);
    plain(&tool.chain(words.iter().cloned()).collect::<Vec<_>>());
}

fn observed(words: &[OsString], sample: Option<f64>) -> Seen {
    let observed =
        observe(words, &Options { sample, ..OPTIONS }, |_| {}).unwrap_or_else(|error| panic!("{error}"));
    observed.programs.into_iter().max_by_key(|seen| seen.accesses).expect("a program")
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut words = std::env::args_os().skip(1);
    let rounds: usize =
        words.next().and_then(|word| word.to_str()?.parse().ok()).expect("a number of rounds");
    let words: Vec<OsString> = words.collect();
    let mut costs: [Vec<[f64; 2]>; 5] = Default::default();
    let (mut differences, mut accesses) = (Vec::new(), 0);
    for _ in 0..rounds {
        costs[0].push(cost(|| plain(&words)).0);
        let (exact_cost, exact) = cost(|| observed(&words, None));
        let (sampled_cost, sampled) = cost(|| observed(&words, Some(RATE)));
        costs[1].push(exact_cost);
        costs[2].push(sampled_cost);
        costs[3].push(cost(|| under(&["--tool=none"], &words)).0);
        let cachegrind = ["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"];
        costs[4].push(cost(|| under(&cachegrind, &words)).0);
        let [exact_curve, sampled_curve] = [&exact, &sampled].map(|seen| MissRatioCurve::of(&seen.together));
        // A sample does not tell sizes apart that have a few of its blocks.
        let sizes = (0..40).map(|step| 2.0 / RATE * 2f64.powf(f64::from(step) / 2.0));
        differences.push(
            sizes.map(|blocks| (exact_curve.at(blocks) - sampled_curve.at(blocks)).abs()).fold(0.0, f64::max),
        );
        accesses = exact.accesses;
    }
    let native = median(costs[0].iter().map(|cost| cost[1]));
    println!("{accesses} accesses, {native:.3} s as it is (seconds of processors, medians of {rounds})");
    for (name, costs) in
        ["", "exact", "1 % of the blocks", "no tool", "cachegrind"].iter().zip(&costs).skip(1)
    {
        let [own, program] = [0, 1].map(|at: usize| median(costs.iter().map(|cost| cost[at])));
        println!(
            "{name:<18} the program {:6.1} times; beside it, counting {:5.1} times; at most {:6.1} million accesses a second",
            program / native,
            own / native,
            accesses as f64 / program.max(own) / 1e6
        );
    }
    let largest = differences.into_iter().fold(0.0, f64::max);
    println!(
        "the sample's curve is within {largest:.4} of the exact one, for caches of {} blocks and more",
        2.0 / RATE
    );
}
