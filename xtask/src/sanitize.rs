//! Looks for wrong uses of memory: the tests of the rooms with `unsafe` under the address sanitizer, the C and C++ programs
//! under valgrind, the task runtime's tests in Miri.
//!
//! The sanitizer needs no nightly compiler (`fuzz` says why). Tests that start C programs are left to valgrind, since the
//! sanitizer's runtime would have to be in those, too. Miri interprets the program: it sees data races, and what is read through a
//! pointer that may not, also within a slab; but it has no shared memory between processes and takes far longer.

use crate::command;
use crate::command::{host, succeed};
use crate::instructions::TASK_PATHS;
use crate::setup::find_program;
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Arguments of `cargo xtask sanitize`.
#[derive(clap::Args)]
pub struct Args {
    /// Only one of them
    #[arg(value_enum)]
    only: Option<Tool>,
    /// Only these rooms' tests (default: all with `unsafe`), for `address`
    #[arg(long, value_name = "ROOM")]
    room: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tool {
    /// The address sanitizer
    Address,
    /// Valgrind's memcheck
    Valgrind,
    /// Miri
    Miri,
}

/// The rooms whose tests run under the address sanitizer, and which of their tests (none: all).
const ROOMS: [(&str, &[&str]); 9] = [
    ("host", &[]),
    ("shm", &[]),
    ("queues", &[]),
    ("launch", &[]),
    ("engine", &[]),
    ("coll", &[]),
    ("comm", &[]),
    ("tasks", &[]),
    ("capi", &["--lib", "--test", "registry"]),
];
const FOLDER: &str = "target/sanitize";
/// Programs that valgrind watches, in the groups that they are started as.
const PROGRAMS: [(&str, &[u32]); 5] = [
    ("examples/c", &[1, 3]),
    ("examples/cpp", &[3]),
    ("examples/tasks", &[1]),
    ("crates/capi/tests/c", &[1]),
    ("crates/capi/tests/c/ranks", &[1, 3]),
];
/// Programs that cannot run under valgrind, and why.
const LEFT_OUT: [(&str, &str); 2] = [
    ("init_by.c", "valgrind has no room for the shared memory that four ranks of one process tree reserve"),
    ("tasks.c", "it writes where it may not, to be told of it, and what its fork inherits is lost there"),
];
/// How valgrind ends a program in which it found something.
const FOUND: &str = "97";

/// The tests of the task runtime, by their modules, that end within minutes in Miri.
const INTERPRETED: [&str; 2] = ["data::", "clauses::"];

/// Runs all, or the one that was asked for.
///
/// # Errors
/// One of them found something, or could not run.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let wanted = |tool| args.only.is_none_or(|only| only == tool);
    let address = if wanted(Tool::Address) { address(root, &args.room) } else { Ok(()) };
    let valgrind = if wanted(Tool::Valgrind) { valgrind(root) } else { Ok(()) };
    let miri = if wanted(Tool::Miri) { miri(root) } else { Ok(()) };
    address.and(valgrind).and(miri).map(|()| ExitCode::SUCCESS)
}

/// The rooms' tests, built with the sanitizer.
fn address(root: &Path, rooms: &[String]) -> anyhow::Result<()> {
    if let Some(unknown) = rooms.iter().find(|name| ROOMS.iter().all(|(room, _)| room != name)) {
        bail!("no tests of `{unknown}` run here; there are {}", ROOMS.map(|(room, _)| room).join(", "));
    }
    let host = host()?;
    let mut found = Vec::new();
    for (room, tests) in ROOMS {
        if !rooms.is_empty() && !rooms.iter().any(|name| name == room) {
            continue;
        }
        let mut cargo = command::cargo();
        cargo.args(["test", "--locked", "--no-fail-fast", "-p", &format!("castell-{room}")]);
        // Documentation tests are built by rustdoc, which takes other flags.
        cargo.args(if tests.is_empty() { &["--lib", "--tests"][..] } else { tests });
        cargo.args(["--target-dir", FOLDER, "--target", &host]).current_dir(root);
        cargo.envs([
            ("RUSTC_BOOTSTRAP", "1"),
            ("RUSTFLAGS", "-Zsanitizer=address"),
            // Tests end threads and processes in the middle of what they do: what those had allocated is no finding.
            ("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=1:allow_user_segv_handler=1"),
        ]);
        if let Err(error) = succeed(&mut cargo) {
            found.push(format!("{room}: {error:#}"));
        }
    }
    if !found.is_empty() {
        bail!("under the address sanitizer failed\n  {}", found.join("\n  "));
    }
    Ok(())
}

