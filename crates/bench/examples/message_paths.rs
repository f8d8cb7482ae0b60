//! One hot path of the engine, over and over, by two ranks that are threads: for counting its instructions.
//!
//! `message_paths PATH REPEATS` prints how many messages (or starts) that were. On one processor (`taskset -c 0`) ranks that
//! wait yield at once, so that next to nothing is counted but the path. What two runs differ in is the path's, not the program's start.
//!
//! | path | one repeat |
//! |---|---|
//! | pingpong | a schedule of 100 ping-pongs of 8 bytes with a time stamp at each end |
//! | window | a schedule of 100 windows of 64 messages of 8 bytes |
//! | ahead | a schedule of 10,000 messages of 8 bytes that are sent before their receives are posted |
//! | start | a hundred runs of one local operation, each waited for |

use castell_base::Rank;
use castell_bench::measure;
use castell_comm::Comm;
use castell_comm::job::{Job, JobOptions, Progress};

/// Runs a path; how many messages or starts that were.
fn run(path: &str, comm: &Comm, repeats: u32) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let each = match path {
        "pingpong" => {
            measure::ping_pongs(comm, 8, repeats)?;
            u64::from(2 * measure::ROUND_TRIPS)
        }
        "window" => {
            measure::messages_in_windows(comm, 8, 64, repeats)?;
            64 * measure::WINDOWS
        }
        "ahead" => {
            measure::messages_ahead(comm, 8, 10_000, repeats)?;
            10_000
        }
        "start" => {
            measure::starts_of_a_local_operation(comm, repeats)?;
            100
        }
        _ => return Err(format!("no such path: {path}").into()),
    };
    Ok(u64::from(repeats) * each)
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, repeats] = &arguments[..] else {
        return Err("usage: message_paths pingpong|window|ahead|start REPEATS".into());
    };
    let repeats: u32 = repeats.parse()?;
    let ranks = if path == "start" { 1 } else { 2 };
    let job = Job::create(&JobOptions { progress: Progress::Thread, ..JobOptions::new(ranks) })?;
    let count = std::thread::scope(|scope| {
        let start = |rank| {
            let fd = job.fd().try_clone_to_owned().expect("a descriptor");
            scope.spawn(move || {
                let comm = Comm::join(Job::attach(fd).expect("the job"), Rank(rank));
                let count = run(path, &comm, repeats);
                comm.finalize();
                count
            })
        };
        let ranks: Vec<_> = (0..ranks).map(start).collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).next_back().expect("a rank")
    })?;
    println!("{count}");
    Ok(())
}
