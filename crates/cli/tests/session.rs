//! `castell session`: policies in one table, charts, and a session on this host from its start to the end of its agent.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_host::topology::Processors;
use skipped::skip;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn castell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_castell"))
        .arg("session")
        .args(arguments)
        .output()
        .expect("castell starts")
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn policies_are_compared() {
    let output = castell(&["simulate", "djsb", "--nodes", "4", "--cores", "40", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let policies = json["policies"].as_array().expect("a list");
    assert_eq!((json["slots"].as_u64(), policies.len()), (Some(160), 7));
    for row in policies {
        // Under give-way the last analysis is not much shorter than what is left of the simulation.
        let waits = row["policy"] == "wait" || row["policy"] == "give-way";
        assert_eq!(row["w"].as_f64().expect("a number") < 1.0, waits, "{row}");
    }
    let (table, _) = text(&castell(&["simulate", "lublin:jobs=200", "--policy", "surpass"]));
    assert!(table.contains("fairness") && table.contains("surpass"), "{table}");
}

/// The only policy's row, and the number of nodes.
#[track_caller]
fn simulated(workload: &str, policy: &str, more: &[&str]) -> (serde_json::Value, u64) {
    let output = castell(&[&["simulate", workload, "--policy", policy, "--json"], more].concat());
    assert!(output.status.success(), "{more:?}: {:?}", text(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (json["policies"][0].clone(), json["nodes"].as_u64().expect("a number"))
}

#[test]
fn bounds_and_estimates_change_who_waits() {
    let waits = |policy: &str, more: &[&str]| {
        let (row, _) = simulated("lublin:jobs=300,load=1.2,processors=32", policy, more);
        row["wait_ms"].as_f64().expect("a number")
    };
    // Nobody who says nothing goes first, so all wait longer.
    assert!(waits("wait", &["--no-estimates"]) > waits("wait", &[]));
    for bound in ["--overtaken-max", "--surpassed-max"] {
        assert!(waits("surpass", &[bound, "1"]) < waits("surpass", &[]), "{bound}");
    }
}

/// Two streams on two nodes: with a limit each has a node to itself, and a third waits for one.
#[test]
fn a_limit_keeps_programs_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mix, table] =
        ["mix.json", "slowdowns.csv"].map(|name| folder.path().join(name).display().to_string());
    let stream = r#"{"run_s": 10, "processes": 1, "program": "stream"}"#;
    std::fs::write(&mix, format!(r#"{{"sessions": [{stream}, {stream}, {stream}]}}"#)).expect("a file");
    std::fs::write(&table, "program,stream\nstream,1.5\n").expect("a file");
    let of = |more: &[&str]| {
        let more = [&["--nodes", "2", "--cores", "4", "--slowdowns", &table], more].concat();
        let (policy, _) = simulated(&mix, "wait", &more);
        [&policy["wait_ms"], &policy["makespan_ms"]].map(|ms| ms.as_f64().expect("a number"))
    };
    assert_eq!(of(&[]), [0.0, 22_500.0], "all three on one node");
    let [wait_ms, makespan_ms] = of(&["--max-slowdown", "1.2"]);
    assert!((wait_ms - 10_000.0 / 3.0).abs() < 1e-6 && makespan_ms == 20_000.0, "{wait_ms} {makespan_ms}");
    let (_, said) = text(&castell(&["simulate", &mix, "--max-slowdown", "0.5"]));
    assert!(said.contains("`0.5` is no slowdown"), "{said}");
}

#[test]
fn users_share_slots_where_they_are_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let mix = folder.path().join("mix.json").display().to_string();
    let of = |user: u32| format!(r#"{{"run_s": 10, "processes": 4, "user": {user}}}"#);
    std::fs::write(&mix, format!(r#"{{"sessions": [{}, {}]}}"#, of(0), of(7))).expect("a file");
    let waits = |more: &[&str]| {
        let (policy, _) = simulated(&mix, "overbook", &[&["--nodes", "1", "--cores", "4"], more].concat());
        policy["wait_ms"].as_f64().expect("a number")
    };
    assert_eq!((waits(&[]), waits(&["--share-users"])), (5_000.0, 0.0), "the mean of two");
}

#[test]
fn nodes_have_sockets_and_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("workload.json");
    // Each alone has room; the second finds no memory beside the first.
    let sessions = r#"{"sessions": [
        {"id": 1, "submit_s": 0, "run_s": 100, "processes": 1, "memory_bytes": 600},
        {"id": 2, "submit_s": 1, "run_s": 100, "processes": 1, "memory_bytes": 600}]}"#;
    fs::write(&file, sessions).expect("a file");
    let file = file.to_string_lossy();
    let shape = ["--nodes", "1", "--sockets", "2", "--cores", "3"];
    let wait = |memory: &[&str]| {
        simulated(&file, "wait", &[&shape[..], memory].concat()).0["wait_ms"].as_f64().expect("a number")
    };
    assert_eq!((wait(&[]), wait(&["--node-memory", "2000"])), (0.0, 0.0));
    assert_eq!(wait(&["--node-memory", "1000"]), 99_000.0 / 2.0);
    let (row, _) = simulated(&file, "wait", &[&shape[..], &["--node-memory", "500"]].concat());
    assert_eq!(row["refused"], 2, "{row}");
    // As many nodes as the 36 processors of the trace need.
    let nodes = simulated("lublin:jobs=2,processors=36", "wait", &["--sockets", "2", "--cores", "3"]).1;
    assert_eq!(nodes, 6);
}

#[test]
fn coefficients_of_djsb() {
    let row = |policy: &str, more: &[&str]| {
        simulated("djsb", policy, &[&["--nodes", "4", "--cores", "40"], more].concat()).0
    };
    let number = |row: &serde_json::Value, name: &str| row[name].as_f64().expect("a number");
    // Twice and three times as slow as alone was expected, so both were twice and three times as efficient.
    let (plain, expected) = (row("sidestep", &[]), row("sidestep", &["--expected", "2,3"]));
    for (name, factor) in [("e_simulation", 2.0), ("e_analysis", 3.0)] {
        assert!((number(&expected, name) / number(&plain, name) - factor).abs() < 1e-9, "{name}: {expected}");
    }
    // Eight minutes in the mean; the constant c gives c / (c + wait).
    for constant in [480.0_f64, 120.0] {
        let row = row("wait", &["--wait-constant", &constant.to_string()]);
        let wait = number(&row, "wait_ms") / 1e3;
        let (w, range) =
            (number(&row, "w"), constant / (constant + 2.0 * wait)..=constant / (constant + wait / 2.0));
        assert!(range.contains(&w), "{constant}: {row}");
    }
}

#[test]
fn charts_and_workloads_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (svg, swf) = (path("gantt.svg"), path("djsb.swf"));
    let chart = [
        "simulate",
        "djsb",
        "--nodes",
        "4",
        "--cores",
        "40",
        "--policy",
        "sidestep",
        "--timeline",
        &svg,
        "--write",
        &swf,
    ];
    let output = castell(&chart);
    assert!(output.status.success(), "{:?}", text(&output));
    assert!(fs::read_to_string(&svg).expect("a drawing").contains("simulation 0: 40 slots, shares"));
    assert!(castell(&["simulate", &swf, "--nodes", "4", "--cores", "40"]).status.success());
}

#[test]
fn traces_are_read_as_archives_have_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, packed) = (folder.path().join("trace.swf"), folder.path().join("trace.swf.gz"));
    let lines = "; MaxProcs: 4\n2 9 -1 100 4 -1 -1 4 50 -1 1 1 1 1 1 -1 -1 -1\n1 3 -1 7 8 -1 -1 8 -1 -1 1 1 1 1 1 -1 -1 -1\n\
        3 10 -1 -1 -1 -1 -1 4 50 -1 5 1 1 1 1 -1 -1 -1\n";
    fs::write(&plain, lines).expect("a file");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, lines.as_bytes()).expect("memory");
    let bytes = encoder.finish().expect("memory");
    fs::write(&packed, &bytes).expect("a file");
    for file in [&plain, &packed] {
        let (table, said) = text(&castell(&["simulate", &file.to_string_lossy(), "--policy", "wait"]));
        for expected in [
            "1 session left out: it never ran",
            "1 session came before",
            "says no estimate",
            "longer than its estimate",
        ] {
            assert!(table.contains(expected), "{expected}: {table}");
        }
        assert!(
            said.contains("1 session can never run; the first is 1: 8 slots are more than there are"),
            "{said}"
        );
    }
    fs::write(&packed, &bytes[..bytes.len() / 2]).expect("a file");
    let (_, said) = text(&castell(&["simulate", &packed.to_string_lossy()]));
    assert!(said.contains("cannot be unpacked: it is damaged or cut off"), "{said}");
}

