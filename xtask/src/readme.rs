//! The README's commands, read from the README, so that it cannot promise what nobody runs.

use anyhow::Context as _;
use std::path::Path;

/// The command of the `number`th `sh` block (from 1): 1 is the main job, 2 set-up and all tests.
pub fn command(root: &Path, number: usize) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(root.join("README.md")).context("README.md cannot be read")?;
    nth_block(&text, number).with_context(|| format!("README.md has no `sh` block number {number}"))
}

fn nth_block(text: &str, number: usize) -> Option<String> {
    let block = text.split("```sh\n").nth(number)?;
    let block = block.split("\n```").next()?.trim();
    (!block.is_empty()).then(|| block.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_from_one() {
        let text = "# a\n```sh\nfirst\n```\n```c\nint x;\n```\n```sh\nsecond \\\n  more\n```\n";
        assert_eq!(nth_block(text, 1).as_deref(), Some("first"));
        assert_eq!(nth_block(text, 2).as_deref(), Some("second \\\n  more"));
        assert_eq!(nth_block(text, 3), None);
    }

    #[test]
    fn the_machine_runs_the_readmes_test_command() {
        let root = crate::repository_root();
        let command = command(&root, 2).expect("README.md has two commands");
        let script = std::fs::read_to_string(root.join(".ci/run")).expect(".ci/run can be read");
        assert!(script.lines().any(|line| line.starts_with(&command)), ".ci/run has to run `{command}`");
    }
}
