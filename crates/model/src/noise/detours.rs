//! What an operating system takes from a program: detours that were measured on a processor, replayed on every rank.

use castell_base::random::{OPERATIONS_END, Philox};
use castell_base::{Rank, Time};
use rand_core::RngCore;

/// A measured sequence of detours, repeated for ever: when the processor did something else, and for how long.
///
/// As in LogGOPSim (Hoefler, Schneider, Lumsdaine, "Characterizing the influence of system noise on large-scale
/// applications by simulation", SC 2010): an operation takes longer by the rest of a detour that is going on when it
/// starts, and by all detours that start before it would have ended without any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detours {
    /// By rising start; none overlaps the next.
    events: Vec<Detour>,
    period: Time,
}

/// The processor does something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Detour {
    start: Time,
    end: Time,
}

/// Why a text is no sequence of detours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct DetoursError {
    /// Line, from 1; 0 if it is the text as a whole.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub problem: String,
}

impl Detours {
    /// Reads what netgauge's selfish benchmark writes and LogGOPSim reads: a line a detour, `START DURATION` in
    /// nanoseconds, separated by white space; lines that start with `#` say nothing. The sequence repeats from the end of
    /// its last detour.
    ///
    /// # Errors
    ///
    /// Other lines; detours that are not in order or overlap; no detour of any length.
    pub fn parse(text: &str) -> Result<Detours, DetoursError> {
        let mut events: Vec<Detour> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let error = |problem: String| DetoursError { line: number, problem };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut fields = line.split_whitespace().map(str::parse::<f64>);
            let (Some(Ok(start)), Some(Ok(duration)), None) = (fields.next(), fields.next(), fields.next())
            else {
                return Err(error(format!("expected `START DURATION` in nanoseconds, found `{line}`")));
            };
            if !(start >= 0.0 && duration >= 0.0 && start + duration < Time::MAX.as_ns_f64()) {
                return Err(error("start and duration are positive, and end within 213 days".to_owned()));
            }
            let start = Time::from_ps_f64(start * 1e3);
            let end = start + Time::from_ps_f64(duration * 1e3);
            if events.last().is_some_and(|last| last.end > start) {
                return Err(error("this detour starts before the one above has ended".to_owned()));
            }
            events.push(Detour { start, end });
        }
        events.retain(|event| event.start < event.end);
        let problem = "there is no detour in it; expected lines `START DURATION` in nanoseconds".to_owned();
        let Some(last) = events.last() else { return Err(DetoursError { line: 0, problem }) };
        Ok(Detours { period: last.end, events })
    }

    /// After how long the sequence repeats.
    pub fn period(&self) -> Time {
        self.period
    }

    /// Where in the sequence a rank starts: somewhere, by the seed; with `together`, all ranks at the same place.
    pub fn phase(&self, seed: u64, rank: Rank, together: bool) -> Time {
        // The last operation that a key can have, which no program has.
        let rank = if together { Rank(u32::MAX) } else { rank };
        let random = Philox::new(seed, rank, OPERATIONS_END - 1, u16::MAX).next_u64();
        Time(((u128::from(random) * u128::from(self.period.0)) >> 64) as u64)
    }

    /// By how much an operation takes longer that starts at `start` and would take `length`, on a rank that began at
    /// `phase` of the sequence.
    pub fn delay(&self, phase: Time, start: Time, length: Time) -> Time {
        let begin = ((u128::from(start.0) + u128::from(phase.0)) % u128::from(self.period.0)) as u64;
        let (whole, rest) = (length.0 / self.period.0, length.0 % self.period.0);
        let total: Time = self.events.iter().map(|event| event.end - event.start).sum();
        let end = begin + rest;
        let mut delay = total * whole + self.within(Time(begin), Time(end.min(self.period.0)));
        if end > self.period.0 {
            delay += self.within(Time::ZERO, Time(end - self.period.0));
        }
        delay
    }

    /// The rest of a detour that is going on at `begin`, and all that start from there to before `end`; none goes on at
    /// the sequence's beginning.
    fn within(&self, begin: Time, end: Time) -> Time {
        let first = self.events.partition_point(|event| event.end <= begin);
        let touched =
            self.events[first..].iter().take_while(|event| event.start < end || event.start < begin);
        touched.map(|event| event.end - event.start.max(begin)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detours() -> Detours {
        Detours::parse("# start duration\n10\t5\n30 10\n\n95 5\n").unwrap()
    }

    fn delay(start: u64, length: u64) -> u64 {
        detours().delay(Time::ZERO, Time::from_ns(start), Time::from_ns(length)).0 / 1_000
    }

    #[test]
    fn an_operation_pays_for_the_detours_that_it_meets() {
        assert_eq!(detours().period(), Time::from_ns(100));
        for (start, length, expected) in [
            (0, 10, 0),
            (0, 11, 5),
            (10, 1, 5),
            (12, 1, 3),
            (12, 0, 3),
            (15, 15, 0),
            (15, 16, 10),
            (0, 100, 20),
            (90, 30, 10),
            (98, 5, 2),
            (98, 20, 7),
            (0, 250, 55),
            (1_000_000_010, 1, 5),
        ] {
            assert_eq!(delay(start, length), expected, "{length} ns from {start} ns");
        }
        let shifted = detours().delay(Time::from_ns(10), Time::ZERO, Time::from_ns(1));
        assert_eq!(shifted, Time::from_ns(5));
        assert_eq!(detours().delay(Time(u64::MAX), Time::MAX, Time::ZERO).0 % 1_000, 0);
    }

    #[test]
    fn phases_lie_in_the_period_and_depend_on_seed_and_rank() {
        let detours = detours();
        let phases: Vec<Time> = (0..50).map(|rank| detours.phase(1, Rank(rank), false)).collect();
        assert!(phases.iter().all(|&phase| phase < detours.period()));
        assert!(phases.iter().any(|&phase| phase != phases[0]));
        assert_eq!(detours.phase(1, Rank(3), true), detours.phase(1, Rank(4), true));
        assert_ne!(detours.phase(1, Rank(3), false), detours.phase(2, Rank(3), false));
    }

    #[test]
    fn wrong_traces_are_refused() {
        for (text, message) in [
            ("10 5\nten 5", "line 2: expected `START DURATION` in nanoseconds, found `ten 5`"),
            ("10 5 7", "line 1: expected"),
            ("10 5\n12 5", "line 2: this detour starts before"),
            ("-1 5", "line 1: start and duration"),
            ("10 1e30", "line 1: start and duration"),
            ("10 0\n", "line 0: there is no detour"),
            ("", "line 0: there is no detour"),
        ] {
            assert!(Detours::parse(text).unwrap_err().to_string().starts_with(message), "{text}");
        }
    }
}
