//! `castell bench pingpong`: half a round trip, through one schedule of 100 ping-pongs with a time stamp at each end.

use super::group::{Group, place_of, repeat};
use super::{Params, Subject, Workload};
use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::job::JobOptions;
use castell_comm::queue::QueueKind;
use castell_goal::graph::Graph;
use castell_goal::op::Place;
use std::ptr;

const ROUND_TRIPS: u32 = 100;

/// The workload (ESPGOAL, section 6.3).
pub struct PingPong;

impl Workload for PingPong {
    fn name(&self) -> &'static str {
        "pingpong"
    }

    fn cases(&self, bytes: Option<&[u64]>) -> Vec<Params> {
        let bytes = bytes.unwrap_or(&[8, 64, 1024, 4096, 65_536, 1 << 20]);
        bytes.iter().map(|bytes| Params::new().with("bytes", *bytes)).collect()
    }

    fn samples(&self) -> u32 {
        100
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        let queue_only = JobOptions { queue: QueueKind::Scmp, lanes: false, ..JobOptions::new(2) };
        let by_queue: Box<dyn Subject> =
            Box::new(Group { name: "castell, no lanes".into(), options: queue_only, measure });
        Ok(vec![Group::castell(2, measure), by_queue])
    }

    fn peer_ranks(&self) -> Option<u32> {
        Some(2)
    }
}

fn measure(comm: &Comm, case: &Params, samples: u32) -> anyhow::Result<Option<Vec<f64>>> {
    let Some(bytes) = case.number("bytes") else { return Ok(None) };
    let mut payload = vec![1_u8; bytes as usize];
    let mut stamps = [0.0_f64; 2];
    let graph = ping_pong(comm.rank(), Place::user(payload.as_mut_ptr() as u64), bytes, &mut stamps)?;
    let mut taken = Vec::with_capacity(samples as usize);
    let stamps = &raw const stamps;
    repeat(comm, &graph, samples + samples / 10, || {
        // SAFETY: the run that wrote the stamps has ended.
        let [start, end] = unsafe { ptr::read_volatile(stamps) };
        taken.push(1e9 * (end - start) / f64::from(2 * ROUND_TRIPS));
    })?;
    Ok(Some(taken.split_off((samples / 10) as usize)))
}

/// One rank's part: a time stamp, the ping-pongs one after the other, a time stamp.
fn ping_pong(me: Rank, payload: Place, bytes: u64, stamps: &mut [f64; 2]) -> anyhow::Result<Graph> {
    let mut graph = Graph::new();
    let peer = Rank(1 - me.0);
    let [first, second] = stamps;
    let mut last = graph.wtime(place_of(first))?;
    for _ in 0..ROUND_TRIPS {
        let send = graph.send(payload, bytes, peer, Tag(0))?;
        let recv = graph.recv(payload, bytes, Some(peer), Some(Tag(0)))?;
        let (one, other) = if me == Rank(0) { (send, recv) } else { (recv, send) };
        graph.requires(last, one)?;
        graph.requires(one, other)?;
        last = other;
    }
    let end = graph.wtime(place_of(second))?;
    graph.requires(last, end)?;
    Ok(graph)
}
