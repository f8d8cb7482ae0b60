//! How `castell launch` reaches hosts: by ssh, over which of their networks, and with how many connections.
//!
//! Ranks are this program once more: `as_a_rank` does what its role says.

mod labs;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_comm::Comm;
use labs::{CASTELL, ROLE, host_name, said, text};
use skipped::skip;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[test]
fn as_a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let comm = Comm::init().unwrap_or_else(|error| panic!("{error}"));
    let (world, me, size) = (comm.world(), comm.rank(), comm.size());
    if role == "barrier" {
        world.barrier().expect("it ends well");
        return println!("\n* rank {me}");
    }
    let mut all = vec![0u32; size as usize];
    world.allgather(&[me.0], &mut all).expect("it ends well");
    assert!(all.iter().copied().eq(0..size), "{all:?}");
    if role == "at eth1" {
        let ends = ends_of_connections();
        assert!(!ends.is_empty() && ends.iter().all(|ip| ip.octets()[..2] == [10, 9]), "{ends:?}");
    }
    // Nobody goes before all have looked.
    world.barrier().expect("all are there");
    println!("\n* rank {me} of {size} on {}", host_name());
    comm.finalize();
}

/// Where the TCP connections of this host end, here and there.
fn ends_of_connections() -> Vec<Ipv4Addr> {
    const ESTABLISHED: &str = "01";
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table");
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ends =
        rows.filter(|row| row[3] == ESTABLISHED).flat_map(|row| [row[1].to_owned(), row[2].to_owned()]);
    let ip =
        |end: String| Ipv4Addr::from(u32::from_str_radix(&end[..8], 16).expect("a number").to_le_bytes());
    ends.map(ip).collect()
}

/// Two networks between the hosts: everything goes over the one that was chosen, by name or by address.
#[test]
fn tcp_stays_at_the_interface_that_was_chosen() {
    if !labs::are_possible() {
        return;
    }
    const SECOND: &str = "for h in 1 2; do \"$CASTELL\" lab --on h$h -- sh -c \"ip link add link eth0 name eth1 type macvlan mode bridge && \
        ip address add 10.9.0.$h/24 dev eth1 && ip link set eth1 up\" || exit 9; done; exec \"$@\"";
    let launch = |net: &str| -> Output {
        let words =
            ["sh", "-c", SECOND, "sh", CASTELL, "launch", "--timeout", "200s", "-n", "4", "--net", net, "--"];
        let mut command = labs::on_first(2, &words);
        command.args(labs::myself()).env(ROLE, "at eth1").output().expect("castell runs")
    };
    for net in ["tcp=eth1", "tcp+tls=10.9.0.0/16"] {
        assert_eq!(said(&launch(net)).len(), 4, "{net}");
    }
    let output = launch("tcp=nosuch0");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let listed = "--net tcp=nosuch0: this host has no network interface `nosuch0` that is up and has an address; it has eth0 (10.202.0.";
    assert!(error.contains(listed) && error.contains("eth1 (10.9.0."), "{error}");
    assert!(error.contains("its castell refuses"), "{error}");
}

/// All ranks connect to rank 0, which has fewer files than that.
#[test]
fn limits_of_open_files_are_raised_or_named() {
    let launch = |limit: &str, timeout: &str| {
        let script = format!("ulimit {limit} 60; exec \"$@\"");
        let mut command = Command::new(CASTELL);
        command.args([
            "launch",
            "-n",
            "80",
            "--net",
            "tcp",
            "--timeout",
            timeout,
            "--",
            "sh",
            "-c",
            &script,
            "sh",
        ]);
        command.args(labs::myself()).env(ROLE, "gather").stdin(Stdio::null()).output().expect("castell runs")
    };
    let output = launch("-Sn", "200s");
    assert_eq!(said(&output).len(), 80, "{}", text(&output.stderr));
    let error = text(&launch("-n", "10s").stderr);
    let told = "rank 0: this process may have 60 files open, and its connections need more: raise the hard limit (`ulimit -Hn`";
    assert_eq!(error.matches(told).count(), 1, "{error}");
}

