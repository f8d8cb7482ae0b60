//! A folder of profiles, as files.

use super::{KeptError, MACHINE};
use crate::binary::Binary;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where an administrator keeps them for all.
const SYSTEM: &str = "/var/lib/castell/profiles";
/// Files that are read, at most.
const PROFILES_MAX: usize = 20_000;
/// A folder of profiles.
pub struct Store {
    /// Where.
    pub folder: PathBuf,
    /// All that could be read, in the order of their files' names.
    pub entries: Vec<Entry>,
    /// What could not be read, in sentences.
    pub complaints: Vec<String>,
}

/// A profile that was kept.
pub struct Entry {
    /// Its file.
    pub path: PathBuf,
    /// The program's name.
    pub name: String,
    /// The input class, as the user says.
    pub input: Option<String>,
    /// The binary that was profiled.
    pub binary: Option<Binary>,
    /// Seconds since 1970.
    pub kept: u64,
    /// All of it.
    pub value: Value,
}

/// A program that a profile is looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// As the user names it.
    pub name: Option<String>,
    /// The input class, as the user says.
    pub input: Option<String>,
    /// Names that it may have if the user says none, the likeliest first.
    pub names: Vec<String>,
    /// Contents of the files that it may run.
    pub hashes: Vec<String>,
    /// Whether its file could be looked at, if one was looked for.
    pub is_visible: Option<bool>,
}

/// By what a profile was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// It is of the same file.
    Binary,
    /// It is of a program of that name.
    Name,
}

/// A profile that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its number in the store.
    pub entry: usize,
    /// By what.
    pub by: By,
    /// In words.
    pub how: String,
}

impl Entry {
    /// `bt:C`, or `bt` if no input was named.
    /// `bt:C`, or `bt` if no input was named.
    pub fn label(&self) -> String {
        label(&self.name, self.input.as_deref())
    }

    /// Writes it where it was.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self) -> Result<(), KeptError> {
        write(&self.path, &self.value)
    }

    fn of_file(path: &Path) -> Result<Entry, KeptError> {
        let value = super::files::read(path)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Entry {
            name: value["name"].as_str().map_or(stem, str::to_owned),
            input: value["input"].as_str().map(str::to_owned),
            binary: Binary::of_json(&value["binary"]),
            kept: value["kept_s"].as_u64().unwrap_or(0),
            path: path.to_owned(),
            value,
        })
    }
}

/// `bt:C`, or `bt` if no input was named.
pub fn label(name: &str, input: Option<&str>) -> String {
    input.map_or_else(|| name.to_owned(), |input| format!("{name}:{input}"))
}

impl Store {
    /// Where profiles are kept if nothing is said: the user's folder of data.
    ///
    /// # Errors
    /// Neither XDG_DATA_HOME nor HOME says where that is.
    pub fn users() -> Result<PathBuf, KeptError> {
        let folder =
            |name: &str| std::env::var_os(name).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let data = folder("XDG_DATA_HOME").filter(|folder| folder.is_absolute());
        let data = data.or_else(|| Some(folder("HOME")?.join(".local/share")));
        let nowhere = || {
            KeptError::Wrong(
                "no place for profiles: neither XDG_DATA_HOME nor HOME is set; give --profiles DIR".into(),
            )
        };
        Ok(data.ok_or_else(nowhere)?.join("castell/profiles"))
    }

    /// The folder that is read: the one that is named, else the user's if it is there, else that of the system if it is.
    pub fn usual(named: Option<&Path>) -> Option<PathBuf> {
        let users = || Store::users().ok().filter(|folder| folder.is_dir());
        let systems = || Some(PathBuf::from(SYSTEM)).filter(|folder| folder.is_dir());
        named.map(Path::to_owned).or_else(users).or_else(systems)
    }

