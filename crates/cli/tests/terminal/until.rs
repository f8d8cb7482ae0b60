//! Waiting for what a terminal shows.

use super::terminal::Terminal;
use std::thread;
use std::time::{Duration, Instant};

impl Terminal {
    #[track_caller]
    pub fn until(&self, what: &str) {
        self.until_it("shows", |text| text.contains(what), what);
    }

    #[track_caller]
    pub fn until_it(&self, verb: &str, holds: impl Fn(&str) -> bool, what: &str) {
        let begun = Instant::now();
        while !holds(&self.text()) {
            // No time is asserted: whoever waits for ever is a hang.
            assert!(begun.elapsed() < Duration::from_secs(60), "never {verb} `{what}`:\n{}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }
}
