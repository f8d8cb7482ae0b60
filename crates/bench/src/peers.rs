//! The MPI implementations of this machine, as subjects: they run the C programs of `benches/mpi/`.

use crate::plain::{Program, find_program};
use crate::report::{Params, Sample};
use crate::workload::Subject;
use anyhow::Context as _;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to say when [`peers`] is empty.
pub const NONE_FOUND: &str =
    "no MPI found: install openmpi-bin libopenmpi-dev or mpich libmpich-dev for the comparison";

/// The programs, by workload.
const SOURCES: [(&str, &str); 6] = [
    ("pingpong", include_str!("../../../benches/mpi/pingpong.c")),
    ("messages", include_str!("../../../benches/mpi/messages.c")),
    ("startup", include_str!("../../../benches/mpi/startup.c")),
    ("collectives", include_str!("../../../benches/mpi/collectives.c")),
    ("overlap", include_str!("../../../benches/mpi/overlap.c")),
    ("localops", include_str!("../../../benches/mpi/localops.c")),
];

/// How an implementation is told to pin its ranks to cores, be it on too few of them, and to accept root.
const OPEN_MPI_FLAGS: [&str; 4] =
    ["--allow-run-as-root", "--oversubscribe", "--bind-to", "core:overload-allowed"];
const MPICH_FLAGS: [&str; 2] = ["-bind-to", "core"];

/// (compiler, launcher): Debian's names for installations side by side first, then the usual ones.
const CANDIDATES: [(&str, &str); 3] =
    [("mpicc.openmpi", "mpirun.openmpi"), ("mpicc.mpich", "mpiexec.mpich"), ("mpicc", "mpirun")];

/// An MPI implementation.
pub struct Peer {
    name: String,
    compiler: PathBuf,
    launcher: PathBuf,
    flags: &'static [&'static str],
    programs: HashMap<(String, u32), Program>,
}

/// The implementations to measure, if any are wanted; says so where there is none.
pub fn wanted(with_peers: bool) -> anyhow::Result<Vec<Peer>> {
    let found = if with_peers { peers()? } else { Vec::new() };
    if with_peers && found.is_empty() {
        castell_host::say(NONE_FOUND);
    }
    Ok(found)
}

/// The implementations found on the path, each once; empty if there is none.
pub fn peers() -> anyhow::Result<Vec<Peer>> {
    let mut found: Vec<Peer> = Vec::new();
    for (compiler, launcher) in CANDIDATES {
        let (Some(compiler), Some(launcher)) = (find_program(compiler), find_program(launcher)) else {
            continue;
        };
        let output = Command::new(&launcher).arg("--version").stdin(Stdio::null()).output()?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some((name, flags)) = identify(&version) else { continue };
        if found.iter().all(|peer| peer.name != name) {
            found.push(Peer { name, compiler, launcher, flags, programs: HashMap::new() });
        }
    }
    Ok(found)
}

/// Name with version, and flags, from what the launcher says of itself.
fn identify(version: &str) -> Option<(String, &'static [&'static str])> {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let first_line = version.lines().next()?;
    if first_line.contains("Open MPI") || first_line.contains("OpenRTE") {
        let number = first_line.split_whitespace().rev().find(is_number)?;
        return Some((format!("Open MPI {number}"), &OPEN_MPI_FLAGS));
    }
    if first_line.contains("HYDRA") {
        let line = version.lines().find(|line| line.trim_start().starts_with("Version:"))?;
        let number = line.split_whitespace().find(is_number)?;
        return Some((format!("MPICH {number}"), &MPICH_FLAGS));
    }
    None
}

impl Peer {
    /// Name and version.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What compiles its programs.
    pub fn compiler(&self) -> &Path {
        &self.compiler
    }

    /// What starts them.
    pub fn launcher(&self) -> &Path {
        &self.launcher
    }

    /// Runs a workload's program once with these arguments on `ranks` processes; a sample of each case that it reports.
    pub fn measure_lines(
        &mut self,
        workload: &str,
        ranks: u32,
        arguments: &Params,
        samples: u32,
    ) -> anyhow::Result<Vec<(Params, Sample)>> {
        self.program(workload, ranks)?.measure_lines(arguments, samples)
    }

    /// Runs a workload's program once for one case on `ranks` processes; compiles it on first use.
    pub fn measure(
        &mut self,
        workload: &str,
        ranks: u32,
        case: &Params,
        samples: u32,
    ) -> anyhow::Result<Sample> {
        self.program(workload, ranks)?.measure(case, samples)
    }

    fn program(&mut self, workload: &str, ranks: u32) -> anyhow::Result<&Program> {
        let key = (workload.to_owned(), ranks);
        if !self.programs.contains_key(&key) {
            let program = self.compile(workload, ranks)?;
            self.programs.insert(key.clone(), program);
        }
        Ok(&self.programs[&key])
    }

    fn compile(&self, workload: &str, ranks: u32) -> anyhow::Result<Program> {
        let source = SOURCES.iter().find(|(name, _)| *name == workload);
        let (_, source) = source.with_context(|| format!("no MPI program for the workload {workload}"))?;
        let mut launcher = vec![self.launcher.to_string_lossy().into_owned()];
        launcher.extend(self.flags.iter().map(|flag| (*flag).to_owned()));
        launcher.extend(["-n".to_owned(), ranks.to_string()]);
        Program::compile(&self.compiler, &[], source, launcher)
    }
}

/// A peer bound to one workload.
pub struct PeerSubject {
    /// Who.
    pub peer: Peer,
    /// Which program.
    pub workload: &'static str,
    /// On how many processes.
    pub ranks: u32,
}

impl PeerSubject {
    /// As subjects are kept.
    pub fn boxed(peer: Peer, workload: &'static str, ranks: u32) -> Box<dyn Subject> {
        Box::new(PeerSubject { peer, workload, ranks })
    }
}

impl Subject for PeerSubject {
    fn name(&self) -> String {
        self.peer.name.clone()
    }

    fn measure(&mut self, case: &Params, samples: u32) -> anyhow::Result<Option<Sample>> {
        self.peer.measure(self.workload, self.ranks, case, samples).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implementations_are_told_apart() {
        let name = |version: &str| identify(version).map(|(name, _)| name);
        assert_eq!(name("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs").as_deref(), Some("Open MPI 4.1.4"));
        assert_eq!(name("mpirun (Open MPI) 5.0.3\n").as_deref(), Some("Open MPI 5.0.3"));
        let hydra =
            "HYDRA build details:\n    Version:                                 4.0.2\n    CC: gcc 12";
        assert_eq!(name(hydra).as_deref(), Some("MPICH 4.0.2"));
        assert_eq!(name("srun 22"), None);
    }

    #[test]
    fn every_peer_runs_every_program() {
        let cases = [
            ("pingpong", 2, Params::new().with("bytes", 64)),
            ("messages", 2, Params::new().with("bytes", 8).with("window", 64)),
            ("messages", 2, Params::new().with("bytes", 8).with("ahead", 100)),
            ("startup", 1, Params::new().with("what", "init")),
            ("startup", 1, Params::new().with("what", "operation")),
            ("localops", 1, Params::new().with("bytes", 4096)),
        ];
        for mut peer in peers().expect("launchers tell their versions") {
            for (workload, ranks, case) in &cases {
                let sample = peer.measure(workload, *ranks, case, 2).expect("the program runs");
                assert!(
                    sample.min_ns > 0.0 && sample.median_ns >= sample.min_ns,
                    "{workload} {case}: {sample:?}"
                );
            }
        }
    }
}
