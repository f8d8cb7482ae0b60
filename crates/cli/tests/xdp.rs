//! `castell xdp` between the hosts of a lab.

mod json_page;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use json_page::stands_on_the_page;
use serde_json::Value;
use skipped::skip;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// On so many hosts, a rank on each.
fn on_hosts(hosts: u32, words: &[&str]) -> Output {
    let hosts = hosts.to_string();
    let mut command = Command::new(CASTELL);
    command
        .args(["lab", &hosts, "--", CASTELL, "launch", "-n", &hosts, "--", CASTELL, "xdp", "eth0"])
        .args(words);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.stdin(Stdio::null()).output().expect("castell starts")
}

/// Whether programs can be put at interfaces here; else the test counts as skipped.
fn is_possible() -> bool {
    let said = text(&on_hosts(2, &["barrier:dissemination", "--runs", "1"]).stderr);
    let (lab, xdp) = (
        said.contains("namespaces cannot be made") || said.contains("not installed"),
        said.contains("may not put a program"),
    );
    if lab || xdp || said.contains("was built without its program") {
        skip(if lab { "lab" } else { "xdp" }, &said);
        return false;
    }
    true
}

#[track_caller]
fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

#[test]
fn sums_are_made_in_the_kernel_and_measured() {
    if !is_possible() {
        return;
    }
    // Each result is compared, in the command.
    for (name, hosts) in [("allreduce:recursive-doubling", 4), ("allreduce:linear", 3)] {
        let object = json(&on_hosts(hosts, &[name, "--elements", "5", "--runs", "30", "--json"]));
        stands_on_the_page("xdp", &object);
        assert_eq!((&object["ranks"], &object["one_clock"]), (&hosts.into(), &true.into()), "{object}");
        for key in ["kernel", "process", "user"] {
            let [low, median, high] =
                ["p10_ns", "median_ns", "p90_ns"].map(|part| object[key][part].as_u64());
            assert!(low > Some(0) && low <= median && median <= high, "{key}: {object}");
        }
    }
    let behind = ["barrier:dissemination", "--runs", "5", "--xdp-mode", "generic", "--json"];
    assert_eq!(json(&on_hosts(2, &behind))["xdp_mode"], "generic");
    let output = on_hosts(2, &["barrier:dissemination", "--runs", "20", "--busy"]);
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.contains("while all processors compute"),
        "{said}{}",
        text(&output.stderr)
    );
    assert!(said.contains("in the kernel, by its own clock") && said.contains("in user space"), "{said}");
}

