//! `castell top` on terminals, with sessions and a daemon that are real.

#[path = "terminal/hand.rs"]
mod hand;
mod patience;
mod terminal;
#[path = "terminal/until.rs"]
mod until_shown;

use patience::{said, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use terminal::Terminal;

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");

/// A folder with the sockets of an agent and a daemon, and what is run there.
struct World {
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl World {
    fn new() -> World {
        World { folder: tempfile::tempdir().expect("a folder"), children: Vec::new() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(CASTELL);
        command.args(arguments).current_dir(self.folder.path());
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("CASTELL_DAEMON");
        command.env_remove("SLURM_JOB_ID").env("XDG_RUNTIME_DIR", self.folder.path());
        command
    }

    fn top(&self, options: &[&str]) -> Command {
        let mut command = self.command(&["top", "--every", "100ms"]);
        command.args(["--socket", &self.path("s.sock"), "--daemon", &self.path("d.sock")]).args(options);
        command
    }

    fn start_daemon(&mut self, options: &[&str]) -> u32 {
        let mut command = self.command(&["daemon", "--socket", &self.path("d.sock")]);
        let mut child = command.args(options).stderr(Stdio::piped()).spawn().expect("castell starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        assert!(line.contains("listens at"), "{line}");
        thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let pid = child.id();
        self.children.push(child);
        pid
    }

    /// A session of one slot that lasts until it is ended.
    fn run(&mut self, options: &[&str]) {
        let known = self.sessions().len();
        let mut command = self.command(&["session", "run", "--socket", &self.path("s.sock")]);
        command.args(options).args(["--", "sleep", "600"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().expect("castell starts"));
        until("the session is there", || self.sessions().len() > known);
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).arg("--json").output().expect("castell starts");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
    }

    fn sessions(&self) -> Vec<Value> {
        let list = self.json(&["session", "list", "--socket", &self.path("s.sock")]);
        list["sessions"].as_array().expect("a list").clone()
    }

    fn status(&self) -> Value {
        self.json(&["strategy", "status", "--socket", &self.path("d.sock")])
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let socket = self.path("s.sock");
        for session in self.sessions() {
            let number = session["session"].to_string();
            let _ = self.command(&["session", "end", &number, "--socket", &socket]).output();
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn state_of(pid: u32) -> Option<char> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    status.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn sessions_and_the_daemon_are_shown_and_steered() {
    let mut world = World::new();
    world.start_daemon(&["--strategy", "banking", "--forbid", "low:all_cores", "--sensor", "battery=0.5"]);
    world.run(&["-n", "1", "--policy", "overbook"]);
    world.run(&["-n", "1"]);
    let mut top = Terminal::start(&mut world.top(&[]), 80, 24);
    top.until("2 sessions under overbook: 2 running, 0 waiting, 0 suspended");
    top.until("banking decides, governor high; 0 done in 0 steps");
    top.until("battery 0.50");
    top.until("all_cores  free");
    assert_eq!(
        top.row(23),
        "? help  s stop  r resume  e end  x explain  p policy  g governor  l load  q quit"
    );
    // The first session is selected.
    top.press("s");
    until("it stands still", || world.sessions()[0]["stopped"] == true);
    top.until("   1  stopped");
    top.press("x");
    top.until("session 1 is suspended by its user");
    top.press("r");
    until("it goes on", || world.sessions()[0]["stopped"] == false);
    top.press("p");
    top.until("which policy? 1 wait");
    top.press("4");
    top.until("2 sessions under sidestep");
    top.press("glow\r");
    top.until("all_cores  forbidden");
    assert_eq!(world.status()["governor"], "low");
    top.press("lplan-ahed\r");
    top.until("did you mean plan-ahead?");
    top.press("lplan-ahead\r");
    top.until("plan-ahead decides, governor low");
    assert_eq!(world.status()["strategy"], "plan-ahead");
    // The second one, with the key that terminals send for it; what is asked first may be declined.
    top.press("\x1b[Be");
    top.until("end session 2? y ends it");
    top.press("n");
    top.until("? help");
    assert_eq!(world.sessions().len(), 2);
    top.press("ey");
    top.until("1 session under sidestep");
    assert_eq!(world.sessions()[0]["session"], 1);
    top.press("?");
    top.until("g  another level of the daemon's governor");
    top.press("q");
    assert_eq!(top.wait(), Some(0));
    assert!(top.was_ours() && top.is_given_back());
}

#[test]
fn it_works_without_an_agent_and_without_a_daemon_and_says_so() {
    let world = World::new();
    let mut top = Terminal::start(&mut world.top(&[]), 100, 24);
    top.until("no session, and no agent at ");
    top.until("no daemon listens at ");
    top.press("g");
    top.until_it(
        "says twice",
        |text| text.matches("no daemon listens at ").count() == 2,
        "no daemon listens",
    );
    top.press("\x03");
    assert_eq!(top.wait(), Some(0));
    assert!(top.is_given_back());
    let moment = world.json(&["top", "--socket", &world.path("s.sock"), "--daemon", &world.path("d.sock")]);
    assert!(moment["policy"].is_null() && moment["daemon"].is_null(), "{moment}");
    assert!(moment["daemon_missing"].as_str().is_some_and(|why| why.starts_with("no daemon listens at")));
    assert!(!moment["processors"].as_array().expect("a list").is_empty(), "{moment}");
    assert!(moment["pressure"].is_null() != moment["pressure_missing"].is_null(), "{moment}");
    let mut none = world.command(&["top", "--once", "--every", "100ms"]);
    assert_eq!(none.output().expect("it starts").status.code(), Some(2), "--once has no --every");
    let none = world.command(&["top", "--once"]).env("CASTELL_DAEMON", "none").output().expect("it starts");
    assert!(said(&none).contains("CASTELL_DAEMON says that there is no daemon"), "{}", said(&none));
}

#[test]
fn who_does_not_answer_does_not_stop_the_rest() {
    let mut world = World::new();
    let daemon = world.start_daemon(&[]);
    let stop =
        |signal: &str| Command::new("kill").args([signal, &daemon.to_string()]).status().expect("kill");
    let mut top = Terminal::start(&mut world.top(&[]), 80, 24);
    top.until("short-term decides");
    assert!(stop("-STOP").success());
    top.until("the daemon has not answered for ");
    top.press("?");
    top.until("another strategy for the daemon");
    assert!(stop("-CONT").success());
    top.until("short-term decides");
    // A daemon that has ended is missing; the next one is found.
    assert!(stop("-TERM").success());
    top.until("no daemon listens at ");
    world.start_daemon(&["--strategy", "long-term"]);
    top.until("long-term decides");
    top.press("q");
    assert_eq!(top.wait(), Some(0));
}

#[test]
fn a_terminal_may_be_resized() {
    let world = World::new();
    let top = Terminal::start(&mut world.top(&[]), 80, 24);
    for (width, height) in [(120, 40), (40, 12), (80, 24)] {
        top.resize(width, height);
        let last = usize::from(height) - 1;
        until("its last line is the last one", || top.row(last).starts_with("? help  s stop"));
    }
    // So small that nothing is left, and back.
    top.resize(1, 1);
    top.resize(80, 24);
    top.until("q quit");
    assert!(top.row(23).ends_with("q quit"));
}

#[test]
fn signals_give_the_terminal_back() {
    let world = World::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::QUIT, 131)] {
        let mut top = Terminal::start(&mut world.top(&[]), 80, 24);
        top.until("? help");
        assert!(!top.is_given_back());
        top.signal(signal);
        assert_eq!(top.wait(), Some(code), "{signal:?}");
        assert!(top.was_ours() && top.is_given_back(), "{signal:?}");
    }
    let mut top = Terminal::start(&mut world.top(&[]), 80, 24);
    top.until("? help");
    top.hang_up();
    until("it has ended", || state_of(top.pid()).is_none_or(|state| state == 'Z'));
}

#[test]
fn ctrl_z_leaves_and_comes_back() {
    let world = World::new();
    for by_key in [true, false] {
        let mut top = Terminal::start(&mut world.top(&[]), 80, 24);
        top.until("? help");
        match by_key {
            true => top.press("\x1a"),
            false => top.signal(Signal::TSTP),
        }
        until("it stands still", || state_of(top.pid()) == Some('T'));
        until("the terminal is as it was", || top.is_given_back());
        top.signal(Signal::CONT);
        top.until("? help");
        top.press("q");
        assert_eq!(top.wait(), Some(0));
        assert!(top.is_given_back());
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let mut world = World::new();
    world.run(&["-n", "1"]);
    let colours = |options: &[&str], no_color: &str| {
        let mut top = Terminal::start(world.top(options).env("NO_COLOR", no_color), 80, 24);
        top.until("1 session under wait");
        top.press("q");
        assert_eq!(top.wait(), Some(0));
        top.colours()
    };
    assert!(colours(&[], "") > 0);
    assert_eq!(colours(&[], "1"), 0);
    assert_eq!(colours(&["--color", "never"], ""), 0);
    assert!(colours(&["--color", "always"], "1") > 0);
}

#[test]
fn where_there_is_no_screen_there_is_text() {
    let mut world = World::new();
    world.start_daemon(&[]);
    let output = world.top(&[]).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("short-term decides, governor high"), "{}", said(&output));
    assert!(!said(&output).contains('\x1b'));
    let mut dumb = Terminal::start(world.top(&[]).env("TERM", "dumb"), 80, 24);
    assert_eq!(dumb.wait(), Some(1));
    dumb.until("a terminal of the kind `dumb` (TERM) cannot be drawn on");
    let mut flat = Terminal::start(&mut world.top(&[]), 0, 0);
    assert_eq!(flat.wait(), Some(1));
    assert!(!flat.was_ours() && flat.is_given_back());
    let short = world.command(&["top", "--every", "1ms"]).output().expect("it starts");
    assert!(short.status.code() == Some(1) && said(&short).contains("too short"), "{}", said(&short));
}

#[test]
fn a_moment_is_a_picture() {
    let mut world = World::new();
    world.start_daemon(&[]);
    world.run(&["-n", "1"]);
    let folder = tempfile::tempdir().expect("a folder");
    let draw = |name: &str, more: &[&str]| {
        let path = folder.path().join(name);
        let output =
            world.top(&["--svg", path.to_str().expect("text")]).args(more).output().expect("it starts");
        assert!(output.status.success(), "{}", said(&output));
        std::fs::read(path).expect("a picture")
    };
    let svg = String::from_utf8(draw("top.svg", &["--title", "1 < 2"])).expect("text");
    for part in
        ["<title>1 &lt; 2</title>", "1 session under wait: 1 running", "short-term decides", "? help  s stop"]
    {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    assert!(draw("top.png", &["--theme", "light"]).starts_with(b"\x89PNG"));
    let refused = world.top(&["--svg", "top.gif"]).output().expect("it starts");
    assert!(refused.status.code() == Some(2) && said(&refused).contains(".svg, .png or .pdf"));
}

#[test]
fn a_stream_of_json_ends_with_its_reader() {
    let mut world = World::new();
    world.start_daemon(&[]);
    world.run(&["-n", "1"]);
    let mut stream = world.top(&["--json"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(stream.stdout.take().expect("piped")).lines();
    let mut at_s = 0.0;
    for _ in 0..3 {
        let line = lines.next().expect("a line").expect("text");
        let moment: Value = serde_json::from_str(&line).expect("an object a line");
        assert!(moment["at_s"].as_f64().is_some_and(|now_s| now_s > at_s), "{moment}");
        at_s = moment["at_s"].as_f64().expect("a number");
        assert_eq!(
            (&moment["daemon"]["strategy"], &moment["policy"]),
            (&"short-term".into(), &"wait".into())
        );
        let on = moment["processors"].as_array().expect("a list").iter();
        let on = on.filter(|cpu| cpu["sessions"] == serde_json::json!([1])).count();
        assert_eq!(on, 1, "{moment}");
    }
    drop(lines);
    assert_eq!(stream.wait().expect("a child").code(), Some(0));
}
