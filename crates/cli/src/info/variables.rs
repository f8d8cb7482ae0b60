//! The environment variables that castell looks at: one table, of which the page in the book is made, too.

use std::fmt::Write as _;

/// A variable.
pub struct Variable {
    pub name: &'static str,
    /// What it can be.
    pub values: &'static str,
    /// What happens then, and what happens without it.
    pub meaning: &'static str,
}

/// Variables that belong together.
pub struct Group {
    pub title: &'static str,
    pub variables: &'static [Variable],
}

const fn variable(name: &'static str, values: &'static str, meaning: &'static str) -> Variable {
    Variable { name, values, meaning }
}

/// All of them.
pub const GROUPS: [Group; 7] = [
    Group {
        title: "Collective calls",
        variables: &[
            variable(
                "CASTELL_TUNING",
                "a file, or `off`",
                "which tuning file chooses the algorithms; `off`: the built-in choice. Without it, the file that `castell tune` \
                 wrote for this host. Calls over several hosts choose without it",
            ),
            variable(
                "CASTELL_SAME_BITS",
                "`1`",
                "reductions give the same bits wherever ranks are, also where all share a host; without it they do between \
                 several hosts. All ranks need it",
            ),
        ],
    },
    Group {
        title: "Kernel collections",
        variables: &[variable(
            "CASTELL_DAEMON",
            "a socket, or `none`",
            "the daemon that says where kernels run; `none`: programs decide by themselves. Without it, this user's usual one",
        )],
    },
    Group {
        title: "Tasks",
        variables: &[
            variable(
                "CASTELL_TASKS_SCHEDULER",
                "a scheduler, as `tree` or `central:fifo`",
                "where a ready task runs; without it `tree`",
            ),
            variable(
                "CASTELL_TASKS_SUMMARY",
                "`1` or `0`",
                "prints tasks, times and waiting on standard error when a runtime ends",
            ),
            variable(
                "CASTELL_TASKS_TRACE",
                "a file: `.svg`, `.html`, `.json` or `.prv`",
                "records when which task ran where: a drawing, a page, a trace for Perfetto or Paraver; `%p` is the process, `%r` the rank",
            ),
            variable("CASTELL_TASKS_RECORD", "a file: `.goal`", "records the tasks' graph as GOAL text"),
            variable(
                "CASTELL_TASKS_MAILBOX",
                "`1`, or a file",
                "`castell cpus`, and whoever moves the program's session to fewer processors, may take workers away from it and give them back; within `castell session run` the default is 1",
            ),
            variable(
                "CASTELL_SHARE",
                "`1` or `0`, or a file with a `/`",
                "lends processors to other programs that say so while there is nothing to do, or while a rank waits, and borrows theirs; the file is the board on which they do",
            ),
            variable(
                "CASTELL_TASKS_DEBUG",
                "`1` or `0`",
                "keeps a journal of who waits for whom, and looks whether tasks touch what they have not named",
            ),
            variable(
                "CASTELL_NO_PROTECTION_KEYS",
                "anything",
                "watched memory is opened and closed for all threads, as on processors without protection keys",
            ),
        ],
    },
    Group {
        title: "MPI programs",
        variables: &[
            variable(
                "CASTELL_MPI_OFF",
                "anything but `0`",
                "all calls go to the MPI; the library only counts",
            ),
            variable(
                "CASTELL_MPI_ALWAYS",
                "anything but `0`",
                "whatever castell can do goes through castell, also where the rules hold the MPI for faster",
            ),
            variable(
                "CASTELL_MPI_CHECK",
                "anything but `0`",
                "rank 0 says at the start which MPI, libraries and group were found",
            ),
            variable(
                "CASTELL_MPI_STATS",
                "`1`, or a file",
                "which calls went where and why, at the end: a table on standard error, or JSON",
            ),
            variable(
                "CASTELL_MPI_CHOICES",
                "a file, or `off`",
                "where it is kept which of castell and the MPI is faster; without it, beside the tuning file of this host",
            ),
            variable(
                "CASTELL_MPI_TIMELINE",
                "a file: `.json`",
                "each collective call of each rank, for Perfetto; written at the end",
            ),
            variable("CASTELL_MPI_ONLY", "operations, as `bcast,allreduce`", "only these go through castell"),
            variable("CASTELL_MPI_NOT", "operations, as `bcast,allreduce`", "these go to the MPI"),
        ],
    },
    Group {
        title: "The group of a process",
        variables: &[
            variable("CASTELL_RANK", "a number", "set by `castell launch`: the rank of the process"),
            variable(
                "CASTELL_TIMELINE_FD",
                "a number",
                "set by `castell launch --timeline`: the descriptor of the memory in which processes note what they do",
            ),
            variable("CASTELL_JOB_FD", "a descriptor", "set by `castell launch`: the job's memory"),
            variable(
                "CASTELL_ALONE",
                "anything",
                "the process is a group of one, whatever launcher started it",
            ),
            variable(
                "CASTELL_LIBPMIX",
                "a file",
                "the PMIx library through which the group is found; without it `libpmix.so.2`",
            ),
            variable(
                "CASTELL_NET",
                "`shm`, `tcp`, `tcp+tls`, `tcp=INTERFACE`, `tcp=10.1.0.0/16`, `fabric`, `fabric=PROVIDER`",
                "what carries messages between ranks that `mpirun`, `srun` and other launchers start, as `castell launch --net` says \
                 it for its own; rank 0's counts",
            ),
            variable(
                "CASTELL_LIBFABRIC",
                "a file",
                "the libfabric that carries messages with `--net fabric`, 1.17 or later; without it `libfabric.so.1`",
            ),
            variable(
                "CASTELL_ESP_FD",
                "descriptors, with commas",
                "set by `castell launch --net esp`: what brings the process raw frames, opened by its host's agent",
            ),
            variable(
                "CASTELL_LAB_HOSTS",
                "names",
                "set by `castell lab`: the hosts of the lab that the process runs in",
            ),
            variable(
                "CASTELL_SESSION",
                "a mark",
                "set by `castell session run`: marks a session's processes, on all nodes",
            ),
            variable(
                "CASTELL_SESSION_HOSTS",
                "names and numbers",
                "set by `castell session run` in an allocation: the nodes where the session has slots, and how many",
            ),
            variable(
                "CASTELL_SESSION_PROGRAM",
                "a path",
                "set by `castell session run`: the castell that its programs ask when they spawn others",
            ),
            variable(
                "CASTELL_SESSION_SOCKET",
                "a path",
                "set with it where `--socket` was given: the agent of the session",
            ),
            variable(
                "CASTELL_SESSION_REMOTE",
                "a command",
                "set with the nodes: starts a program on one of them",
            ),
        ],
    },
    Group {
        title: "Watching programs",
        variables: &[variable(
            "CASTELL_OBSERVER",
            "a file or its folder",
            "where `castell distances` and `castell profile` find the observer, if it is not beside castell",
        )],
    },
    Group {
        title: "Those of others",
        variables: &[
            variable(
                "XDG_CONFIG_HOME",
                "a folder",
                "tuning files lie in `castell/tuning` below it; without it, below `~/.config`",
            ),
            variable(
                "XDG_DATA_HOME",
                "a folder",
                "profiles of programs lie in `castell/profiles` below it; without it, below `~/.local/share`",
            ),
            variable(
                "XDG_STATE_HOME",
                "a folder",
                "what a killed `castell tune knobs` has to have put back lies in `castell/knobs` below it; without it, below `~/.local/state`",
            ),
            variable(
                "XDG_RUNTIME_DIR",
                "a folder",
                "where the agents of sessions listen; without it, in `TMPDIR` or `/tmp`",
            ),
            variable(
                "LISTEN_FDS",
                "a number",
                "`castell daemon` listens on the socket that systemd has opened for it",
            ),
            variable("NOTIFY_SOCKET", "a socket", "`castell daemon` tells systemd there when it is ready"),
            variable("SLURM_CPUS_PER_TASK", "a number", "a runtime starts no more workers"),
            variable("SLURM_JOB_ID", "a name", "sessions of one Slurm job share an agent"),
            variable(
                "OMP_NUM_THREADS",
                "a number",
                "threads of OpenMP's regions; `castell omp --threads` sets it",
            ),
            variable(
                "LD_PRELOAD",
                "files",
                "`castell omp` and `castell mpi` put their library in front of what it says",
            ),
            variable("VALGRIND_LIB", "a folder", "where Valgrind has its tools, for `castell distances`"),
            variable(
                "PMIX_NAMESPACE",
                "a name",
                "with `PMIX_RANK`: set by Open MPI's mpirun and by srun; the group is found through PMIx",
            ),
            variable(
                "PMI_FD",
                "a descriptor",
                "with `PMI_RANK` and `PMI_SIZE`: set by MPICH's mpiexec and by srun; the group is found through PMI",
            ),
            variable("NO_COLOR", "anything", "nothing is coloured, unless `--color always` asks for it"),
        ],
    },
];

