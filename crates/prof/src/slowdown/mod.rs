//! How much a program and a probe slow each other (Weidendorfer and Breitbart, COSH 2016), by pairs of neighbouring intervals.
//!
//! Two runs one after the other differ by more than neighbours cost on many machines. So the neighbour is stopped and goes on every
//! moment, and each interval with it is compared with the one without it beside it, in an order that is drawn anew for each pair.

mod parties;

pub use castell_interference::estimate::{Estimate, pairs_min};
pub use parties::side_by_side;

use crate::probe::{Dependence, Distance, Order, Pattern, PatternError, Probe, ProbeError};
use castell_host::process::Ended;
use castell_host::resctrl::{Resctrl, WaysGroup};
use castell_host::signal::Signals;
use parties::{Neighbour, Program, Running, Victim, sleep};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// After somebody was stopped or goes on, caches take a while to be as they will be.
const SETTLE: Duration = Duration::from_millis(20);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that the probe goes over; ascending.
    pub sizes: Vec<u64>,
    /// The probe's threads.
    pub threads: usize,
    /// Pairs of intervals for each point.
    pub pairs: usize,
    /// An interval.
    pub interval: Duration,
    /// The program's processors.
    pub program_cpus: Vec<u32>,
    /// The probe's.
    pub probe_cpus: Vec<u32>,
    /// Orders within pairs follow from it.
    pub seed: u64,
    /// How the last-level cache is divided between them, if it is.
    pub division: Option<Division>,
}

/// A division of the last-level cache by resctrl.
#[derive(Clone, Debug)]
pub struct Division {
    /// Where resctrl is mounted.
    pub resctrl: PathBuf,
    /// The ways that the program fills; the probe fills the others.
    pub program: Vec<u32>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum SlowdownError {
    /// No command.
    #[error("no command was given")]
    NoCommand,
    /// It did not end well.
    #[error("the program {0}: its pace says nothing then")]
    Failed(Ended),
    /// It ends within an interval.
    #[error("the program ends within every interval: give it more to do, or a shorter --interval")]
    TooShort,
    /// Somebody got no processor.
    #[error(
        "who was measured got no processor for a whole interval, again and again: give them more with --cpus and --probe-cpus, or a longer --interval"
    )]
    Still,
    /// No such process.
    #[error("there is no process {0}, or it is this one")]
    NoProcess(i32),
    /// It may not be stopped.
    #[error("process {0} may not be stopped and continued: it is another user's")]
    NotAllowed(i32),
    /// Somebody interrupted.
    #[error("interrupted: programs that were stopped go on")]
    Interrupted,
    /// Too few pairs.
    #[error("{pairs} pairs give no limits for {comparisons} comparisons: take at least {least}")]
    Pairs {
        /// Pairs.
        pairs: usize,
        /// Comparisons.
        comparisons: usize,
        /// How many it takes.
        least: usize,
    },
    /// The probe.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The probe's pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The system refused something.
    #[error(transparent)]
    Host(#[from] castell_host::HostError),
}

/// How the program's pace is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Instructions in an interval.
    Instructions,
    /// Whole runs: where instructions cannot be counted.
    Runs,
}

/// The program and the probe at one size.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Bytes that the probe goes over.
    pub bytes: u64,
    /// How much the probe slows the program.
    pub program: Estimate,
    /// How much the program slows the probe.
    pub probe: Estimate,
}

/// A neighbour that runs already, and what it costs.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The process.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// How much it slows the victim.
    pub estimate: Estimate,
}

/// Measures both curves; `progress` is told each point.
///
/// # Errors
/// See [`SlowdownError`].
pub fn curves(
    command: &[OsString],
    options: &Options,
    mut progress: impl FnMut(&Point),
) -> Result<(Vec<Point>, Pace), SlowdownError> {
    let comparisons = 2 * options.sizes.len();
    let (signals, mut pairs) = prepare(options, comparisons)?;
    let mut program = Program::new(command, options.program_cpus.clone());
    let groups = options.division.as_ref().map(divide).transpose()?;
    if let Some([of_program, of_probe]) = &groups {
        program.live_in(of_program.entrance()?);
        // The probe's threads are started by this one.
        of_probe.enter()?;
    }
    let pace = if program.has_counter() { Pace::Instructions } else { Pace::Runs };
    let mut points = Vec::new();
    for &bytes in &options.sizes {
        let probe = probe(bytes, options)?;
        let of_program = pairs.compare(&mut program, &mut &probe, &signals)?;
        let of_probe = pairs.compare(&mut &probe, &mut program, &signals)?;
        program.end();
        let estimate =
            |ratios: &[f64]| Estimate::of(ratios, comparisons).ok_or_else(|| too_few(options, comparisons));
        let point = Point { bytes, program: estimate(&of_program)?, probe: estimate(&of_probe)? };
        progress(&point);
        points.push(point);
    }
    Ok((points, pace))
}

