//! How long a program needs to have a processor back that it has the right to and another one has borrowed.
//!
//! `hand_back ROUNDS PAUSE_MS` has nothing to do for so long, then a task, over and over, and prints the time from its creation to its begin. `experiments/sharing`
//! runs it with `CASTELL_SHARE=1` beside a program that always has tasks of 100 us, and alone.

use castell_host::clock::now_ns;
use castell_tasks::Runtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).map_while(|word| word.parse().ok()).collect();
    let &[rounds, pause_ms] = &numbers[..] else {
        eprintln!("usage: hand_back ROUNDS PAUSE_MS");
        std::process::exit(2);
    };
    let runtime = Runtime::builder().build().expect("threads start");
    let began = Arc::new(AtomicU64::new(0));
    let mut times_ns: Vec<u64> = Vec::new();
    for _ in 0..rounds {
        std::thread::sleep(Duration::from_millis(pause_ms));
        let inside = Arc::clone(&began);
        let created = now_ns();
        runtime
            .run(move |context| context.submit((), move |_, ()| inside.store(now_ns(), Ordering::Relaxed)))
            .expect("nothing fails");
        times_ns.push(began.load(Ordering::Relaxed) - created);
    }
    times_ns.sort_unstable();
    let at = |part: f64| times_ns[((times_ns.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    println!("us_median {:.1} us_p99 {:.1} us_most {:.1}", at(0.5), at(0.99), at(1.0));
}
