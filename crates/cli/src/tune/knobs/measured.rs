//! What was measured, and what ends it.

use super::commands::{Commands, Failed};
use super::first::{First, Variables};
use castell_knobs::{Ended, Goal, Setting, Space};
use indicatif::ProgressBar;
use std::collections::BTreeMap;

/// So many settings in a row that cannot be measured, from the first one on, are a mistake in the commands.
const HOPELESS: usize = 5;

/// Which part of the settings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Samples,
    Search,
}

/// Why it ended before its end.
pub enum Stop {
    /// This signal has arrived.
    Signal(i32),
    /// Nothing can be measured, as it says.
    Nothing(String),
}

/// A setting, and the median of its measurements if it could be measured.
pub type One = (Setting, Option<f64>);

/// All that was measured.
pub struct Measured<'a> {
    space: &'a Space,
    commands: &'a Commands,
    goal: Goal,
    repeats: u32,
    /// How many settings each part has.
    limits: (u64, u64),
    left: u64,
    part: Part,
    pub samples: Vec<One>,
    pub searched: Vec<One>,
    /// What the last one said that could not be measured.
    pub failure: Option<String>,
    stop: Option<Stop>,
    bar: ProgressBar,
}

/// A setting that took its turn at the end; `None`: what was set before.
pub struct Final {
    pub setting: Option<Setting>,
    pub values: Vec<f64>,
}

impl<'a> Measured<'a> {
    pub fn new(
        space: &'a Space,
        commands: &'a Commands,
        goal: Goal,
        repeats: u32,
        limits: (u64, u64),
    ) -> Self {
        let bar = castell_bench::bar::bar(limits.0 + limits.1);
        Measured {
            space,
            commands,
            goal,
            repeats,
            limits,
            left: 0,
            part: Part::Samples,
            samples: Vec::new(),
            searched: Vec::new(),
            failure: None,
            stop: None,
            bar,
        }
    }

    pub fn begin(&mut self, part: Part) {
        self.part = part;
        self.left = if part == Part::Samples { self.limits.0 } else { self.limits.1 };
    }

    /// Measures a setting, unless it is enough.
    pub fn measure(&mut self, setting: Setting) -> Result<Option<f64>, Ended> {
        if self.left == 0 || self.stop.is_some() {
            return Err(Ended);
        }
        self.left -= 1;
        let variables = self.variables(&setting);
        let mut values = Vec::new();
        for _ in 0..self.repeats {
            match self.commands.measure(&variables) {
                Ok(value) => values.push(value),
                Err(Failed::Signal(signal)) => {
                    self.stop = Some(Stop::Signal(signal));
                    return Err(Ended);
                }
                Err(Failed::Command(why)) => {
                    self.failure = Some(why);
                    values.clear();
                    break;
                }
            }
        }
        let value = castell_model::statistics::median(&mut values);
        let part = if self.part == Part::Samples { &mut self.samples } else { &mut self.searched };
        part.push((setting, value));
        self.bar.inc(1);
        if let Some(best) = self
            .all()
            .filter_map(|(_, value)| *value)
            .min_by(|one, other| self.goal.order(Some(*one), Some(*other)))
        {
            self.bar.set_message(format!("best {best:.6}"));
        }
        if self.samples.len() == HOPELESS && self.samples.iter().all(|(_, value)| value.is_none()) {
            self.stop = Some(Stop::Nothing(self.failure.clone().unwrap_or_default()));
        }
        Ok(value)
    }

    /// Whether it ended before its end.
    pub fn stopped(&mut self) -> Result<(), Stop> {
        self.stop.take().map_or(Ok(()), Err)
    }

    /// All settings, in their order.
    pub fn all(&self) -> impl Iterator<Item = &One> {
        self.samples.iter().chain(&self.searched)
    }

    /// The `most` best settings by the medians of what was measured of them, and what was set before, in turns: best first.
    pub fn finals(&mut self, first: &First, most: usize, rounds: u32) -> Result<Vec<Final>, Stop> {
        let mut by_setting: BTreeMap<&Setting, Vec<f64>> = BTreeMap::new();
        self.all().for_each(|(setting, value)| by_setting.entry(setting).or_default().extend(value));
        let mut best: Vec<(Setting, Option<f64>)> = by_setting
            .into_iter()
            .map(|(setting, mut values)| (setting.clone(), castell_model::statistics::median(&mut values)))
            .filter(|(_, median)| median.is_some())
            .collect();
        if best.is_empty() {
            return Err(Stop::Nothing(
                self.failure.clone().unwrap_or_else(|| "no setting was tried".to_owned()),
            ));
        }
        best.sort_by(|(_, one), (_, other)| self.goal.order(*one, *other));
        let settings = best.into_iter().take(most).map(|(setting, _)| Some(setting));
        let mut finals: Vec<Final> =
            [None].into_iter().chain(settings).map(|setting| Final { setting, values: Vec::new() }).collect();
        self.bar.set_length(u64::from(rounds) * finals.len() as u64);
        self.bar.set_position(0);
        for _ in 0..rounds {
            for one in &mut finals {
                let measured = match &one.setting {
                    Some(setting) => self.commands.measure(&self.variables(setting)),
                    None => first.measure(self.commands),
                };
                match measured {
                    Ok(value) => one.values.push(value),
                    Err(Failed::Signal(signal)) => return Err(Stop::Signal(signal)),
                    Err(Failed::Command(why)) => self.failure = Some(why),
                }
                self.bar.inc(1);
            }
        }
        self.bar.finish_and_clear();
        let median = |one: &Final| castell_model::statistics::median(&mut one.values.clone());
        finals.sort_by(|one, other| self.goal.order(median(one), median(other)));
        Ok(finals)
    }

    fn variables(&self, setting: &Setting) -> Variables {
        let values = self.space.knobs().iter().zip(setting);
        values.map(|(knob, value)| (knob.variable(), value.to_string())).collect()
    }
}
