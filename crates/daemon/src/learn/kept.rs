//! Profiles that somebody has kept (`castell profile --keep`), of the programs that run here.

use castell_host::say;
use castell_interference::Profile;
use castell_interference::learn::Profiles;
use castell_prof::kept::{self, Entry, MACHINE, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Profiles of these programs, known by the hashes of their files, in the folder that is named or usual; without one, and where the
/// machine was not measured, none. What is wrong in a folder, in sentences.
pub fn profiles_of<'a>(
    folder: Option<&Path>,
    programs: impl IntoIterator<Item = &'a str>,
) -> (Profiles, Vec<String>) {
    let Some(folder) = Store::usual(folder) else { return Default::default() };
    if !folder.join(MACHINE).exists() {
        return Default::default();
    }
    match kept::host(&folder).and_then(|host| Ok((host, Store::read(&folder)?))) {
        Err(error) => (Profiles::default(), vec![error.to_string()]),
        Ok((host, store)) => {
            let mut complaints = store.complaints;
            let mut newest: BTreeMap<&str, &Entry> = BTreeMap::new();
            for entry in &store.entries {
                let Some(binary) = &entry.binary else { continue };
                let known = newest.entry(&binary.sha256).or_insert(entry);
                if known.kept <= entry.kept {
                    *known = entry;
                }
            }
            let wanted = programs.into_iter().filter_map(|program| Some((program, *newest.get(program)?)));
            let mut profile = |(program, entry): (&str, &Entry)| -> Option<(String, Profile)> {
                match kept::profile_of(&entry.value, &entry.name, &host) {
                    Ok(profile) => Some((program.to_owned(), profile)),
                    Err(wrong) => {
                        complaints.push(format!("{}: {wrong}", entry.path.display()));
                        None
                    }
                }
            };
            let profiles: Vec<_> = wanted.filter_map(&mut profile).collect();
            (Profiles::new(host, profiles), complaints)
        }
    }
}

/// Looks for profiles whenever there is another program, or the folder has changed.
pub(super) struct Keeper {
    folder: Option<PathBuf>,
    programs: BTreeSet<String>,
    changed: Option<SystemTime>,
    said: BTreeSet<String>,
}

impl Keeper {
    /// In the folder that is named or usual.
    pub fn new(folder: Option<PathBuf>) -> Keeper {
        Keeper { folder, programs: BTreeSet::new(), changed: None, said: BTreeSet::new() }
    }

    /// Profiles of these programs, if there may be others than before.
    pub fn look<'a>(&mut self, programs: impl Iterator<Item = &'a str>) -> Option<Arc<Profiles>> {
        let programs: BTreeSet<String> = programs.map(str::to_owned).collect();
        let changed = Store::usual(self.folder.as_deref()).and_then(|folder| {
            // A file that is replaced is renamed, which changes the folder.
            std::fs::metadata(folder).and_then(|folder| folder.modified()).ok()
        });
        if programs == self.programs && changed == self.changed {
            return None;
        }
        (self.programs, self.changed) = (programs, changed);
        let (profiles, complaints) =
            profiles_of(self.folder.as_deref(), self.programs.iter().map(String::as_str));
        for complaint in complaints {
            if self.said.insert(complaint.clone()) {
                say(&format!("a profile is left out: {complaint}"));
            }
        }
        Some(Arc::new(profiles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn profiles_are_found_by_their_binaries_whenever_the_folder_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let hashes = ["a", "b", "c"].map(|letter| letter.repeat(64));
        let profile = |hash: &str, class: &str, kept: u64| {
            let binary = json!({"sha256": hash, "bytes": 1, "path": "/x"});
            let value =
                json!({"name": "x", "input": class, "binary": binary, "class": class, "kept_s": kept});
            Store::keep(folder.path(), &value).expect("it is kept");
        };
        let mut keeper = Keeper::new(Some(folder.path().to_owned()));
        let mut class = |hash: &str| {
            let profiles = keeper.look(hashes[..2].iter().map(String::as_str))?;
            Some(profiles.class(hash).map(|class| class.to_string()))
        };
        profile(&hashes[0], "S", 1);
        assert_eq!(class(&hashes[0]), Some(None), "nothing is known of the machine");
        let machine =
            json!({"llc_bytes": 1e6, "block_bytes": 64, "llc_ns": 10, "memory_ns": 100, "bytes_s_max": 1e10});
        kept::write(&folder.path().join(MACHINE), &machine).expect("it is kept");
        assert_eq!(class(&hashes[0]), Some(Some("S".into())));
        assert_eq!(class(&hashes[0]), None, "nothing has changed");
        profile(&hashes[0], "C", 3);
        profile(&hashes[0], "N", 2);
        profile(&hashes[2], "N", 2);
        assert_eq!(class(&hashes[0]), Some(Some("C".into())), "the one that was kept last");
        profile(&hashes[1], "Q", 2);
        assert_eq!(class(&hashes[1]), Some(None), "it is wrong");
        assert_eq!(class(&hashes[2]), None, "and nobody has asked for that one");
    }
}
