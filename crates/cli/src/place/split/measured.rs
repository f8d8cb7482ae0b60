//! Two programs on this machine's processors, alone and beside each other.

use anyhow::{Context as _, bail};
use castell_host::signal::Signals;
use castell_host::topology::Processors;
use castell_policy::placement::Share;
use castell_prof::slowdown::side_by_side;
use std::ffi::OsString;

/// Two commands and how they are measured.
pub struct Measurement<'a> {
    pub commands: [&'a str; 2],
    /// Processors that are shared out.
    pub cpus: Vec<u32>,
    /// Whole runs of each in each case, of which the median counts.
    pub runs: u32,
    signals: Signals,
}

impl<'a> Measurement<'a> {
    /// # Errors
    /// There are not so many processors, or fewer than two.
    pub fn new(commands: [&'a str; 2], cores: Option<u32>, runs: u32) -> anyhow::Result<Measurement<'a>> {
        let mut cpus = Processors::usable().cpus;
        let cores = cores.map_or(cpus.len(), |cores| cores as usize);
        if cores < 2 || cores > cpus.len() {
            bail!("{cores} cores cannot be shared out: give 2 to {}, which are usable here", cpus.len());
        }
        cpus.truncate(cores);
        Ok(Measurement { commands, cpus, runs, signals: Signals::take_over(&[libc::SIGINT, libc::SIGTERM])? })
    }

    /// How many times `shares` measures something.
    pub fn cases(&self) -> u64 {
        3 * self.cpus.len() as u64 - 1
    }

    /// Each program's best time with all processors for itself or fewer, then both at all splits.
    ///
    /// # Errors
    /// A program does not end well, or somebody interrupts.
    pub fn shares(&self, mut progress: impl FnMut(String)) -> anyhow::Result<Vec<Share>> {
        let cores = self.cpus.len();
        let mut best = [f64::INFINITY; 2];
        for count in 1..=cores {
            for (at, best) in best.iter_mut().enumerate() {
                let seconds = self.run(&[(at, &self.cpus[..count])])?[0];
                progress(format!("{} alone on {count}: {seconds:.3} s", self.commands[at]));
                *best = best.min(seconds);
            }
        }
        let mut shares = Vec::new();
        for mine in 1..cores {
            let (own, others) = self.cpus.split_at(mine);
            let seconds = self.run(&[(0, own), (1, others)])?;
            let [one, other] = [seconds[0], seconds[1]];
            progress(format!("{mine} and {} cores: {one:.3} s and {other:.3} s", cores - mine));
            let efficiency = [best[0] / one, best[1] / other];
            shares.push(Share { cores: mine as u32, seconds: [one, other], efficiency });
        }
        Ok(shares)
    }

    /// The median of each one's runs.
    fn run(&self, parties: &[(usize, &[u32])]) -> anyhow::Result<Vec<f64>> {
        let words: Vec<[OsString; 3]> =
            parties.iter().map(|(at, cpus)| self.words(*at, cpus.len())).collect();
        let commands: Vec<(&[OsString], Vec<u32>)> =
            words.iter().zip(parties).map(|(words, (_, cpus))| (&words[..], cpus.to_vec())).collect();
        let runs = side_by_side(&commands, self.runs as usize, &self.signals);
        let told =
            || parties.iter().map(|(at, cpus)| format!("`{}` on {} cores", self.commands[*at], cpus.len()));
        let runs = runs.with_context(|| told().collect::<Vec<_>>().join(" beside "))?;
        let median = |mut seconds: Vec<f64>| {
            seconds.sort_by(f64::total_cmp);
            seconds[seconds.len() / 2]
        };
        Ok(runs.into_iter().map(median).collect())
    }

    /// A command, told how many cores it has.
    fn words(&self, at: usize, cores: usize) -> [OsString; 3] {
        let command = self.commands[at].replace("{cores}", &cores.to_string());
        ["/bin/sh".into(), "-c".into(), format!("export OMP_NUM_THREADS={cores}; {command}").into()]
    }
}
