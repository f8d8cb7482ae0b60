//! `castell daemon` with applications that are threads of this process, or processes of their own, and that live and die as they like.

#[path = "with_daemon/applications.rs"]
mod applications;
#[path = "with_daemon/had.rs"]
mod had;
#[path = "with_daemon/held.rs"]
mod held;
#[path = "with_daemon/many.rs"]
mod many;
#[path = "with_daemon/standstill.rs"]
mod standstill;
#[path = "with_daemon/stopped.rs"]
mod stopped;
#[path = "with_daemon/told.rs"]
mod told;
mod with_daemon;

use applications::{Seen, applications, open, signal, wait_until};
use castell_daemon::ask;
use castell_host::descriptor;
use castell_kernels::Application;
use castell_kernels::mailbox::Mailbox;
use castell_kernels::protocol::{FromDaemon, ToDaemon, VERSION};
use had::Had;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use with_daemon::{Daemon, RESOURCES, kernel, start};

/// How often something is tried: so often, or as many times more as `CASTELL_TEST_TRIALS` says.
fn trials(count: usize) -> usize {
    let factor = std::env::var("CASTELL_TEST_TRIALS").ok().and_then(|text| text.parse().ok());
    count * factor.unwrap_or(1)
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
    let options = ["--spin-us", "20", "--sessions", "none"];
    let mut daemon = Daemon::start(&options);
    let (socket, seen, before) = (daemon.socket(), Seen::default(), Had::by(&daemon));
    let shared = std::sync::Mutex::new(&mut daemon.child);
    // Only the child changes hands below.
    let view = Daemon {
        folder: tempfile::tempdir().expect("a folder"),
        child: Command::new("true").spawn().expect("true"),
    };
    std::os::unix::fs::symlink(&socket, view.socket()).expect("a link");
    applications(&view, 3, &seen, || {
        let mut random = ChaCha8Rng::seed_from_u64(castell_host::clock::now_ns());
        for _ in 0..trials(25) {
            let before = seen.runs.load(Ordering::Relaxed);
            thread::sleep(Duration::from_millis(random.random_range(0..60)));
            let mut child = shared.lock().expect("no panic");
            child.kill().expect("it is ours");
            child.wait().expect("it was started");
            **child = start(&socket, &options);
            drop(child);
            wait_until("they go on", || seen.runs.load(Ordering::Relaxed) > before + 5);
        }
    });
    wait_until("all have gone", || view.is_empty());
    before.report(&daemon, trials(25), "daemons killed while kernels run");
}

