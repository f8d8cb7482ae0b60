//! The observer: a tool of castell's for Valgrind, a program of its own under the GPL, found and started here.

use super::{ObserveError, Options};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The observer's file; Valgrind looks for its tools by such names.
pub const FILE: &str = "castell-amd64-linux";
/// Names the observer's file or its folder, where it lies elsewhere.
pub const VARIABLE: &str = "CASTELL_OBSERVER";
/// Where distributions keep what Valgrind needs at run time.
const VALGRIND_FOLDERS: [&str; 4] = [
    "/usr/libexec/valgrind",
    "/usr/lib/x86_64-linux-gnu/valgrind",
    "/usr/lib64/valgrind",
    "/usr/lib/valgrind",
];

/// Finds the observer: where the variable says, beside an installed `castell`, or among what a build of it left.
fn find() -> Result<PathBuf, ObserveError> {
    let told = std::env::var_os(VARIABLE).map(PathBuf::from);
    let program = std::env::current_exe().unwrap_or_default();
    let near = program.ancestors().skip(1).take(4);
    let near = near.flat_map(|folder| [folder.join("lib/castell"), folder.join("observer")]);
    let places: Vec<PathBuf> = told.into_iter().chain(near).collect();
    let found = places.iter().flat_map(|place| [place.join(FILE), place.clone()]).find(|path| path.is_file());
    found.ok_or(ObserveError::NoObserver)
}

/// A folder in which Valgrind finds its own files and the observer.
fn make_library(folder: &Path, observer: &Path) -> Result<(), ObserveError> {
    let theirs = std::env::var_os("VALGRIND_LIB").map(PathBuf::from).into_iter();
    let mut theirs = theirs.chain(VALGRIND_FOLDERS.map(PathBuf::from));
    let theirs =
        theirs.find(|folder| folder.join("default.supp").is_file()).ok_or(ObserveError::NoValgrind)?;
    let files = std::fs::read_dir(&theirs).map_err(ObserveError::Folder)?;
    for file in files.flatten() {
        symlink(file.path(), folder.join(file.file_name())).map_err(ObserveError::Folder)?;
    }
    let observer = observer.canonicalize().map_err(ObserveError::Folder)?;
    symlink(observer, folder.join(FILE)).map_err(ObserveError::Folder)
}

/// Starts a command under the observer, which writes to the pipe.
pub(super) fn start(
    program: &Path,
    arguments: &[std::ffi::OsString],
    options: &Options,
    folder: &Path,
    pipe: &Path,
) -> Result<Child, ObserveError> {
    let library = folder.join("valgrind");
    std::fs::create_dir(&library).map_err(ObserveError::Folder)?;
    make_library(&library, &find()?)?;
    let yes = |flag: bool| if flag { "yes" } else { "no" };
    let mut command = Command::new("valgrind");
    command.env("VALGRIND_LIB", &library).args([
        "--tool=castell",
        "-q",
        "--trace-children=yes",
        "--vgdb=no",
        "--sigill-diagnostics=yes",
    ]);
    command.arg(format!("--log-file={}", folder.join("log.%p").display()));
    command.arg(format!("--channel={}", pipe.display()));
    command.arg(format!("--block-shift={}", options.block_bytes.ilog2()));
    command.arg(format!("--ignore-stack={}", yes(options.ignore_stack)));
    command.arg(format!("--functions={}", yes(options.functions)));
    command
        .arg(format!("--threshold={}", options.sampling()?.map_or(u32::MAX, |sampled| sampled.threshold())));
    command.arg("--").arg(program).args(arguments);
    options.prints.set_in(&mut command).map_err(ObserveError::Start)?;
    castell_host::signal::restore_defaults_in(&mut command);
    command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ObserveError::NoValgrind,
        _ => ObserveError::Start(error),
    })
}

/// What the observer said in its logs, a sentence each: nothing, unless something went wrong.
pub(super) fn complaints(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log."));
    let texts: Vec<String> = logs.filter_map(|log| std::fs::read_to_string(log.path()).ok()).collect();
    let mut complaints: Vec<String> = texts.iter().filter_map(|text| complaint(text)).collect();
    complaints.sort();
    complaints.dedup();
    complaints
}

fn complaint(text: &str) -> Option<String> {
    if let Some(at) = text.find("unhandled instruction bytes:") {
        let bytes = text[at..].split_once(": ")?.1.lines().next()?.trim();
        // EVEX, the prefix of AVX-512.
        let kind = if bytes.starts_with("0x62") { "AVX-512" } else { "a kind that it does not know" };
        return Some(format!(
            "it uses an instruction of {kind} ({bytes}), which Valgrind cannot run: build it without (gcc: -mno-avx512f, or \
             -march=x86-64-v3), or set what makes its libraries choose others (GLIBC_TUNABLES, OPENBLAS_CORETYPE=Haswell)"
        ));
    }
    let line = |line: &str| {
        line.trim_start_matches(['=', ' '])
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_matches(['=', ' '])
            .to_owned()
    };
    text.lines().map(line).find(|line| !line.is_empty())
}
