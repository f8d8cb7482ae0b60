//! What was measured, on one rank and on all, and how it is told.

use super::joined::word;
use castell_base::Rank;
use castell_comm::Comm;
use castell_xdp::Mode;
use serde_json::{Value, json};

/// When a rank's runs began and ended, ns.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// In the kernel, on its clock.
    pub kernel: Vec<[u64; 2]>,
    /// The same runs as the process saw them, on its clock: from before it starts one until it knows of its end.
    pub process: Vec<[u64; 2]>,
    /// Runs in user space, on the same clock.
    pub user: Vec<[u64; 2]>,
}

/// How long runs took, all ranks together.
#[derive(Debug)]
pub struct All {
    /// Whether the hosts are namespaces of one machine. Then a run's time is that from the last rank's beginning to the last one's end; else that of the rank for which it took
    /// longest, which contains what it waited for others to begin.
    one_clock: bool,
    kernel_ns: Vec<u64>,
    process_ns: Vec<u64>,
    user_ns: Vec<u64>,
}

impl Times {
    /// Brings the times of all ranks together, at rank 0.
    pub fn gather(&self, comm: &Comm) -> anyhow::Result<All> {
        let ranks = comm.world().size() as usize;
        let gather = |mine: &[u64]| -> anyhow::Result<Vec<u64>> {
            let mut all = vec![0; mine.len() * ranks];
            comm.world().gather(mine, &mut all, Rank(0))?;
            Ok(all)
        };
        let boots = gather(&[boot()])?;
        let one_clock = boots.iter().all(|boot| *boot == boots[0]);
        let took = |mine: &[[u64; 2]]| -> anyhow::Result<Vec<u64>> {
            if mine.is_empty() {
                return Ok(Vec::new());
            }
            let all = gather(mine.as_flattened())?;
            Ok((0..mine.len())
                .map(|run| {
                    took(all.chunks(2 * mine.len()).map(|one| [one[2 * run], one[2 * run + 1]]), one_clock)
                })
                .collect())
        };
        Ok(All {
            one_clock,
            kernel_ns: took(&self.kernel)?,
            process_ns: took(&self.process)?,
            user_ns: took(&self.user)?,
        })
    }
}

/// How long a run took whose beginnings and ends these are.
fn took(ranks: impl Iterator<Item = [u64; 2]>, one_clock: bool) -> u64 {
    let (mut start, mut end, mut longest) = (0, 0, 0);
    for [began, ended] in ranks {
        (start, end) = (began.max(start), ended.max(end));
        longest = ended.saturating_sub(began).max(longest);
    }
    if one_clock { end.saturating_sub(start) } else { longest }
}

/// Which kernel this is, since when: hosts that are namespaces have one, and one clock for its stamps.
fn boot() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

pub struct Report<'a> {
    pub what: &'a str,
    pub ranks: u32,
    pub runs: u32,
    pub busy: bool,
    pub mode: Mode,
    pub times: &'a All,
}

impl Report<'_> {
    /// Each figure with its key and its meaning.
    fn figures(&self) -> [(&'static str, &'static str, &[u64]); 3] {
        let All { kernel_ns, process_ns, user_ns, .. } = self.times;
        [
            ("kernel", "in the kernel, by its own clock", kernel_ns),
            ("process", "in the kernel, from process to process", process_ns),
            ("user", "in user space, from process to process", user_ns),
        ]
    }

    pub fn print(&self, as_json: bool) {
        let mode = word(self.mode);
        if as_json {
            let mut object = json!({"program": self.what, "ranks": self.ranks, "runs": self.runs, "busy": self.busy, "xdp_mode": mode, "one_clock": self.times.one_clock});
            for (key, _, times) in self.figures() {
                object[key] = quantiles(times).map_or(
                    Value::Null,
                    |[min, low, median, high]| json!({"min_ns": min, "p10_ns": low, "median_ns": median, "p90_ns": high}),
                );
            }
            println!("{object}");
            return;
        }
        let busy = if self.busy { ", while all processors compute" } else { "" };
        println!(
            "{}: {} ranks, {} runs each way in turns{busy}; XDP {mode}",
            self.what, self.ranks, self.runs
        );
        let from = if self.times.one_clock { "last beginning to last end" } else { "the slowest rank" };
        println!("{from:<42}{:>12}{:>12}{:>12}", "median", "10 %", "90 %");
        for (_, meaning, times) in self.figures() {
            if let Some([_, low, median, high]) = quantiles(times) {
                let us = |ns: u64| format!("{:.1} us", ns as f64 / 1000.0);
                println!("{meaning:<42}{:>12}{:>12}{:>12}", us(median), us(low), us(high));
            }
        }
    }
}

/// The least, and those below which a tenth, half and nine tenths are.
fn quantiles(times: &[u64]) -> Option<[u64; 4]> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |part: usize| sorted.get(sorted.len() * part / 10).copied();
    Some([at(0)?, at(1)?, at(5)?, at(9)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_last_from_the_last_beginning() {
        let ranks = [[10, 40], [30, 35]];
        assert_eq!((took(ranks.into_iter(), true), took(ranks.into_iter(), false)), (10, 30));
    }

    #[test]
    fn quantiles_are_of_the_sorted_times() {
        assert_eq!(quantiles(&[]), None);
        assert_eq!(quantiles(&[7]), Some([7; 4]));
        assert_eq!(quantiles(&[9, 1, 2, 3, 4, 5, 6, 7, 8, 0]), Some([0, 1, 5, 9]));
    }
}