/// Every C and C++ program of examples and tests, each rank under valgrind.
fn valgrind(root: &Path) -> anyhow::Result<()> {
    let valgrind = find_program("valgrind").context("not installed (cargo xtask setup): valgrind")?;
    let prefix = root.join(FOLDER).join("prefix");
    let mut install = Command::new(std::env::current_exe()?);
    install.args(["install", "--profile", "dev", "--prefix"]).arg(&prefix).current_dir(root);
    succeed(&mut install)?;
    let mut found = Vec::new();
    for (folder, groups) in PROGRAMS {
        for source in sources(&root.join(folder))? {
            let left_out = LEFT_OUT.iter().find(|(name, _)| source.ends_with(name));
            if let Some((name, reason)) = left_out {
                println!("   without {name}: {reason}");
                continue;
            }
            let program = match compile(root, &prefix, &source) {
                Ok(program) => program,
                Err(error) => {
                    found.push(format!("{error:#}"));
                    continue;
                }
            };
            for ranks in groups {
                let mut watched = Command::new(prefix.join("bin/castell"));
                watched.args(["launch", "--timeout", "300s", "-n", &ranks.to_string(), "--"]);
                watched.arg(&valgrind).args(["--quiet", &format!("--error-exitcode={FOUND}")]);
                // What is kept until the end is no finding, though only something inside may point to it.
                watched.args(["--leak-check=full", "--show-leak-kinds=definite"]);
                let others = root.join("xtask/valgrind.supp");
                watched.arg("--errors-for-leak-kinds=definite");
                watched.arg(format!("--suppressions={}", others.display())).arg(&program);
                if let Err(error) = succeed(&mut watched) {
                    found.push(format!("{error:#}"));
                }
            }
        }
    }
    if !found.is_empty() {
        bail!("under valgrind failed\n  {}", found.join("\n  "));
    }
    Ok(())
}

/// The task runtime, interpreted. Files are read (the machine's topology), which Miri wants to be told.
fn miri(root: &Path) -> anyhow::Result<()> {
    let has_miri = command::cargo().args(["+nightly", "miri", "--version"]).output();
    if !has_miri.is_ok_and(|output| output.status.success()) {
        let mut install = Command::new("rustup");
        install.args(["toolchain", "install", "nightly", "--profile", "minimal"]);
        succeed(install.args(["--component", "miri", "--component", "rust-src"]))?;
    }
    let mut found = Vec::new();
    let mut interpret = |words: &[&str], program: &[&str]| {
        let mut cargo = command::cargo();
        cargo.args(["+nightly", "miri"]).args(words).args(["--locked", "-p", "castell-tasks"]);
        cargo.args(["--target-dir", &format!("{FOLDER}/miri"), "--"]).args(program).current_dir(root);
        cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        found.extend(succeed(&mut cargo).err().map(|error| format!("{}: {error:#}", words.join(" "))));
    };
    for path in TASK_PATHS {
        interpret(&["run", "--example", "hot_paths"], &[path, "64"]);
    }
    for module in INTERPRETED {
        interpret(&["test", "--test", "runtime"], &[module, "--test-threads=1"]);
    }
    if !found.is_empty() {
        bail!("in Miri failed\n  {}", found.join("\n  "));
    }
    Ok(())
}

/// The C and C++ sources of a folder, in order of their names.
fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let is_source = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "c" || ending == "cpp");
    let mut sources: Vec<PathBuf> = paths.into_iter().filter(is_source).collect();
    sources.sort();
    Ok(sources)
}

/// Builds a program against what was installed.
fn compile(root: &Path, prefix: &Path, source: &Path) -> anyhow::Result<PathBuf> {
    let is_c = source.extension().is_some_and(|ending| ending == "c");
    let name = source.file_name().context("a source has a name")?.to_string_lossy().replace('.', "_");
    let program = prefix.join("bin").join(name);
    let mut compiler = Command::new(if is_c { "gcc" } else { "g++" });
    compiler.arg(if is_c { "-std=c11" } else { "-std=c++17" }).args(["-O1", "-g", "-pthread"]);
    compiler.arg("-I").arg(prefix.join("include")).arg("-I").arg(root.join("examples")).arg(source);
    compiler.arg("-L").arg(prefix.join("lib")).arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()));
    compiler.args(["-lcastell", "-lm"]);
    if std::fs::read_to_string(source)?.contains("openblas") {
        compiler.arg("-lopenblas");
    }
    succeed(compiler.arg("-o").arg(&program))?;
    Ok(program)
}
