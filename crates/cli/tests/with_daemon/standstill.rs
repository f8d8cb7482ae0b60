//! A daemon that is stopped itself.

use crate::applications::{signal, wait_until};
use crate::with_daemon::{Daemon, kernel, start};
use castell_kernels::Application;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{fs, thread};

/// Where this test program, started once more as an application, finds the daemon and its files.
const FOLDER: &str = "CASTELL_TEST_STANDSTILL";

/// A kernel on the gpu, when there is a file; each process has files of its own.
#[test]
fn runs_on_the_gpu() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
    let application =
        Application::open_at(&name, Some(&folder.with_file_name("daemon.sock"))).expect("opens");
    let collection = application.register(&[kernel("gpu")], &[]).expect("a kernel");
    fs::write(folder.join("ready"), "").expect("a file");
    wait_until("it may ask", || folder.join("ask").exists());
    collection.run(1, |_| fs::write(folder.join("ran"), "").expect("a file")).expect("it runs");
}

struct Program {
    child: Child,
    folder: PathBuf,
    said: Receiver<String>,
}

impl Program {
    fn start(daemon: &Daemon, name: &str) -> Program {
        let folder = daemon.folder.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        let mut command = Command::new(std::env::current_exe().expect("this one"));
        command.args(["--exact", "standstill::runs_on_the_gpu", "--nocapture"]).stdout(Stdio::null());
        let mut child = command.env(FOLDER, &folder).stderr(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let (tell, said) = channel();
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| _ = tell.send(line)));
        Program { child, folder, said }
    }

    fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }

    fn ask(&self) {
        fs::write(self.folder.join("ask"), "").expect("a file");
    }

    #[track_caller]
    fn says_that_it_waits(&self, daemon: u32) {
        let line = self.said.recv_timeout(Duration::from_secs(60)).expect("it says so");
        assert!(line.contains(&format!("the daemon (process {daemon}) stands still")), "{line}");
    }

    /// It has said no more.
    #[track_caller]
    fn ends(&mut self) {
        assert!(self.child.wait().expect("it was started").success() && self.has("ran"));
        assert_eq!(self.said.iter().collect::<Vec<_>>(), Vec::<String>::new());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Who waits says so and waits on, who comes waits, too, what runs goes on: no two are on one resource. When it goes on all do.
#[test]
fn all_wait_for_a_daemon_that_stands_still() {
    let daemon = Daemon::start(&["--sessions", "none"]);
    let pid = daemon.child.id();
    let mut waits = Program::start(&daemon, "waits");
    wait_until("it is registered", || waits.has("ready"));
    let holds = Application::open_at("holds", Some(&daemon.socket())).expect("opens");
    let collection = holds.register(&[kernel("gpu")], &[]).expect("a kernel");
    let (begun, has_begun) = channel();
    let (end, ends) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let run = collection.run(1, |_| {
                begun.send(()).expect("it is waited for");
                let _ = ends.recv();
            });
            run.expect("it runs");
        });
        has_begun.recv_timeout(Duration::from_secs(60)).expect("it runs");
        signal(&daemon, "-STOP");
        waits.ask();
        waits.says_that_it_waits(pid);
        let mut comes = Program::start(&daemon, "comes");
        comes.ask();
        comes.says_that_it_waits(pid);
        let asked = daemon.strategy(&["status"]);
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(!asked.status.success() && said.contains(&format!("kill -CONT {pid}")), "{said}");
        assert!(!comes.has("ready") && !waits.has("ran"));
        signal(&daemon, "-CONT");
        wait_until("it is registered", || comes.has("ready"));
        assert!(!waits.has("ran") && !comes.has("ran"), "another one has the resource");
        end.send(()).expect("it runs");
        waits.ends();
        comes.ends();
    });
    drop(holds);
    wait_until("all have gone", || daemon.is_empty());
}

/// Who is killed while it stands still is followed as any other.
#[test]
fn a_daemon_that_stands_still_may_be_killed() {
    let mut daemon = Daemon::start(&["--sessions", "none"]);
    let mut waits = Program::start(&daemon, "waits");
    wait_until("it is registered", || waits.has("ready"));
    signal(&daemon, "-STOP");
    waits.ask();
    waits.says_that_it_waits(daemon.child.id());
    assert!(!waits.has("ran"));
    daemon.child.kill().expect("it is ours");
    daemon.child.wait().expect("it was started");
    daemon.child = start(&daemon.socket(), &["--sessions", "none"]);
    waits.ends();
    // Nobody else comes: the program decides by itself.
    let mut alone = Program::start(&daemon, "alone");
    wait_until("it is registered", || alone.has("ready"));
    signal(&daemon, "-STOP");
    alone.ask();
    alone.says_that_it_waits(daemon.child.id());
    daemon.child.kill().expect("it is ours");
    daemon.child.wait().expect("it was started");
    alone.ends();
}
