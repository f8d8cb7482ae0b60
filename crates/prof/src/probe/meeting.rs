//! A probe and a program that runs anyway: what each does to the other, within less than a fifth of a second.
//!
//! Paces are per second of processor time, so that others who take turns with them on a processor don't count. That of the probe alone is
//! measured while the program stands still for a moment: on machines that others share, paces that are seconds apart differ by more than
//! neighbours cost.

use super::Probe;
use castell_host::clock;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// For so long both run, and the program alone.
const WINDOW: Duration = Duration::from_millis(60);
/// For so long a program stands still at most.
const STILL: Duration = Duration::from_millis(25);
/// Until caches are as they will be.
const SETTLE: Duration = Duration::from_millis(5);
/// How often the probe is looked at: looking disturbs it a little, always alike.
const LOOK: Duration = Duration::from_millis(1);
/// Whoever stops the program may take so long to say that it did.
const ANSWER: Duration = Duration::from_secs(2);
/// A program that has processors for less of a window has no pace.
const BUSY_MIN: f64 = 0.1;
/// Nor has a probe beside whom others want its processor.
const OWN_MIN: f64 = 0.5;

/// Between these times a program stood still. Nanoseconds of [`clock::now_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Still {
    /// From then on,
    pub from_ns: u64,
    /// until then.
    pub until_ns: u64,
    /// What that cost it, also while it was being stopped and let go on. Nanoseconds.
    pub cost_ns: u64,
}

/// A program that a probe meets.
pub trait Met {
    /// What it has done so far, and for how many seconds it has had processors.
    fn progress(&mut self) -> (f64, f64);

    /// Has it stand still for so long at most, and says when it did; nothing where it does not.
    fn stand_still(&mut self, longest: Duration) -> Receiver<Still>;
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Meeting {
    /// The pace of the probe alone by that beside the program; none if it could not be told.
    pub presses: Option<f64>,
    /// The pace of the program alone by that beside the probe; none where it has none.
    pub feels: Option<f64>,
    /// For how long the program stood still. Seconds.
    pub still_s: f64,
}

/// Measures once, the parts one way round or the other. The probe is at rest before and after.
pub fn meet(probe: &Probe, program: &mut impl Met, is_reversed: bool) -> Meeting {
    let (mut alone, mut beside, mut still) = (None, None, None);
    for part in if is_reversed { [2, 1, 0] } else { [0, 1, 2] } {
        match part {
            0 => {
                probe.pause();
                thread::sleep(SETTLE);
                alone = Some(window(probe, program).1);
            }
            1 => {
                probe.go();
                thread::sleep(SETTLE);
                beside = Some(window(probe, program));
            }
            _ => {
                probe.go();
                still = while_it_stands(probe, program);
            }
        }
    }
    probe.pause();
    let by = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    let (of_probe, of_program) = beside.unwrap_or_default();
    Meeting {
        presses: by(still.and_then(|(pace, _)| pace), of_probe),
        // A probe without a processor is no neighbour.
        feels: by(alone.flatten(), of_program.filter(|_| of_probe.is_some())),
        still_s: still.map_or(0.0, |(_, seconds)| seconds),
    }
}

/// How far the probe is.
#[derive(Clone, Copy)]
struct Sample {
    at_ns: u64,
    bytes: u64,
    cpu_ns: u64,
}

impl Sample {
    fn of(probe: &Probe) -> Sample {
        Sample { at_ns: clock::now_ns(), bytes: probe.bytes(), cpu_ns: probe.cpu_ns() }
    }

