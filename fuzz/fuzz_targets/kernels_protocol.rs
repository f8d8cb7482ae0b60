#![no_main]

#[path = "../src/kernels.rs"]
mod kernels;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kernels::anything_said(bytes);
    kernels::anything_written(bytes);
});
