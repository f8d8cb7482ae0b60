//! Whole workloads in virtual time, and workloads that are none.

use castell_policy::session::simulate::{Coefficients, Fate, Outcome, Speed, Summary, run};
use castell_policy::session::workload::{Djsb, Lublin, Workload};
use castell_policy::session::{Cluster, Policy, Rules, Shape, Slowdown};
use proptest::prelude::*;

fn simulated(workload: &Workload, nodes: u32, slots: u32, rules: &str, speed: &str) -> (Outcome, Summary) {
    let cluster = Cluster::uniform(nodes, Shape::flat(slots)).expect("a cluster");
    let rules: Rules = rules.parse().expect("a policy");
    let outcome =
        run(workload, &cluster, &rules, &speed.parse::<Speed>().expect("a model"), 1_000, &mut |_| ());
    let summary = Summary::new(workload, &cluster, &outcome, &Coefficients::default());
    (outcome, summary)
}

#[test]
fn djsb_by_hand() {
    // One analysis of 50 s, 100 s after a simulation of 1000 s that fills all of 4 nodes.
    let workload = Djsb { analyses: 1, ..Djsb::default() }.workload();
    for (rules, start, end, simulation_end) in [
        ("wait", 1_000, 1_050, 1_000),
        ("surpass", 100, 150, 1_050),
        ("give-way", 100, 150, 1_050),
        // Both at half speed: the analysis needs 100 s, in which the simulation does 50 s of its work.
        ("overbook", 100, 200, 1_050),
        // The simulation has eight slots for 40 processes of the first node: a fifth of its speed, for 50 s.
        ("sidestep", 100, 150, 1_040),
        // Two processes on each of eight slots of each node, in the worst case.
        ("sidestep+spread", 100, 150, 1_025),
    ] {
        let (outcome, _) = simulated(&workload, 4, 40, rules, "tight");
        let analysis = &outcome.fates[1];
        assert_eq!((analysis.start_ms, analysis.end_ms), (Some(start * 1_000), end * 1_000), "{rules}");
        assert_eq!(outcome.fates[0].end_ms, simulation_end * 1_000, "{rules}");
    }
    // Where 20 processes use up a node's memory, the simulation alone has half of its speed, which counts as full.
    let (outcome, _) = simulated(&workload, 4, 40, "overbook", "loose,bandwidth=20");
    assert!(outcome.fates[0].end_ms < 1_050_000, "{:?}", outcome.fates[0]);
}

#[test]
fn everybody_ends_and_nobody_is_faster_than_alone() {
    let workload = Lublin { jobs: 400, processors: 64, load: Some(1.1), ..Lublin::default() }.workload();
    let mut fingerprints = Vec::new();
    for policy in Policy::ALL {
        let (outcome, summary) = simulated(&workload, 16, 4, policy.name(), "tight");
        assert_eq!((summary.jobs, outcome.refused.len()), (400, 0));
        for (job, fate) in workload.jobs.iter().zip(&outcome.fates) {
            let Fate { start_ms: Some(start), end_ms, suspended_ms, .. } = *fate else {
                panic!("{policy}: it never ran")
            };
            assert!(
                start >= job.submit_ms && end_ms >= start + job.run_ms + suspended_ms,
                "{policy}: {fate:?}"
            );
            if !policy.shares() {
                assert_eq!(end_ms, start + job.run_ms + suspended_ms, "{policy}");
            }
        }
        assert_eq!(summary, simulated(&workload, 16, 4, policy.name(), "tight").1, "{policy}");
        fingerprints.push(format!("{policy} {:016x}", summary.fingerprint));
    }
    // The same bits on every machine.
    assert_eq!(fingerprints, FINGERPRINTS);
}

