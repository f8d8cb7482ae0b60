//! `castell daemon` with applications that are threads of this process, or processes of their own, and that live and die as they like.

use castell_host::descriptor;
use castell_kernels::mailbox::Mailbox;
use castell_kernels::protocol::{ToDaemon, VERSION};
use castell_kernels::{Application, Collection, Kernel};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const RESOURCES: [&str; 3] = ["one_core", "all_cores", "gpu"];

/// A daemon in a folder of its own. It is killed with this.
struct Daemon {
    folder: tempfile::TempDir,
    child: Child,
}

impl Daemon {
    fn start(options: &[&str]) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let child = start(&folder.path().join("daemon.sock"), options);
        Daemon { folder, child }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("daemon.sock")
    }

    fn signal(&self, signal: &str) {
        let killed = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(killed.expect("kill").success());
    }

    fn open(&self, name: &str) -> Application {
        let application = Application::open_at(name, Some(&self.socket())).expect("opens");
        wait_until("it is with the daemon", || application.has_daemon());
        application
    }

    fn strategy(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        command.arg("strategy").args(arguments).arg("--socket").arg(self.socket());
        command.output().expect("castell can be started")
    }

    fn status(&self) -> Value {
        let output = self.strategy(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// Nobody is registered, and nothing runs.
    fn is_empty(&self) -> bool {
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

fn start(socket: &Path, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.args(["daemon", "--socket"]).arg(socket);
    command.args(RESOURCES.iter().flat_map(|resource| ["--resource", resource]));
    let mut child = command.args(options).stderr(Stdio::piped()).spawn().expect("castell can be started");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.contains("listens at"), "{line}");
    thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    child
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    // No time is asserted: whoever waits for ever is a hang.
    for round in 0.. {
        if holds() {
            return;
        }
        assert!(round < 60_000, "{what}: not in a minute");
        thread::sleep(Duration::from_millis(1));
    }
}

fn kernel(resource: &str) -> Kernel {
    Kernel { resource: resource.into(), step_ns: Some(1_000) }
}

/// What runs where, as the kernels themselves see it, in all applications.
#[derive(Default)]
struct Seen {
    busy: [AtomicBool; 3],
    runs: AtomicU64,
}

impl Seen {
    /// One run of a few steps, each of which has its resource for itself.
    fn run(&self, collection: &Collection, random: &mut ChaCha8Rng) {
        let (steps, naps_us) = (random.random_range(1..4), random.random_range(0..300));
        let mut next = 0;
        let run = collection.run(steps, |step| {
            assert_eq!(step.step, next, "each step runs once, in order");
            next += 1;
            assert!(!self.busy[step.kernel].swap(true, Ordering::AcqRel), "two on one resource");
            thread::sleep(Duration::from_micros(naps_us));
            self.busy[step.kernel].store(false, Ordering::Release);
        });
        run.expect("it can run");
        assert_eq!(next, steps);
        self.runs.fetch_add(1, Ordering::Relaxed);
    }
}

/// Applications with threads, until `during` is over: how many runs there were.
fn applications(daemon: &Daemon, count: u64, seen: &Seen, during: impl FnOnce()) {
    let seed = castell_host::clock::now_ns();
    println!("seed {seed}");
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..count {
            let (ends, application) = (&ends, daemon.open(&format!("application {number}")));
            scope.spawn(move || {
                let collection =
                    application.register(&RESOURCES.map(kernel), &[]).expect("kernels for what is there");
                thread::scope(|scope| {
                    for thread in 0..3 {
                        let collection = &collection;
                        scope.spawn(move || {
                            let mut random = ChaCha8Rng::seed_from_u64(seed ^ (number * 10 + thread));
                            while !ends.load(Ordering::Acquire) {
                                seen.run(collection, &mut random);
                            }
                        });
                    }
                });
            });
        }
        // What panics here must not leave the others running.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(during));
        ends.store(true, Ordering::Release);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn applications_share_the_resources_of_a_node() {
    for options in [&["--spin-us", "0"][..], &["--spin-us", "50", "--strategy", "plan-ahead"]] {
        let daemon = Daemon::start(options);
        let seen = Seen::default();
        applications(&daemon, 4, &seen, || {
            wait_until("runs", || seen.runs.load(Ordering::Relaxed) > 500);
            let status = daemon.status();
            assert_eq!(status["applications"].as_array().map(Vec::len), Some(4));
        });
        wait_until("all have gone", || daemon.is_empty());
        assert_eq!(daemon.status()["done"], seen.runs.load(Ordering::Relaxed));
    }
}

#[test]
fn a_daemon_that_is_killed_is_followed_by_another() {
    let mut daemon = Daemon::start(&["--spin-us", "20"]);
    let (socket, seen) = (daemon.socket(), Seen::default());
    let shared = std::sync::Mutex::new(&mut daemon.child);
    // Only the child changes hands below.
    let view = Daemon {
        folder: tempfile::tempdir().expect("a folder"),
        child: Command::new("true").spawn().expect("true"),
    };
    std::os::unix::fs::symlink(&socket, view.socket()).expect("a link");
    applications(&view, 3, &seen, || {
        let mut random = ChaCha8Rng::seed_from_u64(castell_host::clock::now_ns());
        for _ in 0..25 {
            let before = seen.runs.load(Ordering::Relaxed);
            thread::sleep(Duration::from_millis(random.random_range(0..60)));
            let mut child = shared.lock().expect("no panic");
            child.kill().expect("it is ours");
            child.wait().expect("it was started");
            **child = start(&socket, &["--spin-us", "20"]);
            drop(child);
            wait_until("they go on", || seen.runs.load(Ordering::Relaxed) > before + 5);
        }
    });
    wait_until("all have gone", || view.is_empty());
}

#[test]
fn strategies_are_exchanged_under_load() {
    let daemon = Daemon::start(&[]);
    let seen = Seen::default();
    applications(&daemon, 3, &seen, || {
        for name in
            ["plan-ahead", "banking", "constraint", "short-term", "long-term"].iter().cycle().take(100)
        {
            let output = daemon.strategy(&["load", name]);
            assert!(output.status.success(), "{name}: {output:?}");
            assert_eq!(daemon.status()["strategy"], **name);
        }
        // What is no strategy, or fails, changes nothing.
        let script = daemon.folder.path().join("mine.luau");
        for text in
            ["return 3", "local s = {} function s.choose(node) error('no') end return s", "while true do end"]
        {
            std::fs::write(&script, text).expect("written");
            let output = daemon.strategy(&["load", script.to_str().expect("text")]);
            assert!(
                !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("mine.luau")
            );
        }
        let before = seen.runs.load(Ordering::Relaxed);
        wait_until("they go on", || seen.runs.load(Ordering::Relaxed) > before + 50);
    });
    wait_until("all have gone", || daemon.is_empty());
    assert_eq!(daemon.status()["done"], seen.runs.load(Ordering::Relaxed));
}

#[test]
fn a_script_is_read_anew_by_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("mine.luau");
    let text = |name: &str| {
        let short_term = castell_luau::shipped::named("short-term").expect("shipped").text;
        assert!(short_term.contains("name = \"short-term\""));
        short_term.replace("name = \"short-term\"", &format!("name = \"{name}\""))
    };
    std::fs::write(&script, text("first")).expect("written");
    let daemon = Daemon::start(&["--strategy", script.to_str().expect("text")]);
    assert_eq!(daemon.status()["strategy"], "first");
    std::fs::write(&script, text("second")).expect("written");
    daemon.signal("-HUP");
    wait_until("it decides", || daemon.status()["strategy"] == "second");
    std::fs::write(&script, "nothing").expect("written");
    daemon.signal("-HUP");
    assert_eq!(daemon.status()["strategy"], "second");
}

#[test]
fn who_started_alone_joins_the_daemon_and_leaves_it_when_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("daemon.sock");
    let application = Application::open_at("alone", Some(&socket)).expect("opens");
    // For something that only the application itself knows, too.
    let collection = application.register(&[kernel("fpga"), kernel("gpu")], &[]).expect("sound");
    let run = || collection.run(2, |_| ()).expect("runs");
    run();
    assert!(!application.has_daemon());
    let mut child = start(&socket, &[]);
    wait_until("it joins", || application.has_daemon());
    collection.run(2, |step| assert_eq!(step.kernel, 1, "the daemon has no such thing")).expect("runs");
    let only = application.register(&[kernel("fpga")], &[]).expect_err("it could never run").to_string();
    assert!(only.contains("the node has one_core, all_cores, gpu"), "{only}");
    Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(child.wait().expect("it was started").success());
    wait_until("it is alone", || !application.has_daemon());
    run();
}

#[test]
fn the_governor_and_sensors_are_told() {
    let daemon = Daemon::start(&["--forbid", "low:gpu,all_cores", "--sensor", "battery=1"]);
    let application = daemon.open("one");
    let collection = application.register(&RESOURCES.map(kernel), &[]).expect("sound");
    assert!(daemon.strategy(&["governor", "low"]).status.success());
    for _ in 0..20 {
        collection.run(1, |step| assert_eq!(step.kernel, 0, "the others are forbidden")).expect("runs");
    }
    assert!(daemon.strategy(&["sensor", "battery", "0.5"]).status.success());
    let unknown = daemon.strategy(&["sensor", "power", "9"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no sensor `power`; it has: battery"));
}

/// A process that runs kernels until it is killed; it is this test program, started by the test below.
#[test]
fn lives_until_it_is_killed() {
    let Some(socket) = std::env::var_os("CASTELL_TEST_DAEMON") else { return };
    let application = Application::open_at("mortal", Some(Path::new(&socket))).expect("opens");
    let collection = application.register(&RESOURCES.map(kernel), &[]).expect("sound");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    collection.run(2, |_| thread::sleep(Duration::from_micros(200))).expect("runs");
                }
            });
        }
    });
}

