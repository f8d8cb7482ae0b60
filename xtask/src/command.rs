//! Other programs, run as steps: what is run is printed, and must end well.

use anyhow::{Context as _, bail};
use std::process::{Command, Stdio};

/// Runs a command without input, its output going where ours goes.
///
/// # Errors
/// It cannot be started, or does not end well.
pub fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let line = line(command);
    println!("   {line}");
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("could not start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// The program and its arguments.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The platform of the compiler. Who names it as the target keeps compiler flags away from build scripts.
pub fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host =
        text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV names no host")?;
    Ok(host.to_owned())
}
