//! What was learned so far, for whoever decides about sessions meanwhile.

use super::knowledge::Knowledge;
use castell_agent::Foresight;
use castell_interference::learn::{Basis, Learner, Told};
use castell_policy::session::Slowdown;
use castell_policy::session::protocol::Predicted;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Beside more sessions nothing is predicted.
const NEIGHBOURS_MAX: usize = 64;

/// The same for all who have a copy.
#[derive(Clone, Default)]
pub(crate) struct Outlook(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    learner: Learner,
    /// What sessions run, by their marks.
    programs: BTreeMap<String, String>,
    version: u64,
    /// Pairs that were asked about since something was learned.
    told: HashMap<(String, String), Option<Told>>,
}

impl Outlook {
    /// What is in a file, as far as it was learned on this machine. That it is of no use is said by whoever goes on with it.
    pub(crate) fn of_file(file: &Path, machine: &str) -> Outlook {
        let outlook = Outlook::default();
        if let Ok(Some((of, learner))) = Knowledge::look(file)
            && of == machine
        {
            outlook.learned(&learner);
        }
        outlook
    }

    /// Something was learned.
    pub(crate) fn learned(&self, learner: &Learner) {
        let mut learner = learner.clone();
        learner.fit_now();
        let mut known = self.known();
        known.learner = learner;
        known.told.clear();
        known.version += 1;
    }

    /// Sessions with these marks run these programs; those of which that is not known are not there.
    pub(crate) fn running(&self, programs: BTreeMap<String, String>) {
        let mut known = self.known();
        if known.programs != programs {
            known.programs = programs;
            known.version += 1;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Foresight for Outlook {
    fn version(&self) -> u64 {
        self.known().version
    }

    fn program(&self, mark: &str) -> Option<String> {
        self.known().programs.get(mark).cloned()
    }

    fn class(&self, program: &str) -> Option<String> {
        self.known().learner.class(program).map(|class| class.to_string())
    }

    fn slowdown(&self, program: &str, neighbour: &str) -> Option<Slowdown> {
        let told = self.known().told(program, neighbour)?;
        Some(Slowdown::of_factor(counted(&told)))
    }

    fn predict(&self, program: &str, neighbours: &[Option<&str>]) -> Option<Predicted> {
        if neighbours.is_empty() {
            return Some(alone());
        }
        if neighbours.len() > NEIGHBOURS_MAX {
            return None;
        }
        let mut known = self.known();
        let told: Vec<Told> =
            neighbours.iter().flatten().filter_map(|neighbour| known.told(program, neighbour)).collect();
        let unknown = neighbours.len() - told.len();
        let all = told.into_iter().reduce(Told::and)?;
        let because = match unknown {
            0 => all.to_string(),
            1 => format!("{all}; of one more beside it nothing is known"),
            some => format!("{all}; of {some} more beside it nothing is known"),
        };
        Some(Predicted {
            slowdown: Slowdown::of_factor(all.slowdown),
            low: Slowdown::of_factor(all.low),
            high: Slowdown::of_factor(all.high),
            comparisons: all.seen as u64,
            foretold: all.is_foretold(),
            cannot_tell: all.cannot_tell(),
            because,
        })
    }
}

impl Known {
    /// What is said of a pair; none where all that is known is what holds for any pair.
    fn told(&mut self, program: &str, neighbour: &str) -> Option<Told> {
        let pair = (program.to_owned(), neighbour.to_owned());
        let learner = &self.learner;
        let is_known = |told: &Told| told.seen > 0 || told.basis().is_some_and(|basis| basis < Basis::Median);
        let tell = || Some(learner.predict(program, neighbour)).filter(is_known);
        *self.told.entry(pair).or_insert_with(tell)
    }
}

/// What keeps somebody waiting: what is most likely, and the least that is possible where that cannot be told.
fn counted(told: &Told) -> f64 {
    match told {
        told if told.is_no_effect() => 1.0,
        told if told.cannot_tell() => told.low,
        told => told.slowdown,
    }
}

fn alone() -> Predicted {
    let (slowdown, low, high) = (Slowdown::NONE, Slowdown::NONE, Slowdown::NONE);
    let because = "nobody is beside it".to_owned();
    Predicted { slowdown, low, high, comparisons: 0, foretold: false, cannot_tell: false, because }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_interference::learn::Observation;

    fn compared(learner: &mut Learner, pair: (&str, &str), slowdown: f64, times: usize) {
        let (program, neighbour) = (pair.0.to_owned(), pair.1.to_owned());
        let seen = Observation { program, neighbour, instead_of: None, slowdown, others: 0 };
        (0..times).for_each(|_| _ = learner.learn(0, &seen).expect("a slowdown"));
    }

    #[test]
    fn only_what_is_known_of_a_pair_keeps_anybody_waiting() {
        let (outlook, mut learner) = (Outlook::default(), Learner::new());
        compared(&mut learner, ("stream", "stream"), 1.5, 8);
        compared(&mut learner, ("stream", "small"), 1.0, 8);
        let before = outlook.version();
        outlook.learned(&learner);
        assert_ne!(outlook.version(), before);
        let factor = |one: &str, other: &str| outlook.slowdown(one, other).map(Slowdown::factor);
        assert!(factor("stream", "stream").is_some_and(|factor| (1.4..1.6).contains(&factor)));
        assert_eq!(factor("stream", "small"), Some(1.0), "no measurable effect");
        assert_eq!((factor("new", "stream"), factor("stream", "new")), (None, None));
        let predict = |neighbours: &[Option<&str>]| outlook.predict("stream", neighbours);
        assert_eq!(predict(&[]), Some(alone()));
        assert_eq!(predict(&[None, Some("new")]), None);
        let among = predict(&[Some("stream"), Some("stream"), None]).expect("something is known");
        assert!(among.slowdown.factor() > 1.9 && among.comparisons == 8, "{among:?}");
        assert!(among.because.ends_with("; of one more beside it nothing is known"), "{among:?}");
    }

    #[test]
    fn the_least_counts_where_it_cannot_be_told() {
        let told = |slowdown, low, high| Told { slowdown, low, high, prior: None, seen: 3 };
        assert_eq!(counted(&told(1.9, 1.4, 2.6)), 1.4);
        assert_eq!(counted(&told(1.9, 1.8, 2.0)), 1.9);
        assert_eq!(counted(&told(1.05, 0.97, 1.12)), 1.0);
    }

    #[test]
    fn a_file_of_another_machine_tells_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("learned");
        let mut knowledge = Knowledge::open(&file, "here");
        for _ in 0..4 {
            let seen = Observation {
                program: "a".into(),
                neighbour: "b".into(),
                instead_of: None,
                slowdown: 2.0,
                others: 0,
            };
            knowledge.take(0, super::super::Step::Compared(seen));
        }
        knowledge.keep();
        let told = |machine| Outlook::of_file(&file, machine).slowdown("a", "b").is_some();
        assert_eq!((told("here"), told("there")), (true, false));
    }
}
