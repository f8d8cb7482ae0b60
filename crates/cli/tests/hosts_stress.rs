//! Random faults of hosts in the middle of calls: whoever depends on a lost host is told by name, what does not goes on, and a cut that
//! heals loses nothing. Each fault is tried once, or as often as
//! `CASTELL_TEST_TRIALS` says; the seed is printed, and `CASTELL_TEST_SEED` repeats it.
//!
//! Ranks are this program once more: `as_a_rank` does what its role says.

mod labs;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
#[path = "hosts_stress/stopped.rs"]
mod stopped;

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::Communicator;
use castell_comm::collective::Reduction;
use labs::{CASTELL, ROLE, host_name, said, text};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The rank on the host that is harmed.
const LOST: Rank = Rank(2);
/// A cut that heals is shorter: whoever is silent for 5 s is given up, and after 4 s a connection may come too late on busy processors.
const PAUSE_MAX_S: usize = 3;
/// Rounds after a cut that heals.
const ROUNDS_AFTER: u32 = 100;

/// What happens to h2, as a script there, and whether its ranks are lost.
const FAULTS: [(&str, &str, bool); 6] = [
    ("its line is cut", "ip link set eth0 down", true),
    ("all is killed", "kill -KILL -1", true),
    ("all is stopped", "kill -STOP -1", true),
    ("its agent is stopped", "kill -STOP $(pgrep -f 'castell agent$')", true),
    (
        "its rank is stopped for 3 s",
        "kill -STOP $(pgrep -f [a]s_a_rank); sleep 3; kill -CONT $(pgrep -f [a]s_a_rank)",
        false,
    ),
    ("its line is cut for PAUSE s", "ip link set eth0 down; sleep PAUSE; ip link set eth0 up", false),
];
const CALLS: [&str; 4] = ["barrier", "allreduce", "alltoall", "bcast"];
const SIZES: [usize; 4] = [1, 500, 20_000, 300_000];

/// What a trial does, as its ranks are told.
struct Plan {
    fault: usize,
    pause: String,
    call: usize,
    size: usize,
    rounds: u32,
}

impl Plan {
    fn of(seed: u64, trial: u32) -> Plan {
        let mut state = seed.wrapping_add(u64::from(trial)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: usize| {
            // Marsaglia's xorshift with shifts 13, 7, 17.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as usize % below
        };
        // Every fault has its turn.
        let fault = trial as usize % FAULTS.len();
        let pause = format!("{}.{}", random(PAUSE_MAX_S), 1 + random(9));
        let (call, size, rounds) = (random(CALLS.len()), SIZES[random(SIZES.len())], random(40) as u32);
        Plan { fault, pause, call, size, rounds }
    }

    fn to_words(&self) -> String {
        format!("{} {} {} {} {}", self.fault, self.pause, self.call, self.size, self.rounds)
    }

    fn from_words(text: &str) -> Plan {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |at: usize| words[at].parse().expect("a number");
        Plan {
            fault: number(0),
            pause: words[1].into(),
            call: number(2),
            size: number(3),
            rounds: number(4) as u32,
        }
    }
}

#[test]
fn as_a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if let Some(stops) = role.strip_prefix(stopped::WORD) {
        return stopped::as_a_rank(stops);
    }
    let plan = Plan::from_words(&role);
    let comm = Comm::init().unwrap_or_else(|error| panic!("{error}"));
    let world = comm.world();
    let is_lost = comm.rank() == LOST;
    let living = world.split(Some(u32::from(is_lost)), 0).expect("it is made").expect("it has a colour");
    world.barrier().expect("all are there");
    let (_, _, is_lethal) = FAULTS[plan.fault];
    let mut harm = None;
    let last = if is_lethal { u32::MAX } else { plan.rounds + ROUNDS_AFTER };
    let mut since = Instant::now();
    for round in 0..last {
        if round == plan.rounds && comm.rank() == Rank(0) {
            harm = Some(harm_h2(&plan));
        }
        let outcome = call(&world, &plan, round);
        assert!(is_lethal || outcome.is_ok(), "round {round}: {outcome:?}");
        // All who live give up in the same round: who goes on would wait for one who has, and nobody could tell it.
        let mut failed = [0];
        let has_failed = [u64::from(outcome.is_err())];
        living.allreduce(&has_failed, &mut failed, Reduction::Sum).expect("they live");
        if failed[0] > 0 {
            break;
        }
        since = Instant::now();
    }
    if is_lethal {
        expect_lost(&comm, &living, since);
    }
    harm.map(|mut harm: Child| harm.wait());
    println!("\n* fine on {}", host_name());
    comm.finalize();
}

fn harm_h2(plan: &Plan) -> Child {
    let script = FAULTS[plan.fault].1.replace("PAUSE", &plan.pause);
    let mut harm = Command::new(CASTELL);
    harm.args(["lab", "--on", "h2", "--", "sh", "-c", &script]).stdin(Stdio::null());
    harm.spawn().expect("castell runs")
}

