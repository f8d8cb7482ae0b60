//! Programs of `tests/programs`, compiled, and the library that is loaded before theirs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Nothing here takes a second; what does not end hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Program {
    /// By GCC, for libgomp.
    pub path: PathBuf,
    /// By clang, for libomp.
    pub by_llvm: Option<PathBuf>,
}

impl Program {
    /// Compiles a source of `tests/programs`.
    pub fn new(source: &str) -> Program {
        Program::compile(&Path::new("tests/programs").join(source))
    }

    /// Compiles a source below this crate's folder, for this test alone: what another test of the same source runs
    /// meanwhile must not be written over.
    pub fn compile(source: &Path) -> Program {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let thread = std::thread::current();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(thread.name().expect("tests have names"));
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        let path = folder.join(from.file_stem().expect("sources have names"));
        const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-foffload=disable"];
        // What stands in a depend clause only counts as unused.
        const C: &[&str] = &["-std=gnu11", "-Wno-unused-variable"];
        const CPP: &[&str] = &["-std=c++17"];
        let (gcc, clang, standard): (_, _, &[&str]) = match from.extension().and_then(|end| end.to_str()) {
            Some("c") => ("gcc", Some("clang"), C),
            Some("cpp") => ("g++", Some("clang++"), CPP),
            _ => ("gfortran", None, &[]),
        };
        let made = |compiler: &str, options: &[&str], path: PathBuf| {
            let mut command = Command::new(compiler);
            command.args(["-O1", "-g", "-fopenmp", "-pthread"]).args(standard).args(options).arg(&from);
            let output = command.arg("-o").arg(&path).output();
            let output =
                output.unwrap_or_else(|error| panic!("{compiler}: {error}; `cargo xtask setup` installs it"));
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler} {}:\n{said}", source.display());
            path
        };
        let by_llvm = clang.map(|clang| made(clang, &["-w"], path.with_extension("llvm")));
        Program { path: made(gcc, &STRICT, path), by_llvm }
    }

    /// What a program prints, with castell if there is a `door`.
    pub fn run(
        path: &Path,
        arguments: &[&str],
        threads: u32,
        variables: &[(&str, &str)],
        door: Option<&Path>,
    ) -> String {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE.as_secs().to_string()).arg(path).args(arguments);
        command.env("OMP_NUM_THREADS", threads.to_string()).envs(variables.iter().copied());
        if let Some(door) = door {
            command.env("LD_PRELOAD", door);
        }
        let output = command.output().expect("timeout is a part of every system");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let with = if door.is_some() { "with" } else { "without" };
        assert!(
            output.status.success() && !err.contains("castell"),
            "{} {arguments:?} on {threads} threads, {with} castell, ended with {}:\n{out}{err}",
            path.display(),
            output.status
        );
        out.into_owned()
    }
}

/// The library, built with this test.
pub fn door() -> PathBuf {
    let test = std::env::current_exe().expect("a program knows its path");
    let folder = test.parent().expect("tests lie in a folder");
    let door = folder.join("libcastell_omp.so");
    assert!(door.exists(), "{} was not built with this test", door.display());
    door
}
