//! Where the time of messages went, stage by stage.
//!
//! The n-th send of a rank to another one with a tag belongs to the n-th such message that came there, and to the n-th such receive.
//! Receives from any rank or with any tag, and messages of a rank to itself, are left out.

use super::results::Results;
use castell_base::{Rank, Tag};
use castell_comm::engine::{Arrived, Recorded};
use castell_goal::op::Op;
use castell_goal::schedule::Schedule;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The stages in their order: name, and from when to when.
const STAGES: [(&str, &str); 6] = [
    ("call", "the send starts .. its message is handed over, or waits for room"),
    ("queue", "it waits for room with its sender"),
    ("wake", "it is there .. its receiver, which slept, is awake"),
    ("wire", "it is there and the receiver awake .. it is taken in"),
    ("match", "it is taken in .. its receive is posted, if that is later"),
    ("completion", "both are there .. the receive has ended (large ones: their copy)"),
];

/// The times of all messages. Nanoseconds.
pub struct Stages(Vec<[u64; STAGES.len()]>);

/// What belongs to one sender, receiver and tag.
#[derive(Default)]
struct Messages {
    sends: Vec<Recorded>,
    arrivals: Vec<Arrived>,
    receives: Vec<Recorded>,
}

impl Stages {
    /// Of all messages of the program.
    pub fn collect(schedules: &[Arc<Schedule>], results: &Results) -> Stages {
        let mut messages: HashMap<(Rank, Rank, Tag), Messages> = HashMap::new();
        for (rank, schedule) in (0..).map(Rank).zip(schedules) {
            let mut recorded = results.recorded(rank);
            recorded.sort_by_key(|one| one.start_ns);
            for one in recorded {
                match schedule.op(one.op) {
                    Op::Send { dest, tag, .. } => {
                        messages.entry((rank, dest, tag)).or_default().sends.push(one);
                    }
                    Op::Recv { source: Some(source), tag: Some(tag), .. } => {
                        messages.entry((source, rank, tag)).or_default().receives.push(one);
                    }
                    _ => {}
                }
            }
            let mut arrived = results.arrived(rank);
            // They are counted from 0 on, far below where the count begins again.
            arrived.sort_by_key(|one| (one.source, one.sequence));
            for one in arrived {
                messages.entry((one.source, rank, one.tag)).or_default().arrivals.push(one);
            }
        }
        let of_pair = |of: Messages| {
            let ends = of.arrivals.into_iter().zip(of.receives);
            of.sends.into_iter().zip(ends).map(|(send, (arrival, receive))| stages(&send, &arrival, &receive))
        };
        Stages(messages.into_values().flat_map(of_pair).collect())
    }

    /// A stage's times, the shortest first.
    fn sorted(&self, stage: usize) -> Vec<u64> {
        let mut times: Vec<u64> = self.0.iter().map(|message| message[stage]).collect();
        times.sort_unstable();
        times
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        let mut object = json!({"messages": self.0.len()});
        for (stage, (name, _)) in STAGES.iter().enumerate() {
            let times = self.sorted(stage);
            object[format!("{name}_ns")] = json!({"median": quantile(&times, 50), "p99": quantile(&times, 99),
                "max": quantile(&times, 100), "sum": times.iter().sum::<u64>()});
        }
        object
    }

    /// For people.
    pub fn print(&self) {
        println!("\nWhere the time of {} messages went, in us:", self.0.len());
        println!("{:<11} {:>10} {:>10} {:>10} {:>7}", "stage", "median", "99 %", "max", "share");
        let all: u64 = self.0.iter().flatten().sum();
        for (stage, (name, what)) in STAGES.iter().enumerate() {
            let times = self.sorted(stage);
            let us = |percent| quantile(&times, percent) as f64 / 1000.0;
            let share = 100.0 * times.iter().sum::<u64>() as f64 / all.max(1) as f64;
            let (median, p99, max) = (us(50), us(99), us(100));
            println!("{name:<11} {median:>10.2} {p99:>10.2} {max:>10.2} {share:>5.1} %  {what}");
        }
    }
}

/// The least value that so many percent do not exceed; 0 of none.
fn quantile(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

/// The stages of a message.
fn stages(send: &Recorded, arrival: &Arrived, receive: &Recorded) -> [u64; STAGES.len()] {
    let begun = send.begun_ns.min(arrival.at_ns);
    // A large message's send ends when its receiver has it.
    let left = send.end_ns.min(arrival.at_ns).max(begun);
    let left = if send.end_ns > arrival.at_ns { begun } else { left };
    let awake = arrival.woken_ns.clamp(left, arrival.at_ns);
    let met = arrival.at_ns.max(receive.start_ns);
    [
        begun.saturating_sub(send.start_ns),
        left - begun,
        awake - left,
        arrival.at_ns - awake,
        met - arrival.at_ns,
        receive.end_ns.saturating_sub(met),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_goal::schedule::OpId;

    fn recorded(start_ns: u64, begun_ns: u64, end_ns: u64) -> Recorded {
        Recorded { run: 1, op: OpId(0), start_ns, begun_ns, end_ns }
    }

    fn arrived(at_ns: u64, woken_ns: u64) -> Arrived {
        Arrived { source: Rank(0), tag: Tag(0), sequence: 0, at_ns, woken_ns, is_of_call: false }
    }

    #[test]
    fn each_moment_belongs_to_one_stage() {
        let small = stages(&recorded(10, 13, 20), &arrived(50, 45), &recorded(5, 6, 57));
        assert_eq!(small, [3, 7, 25, 5, 0, 7]);
        let awake = stages(&recorded(10, 13, 13), &arrived(50, 2), &recorded(80, 81, 90));
        assert_eq!(awake, [3, 0, 0, 37, 30, 10]);
        let large = stages(&recorded(10, 13, 400), &arrived(50, 0), &recorded(5, 6, 390));
        assert_eq!(large, [3, 0, 0, 37, 0, 340]);
        // The sender's clock is read behind what it has done.
        let fast = stages(&recorded(10, 60, 60), &arrived(50, 0), &recorded(5, 6, 57));
        assert_eq!(fast, [40, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn quantiles_are_values() {
        assert_eq!((quantile(&[], 50), quantile(&[7], 50), quantile(&[7], 100)), (0, 7, 7));
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!((quantile(&hundred, 50), quantile(&hundred, 99), quantile(&hundred, 100)), (50, 99, 100));
    }
}
