//! A daemon for several users of a node: each has sessions and kernels, and only his own are his business. Needs root, as such a daemon
//! does, and programs that other users can read.

mod beside;
mod patience;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
mod with_daemon;

use beside::Beside;
use castell_host::control_group::Home;
use castell_kernels::Application;
use castell_policy::session::protocol::{FromAgent, ToAgent, VERSION, Wanted, decode, encode};
use patience::{said, until};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use with_daemon::{Daemon, kernel, start};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");
const ALICE: u32 = 3001;
const BOB: u32 = 3002;
const EVE: u32 = 3003;
/// Of the daemon.
const OPTIONS: [&str; 4] = ["--allow", "3001,3002", "--session-policy", "surpass"];
/// Where this test, started once more as another user's program, finds its folder.
const FOLDER: &str = "CASTELL_TEST_FOLDER";

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// A program whose kernel runs until there is a file.
#[test]
fn program() {
    let Some(folder) = folder() else { return };
    let application = Application::open("secret").expect("opens");
    until("it has a daemon", || application.has_daemon());
    let collection = application.register(&[kernel("gpu")], &[]).expect("a kernel");
    let run = collection.run(1, |_| {
        while !folder.join("go").exists() {
            thread::sleep(Duration::from_millis(5));
        }
    });
    run.expect("it runs");
}

/// A program that says that it is somebody else's session.
#[test]
fn forger() {
    let Some(folder) = folder() else { return };
    let mark = fs::read_to_string(folder.join("mark")).expect("a mark");
    let wanted = |spawned_by| Wanted { slots: 1, mark: mark.clone(), spawned_by, ..Wanted::default() };
    let run = |wanted| ToAgent::Run(Box::new(wanted));
    let return_ = ToAgent::Return {
        mark: mark.clone(),
        started: true,
        suspended: false,
        paused: false,
        parts: Vec::new(),
        known: Box::default(),
    };
    for forged in [
        run(wanted(None)),
        run(wanted(Some(mark.clone()))),
        ToAgent::Join { mark: mark.clone() },
        return_,
        ToAgent::HandOver {},
    ] {
        let mut stream = UnixStream::connect(folder.join("daemon.sessions.sock")).expect("an agent");
        let said = [encode(&ToAgent::Hello { version: VERSION }), encode(&forged)].concat();
        stream.write_all(&said).expect("it listens");
        let answers = BufReader::new(stream).lines().take(2).map(|line| line.expect("a line"));
        let answers: Vec<FromAgent> =
            answers.map(|line| decode(line.as_bytes()).expect("a message")).collect();
        assert!(matches!(answers[1], FromAgent::Refused { .. }), "{forged:?}: {answers:?}");
    }
}

struct World {
    daemon: Daemon,
}

impl World {
    /// None where it cannot be shown.
    fn new(options: &[&str]) -> Option<World> {
        if castell_host::descriptor::own_user() != 0 {
            skipped::skip("another-user", "this is not root");
            return None;
        }
        let daemon = Daemon::start(options);
        fs::set_permissions(daemon.folder.path(), Permissions::from_mode(0o755)).expect("ours");
        let world = World { daemon };
        let reads = world.as_user(ALICE, Path::new(CASTELL), &["--version"]).output();
        if !reads.is_ok_and(|output| output.status.success()) {
            skipped::skip("another-user", "other users cannot run the castell of this test");
            return None;
        }
        Some(world)
    }

    fn folder(&self) -> &Path {
        self.daemon.folder.path()
    }

    fn as_user(&self, user: u32, program: &Path, words: &[&str]) -> Command {
        let number = user.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &number, "--regid", &number, "--clear-groups"]).arg(program).args(words);
        command
            .env(FOLDER, self.folder())
            .env("CASTELL_DAEMON", self.daemon.socket())
            .env_remove("XDG_RUNTIME_DIR");
        command.env("CASTELL_SESSION_SOCKET", self.folder().join("daemon.sessions.sock"));
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    fn castell(&self, user: u32, words: &[&str]) -> Output {
        self.as_user(user, Path::new(CASTELL), words).output().expect("it starts")
    }

    /// This test's function as another user's program.
    fn role(&self, user: u32, session: &[&str], role: &str) -> Command {
        let me = std::env::current_exe().expect("a test");
        let me = me.to_str().expect("text");
        match session {
            [] => self.as_user(user, Path::new(me), &[role, "--exact"]),
            words => self.as_user(user, Path::new(CASTELL), &[words, &["--", me, role, "--exact"]].concat()),
        }
    }

    #[track_caller]
    fn refused(&self, user: u32, words: &[&str], why: &str) {
        let output = self.castell(user, words);
        assert!(!output.status.success() && said(&output).contains(why), "{words:?}: {}", said(&output));
    }

    fn sessions(&self, user: u32) -> Vec<Value> {
        let output = self.castell(user, &["session", "list", "--json"]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        list["sessions"].as_array().cloned().unwrap_or_default()
    }

    fn states(&self) -> Vec<Value> {
        self.sessions(ALICE).iter().map(|session| session["state"].clone()).collect()
    }
}

