//! `castell ways`: what carries messages between the ranks of running jobs.
//!
//! Ranks are this program once more: `as_a_rank` does what its role says, and some of them look at their own job.

mod json_page;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use json_page::stands_on_the_page;
use serde_json::{Value, json};
use skipped::skip;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");
/// What the processes of a job do.
const ROLE: &str = "CASTELL_TEST_ROLE";

/// `castell launch` of this program in a role, behind some words.
fn role(before: &[&str], options: &[&str], role: &str) -> Command {
    let me = std::env::current_exe().expect("a program knows its path");
    let words =
        [before, &[CASTELL, "launch", "--timeout", "300s", "--grace", "120s"], options, &["--"]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(me).args(["as_a_rank", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env("CASTELL", CASTELL).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What ranks have said behind a star, in order.
#[track_caller]
fn said(output: &Output) -> Vec<String> {
    let all = text(&output.stdout);
    assert!(output.status.success(), "{}\n{all}\n{}", output.status, text(&output.stderr));
    let mut lines: Vec<String> =
        all.lines().filter_map(|line| Some(line.split_once("* ")?.1.to_owned())).collect();
    lines.sort();
    lines
}

/// What a rank sees of its own job.
fn look() -> Value {
    let me = std::process::id().to_string();
    let output = Command::new(CASTELL).args(["ways", "--json", "--job", &me]).output().expect("castell runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    stands_on_the_page("ways", &all);
    assert_eq!(all["jobs"].as_array().map(Vec::len), Some(1), "{all}");
    all["jobs"][0].clone()
}

/// Every pair says something.
fn exchange_with_all(comm: &Comm) {
    let others = || (0..comm.size()).filter(|other| *other != comm.rank().0);
    let (sent, mut got) = ([comm.rank().0 as u8; 900], vec![[0_u8; 900]; comm.size() as usize]);
    comm.scope(|scope| {
        let mut graph = scope.graph();
        for (other, into) in (0..).zip(&mut got).filter(|(other, _)| *other != comm.rank().0) {
            graph.send(scope.share(&sent), Rank(other), Tag(7)).expect("legal");
            graph.recv(scope.lend(into), Some(Rank(other)), Some(Tag(7))).expect("legal");
        }
        let run = scope.run(&graph.compile().expect("it compiles")).expect("it starts");
        run.wait().expect("it ends well");
    });
    assert!(others().all(|other| got[other as usize] == [other as u8; 900]));
}

/// Says a line at once: lines of several ranks would else come in between.
fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    // What the harness has begun comes first.
    out.flush().expect("a reader");
    out.write_all(format!("* {line}\n").as_bytes()).expect("a reader");
}

#[test]
fn as_a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let comm = Comm::init().unwrap_or_else(|error| panic!("{error}"));
    let meet = || comm.world().barrier().expect("all are there");
    let (me, last) = (comm.rank().0, comm.size() - 1);
    match role.as_str() {
        "over" => {
            exchange_with_all(&comm);
            meet();
            for way in look()["ways"].as_array().expect("ways") {
                let own = |ranks: &Value| ranks[0] == me;
                if own(&way["ranks"]) || own(&way["with"]) {
                    say(&format!("{me} {}-{} {}", way["ranks"], way["with"], way["over"]));
                }
            }
            meet();
        }
        "look" => {
            meet();
            if me == 0 {
                say(&format!("{me} {}", look()));
            }
            meet();
            if me == last {
                say(&format!("{me} {}", look()));
            }
            meet();
        }
        "die" => {
            meet();
            if me == last {
                std::process::exit(0);
            }
            let since = Instant::now();
            while look()["ranks"][last as usize]["state"] != "dead" {
                assert!(since.elapsed() < Duration::from_secs(100), "nobody notices: {}", look());
            }
            say(&format!("{me} {}", look()));
            castell_host::process::end_now(0);
        }
        other => panic!("no role `{other}`"),
    }
    comm.finalize();
}

/// What was said by a rank.
fn picture(line: &str) -> Value {
    serde_json::from_str(line.split_once(' ').expect("a rank").1).expect("JSON")
}

#[test]
fn of_one_host() {
    let shared = said(&role(&[], &["-n", "3"], "look").output().expect("castell runs"));
    assert_eq!(shared.len(), 2);
    for line in &shared {
        let job = picture(line);
        assert_eq!((&job["net"], &job["matrix"]), (&json!("shm"), &json!([".mm", "m.m", "mm."])), "{job}");
        assert_eq!(job["ways"].as_array().map(Vec::len), Some(1), "{job}");
        assert_eq!(
            (&job["ways"][0]["way"], &job["ways"][0]["ranks"]),
            (&json!("shared memory"), &json!([0, 1, 2]))
        );
        let ranks = job["ranks"].as_array().expect("ranks");
        assert!(
            ranks.iter().all(|rank| rank["state"] == "alive" && rank["process"].as_u64() > Some(1)),
            "{job}"
        );
        let processes = job["processes"].as_array().expect("processes");
        assert!(ranks.iter().all(|rank| processes.contains(&rank["process"])), "{job}");
        assert_eq!(job["job"], processes[0], "the launcher was first");
    }
    let tcp = said(&role(&[], &["-n", "2", "--net", "tcp"], "look").output().expect("castell runs"));
    let job = picture(&tcp[0]);
    assert_eq!((&job["net"], &job["matrix"]), (&json!("tcp"), &json!([".t", "t."])), "{job}");
    assert!(job["ways"][0]["why"].as_str().is_some_and(|why| why.contains("--net tcp")), "{job}");
    assert!(job["ranks"][1]["listens"][0].as_str().is_some_and(|address| address.contains(':')), "{job}");
    let net = "fabric=tcp;ofi_rxm";
    let fabric = said(&role(&[], &["-n", "2", "--net", net], "look").output().expect("castell runs"));
    let job = picture(&fabric[0]);
    assert_eq!((&job["net"], &job["matrix"]), (&json!(net), &json!([".f", "f."])), "{job}");
    assert!(job["ways"][0]["why"].as_str().is_some_and(|why| why.contains("--net fabric")), "{job}");
    let listens = job["ranks"][1]["listens"][0].as_str().unwrap_or_default();
    assert!(listens.starts_with("tcp;ofi_rxm ") && listens.contains(':'), "{job}");
}

/// Also where no job runs.
#[test]
fn of_fabrics() {
    let explain = |more: &[&str], library: &str| {
        let mut command = Command::new(CASTELL);
        command.args(["ways", "--explain"]).args(more).env("CASTELL_LIBFABRIC", library);
        let output = command.output().expect("castell runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let told = explain(&[], "");
    let line = told.lines().find(|line| line.starts_with("  tcp;ofi_rxm at ")).expect(&told);
    assert!(line.contains("messages, tagged messages, writes to other ranks' memory"), "{told}");
    assert!(told.contains("  shm at shm: ") && told.contains("so large messages go in pieces"), "{told}");
    let json: Value = serde_json::from_str(&explain(&["--json"], "")).expect("JSON");
    let providers = json["fabric"]["providers"].as_array().expect("providers");
    assert!(providers.iter().any(|one| one["provider"] == "udp;ofi_rxd" && one["lacks"].is_null()), "{json}");
    let told = explain(&[], "/nowhere/libfabric.so.1");
    assert!(told.contains("cannot load /nowhere/libfabric.so.1") && told.contains("apt install"), "{told}");
}

#[test]
fn of_hosts_that_are_one() {
    let options = ["--hosts", "a:2,b:1", "--remote", "env CASTELL_TEST_HOST={host}", "--ways"];
    let output = role(&[], &options, "look").output().expect("castell runs");
    for line in said(&output) {
        let job = picture(&line);
        assert_eq!(job["matrix"], json!([".mt", "m.t", "tt."]), "{job}");
        let ranks = job["ranks"].as_array().expect("ranks");
        let hosts: Vec<&Value> = ranks.iter().map(|rank| &rank["host"]).collect();
        assert_eq!(hosts, ["a", "a", "b"], "{job}");
        assert!(ranks.iter().all(|rank| rank["process"].as_u64() > Some(1)), "agents know theirs: {job}");
    }
    let told = text(&output.stderr);
    assert!(told.contains("3 ranks on 2 hosts") && told.contains("within a: shared memory"), "{told}");
    assert!(told.contains("a - b: TCP; different hosts"), "{told}");
}

#[test]
fn of_a_rank_that_is_gone() {
    let output = role(&[], &["-n", "2"], "die").output().expect("castell runs");
    let all = text(&output.stdout);
    let line = all.lines().find_map(|line| line.split_once("* ")).expect(&all).1;
    let job = picture(line);
    assert_eq!(job["matrix"], json!([".x", "x."]), "{job}");
}

#[test]
fn of_a_lab() {
    let script = r#""$CASTELL" ways; echo $?"#;
    let mut lab = Command::new(CASTELL);
    lab.args(["lab", "1", "--", "sh", "-c", script]).env("CASTELL", CASTELL);
    let output = lab.output().expect("castell runs");
    if !output.status.success() {
        skip("lab", &text(&output.stderr));
        return;
    }
    let told = text(&output.stderr);
    assert!(text(&output.stdout) == "1\n" && told.contains("no job can be seen"), "{told}");
    let output =
        role(&[CASTELL, "lab", "2", "--"], &["-n", "4", "--ways"], "look").output().expect("castell runs");
    let lines = said(&output);
    assert_eq!(lines.len(), 2, "on both hosts");
    for (line, own) in lines.iter().zip([[0, 1], [2, 3]]) {
        let job = picture(line);
        assert_eq!(job["matrix"], json!([".mtt", "m.tt", "tt.m", "ttm."]), "{job}");
        for rank in 0..4usize {
            let known = job["ranks"][rank]["process"].is_u64();
            assert_eq!(known, own.contains(&rank), "a host knows the processes of its ranks: {job}");
            let address = job["ranks"][rank]["listens"].to_string();
            assert!(address.contains(&format!("10.202.0.{}:", rank / 2 + 1)), "{job}");
        }
    }
    let told = text(&output.stderr);
    assert!(told.contains("within h1, within h2: shared memory"), "{told}");
}

/// Pairs of hosts differ in which of their interfaces are on one segment, and on one of those all frames get lost, on another many.
#[test]
fn raw_frames_go_where_they_are_answered() {
    let lab = |options: &[&'static str]| {
        let more = ["--segment", "h1,h2", "--segment", "h2,h3", "--segment", "h1,h3"];
        [&[CASTELL, "lab", "3"], &more[..], options, &["--"]].concat()
    };
    let possible = Command::new(CASTELL).args(["lab", "1", "--", "true"]).output().expect("castell runs");
    if !possible.status.success() {
        skip("lab", &text(&possible.stderr));
        return;
    }
    let over = |options: &[&'static str], net: &str| {
        let output = role(&lab(options), &["-n", "3", "--net", net, "--ways"], "over").output();
        let output = output.expect("castell runs");
        (said(&output), text(&output.stderr))
    };
    let expected = |first: &str, second: &str, third: &str| {
        let between = [(0, "[0]-[1]", first), (0, "[0]-[2]", third), (1, "[0]-[1]", first)];
        let between = between.into_iter().chain([
            (1, "[1]-[2]", second),
            (2, "[0]-[2]", third),
            (2, "[1]-[2]", second),
        ]);
        between.map(|(me, pair, name)| format!("{me} {pair} [\"{name}\"]")).collect::<Vec<_>>()
    };
    let (lines, told) = over(&[], "esp=eth1,eth2,eth3");
    assert_eq!(lines, expected("eth1", "eth2", "eth3"));
    assert!(told.contains("over whichever of eth1, eth2, eth3 answers first"), "{told}");
    let (lines, _) =
        over(&["--loss", "eth2=100%", "--loss", "eth3=30%", "--seed", "5"], "esp=eth0,eth2,eth3");
    assert!(lines[0] == "0 [0]-[1] [\"eth0\"]" && lines[3] == "1 [1]-[2] [\"eth0\"]", "{lines:?}");
    // Of all that reach, some.
    let (lines, _) = over(&[], "esp");
    for (line, far) in lines.iter().zip(["eth1", "eth3", "eth1", "eth2", "eth3", "eth2"]) {
        assert!(line.ends_with(r#"["eth0"]"#) || line.ends_with(&format!(r#"["{far}"]"#)), "{lines:?}");
    }
    // Nothing in common.
    let output =
        role(&lab(&[]), &["-n", "3", "--net", "esp=eth1,eth2"], "over").output().expect("castell runs");
    let told = text(&output.stderr);
    assert!(
        !output.status.success() && told.contains("rank 2 on h3 is not reached over eth1: nobody"),
        "{told}"
    );
    // More than one that might be, and is not.
    let lossy = lab(&["--loss", "eth1=100%", "--loss", "eth2=100%", "--loss", "eth3=100%"]);
    let output = role(&lossy, &["-n", "3", "--net", "esp=eth1,eth2,eth3"], "over").output();
    let told = text(&output.expect("castell runs").stderr);
    let none =
        "rank 0 on h1 is reached over none of eth1, eth2: nobody has answered at its eth1, eth3 for 10 s";
    assert!(told.contains(none), "{told}");
}

#[test]
fn of_nobody() {
    let refused = |arguments: &[&str]| {
        let output = Command::new(CASTELL).arg("ways").args(arguments).output().expect("castell runs");
        (output.status.code(), text(&output.stderr))
    };
    let (code, told) = refused(&["--job", "1"]);
    assert!(code == Some(1) && told.contains("process 1 belongs to no job"), "{told}");
    assert_eq!(refused(&["--job", "0"]).0, Some(2));
}
