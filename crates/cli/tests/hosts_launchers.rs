//! Ranks that other launchers start on several hosts of a laboratory: Open MPI, MPICH's Hydra, and Slurm with a daemon on each host.
//!
//! Ranks are this program once more: `as_a_rank` does what its role says.

mod labs;
#[path = "../../comm/tests/oracle/mod.rs"]
mod oracle;
#[path = "labs/secrets.rs"]
mod secrets;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
#[path = "../../comm/tests/slurm/mod.rs"]
mod slurm;

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::collective::Reduction;
use castell_host::process::{Pid, Process};
use labs::{CASTELL, ROLE, host_name, said, text};
use skipped::skip;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// For what takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn as_a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if role == "slurm" {
        return step_of_slurm();
    }
    let comm = Comm::init().unwrap_or_else(|error| panic!("{error}"));
    let (me, size) = (comm.rank(), comm.size());
    if role == "mortal" {
        return survive(&comm);
    }
    oracle::every::sample(&comm, 700);
    meet_all(&comm);
    // Who draws the secret, and one that it is sealed to.
    if comm.job().has_hosts() && [0, 2].contains(&me.0) {
        assert!(secrets::copies(&comm).iter().all(|copies| *copies == 0), "of the job's secret");
    }
    let net = comm.job().net();
    println!("\n* rank {me} of {size} on {}, {net}", host_name());
    comm.finalize();
}

/// Everybody meets everybody, not only leaders.
fn meet_all(comm: &Comm) {
    let (me, size) = (comm.rank(), comm.size());
    let (mine, mut got) = ([u64::from(me.0) + 1], vec![0u64; size as usize]);
    comm.scope(|scope| {
        let mut graph = scope.graph();
        for (other, into) in (0..).zip(got.chunks_mut(1)).filter(|(other, _)| *other != me.0) {
            graph.send(scope.share(&mine), Rank(other), Tag(7)).expect("legal");
            graph.recv(scope.lend(into), Some(Rank(other)), Some(Tag(7))).expect("legal");
        }
        scope.run(&graph.compile().expect("it compiles")).expect("it starts").wait().expect("it ends well");
    });
    got[me.index()] = u64::from(me.0) + 1;
    assert!(got.iter().copied().eq(1..=u64::from(size)), "{got:?}");
}

/// Rank 1 is killed; the others hear of it wherever they are, and go on among themselves.
fn survive(comm: &Comm) {
    let world = comm.world();
    meet_all(comm);
    let lives = comm.rank() != Rank(1);
    let living = world.split(Some(u32::from(lives)), 0).expect("it is made").expect("it has a colour");
    world.barrier().expect("all are there");
    if !lives {
        Process::open(Pid::current()).and_then(|me| me.signal(libc::SIGKILL)).expect("it can");
    }
    let mut byte = [0u8];
    let failure = comm.scope(|scope| {
        let mut graph = scope.graph();
        graph.recv(scope.lend(&mut byte), Some(Rank(1)), Some(Tag(1))).expect("legal");
        let run = scope.run(&graph.compile().expect("it compiles")).expect("it starts");
        run.wait().expect_err("rank 1 is dead")
    });
    let mut sum = [0u64];
    living.allreduce(&[1u64], &mut sum, Reduction::Sum).expect("it goes on");
    // Not printed: a launcher that has lost a rank may lose what others print, too.
    let folder = PathBuf::from(std::env::var("CASTELL_TEST_FOLDER").expect("the test gives one"));
    std::fs::write(folder.join(comm.rank().to_string()), format!("{} {failure}", sum[0])).expect("a file");
    comm.finalize();
}

/// The hosts of the ranks as they were told.
fn expect(output: &Output, hosts: &[u32], net: &str) {
    let size = hosts.len();
    let expected = hosts.iter().enumerate();
    let expected = expected.map(|(rank, host)| format!("rank {rank} of {size} on h{host}, {net}"));
    let mut expected: Vec<String> = expected.collect();
    expected.sort();
    assert_eq!(said(output), expected, "{}", text(&output.stderr));
}