#[test]
fn applications_may_die_in_any_state() {
    let daemon = Daemon::start(&[]);
    let seen = Seen::default();
    let mut random = ChaCha8Rng::seed_from_u64(castell_host::clock::now_ns());
    applications(&daemon, 1, &seen, || {
        for _ in 0..15 {
            let mut children: Vec<Child> = (0..2)
                .map(|_| {
                    let mut command = Command::new(std::env::current_exe().expect("this one"));
                    command.args(["--exact", "lives_until_it_is_killed"]).stdout(Stdio::null());
                    command.env("CASTELL_TEST_DAEMON", daemon.socket()).spawn().expect("starts")
                })
                .collect();
            thread::sleep(Duration::from_millis(random.random_range(0..40)));
            for child in &mut children {
                child.kill().expect("it is ours");
                child.wait().expect("it was started");
            }
        }
        let before = seen.runs.load(Ordering::Relaxed);
        wait_until("the other goes on", || seen.runs.load(Ordering::Relaxed) > before + 20);
        wait_until("the dead are gone", || {
            daemon.status()["applications"].as_array().map(Vec::len) == Some(1)
        });
    });
    wait_until("all have gone", || daemon.is_empty());
}

/// Sends bytes; all that is answered until the daemon closes the connection.
fn converse(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(daemon.socket()).expect("it listens");
    // It may close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn strangers_and_liars_are_sent_away() {
    let daemon = Daemon::start(&[]);
    assert_eq!(converse(&daemon, b"GET / HTTP/1.1\r\n\r\n"), "");
    assert!(converse(&daemon, b"{\"hello\":{\"version\":99}}\n").contains("version 99"));
    let hello = format!("{{\"hello\":{{\"version\":{VERSION}}}}}\n");
    assert!(converse(&daemon, format!("{hello}{{\"open\":{{}}}}\n").as_bytes()).contains("not the time"));
    assert!(converse(&daemon, b"{\"status\":{}}\n").contains("not the time"));
    let application = format!("{{\"application\":{{\"version\":{VERSION},\"name\":\"x\",\"pid\":1}}}}\n");
    assert!(converse(&daemon, application.as_bytes()).contains("brings its mailbox"));
    let mut random = ChaCha8Rng::seed_from_u64(castell_host::clock::now_ns());
    for _ in 0..200 {
        let mut bytes = [hello.as_bytes(), application.as_bytes(), b"{\"status\":{}}\n"].concat();
        for _ in 0..random.random_range(1..9) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        converse(&daemon, &bytes);
    }
    converse(&daemon, &vec![b'x'; 3 << 20]);
    // Memory that is no mailbox, that could be taken away, a bell that is none.
    let greet = |memory: &dyn std::os::fd::AsFd, bell: &dyn std::os::fd::AsFd| {
        let stream = UnixStream::connect(daemon.socket()).expect("it listens");
        descriptor::send_with(stream.as_fd(), application.as_bytes(), &[memory.as_fd(), bell.as_fd()])
            .expect("sent");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("text");
        line
    };
    let file = tempfile::tempfile().expect("a file");
    let mailbox = Mailbox::create().expect("memory");
    let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("a bell");
    assert!(greet(&file, &bell).contains("not a sealed shared memory"));
    let wrong = castell_host::shm::Segment::create("wrong", 1 << 16).expect("memory");
    assert!(greet(&wrong.fd(), &bell).contains("no mailbox"));
    assert!(greet(&mailbox.descriptor(), &file).contains("eventfd"));
    assert!(greet(&mailbox.descriptor(), &bell).contains("hello"));
    wait_until("all have gone", || daemon.is_empty());
}

