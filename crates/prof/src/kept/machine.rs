//! What predictions have to know of the machine: its last-level cache, and how fast that and memory answer.

use super::KeptError;
use crate::caches::{self, Cache};
use crate::descendants::ran_and_waited_ns;
use crate::probe::{Dependence, Distance, Order, Pattern, Probe};
use castell_host::topology::Processors;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCK_BYTES: f64 = 64.0;
/// Looks at each, of which the fastest counts: what else runs here makes it slower only.
const LOOKS: usize = 3;
const LOOK: Duration = Duration::from_millis(200);
/// What a probe of memory goes over, at most.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Measures it; takes a few seconds, and [so much memory](memory_bytes).
///
/// # Errors
/// The kernel lists no last-level cache, or there is too little memory.
pub fn measure() -> Result<Value, KeptError> {
    let caches = caches::of_machine(Path::new("/"));
    let last = caches.iter().max_by_key(|cache| cache.level);
    let last = last.ok_or_else(|| KeptError::Wrong("the kernel lists no caches of this machine".into()))?;
    let private = caches.iter().filter(|cache| cache.level < last.level).map(|cache| cache.bytes).max();
    let beyond = beyond(last);
    let inside = (last.bytes / 4).max(2 * private.unwrap_or(0)).min(last.bytes / 2);
    let threads = Processors::usable().cpus.len().min(last.shared_by.max(1));
    let bytes_s_max = pace(beyond, Order::Stream, Dependence::Independent, threads)?;
    let answer =
        |bytes| Ok::<f64, KeptError>(BLOCK_BYTES * 1e9 / pace(bytes, Order::Random, Dependence::List, 1)?);
    let (llc_ns, memory_ns) = (answer(inside)?, answer(beyond)?);
    Ok(json!({
        "llc_bytes": last.bytes,
        "block_bytes": BLOCK_BYTES as u64,
        "llc_ns": llc_ns,
        // A machine whose memory answers as fast as its cache does not exist: noise.
        "memory_ns": memory_ns.max(llc_ns * 1.01),
        "bytes_s_max": bytes_s_max,
        "private_bytes": private_bytes(&caches),
    }))
}

/// How much memory is touched for that.
pub fn memory_bytes() -> u64 {
    let caches = caches::of_machine(Path::new("/"));
    caches.iter().max_by_key(|cache| cache.level).map_or(0, beyond)
}

/// What is surely in memory.
fn beyond(last: &Cache) -> u64 {
    (4 * last.bytes).min(MEMORY_BYTES_MAX.max(2 * last.bytes))
}

/// Bytes of the caches that a core has for itself: its L2.
pub fn private_bytes(caches: &[Cache]) -> Option<u64> {
    let last = caches.iter().map(|cache| cache.level).max()?;
    caches.iter().filter(|cache| cache.level < last).map(|cache| cache.bytes).max()
}

/// Bytes a second.
fn pace(bytes: u64, order: Order, dependence: Dependence, threads: usize) -> Result<f64, KeptError> {
    let wrong = |error: &dyn std::fmt::Display| KeptError::Wrong(error.to_string());
    let pattern = Pattern::new(vec![Distance { bytes, share: 1.0 }], order, dependence, threads);
    let probe =
        Probe::start(&pattern.map_err(|error| wrong(&error))?, &[], None).map_err(|error| wrong(&error))?;
    probe.go();
    // Until pages are there and caches are warm.
    probe.wait(LOOK);
    let mut best = 0.0f64;
    for _ in 0..LOOKS {
        let (start, before) = (Instant::now(), probe.bytes());
        let own = std::process::id() as i32;
        let [ran, waited] = ran_and_waited_ns(own);
        probe.wait(LOOK);
        let seconds = start.elapsed().as_secs_f64();
        let [ran_now, waited_now] = ran_and_waited_ns(own);
        // Several that have a processor by turns are no faster together than one; so only one is forgiven that it had to wait.
        let part = if threads == 1 {
            part_of([ran_now.saturating_sub(ran), waited_now.saturating_sub(waited)])
        } else {
            1.0
        };
        best = best.max((probe.bytes() - before) as f64 / (seconds * part));
    }
    let stood = || KeptError::Wrong(format!("a probe of {bytes} B did not get on"));
    if best > 0.0 { Ok(best) } else { Err(stood()) }
}

/// The part of the time with a processor.
fn part_of([ran_ns, waited_ns]: [u64; 2]) -> f64 {
    // Both are noted at the kernel's ticks only: of next to nothing nothing follows.
    if ran_ns < 1_000_000 { 1.0 } else { ran_ns as f64 / (ran_ns + waited_ns) as f64 }
}

/// What was measured, in words.
pub fn sentence(value: &Value) -> String {
    let of = |key: &str| value[key].as_f64().unwrap_or(0.0);
    format!(
        "a shared cache of {:.1} MiB that answers in {:.1} ns, memory in {:.1} ns and {:.2} GB/s at most",
        of("llc_bytes") / 1024.0 / 1024.0,
        of("llc_ns"),
        of("memory_ns"),
        of("bytes_s_max") / 1e9
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_processor_is_not_taken_for_slow() {
        assert_eq!(
            [[50_000_000, 150_000_000], [50_000_000, 0], [0, 90_000_000]].map(part_of),
            [0.25, 1.0, 1.0]
        );
    }
}
