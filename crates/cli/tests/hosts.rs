//! `castell launch` on several hosts: those of a laboratory, and some that are only called so.
//!
//! Ranks are this program once more: `as_a_rank` does what its role says.

mod json_page;
mod labs;
#[path = "../../comm/tests/oracle/mod.rs"]
mod oracle;
#[path = "labs/secrets.rs"]
mod secrets;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::collective::Reduction;
use json_page::stands_on_the_page;
use labs::{
    CASTELL, ROLE, are_possible as labs_are_possible, host_name, on_first as in_lab, said as fine, starred,
    text,
};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `castell launch` there, of this program in a role.
fn role_in_lab(hosts: u32, options: &[&str], role: &str) -> Command {
    let launch = [&[CASTELL, "launch", "--timeout", "200s"], options, &["--"]].concat();
    let mut command = in_lab(hosts, &launch);
    command.args(labs::myself()).env(ROLE, role);
    command
}

/// The same on this host.
fn role_here(options: &[&str], role: &str) -> Command {
    let mut command = Command::new(CASTELL);
    command.args(["launch", "--timeout", "200s"]).args(options).arg("--").args(labs::myself());
    command.stdin(Stdio::null()).env(ROLE, role);
    command
}

/// `castell launch` on hosts that are all this one.
fn on_names(hosts: &str, options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(CASTELL);
    command.args(["launch", "--hosts", hosts, "--remote", "env CASTELL_TEST_HOST={host}"]).args(options);
    command.arg("--").args(words).stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("castell runs")
}

#[test]
fn as_a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let comm = Comm::init().unwrap_or_else(|error| panic!("{error}"));
    match role.as_str() {
        "oracle" => {
            for (count, root) in [(1, 0), (3000, comm.size() - 1)] {
                oracle::every::sample(&comm, count);
                let mut sum = [0u64];
                comm.world().allreduce(&[1u64], &mut sum, Reduction::Sum).expect("it ends well");
                assert_eq!(sum[0], u64::from(comm.size()), "root {root}");
            }
        }
        "pairs" => exchange_with_all(&comm),
        "differ" => call_different_things(&comm),
        "secret" => {
            exchange_with_all(&comm);
            println!("* copies of the secret in what core files have: {:?}", secrets::copies(&comm));
        }
        "bits" => println!("* bits {}", bits_of_reductions(&comm)),
        fault => survive(&comm, fault),
    }
    println!("* rank {} of {} on {}", comm.rank(), comm.size(), host_name());
    comm.finalize();
}

/// Every pair sends both ways, small and large.
fn exchange_with_all(comm: &Comm) {
    for bytes in [8usize, 100_000] {
        let (me, size) = (comm.rank().0, comm.size());
        let sent: Vec<Vec<u8>> = (0..size).map(|to| vec![(me * 16 + to) as u8; bytes]).collect();
        let mut got: Vec<Vec<u8>> = (0..size).map(|_| vec![0; bytes]).collect();
        comm.scope(|scope| {
            let mut graph = scope.graph();
            for (other, (from, into)) in
                (0..).zip(sent.iter().zip(&mut got)).filter(|(other, _)| *other != me)
            {
                graph.send(scope.share(from), Rank(other), Tag(7)).expect("legal");
                graph.recv(scope.lend(into), Some(Rank(other)), Some(Tag(7))).expect("legal");
            }
            scope
                .run(&graph.compile().expect("it compiles"))
                .expect("it starts")
                .wait()
                .expect("it ends well");
        });
        for other in (0..size).filter(|other| *other != me) {
            assert!(got[other as usize].iter().all(|byte| *byte == (other * 16 + me) as u8), "from {other}");
        }
    }
}

#[test]
fn all_calls_by_all_algorithms() {
    if !labs_are_possible() {
        return;
    }
    let said = fine(&run(&mut role_in_lab(4, &["-n", "8"], "oracle")));
    let expected: Vec<String> = (0..8).map(|rank| format!("rank {rank} of 8 on h{}", rank / 2 + 1)).collect();
    assert_eq!(said, expected);
}

