//! 64 ranks on processors that have too much to do, of which one at a time stands still for three seconds: nobody is given up.

use crate::labs::{self, CASTELL, ROLE, host_name, said, text};
use castell_comm::collective::Reduction;
use castell_comm::{Comm, Communicator};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const HOSTS: u32 = 4;
const RANKS_A_HOST: u32 = 16;
/// What ranks are told, before how often one is to stand still.
pub const WORD: &str = "stopped ";

#[test]
fn nobody_is_given_up_who_stands_still_for_three_seconds() {
    if !labs::are_possible() {
        return;
    }
    let stops = std::env::var("CASTELL_TEST_TRIALS").ok().and_then(|value| value.parse().ok()).unwrap_or(1);
    let hosts: Vec<String> = (1..=HOSTS).map(|host| format!("h{host}:{RANKS_A_HOST}")).collect();
    let begun = Instant::now();
    let options = ["launch", "--hosts", &hosts.join(","), "--"];
    let mut command = labs::on_first(HOSTS, &[&[CASTELL], &options[..]].concat());
    let output = command.args(labs::myself()).env(ROLE, format!("{WORD}{stops}")).output();
    let output = output.expect("castell runs");
    let fine = said(&output);
    assert_eq!(fine.len(), (HOSTS * RANKS_A_HOST) as usize, "{}", text(&output.stderr));
    let calls = fine[0].split_once(' ').map_or("", |(calls, _)| calls);
    println!(
        "trial: {stops} stops of 3 s of one of {} ranks, {calls} calls of each meanwhile; ranks given up 0; {} s",
        fine.len(),
        begun.elapsed().as_secs()
    );
}

/// Calls until one after the other, as often as this says, has stood still.
pub fn as_a_rank(stops: &str) {
    let stops: u32 = stops.parse().expect("a number");
    let comm = Comm::init().unwrap_or_else(|error| panic!("{error}"));
    let world = comm.world();
    let mut processes = vec![0; world.size() as usize];
    world.allgather(&[std::process::id()], &mut processes).expect("all are there");
    let (mut done, mut calls, mut still): (_, u64, Option<Child>) = (0, 0, None);
    loop {
        let is_over = still.as_mut().is_none_or(|still| still.try_wait().expect("a child").is_some());
        if world.rank().0 == 0 && is_over {
            let to_stop = (done < stops).then(|| {
                // A step without a common divisor: all have their turns.
                let rank = (done * 27 + 5) % world.size();
                stop(&format!("h{}", rank / RANKS_A_HOST + 1), processes[rank as usize])
            });
            (done, still) = (done + 1, to_stop);
        }
        let mut left = [0];
        let goes_on = world.rank().0 == 0 && done <= stops;
        world.allreduce(&[u64::from(goes_on)], &mut left, Reduction::Sum).expect("nobody is lost");
        world.barrier().expect("nobody is lost");
        calls += 2;
        if left == [0] {
            break;
        }
    }
    exchange(&world);
    println!("\n* {calls} fine on {}", host_name());
    comm.finalize();
}

/// Everybody is heard by everybody in the end.
fn exchange(world: &Communicator) {
    let mine = vec![world.rank().0; world.size() as usize];
    let mut got = vec![0; mine.len()];
    world.alltoall(&mine, &mut got).expect("nobody is lost");
    assert!((0..).zip(&got).all(|(rank, number)| rank == *number), "{got:?}");
}

fn stop(host: &str, process: u32) -> Child {
    let script = format!("kill -STOP {process}; sleep 3; kill -CONT {process}");
    let mut stop = Command::new(CASTELL);
    stop.args(["lab", "--on", host, "--", "sh", "-c", &script]).stdin(Stdio::null());
    stop.spawn().expect("castell runs")
}
