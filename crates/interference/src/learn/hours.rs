//! How far off predictions were, hour by hour.

use super::told::Told;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Hours that are kept: a month.
pub const HOURS_MAX: usize = 31 * 24;

/// The errors of an hour: |predicted - observed| / observed, each predicted before it was learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hour {
    /// Hours since 1970.
    pub hour: u64,
    /// Observations.
    pub observed: u32,
    /// Of which nothing certain would have been said.
    pub untold: u32,
    /// Sum of the errors.
    ours: f64,
    /// Of always saying the median of what was seen before.
    median: f64,
    /// Of always saying 1.05.
    no_contention: f64,
    /// Of our errors, below 5 %.
    below_5: u32,
    /// Below 30 %.
    below_30: u32,
}

impl Hour {
    /// The hour of a time in seconds since 1970. Should the clock have gone back, it is the last hour still.
    pub(super) fn of(hours: &mut VecDeque<Hour>, now_s: u64) -> &mut Hour {
        let hour = now_s / 3600;
        if hours.back().is_none_or(|last| last.hour < hour) {
            hours.push_back(Hour { hour, ..Hour::default() });
            if hours.len() > HOURS_MAX {
                hours.pop_front();
            }
        }
        hours.back_mut().expect("one was just put there")
    }

    /// `usual` is what is always said: the median, and 1.05.
    pub(super) fn add(&mut self, told: &Told, usual: [f64; 2], slowdown: f64) {
        let error = |predicted: f64| (predicted - slowdown).abs() / slowdown;
        let ours = error(told.slowdown);
        self.observed += 1;
        self.untold += u32::from(told.cannot_tell());
        self.ours += ours;
        self.median += error(usual[0]);
        self.no_contention += error(usual[1]);
        self.below_5 += u32::from(ours < 0.05);
        self.below_30 += u32::from(ours < 0.3);
    }

    /// The mean error.
    pub fn ours(&self) -> f64 {
        self.mean(self.ours)
    }

    /// What always saying the median would have had.
    pub fn median(&self) -> f64 {
        self.mean(self.median)
    }

    /// What always saying 1.05 would have had.
    pub fn no_contention(&self) -> f64 {
        self.mean(self.no_contention)
    }

    /// The parts of errors below 5 % and below 30 %.
    pub fn below(&self) -> [f64; 2] {
        [self.below_5, self.below_30].map(|count| self.mean(f64::from(count)))
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / f64::from(self.observed.max(1))
    }
}
