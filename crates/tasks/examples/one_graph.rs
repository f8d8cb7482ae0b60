//! A graph that is run, recorded, and told from then on: a Cholesky factorisation with real arithmetic.
//!
//! `cargo run --release -p castell-tasks --example one_graph -- FOLDER`: factorises on one and on two workers, medians of turns,
//! then once more on one worker for the record, which becomes FOLDER/ORDER-TILE.goal. What `castell` makes of that is in
//! experiments/one-graph.

use castell_tasks::workloads::{Prepared, Workload};
use castell_tasks::{Runtime, TaskError};
use std::path::PathBuf;
use std::time::Instant;

const SIZES: [(u64, u64); 4] = [(512, 128), (2048, 256), (2048, 128), (2048, 64)];
const TURNS: usize = 7;

/// One factorisation, in milliseconds, by a runtime that is there already.
fn factorise(runtime: &Runtime, matrix: &mut Prepared) -> Result<f64, Box<dyn std::error::Error>> {
    matrix.reset();
    let begun = Instant::now();
    runtime.run(|context| matrix.run(context))??;
    let time = begun.elapsed().as_secs_f64() * 1e3;
    matrix.check()?;
    Ok(time)
}

fn runtime(workers: usize, record: bool) -> Result<Runtime, TaskError> {
    Runtime::builder().workers(workers).record(record).build()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: one_graph FOLDER")?);
    println!("order,tile,tasks,one_worker_ms,two_workers_ms,recorded_ms");
    for (order, tile) in SIZES {
        let workload = Workload::Potrf { order, tile };
        let mut matrix = workload.prepare()?;
        let mut times = [Vec::new(), Vec::new()];
        let runtimes = [runtime(1, false)?, runtime(2, false)?];
        for turn in 0..=TURNS {
            for (runtime, times) in runtimes.iter().zip(&mut times) {
                let time = factorise(runtime, &mut matrix)?;
                times.extend((turn > 0).then_some(time)); // the first warms up
            }
        }
        let [one, two] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[TURNS / 2]
        });
        let recorder = runtime(1, true)?;
        let recorded = factorise(&recorder, &mut matrix)?;
        let recording = recorder.recording().ok_or("it was not recorded")?;
        recording.write_goal(&mut std::fs::File::create(folder.join(format!("{order}-{tile}.goal")))?)?;
        println!("{order},{tile},{},{one:.3},{two:.3},{recorded:.3}", workload.tasks());
    }
    Ok(())
}
