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

const OPEN_MPI_FLAGS: [&str; 4] =
    ["--allow-run-as-root", "--oversubscribe", "--bind-to", "core:overload-allowed"];
const MPICH_FLAGS: [&str; 2] = ["-bind-to", "core"];

/// (compiler, launcher): Debian's names for installations side by side first, then the usual ones.
const CANDIDATES: [(&str, &str); 3] =
    [("mpicc.openmpi", "mpirun.openmpi"), ("mpicc.mpich", "mpiexec.mpich"), ("mpicc", "mpirun")];

/// Other hosts to run on.
#[derive(Clone, Debug)]
pub struct OnHosts {
    /// Their names.
    pub names: Vec<String>,
    /// Ranks on each.
    pub each: u32,
    /// What starts a command on a host: a program that takes the host and the command.
    pub remote: PathBuf,
    /// A folder that all of them see.
    pub folder: PathBuf,
    /// The ranks share processors: who waits should not keep one.
    pub is_crowded: bool,
}

/// Over a network ranks may wait for each other in vain.
const ON_HOSTS_WITHIN: &[&str] = &["timeout", "-k", "5", "30"];

/// Which of the families of launchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
    Intel,
}

impl Family {
    /// How it is told to pin its ranks to cores, be it on too few of them, and to accept root.
    fn here(self) -> Vec<String> {
        let flags: &[&str] = match self {
            Family::OpenMpi => &OPEN_MPI_FLAGS,
            Family::Mpich => &MPICH_FLAGS,
            Family::Intel => &[],
        };
        flags.iter().map(|&flag| flag.to_owned()).collect()
    }

    /// How it is told where ranks go and how it comes there: variables, and words behind the launcher.
    fn on(self, hosts: &OnHosts) -> (Vec<String>, Vec<String>) {
        let remote = hosts.remote.display();
        let each: Vec<String> = hosts.names.iter().map(|name| format!("{name}:{}", hosts.each)).collect();
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
        match self {
            Family::OpenMpi => {
                let mut set = vec![
                    format!("OMPI_MCA_plm_rsh_agent={remote}"),
                    format!("PRTE_MCA_plm_ssh_agent={remote}"),
                ];
                if hosts.is_crowded {
                    set.push("OMPI_MCA_mpi_yield_when_idle=1".to_owned());
                }
                let flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--host"];
                (set, [words(&flags), vec![each.join(",")]].concat())
            }
            Family::Mpich => {
                let set = vec!["HYDRA_LAUNCHER=rsh".to_owned(), format!("HYDRA_LAUNCHER_EXEC={remote}")];
                (set, vec!["-hosts".into(), each.join(",")])
            }
            Family::Intel => {
                let set = vec![
                    "I_MPI_HYDRA_BOOTSTRAP=rsh".to_owned(),
                    format!("I_MPI_HYDRA_BOOTSTRAP_EXEC={remote}"),
                    "I_MPI_PIN=0".into(),
                    format!("I_MPI_WAIT_MODE={}", u8::from(hosts.is_crowded)),
                ];
                let each = hosts.each.to_string();
                (set, vec!["-hosts".into(), hosts.names.join(","), "-ppn".into(), each])
            }
        }
    }
}

/// An MPI implementation.
pub struct Peer {
    name: String,
    compiler: PathBuf,
    launcher: PathBuf,
    family: Family,
    /// `None`: on this one.
    hosts: Option<OnHosts>,
    /// What `I_MPI_ROOT` has to be.
    root: Option<PathBuf>,
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
        let version = version_of(&launcher)?;
        let Some((name, family)) = identify(&version) else { continue };
        if found.iter().all(|peer| peer.name != name) {
            found.push(Peer {
                name,
                compiler,
                launcher,
                family,
                hosts: None,
                root: None,
                programs: HashMap::new(),
            });
        }
    }
    Ok(found)
}