/// A program that starts a command on a host, for launchers that know of ssh: options, the host, words for a shell.
fn remote(folder: &Path) -> String {
    let path = folder.join("remote");
    let script = format!(
        "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1; shift\nexec {CASTELL} lab --on \"$host\" -- sh -c \"$*\"\n"
    );
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
    path.to_str().expect("a path").to_owned()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Runs a launcher on the first of three hosts; `None`, with a line that says so, where it is not installed or labs are not possible.
fn launch(words: &[&str], role: &str, environment: &[(&str, &str)]) -> Option<Output> {
    launcher(words, role, environment).map(|mut command| command.output().expect("castell runs"))
}

fn launcher(words: &[&str], role: &str, environment: &[(&str, &str)]) -> Option<Command> {
    if !labs::are_possible() {
        return None;
    }
    if !Command::new(words[0]).arg("--version").output().is_ok_and(|output| output.status.success()) {
        skip(words[0], "not installed");
        return None;
    }
    let mut command = labs::on_first(3, &["timeout", "-k", "2", "150"]);
    command.args(words).args(labs::myself()).env(ROLE, role);
    command.envs(environment.iter().copied());
    Some(command)
}

const OPEN_MPI: [&str; 5] = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"];

#[test]
fn mpich_starts_ranks_on_several_hosts() {
    let folder = folder();
    let hydra = [("HYDRA_LAUNCHER", "rsh"), ("HYDRA_LAUNCHER_EXEC", &remote(folder.path()))];
    let words = ["mpiexec.mpich", "-hosts", "h1:2,h2:1,h3:3", "-n", "6"];
    let Some(output) = launch(&words, "meet", &hydra) else { return };
    expect(&output, &[1, 1, 2, 3, 3, 3], "shm");
    let in_turn = ["mpiexec.mpich", "-hosts", "h1,h2,h3", "-ppn", "1", "-n", "5"];
    let output = launch(&in_turn, "meet", &[hydra[0], hydra[1], ("CASTELL_NET", "esp=eth0")]);
    expect(&output.expect("it was there"), &[1, 2, 3, 1, 2], "esp=eth0");
    let one = ["mpiexec.mpich", "-hosts", "h2", "-n", "3"];
    expect(&launch(&one, "meet", &hydra).expect("it was there"), &[2, 2, 2], "shm");
}

#[test]
fn open_mpi_starts_ranks_on_several_hosts() {
    let folder = folder();
    let agent = remote(folder.path());
    let ssh = [("OMPI_MCA_plm_rsh_agent", &*agent), ("PRTE_MCA_plm_ssh_agent", &*agent)];
    let words = [&OPEN_MPI[..], &["--host", "h1:2,h2:1,h3:3", "-n", "6"]].concat();
    let Some(output) = launch(&words, "meet", &ssh) else { return };
    if text(&output.stderr).contains("PMIx client library cannot be used") {
        return skip("libpmix", "Open MPI brings no libpmix.so.2 here");
    }
    expect(&output, &[1, 1, 2, 3, 3, 3], "shm");
    // Variables are not handed on: what rank 0 finds counts for all.
    let in_turn = [&OPEN_MPI[..], &["--host", "h1:2,h2:2,h3:2", "--map-by", "node", "-n", "5"]].concat();
    let output = launch(&in_turn, "meet", &[ssh[0], ssh[1], ("CASTELL_NET", "tcp")]);
    expect(&output.expect("it was there"), &[1, 2, 3, 1, 2], "tcp");
}

#[test]
fn a_death_on_another_host_is_noticed_without_castells_launcher() {
    let folder = folder();
    let (agent, path) = (remote(folder.path()), folder.path().to_str().expect("a path"));
    let set = [
        ("OMPI_MCA_plm_rsh_agent", &*agent),
        ("PRTE_MCA_plm_ssh_agent", &*agent),
        ("CASTELL_TEST_FOLDER", path),
    ];
    // Else the launcher ends all ranks when one dies.
    let words =
        [&OPEN_MPI[..], &["--enable-recovery", "--host", "h1:1,h2:2,h3:1", "-x", "CASTELL_TEST_FOLDER"]]
            .concat();
    let words = [&words[..], &["-n", "4"]].concat();
    let Some(mut command) = launcher(&words, "mortal", &set) else { return };
    // Open MPI itself may wait for the dead for ever.
    let mut lab = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("castell runs");
    let told = |rank: u32| std::fs::read_to_string(folder.path().join(rank.to_string())).unwrap_or_default();
    let since = Instant::now();
    while [0, 2, 3].iter().any(|rank| told(*rank).is_empty()) && since.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    lab.kill().expect("a signal");
    lab.wait().expect("its end");
    for rank in [0, 2, 3] {
        assert!(
            told(rank).starts_with("3 ") && told(rank).contains("rank 1"),
            "rank {rank}: {:?}",
            told(rank)
        );
    }
}

/// Inside a lab: a Slurm with a daemon on each host, and steps in it.
fn step_of_slurm() {
    let lab = slurm::Lab { castell: CASTELL, folder: Path::new(env!("CARGO_TARGET_TMPDIR")) };
    let layout = slurm::Layout { nodes: 3, processors: 2, lab: Some(lab), ..slurm::Layout::default() };
    let slurm = match slurm::Slurm::start_with(&layout) {
        Ok(slurm) => slurm,
        Err(why) => return println!("\nno slurm: {}", why.replace('\n', " ")),
    };
    for plugin in ["pmi2", "pmix"] {
        if !slurm.offers(plugin) {
            println!("\nno slurm-{plugin}");
            continue;
        }
        let mpi = format!("--mpi={plugin}");
        let mut command = Command::new("timeout");
        command.args(["-k", "2", "100", "srun", &mpi, "--overcommit", "-N3", "-n7"]).args(labs::myself());
        command.env(ROLE, "meet").env("SLURM_CONF", slurm.configuration()).stdin(Stdio::null());
        let output = command.output().expect("timeout runs");
        for line in said(&output) {
            println!("\n* {plugin}: {line}");
        }
    }
}

#[test]
fn slurm_starts_ranks_on_several_nodes() {
    if !labs::are_possible() {
        return;
    }
    let output =
        labs::on_first(3, &[]).args(labs::myself()).env(ROLE, "slurm").output().expect("castell runs");
    let (all, out) = (said(&output), text(&output.stdout));
    if let Some((_, why)) = out.split_once("no slurm: ") {
        return skip("slurm", why.lines().next().unwrap_or_default());
    }
    for plugin in ["pmi2", "pmix"] {
        if out.contains(&format!("no slurm-{plugin}")) {
            skip(&format!("slurm-{plugin}"), "this Slurm has no such plugin");
            continue;
        }
        let expected = [1, 1, 1, 2, 2, 3, 3].iter().enumerate();
        let expected: Vec<String> =
            expected.map(|(rank, host)| format!("{plugin}: rank {rank} of 7 on h{host}, shm")).collect();
        let found: Vec<&String> = all.iter().filter(|line| line.starts_with(plugin)).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{out}");
    }
}
