#![no_main]

#[path = "../src/access_trace.rs"]
mod access_trace;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| access_trace::any_bytes(bytes));
