//! Profiles of programs that somebody has kept, and what follows for pairs of them that were never seen together.

use super::told::{Basis, LIMIT, Prior};
use crate::sharing::{Fitted, forecast};
use crate::{Class, Host, Profile};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// No pair is predicted to cost more because of profiles.
const FACTOR_MAX: f64 = 20.0;

/// Profiles by what programs are known by: the hashes of their files.
#[derive(Debug, Default)]
pub struct Profiles {
    host: Option<Host>,
    programs: BTreeMap<String, Kept>,
    /// What follows for pairs that were asked about: it takes milliseconds.
    pairs: Mutex<HashMap<(String, String), Option<Prior>>>,
}

#[derive(Debug)]
struct Kept {
    profile: Profile,
    /// None where its distances are not known.
    fitted: Option<Fitted>,
}

impl Profiles {
    /// Profiles that were taken on such a machine.
    pub fn new(host: Host, profiles: impl IntoIterator<Item = (String, Profile)>) -> Profiles {
        let kept = |profile: Profile| Kept { fitted: Fitted::of(&host, &profile).ok(), profile };
        let programs = profiles.into_iter().map(|(program, profile)| (program, kept(profile))).collect();
        Profiles { host: Some(host), programs, pairs: Mutex::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.programs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// A program's class.
    pub fn class(&self, program: &str) -> Option<Class> {
        self.profile(program).map(|profile| profile.class)
    }

    pub(super) fn profile(&self, program: &str) -> Option<&Profile> {
        self.programs.get(program).map(|kept| &kept.profile)
    }

    /// What distances and bandwidths say of a program beside a neighbour.
    pub(super) fn foretold(&self, program: &str, neighbour: &str) -> Option<Prior> {
        let [own, other] = [program, neighbour].map(|id| self.programs.get(id)?.fitted.as_ref());
        let (own, other, host) = (own?, other?, self.host.as_ref()?);
        let pair = (program.to_owned(), neighbour.to_owned());
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        *pairs.entry(pair).or_insert_with(|| {
            let told = forecast(host, &[own, other]).swap_remove(0);
            // Strange numbers in a profile may make strange ones here.
            let is_sound =
                [told.slowdown, told.low, told.high].iter().all(|factor| factor.is_finite() && *factor > 0.0);
            is_sound.then(|| Prior {
                slowdown: told.slowdown.clamp(1.0, FACTOR_MAX),
                basis: Basis::Profiles,
                spread: (told.high / told.low).ln().max(0.0) / (2.0 * LIMIT),
            })
        })
    }
}