#[test]
fn what_is_wrong_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.swf");
    fs::write(&trace, "; MaxProcs: 4\n1 2 3\n").expect("a file");
    let trace = trace.to_string_lossy();
    for (arguments, expected) in [
        (vec!["simulate", "lublin:jobs=x"], "expected a number from 1"),
        (vec!["simulate", "nothing.swf"], "cannot read `nothing.swf`"),
        (vec!["simulate", &*trace], "line 2: there are 3 numbers"),
        (vec!["simulate", "djsb", "--timeline", "x.svg"], "say which"),
        (vec!["simulate", "djsb", "--policy", "polite"], "`polite` is no policy"),
        (vec!["explain", "abc"], "a session has a number, which `castell session list` shows"),
        (vec!["set", "abc", "--priority", "1"], "a session has a number, which `castell session list` shows"),
    ] {
        let output = castell(&arguments);
        let (_, said) = text(&output);
        assert!(!output.status.success() && said.contains(expected), "{arguments:?}: {said}");
    }
}

/// An option with a typing mistake is no program.
#[test]
fn options_that_there_are_not_are_told_from_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let output = castell(&["run", "--socket", &socket, "--polcy", "wait", "--", "true"]);
    let (_, said) = text(&output);
    assert!(!output.status.success() && said.contains("--polcy") && said.contains("--policy"), "{said}");
    let output = castell(&["run", "--socket", &socket, "echo", "--polcy", "-n", "--", "x"]);
    assert_eq!(text(&output).0, "--polcy -n -- x\n", "options of the program: {:?}", text(&output));
    let output = castell(&["run", "--socket", &socket, "--", "echo", "--polcy"]);
    assert_eq!(text(&output).0, "--polcy\n", "{:?}", text(&output));
}

