//! A simulation: a program, a machine, and what is to be known.

use crate::cost::Costs;
use crate::costs::LogCosts;
use crate::error::SimError;
use crate::fast::{Declined, Finished, Flat};
use crate::instrument::{Instrument, Watcher};
use crate::levels::Levels;
use crate::machine::{Machine, Ties, Within};
use crate::network::Traffic;
use crate::noisy::{Drawn, Noisy};
use crate::outcome::Outcome;
use crate::reference::Setting;
use crate::rounds;
use crate::source::{Schedules, Source};
use castell_base::{OwnThread, Threads};
use castell_model::{LogGops, Model};

/// A program to be simulated on a machine.
///
/// ```
/// use castell_goal::text;
/// use castell_model::Model;
/// use castell_sim::{Machine, Simulation};
///
/// let program = text::parse(
///     "num_ranks 2\n\
///      rank 0 { s: send 8b to 1 tag 0 }\n\
///      rank 1 { r: recv 8b from 0 tag 0\n c: calc 100\n c requires r }",
///     "",
/// )?;
/// let machine = Machine::new(Model::parse("loggops")?);
/// let outcome = Simulation::new(&program, &machine).run()?;
/// // o + L until the message is there, o + 7 G to take it in, 100 ns to compute.
/// assert_eq!(outcome.makespan().as_ns_f64(), 1500.0 + 2500.0 + 1500.0 + 7.0 * 6.0 + 100.0);
/// assert_eq!(outcome.events, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation<'a> {
    source: Source<'a>,
    machine: &'a Machine,
    memory: Option<Vec<Vec<u8>>>,
    seed: u64,
    threads: &'a dyn Threads,
    tell: &'a dyn Fn(u64),
}

impl<'a> Simulation<'a> {
    /// Prepares to simulate `source` on `machine`.
    pub fn new(source: impl Into<Source<'a>>, machine: &'a Machine) -> Simulation<'a> {
        Simulation {
            source: source.into(),
            machine,
            memory: None,
            seed: 0,
            threads: &OwnThread,
            tell: &|_| (),
        }
    }

    /// Where the machine's noise is drawn from: the same seed gives the same run, on every machine. Without it, 0.
    pub fn with_seed(self, seed: u64) -> Simulation<'a> {
        Simulation { seed, ..self }
    }

    /// Lends it threads. The result does not depend on them; large programs are faster with several, unless an instrument
    /// watches.
    pub fn with_threads(self, threads: &'a dyn Threads) -> Simulation<'a> {
        Simulation { threads, ..self }
    }

    /// Tells now and then how many operations a fast engine has carried out in this run: for progress bars. What the reference
    /// engine does is seen by its instrument; if it takes over, 0 is told.
    pub fn with_progress(self, tell: &'a dyn Fn(u64)) -> Simulation<'a> {
        Simulation { tell, ..self }
    }

    /// Lets messages carry data and local operations compute, starting from these scratchpads, one a rank; zeros for
    /// ranks at the end that have none here. [`Outcome::memory`] has them afterwards.
    pub fn with_memory(mut self, scratchpads: Vec<Vec<u8>>) -> Simulation<'a> {
        self.memory = Some(scratchpads);
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// What [`SimError`] lists: programs that cannot run to their end, or times beyond 213 days.
    pub fn run(self) -> Result<Outcome, SimError> {
        self.run_fast_or(None)
    }

    /// Runs it on a fast engine where one can, and shows it to an instrument otherwise: for progress bars, which matter only
    /// then.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn run_fast_or_with(self, mut instrument: impl Instrument) -> Result<Outcome, SimError> {
        self.run_fast_or(Some(&mut instrument))
    }

    fn run_fast_or(self, watcher: Watcher) -> Result<Outcome, SimError> {
        match self.run_fast() {
            Some(outcome) => Ok(outcome),
            None => {
                (self.tell)(0);
                self.run_watched(watcher)
            }
        }
    }

    /// On a fast engine, where one takes program and machine and finds no mistake.
    fn run_fast(&self) -> Option<Outcome> {
        if self.machine.network.is_some() || self.machine.within.is_some() || self.memory.is_some() {
            return None;
        }
        let Finished { events, end } = match (self.machine.ties, self.machine.loggops()) {
            (Ties::Insertion, Some(model)) => self.run_in_order_of_creation(&model)?,
            (Ties::Insertion, None) => return None,
            (Ties::Rank, _) => {
                let flat = Flat::new(self.source).ok()?;
                match self.run_rank_by_rank(&flat) {
                    Ok(finished) => finished,
                    Err(Declined::Mistake | Declined::Time) => return None,
                    Err(_) => {
                        flat.run_in_windows_told(self.machine, self.seed, self.threads, self.tell).ok()?
                    }
                }
            }
        };
        Some(Outcome { ranks: self.source.ranks(), events, end, ..Outcome::default() })
    }

    fn run_rank_by_rank(&self, flat: &Flat) -> Result<Finished, Declined> {
        flat.run_rank_by_rank_told(self.machine, self.seed, self.threads, self.tell)
    }

    fn run_in_order_of_creation(&self, model: &LogGops) -> Option<Finished> {
        /// So many threads make windows faster than the sequential engine also where its queue has an easy time: without
        /// noise, when many events happen at once.
        const THREADS_QUIET_MIN: usize = 4;
        let quiet = self.machine.is_quiet();
        if let Source::Pattern(pattern) = self.source
            && quiet
            && let Ok(finished) = rounds::run_on(pattern, model, self.threads)
        {
            return Some(finished);
        }
        let flat = Flat::new(self.source).ok()?;
        match self.run_rank_by_rank(&flat) {
            Ok(finished) => return Some(finished),
            Err(Declined::Mistake | Declined::Time) => return None,
            Err(_) => {}
        }
        if !quiet || self.threads.count() >= THREADS_QUIET_MIN {
            match flat.run_in_windows_told(self.machine, self.seed, self.threads, self.tell) {
                Ok(finished) => return Some(finished),
                Err(Declined::Mistake | Declined::Time) => return None,
                Err(_) => {}
            }
        }
        match quiet {
            true => flat.run_told(model, self.tell).ok(),
            false => flat.run_with_noise_told(model, self.machine, self.seed, self.tell).ok(),
        }
    }

    /// Runs it and shows it to an instrument.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn run_with(self, mut instrument: impl Instrument) -> Result<Outcome, SimError> {
        self.run_watched(Some(&mut instrument))
    }

    /// On the reference engine.
    fn run_watched(self, instrument: Watcher) -> Result<Outcome, SimError> {
        let schedules = Schedules::new(self.source)?;
        let network = self.machine.network.as_deref();
        if let Some(places) =
            network.map(|network| network.ranks()).filter(|&places| places < schedules.ranks())
        {
            let ranks = schedules.ranks();
            return Err(SimError::NetworkTooSmall { ranks, places });
        }
        let setting = Setting {
            schedules: &schedules,
            ties: self.machine.ties,
            traffic: network.map(Traffic::new),
            memory: self.memory,
        };
        let log = |model: LogGops| LogCosts { model, capacity: None };
        // For as long as the schedules live: what is behind a `&mut` does not shorten by itself.
        let instrument: Watcher = instrument.map(|watcher| &mut *watcher as _);
        let run = Run { setting, machine: self.machine, seed: self.seed, instrument };
        if let Some(within) = &self.machine.within {
            return run.on_levels(within);
        }
        match self.machine.model.clone() {
            Model::LogP(model) => run.with(LogCosts::logp(model)),
            Model::LogGp(model) => run.with(log(model.into())),
            Model::LogGps(model) => run.with(log(model.into())),
            Model::LogGops(model) => run.with(log(model)),
            Model::Plb(model) => run.with(model),
            Model::Lb(model) => run.with(model),
            Model::LogfP(model) => run.with(model),
            Model::Lop(model) => run.with(model),
            Model::Bsp(_) if network.is_some() => Err(SimError::NoNetwork("bsp")),
            Model::Bsp(model) => run.setting.run_supersteps(model, run.machine, run.seed, run.instrument),
            other => Err(SimError::UnknownModel(other.name())),
        }
    }
}