/// The evaluation in small, which experiments/cosh-2 has in large: on generated workloads the policy of our own has the shortest mean
/// response, the smallest 95 % of bounded slowdowns, and the fairest speeds.
#[test]
fn give_way_wins_on_generated_workloads() {
    const OTHERS: [&str; 6] =
        ["wait", "surpass", "overbook", "overbook+spread", "sidestep", "sidestep+spread"];
    for seed in 1..=4 {
        let lublin = Lublin { jobs: 1_200, processors: 128, load: Some(0.8), seed, ..Lublin::default() };
        let workload = lublin.workload();
        let (_, ours) = simulated(&workload, 32, 4, "give-way", "tight");
        for other in OTHERS {
            let (_, theirs) = simulated(&workload, 32, 4, other, "tight");
            let [one, two] = [&ours, &theirs].map(|summary| {
                (summary.response_ms, summary.bounded_slowdown_p95, 1.0 - summary.fairness_of_speeds)
            });
            let wins = one.0 < two.0 && one.1 < two.1 && one.2 < two.2;
            assert!(wins, "seed {seed}: give-way {one:?}, {other} {two:?}");
        }
    }
}

const FINGERPRINTS: [&str; 5] = [
    "wait 805f43a324145f42",
    "surpass 92e1bdc0ebb6fdf6",
    "overbook e9e4e8275f5147a1",
    "sidestep 59c0e3f747ef4b88",
    "give-way c6724fd6c6188fc4",
];

const SWF: &str = "; MaxProcs: 64\n1 0 5 100 4 -1 -1 8 200 2048 1 1 1 1 1 -1 -1 -1\n2 3 -1 7 2 -1 -1 -1 -1 -1 1 1 1 1 1 -1 -1 -1\n";
const JSON: &str = r#"{"sessions": [{"id": 7, "submit_s": 1.5, "run_s": 2, "processes": 3, "whole": "core"}, {"id": 8, "run_s": 1, "processes": 1, "submit_s": 2, "with": 7}]}"#;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes are refused with a sentence, or are a workload that can be simulated and printed.
    #[test]
    fn mutated_workloads(
        which in 0usize..4, edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 0..8),
    ) {
        let text = [SWF, JSON, "djsb:simulation=4x1x10,analysis=2x1x1,analyses=2", "lublin:jobs=5,processors=8,load=1"][which];
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match kind {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 => bytes.insert(at, if byte % 2 == 0 { b'0' + byte % 10 } else { byte }),
                _ if !bytes.is_empty() => drop(bytes.remove(at)),
                _ => {}
            }
        }
        let read = match std::str::from_utf8(&bytes).ok().filter(|_| which > 1).and_then(Workload::describe) {
            Some(described) => described,
            None => Workload::read(&bytes, "fuzz"),
        };
        match read {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(workload) if workload.jobs.len() <= 100 => {
                let (outcome, summary) = simulated(&workload, 4, 4, "give-way", "tight");
                prop_assert_eq!(summary.jobs + outcome.refused.len(), workload.jobs.len());
                let mut printed = String::new();
                workload.write_swf(&mut printed).expect("a string takes everything");
            }
            Ok(_) => {}
        }
    }
}

/// Two streams and a program that is small, on two nodes: with a limit the second stream goes to the other node, and both are as fast as alone.
#[test]
fn what_a_trace_says_of_programs_slows_them_and_a_limit_keeps_them_apart() {
    let text = r#"{"sessions": [{"run_s": 10, "processes": 1, "program": "stream"}, {"run_s": 10, "processes": 1, "program": "stream"},
        {"run_s": 20, "processes": 2, "program": "stream", "submit_s": 1, "slowdown_max": 1.1}, {"run_s": 1, "processes": 1, "program": "new"}],
        "slowdowns": {"stream": {"stream": 1.5}}}"#;
    let workload = Workload::read(text.as_bytes(), "test").expect("a workload");
    let cluster = Cluster::uniform(2, Shape::flat(4)).expect("a cluster");
    let ends = |slowdown_max: Option<f64>| {
        let rules =
            Rules { slowdown_max: slowdown_max.map(Slowdown::of_factor), ..Rules::new(Policy::Overbook) };
        let outcome = run(&workload, &cluster, &rules, &Speed::default(), 0, &mut |_| ());
        let fate = |fate: &Fate| (fate.start_ms.expect("it ran"), fate.end_ms);
        outcome.fates.iter().map(fate).collect::<Vec<_>>()
    };
    // The last stream has a limit of its own, and so has a node of its own in any case.
    assert_eq!(ends(None), [(0, 15_000), (0, 15_000), (0, 1_000), (1_000, 21_000)]);
    assert_eq!(ends(Some(1.4)), [(0, 10_000), (0, 10_000), (0, 1_000), (10_000, 30_000)]);
}
