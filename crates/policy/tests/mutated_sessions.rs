//! Workloads and messages about sessions, changed a little at random: what has to hold for any bytes holds for these.

#[path = "../../../fuzz/src/session_protocol.rs"]
mod session_protocol;
#[path = "../../../fuzz/src/workload.rs"]
mod workload;

use castell_base::Rank;
use castell_base::random::Philox;
use castell_policy::session::workload::Workload;
use rand_core::RngCore;

const JSON: &str = r#"{"sessions": [{"id": 1, "run_s": 9, "processes": 4, "threads": 2, "whole": "core", "role": "simulation"},
    {"run_s": 2, "slots": [3, 1]}, {"run_s": 1.5, "program": "a", "slowdown_max": 1.5, "submit_s": 2, "processes": 16, "with": 1, "memory_bytes": 4096, "per_node_max": 8, "priority": 3}],
    "slowdowns": {"a": {"a": 1.25}}}"#;
const SAID: &str = r#"{"hello":{"version":3}}
{"run":{"slots":3,"priority":1,"estimate_ms":9,"with":null,"policy":null,"command":"ls","pid":4,"mark":"4-7@n1","spawned_by":null}}
{"run":{"slots":14,"memory_bytes":4096,"estimate_ms":null,"with":1,"policy":"wait","command":"ls","program":"aa","slowdown_max":1.5,"pid":5,"mark":"5-7@n1","spawned_by":"4-7@n1"}}
{"run":{"slots":2,"cpus":{"node":null,"cpus":[1,12]},"estimate_ms":null,"with":null,"policy":null,"command":"ls","pid":6,"mark":"6-7@n1","spawned_by":null}}
{"order":{"session":1,"order":{"needs":{"slots":2,"cpus":null,"memory_bytes":4}}}}
{"order":{"session":1,"order":{"stop":{}}}}
{"order":{"session":2,"order":{"priority":{"priority":2}}}}
{"order":{"session":2,"order":{"slowdown_max":{"slowdown_max":1.25}}}}
{"slowdown_max":{"slowdown_max":1.2}}
{"policy":{"policy":"surpass"}}
{"order":{"session":2,"order":{"estimate":{"estimate_ms":9}}}}
{"explain":{"session":2}}
{"policy":{"policy":"sidestep+spread"}}
{"order":{"session":1,"order":{"resume":{}}}}
{"ended":{}}
{"order":{"session":2,"order":{"end":{}}}}
{"start":{"session":1,"parts":[{"node":"n1","cpus":[0,1],"slots":2}],"remote":["ssh"]}}
{"hold":{"mark":"4-7@n1","cpus":[0],"suspended":true,"turn":3}}
{"ordered":{"policy":"wait","session":{"session":1,"state":"running","stopped":false,"paused":false,"for_ms":7,"slots":2,"priority":0,"parts":[],"pid":4,"command":"ls"}}}
{"explained":{"shown":{"session":2,"state":"waiting","stopped":false,"paused":false,"for_ms":7,"slots":2,"priority":0,"parts":[],"pid":5,"command":"ls"},"policy":"wait","estimate_ms":null,"ran_ms":0,"free":0,"before":[1],"holders":[{"session":1,"state":"running","slots":2,"left_ms":4,"command":"ls"}],"begins_in_ms":4,"suspensions":0,"suspended_by":[],"stops":1}}
{"explained":{"shown":{"session":1,"state":"running","stopped":false,"paused":false,"for_ms":7,"slots":2,"priority":0,"parts":[],"slowdown":{"slowdown":1.3,"low":1.2,"high":1.4,"comparisons":2,"cannot_tell":false,"because":"x"},"slowdown_max":1.2,"pid":5,"user":"a","command":"ls"},"policy":"wait","estimate_ms":null,"ran_ms":0,"free":0,"offline":0,"before":[],"holders":[],"beside":[{"session":2,"command":"ls","slows":null,"slowed":null}],"held_back":[{"beside":1,"slowed":2,"slowdown":1.5,"slowdown_max":1.25}],"begins_in_ms":4,"suspensions":0,"suspended_by":[],"stops":1}}
{"hello":{"version":3,"cores":[[0,1]],"memory_bytes":4096,"abandoned":["4-7@n1"]}}
"#;

fn swf() -> String {
    let workload = Workload::describe("lublin:jobs=12").expect("a workload").expect("a right one");
    let mut text = String::new();
    workload.write_swf(&mut text).expect("strings can be written");
    text
}

/// A few bytes of a text replaced, taken out or repeated elsewhere; the same for the same round.
fn mutated(text: &str, round: u64) -> Vec<u8> {
    let mut random = Philox::new(12, Rank(0), round, 0);
    let mut below = |end: usize| (random.next_u64() % end.max(1) as u64) as usize;
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + below(4) {
        let (at, from) = (below(bytes.len()), below(bytes.len()));
        match below(3) {
            0 => bytes[at] = b"0129-.e\"{}[]:,\n \xff"[below(17)],
            1 => drop(bytes.drain(at..(at + 1 + below(8)).min(bytes.len() - 1).max(at))),
            _ => {
                let piece = bytes[from..(from + 1 + below(20)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece).for_each(drop);
            }
        }
    }
    bytes
}

fn all(text: &str, property: fn(&[u8])) {
    property(text.as_bytes());
    for round in 0..2_000 {
        let bytes = mutated(text, round);
        let outcome = std::panic::catch_unwind(|| property(&bytes));
        assert!(outcome.is_ok(), "round {round}: {:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn any_workload_is_refused_or_ends() {
    all(&swf(), workload::any_workload);
    all(JSON, workload::any_workload);
}

#[test]
fn whatever_is_said_breaks_no_scheduler() {
    all(SAID, session_protocol::anything_said);
}