#[test]
fn a_session_on_this_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let output = castell(&[
        "run",
        "-n",
        "1",
        "--policy",
        "surpass",
        "--socket",
        &socket,
        "--",
        "sh",
        "-c",
        "echo here; exit 5",
    ]);
    assert_eq!((output.status.code(), text(&output).0.as_str()), (Some(5), "here\n"), "{:?}", text(&output));
    let (list, _) = text(&castell(&["list", "--socket", &socket, "--json"]));
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(
        (list["policy"].as_str(), list["sessions"].as_array().map(Vec::len)),
        (Some("surpass"), Some(0))
    );
    let output = castell(&["run", "-n", "100000", "--socket", &socket, "--", "true"]);
    assert!(
        !output.status.success() && text(&output).1.contains("slots are more than there are"),
        "{:?}",
        text(&output)
    );
    let begun = Instant::now();
    while fs::exists(&*socket).expect("a folder") {
        assert!(begun.elapsed() < Duration::from_secs(60), "the agent stays");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// As libraries do that look at the processors while it is pinned.
#[test]
fn who_was_spawned_and_binds_itself_to_where_it_was_is_brought_back() {
    let usable = Processors::usable().cpus.len();
    if usable < 2 {
        return skip("one-processor", "a session that spawns one");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let child = "cpus() { sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status; }
        until_other() { for i in $(seq 600); do [ \"$(cpus)\" != \"$1\" ] && return; sleep 0.1; done; exit 3; }
        before=$1; until_other $before; own=$(cpus)
        taskset -cp $before $$; echo \"$own: $(cpus)\" > undone
        until_other $before; echo \"$own: $(cpus)\" > kept";
    fs::write(folder.path().join("child.sh"), child).expect("a file");
    // The other's processor, whatever was given to whom: it is not the child's.
    let parent = "mark=$(\"$CASTELL_SESSION_PROGRAM\" session ask -n 1 | head -n 1)
        before=$(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)
        \"$CASTELL_SESSION_PROGRAM\" session member $mark -- sh child.sh $before";
    let socket = folder.path().join("s.sock");
    Beside::start(folder.path(), &socket.to_string_lossy(), &["-n", "1"], parent).ends();
    let words = |file: &str| {
        let text = fs::read_to_string(folder.path().join(file)).expect("written");
        let (own, seen) =
            text.trim().split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned())).expect("two");
        (own, seen)
    };
    let ((own, undone), (_, kept)) = (words("undone"), words("kept"));
    assert!(own != undone && own == kept, "given {own}, bound itself to {undone}, is on {kept}");
}

#[test]
fn an_agent_without_sessions_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let output = castell(&["agent", "--socket", &socket.to_string_lossy(), "--idle", "50ms"]);
    assert!(output.status.success() && !socket.exists(), "{:?}", text(&output));
}

/// A session that runs beside the test and ends with it.
struct Beside(Child);

impl Beside {
    fn start(folder: &Path, socket: &str, options: &[&str], script: &str) -> Beside {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        command.args(["session", "run", "--socket", socket]).args(options).args(["--", "sh", "-c", script]);
        Beside(command.current_dir(folder).stdin(Stdio::null()).spawn().expect("castell starts"))
    }

    fn ends(mut self) {
        let status = self.0.wait().expect("a child");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How the sessions of an agent are, by their numbers.
fn states(socket: &str) -> Vec<(u64, String)> {
    let (list, _) = text(&castell(&["list", "--socket", socket, "--json"]));
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    let of = |session: &serde_json::Value| {
        (
            session["session"].as_u64().expect("a number"),
            session["state"].as_str().expect("a word").to_owned(),
        )
    };
    list["sessions"].as_array().expect("a list").iter().map(of).collect()
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// On all processors; goes on until there is the file `go`, which the test or another session writes.
const HOLDS_ALL: &str = "touch holds; while ! [ -e go ]; do sleep .05; done";

#[test]
fn sessions_that_talk_to_each_other_do_not_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let first = Beside::start(folder.path(), &socket, &["--policy", "wait"], HOLDS_ALL);
    until("the first session runs", || folder.path().join("holds").exists());
    let number = states(&socket)[0].0.to_string();
    let second = Beside::start(folder.path(), &socket, &["--with", &number], "touch go");
    second.ends();
    first.ends();
}

#[test]
fn the_higher_priority_starts_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let first = Beside::start(folder.path(), &socket, &["--policy", "wait"], HOLDS_ALL);
    until("the first session runs", || folder.path().join("holds").exists());
    let waiting = ["-3", "0", "7"].map(|priority| {
        let known = states(&socket).len();
        let script = format!("echo {priority} >> order");
        let session = Beside::start(folder.path(), &socket, &["--priority", priority], &script);
        until("it waits", || states(&socket).len() == known + 1);
        session
    });
    fs::write(folder.path().join("go"), "").expect("a file");
    first.ends();
    waiting.into_iter().for_each(Beside::ends);
    assert_eq!(fs::read_to_string(folder.path().join("order")).expect("a file"), "7\n0\n-3\n");
}

#[test]
fn memory_is_asked_for_and_short_ones_go_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let much = u64::MAX.to_string();
    let output = castell(&["run", "--socket", &socket, "--memory", &much, "--", "true"]);
    assert!(
        !output.status.success() && text(&output).1.contains("bytes each do not fit"),
        "{:?}",
        text(&output)
    );
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skipped::skip("sessions beside each other", "there is one processor");
        return;
    }
    // One holds a slot and says for how long; the next wants all; a short one fits in between, one that says nothing does not.
    let one = Beside::start(folder.path(), &socket, &["--slots", "1", "--estimate", "1h"], HOLDS_ALL);
    until("the first session runs", || folder.path().join("holds").exists());
    let all = Beside::start(folder.path(), &socket, &["--estimate", "1h"], "echo all >> order");
    until("it waits", || states(&socket).len() == 2);
    let unknown = Beside::start(folder.path(), &socket, &["--slots", "1"], "echo unknown >> order");
    until("it waits", || states(&socket).len() == 3);
    let short =
        Beside::start(folder.path(), &socket, &["--slots", "1", "--estimate", "1s"], "echo short >> order");
    short.ends();
    fs::write(folder.path().join("go"), "").expect("a file");
    [one, all, unknown].into_iter().for_each(Beside::ends);
    assert_eq!(fs::read_to_string(folder.path().join("order")).expect("a file"), "short\nall\nunknown\n");
}

