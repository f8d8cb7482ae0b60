//! Which program a job of Slurm's runs, and what is kept of it.
//!
//! The plug-in writes the words of a job's script into its mark, since only at submission is the script at hand; here they are looked for
//! as files, later and outside of Slurm's controller. Only files as large as one that was profiled are read.

use super::cluster::{Cluster, Job};
use crate::predict::Pairs;
use castell_prof::binary::Remembered;
use castell_prof::kept::{Asked, By, Found, Store, label};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Folders of programs that everybody has: that two jobs run the same one of these says little.
const OF_ALL: [&str; 6] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/slurm/bin"];

/// Profiles, and what they say about pairs.
pub struct Library {
    store: Store,
    sizes: Vec<u64>,
    pub pairs: Pairs,
}

/// What a job runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// What tells twins: the profile's name, else what the user says, else the file, else the job's name.
    pub name: String,
    /// The profile, where one was found.
    pub found: Option<Found>,
}

impl Library {
    /// What is kept in the folder that is named or usual; `None`, with a sentence, if there is nothing to go by. That is no error: twins are
    /// kept apart then.
    pub fn read(folder: Option<&Path>) -> Result<Library, Option<String>> {
        let folder = Store::usual(folder).ok_or(None)?;
        let of = || -> anyhow::Result<Library> {
            let store = Store::read(&folder)?;
            Ok(Library { pairs: Pairs::of(&store)?, sizes: store.sizes(), store })
        };
        of().map_err(|error| Some(format!("{error:#}")))
    }

    pub fn complaints(&self) -> impl Iterator<Item = &String> {
        self.store.complaints.iter()
    }
}

/// Finds out for all jobs.
pub fn identify(cluster: &Cluster, library: Option<&Library>, remembered: &mut Remembered) -> Vec<Program> {
    cluster.jobs.iter().map(|job| program(job, library, remembered)).collect()
}

fn program(job: &Job, library: Option<&Library>, remembered: &mut Remembered) -> Program {
    let files = || job.words.iter().map(|word| in_folder(word, &job.folder));
    let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let found = library.and_then(|library| {
        let mut names: Vec<String> = job.words.iter().map(|word| base(word)).collect();
        names.push(job.name.clone());
        let hashes = files().filter_map(|path| remembered.hash(&path?, &library.sizes)).collect();
        let named = job.named.as_ref().map(|(name, input)| (Some(name.clone()), input.clone()));
        let (name, input) = named.unwrap_or_default();
        let mut asked = Asked { name, input, names, hashes, is_visible: None };
        let found = library.store.find(&asked)?;
        if found.by == By::Binary {
            return Some(found);
        }
        // Whether the file of the profile's name is there: then it is another one.
        let wanted = &library.store.entries[found.entry].name;
        let is_meant = |word: &&String| job.words.len() == 1 || base(word) == *wanted;
        let meant = job.words.iter().filter(is_meant).filter_map(|word| in_folder(word, &job.folder));
        asked.is_visible = Some(meant.into_iter().any(|path| path.is_file()));
        library.store.find(&asked)
    });
    let of_profile = || Some(library?.store.entries[found.as_ref()?.entry].label());
    let of_user = || {
        let (name, input) = job.named.as_ref()?;
        Some(label(name, input.as_deref()))
    };
    let of_file =
        || files().flatten().find(|path| is_of_its_own(path)).map(|path| base(&path.to_string_lossy()));
    let name = of_profile().or_else(of_user).or_else(of_file).unwrap_or_else(|| job.name.clone());
    Program { name, found }
}

/// A word of a script as a file: from the job's folder on, or where everybody's programs are.
fn in_folder(word: &str, folder: &Path) -> Option<PathBuf> {
    // A variable that the plug-in did not know.
    if word.contains('$') {
        return None;
    }
    match word.contains('/') {
        true => Some(folder.join(word)),
        false => OF_ALL.iter().map(|of_all| Path::new(of_all).join(word)).find(|path| path.is_file()),
    }
}

fn is_of_its_own(path: &Path) -> bool {
    let is_for_all =
        path.parent().is_some_and(|folder| OF_ALL.iter().any(|of_all| folder == Path::new(of_all)));
    !is_for_all
        && std::fs::metadata(path).is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_files_from_the_folder_on_or_of_everybody() {
        let folder = Path::new("/jobs/a");
        let of = |word: &str| in_folder(word, folder).map(|path| path.display().to_string());
        assert_eq!(of("./bt"), Some("/jobs/a/./bt".to_owned()));
        assert_eq!(of("/opt/bt"), Some("/opt/bt".to_owned()));
        assert_eq!(of("$WHERE/bt"), None, "nobody knows where");
        assert_eq!(of("is-nowhere-to-be-found"), None);
        assert!(of("ls").is_some_and(|path| path.ends_with("bin/ls")));
    }

    #[test]
    fn twins_are_told_by_what_they_run_and_not_by_what_they_are_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("bt");
        std::fs::write(&file, "").expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a program");
        let job = |words: &[&str], comment: Option<&str>| Job {
            name: "job".to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            folder: folder.path().to_owned(),
            named: comment.map(|name| (name.to_owned(), Some("C".to_owned()))),
            ..Job::default()
        };
        let name = |job: Job| program(&job, None, &mut Remembered::default()).name;
        assert_eq!(name(job(&["ls", "./bt", "input"], None)), "bt");
        assert_eq!(name(job(&["ls", "./bt"], Some("ft"))), "ft:C");
        assert_eq!(name(job(&["ls", "./cg"], None)), "job", "nobody can see cg, and everybody has ls");
        assert_eq!(name(job(&[], None)), "job");
    }
}