    /// Reads a folder. Files that are no profiles are complained about and left out.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn read(folder: &Path) -> Result<Store, KeptError> {
        let doing = || format!("cannot read the profiles in {}", folder.display());
        let listed = std::fs::read_dir(folder).map_err(KeptError::system(doing()))?;
        let is_profile = |path: &PathBuf| {
            path.extension().is_some_and(|end| end == "json")
                && path.file_name().is_some_and(|name| name != MACHINE)
        };
        let mut paths: Vec<PathBuf> =
            listed.flatten().map(|entry| entry.path()).filter(is_profile).take(PROFILES_MAX).collect();
        paths.sort();
        let (mut entries, mut complaints) = (Vec::new(), Vec::new());
        for path in paths {
            match Entry::of_file(&path) {
                Ok(entry) => entries.push(entry),
                Err(error) => complaints.push(error.to_string()),
            }
        }
        Ok(Store { folder: folder.to_owned(), entries, complaints })
    }

    /// Reads the folder that is named or usual.
    ///
    /// # Errors
    /// There is none; says how to begin one.
    pub fn of(named: Option<&Path>) -> Result<Store, KeptError> {
        let Some(folder) = Store::usual(named) else {
            let users = Store::users();
            return Err(KeptError::Wrong(format!(
                "no profiles are kept yet, neither in {} nor in {SYSTEM}: `castell profile --keep -- ./program` keeps one",
                users.map_or_else(|_| "a folder of yours".to_owned(), |folder| folder.display().to_string())
            )));
        };
        Store::read(&folder)
    }

    /// Sizes of all binaries that were profiled.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> =
            self.entries.iter().filter_map(|entry| Some(entry.binary.as_ref()?.bytes)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The profile that tells most of a program: of its binary, else of its name; among those of the input that was named, and of those the
    /// last one.
    pub fn find(&self, asked: &Asked) -> Option<Found> {
        let is_of_binary =
            |entry: &Entry| entry.binary.as_ref().is_some_and(|binary| asked.hashes.contains(&binary.sha256));
        if let Some(entry) = self.best(asked, is_of_binary) {
            let how = format!("its binary was profiled{}", self.other_input(entry, asked));
            return Some(Found { entry, by: By::Binary, how });
        }
        let mut names: Vec<&str> = asked.name.as_deref().into_iter().collect();
        if names.is_empty() {
            names.extend(asked.names.iter().map(String::as_str));
        }
        let entry = names.iter().find_map(|name| self.best(asked, |entry| entry.name == *name))?;
        let binary = match (&self.entries[entry].binary, asked.is_visible) {
            (Some(_), Some(true)) => ", its binary is not the one that was profiled",
            (Some(_), Some(false)) => ", its binary cannot be seen from here",
            _ => "",
        };
        let how = format!("a profile of that name is kept{binary}{}", self.other_input(entry, asked));
        Some(Found { entry, by: By::Name, how })
    }

    fn best(&self, asked: &Asked, is_meant: impl Fn(&Entry) -> bool) -> Option<usize> {
        let candidates = self.entries.iter().enumerate().filter(|(_, entry)| is_meant(entry));
        let rank = |entry: &Entry| {
            (asked.name.as_ref() == Some(&entry.name), asked.input == entry.input, entry.kept)
        };
        candidates.max_by_key(|(at, entry)| (rank(entry), std::cmp::Reverse(*at))).map(|(at, _)| at)
    }

    fn other_input(&self, entry: usize, asked: &Asked) -> String {
        match (&self.entries[entry].input, &asked.input) {
            (kept, asked) if kept == asked => String::new(),
            (Some(kept), _) => format!(", with input {kept}"),
            (None, _) => ", with no input named".to_owned(),
        }
    }

    /// Keeps a profile in place of the last one of the same name, input and binary, and says where.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn keep(folder: &Path, value: &Value) -> Result<PathBuf, KeptError> {
        let doing = || format!("cannot make {}", folder.display());
        std::fs::create_dir_all(folder).map_err(KeptError::system(doing()))?;
        let plain = |text: &str| -> String {
            let is_plain = |letter: char| letter.is_alphanumeric() || "-_+.".contains(letter);
            text.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).take(80).collect()
        };
        let mut file = plain(value["name"].as_str().unwrap_or("program"));
        for (key, length) in [(value["input"].as_str(), 80), (value["binary"]["sha256"].as_str(), 12)] {
            let short = |key: &str| format!("@{}", plain(&key.chars().take(length).collect::<String>()));
            file += &key.map_or_else(String::new, short);
        }
        let path = folder.join(file + ".json");
        write(&path, value)?;
        Ok(path)
    }
}

