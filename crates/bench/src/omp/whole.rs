//! Whole programs that the user has built: of his own, and those of the Barcelona OpenMP Tasks Suite (BOTS), each of which prints how long its
//! work took.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What each program of BOTS is given: some tens to hundreds of milliseconds of work. `@` stands for the folder of the inputs.
const ARGUMENTS: [(&str, &str); 12] = [
    ("alignment", "-f @/alignment/prot.20.aa"),
    ("concom", ""),
    ("fft", "-n 1048576"),
    ("fib", "-n 27"),
    ("floorplan", "-f @/floorplan/input.5"),
    ("health", "-f @/health/test.input"),
    ("knapsack", "-f @/knapsack/knapsack-024.input"),
    ("nqueens", "-n 10"),
    ("sort", "-n 4194304"),
    ("sparselu", "-n 30 -m 40"),
    ("strassen", "-n 1024"),
    ("uts", "-f @/uts/test.input"),
];

/// A binary and its arguments.
pub struct Whole {
    /// What it is called.
    pub name: String,
    path: PathBuf,
    arguments: Vec<String>,
}

/// Times of one run, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Times {
    /// As the program says in BOTS' way, or else from its start to its end.
    pub wall_ns: f64,
    /// On processors, of the whole process.
    pub cpu_ns: f64,
}

/// All binaries of BOTS with tasks in a folder, or in `bin/` below it; inputs are looked for in `inputs/` of either or beside it.
///
/// # Errors
/// There is none.
pub fn of_bots(folder: &Path) -> anyhow::Result<Vec<Whole>> {
    let bin = if folder.join("bin").is_dir() { folder.join("bin") } else { folder.to_owned() };
    let inputs = [folder.join("inputs"), bin.join("../inputs"), bin.join("inputs")];
    let inputs = inputs.into_iter().find(|inputs| inputs.is_dir());
    let files = std::fs::read_dir(&bin).with_context(|| format!("{} cannot be read", bin.display()))?;
    let mut found = Vec::new();
    for path in files.filter_map(|file| file.ok().map(|file| file.path())) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let family = name.split('.').next().unwrap_or_default();
        let known = ARGUMENTS.iter().find(|(known, _)| *known == family);
        let Some((_, words)) = known.filter(|_| name.contains("omp-tasks") && path.is_file()) else {
            continue;
        };
        let inputs = match (words.contains('@'), &inputs) {
            (true, None) => bail!("{name} needs BOTS' folder `inputs` in {}", folder.display()),
            (_, inputs) => inputs.as_ref().map(|inputs| inputs.display().to_string()).unwrap_or_default(),
        };
        let arguments = words.split_whitespace().map(|word| word.replace('@', &inputs)).collect();
        found.push(Whole { name, path, arguments });
    }
    if found.is_empty() {
        bail!("{} has no binaries of BOTS, as fib.gcc.omp-tasks: build them with `make`", bin.display());
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

impl Whole {
    /// One that the user names, with its arguments.
    ///
    /// # Errors
    /// There are no words, or the first one is no file.
    pub fn named(command: &str) -> anyhow::Result<Whole> {
        let mut words = command.split_whitespace().map(str::to_owned);
        let path = PathBuf::from(words.next().context("--program needs a command")?);
        if !path.is_file() {
            bail!("--program {command}: there is no file {}", path.display());
        }
        let path = std::path::absolute(path)?;
        Ok(Whole { name: command.to_owned(), path, arguments: words.collect() })
    }

    /// Runs it once, with `library` loaded first if there is one.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, threads: u32, library: Option<&Path>) -> anyhow::Result<Times> {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).env("OMP_NUM_THREADS", threads.to_string()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(library) = library {
            command.env("LD_PRELOAD", library);
        }
        castell_host::process::ends_with_this(&mut command);
        let (before, start) = (processor_ns_of_children(), Instant::now());
        let output = command.output().with_context(|| format!("could not start {}", self.path.display()))?;
        let cpu_ns = processor_ns_of_children() - before;
        let elapsed_ns = start.elapsed().as_nanos() as f64;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let err = String::from_utf8_lossy(&output.stderr);
            let with = if library.is_some() { " with castell" } else { "" };
            bail!("{}{with} ended with {}:\n{said}{err}", self.name, output.status);
        }
        Ok(Times { wall_ns: seconds(&said).map_or(elapsed_ns, |seconds| seconds * 1e9), cpu_ns })
    }
}

/// What stands behind `Time Program`.
fn seconds(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("Time Program"))?;
    line.trim_start_matches([' ', '=']).split_whitespace().next()?.parse().ok()
}

/// How long the processes that were started here and have ended had a processor.
fn processor_ns_of_children() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: it is filled in; zeroed it is valid, too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_stands_in_a_line_of_its_own() {
        let said = "Verification        = successful\nTime Program        = 0.000464 seconds\n";
        assert_eq!(seconds(said), Some(0.000464));
        assert_eq!(seconds("Verification = successful\n"), None);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("fib.c"), "").expect("it can be written");
        let refused = of_bots(folder.path()).err().expect("nothing to run").to_string();
        assert!(refused.contains("no binaries of BOTS"), "{refused}");
        assert!(Whole::named("").is_err() && Whole::named("/nowhere/at-all 3").is_err());
    }
}
