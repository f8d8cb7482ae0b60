//! `castell tune export`: what was tuned, for other libraries.

use super::write;
use anyhow::{Context, bail};
use castell_collectives::decision::export::{Exported, mpich, open_mpi};
use castell_collectives::decision::{Decisions, TuningFile};
use castell_comm::tuning;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write what was tuned as files for Open MPI and MPICH
///
/// Where a library has nothing like an algorithm of castell's, it gets the nearest that it has; standard error says so.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  castell tune export --openmpi rules.txt\n  mpirun --mca coll_tuned_use_dynamic_rules 1 \\\n      --mca coll_tuned_dynamic_rules_filename rules.txt -n 8 ./program\n  castell tune export --mpich tuning.json\n  MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=tuning.json \\\n      mpiexec -n 8 ./program"
)]
pub struct Args {
    /// The tuning file (default: where the library looks for it)
    #[arg(long, value_name = "FILE.toml")]
    from: Option<PathBuf>,
    /// Write dynamic rules for Open MPI (4.1)
    #[arg(long, value_name = "FILE", required_unless_present = "mpich")]
    openmpi: Option<PathBuf>,
    /// Write a selection of collectives for MPICH (4.0)
    #[arg(long, value_name = "FILE.json")]
    mpich: Option<PathBuf>,
}

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(from) = args.from.clone().or_else(tuning::own_path) else {
        bail!("no tuning file: neither XDG_CONFIG_HOME nor HOME is set; give --from");
    };
    let text = std::fs::read_to_string(&from)
        .with_context(|| format!("cannot read {}; `castell tune` writes it", from.display()))?;
    let file = TuningFile::parse(&text).with_context(|| from.display().to_string())?;
    let decisions = Decisions::with_rules(file.rules, file.model);
    if let Some(path) = &args.openmpi {
        keep(path, &open_mpi(&decisions))?;
        println!(
            "Open MPI: mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename {} …",
            path.display()
        );
    }
    if let Some(path) = &args.mpich {
        keep(path, &mpich(&decisions))?;
        println!("MPICH: MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE={} mpiexec …", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn keep(path: &Path, exported: &Exported) -> anyhow::Result<()> {
    exported.notes.iter().for_each(|note| castell_host::say(note));
    write(path, exported.text.as_bytes())
}
