//! Builds the kernel's side with clang. Where there is none, the crate is built without it, and says so when it is used.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Where a clang that is installed later would be; cargo looks again as long as there is none.
const USUAL: &str = "/usr/bin/clang";

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let (object, why) = (out.join("schedules.o"), out.join("why.txt"));
    let outcome = compile(&object);
    if outcome.is_err() {
        fs::write(&object, []).expect("the folder for output can be written");
        println!("cargo::rerun-if-changed={USUAL}");
    }
    fs::write(why, outcome.err().unwrap_or_default()).expect("the folder for output can be written");
}

fn compile(object: &Path) -> Result<(), String> {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let name = clang.to_string_lossy().into_owned();
    let mut command = Command::new(&clang);
    // Debugging information becomes the types by which the kernel knows maps; the paths in it say nothing of where this was built.
    command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-nostdinc"]);
    command
        .args(["-fdebug-prefix-map=bpf=bpf", "-fdebug-compilation-dir", ".", "-c", "bpf/schedules.c", "-o"])
        .arg(object);
    let output = command.output().map_err(|error| format!("`{name}` could not be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{name}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