/// Where a process may run.
const ALLOWED: &str = "grep Cpus_allowed_list /proc/self/status | cut -f2";

#[test]
fn processors_are_named_and_changed_while_a_session_waits_or_runs() {
    let usable = Processors::usable().cpus;
    let [one, other, ..] = &usable[..] else {
        skip("one-processor", "there is one processor");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let run = |options: &[&str], words: &[&str]| {
        text(&castell(&[&["run", "--socket", &socket], options, &["--"], words].concat()))
    };
    let number = other.to_string();
    let output = run(&["--policy", "wait", "--cpus", &number], &["sh", "-c", ALLOWED]);
    assert_eq!(output.0.trim(), number, "{output:?}");
    assert!(run(&["--cpus", &number, "-n", "1"], &["true"]).1.contains("cannot be used with"));
    assert!(run(&["--cpus", "4095"], &["true"]).1.contains("there is no processor 4095"));
    assert!(run(&["--cpus", "elsewhere:0"], &["true"]).1.contains("there is no node elsewhere"));
    assert!(run(&["--cpus", "2-x"], &["true"]).1.contains("written as 0,2-3"));
    let set = |session: u64, what: &[&str]| {
        text(&castell(&[&["set", &session.to_string(), "--socket", &socket], what].concat()))
    };
    let cpus = |session: u64| {
        let (list, _) = text(&castell(&["list", "--socket", &socket, "--json"]));
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let its = list["sessions"].as_array().expect("a list").iter().find(|its| its["session"] == session);
        let its = its.unwrap_or_else(|| panic!("session {session} is in {list}"));
        (its["parts"][0]["cpus"].clone(), its["cpus"]["cpus"].clone())
    };
    let holder = Beside::start(folder.path(), &socket, &["--cpus", &number], HOLDS_ALL);
    until("the first session runs", || folder.path().join("holds").exists());
    let first = states(&socket)[0].0;
    let script = format!("{ALLOWED} > second; while ! [ -e go ]; do sleep .05; done");
    let second = Beside::start(folder.path(), &socket, &["--cpus", &number], &script);
    until("the second one waits", || states(&socket).len() == 2);
    let waiting = first + 1;
    assert_eq!(cpus(waiting), (serde_json::Value::Null, serde_json::json!([other])));
    let (shown, said) = set(waiting, &["--cpus", &one.to_string()]);
    assert!(shown.contains("running"), "{shown}{said}");
    assert_eq!(cpus(waiting), (serde_json::json!([one]), serde_json::json!([one])));
    let refused = set(first, &["--slots", "4095"]).1;
    assert!(refused.contains("slots are more than there are"), "{refused}");
    let refused = set(first, &["--cpus", &one.to_string()]).1;
    assert!(refused.contains("not free for it among those that are named"), "{refused}");
    assert!(set(first, &["--memory", "1000000"]).0.contains("running"));
    let refused = set(first, &["--memory", &(u64::MAX / 2).to_string()]).1;
    assert!(refused.contains("do not fit"), "{refused}");
    until("the second one has begun", || folder.path().join("second").exists());
    fs::write(folder.path().join("go"), "").expect("a file");
    [holder, second].into_iter().for_each(Beside::ends);
    let on = fs::read_to_string(folder.path().join("second")).expect("a file");
    assert_eq!(on.trim(), one.to_string());
    // One that runs gives processors up, and gets free ones.
    for file in ["go", "holds"] {
        fs::remove_file(folder.path().join(file)).expect("a file");
    }
    let both = Beside::start(folder.path(), &socket, &["-n", "2"], HOLDS_ALL);
    until("it runs", || folder.path().join("holds").exists());
    let id = states(&socket)[0].0;
    assert!(set(id, &["--slots", "1"]).0.contains("running"));
    assert_eq!(cpus(id).0.as_array().map(Vec::len), Some(1));
    assert!(set(id, &["--slots", "2"]).0.contains("running"));
    assert_eq!(cpus(id).0.as_array().map(Vec::len), Some(2));
    fs::write(folder.path().join("go"), "").expect("a file");
    both.ends();
}

#[test]
fn memory_is_limited_where_it_can_be_and_counted_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let holder = Beside::start(folder.path(), &socket, &["-n", "1", "--memory", "48M"], HOLDS_ALL);
    until("it runs", || folder.path().join("holds").exists());
    let explained = |id: &str| text(&castell(&["explain", id, "--socket", &socket])).0;
    let session = states(&socket)[0].0.to_string();
    let said = explained(&session);
    let is_limited = said.contains("memory: limited to 48 MiB\n");
    let (list, _) = text(&castell(&["list", "--socket", &socket, "--json"]));
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    let memory = &list["sessions"][0]["memory"];
    assert_eq!((&memory["bytes"], &memory["limited"]), (&(48u64 << 20).into(), &is_limited.into()));
    assert!(
        is_limited || said.contains("memory: 48 MiB are counted, not limited: no control group"),
        "{said}"
    );
    let (_, refused) = text(&castell(&["set", &session, "--memory", "lots", "--socket", &socket]));
    assert!(refused.contains("500M or 1.5G"), "{refused}");
    let set = text(&castell(&["set", &session, "--memory", "64M", "--socket", &socket]));
    assert!(set.0.contains("running"), "{set:?}");
    if is_limited {
        assert!(explained(&session).contains("memory: limited to 64 MiB\n"), "{}", explained(&session));
    }
    fs::write(folder.path().join("go"), "").expect("a file");
    holder.ends();
    if !is_limited {
        skip("memory-limits", "no control group with the memory controller may be made");
        return;
    }
    // What `tail` keeps of a line without an end.
    let script = |bytes: &str| format!("head -c {bytes} /dev/zero | tail -n 1 > /dev/null");
    let took = |bytes: &str| {
        let options = ["run", "--socket", &socket, "-n", "1", "--memory", "48M", "--"];
        castell(&[&options[..], &["bash", "-o", "pipefail", "-c", &script(bytes)]].concat()).status
    };
    assert!(took("1M").success());
    let status = took("400M");
    assert!(!status.success(), "{status}");
}

