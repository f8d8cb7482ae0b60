#![no_main]

#[path = "../src/workload.rs"]
mod workload;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| workload::any_workload(bytes));
