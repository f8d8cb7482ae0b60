//! `castell mpi`: starts a program of any MPI so that its collective calls are castell's.

mod program;
mod timeline;

use crate::look::LookArgs;
use crate::preload::launcher::Launcher;
use crate::preload::program::Loads;
use crate::preload::{self, Start};
use crate::timeline::{TimelineArgs, TimelineFile, file as timeline_file};
use anyhow::Context as _;
use castell_comm::bootstrap::NET_VARIABLE;
use castell_comm::job::Net;
use program::Family;
pub use program::is_mpi_library;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell mpi -- mpirun -n 4 ./app input.txt           the program as it is; its collective calls go through castell
  castell mpi --stats -- mpiexec -n 8 ./app            and in the end a table: what went where, and why
  castell mpi --timeline out.html -- mpirun -n 4 ./app   each collective call of each rank, and who was waited for; also .svg, .json (Perfetto)
  castell mpi --only allreduce,bcast -- srun -n 4 ./app
  castell mpi --net tcp=ib0 -- mpirun --host a:4,b:4 -n 8 ./app   over several hosts, at this interface of each
  castell mpi --share -- mpirun -n 4 ./app             a rank that waits lends its processor to programs of tasks
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
    /// Draw each collective call of each rank, and who was waited for (.svg, .png, .pdf, .html, .prv), or write a trace for Perfetto (.json)
    #[arg(long, value_name = "FILE", group = "drawn", value_parser = timeline_file)]
    timeline: Option<TimelineFile>,
    #[command(flatten)]
    look: LookArgs,
    /// Say in the beginning what was found, and which functions are not caught
    #[arg(long)]
    check: bool,
    /// Send everything through castell that can go there, also where the MPI is faster
    #[arg(long)]
    always: bool,
    /// Lend a rank's processor, while it waits in a collective call, to other programs of yours that share theirs; with --always, since
    /// who waits in the MPI's own calls lends nothing
    #[arg(long)]
    share: bool,
    /// What carries castell's messages between hosts: TCP (shm, the usual one, or tcp; tcp=INTERFACE or tcp=10.1.0.0/16 says where ranks listen), TCP
    /// encrypted by TLS (tcp+tls), raw Ethernet frames (esp, esp=INTERFACE,...), or libfabric (fabric, fabric=PROVIDER), as for castell launch
    #[arg(long, value_name = "shm|tcp[+tls][=INTERFACE]|esp[=INTERFACE,...]|fabric[=PROVIDER]")]
    net: Option<Net>,
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
    #[arg(value_name = "LAUNCHER", required = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// Carries the command out: becomes the launcher, unless there is something to draw after its end.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let drawn = TimelineArgs::whole(args.timeline.clone(), args.look.clone());
    drawn.check()?;
    let launcher = Launcher::of(&args.words);
    let found = match args.mpi {
        Some(family) => Ok((family, format!("as if for {}", family.name()))),
        None => program::find(&args.words, launcher.as_ref()).map(|found| {
            let Loads { kind: family, program, library, place } = found;
            let (program, place) = (program.display(), place.display());
            (family, format!("{program} uses {} ({library}: {place})", family.name()))
        }),
    };
    let chosen = found.and_then(|(family, what)| match preload::library(family.preloaded(), args.libraries.as_deref()) {
        Ok(library) => Ok((library, what)),
        Err(why) => Err(format!(
            "{what}, but {why} (`cargo xtask install --mpi MPICC` builds it with that MPI's compiler; --libraries DIR says where it is)"
        )),
    });
    let (library, what) = match chosen {
        Ok(chosen) => chosen,
        Err(why) => {
            castell_host::say(&format!("runs without castell: {why}"));
            return Ok(Start::plain(&args.words).go(args.dry_run));
        }
    };
    let (start, way) = Start::with(&args.words, launcher, &variables(&args, calls_file(&drawn), &library)?);
    castell_host::say(&format!("{what}: preloads {} {way}", library.display()));
    let calls = calls_file(&drawn).filter(|_| drawn.chrome().is_none() && !args.dry_run);
    let Some(calls) = calls else { return Ok(start.go(args.dry_run)) };
    // What a run left that was killed is not this one's.
    let _ = std::fs::remove_file(&calls);
    let code = start.wait()?;
    let title = args.words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    timeline::draw(&calls, title, &drawn)?;
    Ok(code)
}

/// Where rank 0 writes the calls: the file that was asked for, or one beside it, of which that is made.
fn calls_file(drawn: &TimelineArgs) -> Option<PathBuf> {
    let asked = drawn.path()?;
    let beside = || {
        asked.with_file_name(format!(".{}.calls", asked.file_name().unwrap_or_default().to_string_lossy()))
    };
    Some(drawn.chrome().map_or_else(beside, Path::to_owned))
}

/// What the library is told. It stands in `doors/mpi/README.md`.
fn variables(args: &Args, calls: Option<PathBuf>, library: &Path) -> anyhow::Result<Vec<(String, OsString)>> {
    let mut variables = vec![preload::variable(library)];
    let mut tell = |name: &str, value: OsString| variables.push((format!("CASTELL_MPI_{name}"), value));
    // Rank 0 may have another folder.
    let file = |option, file: &Path| {
        std::path::absolute(file).with_context(|| format!("--{option} {}", file.display()))
    };
    if let Some(timeline) = calls {
        tell("TIMELINE", file("timeline", &timeline)?.into());
    }
    if let Some(json) = &args.json {
        tell("STATS", file("json", json)?.into());
    } else if args.stats {
        tell("STATS", "1".into());
    }
    for (name, is_asked) in [("CHECK", args.check), ("ALWAYS", args.always || args.share)] {
        if is_asked {
            tell(name, "1".into());
        }
    }
    for (name, operations) in [("ONLY", &args.only), ("NOT", &args.not)] {
        if !operations.is_empty() {
            tell(name, operations.join(",").into());
        }
    }
    if let Some(net) = args.net {
        variables.push((NET_VARIABLE.to_owned(), net.to_string().into()));
    }
    if args.share {
        variables.push(preload::shared());
    }
    Ok(variables)
}
