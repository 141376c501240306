//! The verdicts about the first clusters of each trial. `tests/bench/blame.rs` counts the verdicts
//! about thousands of clusters.

use std::ops::Range;
use std::thread;

use super::trials;
use campaign::quiet::testing::seeds;
use campaign::quiet::trials as survey_trials;
use campaign::quiet::trials::{Correctness, Trial};

/// Clusters of each trial in the file.
const SEEDS: u64 = 5;

/// The verdicts, as `CXIDIAG_UPDATE_DOCS=1 cargo test -p load trial` writes them.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/trials.txt");

/// Returns the word of an outcome in the file.
fn word(outcome: Correctness) -> &'static str {
    match outcome {
        Correctness::Right => "right",
        Correctness::Suspect => "suspect",
        Correctness::Partly => "partly",
        Correctness::Undecided => "undecided",
        Correctness::CalledGood => "called-good",
        Correctness::WrongName => "wrong-name",
        Correctness::SuspectsInnocent => "suspects-innocent",
        Correctness::BlamesInnocent => "blames-innocent",
    }
}

fn line(trial: &Trial, seeds: Range<u64>) -> String {
    let words = seeds.map(|seed| word((trial.survey)(seed).outcome));
    format!("{}: {}\n", trial.name, words.collect::<Vec<_>>().join(" "))
}

/// A change for the better is written to the file; read the difference, no line may be worse.
#[test]
fn verdicts_of_trials_are_as_right_as_they_were() {
    let trials: Vec<Trial> = survey_trials::trials().into_iter().chain(trials::trials()).collect();
    let (first, second) = trials.split_at(trials.len() / 2);
    let is_update = std::env::var_os("CXIDIAG_UPDATE_DOCS").is_some();
    let seeds = if is_update { 0..SEEDS } else { seeds(SEEDS) };
    let lines = |trials: &[Trial]| {
        trials.iter().map(|trial| line(trial, seeds.clone())).collect::<String>()
    };
    let found = thread::scope(|scope| {
        let first = scope.spawn(|| lines(first));
        let second = lines(second);
        first.join().expect("trials") + &second
    });
    if is_update {
        std::fs::write(FILE, &found).expect("the file is written");
    }
    let known = std::fs::read_to_string(FILE).expect("a file");
    // The file may have the words of further clusters.
    let differs = |(one, other): &(&str, &str)| {
        one.split(' ').zip(other.split(' ')).any(|(one, other)| one != other)
    };
    let differing: Vec<(&str, &str)> = known.lines().zip(found.lines()).filter(differs).collect();
    let has_all = known.lines().count() == found.lines().count();
    assert!(has_all && differing.is_empty(), "before and now: {differing:#?}");
}