/// What one rank calls where the others call something else; in order, with the words that both are told by.
const DIFFERENT: [[&str; 2]; 4] = [
    ["barrier", "allreduce of 1 u64"],
    ["allreduce of 1 u64", "allreduce of 2 u64"],
    ["bcast of 24 bytes, root 1", "bcast of 24 bytes, root 0"],
    ["allgather of 32 bytes", "barrier"],
];

/// One rank after the other calls something else than all others: all of them come to an end, and are told why.
fn call_different_things(comm: &Comm) {
    for odd in (0..comm.size()).map(Rank) {
        for (case, words) in DIFFERENT.iter().enumerate() {
            let group = comm.world().split(Some(0), 0).expect("it is made").expect("it has a colour");
            let is_odd = comm.rank() == odd;
            if is_odd && case % 2 == 0 {
                // The others have told by then what they call.
                std::thread::sleep(Duration::from_millis(700));
            }
            let (mut two, mut many) = ([0; 2], vec![0; 4 * comm.size() as usize]);
            let outcome = match words[usize::from(is_odd)] {
                "barrier" => group.barrier(),
                "allreduce of 1 u64" => group.allreduce(&[1u64], &mut two[..1], Reduction::Sum),
                "allreduce of 2 u64" => group.allreduce(&[1u64; 2], &mut two, Reduction::Sum),
                "allgather of 32 bytes" => group.allgather(&[1u64; 4], &mut many),
                bcast => group.broadcast(&mut [1u64; 3], Rank(u32::from(bcast.ends_with('1')))),
            };
            if let Err(error) = outcome {
                println!("* {odd} {case} {error}");
            }
        }
    }
}

#[test]
fn calls_that_differ_between_hosts_are_told_of() {
    if !labs_are_possible() {
        return;
    }
    let said = fine(&run(&mut role_in_lab(3, &["--hosts", "h1:2,h2:1,h3:1"], "differ")));
    for odd in 0..4 {
        for (case, words) in DIFFERENT.iter().enumerate() {
            let head = format!("{odd} {case} ");
            let of_case: Vec<&String> = said.iter().filter(|line| line.starts_with(&head)).collect();
            let is_told = |line: &&&String| {
                line.contains("the calls differ") && words.iter().all(|word| line.contains(word))
            };
            let told = of_case.iter().filter(is_told).count();
            // Both roots send to all that wait for them: nobody can tell.
            let is_hidden = odd == 0 && case == 2;
            assert!(told > 0 || is_hidden, "{words:?}, rank {odd} is the other: {of_case:?}");
            let is_because = |line: &&String| line.contains("the calls differ") || line.contains("failed");
            assert!(of_case.iter().all(is_because), "{of_case:?}");
        }
    }
}

