//! Where tuning files lie, which machine this is, and what is chosen on it.
//!
//! A file that is wrong or of another machine is never half used: [`Tuning::reason`] says why it was refused, and the
//! built-in defaults are what is chosen.

pub(crate) mod announced;

use castell_collectives::decision::{Decisions, Machine, TuningFile};
use castell_host::topology;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Names a tuning file, or `off` for none; without it [`path`] is looked at.
pub const VARIABLE: &str = "CASTELL_TUNING";

/// What messages go over, as tuning files call it.
pub const TRANSPORT: &str = "shared-memory";

/// What is chosen on this machine, and where that comes from.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// What to choose when.
    pub decisions: Decisions,
    /// The file that was read, if there is one.
    pub file: Option<PathBuf>,
    /// Why the file was refused, where it was.
    pub reason: Option<String>,
}

impl Tuning {
    /// Reads this machine's tuning file, or the one that [`VARIABLE`] names. That there is none is nothing to talk about,
    /// unless it was named.
    pub fn load() -> Tuning {
        Found::load().tuning()
    }
}

/// What lies where a tuning file is looked for.
pub(crate) enum Found {
    Nothing,
    /// A file, its text, and what is chosen by it.
    File(PathBuf, String, Decisions),
    /// A file and why it is not used.
    Refused(PathBuf, String),
}

impl Found {
    pub(crate) fn load() -> Found {
        match std::env::var_os(VARIABLE) {
            Some(word) if word == "off" || word.is_empty() => Found::Nothing,
            Some(named) => Found::read(Path::new(&named), true),
            None => own_path().map_or(Found::Nothing, |path| Found::read(&path, false)),
        }
    }

    fn read(path: &Path, must_be: bool) -> Found {
        let refuse = |reason: String| {
            Found::Refused(path.to_owned(), format!("{} is not used: {reason}", path.display()))
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && !must_be => return Found::Nothing,
            Err(error) => return refuse(error.to_string()),
        };
        let file = match TuningFile::parse(&text) {
            Ok(file) => file,
            Err(error) => return refuse(error.to_string()),
        };
        match file.decisions_on(&here()) {
            Ok(decisions) => Found::File(path.to_owned(), text, decisions),
            Err(error) => refuse(error.to_string()),
        }
    }

    fn tuning(self) -> Tuning {
        match self {
            Found::Nothing => Tuning::default(),
            Found::File(path, _, decisions) => Tuning { decisions, file: Some(path), reason: None },
            Found::Refused(path, reason) => {
                Tuning { file: Some(path), reason: Some(reason), ..Tuning::default() }
            }
        }
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// This machine, as tuning files know it.
pub fn here() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let online = topology::parse_list(read("/sys/devices/system/cpu/online").trim());
    Machine {
        host: host(),
        processor: processor(&cpus).to_owned(),
        processors: online.map_or(1, |cpus| cpus.len() as u32),
        transport: TRANSPORT.to_owned(),
    }
}

/// The host's name.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The processors' model; its family where it has no name.
fn processor(cpuinfo: &str) -> &str {
    let value = |key: &str| {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.into_iter().find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    value("model name").or_else(|| value("CPU part")).unwrap_or(std::env::consts::ARCH)
}

/// Where the tuning file of a host lies: in `castell/tuning` below `$XDG_CONFIG_HOME`, or below `~/.config`; named after the
/// host and the transport. `None` where neither variable is set.
pub fn path(host: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The XDG specification has relative paths count as unset.
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = config.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")))?;
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    let host: String = host.chars().map(plain).collect();
    Some(folder.join("castell/tuning").join(format!("{host}.{TRANSPORT}.toml")))
}

/// Where this machine's tuning file lies.
pub fn own_path() -> Option<PathBuf> {
    path(&host(), variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_lies_where_configuration_does() {
        let with = |set: &[(&str, &str)]| {
            let set: Vec<(String, OsString)> = set.iter().map(|&(k, v)| (k.into(), v.into())).collect();
            path("a/b.c", move |name| set.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()))
        };
        let name = "castell/tuning/a-b-c.shared-memory.toml";
        assert_eq!(with(&[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")]), Some(Path::new("/x").join(name)));
        assert_eq!(
            with(&[("XDG_CONFIG_HOME", "x"), ("HOME", "/h")]),
            Some(Path::new("/h/.config").join(name))
        );
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn processors_have_names() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: Fast: 3\n"), "Fast: 3");
        assert_eq!(processor("CPU part\t: 0xd0c\n"), "0xd0c");
        assert_eq!(processor(""), std::env::consts::ARCH);
        assert!(here().processors > 0);
    }

    #[test]
    fn wrong_and_foreign_files_are_refused_and_absent_ones_only_if_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tuning.toml");
        assert_eq!(Found::read(&file, false).tuning().reason, None);
        assert!(Found::read(&file, true).tuning().reason.is_some());
        let write = |text: &str| std::fs::write(&file, text).expect("a file");
        write("format = 7");
        let reason = Found::read(&file, false).tuning().reason.expect("a reason");
        assert!(reason.contains("tuning.toml is not used: not a tuning file: its format is 7"), "{reason}");
        let mut tuned = TuningFile { castell: "0".into(), machine: here(), model: None, rules: Vec::new() };
        write(&tuned.to_toml());
        let tuning = Found::read(&file, false).tuning();
        assert_eq!((tuning.file, tuning.reason), (Some(file.clone()), None));
        tuned.machine.processors += 1;
        write(&tuned.to_toml());
        let reason = Found::read(&file, false).tuning().reason.expect("a reason");
        assert!(reason.contains("of another machine: its number of processors"), "{reason}");
    }
}
