//! Groups formed under the launchers that are installed: each test starts this very executable through one, as ranks.
//!
//! A test whose launcher is missing says so, for CI to see, and passes.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
mod slurm;

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::bootstrap;
use castell_comm::job::JobOptions;
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use castell_host::HostError;
use castell_host::shm::Segment;
use castell_shm::watch::Watch;
use skipped::skip;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Set for processes that are ranks rather than the test itself.
const ROLE: &str = "CASTELL_TEST_ROLE";
/// Where such a rank leaves what it saw.
const FOLDER: &str = "CASTELL_TEST_FOLDER";
/// Words of the segment: the number of ranks, how many have come, and from here on each rank's pid and start time.
const RANKS: usize = 0;
const ARRIVED: usize = 1;
const IDENTITIES: usize = 100;

/// The ranks' part: joins, meets the others in the shared memory, tells what it saw. A normal test run passes by.
#[test]
fn as_a_rank() {
    let role = std::env::var(ROLE).unwrap_or_default();
    if !["stay", "leave"].contains(&role.as_str()) {
        return;
    }
    let membership = bootstrap::join(create).unwrap_or_else(|error| {
        eprintln!("refused: {error}");
        std::process::exit(3);
    });
    let rank = membership.rank.0;
    let segment = Segment::from_fd(membership.segment).expect("a segment");
    // SAFETY: the segment is mapped for longer than the word is used, and all ranks use atomics from here on.
    let word = |index: usize| unsafe { &*segment.as_ptr().cast::<AtomicU32>().add(index) };
    let load = |index: usize| word(index).load(Ordering::SeqCst);
    let ranks = load(RANKS);
    let (pid, born) = Watch::own_identity();
    let identity = |rank: u32| IDENTITIES + rank as usize * 2;
    word(identity(rank)).store(pid, Ordering::SeqCst);
    word(identity(rank) + 1).store(born as u32, Ordering::SeqCst);
    word(ARRIVED).fetch_add(1, Ordering::SeqCst);
    wait_for(&mut || load(ARRIVED) == ranks);
    println!("\nrank {rank} of {ranks} met all, visible {}", membership.processes_visible);
    if role == "leave" && rank == 0 {
        // The others end now: the watch has to see it.
        let mut watch = Watch::new(ranks);
        for peer in 1..ranks {
            let (pid, born) = (load(identity(peer)), load(identity(peer) + 1));
            wait_for(&mut || watch.has_ended(Rank(peer), pid, u64::from(born)));
        }
        println!("\nrank 0 saw all others end");
    }
}