#[test]
fn what_does_not_fit_runs_in_user_space_or_is_refused() {
    if !is_possible() {
        return;
    }
    // A host of a lab has its own /tmp.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("calc.goal");
    let program = "num_ranks 2\nrank 0 {\na: send 8b to 1\n}\nrank 1 {\nb: recv 8b from 0\nc: calc 1000\nc requires b\n}\n";
    std::fs::write(&file, program).expect("a file");
    let file = file.to_str().expect("a path");
    let output = on_hosts(2, &[file, "--runs", "5", "--json"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("rank 1: the calc of 1000 ns (operation 1 `c`) cannot be carried out in the kernel"),
        "{said}"
    );
    assert!(said.contains("all of it runs in user space"), "{said}");
    let object = json(&output);
    assert!(object["kernel"].is_null() && object["user"]["median_ns"].as_u64() > Some(0), "{object}");
    let output = on_hosts(2, &[file, "--only-kernel"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("--only-kernel wants it there"), "{said}");
}

/// `castell run`, on so many hosts.
fn run_on_hosts(hosts: u32, words: &[&str]) -> Output {
    let mut command = Command::new(CASTELL);
    command.args(["lab", &hosts.to_string(), "--", CASTELL, "run"]).args(words);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.stdin(Stdio::null()).output().expect("castell starts")
}

#[test]
fn programs_are_run_in_the_kernel_as_far_as_they_fit() {
    if !is_possible() {
        return;
    }
    let kernel = ["--net", "xdp", "--json"];
    let words = ["allreduce:recursive-doubling", "-n", "4", "--bytes", "64", "--repeat", "20"];
    let object = json(&run_on_hosts(4, &[&words[..], &kernel].concat()));
    stands_on_the_page("run", &object);
    assert_eq!((&object["messages"], &object["bytes"]), (&8.into(), &512.into()), "{object}");
    assert!(object["xdp_mode"].is_string(), "{object}");
    assert_eq!(object["repeat"]["times_ns"].as_array().map(Vec::len), Some(20), "{object}");
    // Messages of more than a frame: in user space, and said so.
    let output = run_on_hosts(8, &[&["examples/goal/halo.goal"][..], &kernel].concat());
    assert!(text(&output.stderr).contains("it does not fit into one frame"), "{}", text(&output.stderr));
    let object = json(&output);
    assert!(object["xdp_mode"].is_null() && object["messages"] == 400, "{object}");
    let refused = |hosts, words: &[&str], why: &str| {
        let output = run_on_hosts(hosts, &[words, &["--net", "xdp=eth0"]].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why), "{words:?}: {said}");
    };
    refused(2, &["barrier:dissemination", "-n", "4"], "these are 4 ranks on 2 hosts");
    let drawing = std::env::temp_dir().join("castell-xdp-never.svg");
    let drawing = drawing.to_str().expect("a path");
    refused(
        2,
        &["barrier:dissemination", "-n", "2", "--timeline", drawing],
        "does not note when each operation was",
    );
}

#[test]
fn kernels_are_measured_beside_networks() {
    if !is_possible() {
        return;
    }
    let words = [
        "bench",
        "net",
        "--net",
        "tcp,xdp=eth0",
        "--ops",
        "barrier,allreduce,bcast,alltoall",
        "--bytes",
        "8,4096",
    ];
    let more = ["--per-host", "1,2", "--samples", "1", "--rounds", "1", "--no-peers", "--json"];
    let mut command = Command::new(CASTELL);
    command.args(["lab", "2", "--", CASTELL]).args(words).args(more);
    let output = command
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null())
        .output()
        .expect("castell starts");
    let rows = json(&output);
    stands_on_the_page("bench net", &rows);
    let said = text(&output.stderr);
    assert!(said.contains("is left out on hosts × 2: an interface takes one rank's program"), "{said}");
    let rows = rows.as_array().expect("rows").iter();
    let mut kernel: Vec<_> = rows
        .filter(|row| row["subject"].as_str().is_some_and(|subject| subject.starts_with("castell, xdp=eth0")))
        .map(|row| (row["workload"].as_str().unwrap_or_default(), row["params"]["bytes"].as_u64()))
        .collect();
    kernel.dedup();
    // Only what fits into frames, and what there is an algorithm of.
    assert_eq!(kernel, [("barrier", Some(0)), ("allreduce", Some(8)), ("bcast", Some(8))]);
}

#[test]
fn where_a_host_has_several_interfaces_one_is_to_be_named_for_kernels_and_frames_find_it() {
    if !is_possible() {
        return;
    }
    let two = "ip link add v1 type veth peer name v2 && ip link set v1 up && ip link set v2 up";
    let run = |net: &str| {
        let script = format!("{two} && exec {CASTELL} run barrier:dissemination -n 2 --net {net}");
        let output = Command::new(CASTELL).args(["lab", "2", "--", "sh", "-c", &script]).output();
        let output = output.expect("castell starts");
        let said = text(&output.stderr);
        assert!(!said.contains("panicked"), "{said}");
        (output.status.code(), said)
    };
    let (code, said) = run("xdp");
    let why = said.contains("rank 0: this host has several Ethernet interfaces that are up: ");
    assert!(code == Some(1) && why && said.contains("xdp=eth0`"), "{said}");
    let (code, said) = run("esp");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn ranks_of_one_host_are_told_that_kernels_want_hosts() {
    let mut command = Command::new(CASTELL);
    command.args(["run", "barrier:dissemination", "-n", "2", "--net", "xdp=eth0"]);
    let output = command.output().expect("castell starts");
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("give --hosts a,b, or do it in a lab"),
        "{said}"
    );
}

#[test]
fn who_is_alone_is_told_how_to_be_several() {
    let output = Command::new(CASTELL)
        .args(["xdp", "eth0", "barrier:dissemination"])
        .output()
        .expect("castell starts");
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(1)
            && said.contains("castell lab 4 -- castell launch -n 4 -- castell xdp"),
        "{said}"
    );
}
