//! `castell bench startup`: what it costs to begin: the library, and a schedule with a single operation.

use super::group::{Group, place_of};
use super::{Params, Subject, Workload};
use anyhow::Context;
use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::Job;
use castell_comm::job::JobOptions;
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, ElementType, Operator};
use castell_host::clock::now_ns;
use std::sync::Arc;

/// A sample is the mean over this many.
const BATCH: u32 = 100;

/// The workload.
pub struct StartUp;

impl Workload for StartUp {
    fn name(&self) -> &'static str {
        "startup"
    }

    fn cases(&self, _bytes: Option<&[u64]>) -> Vec<Params> {
        ["operation", "message", "init"].map(|what| Params::new().with("what", what)).into()
    }

    fn samples(&self) -> u32 {
        100
    }

    fn subjects(&self) -> anyhow::Result<Vec<Box<dyn Subject>>> {
        Ok(vec![Group::castell(1, measure)])
    }

    fn peer_ranks(&self) -> Option<u32> {
        Some(1)
    }
}

fn measure(comm: &Comm, case: &Params, samples: u32) -> anyhow::Result<Option<Vec<f64>>> {
    match case.word("what") {
        Some("init") => join_and_leave(samples).map(Some),
        Some("operation") => {
            let (mut one, mut sum) = (1.0_f64, 0.0_f64);
            let add = Arithmetic::new(Operator::Add, ElementType::F64)?;
            let mut graph = Graph::new();
            let (one, sum) = (place_of(&mut one), place_of(&mut sum));
            graph.local(one, sum, sum, add, 1)?;
            run_and_wait(comm, &graph, samples).map(Some)
        }
        Some("message") => {
            let (mut from, mut to) = (1.0_f64, 0.0_f64);
            let mut graph = Graph::new();
            graph.recv(place_of(&mut to), 8, Some(Rank(0)), Some(Tag(0)))?;
            graph.send(place_of(&mut from), 8, Rank(0), Tag(0))?;
            run_and_wait(comm, &graph, samples).map(Some)
        }
        _ => Ok(None),
    }
}

/// Nanoseconds from `run` to the end of `wait`.
fn run_and_wait(comm: &Comm, graph: &Graph, samples: u32) -> anyhow::Result<Vec<f64>> {
    let schedule = Arc::new(graph.compile()?);
    let batch = || -> anyhow::Result<f64> {
        let start = now_ns();
        for _ in 0..BATCH {
            // SAFETY: the caller keeps the buffers until this returns; every run is waited for.
            unsafe { comm.run(&schedule) }?.wait()?;
        }
        Ok((now_ns() - start) as f64 / f64::from(BATCH))
    };
    for _ in 0..=samples / 10 {
        batch()?;
    }
    (0..samples).map(|_| batch()).collect()
}

/// Nanoseconds to make a group of one, join it and leave it.
fn join_and_leave(samples: u32) -> anyhow::Result<Vec<f64>> {
    let once = |_| -> anyhow::Result<f64> {
        let start = now_ns();
        let comm = Comm::join(Job::create(&JobOptions::new(1)).context("a job of one")?, Rank(0));
        comm.finalize();
        Ok((now_ns() - start) as f64)
    };
    (0..samples).map(once).collect()
}
