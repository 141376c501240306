//! The verdicts about the first clusters of each trial. `tests/bench/blame.rs` counts the verdicts
//! about thousands of clusters.

use std::thread;

use super::trials;
use crate::survey::trials::{self as survey_trials, Outcome, Trial};

/// Clusters of each trial.
const SEEDS: u64 = 5;

/// The verdicts, as `CXIDIAG_UPDATE_DOCS=1 cargo test -p cluster trial` writes them.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/load/trials.txt");

/// Returns the word of an outcome in the file.
fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Right => "right",
        Outcome::Suspect => "suspect",
        Outcome::Partly => "partly",
        Outcome::Undecided => "undecided",
        Outcome::CalledGood => "called-good",
        Outcome::WrongName => "wrong-name",
        Outcome::SuspectsInnocent => "suspects-innocent",
        Outcome::BlamesInnocent => "blames-innocent",
    }
}

fn line(trial: &Trial) -> String {
    let words = (0..SEEDS).map(|seed| word((trial.survey)(seed).outcome));
    format!("{}: {}\n", trial.name, words.collect::<Vec<_>>().join(" "))
}

/// A change for the better is written to the file; read the difference, no line may be worse.
#[test]
fn verdicts_of_trials_are_as_right_as_they_were() {
    let trials: Vec<Trial> = survey_trials::trials().into_iter().chain(trials::trials()).collect();
    let (first, second) = trials.split_at(trials.len() / 2);
    let lines = |trials: &[Trial]| trials.iter().map(line).collect::<String>();
    let found = thread::scope(|scope| {
        let first = scope.spawn(|| lines(first));
        let second = lines(second);
        first.join().expect("trials") + &second
    });
    if std::env::var_os("CXIDIAG_UPDATE_DOCS").is_some() {
        std::fs::write(FILE, &found).expect("the file is written");
    }
    let known = std::fs::read_to_string(FILE).expect("a file");
    let differing: Vec<(&str, &str)> =
        known.lines().zip(found.lines()).filter(|(one, other)| one != other).collect();
    assert!(known == found, "before and now: {differing:#?}");
}