/// A number that depends on every bit of what reductions of floats give to all ranks.
fn bits_of_reductions(comm: &Comm) -> u64 {
    let (world, me) = (comm.world(), comm.rank().0);
    let mut all = 0u64;
    let mut take = |results: &[f64]| {
        all = results.iter().fold(all, |hash, result| {
            (hash ^ result.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
        });
    };
    for count in [1usize, 60, 9000] {
        let number = |i: usize| (f64::from(me + 1) * (i + 1) as f64).sin() * 10f64.powi((me % 4) as i32 * 4);
        let mine: Vec<f64> = (0..count * comm.size() as usize).map(number).collect();
        let mut result = vec![0.0; count];
        world.allreduce(&mine[..count], &mut result, Reduction::Sum).expect("it ends well");
        take(&result);
        world.reduce_scatter_block(&mine, &mut result, Reduction::Sum).expect("it ends well");
        take(&result);
        world.scan(&mine[..count], &mut result, Reduction::Sum).expect("it ends well");
        take(&result);
    }
    let mut sum = [0u64];
    world.allreduce(&[all], &mut sum, Reduction::BitXor).expect("it ends well");
    sum[0]
}

/// Sums of floats come to the same bits on whichever hosts, and on one, if that is asked for.
#[test]
fn reductions_give_the_same_bits_wherever_ranks_are() {
    if !labs_are_possible() {
        return;
    }
    let bits = |options: &[&str]| {
        let said = fine(&run(role_in_lab(4, options, "bits").env("CASTELL_SAME_BITS", "1")));
        let bits: Vec<String> = said.into_iter().filter(|line| line.starts_with("bits")).collect();
        assert_eq!(bits.len(), 7, "{bits:?}");
        assert!(bits.iter().all(|line| *line == bits[0]), "{bits:?}");
        bits[0].clone()
    };
    let expected = bits(&["--hosts", "h1:7"]);
    for hosts in ["h1:4,h2:3", "h1:1,h2:1,h3:1,h4:4", "h2:3,h4:2,h1:2"] {
        assert_eq!(bits(&["--hosts", hosts]), expected, "{hosts}");
    }
}

/// Castell, a socket and an MPI between the same two hosts.
#[test]
fn a_network_is_measured_beside_peers() {
    if !labs_are_possible() {
        return;
    }
    let words =
        ["bench", "net", "--rounds", "1", "--samples", "2", "--bytes", "8", "--per-host", "1", "--json"];
    let mpi = ["--ops", "barrier,allreduce", "--mpi", "an MPI=mpicc.openmpi:mpirun.openmpi"];
    // In a folder that all hosts see.
    let mut command = in_lab(2, &[&[CASTELL], &words[..], &mpi[..]].concat());
    let output = run(command.current_dir(env!("CARGO_TARGET_TMPDIR")));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    stands_on_the_page("bench net", &rows);
    let measured: Vec<(&str, &str)> = rows
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row["median_ns"].as_f64().is_some_and(|ns| ns > 0.0) && row["params"]["hosts"] == 2)
        .map(|row| (row["workload"].as_str().expect("a name"), row["subject"].as_str().expect("a name")))
        .collect();
    let sockets = ["a bare socket, sleeping", "a bare socket, spinning"];
    let all = [&["castell, tcp"], &sockets[..], &["an MPI"]].concat();
    for (workload, subjects) in
        [("pingpong", &all[..]), ("barrier", &[all[0], all[3]]), ("allreduce", &[all[0], all[3]])]
    {
        for subject in subjects {
            assert!(
                measured.contains(&(workload, *subject)),
                "{workload}: {subject}: {}",
                text(&output.stderr)
            );
        }
    }
    let output = run(Command::new(CASTELL)
        .args(["bench", "net"])
        .env_remove("CASTELL_LAB_HOSTS")
        .stdin(Stdio::null()));
    assert!(text(&output.stderr).contains("castell lab 4 -- castell bench net"), "{}", text(&output.stderr));
}

#[test]
fn ranks_are_dealt_out_unevenly() {
    if !labs_are_possible() {
        return;
    }
    let said = fine(&run(&mut role_in_lab(3, &["--hosts", "h3:3,h1:1,h2:1"], "pairs")));
    let expected = ["h3", "h3", "h3", "h1", "h2"].iter().enumerate();
    assert_eq!(said, expected.map(|(rank, host)| format!("rank {rank} of 5 on {host}")).collect::<Vec<_>>());
    let said = fine(&run(&mut role_in_lab(2, &["-n", "3", "--net", "tcp=eth0"], "pairs")));
    assert_eq!(said.len(), 3, "also at one interface");
}