/// One call of all ranks, with a result that only this round has.
fn call(world: &Communicator, plan: &Plan, round: u32) -> Result<(), String> {
    let (me, size) = (world.rank().0, world.size());
    let number = |rank: u32, at: usize| u64::from(rank + 1) * u64::from(round + 1) + at as u64;
    let told = |failure: &dyn std::fmt::Display| failure.to_string();
    match CALLS[plan.call] {
        "barrier" => world.barrier().map_err(|failure| told(&failure))?,
        "allreduce" => {
            let mine: Vec<u64> = (0..plan.size).map(|at| number(me, at)).collect();
            let mut sum = vec![0; plan.size];
            world.allreduce(&mine, &mut sum, Reduction::Sum).map_err(|failure| told(&failure))?;
            let expected = |at: usize| (0..size).map(|rank| number(rank, at)).sum::<u64>();
            assert!((0..plan.size).all(|at| sum[at] == expected(at)), "round {round}");
        }
        "alltoall" => {
            let mine: Vec<u64> = (0..plan.size * size as usize).map(|at| number(me, at)).collect();
            let mut got = vec![0; mine.len()];
            world.alltoall(&mine, &mut got).map_err(|failure| told(&failure))?;
            let expected =
                |at: usize| number((at / plan.size) as u32, me as usize * plan.size + at % plan.size);
            assert!((0..got.len()).all(|at| got[at] == expected(at)), "round {round}");
        }
        _ => {
            let root = LOST.0;
            let mut all: Vec<u64> =
                (0..plan.size).map(|at| if me == root { number(root, at) } else { 0 }).collect();
            world.broadcast(&mut all, Rank(root)).map_err(|failure| told(&failure))?;
            assert!((0..plan.size).all(|at| all[at] == number(root, at)), "round {round}");
        }
    }
    Ok(())
}

/// The rank of the lost host is named, and the others go on among themselves.
fn expect_lost(comm: &Comm, living: &Communicator, since: Instant) {
    assert_ne!(comm.rank(), LOST, "the lost one is not here any more");
    let mut byte = [0u8];
    let failure = comm.scope(|scope| {
        let mut graph = scope.graph();
        graph.recv(scope.lend(&mut byte), Some(LOST), Some(Tag(1))).expect("legal");
        let run = scope.run(&graph.compile().expect("it compiles")).expect("it starts");
        run.wait().expect_err("its host is lost").to_string()
    });
    assert!(failure.contains(&format!("rank {LOST} ")), "{failure}");
    println!("\n* told after {}", since.elapsed().as_millis());
    let mut sum = [0u64];
    living.allreduce(&[1u64], &mut sum, Reduction::Sum).expect("it goes on");
    assert_eq!(sum[0], 3);
}

#[test]
fn faults_in_the_middle_of_calls() {
    if !labs::are_possible() {
        return;
    }
    let set = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let trials = FAULTS.len() as u32 * set("CASTELL_TEST_TRIALS").unwrap_or(1) as u32;
    let seed = set("CASTELL_TEST_SEED").unwrap_or_else(castell_host::clock::now_ns);
    println!("CASTELL_TEST_SEED={seed}: {trials} trials");
    let mut table: BTreeMap<(usize, usize), Row> = BTreeMap::new();
    for trial in 0..trials {
        let plan = Plan::of(seed, trial);
        let (name, _, is_lethal) = FAULTS[plan.fault];
        let what =
            format!("trial {trial} of seed {seed}: {name}, {}, `{}`", CALLS[plan.call], plan.to_words());
        let options = ["launch", "--timeout", "100s", "--hosts", "h1:2,h2:1,h3:1", "--grace", "60s", "--"];
        let mut command = labs::on_first(3, &[&[CASTELL], &options[..]].concat());
        let output = command.args(labs::myself()).env(ROLE, plan.to_words()).output().expect("castell runs");
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        if is_lethal {
            let fine = out.lines().filter(|line| line.contains("* fine on h")).count();
            assert_eq!((output.status.code(), fine), (Some(137), 3), "{what}\n{out}\n{error}");
            assert!(error.contains("host h2 is gone"), "{what}\n{error}");
        } else {
            assert_eq!(said(&output).len(), 4, "{what}\n{error}");
        }
        let told = out.lines().filter_map(|line| line.split_once("* told after ")?.1.parse::<u64>().ok());
        let row = table.entry((plan.fault, plan.call)).or_default();
        row.told_ms.extend(told);
        row.sizes[SIZES.iter().position(|size| *size == plan.size).expect("one of these")] += 1;
    }
    for ((fault, call), row) in table {
        let fault = FAULTS[fault].0.replace("PAUSE", "up to 3");
        println!("trial: {}", row.line(&fault, CALLS[call]));
    }
}

/// How a fault went in the middle of a call.
#[derive(Default)]
struct Row {
    /// Trials of each size.
    sizes: [u32; SIZES.len()],
    /// After how long each rank that lives was told who is lost.
    told_ms: Vec<u64>,
}

impl Row {
    fn line(mut self, fault: &str, call: &str) -> String {
        self.told_ms.sort_unstable();
        let count: u32 = self.sizes.iter().sum();
        let sizes = self.sizes.map(|trials| trials.to_string()).join(" ");
        let told = match &self.told_ms[..] {
            [] => "nobody is lost".into(),
            [.., longest] => {
                let median = self.told_ms[self.told_ms.len() / 2];
                format!("{} ranks told, median {median} ms, longest {longest} ms", self.told_ms.len())
            }
        };
        format!("{count} {fault}, {call} (by size {sizes}): {told}")
    }
}
