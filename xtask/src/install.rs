//! Puts what users need under a prefix: the libraries, the header, the program, files for pkg-config and CMake.
//!
//! ```text
//! bin/castell  include/{goal.h,castell.h,castell_tasks.h,castell_tasks.hpp,castell_vertices.h,castell_kernels.h,alpi.h}
//! lib/libcastell.{a,so,so.0.1,so.0.1.0}  lib/libcastell_omp.so  lib/libcastell_mpi_{ompi,mpich,abi}.so
//! lib/pkgconfig/castell.pc  lib/cmake/castell/*.cmake
//! share/man/man1/castell*.1  share/bash-completion/completions/castell  share/zsh/site-functions/_castell
//! share/fish/vendor_completions.d/castell.fish
//! share/doc/castell/{LICENSE-*,README.md,CHANGELOG.md}
//! ```

use crate::command;
use crate::{mpi_door, observer};
use anyhow::{Context as _, bail};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Arguments of `cargo xtask install`.
#[derive(clap::Args)]
pub struct Args {
    /// Folder to install into; where the files will be looked for
    #[arg(long, default_value = "/usr/local", value_name = "DIR")]
    prefix: PathBuf,
    /// Folder of the libraries, below the prefix
    #[arg(long, default_value = "lib", value_name = "DIR")]
    libdir: PathBuf,
    /// Put in front of every path that is written (for packages)
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
    /// Also the preload library for this MPI, by its compiler wrapper; may be given several times, and one that is not there is
    /// left out
    #[arg(long, value_name = "MPICC")]
    mpi: Vec<PathBuf>,
    /// Cargo profile to build with
    #[arg(long, default_value = "release", value_name = "NAME")]
    profile: String,
}

/// What a program needs besides a static libcastell (`rustc --print native-static-libs`).
const SYSTEM_LIBRARIES: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

/// Builds and copies.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let prefix = std::path::absolute(&args.prefix)?;
    if !args.libdir.components().all(|part| matches!(part, Component::Normal(_))) {
        bail!("--libdir {} has to be a folder below the prefix, such as lib", args.libdir.display());
    }
    let built = build(root, &args.profile)?;
    let version = Version::of_workspace(root)?;
    let target = match &args.destdir {
        Some(destdir) => std::path::absolute(destdir)?.join(prefix.strip_prefix("/").unwrap_or(&prefix)),
        None => prefix.clone(),
    };
    let libraries = target.join(&args.libdir);
    copy(&built.join("castell"), &target.join("bin/castell"), 0o755)?;
    for header in [
        "goal.h",
        "castell.h",
        "castell_tasks.h",
        "castell_tasks.hpp",
        "castell_vertices.h",
        "castell_kernels.h",
        "alpi.h",
    ] {
        copy(&root.join("include").join(header), &target.join("include").join(header), 0o644)?;
    }
    copy(&built.join("libcastell.a"), &libraries.join("libcastell.a"), 0o644)?;
    // Not where Valgrind's headers are missing: only `castell distances` needs it, and says so.
    match observer::build(root) {
        Ok(file) => copy(&file, &libraries.join("castell").join(observer::FILE), 0o755)?,
        Err(error) => println!("without `castell distances`: {error:#}"),
    }
    copy(&built.join("libcastell_omp.so"), &libraries.join("libcastell_omp.so"), 0o755)?;
    let shared = version.shared_file();
    copy(&built.join("libcastell.so"), &libraries.join(&shared), 0o755)?;
    link(&shared, &libraries.join(version.soname()))?;
    link(&version.soname(), &libraries.join("libcastell.so"))?;
    for mpicc in &args.mpi {
        match mpi_door::build(root, mpicc, &libraries)? {
            Some(file) => println!("for programs of the MPI of {}: {}", mpicc.display(), file.display()),
            None => {
                println!("without a library for the MPI of {}: there is no such program", mpicc.display())
            }
        }
    }
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root.join(file), &target.join("share/doc/castell").join(file), 0o644)?;
    }
    describe(&built.join("castell"), &target.join("share"))?;
    let values = version.values(&prefix, &args.libdir);
    for (template, place) in [
        ("castell.pc", "pkgconfig/castell.pc"),
        ("castell-config.cmake", "cmake/castell/castell-config.cmake"),
        ("castell-config-version.cmake", "cmake/castell/castell-config-version.cmake"),
    ] {
        let text = fs::read_to_string(root.join("packaging").join(format!("{template}.in")))
            .with_context(|| format!("packaging/{template}.in"))?;
        write(&libraries.join(place), &filled(&text, &values)?)?;
    }
    println!("installed castell {} in {}", version.text, target.display());
    Ok(ExitCode::SUCCESS)
}

