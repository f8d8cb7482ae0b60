//! What later steps build, built while tests run: these wait for others more than they compute. At the lowest priority, so that tests
//! hardly notice. A step that follows finds its build done, waits for cargo's lock, or builds itself what failed here.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

/// Where the builds' output goes.
pub const LOG: &str = "target/ahead.log";

/// Builds under way, one after another.
pub struct Ahead(JoinHandle<()>);

impl Ahead {
    /// Starts the first of them.
    pub fn start(root: &Path, builds: Vec<Command>) -> Ahead {
        let log = File::create(root.join(LOG)).ok();
        Ahead(thread::spawn(move || {
            for build in &builds {
                let mut build = at_idle_priority(build);
                for stream in [Command::stdout, Command::stderr] {
                    let log = log.as_ref().and_then(|log| log.try_clone().ok());
                    stream(&mut build, log.map_or_else(Stdio::null, Stdio::from));
                }
                // Whoever needs what was not built builds it, and says why it cannot be.
                let _ = build.stdin(Stdio::null()).status();
            }
        }))
    }

    /// Waits until all have ended, however they did.
    pub fn wait(self) {
        // A thread that panicked has ended, too.
        let _ = self.0.join();
    }
}

/// The same command where nobody else wants the processor.
fn at_idle_priority(command: &Command) -> Command {
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        idle.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => idle.env(name, value),
            None => idle.env_remove(name),
        };
    }
    idle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_run_in_order_with_their_surroundings() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("target")).expect("a folder");
        let builds = ["echo $WHAT; exit 3", "chrt --pid $$; pwd"].map(|script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).env("WHAT", "first").current_dir(root.path());
            command
        });
        Ahead::start(root.path(), builds.into()).wait();
        let said = std::fs::read_to_string(root.path().join(LOG)).expect("a log");
        assert!(said.starts_with("first\n") && said.contains("SCHED_IDLE"), "{said}");
        let here = root.path().canonicalize().expect("a folder");
        assert!(said.ends_with(&format!("{}\n", here.display())), "{said}");
    }
}
