//! Two ranks that compute in turns, and wait for each other meanwhile: each half of the time.
//!
//! `waits ROUNDS COMPUTE_US` starts itself as two ranks; with COMPUTE_US 0 they only call barriers. It prints how long all took, how long the one that waits
//! needs to go on once the other has come, and what a call takes. With `CASTELL_SHARE=1` a rank that waits lends its processor; `experiments/sharing` runs it beside tasks.

use castell_comm::Comm;
use castell_comm::collective::Reduction;
use castell_host::clock::{now_ns, thread_cpu_ns};
use castell_launch::launch::Launch;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let numbers: Vec<u64> = words.iter().map_while(|word| word.to_str()?.parse().ok()).collect();
    let &[rounds, compute_us] = &numbers[..] else {
        eprintln!("usage: waits ROUNDS COMPUTE_US");
        return ExitCode::from(2);
    };
    if std::env::var_os("CASTELL_RANK").is_some() {
        run(rounds, compute_us * 1000);
        return ExitCode::SUCCESS;
    }
    let program = std::env::current_exe().expect("a program knows where it is");
    let outcome = Launch::new(2).program(program.as_os_str(), &words).expect("ranks start");
    ExitCode::from(outcome.exit_code())
}

fn run(rounds: u64, compute_ns: u64) {
    let comm = Comm::init().expect("a group");
    let (world, me) = (comm.world(), u64::from(comm.rank().0));
    // When the one that computes came, and when the other one went on.
    let (mut came, mut went_on) = (vec![0_u64; rounds as usize], vec![0_u64; rounds as usize]);
    world.barrier().expect("both come");
    let since = now_ns();
    for round in 0..rounds {
        let computes = round % 2 == me;
        if computes {
            compute(compute_ns);
            came[round as usize] = now_ns();
        }
        world.barrier().expect("both come");
        if !computes {
            went_on[round as usize] = now_ns();
        }
    }
    let total_ns = now_ns() - since;
    for times in [&mut came, &mut went_on] {
        world.allreduce_in_place(times, Reduction::Sum).expect("of the same length");
    }
    if me == 0 {
        let mut late: Vec<u64> =
            went_on.iter().zip(&came).map(|(end, begin)| end.saturating_sub(*begin)).collect();
        late.sort_unstable();
        let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize] as f64 / 1e3;
        let call_us = (total_ns as f64 / rounds as f64 - compute_ns as f64) / 1e3;
        println!(
            "seconds {:.6} late_us_median {:.2} late_us_p99 {:.2} call_us {call_us:.2}",
            total_ns as f64 / 1e9,
            at(0.5),
            at(0.99)
        );
    }
    comm.finalize();
}

/// So much work: time on a processor.
fn compute(ns: u64) {
    let until = thread_cpu_ns() + ns;
    while thread_cpu_ns() < until {
        std::hint::spin_loop();
    }
}
