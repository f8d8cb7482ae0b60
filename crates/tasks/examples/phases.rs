//! A program whose parallel phases alternate with waiting, as for a disk or for another program; several of them share a node.
//!
//! `phases PHASES TASKS TASK_US PAUSE_MS [DELAY_MS]` waits, then runs so many phases of so many tasks, each of which computes for so long *on its processor*, with pauses
//! between them, and prints how long all took. With `CASTELL_SHARE=1` it lends its processors in the pauses; `experiments/sharing` runs it so and otherwise.

use castell_host::clock::{now_ns, thread_cpu_ns};
use castell_tasks::Runtime;
use std::time::Duration;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).map_while(|word| word.parse().ok()).collect();
    let [phases, tasks, task_us, pause_ms, rest @ ..] = &numbers[..] else {
        eprintln!("usage: phases PHASES TASKS TASK_US PAUSE_MS [DELAY_MS]");
        std::process::exit(2);
    };
    let runtime = Runtime::builder().build().expect("threads start");
    std::thread::sleep(Duration::from_millis(rest.first().copied().unwrap_or(0)));
    let (task_ns, tasks) = (task_us * 1000, *tasks);
    let since = now_ns();
    let mut longest = 0;
    for _ in 0..*phases {
        let begin = now_ns();
        runtime
            .run(move |context| (0..tasks).for_each(|_| context.submit((), move |_, ()| compute(task_ns))))
            .expect("nothing fails");
        longest = longest.max(now_ns() - begin);
        std::thread::sleep(Duration::from_millis(*pause_ms));
    }
    let seconds = (now_ns() - since) as f64 / 1e9;
    println!("seconds {seconds:.6} longest_phase_ms {:.3}", longest as f64 / 1e6);
}

/// So much work: time on a processor, so that it is as much where processors are shared by turns.
fn compute(ns: u64) {
    let until = thread_cpu_ns() + ns;
    while thread_cpu_ns() < until {
        for _ in 0..64 {
            std::hint::spin_loop();
        }
    }
}
