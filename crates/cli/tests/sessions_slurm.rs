//! Sessions in an allocation of a real Slurm of four nodes of two processors: states and masks on all nodes, whoever dies.
//!
//! All nodes are this host, so that the test sees the processes of all of them; which node one is on says its environment.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
#[path = "../../comm/tests/slurm/mod.rs"]
mod slurm;

use serde_json::Value;
use skipped::skip;
use slurm::{Layout, Slurm};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");
/// Does all it can to run on; its second process has left the group.
const STUBBORN: &str =
    "trap '' TSTP; setsid sh -c \"trap '' TSTP; while :; do :; done\" & while :; do :; done";

/// Sixteen processes that never rest are enough for one machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// An allocation of all nodes, and the environment of its shell.
struct Allocation {
    _turn: MutexGuard<'static, ()>,
    slurm: Slurm,
    environment: Vec<(String, String)>,
    shell: Child,
    folder: tempfile::TempDir,
}

impl Allocation {
    fn start() -> Option<Allocation> {
        // A test that failed has left nothing that disturbs another.
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let layout = Layout {
            nodes: 4,
            processors: 2,
            settings: "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU",
            ..Layout::default()
        };
        let slurm = match Slurm::start_with(&layout) {
            Ok(slurm) => slurm,
            Err(why) => {
                skip("slurm-sessions", &why);
                return None;
            }
        };
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        fs::create_dir(&run).expect("a folder");
        let script = "env -0 > env.new; mv env.new environment; exec sleep 1000";
        let mut command = Command::new("salloc");
        command
            .args(["--nodes=4", "--ntasks=8", "--quiet", "--kill-command=KILL", "sh", "-c", script])
            .stdin(Stdio::null());
        command.env("SLURM_CONF", slurm.configuration()).env("XDG_RUNTIME_DIR", run);
        let shell = command.current_dir(folder.path()).spawn().expect("salloc can be started");
        let file = folder.path().join("environment");
        wait_for("an allocation", || file.exists());
        let environment = read_environment(&fs::read(file).expect("a file"));
        Some(Allocation { _turn: turn, slurm, environment, shell, folder })
    }

    /// A command in the shell of the allocation.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear().envs(self.environment.iter().cloned());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn session(&self, options: &[&str], program: &[&str]) -> Session {
        let mut words = vec![CASTELL, "session", "run"];
        words.extend(options);
        words.push("--");
        words.extend(program);
        let mut command = self.command(&words);
        Session { runner: command.spawn().expect("castell can be started") }
    }

    /// A session on all slots, whose every task has two processes that do all they can to run on.
    fn stubborn(&self, policy: &str) -> Session {
        let session = self.session(&["--policy", policy], &["srun", "sh", "-c", STUBBORN]);
        wait_for("two processes of each of eight tasks", || session.tasks().len() >= 16);
        session
    }

    fn list(&self) -> Vec<Value> {
        let output = self.command(&[CASTELL, "session", "list", "--json"]).output().expect("castell starts");
        let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        list["sessions"].as_array().expect("a list").clone()
    }

    fn states(&self) -> Vec<String> {
        self.list().iter().map(|session| session["state"].as_str().expect("a word").to_owned()).collect()
    }

    /// The processes of `castell session WHAT` in this allocation.
    fn castells(&self, what: &str) -> Vec<u32> {
        let begins = format!("{CASTELL}\0session\0{what}\0");
        let is_ours = |pid: u32| {
            Some(
                fs::read(format!("/proc/{pid}/cmdline")).ok()?.starts_with(begins.as_bytes())
                    && environment_of(pid)?.get("SLURM_CONF")? == self.slurm.configuration(),
            )
        };
        processes().into_iter().filter(|pid| is_ours(*pid) == Some(true)).collect()
    }

    /// With the nodes that they keep.
    fn keepers(&self) -> BTreeMap<String, u32> {
        let node = |pid: u32| Some((environment_of(pid)?.get("SLURMD_NODENAME")?.clone(), pid));
        self.castells("keeper").into_iter().filter_map(node).collect()
    }

    fn tell(&self, what: &str) {
        fs::write(self.folder.path().join(what), "").expect("a file");
    }

    fn has(&self, what: &str) -> bool {
        self.folder.path().join(what).exists()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let _ = self.slurm.ask("scancel", &["--user=root"]);
        let _ = self.shell.wait();
        // An agent without a job ends as one without sessions does.
        wait_for("all agents to end", || self.castells("agent").is_empty());
    }
}

struct Session {
    runner: Child,
}

