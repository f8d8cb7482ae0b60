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

/// Cargo, which hears nothing of the package that this program belongs to.
pub fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    forget_package(&mut cargo);
    cargo
}

/// Keeps from a command, which will start cargo, what the cargo that started this program says of its package: ring's build script asks
/// for that, runs again where it has changed, and everything above it would be built again.
pub fn forget_package(command: &mut Command) {
    let of_a_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_a_package) {
            command.env_remove(name);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_hears_nothing_of_our_package() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "tests are told");
        let cargo = cargo();
        let mut envs = cargo.get_envs();
        assert!(envs.any(|(name, value)| name == "CARGO_MANIFEST_DIR" && value.is_none()));
    }
}