/// Whole or not at all: others may be reading.
///
/// # Errors
/// The folder cannot be written.
pub fn write(path: &Path, value: &Value) -> Result<(), KeptError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        std::io::Write::write_all(&mut file, format!("{value:#}\n").as_bytes())?;
        std::fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.persist(path).map_err(|error| error.error)
    });
    written.map(drop).map_err(KeptError::system(format!("cannot write {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn store(folder: &Path) -> Store {
        for (name, input, hash, kept) in [
            ("bt", Some("B"), "1", 5),
            ("bt", Some("C"), "1", 4),
            ("bt", Some("C"), "2", 3),
            ("cg", None, "3", 2),
        ] {
            let binary = json!({"sha256": hash.repeat(64), "bytes": 10, "path": "/x"});
            let value = json!({"name": name, "input": input, "binary": binary, "kept_s": kept});
            Store::keep(folder, &value).expect("it is kept");
        }
        std::fs::write(folder.join("broken.json"), "{").expect("a file");
        std::fs::write(folder.join("simulated.json"), "{}").expect("a file");
        Store::read(folder).expect("a store")
    }

    fn found(store: &Store, asked: &Asked) -> Option<(String, u64, String)> {
        let found = store.find(asked)?;
        let entry = &store.entries[found.entry];
        Some((entry.label(), entry.kept, found.how))
    }

    #[test]
    fn a_profile_is_found_by_its_binary_and_else_by_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        assert_eq!((store.entries.len(), store.complaints.len()), (5, 1));
        let some = |text: &str| Some(text.to_owned());
        let binary = |hash: &str, input: Option<&str>| Asked {
            input: input.map(str::to_owned),
            hashes: vec![hash.repeat(64)],
            is_visible: Some(true),
            names: vec!["bt".to_owned()],
            name: None,
        };
        let is = |asked: Asked, label: &str, kept: u64, how: &str| {
            let (found, at, said) = found(&store, &asked).expect("a profile");
            assert_eq!((found.as_str(), at, said.as_str()), (label, kept, how));
        };
        is(binary("1", Some("C")), "bt:C", 4, "its binary was profiled");
        is(binary("1", Some("D")), "bt:B", 5, "its binary was profiled, with input B");
        is(binary("3", None), "cg", 2, "its binary was profiled");
        let of_name = "a profile of that name is kept, its binary";
        is(binary("9", Some("C")), "bt:C", 4, &format!("{of_name} is not the one that was profiled"));
        let unseen = Asked { hashes: Vec::new(), is_visible: Some(false), ..binary("9", Some("C")) };
        is(unseen, "bt:C", 4, &format!("{of_name} cannot be seen from here"));
        // A name that the user says counts for more than names that it may have.
        let named = Asked { name: some("simulated"), ..binary("9", None) };
        is(named, "simulated", 0, "a profile of that name is kept");
        let unknown = Asked { name: some("lu"), ..binary("9", None) };
        assert_eq!(store.find(&unknown), None);
        assert_eq!(store.sizes(), [10]);
    }

    #[test]
    fn a_profile_replaces_that_of_the_same_binary_and_input_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = store(folder.path()).entries.len();
        assert_eq!(store(folder.path()).entries.len(), first);
        let other = json!({"name": "../bt,x", "input": "a/b", "binary": null});
        let path = Store::keep(folder.path(), &other).expect("it is kept");
        assert_eq!(path.parent(), Some(folder.path()));
        assert_eq!(Store::read(folder.path()).expect("a store").entries.len(), first + 1);
    }
}
