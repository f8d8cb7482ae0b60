#![no_main]

#[path = "../src/tcp.rs"]
mod tcp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tcp::any_bytes(bytes));
