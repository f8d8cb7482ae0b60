//! How long an answer takes.

use crate::Settings;

/// Smoothed as RFC 6298 does it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    smooth_ns: u64,
    deviation_ns: u64,
}

impl RoundTrip {
    pub(crate) fn sample(&mut self, ns: u64) {
        if self.smooth_ns == 0 {
            (self.smooth_ns, self.deviation_ns) = (ns.max(1), ns / 2);
            return;
        }
        self.deviation_ns = (3 * self.deviation_ns + self.smooth_ns.abs_diff(ns)) / 4;
        self.smooth_ns = ((7 * self.smooth_ns + ns) / 8).max(1);
    }

    /// When an answer is overdue, after it was overdue so often in a row.
    pub(crate) fn timeout_ns(&self, settings: &Settings, fruitless: u32) -> u64 {
        let once = match self.smooth_ns {
            0 => settings.timeout_first_ns,
            smooth => (smooth + 4 * self.deviation_ns).max(settings.timeout_min_ns),
        };
        (once << fruitless.min(16)).min(settings.timeout_max_ns)
    }

    /// No answer comes sooner, most likely.
    pub(crate) fn soonest_ns(&self) -> u64 {
        self.smooth_ns / 2
    }
}
