#![no_main]

#[path = "../src/esp.rs"]
mod esp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esp::any_bytes(bytes));
