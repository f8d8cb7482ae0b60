//! The program that a command line starts in the end, and the MPI library that it loads.

use super::elf::{Elf, has_word};
use super::launcher::Launcher;
use super::libraries::Loader;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A family of binary interfaces: one library of castell's each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Family {
    /// Open MPI 4.1 and 5
    Ompi,
    /// MPICH 4 and 5, Intel MPI 2021
    Mpich,
    /// The standard interface of MPI 5.0
    Abi,
}

impl Family {
    /// The library that is preloaded.
    pub fn library(self) -> &'static str {
        match self {
            Family::Ompi => "libcastell_mpi_ompi.so",
            Family::Mpich => "libcastell_mpi_mpich.so",
            Family::Abi => "libcastell_mpi_abi.so",
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Family::Ompi => "Open MPI",
            Family::Mpich => "MPICH or one that is compatible with it",
            Family::Abi => "an MPI with the standard ABI",
        }
    }
}

/// An MPI library, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// One whose interface castell speaks.
    Served(Family),
    /// Another one.
    Foreign,
}

/// Whose library that is, if it is an MPI's own (not one of its languages').
fn known(name: &str) -> Option<Known> {
    let is = |library: &str| {
        name.strip_prefix(library).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if is("libmpi.so.40") {
        Some(Known::Served(Family::Ompi))
    } else if is("libmpi.so.12") || is("libmpich.so.12") {
        Some(Known::Served(Family::Mpich))
    } else if is("libmpi_abi.so") {
        Some(Known::Served(Family::Abi))
    } else if is("libmpi.so") || is("libmpich.so") || is("libmpi_cray.so") || is("libmpi_ilp64.so") {
        Some(Known::Foreign)
    } else {
        None
    }
}

/// What was found out about a command line.
#[derive(Debug, PartialEq)]
pub enum Found {
    /// A program whose MPI castell speaks.
    Served {
        /// The program.
        program: PathBuf,
        /// Its MPI.
        family: Family,
        /// The MPI's library, and where it lies.
        library: String,
        /// Where that library lies.
        place: PathBuf,
    },
    /// None, for this reason.
    Not(String),
}

/// A file that a word of a command line names, directly or on the path, and that may be executed.
pub fn executable(word: &OsStr) -> Option<PathBuf> {
    let may = |path: &Path| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if word.is_empty() {
        return None;
    }
    if word.to_string_lossy().contains('/') {
        return Some(PathBuf::from(word)).filter(|path| may(path));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(word)).find(|path| may(path))
}

/// Looks for the program behind the launcher, or behind nothing.
pub fn find(words: &[OsString], launcher: Option<&Launcher>) -> Found {
    let candidates = match launcher {
        Some(launcher) => Launcher::programs(words, launcher.at),
        None => (0..words.len()).filter(|at| executable(&words[*at]).is_some()).collect(),
    };
    let search = Search { loader: Loader::of_this_machine() };
    let mut reason = None;
    for &at in &candidates {
        let path = executable(&words[at]).expect("it was one a moment ago");
        match search.look_at(&path, true) {
            Some(found @ Found::Served { .. }) => return found,
            // The nearest to the launcher says it best.
            Some(Found::Not(why)) => reason = reason.or(Some(why)),
            None => {}
        }
    }
    Found::Not(reason.unwrap_or_else(|| match candidates.first() {
        Some(at) => {
            let program = words[*at].to_string_lossy();
            format!("{program} loads no MPI library that can be seen (if it opens one by itself, name it: --mpi ompi|mpich|abi)")
        }
        None => "there is no program behind the launcher that can be found from here (--mpi ompi|mpich|abi names its MPI)".into(),
    }))
}

struct Search {
    loader: Loader,
}

impl Search {
    /// What a file says; nothing where it has nothing to do with MPI. Scripts are read once, not what they call.
    fn look_at(&self, path: &Path, may_be_script: bool) -> Option<Found> {
        if let Some(elf) = Elf::of_file(path) {
            if let Some(found) = self.loader.find(path, known) {
                return Some(served(path, found));
            }
            if is_python(path) {
                return Some(self.python(path));
            }
            let is_static = has_word(path, &["MPI_Init", "PMPI_Init"]);
            return is_static.then(|| {
                let how = if elf.is_dynamic { "has MPI linked into itself" } else { "is linked statically" };
                Found::Not(format!(
                    "{} {how}: calls inside one file cannot be caught; link it with the MPI's shared library",
                    path.display()
                ))
            });
        }
        let text = script(path).filter(|_| may_be_script)?;
        let first: Vec<&str> = text.lines().next()?.strip_prefix("#!")?.split_whitespace().collect();
        let interpreter =
            first.iter().filter_map(|word| executable(OsStr::new(word))).find(|path| is_python(path));
        if let Some(interpreter) = interpreter {
            return Some(self.python(&interpreter));
        }
        let words: BTreeSet<&str> =
            text.split(|c: char| c.is_whitespace() || "\"'`;()|&=".contains(c)).collect();
        let mut others = None;
        for word in words {
            // Most words are no files, and programs with the names of common words (test, true) are soon looked through.
            let Some(path) = executable(OsStr::new(word)) else { continue };
            match self.look_at(&path, false) {
                // A launcher that loads its own MPI is not the program yet.
                Some(Found::Served { .. }) if is_launcher(&path) => {}
                Some(found @ Found::Served { .. }) => return Some(found),
                Some(Found::Not(why)) => others = others.or(Some(Found::Not(why))),
                None => {}
            }
        }
        others
    }

    /// The library that mpi4py loads into this interpreter. The module is imported, MPI is not initialised.
    fn python(&self, interpreter: &Path) -> Found {
        const PROBE: &str = "import mpi4py\nmpi4py.rc.initialize = False\nmpi4py.rc.finalize = False\nfrom mpi4py import MPI\n\
                             for line in open('/proc/self/maps'):\n    print('maps', line.split(None, 5)[-1].strip())\n";
        let shown = interpreter.display();
        let output = Command::new(interpreter).args(["-c", PROBE]).stdin(Stdio::null()).output();
        let output = match output {
            Ok(output) => output,
            Err(error) => return Found::Not(format!("{shown} cannot be asked for its mpi4py: {error}")),
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let places = text.lines().filter_map(|line| line.strip_prefix("maps "));
        let mut libraries = places.filter_map(|place| {
            let place = Path::new(place);
            let file = place.file_name()?.to_str()?.to_owned();
            known(&file)?;
            // The file may have lost its version: wheels have copies in the place of links.
            let name = Elf::of_file(place).and_then(|elf| elf.name).unwrap_or(file);
            Some((known(&name)?, name, place.to_owned()))
        });
        if let Some(found) = libraries.next() {
            return served(interpreter, found);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().last().unwrap_or("it loads no MPI library").to_owned();
        Found::Not(format!("{shown} has no mpi4py that can be imported ({why})"))
    }
}

fn served(program: &Path, (known, library, place): (Known, String, PathBuf)) -> Found {
    let program = program.to_owned();
    match known {
        Known::Served(family) => Found::Served { program, family, library, place },
        Known::Foreign => Found::Not(format!(
            "{} loads {library}, whose binary interface castell does not speak (libmpi.so.40, libmpi.so.12, libmpich.so.12 and \
             libmpi_abi.so it does)",
            program.display()
        )),
    }
}

fn is_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn is_launcher(path: &Path) -> bool {
    Launcher::of(&[path.as_os_str().to_owned()]).is_some()
}

/// The beginning of a text file that is a program.
fn script(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(1 << 20).read_to_end(&mut bytes).ok()?;
    bytes.starts_with(b"#!").then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_apart_by_their_names() {
        for (name, expected) in [
            ("libmpi.so.40", Some(Known::Served(Family::Ompi))),
            ("libmpi.so.40.30.4", Some(Known::Served(Family::Ompi))),
            ("libmpi.so.12", Some(Known::Served(Family::Mpich))),
            ("libmpich.so.12.2.0", Some(Known::Served(Family::Mpich))),
            ("libmpi_abi.so.0", Some(Known::Served(Family::Abi))),
            ("libmpi.so.20", Some(Known::Foreign)),
            ("libmpi.so.400", Some(Known::Foreign)),
            ("libmpi_mpifh.so.40", None),
            ("libmpifort.so.12", None),
            ("libc.so.6", None),
        ] {
            assert_eq!(known(name), expected, "{name}");
        }
    }

    #[test]
    fn interpreters() {
        for (name, expected) in
            [("python", true), ("python3.11", true), ("pythonic", false), ("/x/pypy3", true)]
        {
            assert_eq!(is_python(Path::new(name)), expected, "{name}");
        }
    }
}