impl Session {
    /// The processes that carry its mark on nodes, with their nodes.
    fn tasks(&self) -> BTreeMap<u32, String> {
        let mark = format!("{}-", self.runner.id());
        let is_it = |variables: &BTreeMap<String, String>| {
            variables.get("CASTELL_SESSION").is_some_and(|value| value.starts_with(&mark))
        };
        let of = |pid: u32| {
            let variables = environment_of(pid).filter(is_it)?;
            (state(pid)? != 'Z').then_some(())?;
            Some((pid, variables.get("SLURM_PROCID").and(variables.get("SLURMD_NODENAME"))?.clone()))
        };
        processes().into_iter().filter_map(of).collect()
    }

    fn times(&self) -> Vec<u64> {
        self.tasks().keys().map(|pid| time(*pid).unwrap_or(0)).collect()
    }

    #[track_caller]
    fn stands_still(&self) {
        let tasks = self.tasks();
        assert!(tasks.len() >= 16, "they live on: {tasks:?}");
        let before = self.times();
        sleep(Duration::from_millis(500));
        assert_eq!((self.times(), self.tasks()), (before, tasks));
    }

    #[track_caller]
    fn moves(&self) {
        let before = self.times();
        assert!(before.len() >= 16, "they live on");
        wait_for("each process gets on", || self.times().iter().zip(&before).all(|(now, then)| now > then));
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.runner.id().to_string()]).status();
        assert!(status.expect("kill can be started").success());
    }

    #[track_caller]
    fn ends_with(mut self, code: i32) {
        assert_eq!(self.runner.wait().expect("a child").code(), Some(code));
        wait_for("nothing is left of it", || self.tasks().is_empty());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.runner.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal("TERM");
            let _ = self.runner.wait();
        }
    }
}

fn read_environment(bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let entries = text.split('\0').filter_map(|entry| entry.split_once('='));
    entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn environment_of(pid: u32) -> Option<BTreeMap<String, String>> {
    fs::read(format!("/proc/{pid}/environ")).ok().map(|bytes| read_environment(&bytes).into_iter().collect())
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat[stat.rfind(')')? + 1..].split_ascii_whitespace().map(str::to_owned).collect())
}

fn state(pid: u32) -> Option<char> {
    stat(pid)?[0].chars().next()
}

/// In ticks.
fn time(pid: u32) -> Option<u64> {
    let fields = stat(pid)?;
    Some(fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?)
}

fn kill(pid: u32) {
    let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(status.expect("kill can be started").success());
}

fn allowed(pid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

/// Nodes alone may take a minute until castell is started on all of them.
const PATIENCE: Duration = Duration::from_secs(180);

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited for {} s: {what}", PATIENCE.as_secs());
        sleep(Duration::from_millis(20));
    }
}

/// On `slots` slots, until there is the file `end`.
fn until_told(allocation: &Allocation, slots: &str) -> Session {
    let script = "touch started.$SLURM_PROCID; while [ ! -e end ]; do sleep 0.02; done; exit 7";
    allocation.session(&["-n", slots], &["srun", "sh", "-c", script])
}

/// A stubborn session on all slots that stands still, and the one on one slot for which it does.
fn suspended_by(allocation: &Allocation) -> (Session, Session) {
    let long = allocation.stubborn("surpass");
    let short = until_told(allocation, "1");
    wait_for("the short one runs", || allocation.has("started.0"));
    long.stands_still();
    (long, short)
}

#[test]
fn policies_hold_on_all_nodes() {
    let Some(allocation) = Allocation::start() else { return };
    let long = allocation.stubborn("surpass");
    let short = until_told(&allocation, "3");
    wait_for("the short one runs", || allocation.has("started.2"));
    assert_eq!(allocation.states(), ["suspended", "running"]);
    long.stands_still();
    let nodes: Vec<String> = long.tasks().into_values().collect();
    for node in ["n1", "n2", "n3", "n4"] {
        assert_eq!(nodes.iter().filter(|task| **task == node).count(), 4, "two tasks on {node}: {nodes:?}");
    }
    // Where the agent says that it is.
    let list = allocation.list();
    let parts = list[1]["parts"].as_array().expect("a list");
    let mut placed: Vec<&str> = Vec::new();
    for part in parts {
        let node = part["node"].as_str().expect("a name");
        placed.extend(std::iter::repeat_n(node, part["slots"].as_u64().expect("a number") as usize));
    }
    let mut tasks: Vec<String> = short.tasks().into_values().collect();
    tasks.sort_unstable();
    tasks.dedup();
    placed.dedup();
    assert_eq!(tasks, placed);
    allocation.tell("end");
    short.ends_with(7);
    wait_for("the long one runs again", || allocation.states() == ["running"]);
    long.moves();

    // Ctrl-Z, and back.
    long.signal("TSTP");
    wait_for("the runner is stopped", || state(long.runner.id()) == Some('T'));
    wait_for("all are stopped", || long.tasks().keys().all(|pid| state(*pid) == Some('T')));
    long.stands_still();
    long.signal("CONT");
    long.moves();
    long.signal("TERM");
    long.ends_with(143);
}

