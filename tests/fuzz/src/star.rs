//! All that members and coordinator of a survey can send each other, under libFuzzer. The first
//! byte chooses the receiver, the second the state of the connection.

#![no_main]

use std::cell::RefCell;

use load::fuzzing::{Fuzzer, RECEIVERS};

thread_local! {
    static FUZZER: RefCell<Fuzzer> = RefCell::default();
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let [receiver, state, bytes @ ..] = bytes {
        let receiver = RECEIVERS[usize::from(*receiver) % RECEIVERS.len()];
        FUZZER.with_borrow_mut(|fuzzer| fuzzer.receive(receiver, *state, bytes));
    }
});