/// The ranks' part where one of them is killed: the others' runs fail and name it.
#[test]
fn as_a_rank_among_mortals() {
    if std::env::var(ROLE).as_deref() != Ok("mortal") {
        return;
    }
    let comm = Comm::init().expect("a group");
    if comm.rank() == Rank(1) {
        // SAFETY: no arguments but a signal.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    let mut graph = Graph::new();
    graph.allocate_scratchpad(8);
    graph.recv(Place::scratch(0), 8, Some(Rank(1)), Some(Tag(0))).expect("a receive");
    let schedule = Arc::new(graph.compile().expect("a schedule"));
    // SAFETY: all buffers lie in the scratchpad.
    let failure = unsafe { comm.run(&schedule) }.expect("a run").wait().expect_err("nobody sends");
    // Not printed: a launcher that has lost a rank may lose what others print, too.
    let folder = std::env::var(FOLDER).expect("the test gives one");
    std::fs::write(Path::new(&folder).join(comm.rank().to_string()), failure.to_string()).expect("a file");
}

fn create(options: &JobOptions) -> Result<OwnedFd, HostError> {
    let segment = Segment::create("castell-test", 4096)?;
    // SAFETY: inside the segment, aligned, nobody else has it yet.
    unsafe { segment.as_ptr().cast::<u32>().add(RANKS).write(options.ranks) };
    Ok(segment.fd().try_clone_to_owned().expect("a descriptor"))
}

fn wait_for(ready: &mut dyn FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The command line by which a launcher starts this executable as a rank: both tests that play one, as the role says.
fn rank_program() -> [String; 4] {
    let executable = std::env::current_exe().expect("this executable");
    let executable = executable.to_str().expect("a path").to_string();
    [executable, "as_a_rank".into(), "--nocapture".into(), "--test-threads=1".into()]
}

/// Runs a launcher in a clean environment; none, with a line that says so, where it is not installed.
fn launch(launcher: &[&str], role: &str, environment: &[(&str, &str)]) -> Option<Output> {
    let mut command = Command::new("timeout");
    command.args(["-k", "2", "150"]).args(launcher).args(rank_program());
    for (name, _) in std::env::vars() {
        if ["PMI", "OMPI", "SLURM", "CASTELL"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env(ROLE, role).envs(environment.iter().copied()).stdin(Stdio::null());
    let output = command.output().expect("timeout runs");
    if output.status.code() == Some(127) {
        skip(launcher[0], "not installed");
        return None;
    }
    Some(output)
}

/// Checks that the ranks found each other.
fn expect_group(output: &Output, ranks: u32, visible: bool) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    for rank in 0..ranks {
        let line = format!("rank {rank} of {ranks} met all, visible {visible}");
        assert_eq!(text.matches(&line).count(), 1, "{line}\n{text}");
    }
}

/// Checks that the ranks failed with a message that holds `parts`.
fn expect_refusal(output: &Output, parts: &[&str]) {
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    for part in parts {
        assert!(text.contains("refused: ") && text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(!String::from_utf8_lossy(&output.stdout).contains("met all"));
}

/// Whether Open MPI is built with a PMIx of its own, which nobody else can use; says so.
fn lacks_library(output: &Output) -> bool {
    let lacks = String::from_utf8_lossy(&output.stderr).contains("PMIx client library cannot be used");
    if lacks {
        skip("libpmix", "Open MPI brings no libpmix.so.2 here");
    }
    lacks
}

fn saw_the_others_end(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stdout).contains("rank 0 saw all others end")
}

const OPEN_MPI: [&str; 5] = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "3"];

#[test]
fn alone_without_launcher() {
    let output = launch(&["env"], "stay", &[]).expect("env is everywhere");
    expect_group(&output, 1, true);
}

#[test]
fn open_mpi() {
    let Some(output) = launch(&OPEN_MPI, "leave", &[]) else { return };
    if lacks_library(&output) {
        return;
    }
    expect_group(&output, 3, true);
    assert!(saw_the_others_end(&output));
}

#[test]
fn open_mpi_that_cannot_be_reached() {
    let Some(output) = launch(&OPEN_MPI, "stay", &[("CASTELL_LIBPMIX", "/nowhere/libpmix.so")]) else {
        return;
    };
    expect_refusal(&output, &["/nowhere/libpmix.so", "castell launch -n N"]);
    let stripped = [&OPEN_MPI[..], &["env", "-u", "PMIX_NAMESPACE", "-u", "PMIX_RANK"]].concat();
    let output = launch(&stripped, "stay", &[]).expect("it was there a moment ago");
    expect_refusal(&output, &["OMPI_COMM_WORLD_SIZE=3", "PMIX_NAMESPACE"]);
    let output = launch(&stripped, "stay", &[("CASTELL_ALONE", "1")]).expect("it was there a moment ago");
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("rank 0 of 1 met all").count(), 3);
}

#[test]
fn mpich() {
    let Some(output) = launch(&["mpiexec.mpich", "-n", "5"], "leave", &[]) else { return };
    expect_group(&output, 5, true);
    assert!(saw_the_others_end(&output));
}

#[test]
fn a_death_is_noticed_without_castells_launcher() {
    // Else the launcher ends all ranks when one dies.
    let launcher = [&OPEN_MPI[..], &["--enable-recovery"]].concat();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path");
    let Some(output) = launch(&launcher, "mortal", &[(FOLDER, path)]) else { return };
    if lacks_library(&output) {
        return;
    }
    for rank in ["0", "2"] {
        let told = std::fs::read_to_string(folder.path().join(rank)).unwrap_or_default();
        assert!(told.contains("rank 1"), "rank {rank}: {told:?}\n{output:?}");
    }
}

#[test]
fn mpich_that_cannot_be_reached() {
    let Some(output) = launch(&["mpiexec.mpich", "-n", "2", "env", "-u", "PMI_FD"], "stay", &[]) else {
        return;
    };
    expect_refusal(&output, &["PMI_SIZE=2", "PMI_FD", "CASTELL_ALONE=1"]);
}

#[test]
fn mpich_across_pid_namespaces() {
    let may = Command::new("unshare").args(["-p", "-f", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        skip("pid-namespaces", "they cannot be made here");
        return;
    }
    let program = rank_program();
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let first =
        [&["mpiexec.mpich", "-n", "1"], &program[..], &[":", "-n", "1", "unshare", "-p", "-f"]].concat();
    let Some(output) = launch(&first, "stay", &[]) else { return };
    expect_group(&output, 2, false);
}

#[test]
fn slurm_steps() {
    let slurm = match slurm::Slurm::start() {
        Ok(slurm) => slurm,
        Err(why) => {
            return skip("slurm", &why);
        }
    };
    let conf = [("SLURM_CONF", slurm.configuration())];
    let step = |mpi: &'static str| launch(&["srun", "--overcommit", "-n", "3", mpi], "leave", &conf);
    let plain = step("--mpi=none").expect("srun is there");
    expect_refusal(&plain, &["SLURM_STEP_NUM_TASKS=3", "srun --mpi=pmi2"]);
    for (plugin, mpi) in [("pmi2", "--mpi=pmi2"), ("pmix", "--mpi=pmix")] {
        if !slurm.offers(plugin) {
            skip(&format!("slurm-{plugin}"), "this Slurm has no such plugin");
            continue;
        }
        let output = step(mpi).expect("srun is there");
        expect_group(&output, 3, true);
        assert!(saw_the_others_end(&output), "{mpi}");
    }
}
