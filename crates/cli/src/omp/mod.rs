//! `castell omp`: starts an OpenMP program so that its tasks are castell's.

mod program;

use crate::preload::launcher::Launcher;
use crate::preload::program::Loads;
use crate::preload::{self, Start};
use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell omp -- ./program input           its OpenMP tasks run on castell
  castell omp --threads 4 -- ./program     with four threads in each parallel region (OMP_NUM_THREADS)
  castell omp --stats --timeline tasks.svg -- ./program       what its tasks did, as a drawing
  castell omp --record tasks.goal -- ./program && castell tasks simulate tasks.goal --machine cpu:64    on other machines
  castell omp --malleable -- ./program & castell cpus $! --take 1        its second thread takes no more tasks
  castell omp --share -- ./program         lends processors to other programs that do so, and borrows theirs
  castell omp -- mpirun -n 2 ./program     in each process of an MPI job
  mpirun -n 2 castell omp -- ./program     the same; behind launchers that castell doesn't know, too
  castell mpi -- mpirun -n 2 castell omp -- ./hybrid         an MPI program's collective calls on castell as well
  castell omp --anyway -- python3 run.py   a program that shows its OpenMP library only while it runs
  castell omp --dry-run -- ./program       only shows the command that would run

For programs that gcc, clang, flang or icx has compiled with -fopenmp (-qopenmp): C, C++, Fortran. The program is not changed: a library is preloaded, in front of the
OpenMP library that the program loads. Teams, loops, locks and all OMP_* settings stay with that one; tasks, what waits for them, and barriers
are castell's. CASTELL_TASKS_SCHEDULER chooses the scheduler, as for castell's own tasks.

Exit code: the program's own; 126 and 127 where it cannot be executed or found; 1 where its tasks cannot be castell's, with the reason.";

/// The library that is loaded before the program's OpenMP library.
const LIBRARY: &str = "libcastell_omp.so";

/// Run the tasks of an unmodified OpenMP program on castell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Threads of a parallel region that does not say itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Print in the end how many tasks there were, how long they took and waited, how busy the threads were, and how many could be
    #[arg(long)]
    stats: bool,
    /// Write what ran where and when: a drawing (.svg), a page to zoom into (.html), a trace for Perfetto (.json) or Paraver (.prv); %r in the name is the rank, %p the process
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Write the tasks as a graph, with what each waited for and took: `castell tasks simulate FILE` runs it on other machines and schedulers
    #[arg(long, value_name = "FILE.goal")]
    record: Option<PathBuf>,
    /// Let `castell cpus` take threads away from its tasks while it runs, and give them back
    #[arg(long)]
    malleable: bool,
    /// Lend processors to other programs of yours that share them while its threads wait, and borrow theirs
    #[arg(long)]
    share: bool,
    /// Do not say what is preloaded
    #[arg(short, long)]
    quiet: bool,
    /// Preload the library also where no OpenMP library can be seen
    #[arg(long)]
    anyway: bool,
    /// Folder of libcastell_omp.so, if it is not that of castell's other libraries
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
    /// Print the command instead of running it
    #[arg(long)]
    dry_run: bool,
    /// The program and its arguments; a launcher may stand before it
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// Becomes the program.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if preload::executable(&args.words[0]).is_none() {
        // Says what the system says of it.
        return Ok(Start::plain(&args.words).go(args.dry_run));
    }
    let launcher = Launcher::of(&args.words);
    let what = match program::find(&args.words, launcher.as_ref()) {
        Ok(Loads { kind: whose, program, library, place }) => {
            format!("{} uses {whose} ({library}: {})", program.display(), place.display())
        }
        Err(why) if args.anyway => why,
        Err(why) => bail!("{why}"),
    };
    let library = match preload::library(LIBRARY, args.libraries.as_deref()) {
        Ok(library) => library,
        Err(why) => bail!(
            "{why}: `cargo build --release -p castell-omp` builds it, `cargo xtask install` installs it, and --libraries DIR says where \
             else it is"
        ),
    };
    let mut variables = vec![preload::variable(&library)];
    variables.extend(args.threads.map(|threads| ("OMP_NUM_THREADS".to_owned(), threads.to_string().into())));
    if args.stats {
        variables.push(("CASTELL_TASKS_SUMMARY".to_owned(), "1".into()));
    }
    if args.malleable {
        variables.push(("CASTELL_TASKS_MAILBOX".to_owned(), "1".into()));
    }
    if args.share {
        variables.push(preload::shared());
        if std::env::var_os("OMP_WAIT_POLICY").is_none() {
            // Threads without a region must not spin where others run.
            variables.push(("OMP_WAIT_POLICY".to_owned(), "passive".into()));
        }
    }
    let files = [
        ("--timeline", "CASTELL_TASKS_TRACE", &args.timeline),
        ("--record", "CASTELL_TASKS_RECORD", &args.record),
    ];
    for (option, variable, file) in files {
        if let Some(file) = file {
            // A rank may have another folder.
            let file = std::path::absolute(file).with_context(|| format!("{option} {}", file.display()))?;
            variables.push((variable.to_owned(), file.into()));
        }
    }
    let (start, way) = Start::with(&args.words, launcher, &variables);
    if !args.quiet {
        castell_host::say(&format!("{what}: preloads {} {way}", library.display()));
    }
    Ok(start.go(args.dry_run))
}
