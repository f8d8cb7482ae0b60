#![no_main]

#[path = "../src/models.rs"]
mod models;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| models::any_text(bytes));