/// Manual pages and what shells complete by, as the program itself has them.
fn describe(castell: &Path, share: &Path) -> anyhow::Result<()> {
    let printed = |arguments: &[&std::ffi::OsStr]| {
        let output = Command::new(castell).args(arguments).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            bail!("{}: {}", castell.display(), String::from_utf8_lossy(&output.stderr));
        }
        anyhow::Ok(String::from_utf8(output.stdout)?)
    };
    printed(&["man".as_ref(), "--all".as_ref(), share.join("man/man1").as_os_str()])?;
    for (shell, place) in [
        ("bash", "bash-completion/completions/castell"),
        ("zsh", "zsh/site-functions/_castell"),
        ("fish", "fish/vendor_completions.d/castell.fish"),
    ] {
        write(&share.join(place), &printed(&["completions".as_ref(), shell.as_ref()])?)?;
    }
    Ok(())
}

/// Builds program and libraries; returns the folder with what was built.
fn build(root: &Path, profile: &str) -> anyhow::Result<PathBuf> {
    // For tests: what they have built already. A smaller selection has other features, and would build everything again.
    let selection: &[&str] = match profile {
        "dev" => &["--workspace", "--lib", "--bins", "--examples"],
        _ => &["-p", "castell-capi", "-p", "castell-cli", "-p", "castell-omp"],
    };
    let status = command::cargo()
        .args(["build", "--locked", "--profile", profile])
        .args(selection)
        .current_dir(root)
        .stdin(Stdio::null())
        .status()
        .context("cargo cannot be started")?;
    if !status.success() {
        bail!("cargo build ended with {status}");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(target).join(if profile == "dev" { "debug" } else { profile }))
}

/// The workspace's version.
pub struct Version {
    text: String,
    major: String,
    minor: String,
}

impl Version {
    /// As Cargo.toml says.
    pub fn of_workspace(root: &Path) -> anyhow::Result<Version> {
        let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
        let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
        let text = line.and_then(|rest| rest.split('"').next()).context("Cargo.toml has no version")?;
        let mut parts = text.split('.').map(str::to_owned);
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Ok(Version { text: text.to_owned(), major, minor })
    }

    /// As in `crates/capi/build.rs`.
    pub fn soname(&self) -> String {
        let (major, minor) = (&self.major, &self.minor);
        if major == "0" { format!("libcastell.so.0.{minor}") } else { format!("libcastell.so.{major}") }
    }

    fn shared_file(&self) -> String {
        format!("libcastell.so.{}", self.text)
    }

    /// What the templates' words stand for.
    fn values(&self, prefix: &Path, libdir: &Path) -> Vec<(&'static str, String)> {
        // From <libdir>/cmake/castell up to the prefix.
        let up = "../".repeat(libdir.components().count() + 2);
        vec![
            ("PREFIX", prefix.display().to_string()),
            ("LIBDIR", format!("${{prefix}}/{}", libdir.display())),
            ("UP_TO_PREFIX", up),
            ("VERSION", self.text.clone()),
            ("MAJOR", self.major.clone()),
            ("MINOR", self.minor.clone()),
            ("SONAME", self.soname()),
            ("SHARED_FILE", self.shared_file()),
            ("SYSTEM_LIBRARIES", SYSTEM_LIBRARIES.to_owned()),
            ("SYSTEM_LIBRARY_LIST", SYSTEM_LIBRARIES.replace(' ', ";")),
        ]
    }
}

/// Puts the values in place of `@NAME@`.
fn filled(template: &str, values: &[(&str, String)]) -> anyhow::Result<String> {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    let left = text.split('@').nth(1).filter(|word| word.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    match left {
        Some(word) => bail!("a template asks for @{word}@, which nobody fills in"),
        None => Ok(text),
    }
}

fn copy(from: &Path, to: &Path, mode: u32) -> anyhow::Result<()> {
    make_room(to)?;
    fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn write(to: &Path, text: &str) -> anyhow::Result<()> {
    make_room(to)?;
    fs::write(to, text).with_context(|| format!("{}", to.display()))
}

fn link(points_to: &str, at: &Path) -> anyhow::Result<()> {
    make_room(at)?;
    symlink(points_to, at).with_context(|| format!("{}", at.display()))
}

/// The folder is there and the file is not: a program that uses the old one keeps it.
fn make_room(file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}", file.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_in_completely() {
        let root = crate::repository_root();
        let version = Version::of_workspace(&root).unwrap();
        let values = version.values(Path::new("/opt/castell"), Path::new("lib/x86_64-linux-gnu"));
        for template in ["castell.pc.in", "castell-config.cmake.in", "castell-config-version.cmake.in"] {
            let text = fs::read_to_string(root.join("packaging").join(template)).unwrap();
            let text = filled(&text, &values).unwrap();
            assert!(!text.contains('@'), "{template}: {text}");
        }
        assert!(filled("a @FORGOTTEN@ b", &values).is_err());
    }

    #[test]
    fn cmake_finds_the_prefix_from_any_libdir() {
        let version = Version { text: "1.2.3".to_owned(), major: "1".to_owned(), minor: "2".to_owned() };
        let values = version.values(Path::new("/usr"), Path::new("lib/x86_64-linux-gnu"));
        let up = values.iter().find(|(name, _)| *name == "UP_TO_PREFIX").map(|(_, value)| value.as_str());
        assert_eq!(up, Some("../../../../"));
        assert_eq!(version.soname(), "libcastell.so.1");
    }
}
