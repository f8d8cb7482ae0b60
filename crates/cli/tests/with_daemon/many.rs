//! More applications than a node has use for, and what they leave behind.

use crate::applications::wait_until;
use crate::had::Had;
use crate::trials;
use crate::with_daemon::{Daemon, RESOURCES, kernel};
use castell_host::process::raise_open_files_limit;
use castell_kernels::Application;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use std::{fs, thread};

/// Where this test program, started once more, finds the daemon.
const SOCKET: &str = "CASTELL_TEST_MANY";
const PROCESSES: usize = 4;
const OF_EACH: usize = 250;

/// Opens many, has each run a kernel, and closes them when all everywhere have.
#[test]
fn opens_many() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else { return };
    raise_open_files_limit();
    let all: Vec<_> = (0..OF_EACH)
        .map(|number| Application::open_at(&format!("application {number}"), Some(&socket)).expect("opens"))
        .collect();
    thread::scope(|scope| {
        for application in &all {
            scope.spawn(move || {
                let collection = application.register(&RESOURCES.map(kernel), &[]).expect("sound");
                wait_until("it is with the daemon", || application.has_daemon());
                collection.run(2, |_| ()).expect("it runs");
            });
        }
    });
    wait_until("it may end", || socket.with_file_name("end").exists());
}

#[test]
fn a_thousand_applications_run_kernels() {
    let daemon = Daemon::start(&["--sessions", "none"]);
    let begun = Instant::now();
    let before = Had::by(&daemon);
    let children: Vec<Child> = (0..PROCESSES)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().expect("this one"));
            command.args(["--exact", "many::opens_many"]).stdout(Stdio::null());
            command.env(SOCKET, daemon.socket()).spawn().expect("starts")
        })
        .collect();
    let all = PROCESSES * OF_EACH;
    wait_until("all have run", || daemon.status()["steps"] == 2 * all);
    let status = daemon.status();
    assert_eq!(status["applications"].as_array().map(Vec::len), Some(all));
    assert_eq!(status["done"], all);
    println!("{all} applications have run within {:?}", begun.elapsed());
    fs::write(daemon.folder.path().join("end"), "").expect("a file");
    for mut child in children {
        assert!(child.wait().expect("it was started").success());
    }
    wait_until("all have gone", || daemon.is_empty());
    before.report(&daemon, all, "applications at a time");
}

/// Hundreds of applications come and go, again and again: after the first times the daemon has all the memory that it needs for that.
#[test]
fn applications_leave_no_memory_behind() {
    const ALL: usize = 300;
    /// What an allocator keeps may vary; a thing of each application's, as small as a name, would be more after all rounds.
    const MORE_KIB: u64 = 1_024;
    raise_open_files_limit();
    let daemon = Daemon::start(&["--sessions", "none"]);
    let before = Had::by(&daemon);
    let come_and_go = |round: usize| {
        let all: Vec<_> = (0..ALL)
            .map(|number| {
                let name = format!("application {number} of round {round}");
                Application::open_at(&name, Some(&daemon.socket())).expect("opens")
            })
            .collect();
        for application in &all {
            let collection = application.register(&RESOURCES.map(kernel), &[]).expect("sound");
            collection.run(1, |_| ()).expect("it runs");
        }
        drop(all);
        wait_until("all have gone", || daemon.is_empty());
        // The one over which that was asked, too.
        wait_until("nothing of them is left", || Had::by(&daemon).descriptors <= before.descriptors);
        Had::by(&daemon)
    };
    let rounds = 6 + trials(4);
    let mut plateau_kib = come_and_go(0).memory_kib;
    let mut had = Vec::new();
    for round in 1..rounds {
        let now = come_and_go(round);
        had.push(now.memory_kib);
        if round < 5 {
            plateau_kib = plateau_kib.max(now.memory_kib);
            continue;
        }
        assert!(now.memory_kib <= plateau_kib + MORE_KIB, "after {round} times: {had:?} KiB");
    }
    println!("{had:?} KiB");
    before.report(&daemon, ALL * rounds, "applications came and went");
}