#[test]
fn what_must_not_stand_in_a_mailbox_ends_the_connection() {
    let daemon = Daemon::start(&[]);
    let encode = |message: &ToDaemon| castell_policy::session::protocol::encode(message);
    let rung = 1_u64.to_ne_bytes();
    type Lie = fn(&Mailbox) -> bool;
    let lies: [Lie; 3] = [
        // A step has ended that was never granted; what nobody asked for is given up; a shape that is not there.
        |mailbox| mailbox.words().end_step(5),
        |mailbox| mailbox.words().ask(63, 0, 1, 0) | mailbox.words().end_step(63),
        |mailbox| mailbox.words().ask(1, 9_999, 1, 0),
    ];
    for (number, lie) in lies.iter().enumerate() {
        let mailbox = Mailbox::create().expect("memory");
        let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("a bell");
        let stream = UnixStream::connect(daemon.socket()).expect("it listens");
        let hello = ToDaemon::Application { version: VERSION, name: "liar".into(), pid: 1 };
        let descriptors = [mailbox.descriptor(), bell.as_fd()];
        descriptor::send_with(stream.as_fd(), &encode(&hello), &descriptors).expect("sent");
        descriptor::send_with(stream.as_fd(), &encode(&ToDaemon::Open {}), &[]).expect("sent");
        wait_until("it is registered", || {
            daemon.status()["applications"].as_array().map(Vec::len) == Some(1)
        });
        assert!(lie(&mailbox), "the daemon sleeps, so it is rung for");
        rustix::io::write(&bell, &rung).expect("rung");
        if number == 2 {
            let refused = || mailbox.words().slot(1).state == Some(castell_kernels::mailbox::State::Refused);
            wait_until("it is refused", refused);
        } else {
            let mut rest = Vec::new();
            // Until the daemon closes it.
            let _ = (&stream).read_to_end(&mut rest);
        }
        drop(stream);
        wait_until("it has gone", || daemon.is_empty());
    }
}

