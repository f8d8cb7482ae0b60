//! A C program with a strategy of its own, and a real daemon.

mod installed;

use installed::{Installed, output, root};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Killed with this.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_c_program_brings_its_own_strategy() {
    let installed = Installed::new("capi-own-strategy");
    let socket = installed.prefix.join("daemon.sock");
    let program = installed.compile(&root().join("crates/capi/tests/c/daemon/own.c"));
    let mut daemon = Command::new(installed.prefix.join("bin/castell"));
    daemon.args(["daemon", "--resource", "one_core", "--resource", "gpu", "--socket"]).arg(&socket);
    let mut daemon = Daemon(daemon.stderr(Stdio::piped()).spawn().expect("castell can be started"));
    let mut said = String::new();
    let mut lines = BufReader::new(daemon.0.stderr.take().expect("piped"));
    lines.read_line(&mut said).expect("text");
    assert!(said.contains("listens at"), "{said}");
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));

    let file = |name: &str, text: &str| -> PathBuf {
        let path = installed.prefix.join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let run = |strategy: &str| {
        let mut program = Command::new(&program);
        output(program.arg(strategy).arg("50").env("CASTELL_DAEMON", &socket))
    };
    let gpu = file(
        "gpu.luau",
        "return { choose = function(node) if node.resource.gpu.free then return node.waiting[1], 'gpu' end end }",
    );
    let said = run(gpu.to_str().expect("text"));
    assert!(said.starts_with("brought 0, state 3, daemon 1: 0 on one core, 100 on the GPU;"), "{said}");
    // Of those that come with castell this one costs no more than one core does.
    let said = run("constraint:limit_high=3");
    assert!(said.starts_with("brought 0, state 3, daemon 1: 100 on one core, 0 on the GPU;"), "{said}");
    let said = run("no-such-strategy");
    assert!(said.starts_with("brought -1, state 4, daemon 1: 100 on one core"), "{said}");
    assert!(said.contains("no strategy `no-such-strategy` comes with castell"), "{said}");
    let late = file(
        "late.luau",
        "local n = 0 return { choose = function(node) n += 1 if n > 120 then while true do end end
        if node.resource.gpu.free then return node.waiting[1], 'gpu' end end }",
    );
    let said = run(late.to_str().expect("text"));
    assert!(
        said.starts_with("brought 0, state 4, daemon 1: ") && said.contains("steps: does a loop"),
        "{said}"
    );
    let numbers: Vec<u32> =
        said.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers[3] + numbers[4], 100, "no step is lost: {said}");
    assert!(numbers[3] > 0 && numbers[4] > 0, "first by its own, then by the daemon's: {said}");
    // Nobody can read it, and the program runs by its ranking.
    let alone = output(Command::new(&program).arg(&gpu).arg("50").env("CASTELL_DAEMON", "none"));
    assert!(alone.starts_with("brought 0, state 1, daemon 0: 100 on one core, 0 on the GPU;"), "{alone}");
}