#[test]
fn each_user_has_his_own() {
    let Some(world) = World::new(&OPTIONS) else { return };
    let alices = Beside(world.role(ALICE, &["session", "run"], "program").spawn().expect("it starts"));
    until("her kernel runs", || said(&world.daemon.strategy(&["status"])).contains("secret#1"));
    let shown = world.sessions(ALICE);
    assert!(shown[0]["command"].as_str().is_some_and(|command| command.ends_with("program --exact")));

    // Others see that there is something, and no more.
    let shown = world.sessions(BOB);
    assert_eq!((&shown[0]["user"], &shown[0]["command"]), (&"3001".into(), &"(of 3001)".into()));
    let status = said(&world.castell(BOB, &["strategy", "status"]));
    assert!(status.contains("(another user's)#1") && !status.contains("secret"), "{status}");
    for command in ["stop", "resume", "end", "explain"] {
        world.refused(BOB, &["session", command, "1"], "session 1 is another user's");
    }
    world.refused(BOB, &["session", "set", "1", "--priority", "3"], "another user's");
    world.refused(BOB, &["session", "set", "--policy", "wait"], "only the user whose agent this is");
    world.refused(BOB, &["session", "run", "--policy", "wait", "--", "true"], "only root changes that");
    world.refused(BOB, &["strategy", "governor", "low"], "only root looks after this daemon");
    world.refused(BOB, &["strategy", "load", "banking"], "only root looks after this daemon");
    world.refused(EVE, &["strategy", "status"], "this daemon does not serve you");
    world.refused(EVE, &["session", "run", "--", "true"], "does not serve you");
    assert!(world.sessions(EVE).is_empty());

    // Nor can they say that it is theirs.
    let process = shown[0]["pid"].as_u64().expect("a process") as u32;
    let mark = castell_agent::Tree::of(process).expect("it lives").mark().to_owned();
    fs::write(world.folder().join("mark"), mark).expect("a file");
    let forger = world.role(BOB, &[], "forger").output().expect("it starts");
    assert!(forger.status.success(), "{}", said(&forger));
    assert_eq!(world.states(), ["running"]);

    // The policy is the same for all; whoever looks after the node looks after all.
    let wait =
        format!("while ! [ -e {} ]; do sleep 0.05; done; exit 4", world.folder().join("end").display());
    let bobs = world.as_user(BOB, Path::new(CASTELL), &["session", "run", "--", "sh", "-c", &wait]).spawn();
    let bobs = Beside(bobs.expect("it starts"));
    until("hers is suspended", || world.states() == ["suspended", "running"]);
    for (command, states) in [("stop", ["running", "suspended"]), ("resume", ["suspended", "running"])] {
        let output = world.castell(0, &["session", command, "2"]);
        assert!(output.status.success(), "{}", said(&output));
        until("that is so", || world.states() == states);
    }
    fs::write(world.folder().join("end"), "").expect("a file");
    assert_eq!(bobs.code(), Some(4));
    fs::write(world.folder().join("go"), "").expect("a file");
    assert_eq!(alices.code(), Some(0));
    until("all has ended", || world.sessions(ALICE).is_empty() && world.daemon.is_empty());
}