    fn pace_to(self, end: Sample) -> Option<f64> {
        let bytes = (end.bytes - self.bytes) as f64;
        let [cpu_s, seconds] = [end.cpu_ns - self.cpu_ns, end.at_ns - self.at_ns].map(|ns| ns as f64 / 1e9);
        pace(bytes, cpu_s, seconds, OWN_MIN)
    }
}

/// Work a second of processor time, if that was so much of the time.
fn pace(work: f64, cpu_s: f64, seconds: f64, least: f64) -> Option<f64> {
    let pace = work / cpu_s;
    (cpu_s >= least * seconds && pace > 0.0 && pace.is_finite()).then_some(pace)
}

/// The paces of both in the next moment.
fn window(probe: &Probe, program: &mut impl Met) -> (Option<f64>, Option<f64>) {
    let (start, before) = (Sample::of(probe), program.progress());
    while clock::now_ns() < start.at_ns + WINDOW.as_nanos() as u64 {
        thread::sleep(LOOK);
        std::hint::black_box(Sample::of(probe));
    }
    let (end, after) = (Sample::of(probe), program.progress());
    let seconds = (end.at_ns - start.at_ns) as f64 / 1e9;
    (start.pace_to(end), pace(after.0 - before.0, after.1 - before.1, seconds, BUSY_MIN))
}

/// The pace of the probe while the program stands still, and what that cost the program, in seconds; none if it did not, as where the probe
/// would have no processor anyway.
fn while_it_stands(probe: &Probe, program: &mut impl Met) -> Option<(Option<f64>, f64)> {
    let begin = Sample::of(probe);
    thread::sleep(SETTLE);
    begin.pace_to(Sample::of(probe))?;
    let (answer, begun) = (program.stand_still(STILL), Instant::now());
    let mut samples = Vec::new();
    let still = loop {
        samples.push(Sample::of(probe));
        match answer.recv_timeout(LOOK) {
            Ok(still) => break still,
            Err(RecvTimeoutError::Timeout) if begun.elapsed() < ANSWER => {}
            Err(_) => return None,
        }
    };
    let settled_ns = still.from_ns + SETTLE.as_nanos() as u64;
    samples.retain(|sample| (settled_ns..=still.until_ns).contains(&sample.at_ns));
    let ends = samples.first().zip(samples.last());
    Some((ends.and_then(|(first, last)| first.pace_to(*last)), still.cost_ns as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Dependence, Distance, Order, Pattern};
    use std::sync::mpsc::channel;

    /// A program that works as it is told to, and stands still, or does not.
    struct Told {
        begun_ns: u64,
        stands: bool,
        asked: usize,
    }

    impl Met for Told {
        fn progress(&mut self) -> (f64, f64) {
            let seconds = (clock::now_ns() - self.begun_ns) as f64 / 1e9;
            (3.0 * seconds, seconds)
        }

        fn stand_still(&mut self, longest: Duration) -> Receiver<Still> {
            self.asked += 1;
            let (answer, answered) = channel();
            if self.stands {
                thread::spawn(move || {
                    let from_ns = clock::now_ns();
                    thread::sleep(longest);
                    let until_ns = clock::now_ns();
                    // Whoever gave up waiting does not hear it.
                    let _ = answer.send(Still { from_ns, until_ns, cost_ns: until_ns - from_ns });
                });
            }
            answered
        }
    }

    fn probe() -> Probe {
        let distances = vec![Distance { bytes: 1 << 16, share: 1.0 }];
        let pattern = Pattern::new(distances, Order::Stream, Dependence::Independent, 1).expect("a pattern");
        Probe::start(&pattern, &[], None).expect("a probe")
    }

    #[test]
    fn a_meeting_tells_both_paces_and_what_it_cost() {
        let (probe, mut told) = (probe(), Told { begun_ns: clock::now_ns(), stands: true, asked: 0 });
        // On a busy machine the probe may have no processor of its own; then it stops nobody.
        let mut met = Meeting::default();
        for turn in 0..1000 {
            met = meet(&probe, &mut told, turn % 2 == 1);
            assert!(
                met.feels.is_none_or(|feels| (feels - 1.0).abs() < 0.01),
                "its pace never changes: {met:?}"
            );
            if met.presses.is_some() {
                break;
            }
        }
        assert!(met.presses.is_some() && met.still_s >= STILL.as_secs_f64(), "{met:?}");
        let rest = probe.bytes();
        thread::sleep(Duration::from_millis(5));
        assert_eq!(probe.bytes(), rest, "it rests again");
    }

    #[test]
    fn who_does_not_stand_still_is_not_waited_for() {
        let (probe, mut told) = (probe(), Told { begun_ns: clock::now_ns(), stands: false, asked: 0 });
        for turn in 0..1000 {
            let met = meet(&probe, &mut told, turn % 2 == 1);
            assert_eq!((met.presses, met.still_s), (None, 0.0));
            if told.asked > 0 {
                return;
            }
        }
        panic!("the probe never had a processor for itself");
    }
}