/// All of them, one after the other.
pub fn all() -> impl Iterator<Item = &'static Variable> {
    GROUPS.iter().flat_map(|group| group.variables)
}

/// The page of the book.
pub fn page() -> String {
    let mut page = "# Environment variables\n\n\
        `castell info` prints those that are set, with what they mean; `castell info --variables` prints this page. A variable that is \
        empty counts as not set.\n"
        .to_owned();
    for group in &GROUPS {
        let _ = write!(page, "\n## {}\n\n| variable | values | meaning |\n|---|---|---|\n", group.title);
        for Variable { name, values, meaning } in group.variables {
            let _ = writeln!(page, "| `{name}` | {values} | {meaning} |");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn the_book_has_this_table() {
        let file = root().join("docs/src/environment.md");
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == page(), "castell info --variables > docs/src/environment.md");
    }

    /// Sources below `folder`, but tests.
    fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in folder.read_dir().expect("a folder").flatten() {
            let path = entry.path();
            let is_test = ["tests", "benches", "target"].iter().any(|name| path.ends_with(name));
            if path.is_dir() && !is_test {
                sources(&path, into);
            } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "c") {
                into.push(path);
            }
        }
    }

    /// Names in quotes, which is how variables are read; those of the tests' own helpers are left out.
    #[test]
    fn every_variable_that_the_sources_read_is_in_the_table() {
        const OF_TESTS: [&str; 1] = ["CASTELL_SEED"];
        let known: BTreeSet<&str> = all().map(|variable| variable.name).chain(OF_TESTS).collect();
        let mut files = Vec::new();
        ["crates", "doors"].iter().for_each(|folder| sources(&root().join(folder), &mut files));
        assert!(files.len() > 100, "{}", files.len());
        let (mut read, mut unread) = (BTreeSet::new(), known.clone());
        unread.retain(|name| name.starts_with("CASTELL_"));
        for file in files.iter().filter(|file| !file.ends_with("info/variables.rs")) {
            let text = std::fs::read_to_string(file).expect("a source");
            for (at, _) in text.match_indices("\"CASTELL_") {
                let name: String =
                    text[at + 1..].chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
                // Not what all of them begin with.
                let is_whole = name != "CASTELL_" && text[at + 1 + name.len()..].starts_with('"');
                unread.remove(name.as_str());
                if is_whole && !known.contains(name.as_str()) {
                    read.insert(format!("{name} in {}", file.display()));
                }
            }
        }
        assert!(read.is_empty(), "not in the table: {read:?}");
        assert!(unread.is_empty(), "read by nobody: {unread:?}");
    }
}
