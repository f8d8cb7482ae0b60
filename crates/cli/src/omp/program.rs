//! The OpenMP library that a program loads.

use crate::preload::elf::{Elf, has_word};
use crate::preload::launcher::Launcher;
use crate::preload::program::{self, Loader, Loads, Wanted, is_version_of};
use std::ffi::OsString;
use std::path::Path;

/// Whose an OpenMP library is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// GCC's: libgomp.
    Gcc,
    /// LLVM's and Intel's: libomp and libiomp5.
    Llvm,
    /// One whose interface castell does not speak.
    Other,
}

impl std::fmt::Display for Whose {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Whose::Gcc => "GCC's OpenMP library",
            Whose::Llvm => "LLVM's OpenMP library",
            Whose::Other => "an OpenMP library of another interface",
        })
    }
}

/// An OpenMP library, by its name.
fn known(name: &str) -> Option<Whose> {
    let is = |library| is_version_of(name, library);
    if is("libgomp.so") {
        Some(Whose::Gcc)
    } else if is("libomp.so") || is("libomp5.so") || is("libiomp5.so") {
        Some(Whose::Llvm)
    } else if is("libnvomp.so") || is("libcraymp.so") || is("libxlsmp.so") || is("libfjomp.so") {
        Some(Whose::Other)
    } else {
        None
    }
}

/// What an OpenMP library that is linked into a program leaves there, also where the names of its functions are gone.
const TRACES: [&str; 3] = ["GOMP_parallel", "__kmpc_fork_call", "OMP_NUM_THREADS"];

/// Looks for a program whose OpenMP tasks can be castell's, behind the launcher or behind nothing.
///
/// # Errors
/// The reason why there is none, and what to do.
pub fn find(words: &[OsString], launcher: Option<&Launcher>) -> Result<Loads<Whose>, String> {
    program::find(words, launcher, &OpenMp { loader: Loader::of_this_machine() })
}

struct OpenMp {
    loader: Loader,
}

impl Wanted for OpenMp {
    type Served = Loads<Whose>;

    fn program(&self, path: &Path, elf: &Elf) -> Option<Result<Loads<Whose>, String>> {
        let shown = path.display();
        if let Some((kind, library, place)) = self.loader.find(path, known) {
            return Some(match kind {
                Whose::Gcc | Whose::Llvm => Ok(Loads { kind, program: path.to_owned(), library, place }),
                Whose::Other => Err(format!(
                    "{shown} loads {library}, whose interface castell does not speak: compile it with gcc, clang or icx"
                )),
            });
        }
        has_word(path, &TRACES).then(|| {
            let how = if elf.is_dynamic { "has its OpenMP library linked into itself" } else { "is linked statically" };
            Err(format!(
                "{shown} {how}: calls inside one file cannot be caught. Link it without -static, with the shared OpenMP library \
                 (libgomp.so, libomp.so)"
            ))
        })
    }

    fn python(&self, interpreter: &Path) -> Result<Loads<Whose>, String> {
        Err(format!(
            "{} shows only while it runs which OpenMP library its modules load (--anyway goes on)",
            interpreter.display()
        ))
    }

    fn nothing(&self, candidate: Option<&str>) -> String {
        match candidate {
            Some(program) => format!(
                "{program} loads no OpenMP library that can be seen: compile and link it with -fopenmp (if it opens one while it runs, \
                 --anyway goes on)"
            ),
            None => "there is no program behind the launcher that can be found from here (--anyway goes on)"
                .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_apart_by_their_names() {
        for (name, expected) in [
            ("libgomp.so.1", Some(Whose::Gcc)),
            ("libomp.so.5", Some(Whose::Llvm)),
            ("libomp.so", Some(Whose::Llvm)),
            ("libiomp5.so", Some(Whose::Llvm)),
            ("libnvomp.so", Some(Whose::Other)),
            ("libgomp-plugin-nvptx.so.1", None),
            ("libompitrace.so.40", None),
            ("libompstub.so", None),
        ] {
            assert_eq!(known(name), expected, "{name}");
        }
    }
}
