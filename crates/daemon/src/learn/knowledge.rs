//! What was learned, in a file that several may change: whoever keeps it takes in first what others have changed, and makes his own steps
//! again on top of that.

use castell_agent::Store;
use castell_host::say;
use castell_interference::Readings;
use castell_interference::learn::{Learner, Met, Observation, Profiles};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// Another form gets another number.
const TITLE: &str = "castell learned 1";
/// Steps that are made again, at most.
const STEPS_MAX: usize = 10_000;

/// Something that was seen.
#[derive(Clone, Debug)]
pub enum Step {
    /// A program, by its hash, and its name.
    Seen(String, String),
    /// What flows in a program: for how many seconds that was counted, on how many cores, and whether it was alone.
    Read {
        /// The program.
        program: String,
        /// What flows.
        readings: Readings,
        /// On how many cores.
        cores: usize,
        /// For how long.
        seconds: f64,
        /// Whether nobody was beside it.
        is_alone: bool,
    },
    /// Paces around a change.
    Compared(Observation),
    /// A program has met a probe.
    Met(String, Met),
    /// Two probes have met, and one was slower by this factor.
    ProbesMet(f64),
    /// A program is to be forgotten.
    Forget(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    machine: String,
    learner: Learner,
}

/// What was learned, and its file.
pub struct Knowledge {
    store: Store,
    lock: std::path::PathBuf,
    machine: String,
    learner: Learner,
    profiles: Arc<Profiles>,
    /// Not written yet.
    steps: Vec<(u64, Step)>,
}

impl Knowledge {
    /// What is in a file, if anything is. What is of no use is set aside; what was learned on a machine of another kind is begun anew.
    pub fn open(file: &Path, machine: &str) -> Knowledge {
        let store = Store::new(file.to_owned(), TITLE, "what was learned about programs");
        let (machine, lock) = (machine.to_owned(), file.with_extension("lock"));
        let (learner, profiles) = (Learner::new(), Arc::default());
        let mut knowledge = Knowledge { store, lock, machine, learner, profiles, steps: Vec::new() };
        knowledge.read();
        knowledge
    }

    /// What is in a file, for whoever looks only: the machine, and what was learned there; none if there is no such file.
    ///
    /// # Errors
    /// It is of no use; a sentence.
    pub fn look(file: &Path) -> Result<Option<(String, Learner)>, String> {
        let store = Store::new(file.to_owned(), TITLE, "what was learned about programs");
        let written: Option<Written> = store.peek()?;
        Ok(written.map(|written| (written.machine, written.learner)))
    }

    /// What is known now.
    pub fn learner(&self) -> &Learner {
        &self.learner
    }

    /// These profiles are kept, in the place of those before; they are not learned.
    pub fn know(&mut self, profiles: Arc<Profiles>) {
        self.learner.know(profiles.clone());
        self.profiles = profiles;
    }

    /// Learns a step, at a time in seconds since 1970.
    pub fn take(&mut self, now_s: u64, step: Step) {
        step.make(now_s, &mut self.learner);
        self.steps.push((now_s, step));
        if self.steps.len() > STEPS_MAX {
            self.steps.remove(0);
        }
    }

    /// Writes what is new, beside what others have written meanwhile.
    pub fn keep(&mut self) {
        if self.steps.is_empty() {
            return;
        }
        let folder = self.lock.parent().unwrap_or(Path::new("."));
        // What cannot be locked cannot be written either, which is told then.
        let _ = fs::create_dir_all(folder);
        let lock = File::create(&self.lock).ok();
        let _locked = lock.as_ref().map(|lock| rustix::fs::flock(lock, FlockOperation::LockExclusive));
        if !self.store.is_as_written() {
            self.read();
            for (now_s, step) in &self.steps {
                step.make(*now_s, &mut self.learner);
            }
        }
        let written = Written { machine: self.machine.clone(), learner: self.learner.clone() };
        if self.store.write(Some(&written)) {
            self.steps.clear();
        }
    }

    fn read(&mut self) {
        let written: Option<Written> = self.store.read().unwrap_or_else(|reason| {
            say(&reason);
            None
        });
        let is_other = written.as_ref().is_some_and(|written| written.machine != self.machine);
        if is_other {
            say(&self.store.set_aside("it was learned on a machine of another kind"));
        }
        self.learner = written.filter(|_| !is_other).map_or_else(Learner::new, |written| written.learner);
        self.learner.know(self.profiles.clone());
    }
}

impl Step {
    fn make(&self, now_s: u64, learner: &mut Learner) {
        match self {
            Step::Seen(program, name) => learner.see(now_s, program, name),
            Step::Read { program, readings, cores, seconds, is_alone } => {
                learner.read(now_s, program, readings, *cores, *seconds, *is_alone);
            }
            // What is no slowdown tells nothing.
            Step::Compared(seen) => drop(learner.learn(now_s, seen)),
            Step::Met(program, met) => learner.meet(now_s, program, met),
            Step::ProbesMet(slowdown) => learner.probes_meet(*slowdown),
            Step::Forget(program) => _ = learner.forget(program),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(program: &str, slowdown: f64) -> Step {
        let (program, neighbour) = (program.to_owned(), "other".to_owned());
        Step::Compared(Observation { program, neighbour, instead_of: None, slowdown, others: 0 })
    }

    #[test]
    fn two_who_keep_the_same_file_lose_nothing_of_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("deep/learned");
        let (mut one, mut other) = (Knowledge::open(&file, "m"), Knowledge::open(&file, "m"));
        for round in 0..3 {
            one.take(round, compared("a", 2.0));
            one.keep();
            other.take(round, compared("b", 3.0));
            other.take(round, Step::Seen("b".into(), "bee".into()));
            other.keep();
        }
        let (machine, learner) = Knowledge::look(&file).expect("whole").expect("there");
        assert_eq!((machine.as_str(), learner.observed()), ("m", 6));
        assert_eq!(learner.programs()["b"].name, "bee");
        one.take(9, Step::Forget("b".into()));
        one.keep();
        other.take(9, compared("a", 2.0));
        other.keep();
        let learner = Knowledge::open(&file, "m").learner().clone();
        assert!(
            !learner.programs().contains_key("b") && learner.programs()["a"].beside("other").count() == 4
        );
    }

    #[test]
    fn what_is_of_no_use_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("learned");
        let begin = |machine: &str| {
            let mut knowledge = Knowledge::open(&file, machine);
            let known = knowledge.learner().observed();
            knowledge.take(0, compared("a", 2.0));
            knowledge.keep();
            known
        };
        assert_eq!([begin("m"), begin("m"), begin("another"), begin("another")], [0, 1, 0, 1]);
        fs::write(&file, "castell learned 1 00000000\n{}").expect("a file");
        assert!(Knowledge::look(&file).is_err() && file.exists(), "who looks only moves nothing");
        assert_eq!(begin("another"), 0);
        assert_eq!(Knowledge::look(&folder.path().join("none")).expect("fine").map(|known| known.0), None);
    }
}
