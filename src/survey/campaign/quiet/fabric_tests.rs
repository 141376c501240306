//! Tests of causes on a model of a dragonfly: packets pass switches and cables, so a part that is
//! slow also slows pairs of NICs that are not at it.

use fastrand::Rng;

use super::findings::{Certainty, Direction, Unit};
use super::testing::{Cluster, Load, named, seeds, survey_of_some};
use super::trials::dragonfly::{FaultTrial, ModelDragonfly, Planted, TRIALS};

/// Surveys of each dragonfly with each fault.
const SEEDS: u64 = 16;

/// The most surveys of a trial that name something that is not slow.
const MOST_WRONG: usize = 1;

/// Returns what a survey names, without what is transient.
fn survey_with_fault(
    shape: [u16; 4],
    planted: Planted,
    (tool, pairs): (&str, &str),
    load: Option<Load>,
    seed: u64,
) -> Vec<(Unit, Certainty, Direction)> {
    let mut cluster = Cluster::new(shape, &[tool], seed);
    cluster.load = load;
    let dragonfly = ModelDragonfly { groups: shape[0], switches: shape[1] };
    cluster.faults = dragonfly.faults(planted, 2.5, &cluster.roster);
    named(&survey_of_some(&mut cluster, pairs, seed))
}

/// Whether each survey of a trial is right, and what those name that name something that is not
/// slow. A path through what is slow is slow.
fn run(trial: &FaultTrial, tool: &str, pairs: &str) -> (Vec<bool>, Vec<String>) {
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    for shape in trial.shapes {
        for seed in seeds(SEEDS) {
            let mut random = Rng::with_seed(seed);
            let (planted, unit, direction) = (trial.plant)(&mut random, *shape);
            let found = survey_with_fault(*shape, planted, (tool, pairs), None, seed);
            let is_it = |(own, _, way): &(Unit, Certainty, Direction)| {
                // With few pairs, those in the other direction may not be measured.
                *own == unit && (*way == direction || *way == Direction::Both)
            };
            let is_on_the_way = |(own, ..): &(Unit, Certainty, Direction)| {
                let Unit::Path(pair) = own else {
                    return false;
                };
                let cluster = Cluster::new(*shape, &[tool], seed);
                let dragonfly = ModelDragonfly { groups: shape[0], switches: shape[1] };
                dragonfly.is_slow(planted, *pair, &cluster.roster)
            };
            right.push(matches!(&found[..], [one] if is_it(one)));
            if !found.iter().all(|one| is_it(one) || is_on_the_way(one)) {
                wrong.push(format!("{shape:?} seed {seed} {planted:?}: {found:?}"));
            }
        }
    }
    (right, wrong)
}

#[test]
fn names_what_is_slow_in_a_dragonfly() {
    let mut failures = Vec::new();
    for trial in &TRIALS {
        let [few, many, all] = trial.right;
        for (tool, pairs, least) in [
            ("write-bw", "random:4", few),
            ("write-bw", "random:8", many),
            ("write-lat", "random:8", many),
            ("write-bw", "all", all),
        ] {
            let (right, wrong) = run(trial, tool, pairs);
            let surveys = right.len();
            let right = right.into_iter().filter(|is_right| *is_right).count();
            let text = format!("{} {tool} {pairs}: {right} of {surveys} right", trial.name);
            if 100 * right < least * surveys || wrong.len() > MOST_WRONG {
                failures.push(format!("{text}\n{}", wrong.join("\n")));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Surveys in which other parts than the slow one look slow as well.
#[test]
fn names_nothing_beside_what_is_slow() {
    let busy = Some(Load { node: None, disturbed: 0.4, untested: 0.1, is_harmless: false });
    let (large, small) = ([4, 2, 4, 1], [5, 2, 3, 1]);
    let switch = Planted::Switch;
    for (shape, planted, pairs, load, seed) in [
        // The other switch of the group: most of its pairs with the effect pass the slow one.
        (large, switch(3, 0), "random:8", busy, 38),
        (large, switch(2, 1), "all", busy, 35),
        (small, switch(3, 1), "all", busy, 11),
        (small, switch(2, 1), "random:8", busy, 4),
        (small, switch(4, 1), "random:8", busy, 16),
        // Links between groups that end at it.
        (small, switch(4, 1), "random:4", None, 23),
        (small, switch(2, 1), "random:4", None, 24),
        (small, switch(4, 0), "random:4", None, 38),
        // A NIC with slow pairs on one way only: those in the other direction have another link.
        ([6, 2, 2, 1], Planted::OneWay(1, 4), "random:4", None, 9),
        ([6, 2, 2, 1], Planted::OneWay(5, 3), "random:4", None, 23),
    ] {
        let found = survey_with_fault(shape, planted, ("write-bw", pairs), load, seed);
        let is_it = |(unit, ..): &(Unit, Certainty, Direction)| match (unit, planted) {
            (Unit::Path(_), _) => true,
            (Unit::Switch { group, switch }, Planted::Switch(..)) => {
                planted == Planted::Switch(*group, *switch)
            }
            (Unit::GroupPair(one, other), Planted::OneWay(from, to)) => {
                (*one, *other) == (from.min(to), from.max(to))
            }
            _ => false,
        };
        let is_right = found.iter().all(is_it);
        assert!(is_right, "{shape:?} {seed} {planted:?}: {found:?}");
    }
}

#[test]
fn names_no_path_of_links_that_are_slow_in_one_direction() {
    let links = Unit::GroupPair(0, 1);
    let mut found = 0;
    for seed in 0..20 {
        let planted = Planted::OneWay(0, 1);
        let survey = ("write-lat", "random:4");
        let named = survey_with_fault([4, 2, 2, 1], planted, survey, None, seed);
        assert!(named.iter().all(|one| one.0 == links), "{seed}: {named:?}");
        found += named.len();
    }
    assert!(found >= 10, "{found}");
}

/// All pairs of two of three groups pass the slow switch. Their NICs are two thirds of all, but
/// most pairs are good.
#[test]
fn names_the_slow_switch_between_two_of_three_groups() {
    for seed in 0..20 {
        let survey = ("write-bw", "random:4");
        let named = survey_with_fault([3, 4, 2, 1], Planted::Switch(2, 0), survey, None, seed);
        let slow = Unit::Switch { group: 2, switch: 0 };
        assert_eq!(named, [(slow, Certainty::Bad, Direction::Both)], "{seed}");
    }
}
