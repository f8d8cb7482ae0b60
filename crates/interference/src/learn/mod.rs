//! Learns how much programs slow each other, from what is seen while they run.
//!
//! [`Changes`] compares paces around the moments at which a neighbour comes or goes; a [`Learner`] is fed with what comes out. It
//! predicts each observation before it learns it, and keeps how far off it was ([`Hour`]): whether its error falls can be looked up.
//! A prediction is what was seen of that pair, drawn towards what follows from a probe that both have met, from profiles of both that are
//! kept, from others or from classes, the more so the less was seen.
//! Memory is bounded: the programs that were not seen for longest are forgotten.

mod changes;
mod fit;
mod hours;
mod posterior;
mod probed;
mod profiles;
mod program;
mod told;
mod traits;

pub use changes::{Changes, Look, Observation, Windows};
pub use hours::Hour;
pub use probed::{Factor, MEETINGS_MAX, Met, Probed, STILL_S_MAX};
pub use profiles::Profiles;
pub use program::Program;
pub use told::{Basis, Prior, Told};

use crate::scn::NO_CONTENTION;
use crate::{Class, Readings};
use fit::{Fit, Seen};
use posterior::{Equation, solve};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Programs that are remembered.
pub const PROGRAMS_MAX: usize = 256;
/// Observations that constants are fitted to: the last ones.
pub const WINDOW: usize = 400;
/// After so many new observations constants are fitted anew.
const FIT_EVERY: u32 = 8;

/// What could not be learned.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NotLearned {
    /// A slowdown that is none.
    #[error("{0} is no slowdown: a factor between 0.05 and 100")]
    NoSlowdown(f64),
}

/// What was learned of programs, each known by a text that is its own: the hash of its file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learner {
    programs: BTreeMap<String, Program>,
    window: VecDeque<Seen>,
    hours: VecDeque<Hour>,
    /// All observations that there ever were.
    observed: u64,
    /// How much slower a probe was beside another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    probes: Vec<f64>,
    #[serde(skip)]
    kept: Kept,
    #[serde(skip)]
    fit: Fit,
    /// Observations since it was fitted.
    #[serde(skip)]
    unfitted: Option<u32>,
}

/// Profiles from elsewhere; the same only if they are the same ones.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Profiles>);

impl PartialEq for Kept {
    fn eq(&self, other: &Kept) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_empty() && other.0.is_empty()
    }
}

impl Learner {
    /// Nothing is known.
    pub fn new() -> Learner {
        Learner::default()
    }

    /// These profiles are kept, in the place of those before.
    pub fn know(&mut self, profiles: Arc<Profiles>) {
        self.kept = Kept(profiles);
    }

    /// A program's class: by what was counted here, else by its profile.
    pub fn class(&self, program: &str) -> Option<Class> {
        let counted = self.programs.get(program).and_then(Program::class);
        counted.or_else(|| self.kept.0.class(program))
    }

    /// A program is there, at a time in seconds since 1970.
    pub fn see(&mut self, now_s: u64, program: &str, name: &str) {
        self.program(now_s, program).rename(name);
    }

    /// What flows towards its cores was counted for so many seconds, on so many cores, with neighbours or without.
    pub fn read(
        &mut self,
        now_s: u64,
        program: &str,
        readings: &Readings,
        cores: usize,
        seconds: f64,
        is_alone: bool,
    ) {
        self.program(now_s, program).read(readings, cores, seconds, is_alone);
    }

    /// A program has met a probe: what follows for it and others that have stands in for what they do to each other, until that is seen.
    pub fn meet(&mut self, now_s: u64, program: &str, met: &Met) {
        self.program(now_s, program).probed.get_or_insert_default().add(met);
    }

    /// Two probes have met, and one was slower by this factor.
    pub fn probes_meet(&mut self, slowdown: f64) {
        if (0.05..=100.0).contains(&slowdown) && self.wants_probes() {
            self.probes.push(slowdown);
        }
    }

    /// Whether two probes have not met often enough.
    pub fn wants_probes(&self) -> bool {
        self.probes.len() < MEETINGS_MAX
    }

    /// How much slower a probe is beside another one, as soon as that is known.
    pub fn probes(&self) -> Option<Factor> {
        probed::itself(&self.probes)
    }

    /// Whether a program is to meet a probe: one that nobody has come or gone beside as yet, or that has begun to.
    pub fn wants_probe(&self, program: &str) -> bool {
        let Some(known) = self.programs.get(program) else { return true };
        known.probed.as_ref().map_or(known.compared.is_empty(), |probed| !probed.is_done())
    }

    /// What it says of a program beside a neighbour.
    pub fn predict(&self, program: &str, neighbour: &str) -> Told {
        self.told(program, neighbour, None)
    }

    /// What it says of a neighbour; or of that by another one, whose place it takes.
    fn told(&self, program: &str, neighbour: &str, instead_of: Option<&str>) -> Told {
        let fit = self.fit();
        let prior = |other: &str| fit.best(&self.priors(&fit, program, other));
        let none = VecDeque::new();
        let compared = self.programs.get(program).map_or(&none, |of| &of.compared);
        let mut wanted = vec![(neighbour, 1.0)];
        wanted.extend(instead_of.map(|other| (other, -1.0)));
        let known = solve(compared.iter(), |other| fit.normal(prior(other)), fit.noise, &wanted);
        let seen = compared.iter().filter(|seen| seen.is_about(neighbour)).count();
        Told::of(known, prior(neighbour), seen)
    }

