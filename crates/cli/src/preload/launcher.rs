//! The launcher of a command line: where it stands, which one it is, and how it hands variables to what it starts.

use super::executable;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

/// Whose launcher it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Open MPI's `mpirun`, and PRRTE's `prterun`: `-x NAME=VALUE`.
    OpenMpi,
    /// MPICH's and Intel MPI's `mpiexec`: `-genv NAME VALUE`.
    Hydra,
    /// Slurm's `srun`: `--export=ALL,NAME=VALUE`.
    Slurm,
    /// None that is known: what it starts inherits this process's environment.
    Inherits,
}

/// A launcher in a command line.
#[derive(Debug, PartialEq)]
pub struct Launcher {
    /// Which of the words it is.
    pub at: usize,
    /// Whose.
    pub kind: Kind,
}

impl Launcher {
    /// The first word that has a launcher's name. What stands before it (`env`, `timeout 60`) is left alone.
    pub fn of(words: &[OsString]) -> Option<Launcher> {
        let at = words.iter().position(|word| has_launchers_name(word) && executable(word).is_some())?;
        Some(Launcher { at, kind: kind_of(&words[at]) })
    }

    /// The words that may be the program: those behind the launcher that are no option and no option's value.
    pub fn programs(words: &[OsString], at: usize) -> Vec<usize> {
        let mut candidates = Vec::new();
        let mut index = at + 1;
        while index < words.len() {
            let word = words[index].to_string_lossy();
            // From the first program on all words may be: it may be `env` or `timeout`, with another one behind it.
            if candidates.is_empty() && word.starts_with('-') {
                index += 1 + values_of(&word);
                continue;
            }
            if executable(&words[index]).is_some() {
                candidates.push(index);
            }
            index += 1;
        }
        candidates
    }

    /// The command line that hands the variables on, and what this process's own environment has to have for that.
    pub fn hand_on(
        &self,
        words: &[OsString],
        variables: &[(String, OsString)],
    ) -> (Vec<OsString>, Vec<(String, OsString)>) {
        let (before, behind) = words.split_at(self.at + 1);
        match self.kind {
            Kind::Inherits => (words.to_vec(), variables.to_vec()),
            Kind::OpenMpi => {
                let options: Vec<OsString> =
                    variables.iter().flat_map(|pair| ["-x".into(), assignment(pair)]).collect();
                // Each of several programs has options of its own.
                let behind = behind.iter().flat_map(|word| {
                    let more = if word == ":" { &options[..] } else { &[] };
                    std::iter::once(word).chain(more).cloned()
                });
                (before.iter().cloned().chain(options.clone()).chain(behind).collect(), Vec::new())
            }
            Kind::Hydra => {
                let options = variables
                    .iter()
                    .flat_map(|(name, value)| ["-genv".into(), OsString::from(name), value.clone()]);
                (before.iter().cloned().chain(options).chain(behind.iter().cloned()).collect(), Vec::new())
            }
            Kind::Slurm => slurm(before, behind, variables),
        }
    }

    /// How the variables are handed on, for people.
    pub fn way(kind: Kind) -> &'static str {
        match kind {
            Kind::OpenMpi => "by its -x",
            Kind::Hydra => "by its -genv",
            Kind::Slurm => "by its --export",
            Kind::Inherits => "through the environment",
        }
    }
}

/// `srun` splits the list at commas, which the values of ours have: those are taken from the environment, by their names. The
/// library is named with its value, so that it isn't loaded into `srun` itself.
fn slurm(
    before: &[OsString],
    behind: &[OsString],
    variables: &[(String, OsString)],
) -> (Vec<OsString>, Vec<(String, OsString)>) {
    let mut users = None;
    let mut rest = Vec::new();
    let mut words = behind.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if let Some(list) = text.strip_prefix("--export=") {
            users = Some(list.to_owned());
            continue;
        }
        rest.push(word.clone());
        if !text.starts_with('-') {
            break;
        }
        for _ in 0..values_of(&text) {
            rest.extend(words.next().cloned());
        }
    }
    rest.extend(words.cloned());
    let mut list = OsString::from("--export=");
    match users.as_deref() {
        None => list.push("ALL,"),
        Some("NONE") => {}
        Some(users) => list.push(format!("{users},")),
    }
    let (preloads, others): (Vec<_>, Vec<_>) =
        variables.iter().cloned().partition(|pair| pair.0 == "LD_PRELOAD");
    let named = preloads.iter().map(assignment).chain(others.iter().map(|(name, _)| name.into()));
    for (index, item) in named.enumerate() {
        list.push(if index == 0 { "" } else { "," });
        list.push(item);
    }
    (before.iter().cloned().chain([list]).chain(rest).collect(), others)
}

fn assignment((name, value): &(String, OsString)) -> OsString {
    let mut text = OsString::from(name);
    text.push("=");
    text.push(value);
    text
}