#[test]
fn strategies_are_exchanged_under_load() {
    let daemon = Daemon::start(&["--sessions", "none"]);
    let (seen, had) = (Seen::default(), Had::by(&daemon));
    let names = ["plan-ahead", "banking", "constraint", "short-term", "long-term"];
    applications(&daemon, 3, &seen, || {
        for (number, name) in names.iter().cycle().take(trials(100)).enumerate() {
            if number < 100 {
                let output = daemon.strategy(&["load", name]);
                assert!(output.status.success(), "{name}: {output:?}");
                assert_eq!(daemon.status()["strategy"], **name);
                continue;
            }
            // Without a command for each, which takes longer than all else.
            let script = castell_luau::shipped::named(name).expect("shipped").text.into();
            let load = ToDaemon::Load { name: (*name).into(), script, parameters: Vec::new() };
            ask(&daemon.socket(), &load).expect("it decides");
            match ask(&daemon.socket(), &ToDaemon::Status {}).expect("it answers") {
                FromDaemon::Status(status) => assert_eq!(status.strategy, *name),
                other => panic!("{other:?}"),
            }
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
    had.report(&daemon, trials(100), "strategies exchanged under load");
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
    signal(&daemon, "-HUP");
    wait_until("it decides", || daemon.status()["strategy"] == "second");
    std::fs::write(&script, "nothing").expect("written");
    signal(&daemon, "-HUP");
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
    let application = open(&daemon, "one");
    let collection = application.register(&RESOURCES.map(kernel), &[]).expect("sound");
    let governor = |level: &str| {
        let output = daemon.strategy(&["governor", level]);
        assert!(output.status.success());
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned())
    };
    let [said, note] = governor("lwo");
    assert!(
        said == "governor lwo: no resource is forbidden\n" && note.contains("take it for high"),
        "{note}"
    );
    assert_eq!(governor("low"), ["governor low: all_cores, gpu are forbidden\n", ""]);
    for _ in 0..20 {
        collection.run(1, |step| assert_eq!(step.kernel, 0, "the others are forbidden")).expect("runs");
    }
    assert!(daemon.strategy(&["sensor", "battery", "0.5"]).status.success());
    let unknown = daemon.strategy(&["sensor", "power", "9"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no sensor `power`; it has: battery"));
}

/// On a tree of files as a laptop with a power cap has them.
#[test]
fn the_governor_follows_battery_and_cap() {
    let sys = tempfile::tempdir().expect("a folder");
    let put = |folder: &str, files: &[(&str, &str)]| {
        let folder = sys.path().join("class").join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        files.iter().for_each(|(name, says)| std::fs::write(folder.join(name), says).expect("a file"));
    };
    let mains = |online: &str| put("power_supply/AC", &[("type", "Mains"), ("online", online)]);
    let charge = |percent: &str| {
        put("power_supply/BAT0", &[("type", "Battery"), ("status", "Discharging"), ("capacity", percent)])
    };
    let cap = |watts: &str| {
        let limit = format!("{watts}000000");
        put(
            "powercap/intel-rapl:0",
            &[
                ("name", "package-0"),
                ("enabled", "1"),
                ("constraint_0_max_power_uw", "45000000"),
                ("constraint_0_power_limit_uw", &limit),
            ],
        );
    };
    let root = sys.path().to_str().expect("text");
    let follow = ["--on-battery", "low", "--capped", "middle", "--sensor", "battery", "--sys", root];
    // Without any of that it is told, and the daemon refuses what the machine cannot say.
    let mut refused = Command::new(env!("CARGO_BIN_EXE_castell"));
    let refused =
        refused.args(["daemon", "--socket"]).arg(sys.path().join("none.sock")).args(follow).output();
    let said = String::from_utf8_lossy(&refused.expect("castell can be started").stderr).into_owned();
    assert!(said.contains("this machine has no battery: say what it says, as in battery=0.9"), "{said}");
    mains("1");
    charge("80");
    cap("45");
    let daemon = Daemon::start(&follow);
    let level = || daemon.status()["governor"].as_str().expect("a level").to_owned();
    let battery = || daemon.status()["sensors"]["battery"].as_f64().expect("a number");
    assert_eq!((level(), battery()), ("high".into(), 0.8));
    cap("15");
    wait_until("it is capped", || level() == "middle");
    mains("0");
    charge("79");
    wait_until("it is on battery", || level() == "low" && battery() == 0.79);
    // Who says otherwise has the last word, until something changes.
    assert!(daemon.strategy(&["governor", "high"]).status.success());
    charge("78");
    wait_until("the battery is told on", || battery() == 0.78);
    assert_eq!(level(), "high");
    cap("45");
    mains("1");
    charge("77");
    wait_until("the battery is told on", || battery() == 0.77);
    assert_eq!(level(), "high");
    cap("15");
    wait_until("it is capped again", || level() == "middle");
    cap("45");
    wait_until("it is free again", || level() == "high");
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
    // Who keeps sessions opens descriptors of its own.
    let daemon = Daemon::start(&["--sessions", "none"]);
    let seen = Seen::default();
    let mut random = ChaCha8Rng::seed_from_u64(castell_host::clock::now_ns());
    let had = Had::by(&daemon);
    applications(&daemon, 1, &seen, || {
        for _ in 0..trials(8) {
            let mut children: Vec<Child> = (0..4)
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
    // Bells, mailboxes and connections of the dead.
    had.report(&daemon, 4 * trials(8), "applications killed at any moment");
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
    let daemon = Daemon::start(&["--sessions", "none"]);
    let had = Had::by(&daemon);
    assert_eq!(converse(&daemon, b"GET / HTTP/1.1\r\n\r\n"), "");
    assert!(converse(&daemon, b"{\"hello\":{\"version\":99}}\n").contains("version 99"));
    let hello = format!("{{\"hello\":{{\"version\":{VERSION}}}}}\n");
    assert!(converse(&daemon, format!("{hello}{{\"open\":{{}}}}\n").as_bytes()).contains("not the time"));
    assert!(converse(&daemon, b"{\"status\":{}}\n").contains("not the time"));
    let application = format!("{{\"application\":{{\"version\":{VERSION},\"name\":\"x\",\"pid\":1}}}}\n");
    assert!(converse(&daemon, application.as_bytes()).contains("brings its mailbox"));
    let mut random = ChaCha8Rng::seed_from_u64(castell_host::clock::now_ns());
    for _ in 0..trials(200) {
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
    had.report(&daemon, trials(200), "clients that say anything");
}

/// Somebody asks without a pause, over several connections, all that can be asked: applications go on, and what was asked too fast is
/// answered later, none of it left out.
#[test]
fn who_asks_without_a_pause_is_answered_slowly() {
    const AT_ONCE: u64 = 64;
    const A_SECOND: u64 = 250;
    let daemon = Daemon::start(&[]);
    let seen = Seen::default();
    let ask = |connection: usize| {
        let mut stream = UnixStream::connect(daemon.socket()).expect("it listens");
        let begin = Instant::now();
        let mut bytes = format!("{{\"hello\":{{\"version\":{VERSION}}}}}\n");
        let questions = trials(800);
        for number in 0..questions {
            bytes += match (number + connection) % 3 {
                0 => "{\"sensor\":{\"name\":\"battery\",\"value\":0.5}}\n",
                1 => "{\"governor\":{\"level\":\"low\"}}\n",
                _ => "{\"status\":{}}\n",
            };
        }
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        thread::scope(|scope| {
            scope.spawn(move || stream.write_all(bytes.as_bytes()).expect("it is taken, if slowly"));
            let mut line = String::new();
            for answers in 0..=questions as u64 {
                line.clear();
                assert!(reader.read_line(&mut line).expect("text") > 0, "after {answers} answers");
                assert!(!line.contains("not the time"), "{line}");
                let may_be = AT_ONCE + begin.elapsed().as_millis() as u64 * A_SECOND / 1_000 + 1;
                assert!(answers < may_be, "{answers} answers after {:?}", begin.elapsed());
            }
        });
    };
    applications(&daemon, 2, &seen, || {
        thread::scope(|scope| {
            let askers: Vec<_> = (0..4).map(|connection| scope.spawn(move || ask(connection))).collect();
            while !askers.iter().all(|asker| asker.is_finished()) {
                let before = seen.runs.load(Ordering::Relaxed);
                wait_until("applications go on", || seen.runs.load(Ordering::Relaxed) > before + 20);
            }
        });
    });
    // Who goes in the middle of it is forgotten.
    let descriptors =
        || std::fs::read_dir(format!("/proc/{}/fd", daemon.child.id())).expect("it lives").count();
    wait_until("all have gone", || daemon.is_empty());
    let before = descriptors();
    for _ in 0..20 {
        let mut stream = UnixStream::connect(daemon.socket()).expect("it listens");
        let hello = format!("{{\"hello\":{{\"version\":{VERSION}}}}}\n");
        let questions = "{\"status\":{}}\n".repeat(500);
        stream.write_all((hello + &questions).as_bytes()).expect("there is room for that");
    }
    wait_until("nothing of them is left", || descriptors() <= before);
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
