//! Builds the preload library for programs of an MPI (`doors/mpi`), by that MPI's compiler.

use crate::command::succeed;
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The families of binary interfaces: what its library is called, and a macro of its headers, in the order of asking.
const FAMILIES: [(&str, &str); 4] = [
    ("ompi", "OPEN_MPI"),
    ("mpich", "MPICH_VERSION"),
    ("mpich", "I_MPI_VERSION"),
    ("abi", "MPI_ABI_VERSION"),
];

/// Builds it into the folder where `libcastell.so` lies, and says under which name; `None`: there is no such compiler.
///
/// # Errors
/// The compiler does not know an MPI of these families, or refuses the sources.
pub fn build(root: &Path, mpicc: &Path, libraries: &Path) -> anyhow::Result<Option<PathBuf>> {
    let sources = root.join("doors/mpi");
    let mpicc = &wherever_started(mpicc)?;
    let mut ask = Command::new(mpicc);
    let Ok(answer) = ask.args(["-E", "-dM", "-x", "c", "-include", "mpi.h", "/dev/null"]).output() else {
        return Ok(None);
    };
    let macros = String::from_utf8_lossy(&answer.stdout);
    let has = |name: &str| macros.lines().any(|line| line.split_whitespace().nth(1) == Some(name));
    let Some((family, _)) = FAMILIES.iter().find(|(_, name)| has(name)) else {
        let said = String::from_utf8_lossy(&answer.stderr);
        bail!(
            "{} is no compiler of Open MPI, MPICH, Intel MPI or the ABI of MPI 5:\n{said}",
            mpicc.display()
        );
    };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let objects = root.join(target).join("mpi-door").join(family);
    std::fs::create_dir_all(&objects).with_context(|| objects.display().to_string())?;
    let mut compile = Command::new(mpicc);
    compile.args([
        "-std=gnu11",
        "-O2",
        "-g",
        "-fPIC",
        "-ftls-model=initial-exec",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]);
    compile.arg("-I").arg(root.join("include")).arg("-I").arg(&sources).arg("-c");
    let names: Vec<PathBuf> = c_files(&sources)?;
    succeed(compile.args(&names).current_dir(&objects))?;
    // Of the MPI only what programs refer to as data is linked: others of its family have other names.
    let mut link = if *family == "ompi" { Command::new(mpicc) } else { Command::new("cc") };
    let file = libraries.join(format!("libcastell_mpi_{family}.so"));
    link.arg("-shared").arg("-o").arg(&file);
    for name in &names {
        link.arg(objects.join(name.with_extension("o").file_name().unwrap_or_default()));
    }
    link.arg("-L").arg(libraries).args([
        "-lcastell",
        "-ldl",
        "-lpthread",
        "-Wl,-rpath,$ORIGIN",
        "-Wl,-z,lazy",
    ]);
    succeed(&mut link)?;
    Ok(Some(file))
}

/// A path is meant from here, wherever its program is started; a name without a folder is looked for.
fn wherever_started(program: &Path) -> std::io::Result<PathBuf> {
    if program.components().count() == 1 { Ok(program.to_owned()) } else { std::path::absolute(program) }
}

fn c_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_is_meant_from_here() {
        let found = |path| wherever_started(Path::new(path)).expect("a folder to be in");
        assert_eq!(found("mpicc.mpich"), Path::new("mpicc.mpich"));
        assert_eq!(found("/opt/mpi/bin/mpicc"), Path::new("/opt/mpi/bin/mpicc"));
        let here = std::env::current_dir().expect("a folder to be in");
        assert_eq!(found("target/mpi/bin/mpicc"), here.join("target/mpi/bin/mpicc"));
    }
}
