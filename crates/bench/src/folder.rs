//! Folders for what a benchmark compiles and writes: they go with this process, however it ends.

use anyhow::{Context as _, ensure};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

/// Makes the folder and names it; waits until nobody holds the other end of its input any more, as its parent does until it ends;
/// takes the folder away, several times where a compiler that is just ending still writes there. It makes the folder itself, so that
/// there is no moment in which nobody would see to that: its parent may have ended before it reads the name, too.
const CARETAKER: &str =
    "trap '' INT TERM HUP QUIT PIPE; folder=$(mktemp -d \"$0/castell-bench-XXXXXX\") || exit
echo \"$folder\" 2>/dev/null; cat >/dev/null
for attempt in 1 2 3 4 5; do rm -rf -- \"$folder\" 2>/dev/null && exit; sleep 1; done";

/// How such folders' names begin.
const PREFIX: &str = "castell-bench-";
/// Folders are older than this before they count as left behind: one that is just being made has no lock yet.
const MAKING: Duration = Duration::from_secs(60);

/// A folder that is removed on drop, or when this process ends otherwise; if its caretaker is killed with it, as in a lab that is killed,
/// by who makes the next one there.
pub struct Folder {
    path: PathBuf,
    caretaker: Child,
    /// Locked for as long as this process lives.
    _lock: File,
}

impl Folder {
    /// An empty one.
    pub fn create() -> anyhow::Result<Folder> {
        Folder::create_in(&std::env::temp_dir())
    }

    /// An empty one in another.
    pub fn create_in(parent: &Path) -> anyhow::Result<Folder> {
        let mut shell = Command::new("sh");
        shell.args(["-c", CARETAKER]).arg(parent).stdin(Stdio::piped()).stdout(Stdio::piped());
        // In a group of its own, which no key press reaches.
        let mut caretaker = shell.process_group(0).spawn().context("could not start sh")?;
        let mut path = String::new();
        BufReader::new(caretaker.stdout.take().context("it has an output")?).read_line(&mut path)?;
        let path = PathBuf::from(path.trim_end());
        ensure!(path.is_dir(), "no folder for a benchmark's programs in {}", parent.display());
        let lock = File::open(&path)?;
        lock.try_lock()?;
        remove_left_behind(parent);
        Ok(Folder { path, caretaker, _lock: lock })
    }

    /// The program at that path, or of that name, to be run there, with its temporary files there, and to end with this process.
    pub fn command(&self, program: &Path) -> Command {
        // A mere name is looked up where all programs are.
        let is_path = program.components().count() > 1;
        let absolute = is_path.then(|| std::path::absolute(program).ok()).flatten();
        let mut command = Command::new(absolute.as_deref().unwrap_or(program));
        command.current_dir(&self.path).env("TMPDIR", &self.path).stdin(Stdio::null());
        castell_host::process::ends_with_this(&mut command);
        command
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the folders that nobody holds any more.
fn remove_left_behind(parent: &Path) {
    for entry in parent.read_dir().into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(folder) = File::open(entry.path()) else { continue };
        let made = folder.metadata().and_then(|of| of.modified()).unwrap_or_else(|_| SystemTime::now());
        let is_old = made.elapsed().is_ok_and(|age| age > MAKING);
        if is_old && folder.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.caretaker.stdin.take());
        let _ = self.caretaker.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_paths_are_where_they_were() {
        let folder = Folder::create().expect("a folder");
        for program in ["true", "./src/../../../target/../README.md"] {
            let command = folder.command(Path::new(program));
            let is_name = Path::new(command.get_program()) == Path::new(program);
            assert_eq!(is_name, !program.contains('/'), "{command:?}");
        }
        assert!(folder.command(Path::new("true")).status().expect("it starts").success());
    }

    #[test]
    fn what_was_left_behind_goes_with_the_next_one() {
        let parent = tempfile::tempdir().expect("a folder");
        let [dead, held, young, other] =
            ["castell-bench-dead", "castell-bench-held", "castell-bench-young", "other"]
                .map(|name| parent.path().join(name));
        for folder in [&dead, &held, &young, &other] {
            std::fs::create_dir(folder).expect("a folder");
            std::fs::write(folder.join("program.c"), "").expect("a file");
        }
        for folder in [&dead, &held, &other] {
            let long_ago = SystemTime::now() - 2 * MAKING;
            File::open(folder).and_then(|folder| folder.set_modified(long_ago)).expect("a time");
        }
        let holder = File::open(&held).expect("a folder");
        holder.try_lock().expect("nobody else has it");
        drop(Folder::create_in(parent.path()).expect("a folder"));
        assert_eq!([dead, held, young, other].map(|folder| folder.exists()), [false, true, true, true]);
    }

    #[test]
    fn it_goes_in_the_end() {
        let folder = Folder::create().expect("a folder");
        let path = folder.path().to_owned();
        std::fs::write(path.join("program.c"), "").expect("a file");
        drop(folder);
        assert!(!path.exists());
    }
}
