//! How `castell launch` reaches hosts: over which of their networks.
//!
//! Ranks are this program once more: `as_a_rank` does what its role says.

mod labs;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_comm::Comm;
use labs::{CASTELL, ROLE, host_name, said, text};
use std::net::Ipv4Addr;
use std::process::Output;

#[test]
fn as_a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let comm = Comm::init().unwrap_or_else(|error| panic!("{error}"));
    let (world, me, size) = (comm.world(), comm.rank(), comm.size());
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
