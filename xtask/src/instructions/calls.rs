//! Calls of the C library, as a C program makes them.
//!
//! The second of two ranks runs as ever; the first one runs under valgrind, which counts what its calling thread does inside the
//! exported functions and writes it down after each call. The ranks meet before each, and the least is taken: the other rank has
//! been there already and is awake, so that nothing is waited for and nobody woken.

use super::Build;
use crate::install::Version;
use anyhow::{Context as _, bail};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A path of benches/c/hot_calls.c.
struct CallPath {
    /// Under which its count is stored.
    name: &'static str,
    /// Its name there.
    path: &'static str,
    ranks: u32,
    /// The functions that a call consists of, in their order.
    functions: &'static [&'static str],
}

const PATHS: [CallPath; 6] = [
    CallPath { name: "c-send", path: "send", ranks: 2, functions: &["GOAL_Run", "GOAL_Wait"] },
    CallPath { name: "c-send-large", path: "send-large", ranks: 2, functions: &["GOAL_Run", "GOAL_Wait"] },
    CallPath { name: "c-allreduce", path: "allreduce", ranks: 2, functions: &["castell_allreduce"] },
    CallPath {
        name: "c-iallreduce",
        path: "iallreduce",
        ranks: 2,
        functions: &["castell_iallreduce", "castell_wait"],
    },
    CallPath { name: "c-allreduce-one", path: "allreduce", ranks: 1, functions: &["castell_allreduce"] },
    CallPath { name: "c-barrier-one", path: "barrier", ranks: 1, functions: &["castell_barrier"] },
];

/// The library as it is shipped.
pub const BUILD: Build = Build(&["-p", "castell-capi", "--lib"]);

/// Of which the least is taken: a busy machine lets the ranks meet in some of them only.
const CALLS: u32 = 400;
/// Rank 0 is counted.
const AS_A_RANK: &str = r#"[ "$CASTELL_RANK" = 0 ] && exec $COUNTED_BY "$@"; exec "$@""#;
/// What memcpy does beyond so many instructions depends on the processor: valgrind counts one a byte.
const MOVING_MAX: u64 = 4096;

/// So often a path is counted, while it is longer than it should be: on a very busy machine the ranks may not meet in any call.
const TRIES: u32 = 3;

/// Tells `note` of each path and its instructions a call. Where that `is_longer` than it should be, other runs may have fewer.
pub fn count(
    root: &Path,
    valgrind: &Path,
    is_longer: impl Fn(&str, f64) -> bool,
    mut note: impl FnMut(&'static str, f64),
) -> anyhow::Result<()> {
    build(root)?;
    for path in &PATHS {
        let mut count = count_path(root, valgrind, path)?;
        for _ in 1..TRIES {
            if is_longer(path.name, count) {
                count = count.min(count_path(root, valgrind, path)?);
            }
        }
        note(path.name, count);
    }
    Ok(())
}

/// The library, the program against it, and the launcher as tests have it.
fn build(root: &Path) -> anyhow::Result<()> {
    BUILD.run(root)?;
    let built = root.join(super::TARGET).join("release");
    super::locals::check(&built.join("deps"))?;
    let soname = built.join(Version::of_workspace(root)?.soname());
    if soname.symlink_metadata().is_err() {
        std::os::unix::fs::symlink("libcastell.so", &soname).with_context(|| soname.display().to_string())?;
    }
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-Iinclude", "benches/c/hot_calls.c"]);
    compiler.arg("-L").arg(&built).arg(format!("-Wl,-rpath,{}", built.display()));
    compiler.arg("-lcastell").arg("-o").arg(built.join("hot_calls"));
    super::finish(root, compiler, "gcc")?;
    let mut cargo = crate::command::cargo();
    // By way of a test: without what tests need other features are chosen, and all is built a second time.
    cargo.args(["test", "--no-run", "--locked", "--workspace", "--test", "launch", "--target-dir", "target"]);
    super::finish(root, cargo, "cargo")
}

/// The fewest instructions of a call.
fn count_path(root: &Path, valgrind: &Path, path: &CallPath) -> anyhow::Result<f64> {
    let folder = format!("{}/{}", super::TARGET, path.name);
    // What an earlier run has written.
    let _ = std::fs::remove_dir_all(root.join(&folder));
    std::fs::create_dir_all(root.join(&folder))?;
    let mut counted_by = format!(
        "{} --tool=callgrind --collect-atstart=no --compress-strings=no --callgrind-out-file={folder}/counted",
        valgrind.display()
    );
    for function in path.functions {
        write!(counted_by, " --toggle-collect={function}")?;
    }
    let last = path.functions.last().context("a call consists of functions")?;
    write!(counted_by, " --dump-after={last}")?;
    let mut command = Command::new("target/debug/castell");
    command.args(["launch", "-n", &path.ranks.to_string(), "--", "sh", "-c", AS_A_RANK, "sh"]);
    command.arg(format!("{}/release/hot_calls", super::TARGET)).args([
        path.path,
        &CALLS.to_string(),
        &format!("{folder}/meet"),
    ]);
    // Cargo's has other builds of the library.
    command.env("COUNTED_BY", counted_by).env_remove("LD_LIBRARY_PATH");
    let output =
        command.current_dir(root).stdin(Stdio::null()).output().context("could not start castell")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`castell launch` on {} ended with {}:\n{said}", path.name, output.status);
    }
    let mut least = None;
    for entry in std::fs::read_dir(root.join(&folder))? {
        let path = entry?.path();
        // The last one is written at the program's end, and is of no call; another is where the ranks meet.
        if path.ends_with("meet") {
            continue;
        }
        let text = std::fs::read_to_string(path)?;
        if text.contains("Trigger: --dump-after") {
            let count = instructions(&text).with_context(|| format!("callgrind wrote no sum:\n{text}"))?;
            least = Some(least.map_or(count, |least: u64| least.min(count)));
        }
    }
    let least = least.with_context(|| format!("callgrind has counted no call of {}", path.name))?;
    Ok(least as f64)
}

/// Instructions of a call, without those that move much data.
fn instructions(text: &str) -> Option<u64> {
    let sum: u64 = text.lines().find_map(|line| line.strip_prefix("summary: "))?.trim().parse().ok()?;
    let mut lines = text.lines();
    let mut moved = 0;
    while let Some(line) = lines.next() {
        let called = line.strip_prefix("cfn=").unwrap_or_default();
        if called.contains("memcpy") || called.contains("memmove") {
            // `calls=...`, then where from and the instructions.
            let cost = lines.nth(1).and_then(|line| line.split_whitespace().nth(1));
            let cost: u64 = cost.and_then(|cost| cost.parse().ok())?;
            moved += if cost > MOVING_MAX { cost } else { 0 };
        }
    }
    sum.checked_sub(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_much_data_is_left_out() {
        let call = |cost: u64| format!("fn=send\ncfn=__memcpy_avx\ncalls=1 264\n0 {cost}\n0 7\n");
        let text = format!("positions: line\nsummary: 20010\n\n{}{}", call(10_000), call(10));
        assert_eq!(instructions(&text), Some(10_010));
        assert_eq!(instructions("positions: line\n"), None);
    }
}
