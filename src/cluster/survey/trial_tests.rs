//! Trials: surveys of models with a planted fault and with busy CPUs. The verdicts are counted by
//! how right they are. `CXIDIAG_TRIALS=30` runs as many seeds, and larger clusters.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::Pair;
use super::conductor::Conductor;
use super::findings::{Certainty, Findings, Population, Unit};
use super::ids::NicId;
use super::population::LEAST_FIGURES;
use super::testing::{Cluster, Effect, run, settings};
use super::trials::busy::{LOADS, SHAPES, Truth};
use super::units::members;

/// How right a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It names what is wrong, and nothing else.
    Right,
    /// It leaves open what is wrong, and calls nothing bad that is good.
    Undecided,
    /// It calls a good part bad.
    WrongName,
    /// It calls a bad NIC good.
    Missed,
}

/// Returns the NICs of a part, or the ends of a path.
fn nics(unit: Unit, cluster: &Cluster) -> Vec<NicId> {
    match unit {
        Unit::Path(pair) => Pair::nics(pair).into(),
        _ => members(unit, &cluster.roster),
    }
}

fn outcome(truth: Truth, cluster: &Cluster, findings: &Findings) -> Outcome {
    let named = |certainty| {
        let causes = findings.causes.iter();
        causes.filter(move |cause| cause.certainty == certainty)
    };
    let faults = cluster.faults.iter();
    let guilty: BTreeSet<NicId> = faults.flat_map(|fault| nics(fault.unit, cluster)).collect();
    let bad = || named(Certainty::Bad).map(|cause| cause.unit);
    let is_innocent = |unit: Unit| {
        let unit_nics = nics(unit, cluster);
        match unit {
            Unit::Path(_) => !unit_nics.iter().any(|nic| guilty.contains(nic)),
            _ => unit_nics.is_empty() || !unit_nics.iter().all(|nic| guilty.contains(nic)),
        }
    };
    if truth == Truth::FivePercent && named(Certainty::Bad).next().is_some() {
        return Outcome::WrongName;
    }
    if bad().any(is_innocent) {
        return Outcome::WrongName;
    }
    // A class says which faults it could not have found.
    let slow = cluster.faults.iter().filter_map(|fault| match fault.effect {
        Effect::Slow(factor) => Some(factor),
        _ => None,
    });
    let least = slow.fold(f64::INFINITY, f64::min);
    let is_judged = |population: &Population| {
        let finds = population.sensitivity.is_none_or(|ratio| ratio <= least);
        population.count < LEAST_FIGURES as u64 || population.limit.is_some() && finds
    };
    let is_decided = findings.populations.iter().all(is_judged);
    let untested = findings.untested.iter().flat_map(|part| match part.unit {
        Unit::Path(_) => Vec::new(),
        unit => nics(unit, cluster),
    });
    let open: BTreeSet<NicId> = named(Certainty::Suspect)
        .flat_map(|cause| nics(cause.unit, cluster))
        .chain(untested)
        .collect();
    let found: BTreeSet<NicId> = bad().flat_map(|unit| nics(unit, cluster)).collect();
    let is_complete = guilty.is_subset(&found) || truth == Truth::FivePercent;
    let has_suspects = named(Certainty::Suspect).next().is_some();
    let is_full = findings.answered == findings.planned && is_decided && !has_suspects;
    if is_complete && (is_full || !guilty.is_empty()) {
        Outcome::Right
    } else if truth == Truth::FivePercent {
        Outcome::Undecided
    } else if !guilty.is_empty()
        && is_decided
        && guilty.iter().any(|nic| !found.contains(nic) && !open.contains(nic))
    {
        Outcome::Missed
    } else {
        Outcome::Undecided
    }
}

/// The shapes of the short form.
const FEW_SHAPES: usize = 9;

#[test]
fn names_what_is_planted_and_calls_nothing_else_bad() {
    let seeds = std::env::var("CXIDIAG_TRIALS").ok();
    let is_long = seeds.is_some();
    let seeds: u64 = seeds.map_or(2, |seeds| seeds.parse().unwrap());
    let discards = std::env::var("CXIDIAG_TRIALS_DISCARD").is_ok();
    let mut counts: BTreeMap<(Truth, usize), [u32; 4]> = BTreeMap::new();
    let mut worst = Vec::new();
    let shapes = &SHAPES[..if is_long { SHAPES.len() } else { FEW_SHAPES }];
    for truth in Truth::ALL {
        for (number, (load, disturbed, untested)) in LOADS.into_iter().enumerate() {
            for (shape, pairs) in shapes {
                if !truth.fits(*shape) {
                    continue;
                }
                for seed in 0..seeds {
                    let mut cluster = truth.cluster(*shape, (disturbed, untested), discards, seed);
                    let (roster, tests) = (cluster.roster.clone(), cluster.tests.clone());
                    let mut conductor =
                        Conductor::new(roster, tests, settings(pairs, seed)).unwrap();
                    run(&mut cluster, &mut conductor);
                    let findings = conductor.findings();
                    let outcome = outcome(truth, &cluster, &findings);
                    counts.entry((truth, number)).or_default()[outcome as usize] += 1;
                    if outcome >= Outcome::WrongName {
                        let causes = findings.causes.iter();
                        let named: Vec<_> = causes
                            .map(|cause| (cause.unit, cause.certainty, cause.direction))
                            .collect();
                        worst.push(format!(
                            "{truth:?}, {load}, {shape:?} {pairs}, seed {seed}: {outcome:?}: {named:?}"
                        ));
                    }
                }
            }
        }
    }
    println!("right / undecided / wrong name / bad NIC called good");
    for truth in Truth::ALL {
        let load_texts = LOADS.iter().enumerate().map(|(number, (load, ..))| {
            let [right, undecided, wrong, missed] =
                counts.get(&(truth, number)).copied().unwrap_or_default();
            format!("{load} {right:4}/{undecided:4}/{wrong:3}/{missed:3}")
        });
        println!("{:16} {}", format!("{truth:?}"), load_texts.collect::<Vec<_>>().join("  "));
    }
    for one in worst.iter().take(60) {
        println!("{one}");
    }
    assert!(worst.is_empty(), "{} wrong:\n{}", worst.len(), worst.join("\n"));
}
