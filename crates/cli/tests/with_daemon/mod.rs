//! A daemon to talk to.

use castell_kernels::Kernel;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;

pub const RESOURCES: [&str; 3] = ["one_core", "all_cores", "gpu"];

/// A daemon in a folder of its own. It is killed with this.
pub struct Daemon {
    pub folder: tempfile::TempDir,
    pub child: Child,
}

impl Daemon {
    pub fn start(options: &[&str]) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let child = start(&folder.path().join("daemon.sock"), options);
        Daemon { folder, child }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("daemon.sock")
    }

    pub fn strategy(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        command.arg("strategy").args(arguments).arg("--socket").arg(self.socket());
        command.output().expect("castell can be started")
    }

    pub fn status(&self) -> Value {
        let output = self.strategy(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// Nobody is registered, and nothing runs.
    pub fn is_empty(&self) -> bool {
        let status = self.status();
        let resources = status["resources"].as_array().expect("resources");
        status["applications"].as_array().is_some_and(Vec::is_empty)
            && status["waiting"].as_array().is_some_and(Vec::is_empty)
            && resources.iter().all(|on| on["running"].is_null() && on["queue"] == Value::Array(Vec::new()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn start(socket: &Path, options: &[&str]) -> Child {
    let (child, mut said) = start_heard(socket, options);
    thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    child
}

/// The same, and what it says after it has begun to listen.
pub fn start_heard(socket: &Path, options: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(["daemon", "--socket"]).arg(socket);
    command.args(RESOURCES.iter().flat_map(|resource| ["--resource", resource]));
    // What it learns is not the user's.
    command.env("XDG_DATA_HOME", socket.parent().expect("a folder"));
    let mut child = command.args(options).stderr(Stdio::piped()).spawn().expect("castell can be started");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.contains("listens at"), "{line}");
    (child, said)
}

pub fn kernel(resource: &str) -> Kernel {
    Kernel { resource: resource.into(), step_ns: Some(1_000) }
}