    /// What can be said without having seen the pair.
    fn priors(&self, fit: &Fit, program: &str, neighbour: &str) -> Vec<Prior> {
        let foretold = || {
            let [own, other] = [program, neighbour].map(|id| self.programs.get(id)?.probed());
            probed::foretold(own?, other?, &self.probes)
        };
        let by_class = || {
            let profile = |id: &str| {
                let counted = self.programs.get(id).and_then(|program| program.profile(id));
                counted.or_else(|| self.kept.0.profile(id).cloned())
            };
            fit.by_class(&profile(program)?, &profile(neighbour)?)
        };
        let all = [
            (fit.traits.told(program, neighbour), Basis::Others),
            (by_class().filter(|_| fit.traits.told(program, neighbour).is_none()), Basis::Classes),
            (fit.median, Basis::Median),
        ];
        let prior =
            |(slowdown, basis): (Option<f64>, Basis)| Some(Prior { slowdown: slowdown?, basis, spread: 0.0 });
        let by_profiles = self.kept.0.foretold(program, neighbour);
        foretold().into_iter().chain(by_profiles).chain(all.into_iter().filter_map(prior)).collect()
    }

    /// A program among several neighbours: their factors multiplied.
    pub fn among<'a>(&self, program: &str, neighbours: impl IntoIterator<Item = &'a str>) -> Told {
        let all = neighbours.into_iter().map(|neighbour| self.predict(program, neighbour));
        all.reduce(Told::and).unwrap_or_else(Told::alone)
    }

    /// Fits constants to all that was learned, so that predictions do not do so each time.
    pub fn fit_now(&mut self) {
        self.fit = Fit::of(&self.window, &self.programs);
        self.unfitted = Some(0);
    }

    /// Learns what came out of a comparison, and returns what it would have said.
    ///
    /// # Errors
    /// The slowdown is none; nothing has changed.
    pub fn learn(&mut self, now_s: u64, seen: &Observation) -> Result<Told, NotLearned> {
        let Observation { program, neighbour, instead_of, slowdown, .. } = seen;
        if !(0.05..=100.0).contains(slowdown) {
            return Err(NotLearned::NoSlowdown(*slowdown));
        }
        // The same program takes its own place: that tells about the noise at best.
        let instead_of = instead_of.as_deref();
        instead_of
            .into_iter()
            .chain([neighbour.as_str(), program])
            .for_each(|id| _ = self.program(now_s, id));
        self.fit_if_due();
        let told = self.told(program, neighbour, instead_of);
        let usual = instead_of.map_or([self.fit().median.unwrap_or(1.0), NO_CONTENTION], |_| [1.0, 1.0]);
        Hour::of(&mut self.hours, now_s).add(&told, usual, *slowdown);
        // For constants: how it is beside this neighbour alone, as far as that is known.
        let other = instead_of.map(|other| self.predict(program, other));
        if other.is_none_or(|other| !other.cannot_tell()) {
            let slowdown = other.map_or(1.0, |other| other.slowdown) * slowdown;
            let priors =
                if instead_of.is_none() { self.priors(&self.fit(), program, neighbour) } else { Vec::new() };
            let seen = Seen { program: program.clone(), neighbour: neighbour.clone(), slowdown, priors };
            self.window.push_back(seen);
            if self.window.len() > WINDOW {
                self.window.pop_front();
            }
        }
        self.program(now_s, program).add(Equation {
            neighbour: neighbour.clone(),
            instead_of: instead_of.map(str::to_owned),
            logarithm: slowdown.ln(),
            at_s: now_s,
        });
        self.observed += 1;
        self.unfitted = self.unfitted.map(|count| count + 1);
        Ok(told)
    }

    /// Forgets a program and what was seen beside it; whether it was known.
    pub fn forget(&mut self, program: &str) -> bool {
        let was_known = self.programs.remove(program).is_some();
        self.programs.values_mut().for_each(|other| other.forget(program));
        self.window.retain(|seen| seen.program != program && seen.neighbour != program);
        self.unfitted = None;
        was_known
    }

    /// All programs, by what they are known by.
    pub fn programs(&self) -> &BTreeMap<String, Program> {
        &self.programs
    }

    /// Its errors hour by hour, the oldest first; hours without observations are not there.
    pub fn hours(&self) -> &VecDeque<Hour> {
        &self.hours
    }

    /// Observations that there ever were.
    pub fn observed(&self) -> u64 {
        self.observed
    }

    /// The standard deviation of a single observation, of its natural logarithm.
    pub fn noise(&self) -> f64 {
        self.fit().noise
    }

    /// The constants of classes, as soon as enough was seen.
    pub fn scn(&self) -> Option<crate::Scn> {
        self.fit().scn
    }

    fn program(&mut self, now_s: u64, id: &str) -> &mut Program {
        if !self.programs.contains_key(id) && self.programs.len() >= PROGRAMS_MAX {
            let oldest = self.programs.iter().min_by_key(|(id, program)| (program.seen_s, *id));
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.iter().for_each(|id| _ = self.forget(id));
        }
        let program = self.programs.entry(id.to_owned()).or_default();
        program.seen_s = program.seen_s.max(now_s);
        program
    }

    fn fit(&self) -> std::borrow::Cow<'_, Fit> {
        match self.unfitted {
            Some(_) => std::borrow::Cow::Borrowed(&self.fit),
            None => std::borrow::Cow::Owned(Fit::of(&self.window, &self.programs)),
        }
    }

    fn fit_if_due(&mut self) {
        if self.unfitted.is_none_or(|count| count >= FIT_EVERY) {
            self.fit_now();
        }
    }
}
