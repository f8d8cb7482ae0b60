//! Slowdowns of pairs of profiles that were kept, one by one as they are asked for.

use castell_interference::sharing::{Fitted, forecast};
use castell_interference::{Host, Profile, Scn};
use castell_prof::kept::{self, Entry, Folder, MACHINE, Store};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

/// What is predicted of a program beside another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// The most likely factor.
    pub slowdown: f64,
    /// What is known leaves much open: `castell predict` would say that it can't tell.
    pub is_open: bool,
}

/// Predicts by distances and bandwidths, also where these leave much open: of placements, the most likely one is better than none
/// (`experiments/cosh-4`). Without distances by class, if pairs were measured that constants could come from.
pub struct Pairs {
    host: Host,
    /// By entry of the store; a sentence where it cannot be used.
    profiles: Vec<Result<Profile, String>>,
    fitted: Vec<OnceCell<Option<Fitted>>>,
    scn: Option<Scn>,
    known: RefCell<HashMap<(usize, usize), Option<Told>>>,
}

impl Pairs {
    /// Of what is kept.
    ///
    /// # Errors
    /// Nothing is known of the machine; says how to measure it.
    pub fn of(store: &Store) -> anyhow::Result<Pairs> {
        let path = store.folder.join(MACHINE);
        anyhow::ensure!(
            path.exists(),
            "there is no {}: without the machine's sizes and times nothing can be predicted. `castell profiles machine` measures them",
            path.display()
        );
        let host = kept::host(&store.folder)?;
        let read = |entry: &Entry| kept::profile_of(&entry.value, &entry.name, &host);
        let profiles: Vec<Result<Profile, String>> = store.entries.iter().map(read).collect();
        let fitted = profiles.iter().map(|_| OnceCell::new()).collect();
        Ok(Pairs { scn: scn(store, &host), host, profiles, fitted, known: RefCell::default() })
    }

    /// The first one beside the other; `None` if nobody can tell.
    pub fn told(&self, program: usize, neighbour: usize) -> Option<Told> {
        if let Some(known) = self.known.borrow().get(&(program, neighbour)) {
            return *known;
        }
        let [own, other] = [program, neighbour].map(|at| self.fitted(at));
        let shared = own.zip(other).map(|(own, other)| forecast(&self.host, &[own, other]));
        let mut known = self.known.borrow_mut();
        for (at, pair) in [(program, neighbour), (neighbour, program)].into_iter().enumerate() {
            let told = match &shared {
                Some(both) => Some(Told { slowdown: both[at].slowdown, is_open: both[at].cannot_tell() }),
                None => self.by_class(pair.0, pair.1).map(|slowdown| Told { slowdown, is_open: false }),
            };
            // Strange numbers in a profile may make strange ones here.
            let told = told.filter(|told| told.slowdown.is_finite());
            known.insert(
                pair,
                told.map(|told| Told { slowdown: told.slowdown.clamp(1.0, FACTOR_MAX), ..told }),
            );
        }
        known[&(program, neighbour)]
    }

    fn by_class(&self, program: usize, neighbour: usize) -> Option<f64> {
        let [own, other] = [program, neighbour].map(|at| self.profiles[at].as_ref().ok());
        self.scn.as_ref()?.predict(own?, other?).ok()
    }

    fn fitted(&self, at: usize) -> Option<&Fitted> {
        let fit = || Fitted::of(&self.host, self.profiles[at].as_ref().ok()?).ok();
        self.fitted[at].get_or_init(fit).as_ref()
    }

    /// Why a profile cannot be used, if so.
    pub fn complaint(&self, at: usize) -> Option<&str> {
        self.profiles[at].as_ref().err().map(String::as_str)
    }
}

/// More than this is a fault of the prediction.
const FACTOR_MAX: f64 = 1000.0;

fn scn(store: &Store, host: &Host) -> Option<Scn> {
    let known = Folder::read(&store.folder).ok().filter(|known| !known.pairs.is_empty())?;
    Scn::train(&known.profiles, &known.pairs, host.bytes_per_second_max).ok()
}
