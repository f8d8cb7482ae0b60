//! The file of a program, by its content.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Larger files are known by name only.
const BYTES_MAX: u64 = 1 << 30;
/// Contents that are remembered, at most.
const REMEMBERED_MAX: usize = 4096;
/// Programs that run others: what they are given is the program then.
const RUNNERS: [&str; 22] = [
    "bash", "dash", "env", "java", "julia", "ksh", "lua", "mpiexec", "mpirun", "nice", "node", "numactl",
    "octave", "perl", "python", "Rscript", "ruby", "sh", "srun", "taskset", "time", "zsh",
];
/// Endings of programs that need not be executable.
const SCRIPTS: [&str; 9] = ["jar", "jl", "js", "lua", "pl", "py", "R", "rb", "sh"];

/// A file as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Where it was found.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// In hexadecimal digits.
    pub sha256: String,
}

impl Binary {
    /// The program that a command runs: `python3 heat.py` runs `heat.py`, `mpirun -n 4 ./bt` runs `bt`. `None` if no word of it is a
    /// file that can be read.
    pub fn of_command(words: &[String]) -> Option<Binary> {
        let first = in_path(words.first()?)?;
        let is_runner = RUNNERS.contains(&stem(&first));
        let given = words[1..].iter().filter(|word| !word.starts_with('-'));
        let mut given = given.filter_map(|word| in_path(word)).filter(|path| is_program(path));
        let path = if is_runner {
            given.find(|path| !RUNNERS.contains(&stem(path))).unwrap_or(first)
        } else {
            first
        };
        Binary::of_file(&path)
    }

    /// The file of the program that a process runs: of an interpreter or a launcher, the first program that it was given. The name is that of
    /// the program also where the file is only to be had through `/proc`, since it was removed.
    pub fn of_process(pid: i32) -> Option<Running> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let (exe, target) = (proc.join("exe"), std::fs::read_link(proc.join("exe")).ok()?);
        let named = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if RUNNERS.contains(&stem(&target)) {
            let words = std::fs::read(proc.join("cmdline")).unwrap_or_default();
            let words = words.split(|byte| *byte == 0).skip(1).filter(|word| !word.starts_with(b"-"));
            let folder = std::fs::read_link(proc.join("cwd")).unwrap_or_default();
            let paths =
                words.filter(|word| !word.is_empty()).map(|word| folder.join(OsStr::from_bytes(word)));
            let given = paths.filter(|path| is_program(path)).find(|path| !RUNNERS.contains(&stem(path)));
            if let Some(path) = given {
                return Some(Running { name: named(&path), path, is_runner: false });
            }
        }
        let name = named(&target);
        let name = name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned();
        Some(Running { path: exe, name, is_runner: RUNNERS.contains(&stem(&target)) })
    }

    /// The file itself; `None` if it cannot be read.
    pub fn of_file(path: &Path) -> Option<Binary> {
        let metadata = std::fs::metadata(path).ok()?;
        let path = path.canonicalize().ok()?;
        Some(Binary { bytes: metadata.len(), sha256: hash(&path, &metadata)?, path })
    }

    /// As it stands in a profile.
    pub fn to_json(&self) -> Value {
        json!({"sha256": self.sha256, "bytes": self.bytes, "path": self.path.display().to_string()})
    }

    /// As it stood in a profile.
    pub fn of_json(value: &Value) -> Option<Binary> {
        let sha256 = value["sha256"].as_str().filter(|digits| digits.len() == 64 && digits.is_ascii())?;
        let path = value["path"].as_str().unwrap_or_default();
        Some(Binary { path: PathBuf::from(path), bytes: value["bytes"].as_u64()?, sha256: sha256.to_owned() })
    }
}

/// The program that a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Where it can be read.
    pub path: PathBuf,
    /// Its file's name.
    pub name: String,
    /// It is a shell or the like, and was given no program.
    pub is_runner: bool,
}

/// The file's name up to digits and dots at its end: `python3.12` is `python`.
fn stem(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.')
}

