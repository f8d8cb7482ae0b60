//! What a machine may lack, so that some of the book's commands cannot be run there.

use crate::installed::Installed;
use crate::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a machine may lack.
#[derive(Clone, Copy, PartialEq)]
pub enum Lack {
    Hosts,
    TwoProcessors,
    Cuda,
    OpenMpi,
    Mpich,
    Mpi4py,
    Xdp,
    Counters,
    Jq,
    Tshark,
    /// What is set for a machine can lie under a file of ours.
    Rooms,
    /// Known when the first one is started.
    Slurm,
}

/// Below the target folder, where `cargo xtask setup` puts it.
pub fn mpi4py() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    target.join("mpi/openmpi-5/bin")
}

impl Lack {
    pub const ALL: [Lack; 11] = [
        Lack::Hosts,
        Lack::TwoProcessors,
        Lack::Cuda,
        Lack::OpenMpi,
        Lack::Mpich,
        Lack::Mpi4py,
        Lack::Xdp,
        Lack::Counters,
        Lack::Jq,
        Lack::Tshark,
        Lack::Rooms,
    ];

    /// Counts as skipped then.
    pub fn is_so(&self, installed: &Installed) -> bool {
        let python = mpi4py().join("python").display().to_string();
        let (name, command) = match self {
            Lack::Hosts => ("lab", "castell lab 1 -- true"),
            Lack::TwoProcessors => ("one-processor", "test $(nproc) -ge 2"),
            Lack::Cuda => ("cuda", "nvidia-smi"),
            Lack::OpenMpi => ("openmpi", "mpirun --version | grep -q 'Open MPI' && mpicc --version"),
            Lack::Mpich => ("mpich", "mpiexec.mpich --version && mpicc.mpich --version"),
            Lack::Mpi4py => ("openmpi-5", &*format!("'{python}' -c 'import mpi4py'")),
            Lack::Xdp => (
                "xdp",
                "castell lab 2 -- castell launch -n 2 -- castell xdp eth0 barrier:linear --runs 1 --only-kernel",
            ),
            Lack::Counters => ("counters", "castell profile --by counters -- sleep 0.1"),
            Lack::Jq => ("jq", "jq --version"),
            Lack::Tshark => ("tshark", "tshark --version"),
            Lack::Rooms => ("own-mounts", "unshare -m mount --bind /dev/null /proc/sys/vm/swappiness"),
            Lack::Slurm => return false,
        };
        let bin = installed.prefix.join("bin");
        let paths = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PATH", format!("{}:{paths}", bin.display()));
        let tried = shell.current_dir(env!("CARGO_TARGET_TMPDIR")).output();
        let is_there = tried.as_ref().is_ok_and(|output| output.status.success());
        if !is_there {
            let said = tried.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
            skipped::skip(name, &said.unwrap_or_else(|error| error.to_string()));
        }
        !is_there
    }
}