/// The process that keeps the sessions of a socket, or that a runner has started to do so.
fn agent(socket: &str) -> Option<u32> {
    let processes = fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.windows(2).any(|two| two == [&b"session"[..], b"agent"]) && words.contains(&socket.as_bytes())
    })
}

#[test]
fn sessions_between_two_agents_are_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let none = text(&castell(&["list", "--socket", &socket]));
    assert!(none.0.starts_with("no session, and no agent at"), "{none:?}");
    let holder = Beside::start(folder.path(), &socket, &["-n", "1"], HOLDS_ALL);
    until("it runs", || folder.path().join("holds").exists());
    let kill = || {
        let agent = agent(&socket).expect("an agent").to_string();
        let status = Command::new("kill").args(["-KILL", &agent]).status().expect("kill starts");
        assert!(status.success(), "{status}");
    };
    kill();
    let said = text(&castell(&["list", "--socket", &socket]));
    assert!(said.0.starts_with("1 session under wait"), "{said:?}");
    kill();
    let said = text(&castell(&["explain", "1", "--socket", &socket]));
    assert!(said.0.starts_with("session 1 has run"), "{said:?}");
    fs::write(folder.path().join("go"), "").expect("a file");
    holder.ends();
}

#[test]
fn who_has_not_come_back_to_the_next_agent_is_shown_as_awaited() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let socket = socket.to_string_lossy();
    let stopped = Beside::start(folder.path(), &socket, &["-n", "1"], HOLDS_ALL);
    until("it runs", || folder.path().join("holds").exists());
    let other = "touch other; while ! [ -e go ]; do sleep .05; done";
    let other = Beside::start(folder.path(), &socket, &["-n", "1", "--with", "1"], other);
    until("the other one runs", || folder.path().join("other").exists());
    let signal = |signal: &str, pid: u32| {
        let status = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill starts");
        assert!(status.success(), "{status}");
    };
    let awaited = || {
        let (list, _) = text(&castell(&["list", "--socket", &socket, "--json"]));
        let list: serde_json::Value = serde_json::from_str(&list).unwrap_or_default();
        let sessions = list["sessions"].as_array().cloned().unwrap_or_default();
        sessions.iter().map(|session| session["awaited"].as_bool()).collect::<Vec<_>>()
    };
    assert_eq!(awaited(), [Some(false), Some(false)]);
    signal("-STOP", stopped.0.id());
    signal("-KILL", agent(&socket).expect("an agent"));
    until("the other one has found the next agent", || awaited() == [Some(true), Some(false)]);
    let (list, _) = text(&castell(&["list", "--socket", &socket]));
    assert!(list.contains("(its runner is awaited)"), "{list}");
    let (explained, _) = text(&castell(&["explain", "1", "--socket", &socket]));
    assert!(explained.contains("its runner has not come back to this one as yet"), "{explained}");
    signal("-CONT", stopped.0.id());
    until("it comes back", || awaited() == [Some(false), Some(false)]);
    fs::write(folder.path().join("go"), "").expect("a file");
    stopped.ends();
    other.ends();
}
