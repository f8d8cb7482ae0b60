#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| castell_fuzz::paraver(bytes));
