//! `castell omp`.

use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const EXAMPLES: &str = "\
Examples:
  castell omp -- ./program input           its OpenMP tasks run on castell
  castell omp --threads 4 -- ./program     with four threads in each parallel region (OMP_NUM_THREADS)
  mpirun -n 2 castell omp -- ./program     each process of an MPI job
  LD_PRELOAD=/usr/local/lib/libcastell_omp.so ./program      the same as the first, by hand

For programs that GCC has compiled with -fopenmp: C, C++, Fortran. Teams, loops, locks and all OMP_* settings stay with libgomp;
tasks, what waits for them, and barriers are castell's. CASTELL_TASKS_SCHEDULER chooses the scheduler, as for castell's own tasks.

Exit code: the program's own; 126 and 127 where it cannot be executed or found; 1 if castell's library is not there.";

/// The library that is loaded before libgomp.
const LIBRARY: &str = "libcastell_omp.so";
/// Where it is, if not beside castell.
const VARIABLE: &str = "CASTELL_OMP_LIBRARY";

/// Run the tasks of an unmodified OpenMP program on castell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Threads of a parallel region that does not say itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Say what is loaded
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Becomes the program.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let library = library()?;
    let (program, arguments) = args.program.split_first().expect("clap requires a program");
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", preloaded(&library, std::env::var_os("LD_PRELOAD")));
    if let Some(threads) = args.threads {
        command.env("OMP_NUM_THREADS", threads.to_string());
    }
    if args.verbose {
        eprintln!("castell: {} is loaded before libgomp", library.display());
    }
    let error = command.exec();
    eprintln!("castell: {}: {error}", Path::new(program).display());
    Ok(ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }))
}

/// In front of what is loaded already.
fn preloaded(library: &Path, others: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// Beside castell, where Cargo builds it; or in `lib` beside castell's `bin`.
fn library() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let named = PathBuf::from(named);
        if !named.is_file() {
            bail!("{VARIABLE} names {}, which is no file", named.display());
        }
        return named.canonicalize().with_context(|| format!("{VARIABLE}: {}", named.display()));
    }
    let castell = std::env::current_exe().context("castell does not find itself")?;
    let folder = castell.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    let found = places.iter().find(|place| place.is_file());
    let Some(found) = found else {
        bail!(
            "{LIBRARY} is neither in {} nor in the lib folder beside it: `cargo build --release -p castell-omp` builds it, \
             `cargo xtask install` installs it, and {VARIABLE} says where else it is",
            folder.display()
        );
    };
    found.canonicalize().with_context(|| found.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_stay_preloaded() {
        let preloaded = |others: Option<&str>| preloaded(Path::new("/lib/a.so"), others.map(OsString::from));
        assert_eq!(preloaded(None), "/lib/a.so");
        assert_eq!(preloaded(Some("")), "/lib/a.so");
        assert_eq!(preloaded(Some("/lib/b.so")), "/lib/a.so:/lib/b.so");
    }
}