fn has_launchers_name(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.split('.').next().unwrap_or_default();
    ["mpirun", "mpiexec", "orterun", "prterun", "prun", "srun"].contains(&stem)
}

fn kind_of(word: &OsStr) -> Kind {
    let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.as_str() {
        "srun" => return Kind::Slurm,
        "orterun" | "prterun" | "prun" => return Kind::OpenMpi,
        "mpiexec.hydra" => return Kind::Hydra,
        _ => {}
    }
    let output = Command::new(word).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    kind_by_version(&text)
}

/// What `--version` prints tells whose `mpirun` it is.
fn kind_by_version(text: &str) -> Kind {
    if ["Open MPI", "OpenRTE", "PRRTE", "prterun"].iter().any(|name| text.contains(name)) {
        Kind::OpenMpi
    } else if ["HYDRA", "Intel(R) MPI"].iter().any(|name| text.contains(name)) {
        Kind::Hydra
    } else {
        Kind::Inherits
    }
}

/// How many words behind an option are its values. For options that are not listed: none, and a value that is no executable
/// file is passed over as no program.
fn values_of(option: &str) -> usize {
    let name = option.trim_start_matches('-');
    match name {
        "genv" | "env" | "mca" | "gmca" | "omca" | "gomca" | "pmixmca" | "gpmixmca" | "prtemca" | "tune" => {
            if name == "tune" {
                1
            } else {
                2
            }
        }
        "n" | "np" | "c" | "N" | "npernode" | "ppn" | "x" | "host" | "hosts" | "H" | "hostfile" | "f"
        | "machinefile" | "map-by" | "bind-to" | "rank-by" | "wdir" | "wd" | "path" | "genvlist"
        | "envlist" | "launcher" | "iface" | "w" | "p" | "t" | "J" | "A" | "q" | "mpi" | "nodelist"
        | "partition" | "ntasks" | "nodes" | "time" | "account" | "cpus-per-task" | "output-filename"
        | "bootstrap" | "configfile" | "rankfile" | "rf" | "o" | "e" => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn handed(kind: Kind, line: &str) -> (String, usize) {
        let variables =
            [("LD_PRELOAD".to_owned(), "/l.so".into()), ("CASTELL_MPI_ONLY".to_owned(), "bcast,scan".into())];
        let (line, own) = Launcher { at: 0, kind }.hand_on(&words(line), &variables);
        (line.join(OsStr::new(" ")).into_string().expect("text"), own.len())
    }

    #[test]
    fn each_launcher_is_told_in_its_way() {
        let ompi = "-x LD_PRELOAD=/l.so -x CASTELL_MPI_ONLY=bcast,scan";
        let expected = format!("mpirun {ompi} -n 2 ./a : {ompi} -n 1 ./b");
        assert_eq!(handed(Kind::OpenMpi, "mpirun -n 2 ./a : -n 1 ./b"), (expected, 0));
        let expected = "mpiexec -genv LD_PRELOAD /l.so -genv CASTELL_MPI_ONLY bcast,scan -n 2 ./a";
        assert_eq!(handed(Kind::Hydra, "mpiexec -n 2 ./a"), (expected.into(), 0));
        let expected = "srun --export=ALL,LD_PRELOAD=/l.so,CASTELL_MPI_ONLY -n 2 ./a --export=x";
        assert_eq!(handed(Kind::Slurm, "srun -n 2 ./a --export=x"), (expected.into(), 1));
        let expected = "srun --export=HOME,LD_PRELOAD=/l.so,CASTELL_MPI_ONLY -n 2 ./a";
        assert_eq!(handed(Kind::Slurm, "srun -n 2 --export=HOME ./a"), (expected.into(), 1));
        assert_eq!(handed(Kind::Inherits, "./script 3"), ("./script 3".into(), 2));
    }

    #[test]
    fn the_program_stands_behind_the_options() {
        let first = |line: &str| {
            let words = words(line);
            Launcher::programs(&words, 0).first().map(|at| words[*at].clone().into_string().expect("text"))
        };
        assert_eq!(first("mpirun -n 4 --mca btl self,vader sh -c true"), Some("sh".into()));
        // `test` and `env` are programs, too.
        assert_eq!(first("mpiexec -genv test env -host cat -n 2 true"), Some("true".into()));
        assert_eq!(first("srun --unknown 4 /bin/sh -n"), Some("/bin/sh".into()));
        assert_eq!(first("mpirun -n 4"), None);
    }

    #[test]
    fn versions_tell_launchers_apart() {
        assert_eq!(kind_by_version("mpirun (Open MPI) 4.1.4\n\nReport bugs to"), Kind::OpenMpi);
        assert_eq!(kind_by_version("HYDRA build details:\n    Version: 4.0.2"), Kind::Hydra);
        assert_eq!(kind_by_version("Intel(R) MPI Library for Linux* OS, Version 2021.19"), Kind::Hydra);
        assert_eq!(kind_by_version("home-made 1.0"), Kind::Inherits);
    }
}