/// All that decides stands in a recording: strategies that are exchanged, a bad one, the governor, a sensor, applications that go.
#[test]
fn a_recorded_day_is_decided_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("day.jsonl");
    let day = path.to_str().expect("text");
    let options =
        ["--record", day, "--strategy", "plan-ahead", "--forbid", "low:gpu", "--sensor", "power=0.1"];
    let mut daemon = Daemon::start(&options);
    let bad = folder.path().join("bad.luau");
    std::fs::write(&bad, "local n = 0 return { choose = function(node) n += 1 if n > 400 then error('enough') end return node.waiting[1], 'gpu' end }")
        .expect("written");
    let seen = Seen::default();
    applications(&daemon, 3, &seen, || {
        let runs = |more: u64| {
            let until = seen.runs.load(Ordering::Relaxed) + more;
            wait_until("runs", || seen.runs.load(Ordering::Relaxed) >= until);
        };
        runs(100);
        for command in [
            &["governor", "low"][..],
            &["sensor", "power=0.30000000000000004"],
            &["load", "banking"],
            &["load", "long-term"],
            &["governor", "high"],
            &["load", "constraint:limit=12"],
        ] {
            let done = daemon.strategy(command);
            assert!(done.status.success(), "{command:?}: {done:?}");
            let short = daemon.strategy(&["load", "short-term"]);
            assert!(short.status.success(), "{short:?}");
            runs(30);
        }
        // Refused or taken out again: both are in the recording as they were.
        let _ = daemon.strategy(&["load", bad.to_str().expect("text")]);
        runs(300);
    });
    let replay = |path: &str| castell(&["strategy", "replay", path, "--json"]);
    let told = |output: &Output| -> Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    wait_until("all have gone", || daemon.is_empty());
    let done = daemon.status()["done"].clone();
    // It has no end as yet.
    let running = told(&replay(day));
    assert_eq!((&running["difference"], &running["is_cut"]), (&Value::Null, &Value::Bool(true)));
    daemon.signal("-TERM");
    daemon.child.wait().expect("it ends");
    let whole = replay(day);
    assert!(whole.status.success(), "{whole:?}");
    let whole = told(&whole);
    assert_eq!((&whole["difference"], &whole["is_cut"]), (&Value::Null, &Value::Bool(false)), "{whole}");
    assert!(whole["inputs"].as_u64() > Some(1_000) && whole["events"].as_u64() > Some(3_000), "{whole}");

    // Another decision is found, wherever it is; and a line that is cut off is no end.
    let text = std::fs::read_to_string(&path).expect("it is there");
    let decided = text.rfind("decided #").expect("something was decided");
    let other = folder.path().join("other.jsonl");
    std::fs::write(&other, format!("{}decided #9{}", &text[..decided], &text[decided + 9..]))
        .expect("written");
    let found = replay(other.to_str().expect("text"));
    assert_eq!(found.status.code(), Some(1));
    let line = 1 + text[..decided].matches('\n').count();
    assert_eq!(told(&found)["difference"]["line"], line);
    std::fs::write(&other, &text[..decided]).expect("written");
    let cut = told(&replay(other.to_str().expect("text")));
    assert_eq!((&cut["difference"], &cut["is_cut"]), (&Value::Null, &Value::Bool(true)));

    // The same day under other strategies.
    let simulated =
        castell(&["strategy", "simulate", "short-term", "plan-ahead", "--recorded", day, "--json"]);
    let simulated = told(&simulated);
    assert_eq!(simulated["instances"], done);
    assert_eq!(simulated["strategies"].as_array().map(Vec::len), Some(2));
}

