//! castell in programs that use MPI, under the MPI libraries that are installed.

mod installed;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use installed::{Installed, root};
use skipped::skip;
use std::process::Command;

/// An MPI library: its compiler, its launcher, and what that is told so that there may be more ranks than processors.
const MPIS: [(&str, &[&str]); 2] = [
    ("mpicc.openmpi", &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]),
    ("mpicc.mpich", &["mpiexec.mpich"]),
];

#[test]
fn a_group_by_functions_that_call_mpi() {
    let installed = Installed::new("capi-mpi");
    for (compiler, launcher) in MPIS {
        if Command::new(compiler).arg("--version").output().is_err() {
            skip(compiler, "not installed");
            continue;
        }
        let program = installed.prefix.join(format!("init_by_{compiler}"));
        let source = root().join("crates/capi/tests/c/mpi/init_by.c");
        installed::output(installed.link(Command::new(compiler).arg("-o").arg(&program).arg(source)));
        for (ranks, order) in [("1", "mpi-last"), ("3", "mpi-last"), ("4", "mpi-first")] {
            let mut command = Command::new("timeout");
            command.args(["-k", "2", "120"]).args(launcher).args(["-n", ranks]).arg(&program).arg(order);
            let output = command.output().expect("timeout runs");
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{command:?} ended with {}:\n{out}{err}", output.status);
            assert_eq!(out.matches("both agree").count().to_string(), ranks, "{out}{err}");
            // What a launcher says whose connection to MPI somebody else used or closed.
            for complaint in ["roken pipe", "BAD TERMINATION", "UNPACK", "PMI"] {
                assert!(!err.contains(complaint), "{command:?}:\n{err}");
            }
        }
    }
}