/// What a launcher says of itself.
fn version_of(launcher: &Path) -> anyhow::Result<String> {
    let output = Command::new(launcher).arg("--version").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("could not start {} --version", launcher.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Name with version, and family, from what the launcher says of itself.
fn identify(version: &str) -> Option<(String, Family)> {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let first_line = version.lines().next()?;
    if first_line.contains("Open MPI") || first_line.contains("OpenRTE") {
        let number = first_line.split_whitespace().rev().find(is_number)?;
        return Some((format!("Open MPI {number}"), Family::OpenMpi));
    }
    if first_line.starts_with("Intel(R) MPI") {
        let number = first_line.split_whitespace().find(is_number)?;
        return Some((format!("Intel MPI {number}"), Family::Intel));
    }
    if first_line.contains("HYDRA") {
        let line = version.lines().find(|line| line.trim_start().starts_with("Version:"))?;
        let number = line.split_whitespace().find(is_number)?;
        return Some((format!("MPICH {number}"), Family::Mpich));
    }
    None
}

impl Peer {
    /// One that the user names, `NAME=MPICC:MPIRUN`.
    pub fn named(text: &str) -> anyhow::Result<Peer> {
        const FORM: &str = "expected NAME=MPICC:MPIRUN, as mpich=mpicc.mpich:mpiexec.mpich";
        let (name, programs) = text.split_once('=').context(FORM)?;
        let (compiler, launcher) = programs.split_once(':').context(FORM)?;
        let place = |program: &str| {
            let path = PathBuf::from(program);
            let found =
                if program.contains('/') { path.is_file().then_some(path) } else { find_program(program) };
            found.with_context(|| format!("--mpi {text}: there is no program {program}"))
        };
        let (compiler, launcher) = (place(compiler)?, std::path::absolute(place(launcher)?)?);
        let compiler = std::path::absolute(compiler)?;
        // Intel's programs want to know where they lie.
        let root = compiler.parent().and_then(std::path::Path::parent).map(std::path::Path::to_owned);
        let version = version_of(&launcher)?;
        let (_, family) = identify(&version).with_context(|| {
            format!("--mpi {text}: {} is none of the launchers known here", launcher.display())
        })?;
        let is_intel = version.contains("Intel");
        let root = root.filter(|_| is_intel && std::env::var_os("I_MPI_ROOT").is_none());
        let (name, programs) = (name.to_owned(), HashMap::new());
        Ok(Peer { name, compiler, launcher, family, hosts: None, root, programs })
    }

    /// Name and version.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its ranks can give way while they wait. Others keep their processors for whole time slices, where each wait of a rank that
    /// has none takes milliseconds.
    pub fn gives_way(&self) -> bool {
        self.family != Family::Mpich
    }

    /// From now on it runs on these hosts.
    pub fn on(&mut self, hosts: OnHosts) {
        self.programs.clear();
        self.hosts = Some(hosts);
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
        self.measure_lines_under(&[], workload, ranks, arguments, samples)
    }

    /// The same with words in front of its launcher.
    pub fn measure_lines_under(
        &mut self,
        before: &[String],
        workload: &str,
        ranks: u32,
        arguments: &Params,
        samples: u32,
    ) -> anyhow::Result<Vec<(Params, Sample)>> {
        self.program(workload, ranks)?.measure_lines(before, arguments, samples)
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

    /// The command line of a workload's program.
    pub fn words(&mut self, workload: &str, ranks: u32) -> anyhow::Result<Vec<String>> {
        Ok(self.program(workload, ranks)?.words())
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
        // Of both, the compiler and the launcher.
        let program = |program: &std::path::Path, set: &[String]| {
            let root = self.root.as_ref().map(|root| format!("I_MPI_ROOT={}", root.display()));
            let set: Vec<String> = root.into_iter().chain(set.iter().cloned()).collect();
            let env = if set.is_empty() { Vec::new() } else { [vec!["env".to_owned()], set].concat() };
            [env, vec![program.to_string_lossy().into_owned()]].concat()
        };
        let compiler = program(&self.compiler, &[]);
        let (set, flags) = match &self.hosts {
            Some(hosts) => self.family.on(hosts),
            None => (Vec::new(), self.family.here()),
        };
        let limit = if self.hosts.is_some() { ON_HOSTS_WITHIN } else { &[] };
        let limit = limit.iter().map(|&word| word.to_owned()).collect();
        let ranks = vec!["-n".to_owned(), ranks.to_string()];
        let launcher = [limit, program(&self.launcher, &set), flags, ranks].concat();
        let flags: Vec<&str> = compiler[1..].iter().map(String::as_str).collect();
        let folder = self.hosts.as_ref().map_or_else(std::env::temp_dir, |hosts| hosts.folder.clone());
        Program::compile_in(&folder, std::path::Path::new(&compiler[0]), &flags, source, launcher)
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