/// An sshd on each of two hosts, in a folder that both see, and an `ssh` in front of the path that knows its port and keys; then the script.
const WITH_SSH: &str = r#"
set -e
cd "$1"
export PATH="$1/bin:$PATH:/usr/sbin:/sbin"
mkdir -p /run/sshd bin
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f user
echo "h1,h2 $(cat host.pub)" > known
printf '%s\n' "Port 2222" "HostKey $1/host" "AuthorizedKeysFile $1/user.pub" "StrictModes no" "UsePAM no" "PidFile none" "PermitRootLogin yes" > sshd
printf '#!/bin/sh\nexec %s -F none -p 2222 -i %s/user -o UserKnownHostsFile=%s/known -o IdentitiesOnly=yes "$@"\n' "$(command -v ssh)" "$1" "$1" > bin/ssh
chmod 755 bin/ssh
for h in h1 h2; do "$CASTELL" lab --on $h -- "$(command -v sshd)" -D -e -f "$1/sshd" 2> sshd.$h & done
for h in h1 h2; do
    tries=0
    until ssh -o BatchMode=yes $h true 2> tried; do
        tries=$((tries + 1)); [ $tries -lt 100 ] || { cat tried sshd.$h >&2; exit 9; }; sleep 0.1
    done
done
unset CASTELL_LAB_HOSTS
cd "$OLDPWD"
set +e
shift
eval "$1"
"#;

/// Runs a script in which `ssh` works between h1 and h2; `None`: there is no sshd here, or no lab.
fn with_ssh(folder: &Path, script: &str) -> Option<Output> {
    if !labs::are_possible() {
        return None;
    }
    if ["/usr/sbin/sshd", "/usr/bin/ssh"].iter().any(|program| !Path::new(program).exists()) {
        skip("sshd", "not installed");
        return None;
    }
    // The keys are nobody else's.
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).expect("a folder");
    let path = folder.to_str().expect("a path");
    let mut command =
        labs::on_first(2, &["timeout", "-k", "2", "150", "sh", "-c", WITH_SSH, "sh", path, script]);
    Some(command.output().expect("castell runs"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

#[test]
fn ssh_starts_ranks_on_hosts() {
    let (folder, me) = (folder(), labs::myself().join(" "));
    let script = format!("{CASTELL} launch --hosts h1:2,h2:2 --env {ROLE}=gather -- {me}");
    let Some(output) = with_ssh(folder.path(), &script) else { return };
    let expected: Vec<String> = (0..4).map(|rank| format!("rank {rank} of 4 on h{}", rank / 2 + 1)).collect();
    assert_eq!(said(&output), expected, "{}", text(&output.stderr));
}

#[test]
fn what_ssh_does_not_reach_is_explained() {
    let folder = folder();
    // For the last, nothing goes from h1 to h2 but to its sshd, so that nobody gets an answer who connects from there.
    let script = format!(
        "{CASTELL} launch --hosts h1:1,h9:1 -- true; echo \"* $?\"; \
         {CASTELL} launch --hosts h1:1,h2:1 --castell /nowhere/castell -- true; echo \"* $?\"; \
         ip rule add pref 10 dport 2222 lookup main; ip rule add pref 11 to 10.202.0.2 unreachable; \
         ip -6 rule add pref 11 to fd00:ca57::2 unreachable; \
         {CASTELL} launch --hosts h1:1,h2:1 -- true; echo \"* $?\""
    );
    let Some(output) = with_ssh(folder.path(), &script) else { return };
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(out.lines().filter(|line| line.starts_with("* ")).collect::<Vec<_>>(), ["* 1"; 3], "{error}");
    let said = |parts: &[&str]| {
        parts.iter().for_each(|part| assert!(error.contains(part), "no `{part}` in {error}"))
    };
    said(&["host h9: `ssh` could not reach it or log in", "`ssh HOST true` has to work without a password"]);
    said(&["there is no `/nowhere/castell` on it: install castell"]);
    said(&[
        "h2: the launcher of the job cannot be reached (",
        "host h2: its castell does not reach this host",
    ]);
}
