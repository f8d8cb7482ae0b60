//! `castell cpus` and a process that listens: this one.

mod beside;
mod patience;

use beside::Beside;
use castell_host::board::Membership;
use castell_host::mailbox::{FOLDER, Mailbox, Place, default_path};
use patience::{said, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

fn castell(folder: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.arg("cpus").args(arguments).arg("--folder").arg(folder);
    command.output().expect("castell can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ends who reads it, also when the test fails.
struct Closes<'a>(&'a Mailbox);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[test]
fn workers_are_listed_taken_and_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let me = std::process::id().to_string();
    let path = default_path(folder.path(), std::process::id());
    let nobody = castell(folder.path(), &[]);
    assert!(nobody.status.success() && text(&nobody.stdout).contains("no program listens"));
    let places = [5, 6, 7].map(|cpu| Place { cpu: Some(cpu), kind: u8::from(cpu == 7) });
    let mailbox = Mailbox::create(&path, &places).expect("a mailbox");
    std::thread::scope(|scope| {
        let _closes = Closes(&mailbox);
        scope.spawn(|| {
            while !mailbox.is_closed() {
                let attended = mailbox.attend(|worker, wanted| wanted || worker == 1);
                mailbox.sleep(attended);
            }
        });
        let all = castell(folder.path(), &["--json"]);
        let all: serde_json::Value = serde_json::from_slice(&all.stdout).expect("JSON");
        assert_eq!((all[0]["workers"].as_u64(), all[0]["enabled"].as_u64()), (Some(3), Some(3)));
        let taken = castell(folder.path(), &[&me, "--take", "1", "--list"]);
        assert!(taken.status.success(), "{}", text(&taken.stderr));
        let lines = text(&taken.stdout);
        assert!(lines.contains("     1      6      tasks  taken"), "{lines}");
        assert!(lines.contains("     2      7   device 1  given"), "{lines}");
        let given = castell(folder.path(), &[&me, "--give", "0-1", "--json"]);
        let given: serde_json::Value = serde_json::from_slice(&given.stdout).expect("JSON");
        assert_eq!((&given["workers"][1]["enabled"], &given["workers"][1]["cpu"]), (&true.into(), &6.into()));
        let file = path.to_str().expect("a path");
        let there = castell(folder.path(), &["--mailbox", file, "--wait", "7", "--list"]);
        assert!(text(&there.stdout).contains("     2      7   device 1  given"), "{}", text(&there.stderr));
        let refused = castell(folder.path(), &[&me, "--take", "0,1"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("the last of its kind"), "{}", text(&refused.stderr));
        let wrong = castell(folder.path(), &[&me, "--take", "3"]);
        assert_eq!(wrong.status.code(), Some(1));
        assert!(text(&wrong.stderr).contains("numbered from 0 to 2"), "{}", text(&wrong.stderr));
    });
    drop(mailbox);
    let gone = castell(folder.path(), &[&me]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("CASTELL_TASKS_MAILBOX=1"), "{}", text(&gone.stderr));
    assert_eq!(castell(folder.path(), &["--take", "1"]).status.code(), Some(1));
}

/// Where this test, started once more as a program of a session, says that it listens.
const LISTENS: &str = "CASTELL_TEST_LISTENS";

/// The program of a session: two workers that are bound to nothing.
#[test]
fn program() {
    let Some(file) = std::env::var_os(LISTENS) else { return };
    let path = default_path(Path::new(FOLDER), std::process::id());
    let mailbox = Mailbox::create(&path, &[Place { cpu: None, kind: 0 }; 2]).expect("a mailbox");
    std::fs::write(file, std::process::id().to_string()).expect("a file");
    loop {
        let attended = mailbox.attend(|_, _| true);
        mailbox.sleep(attended);
    }
}

#[test]
fn whoever_keeps_the_session_counts_the_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let [socket, file] = ["socket", "listens"].map(|name| folder.path().join(name).display().to_string());
    let castell = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        command.args(arguments).args(["--socket", &socket]).output().expect("castell can be started")
    };
    let test = std::env::current_exe().expect("a test");
    let mut session = Command::new(env!("CARGO_BIN_EXE_castell"));
    session.args(["session", "run", "-n", "1", "--socket", &socket, "--"]).arg(test);
    session.args(["program", "--exact"]).env(LISTENS, &file);
    let session = Beside(session.spawn().expect("castell starts"));
    until("the program listens", || std::fs::read_to_string(&file).is_ok_and(|pid| !pid.is_empty()));
    let pid = std::fs::read_to_string(&file).expect("a file");
    let all: Value = serde_json::from_slice(&castell(&["cpus", "--json"]).stdout).expect("JSON");
    let is_it = |row: &&Value| row["pid"].as_u64() == pid.parse().ok();
    let row = all.as_array().and_then(|all| all.iter().find(is_it)).expect("it is listed");
    assert_eq!(row["session"], 1);
    // One processor: the second worker has none, whoever gives it back.
    let one = castell(&["cpus", &pid, "--give", "1"]);
    assert_eq!(one.status.code(), Some(1), "{}", said(&one));
    assert!(said(&one).contains("session 1 has no processor for it"), "{}", said(&one));
    // Instead of the one that was taken by hand the other one runs.
    let workers = |output: Output| -> Value {
        assert!(output.status.success(), "{}", text(&output.stderr));
        let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let of = |key: &str| [0, 1].map(|worker| shown["workers"][worker][key].clone());
        json!({"enabled": of("enabled"), "held": of("held")})
    };
    let taken = workers(castell(&["cpus", &pid, "--take", "0", "--json"]));
    assert_eq!(taken, json!({"enabled": [false, true], "held": [true, false]}));
    let lines = text(&castell(&["cpus", &pid]).stdout);
    assert!(lines.contains("     0    any      tasks  taken by hand"), "{lines}");
    let given = workers(castell(&["cpus", &pid, "--give", "0", "--json"]));
    assert_eq!(given, json!({"enabled": [true, false], "held": [false, false]}));
    assert!(castell(&["session", "end", "1"]).status.success());
    assert_eq!(session.code(), Some(143), "its program was asked to end");
}

#[test]
fn the_board_says_who_has_which_processor() {
    let folder = tempfile::tempdir().expect("a folder");
    let board = folder.path().join("board");
    let show = |more: &[&str]| {
        let file = board.to_str().expect("a path");
        let output = castell(folder.path(), &[&["--node", "--board", file], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(show(&[]).contains("no program shares processors"));
    let membership = Membership::join(&board, 3, &[0]).expect("a board");
    let turn = membership.try_take(None).expect("it is alone");
    let shown: serde_json::Value = serde_json::from_str(&show(&["--json"])).expect("JSON");
    let me = std::process::id();
    assert_eq!(
        shown["programs"],
        serde_json::json!([{"pid": me, "workers": 3, "rights": 1, "held": 1, "hungry": false}])
    );
    let first = &shown["processors"][0];
    assert_eq!(
        (&first["right"], &first["holder"], &first["wanted"]),
        (&me.into(), &me.into(), &false.into())
    );
    membership.give(turn);
    let lines = show(&[]);
    assert!(lines.contains("free") && lines.contains(&me.to_string()), "{lines}");
    drop(membership);
    assert!(show(&[]).contains("no program shares processors"));
    std::fs::write(&board, "something else").expect("a file");
    let output = castell(folder.path(), &["--node", "--board", board.to_str().expect("a path")]);
    assert!(text(&output.stderr).contains("no board of processors"), "{}", text(&output.stderr));
}