/// What is said between hosts can be read on the network, unless it is encrypted.
#[test]
fn who_listens_on_the_network_hears_nothing_of_what_is_encrypted() {
    if !labs_are_possible() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    // What rank 0 sends rank 1.
    let said = [1; 64];
    for (net, is_heard) in [("tcp", true), ("tcp+tls", false), ("tcp+tls=eth0", false)] {
        let capture = folder.path().join("frames.pcap");
        let mut lab = Command::new(CASTELL);
        lab.args(["lab", "2", "--capture"]).arg(&capture).arg("--").env(ROLE, "pairs").stdin(Stdio::null());
        lab.args([CASTELL, "launch", "--timeout", "200s", "-n", "2", "--net", net, "--"]);
        lab.args(labs::myself());
        assert_eq!(fine(&run(&mut lab)).len(), 2, "{net}");
        let frames = std::fs::read(&capture).expect("a capture");
        let heard = frames.windows(said.len()).any(|window| window == said);
        assert_eq!(heard, is_heard, "--net {net}: {} bytes were sent", frames.len());
    }
    fine(&run(&mut role_in_lab(3, &["-n", "6", "--net", "tcp+tls"], "oracle")));
    fine(&run(&mut role_here(&["-n", "3", "--net", "tcp+tls"], "oracle")));
    let output = run(&mut role_in_lab(2, &["-n", "2", "--net", "tcp=ib7"], "pairs"));
    let error = text(&output.stderr);
    let is_told = error.contains("no network interface `ib7`") && error.contains("eth0 (10.202.0.");
    assert!(!output.status.success() && is_told, "{error}");
}

#[test]
fn core_files_have_no_secret() {
    // There may be launchers of others, too.
    let none_in = |said: &[String], processes: &[usize]| {
        let found = said
            .iter()
            .filter_map(|line| line.strip_prefix("copies of the secret in what core files have: "));
        let mut found: Vec<Vec<usize>> =
            found.map(|counts| serde_json::from_str(counts).expect("numbers")).collect();
        found.sort_by_key(Vec::len);
        let are_enough = found.iter().zip(processes).all(|(found, count)| found.len() >= *count);
        let is_none = found.iter().flatten().all(|copies| *copies == 0);
        assert!(found.len() == processes.len() && are_enough && is_none, "{said:?}");
    };
    for net in ["tcp", "tcp+tls", "fabric=tcp;ofi_rxm"] {
        // Each rank, and the launcher.
        none_in(&fine(&run(&mut role_here(&["-n", "3", "--net", net], "secret"))), &[2; 3]);
    }
    if labs_are_possible() {
        // On one host the launcher and an agent, on the other an agent.
        none_in(&fine(&run(&mut role_in_lab(2, &["-n", "2", "--net", "tcp+tls"], "secret"))), &[2, 3]);
    }
}

/// Collective calls by all algorithms, compared byte by byte; also where the segment loses frames.
#[test]
fn raw_frames_carry_messages_between_hosts() {
    if !labs_are_possible() {
        return;
    }
    let esp = ["--net", "esp=eth0"];
    let said = fine(&run(&mut role_in_lab(2, &[&["-n", "4"], &esp[..]].concat(), "oracle")));
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank} of 4 on h{}", rank / 2 + 1)).collect();
    assert_eq!(said, expected);
    let said = fine(&run(&mut role_in_lab(3, &[&["-n", "6"], &esp[..]].concat(), "pairs")));
    assert_eq!(said.len(), 6);
    let mut lossy = Command::new(CASTELL);
    lossy
        .args(["lab", "2", "--loss", "3%", "--seed", "7", "--"])
        .stdin(Stdio::null())
        .env("CASTELL", CASTELL);
    lossy.args([CASTELL, "launch", "--timeout", "200s", "-n", "2", "--net", "esp=eth0", "--"]);
    lossy.args(labs::myself()).env(ROLE, "pairs");
    assert_eq!(fine(&run(&mut lossy)).len(), 2);
}

