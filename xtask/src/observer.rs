//! Builds the observer of memory accesses (`tools/distances`): a tool for Valgrind, under the GPL, a program of its own.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Its file; `castell` looks for it under this name.
pub const FILE: &str = "castell-amd64-linux";
const SOURCE: &str = "tools/distances/observer.c";

/// Builds it, unless it is newer than its source.
pub fn run(root: &Path) -> anyhow::Result<ExitCode> {
    println!("observer: {}", build(root)?.display());
    Ok(ExitCode::SUCCESS)
}

/// Where it lies when it is built: `target/observer`.
pub fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = root.join(target).join("observer");
    let (source, file) = (root.join(SOURCE), folder.join(FILE));
    if modified(&file).is_some_and(|built| modified(&source).is_some_and(|source| source < built)) {
        return Ok(file);
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let object = folder.join("observer.o");
    let mut compile = Command::new("gcc");
    // Tools have no C library and run at an address of their own.
    compile.args(["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]);
    compile.args(["-fno-builtin", "-fno-pie", "-fno-stack-protector", "-fno-strict-aliasing"]);
    compile.args(["-DVGA_amd64=1", "-DVGO_linux=1", "-DVGP_amd64_linux=1", "-DVGPV_amd64_linux_vanilla=1"]);
    compile.args(valgrind(&["--cflags"])?).arg("-c").arg(&source).arg("-o").arg(&object);
    succeed(compile)?;
    let address = valgrind(&["--variable=valt_load_address"])?.concat();
    let mut link = Command::new("gcc");
    link.args([
        "-static",
        "-nodefaultlibs",
        "-nostartfiles",
        "-no-pie",
        "-u",
        "_start",
        "-Wl,--build-id=none",
    ]);
    link.arg(format!("-Wl,-Ttext-segment={address}"))
        .arg(&object)
        .args(valgrind(&["--libs"])?)
        .arg("-o")
        .arg(&file);
    succeed(link)?;
    Ok(file)
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().ok()?.modified().ok()
}

fn valgrind(question: &[&str]) -> anyhow::Result<Vec<String>> {
    let output = Command::new("pkg-config").args(question).arg("valgrind").output();
    let output = output.context("pkg-config is not there: `cargo xtask setup` installs it")?;
    if !output.status.success() {
        bail!("Valgrind's headers are not there: `cargo xtask setup` installs them");
    }
    Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect())
}

fn succeed(mut command: Command) -> anyhow::Result<()> {
    let status = command.status().context("gcc is not there: `cargo xtask setup` installs it")?;
    if !status.success() {
        bail!("`{command:?}` ended with {status}");
    }
    Ok(())
}