/// Measures what neighbours that run already cost a command; or, without one, a probe over the first of the sizes.
///
/// # Errors
/// See [`SlowdownError`].
pub fn who(
    command: &[OsString],
    pids: &[i32],
    options: &Options,
) -> Result<(Vec<Cost>, Pace), SlowdownError> {
    let (signals, mut pairs) = prepare(options, pids.len())?;
    let mut program = Program::new(command, options.program_cpus.clone());
    let pace = if command.is_empty() || program.has_counter() { Pace::Instructions } else { Pace::Runs };
    let probe = if command.is_empty() { Some(probe(options.sizes[0], options)?) } else { None };
    let mut costs = Vec::new();
    for &pid in pids {
        let mut neighbour = Running::new(pid)?;
        let ratios = match &probe {
            Some(probe) => pairs.compare(&mut { probe }, &mut neighbour, &signals)?,
            None => pairs.compare(&mut program, &mut neighbour, &signals)?,
        };
        let estimate = Estimate::of(&ratios, pids.len()).ok_or_else(|| too_few(options, pids.len()))?;
        costs.push(Cost { pid, name: neighbour.name(), estimate });
    }
    Ok((costs, pace))
}

fn prepare(options: &Options, comparisons: usize) -> Result<(Signals, Pairs), SlowdownError> {
    if options.pairs < pairs_min(comparisons) {
        return Err(too_few(options, comparisons));
    }
    let signals = Signals::take_over(&[libc::SIGINT, libc::SIGTERM])?;
    Ok((signals, Pairs { count: options.pairs, interval: options.interval, state: options.seed }))
}

/// The program's group of ways, and the probe's.
fn divide(division: &Division) -> Result<[WaysGroup; 2], SlowdownError> {
    let resctrl = Resctrl::open(&division.resctrl)?;
    let others = resctrl.others(&division.program);
    Ok([resctrl.group("program", &division.program)?, resctrl.group("probe", &others)?])
}

fn too_few(options: &Options, comparisons: usize) -> SlowdownError {
    SlowdownError::Pairs { pairs: options.pairs, comparisons, least: pairs_min(comparisons) }
}

fn probe(bytes: u64, options: &Options) -> Result<Probe, SlowdownError> {
    let distances = vec![Distance { bytes, share: 1.0 }];
    let pattern = Pattern::new(distances, Order::Stream, Dependence::Independent, options.threads)?;
    Ok(Probe::start(&pattern, &options.probe_cpus, None)?)
}

/// Pairs of intervals.
struct Pairs {
    count: usize,
    interval: Duration,
    state: u64,
}

impl Pairs {
    /// Of each pair, the pace without the neighbour by the pace with it.
    fn compare(
        &mut self,
        victim: &mut impl Victim,
        neighbour: &mut impl Neighbour,
        signals: &Signals,
    ) -> Result<Vec<f64>, SlowdownError> {
        victim.begin()?;
        let ratios = (0..self.count).map(|_| self.pair(victim, neighbour, signals)).collect();
        // Whatever happened: a neighbour goes on, and a victim rests.
        neighbour.go()?;
        victim.rest();
        neighbour.rest()?;
        ratios
    }

    fn pair(
        &mut self,
        victim: &mut impl Victim,
        neighbour: &mut impl Neighbour,
        signals: &Signals,
    ) -> Result<f64, SlowdownError> {
        let alone_first = self.coin();
        let mut patience = Patience::new();
        let mut was_still = false;
        while patience.lasts() {
            let mut paces = [0.0; 2];
            let mut is_whole = true;
            for is_alone in [alone_first, !alone_first] {
                if is_alone {
                    neighbour.rest()?
                } else {
                    neighbour.go()?
                }
                sleep(SETTLE, signals)?;
                paces[usize::from(is_alone)] = victim.pace(self.interval, signals)?;
                is_whole &= is_alone || neighbour.has_gone_on();
            }
            was_still = paces.contains(&0.0);
            if is_whole && !was_still {
                return Ok(paces[1] / paces[0]);
            }
        }
        Err(if was_still { SlowdownError::Still } else { SlowdownError::TooShort })
    }

    fn coin(&mut self) -> bool {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 63 == 1
    }
}

/// How long something is measured again that was of no use since somebody ended in it, or got no processor: so many tries at least, and
/// so long at least. On a machine that is busy with other things twenty tries in a row may fail by chance.
struct Patience {
    tries: usize,
    start: Instant,
}

