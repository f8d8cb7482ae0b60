#![no_main]

#[path = "../src/session_protocol.rs"]
mod session_protocol;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| session_protocol::anything_said(bytes));