/// Where sessions share processors, those of one user do; those of two where the daemon has been told so, also if it was so before.
#[test]
fn two_users_share_no_processors_unless_they_are_to() {
    let options = ["--allow", "3001,3002", "--session-policy", "overbook"];
    let Some(mut world) = World::new(&options) else { return };
    let run = |user: u32| {
        let mut command = world.as_user(user, Path::new(CASTELL), &["session", "run", "--", "sleep", "1000"]);
        Beside(command.spawn().expect("it starts"))
    };
    let first = run(ALICE);
    until("hers runs", || world.states() == ["running"]);
    let of_bob = run(BOB);
    until("his waits", || world.states() == ["running", "waiting"]);
    let second = run(ALICE);
    until("her second one shares with her first", || world.states() == ["running", "waiting", "running"]);
    let explained = said(&world.castell(BOB, &["session", "explain", "2"]));
    assert!(explained.contains("users share none here"), "{explained}");
    let with = said(&world.castell(BOB, &["session", "run", "--with", "1", "--", "true"]));
    assert!(with.contains("session 1 is another user's"), "{with}");

    // The next daemon lets them, and the one after it says what it cannot change.
    let sharing = [&options[..], &["--share-users"]].concat();
    let all_run = ["running"; 3];
    for options in [&sharing[..], &options] {
        world.daemon.child.kill().expect("it lives");
        world.daemon.child.wait().expect("it is dead");
        world.daemon.child = start(&world.daemon.socket(), options);
        until("all share", || world.states() == all_run);
    }
    drop(of_bob);
    until("he has gone", || world.states() == ["running"; 2]);
    drop((first, second));
    until("all has ended", || world.sessions(ALICE).is_empty());
}

/// Users may make no control groups: the daemon does it for them, and no program leaves the processors of its session.
#[test]
fn users_stay_on_their_processors() {
    let Some(mut world) = World::new(&OPTIONS) else { return };
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let home = Home::new(Path::new("/sys/fs/cgroup"), &own);
    match home.make_cpuset("0-0@test") {
        Some(set) => fs::remove_dir(set.folder()).expect("nobody is in it"),
        None => return skipped::skip("cpuset", "this process may make no control group for processors"),
    }
    let all = castell_host::topology::print_list(&castell_host::topology::Processors::usable().cpus);
    let bind =
        format!("taskset -p -c {all} $$ >&2 && grep Cpus_allowed_list /proc/self/status; exec sleep 1000");
    let mut session =
        world.as_user(ALICE, Path::new(CASTELL), &["session", "run", "-n", "1", "--", "sh", "-c", &bind]);
    let mut session = Beside(session.stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut line = String::new();
    BufReader::new(session.0.stdout.take().expect("piped")).read_line(&mut line).expect("text");
    let stays = |shown: &Value| {
        let cpu = shown["parts"][0]["cpus"][0].as_u64().expect("a processor");
        assert_eq!(line.split_whitespace().last(), Some(&*cpu.to_string()), "{shown}");
        assert_eq!((&shown["pinned_by"], &shown["stopped_by"]), (&"cpuset".into(), &"signals".into()));
    };
    stays(&world.sessions(ALICE)[0]);
    let mark = castell_agent::Tree::of(session.0.id()).expect("it lives").mark().to_owned();
    assert!(home.sessions().contains(&mark));

    // The next daemon has it in its books, and removes it when the runner has died.
    world.daemon.child.kill().expect("it lives");
    world.daemon.child.wait().expect("it is dead");
    world.daemon.child = start(&world.daemon.socket(), &OPTIONS);
    until("it is known", || world.states() == ["running"]);
    stays(&world.sessions(ALICE)[0]);
    session.0.kill().expect("it lives");
    until("nothing is left of it", || world.sessions(ALICE).is_empty() && !home.sessions().contains(&mark));

    // One that ends by itself leaves nothing either.
    let mut ends =
        world.as_user(BOB, Path::new(CASTELL), &["session", "run", "-n", "1", "--", "sleep", "0.2"]);
    let ends = Beside(ends.spawn().expect("it starts"));
    let mark = castell_agent::Tree::of(ends.0.id()).expect("it lives").mark().to_owned();
    until("it has a group", || home.sessions().contains(&mark));
    assert_eq!(ends.code(), Some(0));
    until("nothing is left of it", || world.sessions(BOB).is_empty() && !home.sessions().contains(&mark));
}

#[test]
fn users_are_named() {
    let output =
        Command::new(CASTELL).args(["daemon", "--allow", "no-such-user"]).output().expect("it starts");
    assert!(
        said(&output).contains("--allow no-such-user: there is no such user on this node"),
        "{}",
        said(&output)
    );
}
