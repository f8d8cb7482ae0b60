//! What makes measurements on this machine doubtful: looked at before and after them.
//!
//! Says what it sees; what a measurement is worth then is for the reader to judge.

use crate::topology::Processors;
use castell_base::counted;
use std::fs;
use std::path::{Path, PathBuf};

/// Somebody else may use so much of a processor before it is worth a word.
const LOAD_MAX: f64 = 0.3;
/// A hypervisor may take so large a share of the processors' time.
const STEAL_MAX: f64 = 0.01;

/// The [`Doubt::kind`] of more ranks than processors.
pub const CROWD: &str = "more-ranks-than-processors";

/// One reason for doubt.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    /// A short name that stays the same: `load`, `more-ranks-than-processors`, `not-bound`, `frequency`, `steal`.
    pub kind: &'static str,
    /// What was seen, and what can be done about it.
    pub text: String,
}

/// How a measurement is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Processes that take part.
    pub ranks: u32,
    /// Whether each keeps to its processor.
    pub is_bound: bool,
}

/// The machine before a measurement.
#[derive(Clone, Debug)]
pub struct Conditions {
    root: PathBuf,
    setup: Setup,
    processors: usize,
    load: Option<f64>,
    times: Option<Times>,
}

/// Ticks of all processors since the machine started.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    all: u64,
    steal: u64,
}

impl Conditions {
    /// Looks at the machine. To be asked before the measurement starts, since that is load, too.
    pub fn before(setup: Setup) -> Conditions {
        Conditions::below(Path::new("/"), setup, Processors::usable().count())
    }

    fn below(root: &Path, setup: Setup, processors: usize) -> Conditions {
        Conditions { root: root.to_owned(), setup, processors, load: load(root), times: times(root) }
    }

    /// Looks again, and says what was not as it should be.
    pub fn after(&self) -> Vec<Doubt> {
        [self.others(), self.crowd(), self.binding(), self.frequency(), self.steal()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn others(&self) -> Option<Doubt> {
        let load = self.load.filter(|load| *load > LOAD_MAX)?;
        let text = format!(
            "before it started, {load:.1} other threads wanted {}: what they take is in the times",
            counted(self.processors, "processor")
        );
        Some(Doubt { kind: "load", text })
    }

    fn crowd(&self) -> Option<Doubt> {
        self.crowd_of(self.setup.ranks, "rank", "processes")
    }

    /// Whether so many ranks or workers are more than there are processors; what they are called, and what changes between them.
    pub fn crowd_of(&self, number: u32, what: &str, among: &str) -> Option<Doubt> {
        (number as usize > self.processors).then(|| Doubt {
            kind: CROWD,
            text: format!(
                "{} share {}: times contain changes between {among}",
                counted(number as usize, what),
                counted(self.processors, "processor")
            ),
        })
    }

    fn binding(&self) -> Option<Doubt> {
        let moves = !self.setup.is_bound && self.processors > 1 && self.setup.ranks > 1;
        moves.then(|| Doubt {
            kind: "not-bound",
            text: "the ranks are not bound and may move between processors: --bind core keeps them".into(),
        })
    }

    /// The governor decides how fast a processor is; one that waits for load starts slow.
    fn frequency(&self) -> Option<Doubt> {
        let governor =
            fs::read_to_string(self.root.join("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
        let governor = governor.ok()?.trim().to_owned();
        let varies = matches!(governor.as_str(), "powersave" | "ondemand" | "conservative" | "schedutil");
        varies.then(|| Doubt {
            kind: "frequency",
            text: format!("the processors' frequency follows their load (governor {governor}): `cpupower frequency-set -g performance` fixes it"),
        })
    }

    fn steal(&self) -> Option<Doubt> {
        let (before, now) = (self.times?, times(&self.root)?);
        let (all, steal) = (now.all.saturating_sub(before.all), now.steal.saturating_sub(before.steal));
        let share = if all == 0 { 0.0 } else { steal as f64 / all as f64 };
        (share > STEAL_MAX).then(|| Doubt {
            kind: "steal",
            text: format!(
                "the hypervisor gave {:.1} % of the processors' time to other machines meanwhile",
                100.0 * share
            ),
        })
    }
}

/// Threads that want a processor, this one left out: the mean of the last minute, and no more than wants one now, since the mean
/// remembers what ended long ago.
fn load(root: &Path) -> Option<f64> {
    let text = fs::read_to_string(root.join("proc/loadavg")).ok()?;
    let mut fields = text.split_whitespace();
    let mean: f64 = fields.next()?.parse().ok()?;
    let running: f64 = fields.nth(2)?.split('/').next()?.parse().ok()?;
    Some(mean.min((running - 1.0).max(0.0)))
}

fn times(root: &Path) -> Option<Times> {
    let text = fs::read_to_string(root.join("proc/stat")).ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map(|tick| tick.parse().ok()).collect::<Option<_>>()?;
    // user nice system idle iowait irq softirq steal; guests are within user and nice.
    Some(Times { all: ticks.iter().take(8).sum(), steal: *ticks.get(7)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn put(&self, file: &str, text: &str) {
            let path = self.0.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }

        fn before(&self, ranks: u32, is_bound: bool) -> Conditions {
            Conditions::below(self.0.path(), Setup { ranks, is_bound }, 4)
        }
    }

    fn quiet() -> Machine {
        let machine = Machine(tempfile::tempdir().expect("a folder"));
        machine.put("proc/loadavg", "0.05 0.10 0.20 1/300 4711\n");
        machine.put("proc/stat", "cpu  100 0 50 800 0 0 0 10 0 0\ncpu0 1 2 3\n");
        machine.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
        machine
    }

    fn kinds(doubts: &[Doubt]) -> Vec<&str> {
        doubts.iter().map(|doubt| doubt.kind).collect()
    }

    #[test]
    fn a_quiet_machine_raises_no_doubt_and_neither_does_one_that_says_nothing() {
        assert!(quiet().before(4, true).after().is_empty());
        let silent = Machine(tempfile::tempdir().expect("a folder"));
        assert!(silent.before(4, true).after().is_empty());
    }

    #[test]
    fn everything_that_disturbs_is_named() {
        let machine = quiet();
        machine.put("proc/loadavg", "7.50 3.10 0.20 9/300 4711\n");
        machine.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n");
        let conditions = machine.before(5, false);
        machine.put("proc/stat", "cpu  140 0 60 840 0 0 0 20 0 0\n");
        let doubts = conditions.after();
        let all = ["load", "more-ranks-than-processors", "not-bound", "frequency", "steal"];
        assert_eq!(kinds(&doubts), all, "{doubts:?}");
        assert!(doubts[0].text.contains("7.5 other threads wanted 4 processors"), "{doubts:?}");
        assert!(doubts[4].text.contains("10.0 %"), "{doubts:?}");
    }

    #[test]
    fn load_that_is_over_is_no_load() {
        let machine = quiet();
        machine.put("proc/loadavg", "7.50 3.10 0.20 1/300 4711\n");
        assert!(machine.before(1, false).after().is_empty());
    }
}
