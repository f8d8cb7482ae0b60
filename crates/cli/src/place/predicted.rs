//! Slowdowns of jobs from profiles that were kept; where nothing is known, the rule of twins.

use crate::predict::{Pairs, Told};
use castell_policy::placement::queue::UNKNOWN;
use castell_policy::placement::{Jobs, Slowdowns};
use castell_prof::binary::Binary;
use castell_prof::kept::{Asked, By, Found, Store};
use std::path::Path;

/// Programs that are predicted, at most: the time grows with the square of their number.
const PROGRAMS_MAX: usize = 1_000;
/// What twins are taken to suffer if nothing is known: so much that they are together only where they have to be.
const TWINS: f64 = 1_000.0;
/// Of ways that are predicted to be alike, one without twins: predictions err. As little as costs are told apart by.
const TIE: f64 = 1e-6;

/// What profiles say about the programs of some jobs.
pub(super) struct Predicted {
    /// What the placement is chosen by.
    pub decides: Slowdowns,
    /// The same, but twins of which nothing is known suffer what others do of which nothing is known.
    pub expected: Slowdowns,
    /// By program: how it is known.
    pub knowledge: Vec<Option<Found>>,
    /// By (program, neighbour).
    told: Vec<Option<Told>>,
}

impl Predicted {
    /// # Errors
    /// There are no profiles, or nothing is known of the machine.
    pub fn of(jobs: &Jobs, folder: Option<&Path>) -> anyhow::Result<Predicted> {
        let programs = jobs.programs().len();
        anyhow::ensure!(
            programs <= PROGRAMS_MAX,
            "{programs} programs are more than the {PROGRAMS_MAX} that the rule predicted takes: give it a table, by `castell predict --table`"
        );
        let store = Store::of(folder)?;
        store.complaints.iter().for_each(|complaint| castell_host::say(&format!("left out: {complaint}")));
        let pairs = Pairs::of(&store)?;
        let names: Vec<String> = jobs.programs().iter().map(|program| program.name.clone()).collect();
        let knowledge: Vec<Option<Found>> = names.iter().map(|name| store.find(&asked(name))).collect();
        for found in knowledge.iter().flatten() {
            if let Some(complaint) = pairs.complaint(found.entry) {
                castell_host::say(&format!("{}: {complaint}", store.entries[found.entry].label()));
            }
        }
        let told = |one: usize, other: usize| {
            pairs.told(knowledge[one].as_ref()?.entry, knowledge[other].as_ref()?.entry)
        };
        let all = (0..programs).flat_map(|one| (0..programs).map(move |other| (one, other)));
        let told: Vec<Option<Told>> = all.map(|(one, other)| told(one, other)).collect();
        let known = |one: usize, other: usize| told[one * programs + other].map(|told| told.slowdown);
        let decides = Slowdowns::from_fn(names.clone(), |one, other| match known(one, other) {
            Some(factor) if one == other => factor + TIE,
            Some(factor) => factor,
            None if one == other => TWINS,
            None => 1.0 + UNKNOWN,
        });
        let expected = Slowdowns::from_fn(names, |one, other| known(one, other).unwrap_or(1.0 + UNKNOWN));
        Ok(Predicted { decides, expected, knowledge, told })
    }

    /// Whether what decides is what is expected.
    pub fn is_complete(&self) -> bool {
        self.told.iter().all(Option::is_some)
    }

    pub fn is_unknown(&self, one: usize, other: usize) -> bool {
        self.told[one * self.knowledge.len() + other].is_none()
    }

    /// Whether the prediction leaves much open.
    pub fn is_open(&self, one: usize, other: usize) -> bool {
        self.told[one * self.knowledge.len() + other].is_some_and(|told| told.is_open)
    }

    /// A line for each program: what is known of it.
    pub fn text(&self, jobs: &Jobs) -> String {
        let mut text = String::from("what is known\n");
        for (program, found) in jobs.programs().iter().zip(&self.knowledge).take(LINES_MAX) {
            let how = found.as_ref().map_or("nothing: it is kept from its twins", |found| &found.how);
            text += &format!("  {:<14} {how}\n", program.name);
        }
        if jobs.programs().len() > LINES_MAX {
            text += &format!("  and {} programs more; --json has all\n", jobs.programs().len() - LINES_MAX);
        }
        text
    }

    pub fn to_json(&self, jobs: &Jobs) -> serde_json::Value {
        let each = jobs.programs().iter().zip(&self.knowledge).map(|(program, found)| {
            serde_json::json!({
                "program": program.name,
                "by": found.as_ref().map(|found| by(found.by)),
                "how": found.as_ref().map(|found| &found.how),
            })
        });
        each.collect()
    }
}

/// Programs that are listed for people.
const LINES_MAX: usize = 60;

pub(super) fn by(by: By) -> &'static str {
    match by {
        By::Binary => "binary",
        By::Name => "name",
    }
}

/// `bt`, `bt:C`, or the file of a program with `/` in its name, also with an input behind a colon.
fn asked(name: &str) -> Asked {
    let (program, input) = match name.rsplit_once(':') {
        Some((program, input)) => (program, Some(input.to_owned())),
        None => (name, None),
    };
    let binary = Some(program).filter(|program| program.contains('/'));
    let binary = binary.and_then(|file| Binary::of_command(&[file.to_owned()]));
    let base = program.rsplit('/').next().unwrap_or(program);
    Asked {
        name: None,
        input,
        names: vec![base.to_owned()],
        is_visible: binary.as_ref().map(|_| true),
        hashes: binary.into_iter().map(|binary| binary.sha256).collect(),
    }
}
