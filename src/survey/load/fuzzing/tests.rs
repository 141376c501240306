//! A fixed number of inputs for each target.

use facts::text::MOST_TEXT;

use super::*;
use crew::star::fuzzing::FuzzTarget;

/// Variable with the number of inputs for each target.
const RUNS: &str = "CXIDIAG_FUZZ_RUNS";

/// The messages that do more than change the state of a connection.
const WITH_EFFECT: [&str; 12] = [
    "hello",
    "knock",
    "join",
    "begun",
    "report",
    "report of load",
    "checked",
    "copied memory",
    "order",
    "order of course",
    "order of block",
    "order of end",
];

/// Changes an input in one place.
fn mutate(rng: &mut fastrand::Rng, input: &mut Vec<u8>, others: &[FuzzTarget]) {
    const EXTREMES: [&[u8]; 8] = [
        &[0; 8],
        &[0xff; 8],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &f64::NAN.to_le_bytes(),
        &f64::NEG_INFINITY.to_le_bytes(),
        &(-1.0_f64).to_le_bytes(),
        &1e300_f64.to_le_bytes(),
    ];
    if input.is_empty() {
        input.push(rng.u8(..));
    }
    let place = rng.usize(..input.len());
    match rng.u8(..7) {
        0 => input[place] = rng.u8(..),
        1 => input[place] ^= 1 << rng.u8(..8),
        2 => input.insert(place, rng.u8(..)),
        3 => drop(input.remove(place)),
        4 => {
            let more = EXTREMES[rng.usize(..EXTREMES.len())];
            let end = (place + more.len()).min(input.len());
            let place = if rng.bool() { place..end } else { place..place + 1 };
            input.splice(place, more.iter().copied());
        }
        5 => {
            let other = &others[rng.usize(..others.len())].seed;
            let end = (place + rng.usize(..32)).min(other.len()).min(input.len());
            if place < end {
                input[place..end].copy_from_slice(&other[place..end]);
            }
        }
        _ => {
            let text = [b'\x1b', b'x'][rng.usize(..2)];
            let count = rng.usize(..2 * MOST_TEXT);
            input.splice(place..place, std::iter::repeat_n(text, count));
        }
    }
}

/// Gives each target ten million inputs, with checks of overflows:
/// `CXIDIAG_FUZZ_RUNS=10000000 CARGO_PROFILE_TEST_OPT_LEVEL=2 cargo test -p cluster fuzzing
/// --target-dir target/fuzz`.
#[test]
fn no_message_does_harm() {
    let runs = std::env::var(RUNS).map_or(300, |runs| runs.parse().expect(RUNS));
    let targets = targets();
    for (number, target) in targets.iter().enumerate() {
        let mut fuzzer = Fuzzer::default();
        let mut rng = fastrand::Rng::with_seed(number as u64);
        // Valid messages have their effects, in some state.
        (0..6).for_each(|state| fuzzer.receive(target.receiver, state, &target.seed));
        let has_effect = WITH_EFFECT.contains(&target.name);
        assert!(fuzzer.accepted() > 0 || !has_effect, "{}", target.name);
        for run in 0..runs {
            let mut input = target.seed.clone();
            for _ in 0..=rng.u8(..4) {
                mutate(&mut rng, &mut input, &targets);
            }
            fuzzer.receive(target.receiver, run as u8, &input);
        }
        let accepted = fuzzer.accepted();
        println!("{}: {runs} inputs, {accepted} accepted", target.name);
    }
}
