//! Messages changed a little at random, and mailboxes in which anything is written: what has to hold for any bytes holds for these.

#[path = "../../../fuzz/src/kernels.rs"]
mod kernels;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const SAID: &str = r#"{"hello":{"version":1}}
{"application":{"version":1,"name":"a","pid":7}}
{"shape":{"kernels":[["one_core",5],["gpu",null]],"rankings":[["performance",["gpu","one_core"]],["energy",["one_core","gpu"]]]}}
{"shape":{"kernels":[["fpga",5]],"rankings":[]}}
{"own":{"name":"mine","script":"return {}","parameters":[]}}
{"own":{"name":"banking","script":null,"parameters":[["limit","9"]]}}
{"own":null}
{"open":{}}
{"status":{}}
{"load":{"name":"mine","script":"return {}","parameters":[["limit","9"]]}}
{"governor":{"level":"low"}}
{"sensor":{"name":"battery","value":0.5}}
{"done":{"refused":null}}
{"own":{"number":1,"stopped":"why"}}
{"status":{"strategy":"a","governor":"high","resources":[],"waiting":[],"applications":[],"done":1,"steps":2}}
"#;

#[test]
fn whatever_is_said_is_refused_or_understood() {
    kernels::anything_said(SAID.as_bytes());
    for seed in 0..2_000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut bytes = SAID.as_bytes().to_vec();
        for _ in 0..random.random_range(1..6) {
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..3) {
                0 => bytes[at] = random.random(),
                1 => _ = bytes.remove(at),
                _ => bytes.insert(at, b"{}[]\",0\n"[random.random_range(0..8)]),
            }
        }
        let outcome = std::panic::catch_unwind(|| kernels::anything_said(&bytes));
        assert!(outcome.is_ok(), "seed {seed}: {}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn whatever_is_written_breaks_no_desk() {
    for seed in 0..500 {
        let mut bytes = vec![0; 1_200];
        ChaCha8Rng::seed_from_u64(seed).fill(&mut bytes[..]);
        // Few slots, so that they meet; few applications that write what they must not, so that runs go on.
        for command in bytes.as_chunks_mut::<4>().0 {
            command[1] %= 6;
            if command[0] >> 1 & 7 == 3 && command[3] % 8 > 0 {
                command[0] = 10 | command[0] & 1;
            }
        }
        let outcome = std::panic::catch_unwind(|| kernels::anything_written(&bytes));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
