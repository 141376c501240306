//! All that a peer can send, under libFuzzer.

#![no_main]

mod input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    input::check(bytes);
});
