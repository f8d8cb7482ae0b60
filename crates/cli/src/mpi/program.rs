//! The MPI library that a program loads.

use crate::preload::elf::{Elf, has_word};
use crate::preload::launcher::Launcher;
use crate::preload::program::{self, Loader, Loads, Wanted, is_version_of};
use std::ffi::OsString;
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
    pub fn preloaded(self) -> &'static str {
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
    let is = |library| is_version_of(name, library);
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

/// Whether a library's name is that of an MPI.
pub fn is_mpi_library(name: &str) -> bool {
    known(name).is_some()
}

/// Looks for a program whose MPI castell speaks, behind the launcher or behind nothing.
///
/// # Errors
/// The reason why there is none.
pub fn find(words: &[OsString], launcher: Option<&Launcher>) -> Result<Loads<Family>, String> {
    program::find(words, launcher, &Mpi { loader: Loader::of_this_machine() })
}

struct Mpi {
    loader: Loader,
}

impl Wanted for Mpi {
    type Served = Loads<Family>;

    fn program(&self, path: &Path, elf: &Elf) -> Option<Result<Loads<Family>, String>> {
        if let Some(found) = self.loader.find(path, known) {
            return Some(served(path, found));
        }
        let is_static = has_word(path, &["MPI_Init", "PMPI_Init"]);
        is_static.then(|| {
            let how = if elf.is_dynamic { "has MPI linked into itself" } else { "is linked statically" };
            Err(format!(
                "{} {how}: calls inside one file cannot be caught; link it with the MPI's shared library",
                path.display()
            ))
        })
    }

    /// The library that mpi4py loads into this interpreter. The module is imported, MPI is not initialised.
    fn python(&self, interpreter: &Path) -> Result<Loads<Family>, String> {
        const PROBE: &str = "import mpi4py\nmpi4py.rc.initialize = False\nmpi4py.rc.finalize = False\nfrom mpi4py import MPI\n\
                             for line in open('/proc/self/maps'):\n    print('maps', line.split(None, 5)[-1].strip())\n";
        let shown = interpreter.display();
        let output = Command::new(interpreter).args(["-c", PROBE]).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{shown} cannot be asked for its mpi4py: {error}"))?;
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
        Err(format!("{shown} has no mpi4py that can be imported ({why})"))
    }

    fn nothing(&self, candidate: Option<&str>) -> String {
        match candidate {
            Some(program) => format!(
                "{program} loads no MPI library that can be seen (if it opens one by itself, name it: --mpi ompi|mpich|abi)"
            ),
            None => "there is no program behind the launcher that can be found from here (--mpi ompi|mpich|abi names its MPI)".into(),
        }
    }
}

fn served(
    program: &Path,
    (known, library, place): (Known, String, PathBuf),
) -> Result<Loads<Family>, String> {
    match known {
        Known::Served(kind) => Ok(Loads { kind, program: program.to_owned(), library, place }),
        Known::Foreign => Err(format!(
            "{} loads {library}, whose binary interface castell does not speak (libmpi.so.40, libmpi.so.12, libmpich.so.12 and \
             libmpi_abi.so it does)",
            program.display()
        )),
    }
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
}