/// Frames as long as the segment has them, also where some get lost; the card sees as many fewer.
#[test]
fn raw_frames_may_be_jumbo_frames() {
    if !labs_are_possible() {
        return;
    }
    let frames = |lab: &[&str]| {
        let mut command = Command::new(CASTELL);
        command.args(["lab", "2"]).args(lab).args(["--", "sh", "-c"]).stdin(Stdio::null());
        let sent = "awk '/eth0/ { print $11 }' /proc/net/dev";
        let me = labs::myself().join(" ");
        let script = format!(
            "{CASTELL} launch -n 2 --timeout 200s --net esp=eth0 -- {me} && echo \"* frames $({sent})\""
        );
        let said = fine(&run(command.arg(script).env(ROLE, "pairs").env("CASTELL", CASTELL)));
        let frames = said.iter().find_map(|line| line.strip_prefix("frames ")?.parse::<u64>().ok());
        frames.unwrap_or_else(|| panic!("{said:?}"))
    };
    let (usual, jumbo) = (frames(&[]), frames(&["--mtu", "9000"]));
    assert!(2 * jumbo < usual, "{jumbo} frames of 9000 bytes, {usual} of 1500");
    frames(&["--mtu", "9000", "--loss", "2%", "--seed", "5"]);
}

/// The agents open what ranks need that may not do it themselves.
#[test]
fn ranks_without_the_right_to_it_send_raw_frames() {
    if !labs_are_possible() {
        return;
    }
    let launch = |without: &[&str], more: &[&str]| {
        let options = ["launch", "-n", "4", "--net", "esp=eth0", "--"];
        let mut command = labs::on_first(2, &[&[CASTELL], &options[..]].concat());
        command.arg("setpriv").args(without).args(more).args(labs::myself()).env(ROLE, "pairs");
        run(&mut command)
    };
    let without = ["--bounding-set=-net_raw"];
    assert_eq!(fine(&launch(&without, &[])).len(), 4);
    let refused = launch(&without, &["env", "-u", "CASTELL_ESP_FD"]);
    assert!(
        text(&refused.stderr).contains("castell may not send raw frames at `eth0`"),
        "{}",
        text(&refused.stderr)
    );
}

/// Collective calls by all algorithms, compared byte by byte, and large messages between all pairs: on hosts of a lab, and between all ranks of this
/// one, by providers that have more and that have less.
#[test]
fn libfabric_carries_messages() {
    for provider in ["fabric", "fabric=udp;ofi_rxd", "fabric=shm"] {
        let output = run(&mut role_here(&["-n", "3", "--net", provider], "pairs"));
        assert_eq!(fine(&output).len(), 3, "{provider}: {}", text(&output.stderr));
    }
    let output = run(&mut role_here(&["-n", "3", "--net", "fabric=tcp;ofi_rxm"], "oracle"));
    assert_eq!(fine(&output).len(), 3, "{}", text(&output.stderr));
    if !labs_are_possible() {
        return;
    }
    let said = fine(&run(&mut role_in_lab(2, &["-n", "4", "--net", "fabric"], "oracle")));
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank} of 4 on h{}", rank / 2 + 1)).collect();
    assert_eq!(said, expected);
    for provider in ["fabric", "fabric=udp;ofi_rxd/eth0"] {
        let said = fine(&run(&mut role_in_lab(3, &["-n", "6", "--net", provider], "pairs")));
        assert_eq!(said.len(), 6, "{provider}");
    }
}

#[test]
fn fabrics_that_cannot_be_had_are_told_of() {
    let error = |net: &str, library: &str| {
        let output = run(role_here(&["-n", "2", "--net", net], "pairs").env("CASTELL_LIBFABRIC", library));
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let said = error("fabric=nosuch", "");
    assert!(said.contains("no provider here that fits nosuch") && said.contains("tcp;ofi_rxm/lo"), "{said}");
    let said = error("fabric", "/nowhere/libfabric.so.1");
    assert!(said.contains("/nowhere/libfabric.so.1") && said.contains("apt install libfabric1"), "{said}");
    if labs_are_possible() {
        // It is for one host.
        let output = run(&mut role_in_lab(2, &["-n", "2", "--net", "fabric=shm"], "pairs"));
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains("no provider here that fits shm"), "{said}");
    }
}