impl Patience {
    const TRIES_MIN: usize = 20;
    const TIME_MIN: Duration = Duration::from_secs(4);

    fn new() -> Patience {
        Patience { tries: 0, start: Instant::now() }
    }

    /// Whether there is one more try.
    fn lasts(&mut self) -> bool {
        self.tries += 1;
        self.tries <= Patience::TRIES_MIN || self.start.elapsed() < Patience::TIME_MIN
    }
}

/// The part of the processors' time that a hypervisor gave to others, between two looks at `/proc/stat`; the first look gives none.
/// `root` is `/`.
#[derive(Debug)]
pub struct Steal {
    ticks: [u64; 2],
}

impl Steal {
    /// The first look.
    pub fn begin(root: &Path) -> Steal {
        Steal { ticks: steal_ticks(root) }
    }

    /// The part since the first look.
    pub fn share(&self, root: &Path) -> f64 {
        let now = steal_ticks(root);
        let [stolen, all] = [0, 1].map(|at: usize| now[at].saturating_sub(self.ticks[at]) as f64);
        if all > 0.0 { stolen / all } else { 0.0 }
    }
}

/// Stolen ticks, and all.
fn steal_ticks(root: &Path) -> [u64; 2] {
    let text = std::fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // What guests take is counted twice, in the last two.
    [ticks.get(7).copied().unwrap_or(0), ticks.iter().take(8).sum()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// A victim whose pace is as it is told to be, by whether its neighbour goes.
    struct Paced(Rc<Cell<bool>>, f64);
    struct Told(Rc<Cell<bool>>);

    impl Victim for Paced {
        fn pace(&mut self, _: Duration, _: &Signals) -> Result<f64, SlowdownError> {
            Ok(if self.0.get() { 10.0 / self.1 } else { 10.0 })
        }
    }

    impl Neighbour for Told {
        fn go(&mut self) -> Result<(), SlowdownError> {
            self.0.set(true);
            Ok(())
        }
        fn rest(&mut self) -> Result<(), SlowdownError> {
            self.0.set(false);
            Ok(())
        }
    }

    #[test]
    fn a_neighbour_that_costs_something_is_told_from_one_that_does_not() {
        let signals = Signals::take_over(&[]).expect("none");
        for (cost, is_effect) in [(1.5, true), (1.0, false)] {
            let goes = Rc::new(Cell::new(false));
            let mut pairs = Pairs { count: 7, interval: Duration::ZERO, state: 3 };
            let ratios =
                pairs.compare(&mut Paced(goes.clone(), cost), &mut Told(goes), &signals).expect("measured");
            assert!(ratios.iter().all(|ratio| (ratio - cost).abs() < 1e-12), "{ratios:?}");
            assert_eq!(Estimate::of(&ratios, 1).expect("enough").is_effect(), is_effect);
        }
    }

    /// A victim that gets no processor for its first intervals.
    struct Starved(u32);

    impl Victim for Starved {
        fn pace(&mut self, _: Duration, _: &Signals) -> Result<f64, SlowdownError> {
            self.0 = self.0.saturating_sub(1);
            Ok(if self.0 > 0 { 0.0 } else { 1.0 })
        }
    }

    #[test]
    fn who_gets_no_processor_for_a_second_is_measured_afterwards() {
        let signals = Signals::take_over(&[]).expect("none");
        let mut pairs = Pairs { count: 3, interval: Duration::ZERO, state: 3 };
        let mut neighbour = Told(Rc::default());
        let ratios = pairs.compare(&mut Starved(50), &mut neighbour, &signals).expect("measured");
        assert_eq!(ratios, [1.0; 3]);
    }

    #[test]
    fn both_orders_come_up() {
        let mut pairs = Pairs { count: 0, interval: Duration::ZERO, state: 1 };
        let heads = (0..1000).filter(|_| pairs.coin()).count();
        assert!((400..600).contains(&heads), "{heads}");
    }

    #[test]
    fn stolen_time_is_a_part_of_all() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("proc")).expect("a folder");
        let file = root.path().join("proc/stat");
        std::fs::write(&file, "cpu  10 0 10 70 0 0 0 10 5 5\ncpu0 1\n").expect("a file");
        let steal = Steal::begin(root.path());
        std::fs::write(&file, "cpu  20 0 20 130 0 0 0 30 9 9\ncpu0 1\n").expect("a file");
        assert!((steal.share(root.path()) - 0.2).abs() < 1e-12);
        assert_eq!(Steal::begin(Path::new("/nowhere")).share(Path::new("/nowhere")), 0.0);
    }
}
