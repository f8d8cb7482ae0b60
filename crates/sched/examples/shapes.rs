//! multiaxpy-noop and cholesky on 48 described leaves, in virtual time, under the paper's schedulers and ours; and sweeps over blocks
//! of data, with and without a task going where its data was written.
//!
//! `cargo run --release -p castell-sched --example shapes`: milliseconds of virtual time. The costs are the defaults, round
//! numbers: compare shapes, not times.

use castell_sched::program::{Cholesky, Multiaxpy, Program, Sweeps};
use castell_sched::simulate::Costs;
use castell_sched::{Topology, simulate};

const SCHEDULERS: [&str; 7] = [
    "central",
    "delegation",
    "tree:fifo,threshold=20,rebalance=off,successor=off,pull=off",
    "tree:lifo,threshold=20,rebalance=off,successor=off,pull=off",
    "tree:lifo,rebalance=off,successor=off,pull=off",
    "tree:lifo,successor=off,pull=off",
    "tree",
];

fn row(name: &str, program: &impl Program, tasks: u64, topology: &Topology) {
    print!("{name:24} {tasks:>9}");
    for scheduler in SCHEDULERS {
        let options = scheduler.parse().expect("a scheduler");
        let report = simulate(program, topology, options, &Costs::default(), 1);
        assert_eq!((report.tasks, report.stuck), (tasks, 0), "{scheduler}");
        print!(" {:>9.2}", report.time_ns as f64 / 1e6);
    }
    println!();
}

fn main() {
    let topology: Topology = "numa:2 cpu:24".parse().expect("a topology");
    SCHEDULERS.iter().enumerate().for_each(|(number, scheduler)| println!("{}: {scheduler}", number + 1));
    println!("{:24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", "", "tasks", 1, 2, 3, 4, 5, 6, 7);
    for block in [1024, 4096, 16_384, 65_536, 262_144] {
        let axpy = Multiaxpy { elements: 1 << 26, block, iterations: 2, element_ps: 500, dependences: false };
        row(&format!("multiaxpy-noop {block}"), &axpy, axpy.tasks(), &topology);
    }
    for tiles in [8, 16, 32, 48] {
        // The same matrix in smaller tiles: work falls with the third power.
        let unit = (64 * 3_000_000_u64 / (tiles * tiles * tiles)).max(1);
        let cholesky = Cholesky::new(tiles, [unit / 3, unit, unit, 2 * unit]);
        row(&format!("cholesky {tiles} tiles"), &cholesky, cholesky.tasks(), &topology);
    }
    println!("sweeps, 480 blocks, 10 times  locality: ms, MiB from the other node; without: ms, MiB");
    for kib in [16, 64, 256, 1024, 4096] {
        // 10 GB/s a leaf where the data is near.
        let sweeps =
            Sweeps { blocks: 480, block_bytes: kib << 10, iterations: 10, block_ns: kib * 1024 / 10 };
        print!("{:24} {:>9}", format!("{kib} KiB a block"), sweeps.tasks());
        for scheduler in ["tree", "tree:locality=off"] {
            let options = scheduler.parse().expect("a scheduler");
            let report = simulate(&sweeps, &topology, options, &Costs::default(), 1);
            assert_eq!((report.tasks, report.stuck), (sweeps.tasks(), 0), "{scheduler}");
            print!(" {:>9.2} {:>9.1}", report.time_ns as f64 / 1e6, report.remote_bytes as f64 / 1048576.0);
        }
        println!();
    }
}