/// A killed keeper is replaced; where agent and keepers are killed, runners start others, who go on from there.
#[test]
fn whoever_dies_sessions_go_on() {
    let Some(allocation) = Allocation::start() else { return };
    let (long, short) = suspended_by(&allocation);

    // A keeper: another takes its place, and what was stopped stays so.
    let before = allocation.keepers();
    assert_eq!(before.keys().collect::<Vec<_>>(), ["n1", "n2", "n3", "n4"]);
    kill(before["n3"]);
    wait_for("another keeper", || allocation.keepers().get("n3").is_some_and(|pid| *pid != before["n3"]));
    long.stands_still();
    allocation.tell("end");
    short.ends_with(7);
    long.moves();

    // The agent and all keepers at once.
    fs::remove_file(allocation.folder.path().join("end")).expect("it is there");
    fs::remove_file(allocation.folder.path().join("started.0")).expect("it is there");
    let short = until_told(&allocation, "1");
    wait_for("the short one runs", || allocation.has("started.0"));
    long.stands_still();
    let all: Vec<u32> =
        allocation.castells("agent").into_iter().chain(allocation.keepers().into_values()).collect();
    assert_eq!(all.len(), 5);
    // At once, as far as that goes: keepers end with their agent.
    let killed = Command::new("kill").arg("-KILL").args(all.iter().map(u32::to_string)).output();
    killed.expect("kill can be started");
    wait_for("another agent and its keepers", || allocation.keepers().len() == 4);
    wait_for("it knows all", || allocation.states() == ["suspended", "running"]);
    // Keepers that lived longer than the agent may have let it go on meanwhile.
    wait_for("it stands still again", || {
        let before = long.times();
        sleep(Duration::from_millis(200));
        long.times() == before
    });
    long.stands_still();
    allocation.tell("end");
    short.ends_with(7);
    long.moves();

    // The next session suspends the first once more.
    let next = allocation.session(&["-n", "1"], &["srun", "sh", "-c", "exit 3"]);
    next.ends_with(3);
    long.moves();
    long.signal("TERM");
    long.ends_with(143);
}

/// A node whose keepers die again and again: the agent lets everything go on, says why, and ends.
#[test]
fn a_lost_node_freezes_nobody() {
    let Some(allocation) = Allocation::start() else { return };
    let (long, short) = suspended_by(&allocation);
    while let Some(keeper) = allocation.keepers().get("n3").copied() {
        kill(keeper);
        wait_for("another keeper, or no agent", || {
            allocation.keepers().get("n3").is_some_and(|next| *next != keeper)
                || allocation.castells("agent").is_empty()
        });
    }
    long.moves();
    let log = allocation.folder.path().join("run/castell/sessions-slurm-1.log");
    let said = fs::read_to_string(log).expect("what the agent said");
    assert!(said.contains("node n3: it cannot be reached any more"), "{said}");
    allocation.tell("end");
    short.ends_with(7);
    // The next session finds the node again.
    let next = allocation.session(&["-n", "1"], &["srun", "true"]);
    next.ends_with(0);
    long.moves();
    long.signal("TERM");
    long.ends_with(143);
}

#[test]
fn a_killed_runner_leaves_nothing_on_any_node() {
    let Some(allocation) = Allocation::start() else { return };
    let mut long = allocation.stubborn("surpass");
    let short = until_told(&allocation, "2");
    wait_for("the short one runs", || allocation.has("started.1"));
    long.signal("KILL");
    long.runner.wait().expect("a child");
    wait_for("nothing is left of it", || long.tasks().is_empty());
    wait_for("the agent knows", || allocation.states() == ["running"]);

    allocation.tell("end");
    short.ends_with(7);

    // A step that Slurm kills is a program that ends.
    let killed = allocation.session(&[], &["srun", "sh", "-c", "while :; do sleep 0.1; done"]);
    wait_for("all of its tasks", || killed.tasks().len() >= 8);
    let step = environment_of(*killed.tasks().keys().next().expect("a task")).expect("its environment");
    let step = format!("{}.{}", step["SLURM_JOB_ID"], step["SLURM_STEP_ID"]);
    allocation.slurm.ask("scancel", &["--signal=KILL", &step]).expect("scancel");
    wait_for("it has ended", || allocation.states().is_empty());
    killed.ends_with(137);
}

