//! castell as a user finds it: installed under a prefix, found through pkg-config. For tests of C and C++ programs.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A prefix with castell in it.
pub struct Installed {
    /// Where `bin`, `include` and `lib` are.
    pub prefix: PathBuf,
    /// What pkg-config says a program is built with.
    flags: Vec<String>,
}

impl Installed {
    /// Installs what this workspace builds into a folder of that name below the target folder.
    pub fn new(name: &str) -> Installed {
        Installed::with(name, &[])
    }

    /// The same with more arguments of `cargo xtask install`.
    pub fn with(name: &str, arguments: &[&str]) -> Installed {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let (target, profile) = target_and_profile();
        let mut install = cargo();
        install.args([
            "run",
            "--quiet",
            "--locked",
            "-p",
            "xtask",
            "--",
            "install",
            "--profile",
            profile,
            "--prefix",
        ]);
        output(install.arg(&prefix).args(arguments).env("CARGO_TARGET_DIR", target).current_dir(root()));
        let mut pkg_config = Command::new("pkg-config");
        pkg_config
            .args(["--cflags", "--libs", "castell"])
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let flags = output(&mut pkg_config).split_whitespace().map(str::to_owned).collect();
        Installed { prefix, flags }
    }

    /// Compiles a C or C++ source against the installed library and returns the program. No warnings are accepted.
    pub fn compile(&self, source: &Path) -> PathBuf {
        let is_c = source.extension().is_some_and(|extension| extension == "c");
        self.compile_by(if is_c { "gcc" } else { "g++" }, source)
    }

    /// The same by a compiler of that name.
    pub fn compile_by(&self, compiler: &str, source: &Path) -> PathBuf {
        let extension =
            source.extension().and_then(|extension| extension.to_str()).expect("a source has one");
        let stem = source.file_stem().and_then(|stem| stem.to_str()).expect("a source has a name");
        self.compile_with(&mut Command::new(compiler), source, &format!("{stem}_{extension}_{compiler}"))
    }

    /// The same with a compiler that has an environment of its own, as a program of this name.
    pub fn compile_with(&self, compiler: &mut Command, source: &Path, name: &str) -> PathBuf {
        let extension =
            source.extension().and_then(|extension| extension.to_str()).expect("a source has one");
        let program = self.prefix.join(name);
        compiler.arg(if extension == "c" { "-std=c11" } else { "-std=c++17" });
        compiler.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread"]);
        output(
            self.link(compiler.arg("-I").arg(root().join("examples")).arg("-o").arg(&program).arg(source)),
        );
        program
    }

    /// Adds what a compiler is told so that its program finds the library, behind its sources.
    pub fn link<'a>(&self, compiler: &'a mut Command) -> &'a mut Command {
        compiler.args(&self.flags).arg(format!("-Wl,-rpath,{}", self.prefix.join("lib").display()))
    }
}

/// The sources in a folder of the repository, in order of their names.
pub fn sources(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let paths = entries.map(|entry| entry.expect("a folder can be listed").path());
    let is_source =
        |path: &PathBuf| path.extension().is_some_and(|extension| extension == "c" || extension == "cpp");
    let mut sources: Vec<PathBuf> = paths.filter(is_source).collect();
    sources.sort();
    assert!(!sources.is_empty(), "there are no sources in {folder}");
    sources
}

/// Cargo, which hears nothing of the package that this test belongs to: ring's build script asks for its variables, runs again where they
/// have changed, and everything above it would be built again.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    let of_a_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_a_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Runs a command to its end and returns what it printed; it must succeed.
pub fn output(command: &mut Command) -> String {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?} is needed for this test: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}:\n{out}{err}", output.status);
    out.into_owned()
}

/// The repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().and_then(Path::parent).expect("crates lie two folders down").to_owned()
}

/// This test lies in `<target>/<profile>/deps`; what it tests is built with the same profile beside it.
pub fn target_and_profile() -> (PathBuf, &'static str) {
    let test = std::env::current_exe().expect("a program knows its path");
    let folder = test.parent().and_then(Path::parent).expect("tests lie in deps");
    let profile = if folder.ends_with("release") { "release" } else { "dev" };
    (folder.parent().expect("profiles lie in the target folder").to_owned(), profile)
}
