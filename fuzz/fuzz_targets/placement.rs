#![no_main]

#[path = "../src/placement.rs"]
mod placement;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| placement::any_text(bytes));
