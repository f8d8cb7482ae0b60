//! Sweeps over blocks of data with a wait after each: how many tasks run where their block was written, and the time, with the
//! place of data as a hint and without, in interleaved rounds.
//!
//! `cargo run --release -p castell-tasks --example places -- [KIB_A_BLOCK [TOPOLOGY]]`
//!
//! The topology is described, `numa:2 cpu:1` without an argument: on a machine with one NUMA node, what is saved is that a
//! block moves from one processor's cache to the other's, and only if the system leaves the workers where they are.

use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::task::Attributes;
use castell_tasks::{Context, Runtime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const BLOCKS: usize = 16;
const SWEEPS: usize = 200;
const ROUNDS: usize = 9;

/// Nanoseconds a sweep; tasks that ran where their block was written.
fn sweeps(context: &Context<'_>, data: &[u64], block: usize) -> (f64, u64) {
    let near = AtomicU64::new(0);
    let counter = std::ptr::from_ref(&near) as usize;
    let start = Instant::now();
    for _ in 0..SWEEPS {
        for part in data.chunks_exact(block) {
            let (address, length) = (part.as_ptr() as usize, part.len() * 8);
            let declared =
                Declaration { start: address, length, kind: Kind::InOut, weak: false, reduction: 0 };
            let body = move |context: &Context<'_>| {
                // SAFETY: the task declared the block; data and counter live until the taskwait.
                unsafe {
                    let part = std::slice::from_raw_parts_mut(address as *mut u64, length / 8);
                    part.iter_mut().for_each(|word| *word = word.wrapping_mul(3) + 1);
                    if context.place() == Some(context.numa_node()) {
                        (*(counter as *const AtomicU64)).fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            // SAFETY: as above.
            unsafe { context.submit_raw(Attributes::NONE, &[declared], body) };
        }
        context.taskwait().expect("nothing fails");
    }
    (start.elapsed().as_nanos() as f64 / SWEEPS as f64, near.into_inner())
}

fn main() {
    let mut words = std::env::args().skip(1);
    let kib = words.next().map_or(64, |kib| kib.parse().expect("KIB_A_BLOCK is a number"));
    let topology = words.next().unwrap_or_else(|| "numa:2 cpu:1".to_owned());
    let block = kib * 1024 / 8;
    let data = vec![1_u64; BLOCKS * block];
    let schedulers = ["tree", "tree:locality=off"];
    let mut samples = [const { Vec::new() }; 2];
    let mut near = [0; 2];
    for _ in 0..ROUNDS {
        for (number, scheduler) in schedulers.iter().enumerate() {
            let builder = Runtime::builder().topology(&topology).scheduler(scheduler);
            let runtime = builder.build().expect("a runtime");
            let (ns, count) = runtime.run(|context| sweeps(context, &data, block)).expect("nothing fails");
            samples[number].push(ns);
            near[number] += count;
        }
    }
    println!("{topology}, {BLOCKS} blocks of {kib} KiB, {SWEEPS} sweeps, median of {ROUNDS} rounds (least)");
    for ((scheduler, samples), near) in schedulers.iter().zip(&mut samples).zip(near) {
        samples.sort_by(f64::total_cmp);
        let share = 100.0 * near as f64 / (ROUNDS * SWEEPS * BLOCKS) as f64;
        let (median, least) = (samples[ROUNDS / 2] / 1e3, samples[0] / 1e3);
        println!(
            "{scheduler:20} {median:>9.1} us a sweep ({least:.1}); known to run where its data is: {share:.0} %"
        );
    }
}