#[test]
fn raw_frames_that_cannot_be_had_are_told_of() {
    let refused = |command: &mut Command, code: i32| {
        let output = run(command);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let launch = |words: &[&str]| {
        let mut command = Command::new(CASTELL);
        command.arg("launch").args(words).args(["--", "true"]).stdin(Stdio::null());
        command
    };
    let error = refused(&mut launch(&["-n", "2", "--net", "esp="]), 2);
    assert!(error.contains("no name of a network interface"), "{error}");
    for net in ["esp", "esp=eth0"] {
        let error = refused(&mut launch(&["-n", "2", "--net", net]), 1);
        assert!(error.contains("all ranks are on this one"), "{error}");
    }
    if labs_are_possible() {
        let output = run(&mut role_in_lab(2, &["-n", "2", "--net", "esp=nosuch0"], "pairs"));
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains("no network interface `nosuch0`"), "{error}");
    }
}

#[test]
fn output_codes_variables_and_input() {
    let script =
        "read line; echo \"* $CASTELL_RANK $CASTELL_TEST_HOST $GREETING $line\"; exit $((CASTELL_RANK * 3))";
    let options = ["--env", "GREETING=hello", "--prefix"];
    let mut command = on_names("a:1,b:1", &options, &["sh", "-c", script]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("castell runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"input\n").expect("it reads");
    let output = child.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(starred(&output.stdout), ["0 a hello input", "1 b hello "]);
    assert!(
        text(&output.stdout).lines().any(|line| line.starts_with("[1] * 1 b")),
        "{}",
        text(&output.stdout)
    );
    assert!(text(&output.stderr).contains("rank 1 (process"), "{}", text(&output.stderr));
}

#[test]
fn refusals_say_what_to_do() {
    let said = |command: &mut Command, code: i32| {
        let output = run(command);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let launch = |words: &[&str]| {
        let mut command = Command::new(CASTELL);
        command.arg("launch").args(words).stdin(Stdio::null());
        command
    };
    let error = said(&mut on_names("a:1,b:1", &[], &["no-such-program"]), 127);
    assert!(
        error.contains("host a: `no-such-program` was not found") || error.contains("host b: `no-such"),
        "{error}"
    );
    let error =
        said(&mut launch(&["--hosts", "a:1,b:1", "--remote", "env", "--castell", "/nowhere", "true"]), 1);
    assert!(error.contains("there is no `/nowhere` on it"), "{error}");
    let error = said(&mut launch(&["--hosts", "a:1,b:1", "--remote", "/no/such/remote", "true"]), 1);
    assert!(
        error.contains("`/no/such/remote`") && error.contains("--remote names another command"),
        "{error}"
    );
    let unreachable = "sh -c exit${IFS}255 {host}";
    let error = said(&mut launch(&["--hosts", "a:1,b:1", "--remote", unreachable, "true"]), 1);
    assert!(error.contains("has to work without a password"), "{error}");
    assert!(
        said(&mut launch(&["-n", "9", "--hosts", "a:1,b:1", "true"]), 1).contains("don't fit on a:1,b:1")
    );
    assert!(said(&mut launch(&["--hosts", "a,b", "true"]), 1).contains("-n"));
    assert!(said(&mut launch(&["--hosts", "a;b", "-n", "1", "true"]), 1).contains("`a;b` is no host"));
    assert!(said(&mut launch(&["--hostfile", "/no/file", "-n", "1", "true"]), 1).contains("/no/file"));
    said(&mut launch(&["true"]), 2);
}

/// The description on its way to an agent says another version.
#[test]
fn another_version_is_refused_with_both_named() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let remote = folder.path().join("remote");
    let script = "#!/bin/sh\nshift\n{ read line; echo 'castell agent 7 of 9.8.7'; cat; } | \"$@\"\n";
    std::fs::write(&remote, script).expect("a file");
    let mut command = Command::new(CASTELL);
    let remote = format!("sh {} {{host}}", remote.display());
    let output =
        run(command.args(["launch", "--hosts", "a:1,b:1", "--remote", &remote, "true"]).stdin(Stdio::null()));
    let said = text(&output.stderr);
    let ours = format!("here is castell {}", env!("CARGO_PKG_VERSION"));
    assert!(said.contains(&ours) && said.contains("launched castell 9.8.7 (protocol 7)"), "{said}");
    assert!(said.contains("its castell refuses"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    let stranger = run(Command::new(CASTELL).arg("agent").stdin(Stdio::null()));
    assert!(text(&stranger.stderr).contains("castell launch --hosts"), "{}", text(&stranger.stderr));
}

#[test]
fn signals_reach_all_hosts() {
    let mut command = on_names(
        "a:1,b:2",
        &[],
        &["sh", "-c", "trap 'exit 9' TERM; echo \"* there\"; while :; do sleep 0.05; done"],
    );
    let mut child = command.stdout(Stdio::piped()).spawn().expect("castell runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for _ in 0..3 {
        assert_eq!(lines.next().expect("a line").expect("text"), "* there");
    }
    let launcher = castell_host::process::Pid::from_raw(child.id() as i32).expect("a number");
    castell_host::process::Process::open(launcher)
        .expect("it lives")
        .signal(libc::SIGTERM)
        .expect("it gets it");
    assert_eq!(child.wait().expect("its end").code(), Some(9));
}

/// Rank 0 harms h2; the ranks elsewhere hear which ranks are lost, and go on among themselves.
fn survive(comm: &Comm, fault: &str) {
    let world = comm.world();
    world.barrier().expect("all are there");
    let is_lost = host_name() == "h2";
    let here = world.split(Some(u32::from(is_lost)), 0).expect("it is made").expect("it has a colour");
    world.barrier().expect("all are there");
    if comm.rank() == Rank(0) {
        let mut harm = Command::new(std::env::var("CASTELL").expect("the test sets it"));
        harm.args(["lab", "--on", "h2", "--", "sh", "-c", fault]).stdin(Stdio::null());
        assert!(harm.status().expect("castell runs").success(), "{fault}");
    }
    let since = Instant::now();
    if is_lost {
        std::thread::sleep(Duration::from_secs(600));
    }
    let mut byte = [0u8];
    let failure = comm.scope(|scope| {
        let mut graph = scope.graph();
        graph.recv(scope.lend(&mut byte), Some(Rank(2)), Some(Tag(1))).expect("legal");
        let run = scope.run(&graph.compile().expect("it compiles")).expect("it starts");
        run.wait().expect_err("rank 2 is lost")
    });
    let after = since.elapsed();
    let mut sum = [0u64];
    here.allreduce(&[1u64], &mut sum, Reduction::Sum).expect("it goes on");
    assert_eq!(sum[0], 3, "those of h1 and h3");
    println!("* {failure}");
    eprintln!("after {after:?}");
}

#[track_caller]
fn a_host_vanishes(net: &str, fault: &str, expected: &str) {
    if !labs_are_possible() {
        return;
    }
    let options = ["--hosts", "h1:2,h2:1,h3:1", "--grace", "60s", "--net", net];
    let output = run(&mut role_in_lab(3, &options, fault));
    let (out, err) = (starred(&output.stdout), text(&output.stderr));
    println!("{fault}: {err}");
    let named = out.iter().filter(|line| line.contains("rank 2") && line.contains("recv")).count();
    assert_eq!(named, 3, "{out:?}\n{err}");
    assert!(err.contains(expected), "{err}");
    assert_eq!(output.status.code(), Some(137), "{err}");
}

#[test]
fn a_host_whose_line_is_cut_is_named() {
    a_host_vanishes("shm", "ip link set eth0 down", "host h2 is gone");
}

#[test]
fn a_host_that_is_killed_is_named() {
    a_host_vanishes("shm", "kill -KILL -1", "host h2 is gone");
    a_host_vanishes("esp=eth0", "kill -KILL -1", "host h2 is gone");
    a_host_vanishes("fabric", "kill -KILL -1", "host h2 is gone");
}

#[test]
fn a_host_that_is_stopped_is_named() {
    a_host_vanishes("shm", "kill -STOP -1", "host h2 is gone");
}