fn castell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_castell")).args(arguments).output().expect("castell can be started")
}

/// A recording is not overwritten; a disk that is full ends it, and not the daemon.
#[test]
fn a_recording_that_cannot_be_written_costs_no_decisions() {
    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path().join("there");
    std::fs::write(&there, "mine").expect("written");
    let socket = folder.path().join("s");
    let refused = castell(&[
        "daemon",
        "--record",
        there.to_str().expect("text"),
        "--socket",
        socket.to_str().expect("text"),
    ]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("not overwritten"), "{said}");
    assert_eq!(std::fs::read_to_string(&there).expect("it is there"), "mine");

    // A limit on the size of files is like a full disk.
    let record = folder.path().join("day.jsonl");
    let mut child = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" daemon --socket \"$1\" --record \"$2\""])
        .arg(env!("CARGO_BIN_EXE_castell"))
        .args([&socket, &record])
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut next = || said.next().expect("a line").expect("text");
    assert!(next().contains("listens at"));
    let application = Application::open_at("many", Some(&socket)).expect("opens");
    let collection = application.register(&[kernel("one_core")], &[]).expect("registered");
    (0..1_000).for_each(|_| collection.run(1, |_| ()).expect("it can run"));
    assert!(next().contains("ends here"));
    assert!(application.has_daemon());
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
}
