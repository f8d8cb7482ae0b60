//! Commands that start programs on other hosts, as users name them: `ssh -q`, `docker exec -i {host}`, …

use std::process::Command;

/// What starts a program, which is to be added with its arguments, on `host`: its name stands for `{host}` in `remote`, or behind it where
/// that does not occur. `remote` has a word at least.
pub fn on(remote: &[String], host: &str) -> Command {
    let mut words = remote.iter().map(|word| word.replace("{host}", host));
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    if !remote.iter().any(|word| word.contains("{host}")) {
        command.arg(host);
    }
    command
}
