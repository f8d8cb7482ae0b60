//! How many frames all senders together may have under way to this endpoint: where many send to one, only that one knows it.
//!
//! What is lost on a switched segment is lost in the queue before the receiver. So the receivers' requests tell how full it is. At first
//! twice as many frames may be under way each round, until more than a few of them are lost; then fewer, and slowly more again. A few are
//! always lost where cables are bad, and that is no reason to go slower.

/// Of the frames of a round so many may be lost: one in 32.
const LOST_SHIFT: u32 = 5;
/// A window that overflows becomes so many eighths of itself.
const EIGHTHS_LEFT: u32 = 6;
/// A window that is more than half of the one that overflowed grows by one frame in so many rounds: to lose frames again costs more than
/// is won.
const ROUNDS_OF_CARE: u32 = 16;

/// Of one endpoint.
#[derive(Debug)]
pub(crate) struct Pace {
    window: u32,
    window_min: u32,
    window_max: u32,
    /// The window that overflowed last.
    overflowed: Option<u32>,
    /// Transfers that are under way to this endpoint.
    active: u32,
    /// Frames of this round.
    came: u32,
    lost: u32,
    /// Rounds since the window grew.
    rounds: u32,
}

impl Pace {
    pub(crate) fn new(window_min: u32, window_max: u32) -> Pace {
        let window_max = window_max.max(window_min);
        Pace {
            window: window_min,
            window_min,
            window_max,
            overflowed: None,
            active: 0,
            came: 0,
            lost: 0,
            rounds: 0,
        }
    }

    pub(crate) fn begins(&mut self) {
        self.active += 1;
    }

    pub(crate) fn ends(&mut self) {
        self.active = self.active.checked_sub(1).expect("what ends has begun");
    }

    /// What each transfer may have under way.
    pub(crate) fn share(&self) -> u32 {
        (self.window / self.active.max(1)).max(1)
    }

    pub(crate) fn lost(&mut self, frames: u32) {
        self.lost += frames;
    }

    pub(crate) fn came(&mut self) {
        self.came += 1;
        let all = self.came + self.lost;
        // A round is as many frames as are under way, and enough to tell few from many.
        if all < self.window.max(1 << LOST_SHIFT) {
            return;
        }
        self.rounds += 1;
        if self.lost << LOST_SHIFT > all {
            self.overflowed = Some(self.window);
            self.window = (self.window * EIGHTHS_LEFT / 8).max(self.window_min);
            self.rounds = 0;
        } else {
            let more = match self.overflowed {
                None => self.window,
                Some(overflowed) if 2 * self.window < overflowed => 1,
                Some(_) if self.rounds < ROUNDS_OF_CARE => 0,
                Some(_) => 1,
            };
            self.window = (self.window + more).min(self.window_max);
            self.rounds *= u32::from(more == 0);
        }
        (self.came, self.lost) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a queue that holds so many frames.
    fn after(rounds: u32, holds: u32, lost_anyway_in: u32) -> u32 {
        let mut pace = Pace::new(8, 512);
        pace.begins();
        let mut frames = 0_u32;
        for _ in 0..rounds {
            let window = pace.share();
            pace.lost(window.saturating_sub(holds));
            for _ in 0..window.min(holds) {
                frames += 1;
                match lost_anyway_in > 0 && frames.is_multiple_of(lost_anyway_in) {
                    true => pace.lost(1),
                    false => pace.came(),
                }
            }
        }
        pace.share()
    }

    #[test]
    fn a_window_finds_what_the_queue_holds_and_bad_cables_do_not_close_it() {
        for holds in [8, 40, 200] {
            let window = after(20_000, holds, 0);
            assert!(window * 3 > holds && window < 2 * holds + 4, "{window} frames, the queue holds {holds}");
        }
        assert_eq!(after(5000, 100_000, 100), 512);
    }

    #[test]
    fn shares_add_up_and_nobody_gets_none() {
        let mut pace = Pace::new(8, 512);
        (0..7).for_each(|_| pace.begins());
        assert_eq!(pace.share(), 1);
        (0..5).for_each(|_| pace.ends());
        assert_eq!(pace.share(), 4);
    }
}
