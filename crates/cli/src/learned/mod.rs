//! `castell learned`.

mod report;

use crate::look::LookArgs;
use anyhow::{Context as _, bail};
use castell_daemon::learn::{Knowledge, Step, profiles_of};
use castell_interference::learn::Learner;
use castell_prof::kept::Store;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  castell learned                              programs, pairs, and how far off predictions were, hour by hour
  castell learned --svg error.svg              the error over the last day, drawn
  castell learned --json
  castell learned predict triad dgemm          what triad would lose beside dgemm, and dgemm beside triad
  castell learned predict ./bt.C.x cg.C.x lu   by name, by file, or by the beginning of the hash
  castell learned forget triad                 what was seen of it is gone

`castell daemon` learns while sessions run (--learn watch): when a neighbour comes or goes, it compares the paces of the others just before
and just after. Until then it goes by profiles that are kept of both (castell profile --keep). With --learn probe it also has programs that it
does not know meet a probe. A program is known by its file's content (SHA-256). What was learned lies in $XDG_DATA_HOME/castell/learned
(~/.local/share otherwise), of a daemon for the whole node in /var/lib/castell/learned; --learned names another file.";

/// The daemon's file where there is no user's.
const SYSTEM: &str = "/var/lib/castell/learned";

/// Show what the node's daemon has learned about how programs slow each other
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    kept: Kept,
    /// Draw the error of predictions over the last 24 hours
    #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Say how much programs would slow each other
    Predict {
        /// NAME, the beginning of the hash, or the file of a program
        #[arg(value_name = "PROGRAM", num_args = 2.., required = true)]
        programs: Vec<String>,
        #[command(flatten)]
        kept: Kept,
    },
    /// Forget a program
    Forget {
        /// NAME, the beginning of the hash, or the file of a program
        program: String,
        #[command(flatten)]
        kept: Kept,
    },
}

#[derive(clap::Args)]
struct Kept {
    /// The file [default: the user's, else /var/lib/castell/learned]
    #[arg(long, value_name = "FILE")]
    learned: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was learned, and where.
struct Known {
    file: PathBuf,
    machine: String,
    learner: Learner,
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        None => {
            let known = Known::read(&args.kept)?;
            if let Some(path) = &args.svg {
                report::draw(&known, &args.look.look(), path)?;
            }
            report::all(&known, args.kept.json);
        }
        Some(Command::Predict { programs, kept }) => {
            let known = Known::read(&kept)?;
            let ids: Vec<String> =
                programs.iter().map(|program| known.find(program)).collect::<anyhow::Result<_>>()?;
            report::predictions(&known, &ids, kept.json);
        }
        Some(Command::Forget { program, kept }) => {
            let known = Known::read(&kept)?;
            let id = known.find(&program)?;
            let name = known.name(&id).to_owned();
            let mut knowledge = Knowledge::open(&known.file, &known.machine);
            knowledge.take(0, Step::Forget(id.clone()));
            knowledge.keep();
            report::forgotten(&id, &name, kept.json);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where a daemon keeps what it learns, if nothing is said.
///
/// # Errors
/// Nothing says where a user's data is.
pub fn usual_file(is_node: bool) -> anyhow::Result<PathBuf> {
    match is_node {
        true => Ok(PathBuf::from(SYSTEM)),
        false => Ok(Store::users().context("give --learned FILE")?.with_file_name("learned")),
    }
}

impl Known {
    fn read(kept: &Kept) -> anyhow::Result<Known> {
        let file = match &kept.learned {
            Some(file) => file.clone(),
            None => {
                let users = usual_file(false).ok().filter(|file| file.exists());
                let systems = Some(PathBuf::from(SYSTEM)).filter(|file| file.exists());
                users.or(systems).context(
                    "nothing was learned yet: `castell daemon` learns while `castell session run` runs programs",
                )?
            }
        };
        let known = Knowledge::look(&file).map_err(|reason| {
            anyhow::anyhow!("{}: what was learned is of no use ({reason})", file.display())
        })?;
        let (machine, mut learner) = known.with_context(|| format!("there is no {}", file.display()))?;
        // What is wrong with one of them is said by `castell profiles list`.
        let (profiles, _) = profiles_of(None, learner.programs().keys().map(String::as_str));
        learner.know(Arc::new(profiles));
        Ok(Known { file, machine, learner })
    }

    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        let name = self.learner.programs().get(id).map_or("", |program| program.name.as_str());
        if name.is_empty() { id.get(..12).unwrap_or(id) } else { name }
    }

    /// The program that is meant: by its file, its name, or the beginning of its hash.
    fn find(&self, asked: &str) -> anyhow::Result<String> {
        let of_file = || castell_prof::binary::Binary::of_file(Path::new(asked)).map(|binary| binary.sha256);
        let file = Some(asked).filter(|asked| asked.contains('/')).and_then(|_| of_file());
        let is_hash = asked.len() >= 6 && asked.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_meant = |(id, program): &(&String, &castell_interference::learn::Program)| {
            program.name == asked
                || file.as_ref() == Some(id)
                || is_hash && id.starts_with(&asked.to_lowercase())
        };
        // Of several builds, the one that was seen last.
        let found = self.learner.programs().iter().filter(is_meant).max_by_key(|(_, program)| program.seen_s);
        let Some((id, _)) = found else {
            let mut names: Vec<&str> = self.learner.programs().keys().map(|id| self.name(id)).collect();
            names.sort_unstable();
            names.dedup();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            bail!("nothing was learned of {asked} ({}); known are: {names}", self.file.display());
        };
        Ok(id.clone())
    }
}