/// From another node, whose folder for sockets is another one.
#[test]
fn any_node_of_the_job_reaches_the_agent() {
    let Some(allocation) = Allocation::start() else { return };
    let long = allocation.stubborn("sidestep");
    let everywhere =
        |session: &Session| session.tasks().keys().filter_map(|pid| allowed(*pid)).collect::<Vec<_>>();
    assert!(everywhere(&long).iter().all(|cpus| cpus == "0-1"), "{:?}", everywhere(&long));

    // Two slots on one node: nobody else is on these, and those that were are on none of them.
    let session = format!(
        "{CASTELL} session run -n 1 -- srun sh -c 'touch started.0; while [ ! -e end ]; do sleep 0.02; done'"
    );
    let elsewhere = format!("mount -t tmpfs none \"$XDG_RUNTIME_DIR\" && {session}");
    let words = [
        "srun",
        "--overlap",
        "--nodelist=n3",
        "--nodes=1",
        "--ntasks=1",
        "unshare",
        "--mount",
        "sh",
        "-c",
        &elsewhere,
    ];
    let mut other = allocation.command(&words).spawn().expect("srun can be started");
    wait_for("the other runs", || allocation.has("started.0"));
    let list = allocation.list();
    let part = &list[1]["parts"][0];
    let (node, cpu) = (part["node"].as_str().expect("a name"), part["cpus"][0].as_u64().expect("a number"));
    let tasks = long.tasks();
    wait_for("the first to step aside", || {
        tasks.iter().all(|(pid, task)| {
            let wanted = if task == node { (1 - cpu).to_string() } else { "0-1".into() };
            allowed(*pid).is_none_or(|cpus| cpus == wanted)
        })
    });
    long.moves();
    allocation.tell("end");
    assert!(other.wait().expect("a child").success());
    wait_for("they are back", || everywhere(&long).iter().all(|cpus| cpus == "0-1"));
}

/// What starts the ranks puts them where the session has slots, and nothing had to be said to it.
#[test]
fn launchers_find_the_nodes_of_a_session() {
    let Some(allocation) = Allocation::start() else { return };
    // One of the first node's two slots is taken.
    let first = until_told(&allocation, "1");
    wait_for("the first runs", || allocation.has("started.0"));
    let print = "echo node $SLURMD_NODENAME, $CASTELL_SESSION_HOSTS";
    let launchers: [&[&str]; 4] = [
        &["srun", "sh", "-c", print],
        &[CASTELL, "launch", "-n", "4", "--", "sh", "-c", print],
        &["mpirun.openmpi", "--allow-run-as-root", "-n", "4", "sh", "-c", print],
        &["mpirun.mpich", "-n", "4", "sh", "-c", print],
    ];
    for launcher in launchers {
        let mut words = vec![CASTELL, "session", "run", "-n", "4", "--"];
        words.extend(launcher);
        // All nodes are this host: Open MPI's daemons would write one file of hwloc's at the same time, and now and then one crashes.
        let mut command = allocation.command(&words);
        command.env("OMPI_MCA_rtc", "^hwloc");
        // For the same reason they make one directory at the same time, and now and then one finds that it is there.
        let is_unlucky = |output: &Output| {
            let said = String::from_utf8_lossy(&output.stderr);
            said.contains("unable to create the desired directory") && said.contains("File exists")
        };
        let mut output = command.output().expect("castell can be started");
        for _ in 0..3 {
            if !is_unlucky(&output) {
                break;
            }
            output = command.output().expect("castell can be started");
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let mut nodes: Vec<&str> =
            said.lines().filter_map(|line| line.strip_prefix("node ")?.get(..2)).collect();
        nodes.sort_unstable();
        assert!(output.status.success(), "{launcher:?}: {output:?}");
        let hosts = said.trim().rsplit(", ").next().unwrap_or_default();
        let wanted: Vec<&str> = hosts
            .split(',')
            .filter_map(|host| host.split_once(':'))
            .flat_map(|(node, slots)| vec![node; slots.parse().expect("a number")])
            .collect();
        assert_eq!(nodes.len(), 4, "{launcher:?}: {said}");
        assert_eq!(nodes, wanted, "{launcher:?}");
        // The slots of one that has ended are free a moment later.
        wait_for("it to be gone", || allocation.states() == ["running"]);
    }
    allocation.tell("end");
    first.ends_with(7);
}
