//! `castell mpi`: starts a program of any MPI so that its collective calls are castell's.

mod elf;
mod launcher;
mod libraries;
mod program;

use anyhow::{Context as _, bail};
use launcher::{Kind, Launcher};
use program::{Family, Found, executable};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const EXAMPLES: &str = "\
Examples:
  castell mpi -- mpirun -n 4 ./app input.txt           the program as it is; its collective calls go through castell
  castell mpi --stats -- mpiexec -n 8 ./app            and in the end a table: what went where, and why
  castell mpi --only allreduce,bcast -- srun -n 4 ./app
  castell mpi -- mpirun -n 4 python -m mpi4py run.py   the library that mpi4py loads counts
  castell mpi --mpi mpich -- ./start.sh                a program that says nothing of its MPI
  castell mpi --dry-run -- mpirun -n 4 ./app           only shows the command that would run

The program is not changed: a library is preloaded that belongs to the MPI it was compiled for. Where there is none (an MPI
that is linked statically, one of another binary interface) the program runs as without castell, and the reason is said.

Exit code: that of the launcher; 126 and 127 where it cannot be executed or found, 2 for wrong usage.";

/// The operations as the library names them.
const OPERATIONS: [&str; 22] = [
    "barrier",
    "bcast",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "exscan",
    "neighbor_allgather",
    "neighbor_allgatherv",
    "neighbor_alltoall",
    "neighbor_alltoallv",
    "neighbor_alltoallw",
];

/// Start an MPI program, unchanged, with castell's collective calls
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print in the end, per communicator and operation: calls, bytes, time, through castell or below, and why
    #[arg(long)]
    stats: bool,
    /// Write the same as JSON to a file
    #[arg(long, value_name = "FILE", conflicts_with = "stats")]
    json: Option<PathBuf>,
    /// Say in the beginning what was found, and which functions are not caught
    #[arg(long)]
    check: bool,
    /// Send everything through castell that can go there, also where the MPI is faster
    #[arg(long)]
    always: bool,
    /// Only these operations go through castell
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = OPERATIONS)]
    only: Vec<String>,
    /// These operations don't
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = OPERATIONS)]
    not: Vec<String>,
    /// The MPI of the program, where it cannot be seen
    #[arg(long, value_name = "FAMILY")]
    mpi: Option<Family>,
    /// Folder of libcastell_mpi_*.so, if it is not that of castell's other libraries
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
    /// Print the command instead of running it
    #[arg(long)]
    dry_run: bool,
    /// The launcher with its arguments, the program with its own
    #[arg(value_name = "LAUNCHER", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Carries the command out: becomes the launcher.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let launcher = Launcher::of(&args.words);
    let found = match args.mpi {
        Some(family) => Ok((family, format!("as if for {}", family.name()))),
        None => match program::find(&args.words, launcher.as_ref()) {
            Found::Served { program, family, library, place } => {
                let (program, place) = (program.display(), place.display());
                Ok((family, format!("{program} uses {} ({library}: {place})", family.name())))
            }
            Found::Not(why) => Err(why),
        },
    };
    let chosen = found.and_then(|(family, what)| match library(family, args.libraries.as_deref()) {
        Ok(library) => Ok((library, what)),
        Err(why) => Err(format!("{what}, but {why}")),
    });
    let (library, what) = match chosen {
        Ok(chosen) => chosen,
        Err(why) => {
            castell_host::say(&format!("runs without castell: {why}"));
            return start(&args, args.words.clone(), Vec::new());
        }
    };
    let launcher = launcher.unwrap_or(Launcher { at: 0, kind: Kind::Inherits });
    let way = Launcher::way(launcher.kind);
    castell_host::say(&format!("{what}: preloads {} {way}", library.display()));
    let (words, environment) = launcher.hand_on(&args.words, &variables(&args, &library)?);
    start(&args, words, environment)
}

/// What the library is told. It stands in `doors/mpi/README.md`.
fn variables(args: &Args, library: &Path) -> anyhow::Result<Vec<(String, OsString)>> {
    let mut preloaded = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preloaded.push(":");
        preloaded.push(others);
    }
    let mut variables = vec![("LD_PRELOAD".to_owned(), preloaded)];
    let mut tell = |name: &str, value: OsString| variables.push((format!("CASTELL_MPI_{name}"), value));
    if let Some(file) = &args.json {
        // Rank 0 may have another folder.
        let file = std::path::absolute(file).with_context(|| format!("--json {}", file.display()))?;
        tell("STATS", file.into());
    } else if args.stats {
        tell("STATS", "1".into());
    }
    for (name, is_asked) in [("CHECK", args.check), ("ALWAYS", args.always)] {
        if is_asked {
            tell(name, "1".into());
        }
    }
    for (name, operations) in [("ONLY", &args.only), ("NOT", &args.not)] {
        if !operations.is_empty() {
            tell(name, operations.join(",").into());
        }
    }
    Ok(variables)
}

/// Where the library lies that is preloaded: where it was asked for, or beside castell as it was installed or built.
fn library(family: Family, asked: Option<&Path>) -> Result<PathBuf, String> {
    let name = family.library();
    let folders = match asked {
        Some(folder) => vec![folder.to_owned()],
        None => {
            let program = std::env::current_exe().and_then(|program| program.canonicalize());
            let folder =
                program.ok().and_then(|program| program.parent().map(Path::to_owned)).unwrap_or_default();
            let below = ["../lib", "../lib64", "../lib/x86_64-linux-gnu", "../lib/aarch64-linux-gnu", "."];
            below.map(|below| folder.join(below)).to_vec()
        }
    };
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        format!(
            "there is no {name} in {} (`cargo xtask install --mpi MPICC` builds it with that MPI's compiler; --libraries DIR \
             says where it is)",
            folders.join(", ")
        )
    })
}

/// Becomes the command.
fn start(
    args: &Args,
    words: Vec<OsString>,
    environment: Vec<(String, OsString)>,
) -> anyhow::Result<ExitCode> {
    if args.dry_run {
        let set =
            environment.iter().map(|(name, value)| format!("{name}={}", quoted(&value.to_string_lossy())));
        let line: Vec<String> = set.chain(words.iter().map(|word| quoted(&word.to_string_lossy()))).collect();
        println!("{}", line.join(" "));
        return Ok(ExitCode::SUCCESS);
    }
    let Some((first, rest)) = words.split_first() else { bail!("there is nothing to start") };
    let error = Command::new(first).args(rest).envs(environment).exec();
    castell_host::say(&format!("{}: {error}", Path::new(first).display()));
    let is_there = executable(first).is_some() || error.kind() != std::io::ErrorKind::NotFound;
    Ok(ExitCode::from(if is_there { 126 } else { 127 }))
}

/// As a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