/// A file as a shell finds it.
fn in_path(word: &str) -> Option<PathBuf> {
    if word.contains('/') || SCRIPTS.iter().any(|end| word.ends_with(&format!(".{end}"))) {
        return Some(PathBuf::from(word)).filter(|path| path.is_file());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(word)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let ends = path.extension().and_then(|end| end.to_str()).is_some_and(|end| SCRIPTS.contains(&end));
    std::fs::metadata(path).is_ok_and(|of| of.is_file() && (ends || of.permissions().mode() & 0o111 != 0))
}

/// `None` where there is nothing to read: no regular file, too large, or not for us.
fn hash(path: &Path, metadata: &Metadata) -> Option<String> {
    if !metadata.is_file() || metadata.len() > BYTES_MAX {
        return None;
    }
    // Should it be replaced by a pipe in this moment, opening it does not wait for anybody.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    let (mut hasher, mut block) = (Sha256::new(), vec![0; 1 << 16]);
    let mut file = file.take(BYTES_MAX);
    loop {
        match file.read(&mut block).ok()? {
            0 => return Some(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            read => hasher.update(&block[..read]),
        }
    }
}

/// Hashes that are known already, by device, inode, size and times of last change; kept in a file where there is one.
#[derive(Default)]
pub struct Remembered {
    file: Option<PathBuf>,
    known: HashMap<String, String>,
    has_changed: bool,
}

impl Remembered {
    /// As they were kept. A file that is none is begun anew.
    pub fn of_file(file: PathBuf) -> Remembered {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let known = serde_json::from_str(&text).unwrap_or_default();
        Remembered { file: Some(file), known, has_changed: false }
    }

    /// The hash of a regular file whose size is one of `sizes`, which are those of all profiles: no other can be of any use.
    pub fn hash(&mut self, path: &Path, sizes: &[u64]) -> Option<String> {
        std::fs::metadata(path).ok().filter(|of| of.is_file() && sizes.contains(&of.len()))?;
        self.hash_of(path)
    }

    /// The hash of a regular file.
    pub fn hash_of(&mut self, path: &Path) -> Option<String> {
        let of = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
        let times = [of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec()];
        let key = format!("{}:{}:{}:{times:?}", of.dev(), of.ino(), of.len());
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let hash = hash(path, &of)?;
        if self.known.len() >= REMEMBERED_MAX {
            self.known.clear();
        }
        self.known.insert(key, hash.clone());
        self.has_changed = true;
        Some(hash)
    }

    /// Keeps what is new. Not being able to costs time only.
    pub fn keep(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| self.has_changed) else { return };
        let new = file.with_extension("new");
        if let Ok(text) = serde_json::to_string(&self.known)
            && std::fs::write(&new, text).is_ok()
        {
            let _ = std::fs::rename(&new, file);
        }
        self.has_changed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, name: &str, text: &str) -> String {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
        path.display().to_string()
    }

    #[test]
    fn the_program_is_what_interpreters_and_launchers_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let bt = program(folder.path(), "bt", "bt");
        let script = program(folder.path(), "heat.py", "heat");
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Binary::of_command(&words).map(|of| of.path.file_name().expect("a name").to_os_string())
        };
        assert_eq!(of(&[&bt, &script]), Some("bt".into()));
        assert_eq!(of(&["env", "sh", "-e", &script, "10"]), Some("heat.py".into()));
        assert_eq!(of(&["nice", "-n", "5", &bt]), Some("bt".into()));
        assert_eq!(of(&["/nowhere/bt"]), None);
        assert_eq!(of(&["/dev/zero"]), None);
    }

    #[test]
    fn the_program_of_a_process_is_what_its_interpreter_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        program(folder.path(), "waits.sh", "read line\n");
        let start = |words: &[&str]| {
            let mut command = std::process::Command::new(words[0]);
            command.args(&words[1..]).current_dir(folder.path()).stdin(std::process::Stdio::piped());
            command.spawn().expect("it starts")
        };
        for (words, wanted) in [
            (&["sh", "-e", "waits.sh"][..], ("waits.sh", false)),
            (&["cat"], ("cat", false)),
            (&["sh"], ("sh", true)),
        ] {
            let mut child = start(words);
            let running = loop {
                // Until it is itself.
                let running = Binary::of_process(child.id() as i32).expect("it runs");
                if running.name == wanted.0 || running.is_runner == wanted.1 && wanted.0 == "sh" {
                    break running;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            };
            assert_eq!(running.is_runner, wanted.1);
            let hash = Remembered::default().hash_of(&running.path);
            assert!(hash.is_some() && hash == Remembered::default().hash_of(&running.path));
            child.kill().expect("it ends");
            child.wait().expect("it ends");
        }
        assert_eq!(Binary::of_process(i32::MAX), None);
    }

    #[test]
    fn a_hash_is_that_of_the_content_and_is_remembered_until_the_file_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = PathBuf::from(program(folder.path(), "abc", "abc"));
        let file = folder.path().join("known.json");
        let mut remembered = Remembered::of_file(file.clone());
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // FIPS 180-2, B.1
        assert_eq!(remembered.hash(&path, &[3]).as_deref(), Some(abc));
        assert_eq!(remembered.hash(&path, &[4]), None);
        remembered.keep();
        let mut again = Remembered::of_file(file);
        assert_eq!(again.known.len(), 1);
        again.known.values_mut().for_each(|hash| *hash = "remembered".to_owned());
        assert_eq!(again.hash(&path, &[3]).as_deref(), Some("remembered"));
        program(folder.path(), "new", "abd");
        std::fs::rename(folder.path().join("new"), &path).expect("a file in its place");
        assert_ne!(again.hash(&path, &[3]).as_deref(), Some("remembered"));
    }
}
