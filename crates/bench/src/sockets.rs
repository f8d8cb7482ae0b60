//! `castell bench sockets`: half a round trip over a bare TCP socket between two ranks, sleeping in the kernel or spinning: what a
//! message over TCP costs before any library does something.

use crate::group::{Group, Measure};
use crate::measure::ROUND_TRIPS;
use crate::report::Params;
use crate::workload::{Subject, Workload};
use anyhow::bail;
use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::job::JobOptions;
use castell_host::clock::now_ns;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The workload.
pub struct Sockets;

/// How long an address is tried.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

const WAYS: [&str; 2] = ["sleeping", "spinning"];

impl Workload for Sockets {
    fn name(&self) -> &'static str {
        "sockets"
    }

    fn cases(&self, bytes: Option<&[u64]>) -> Vec<Params> {
        let sizes = bytes.unwrap_or(&[8, 65_536, 1 << 20]);
        let of = |&bytes: &u64| WAYS.map(|way| Params::new().with("bytes", bytes).with("way", way));
        sizes.iter().flat_map(of).collect()
    }

    fn samples(&self) -> u32 {
        100
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        let name = "a TCP socket of this host".into();
        Ok(vec![Box::new(Group { name, options: JobOptions::new(2), measure })])
    }

    fn in_job(&self) -> Option<(u32, Measure)> {
        Some((2, measure))
    }

    fn peer_ranks(&self) -> Option<u32> {
        None
    }
}

fn measure(comm: &Comm, case: &Params, samples: u32) -> anyhow::Result<Option<Vec<f64>>> {
    let (Some(bytes), Some(way)) = (case.number("bytes"), case.word("way")) else { return Ok(None) };
    let mut stream = connected(comm)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(way == "spinning")?;
    let mut buffer = vec![1; bytes as usize];
    let mut taken = Vec::new();
    for sample in 0..samples + samples / 10 + 1 {
        let start = now_ns();
        for _ in 0..ROUND_TRIPS {
            if comm.rank() == Rank(0) {
                send(&mut stream, &buffer)?;
                receive(&mut stream, &mut buffer)?;
            } else {
                receive(&mut stream, &mut buffer)?;
                send(&mut stream, &buffer)?;
            }
        }
        if sample > samples / 10 {
            taken.push((now_ns() - start) as f64 / f64::from(2 * ROUND_TRIPS));
        }
    }
    Ok(Some(taken))
}

/// So many of a host's addresses are tried.
const ADDRESSES: usize = 4;

/// A connection between ranks 0 and 1; the second one says where it is found, the first one connects.
fn connected(comm: &Comm) -> anyhow::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let theirs = exchange(comm, own_addresses(listener.local_addr()?.port()))?;
    if comm.rank() == Rank(1) {
        return Ok(listener.accept()?.0);
    }
    let mut last = anyhow::anyhow!("rank 1 has no IPv4 address");
    for word in theirs.into_iter().filter(|word| *word > 0) {
        let address = SocketAddr::from((Ipv4Addr::from_bits((word >> 16) as u32), word as u16));
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = anyhow::anyhow!("rank 1 at {address}: {error}"),
        }
    }
    Err(last)
}

/// This host's, each an address and the port behind it; 0: no more.
fn own_addresses(port: u16) -> [u64; ADDRESSES] {
    let mut own = [0; ADDRESSES];
    let found = castell_host::interfaces::addresses();
    let found = found.into_iter().filter_map(|one| match one.ip {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    for (own, address) in own.iter_mut().zip(found) {
        *own = u64::from(address.to_bits()) << 16 | u64::from(port);
    }
    own
}

/// Gives the other of ranks 0 and 1 what this one has, and gets what that one has.
fn exchange(comm: &Comm, mine: [u64; ADDRESSES]) -> anyhow::Result<[u64; ADDRESSES]> {
    let other = Rank(1 - comm.rank().0);
    let mut theirs = [0; ADDRESSES];
    let wrong = |error: &dyn std::fmt::Display| anyhow::anyhow!("the ranks' addresses: {error}");
    comm.scope(|scope| {
        let mut graph = scope.graph();
        let (from, into) = (scope.share(&mine[..]), scope.lend(&mut theirs[..]));
        graph.send(from, other, Tag(0)).map_err(|error| wrong(&error))?;
        graph.recv(into, Some(other), Some(Tag(0))).map_err(|error| wrong(&error))?;
        let schedule = graph.compile().map_err(|error| wrong(&error))?;
        let run = scope.run(&schedule).map_err(|error| wrong(&error))?;
        run.wait().map_err(|error| wrong(&error))
    })?;
    Ok(theirs)
}

fn send(stream: &mut TcpStream, mut bytes: &[u8]) -> anyhow::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn receive(stream: &mut TcpStream, mut bytes: &mut [u8]) -> anyhow::Result<()> {
    while !bytes.is_empty() {
        match stream.read(bytes) {
            Ok(0) => bail!("the other side has closed the connection"),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
