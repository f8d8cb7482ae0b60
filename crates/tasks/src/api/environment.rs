//! What environment variables ask of a runtime, in words that people try.

use std::path::{Path, PathBuf};

/// By which a launcher tells a process its rank, and how many there are: no file is told apart by the rank of a group of one.
const RANKS: [(&str, Option<&str>); 5] = [
    ("CASTELL_RANK", None),
    ("OMPI_COMM_WORLD_RANK", Some("OMPI_COMM_WORLD_SIZE")),
    ("PMI_RANK", Some("PMI_SIZE")),
    ("PMIX_RANK", None),
    ("SLURM_PROCID", Some("SLURM_STEP_NUM_TASKS")),
];

/// How the environment is asked.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What the process's own environment says; nothing where a variable is empty.
pub(crate) fn lookup(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether something is wanted. Says on standard error that it does not understand: nobody could be told otherwise.
pub(crate) fn switch(name: &str) -> bool {
    let Some(value) = lookup(name) else { return false };
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => true,
        "0" | "off" | "no" | "false" => false,
        _ => {
            castell_host::say(&format!(
                "{name}={value} is taken as off; write 1, on, yes or true, or 0, off, no or false"
            ));
            false
        }
    }
}

/// The file that `name` asks for, if it can be written; says on standard error if it cannot, before the program takes hours.
pub(crate) fn file(name: &str) -> Option<PathBuf> {
    let path = path(&std::env::var_os(name).filter(|value| !value.is_empty())?, &lookup);
    match castell_host::check_writable(&path) {
        Ok(()) => Some(path),
        Err(error) => {
            castell_host::say(&format!(
                "{name}: {} cannot be written: {error}; the program runs without",
                path.display()
            ));
            None
        }
    }
}

/// With `%r` as the process's rank and `%p` as its number; where neither is asked for, ranks of a group put theirs before the
/// extension, so that they do not write over each other.
fn path(wanted: &std::ffi::OsStr, lookup: Lookup<'_>) -> PathBuf {
    let Some(text) = wanted.to_str() else { return wanted.into() };
    let rank = rank(lookup);
    let replaced =
        text.replace("%r", rank.as_deref().unwrap_or("0")).replace("%p", &std::process::id().to_string());
    match rank {
        Some(rank) if replaced == text => with_rank(Path::new(text), &rank),
        _ => replaced.into(),
    }
}

fn with_rank(path: &Path, rank: &str) -> PathBuf {
    match path.extension().and_then(|extension| extension.to_str()) {
        // What a device is called stays.
        _ if path.starts_with("/dev") => path.to_owned(),
        Some(extension) => path.with_extension(format!("{rank}.{extension}")),
        None => path.with_extension(rank),
    }
}

/// The process's rank in a group of more than one.
fn rank(lookup: Lookup<'_>) -> Option<String> {
    let of_group = |(rank, size): &(&str, Option<&str>)| {
        let rank = lookup(rank)?;
        let alone = size.is_some_and(|size| lookup(size).is_none_or(|ranks| ranks == "1"));
        (!alone && rank.parse::<u32>().is_ok()).then_some(rank)
    };
    RANKS.iter().find_map(of_group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(wanted: &str, variables: &[(&str, &str)]) -> String {
        let lookup = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
        };
        path(wanted.as_ref(), &lookup).into_os_string().into_string().expect("text")
    }

    #[test]
    fn ranks_have_files_of_their_own() {
        let three = [("CASTELL_RANK", "3")];
        assert_eq!(path_of("a/t.json", &three), "a/t.3.json");
        assert_eq!(path_of("a/t", &three), "a/t.3");
        assert_eq!(path_of("/dev/stderr", &three), "/dev/stderr");
        assert_eq!(path_of("%r/t-%p.prv", &three), format!("3/t-{}.prv", std::process::id()));
        let of_two = [("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        assert_eq!(path_of("t.prv", &of_two), "t.1.prv");
        assert_eq!(
            path_of("t.prv", &[("OMPI_COMM_WORLD_RANK", "12"), ("OMPI_COMM_WORLD_SIZE", "16")]),
            "t.12.prv"
        );
    }

    #[test]
    fn who_is_alone_gets_the_name_that_was_asked_for() {
        assert_eq!(path_of("t.json", &[]), "t.json");
        assert_eq!(path_of("t-%r.json", &[]), "t-0.json");
        assert_eq!(path_of("t.json", &[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), "t.json");
        // As in a batch script, outside of any step.
        assert_eq!(path_of("t.json", &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), "t.json");
        assert_eq!(path_of("t.json", &[("PMI_RANK", "none"), ("PMI_SIZE", "2")]), "t.json");
    }
}
