//! The figures of Weidendorfer and Breitbart, "Detailed Characterization of HPC Applications for Co-Scheduling" (COSH 2016), on the simulated
//! chip: `cargo run --release -p castell-cachesim --example cosh_3 -- FOLDER` writes a CSV file a figure.
//!
//! The chip is one of theirs with its caches divided by four, and grids have half of their sides, so that all that is compared with a
//! cache keeps its ratio. Histograms are of the full grids.

use castell_cachesim::machine::{Chip, Placed, Shape, alone, slowdowns};
use castell_cachesim::programs::{Program, probe::probe, solver};
use std::fmt::Write as _;
use std::path::Path;

/// Caches are divided by this.
const SCALE: usize = 4;
/// Requests that a core has under way.
const WINDOW: usize = 10;

fn cg(side: usize, threads: usize) -> Program {
    solver::conjugate_gradients(side, threads, WINDOW)
}

fn search(threads: usize) -> Program {
    let chip = Chip::xeon_e5_2670(SCALE, 1);
    solver::sequence_search(chip.llc.blocks() * 2, chip.l2.blocks(), threads)
}

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("a folder");
    let folder = Path::new(&folder);
    std::fs::write(folder.join("histograms.csv"), histograms())?;
    std::fs::write(folder.join("slowdowns.csv"), beside_probes())
}

/// What the search's master hands out at a time: ours, the seed does not say it.
const PIECE_BYTES: usize = 1 << 20;

/// Figures 2 and 3.
fn histograms() -> String {
    let mut text = String::from("program,from_bytes,to_bytes,accesses\n");
    for side in [500, 1000, 2000] {
        eprintln!("histogram of {side}^2");
        let histogram = cg(side, 1).distances();
        assert_spikes(side, &histogram);
        for bucket in histogram.buckets() {
            let _ = writeln!(text, "cg {side}^2,{},{},{}", bucket.from * 64, bucket.to * 64, bucket.accesses);
        }
    }
    let full = Shape::sets(256 << 4, 8).blocks();
    let histogram = solver::sequence_search((20 << 20) / 64, full, 1).distances();
    let master = solver::search_master(PIECE_BYTES / 64).distances();
    for (name, histogram) in [("search", histogram), ("search master", master)] {
        for bucket in histogram.buckets() {
            let _ = writeln!(text, "{name},{},{},{}", bucket.from * 64, bucket.to * 64, bucket.accesses);
        }
    }
    text
}

/// Accesses at the distances of the matrix, of vectors and of rows of the grid, and next to none between row and vector.
fn assert_spikes(side: usize, histogram: &castell_cachesim::Histogram) {
    let [matrix, vector, row] = solver::conjugate_gradients_blocks(side).map(|blocks| blocks as f64);
    let part = |low: f64, high: f64| {
        let near = histogram.buckets().filter(|bucket| (low..high).contains(&(bucket.from as f64)));
        near.map(|bucket| bucket.accesses).sum::<f64>() / histogram.accesses()
    };
    let [at_matrix, at_vector, at_row] =
        [part(matrix, matrix + 5.5 * vector), part(0.9 * vector, 4.5 * vector), part(row, 20.0 * row)];
    eprintln!("  at matrix {at_matrix:.4}, vector {at_vector:.4}, row {at_row:.4} of all accesses");
    assert!(at_matrix > 0.05 && at_vector > 0.02 && at_row > 0.005, "{side}^2");
    assert!(part(20.0 * row, 0.9 * vector) < 0.001, "{side}^2");
}

/// Figures 4 to 6: each program beside a probe of four threads, and the probe beside it.
fn beside_probes() -> String {
    let chip = Chip::xeon_e5_2670(SCALE, 1);
    let place = |program: &Program| alone(&chip, program, None).expect("all ways");
    let mut subjects: Vec<(String, Placed)> = Vec::new();
    for side in [250, 500, 1000] {
        for threads in [1, 4] {
            subjects.push((format!("cg {}^2 {threads} threads", side * 2), place(&cg(side, threads))));
        }
    }
    subjects.push(("search 4 threads".to_owned(), place(&search(4))));
    let mut text = String::from("program,probe_mb,slowdown,probe_slowdown\n");
    for mb in [1, 2, 4, 8, 12, 16, 20, 24, 32, 64] {
        let neighbour = place(&probe((mb << 20) / 64 / SCALE, 4, WINDOW));
        for (name, subject) in &subjects {
            let both = slowdowns(&chip, &[subject, &neighbour]).expect("all ways");
            let _ = writeln!(text, "{name},{mb},{:.4},{:.4}", both[0], both[1]);
        }
        eprintln!("probe of {mb} MB");
    }
    text
}