/// A run on the reference engine that lacks nothing but its costs.
struct Run<'a> {
    setting: Setting<'a>,
    machine: &'a Machine,
    seed: u64,
    instrument: Watcher<'a>,
}

impl<'a> Run<'a> {
    /// Where ranks share hosts.
    fn on_levels(self, hosts: &Within) -> Result<Outcome, SimError> {
        let (ranks, places) = (self.setting.schedules.ranks(), hosts.host_of.len() as u32);
        if places < ranks {
            return Err(SimError::HostsTooFew { ranks, places });
        }
        if !self.machine.is_quiet() {
            return Err(SimError::Levels("nothing may vary then; give numbers, and no detours"));
        }
        if self.machine.network.is_some() {
            return Err(SimError::Levels("leave the network out"));
        }
        let log = |model: &Model| {
            let is_logp = matches!(model, Model::LogP(_));
            model.as_loggops().filter(|_| !is_logp).map(|model| LogCosts { model, capacity: None })
        };
        match (&hosts.model, &self.machine.model) {
            (Model::Plb(within), Model::Plb(between)) => self.levels(hosts, within.clone(), between.clone()),
            (Model::Lb(within), Model::Lb(between)) => self.levels(hosts, within.clone(), between.clone()),
            (within, between) => match (log(within), log(between)) {
                (Some(within), Some(between)) => self.levels(hosts, within, between),
                _ => Err(SimError::Levels(
                    "both have to be plb, both lb, or both of loggp, loggps and loggops",
                )),
            },
        }
    }

    fn levels<C: Costs + 'a>(self, hosts: &Within, within: C, between: C) -> Result<Outcome, SimError> {
        let host_of = hosts.host_of.clone();
        self.setting.run(Levels { within, between, host_of }, self.instrument)
    }

    fn with(self, model: impl Costs + Drawn + 'a) -> Result<Outcome, SimError> {
        if self.machine.is_quiet() {
            return self.setting.run(model, self.instrument);
        }
        let ranks = self.setting.schedules.ranks();
        self.setting.run(Noisy::new(model, self.machine, self.seed, ranks), self.instrument)
    }
}
