//! Who is to blame: the causes of the pairs outside the limits (jobs.md 3.3). Transient pairs are
//! explained by themselves, and a test whose population is mixed has no limits.

use std::collections::{BTreeSet, HashSet};

use super::evidence::Evidence;
use super::failures::keep_failures;
use super::limits::Limits;
use super::outside::{Outside, Standing};
use super::roster::Roster;
use super::search::{Cause, search};
use super::units::members;
use super::verdict::{LimitSource, Unit};

/// A population is mixed if the culprits are more than this part of its NICs,
const MOST_BLAMED: f64 = 1.0 / 3.0;
/// or if no part explains this part of its pairs, and at least three of them.
const MOST_UNEXPLAINED: f64 = 0.05;

/// or if this part of its pairs, and at least two of them, are as much better than the median as the
/// limit is worse: the median is that of a bad part.
const MOST_BETTER: f64 = 0.1;

/// The causes of all pairs outside the limits.
#[derive(Debug)]
pub struct Causes {
    /// The causes.
    pub causes: Vec<Cause>,
    /// Tests whose populations are mixed, so that they have no limits.
    pub mixed: BTreeSet<u16>,
}

/// Returns the causes of the pairs outside the limits. Transient pairs are explained by themselves.
pub fn causes(evidence: &Evidence, limits: &Limits, roster: &Roster) -> Causes {
    let mut outside = evidence.outside(limits, roster);
    keep_failures(&mut outside, |nic| evidence.answers(nic));
    let (transient, lasting): (Vec<Outside>, Vec<Outside>) = outside
        .into_iter()
        .partition(|one| one.standing == Standing::Transient);
    let mut mixed = BTreeSet::new();
    let lasting_causes = loop {
        let kept = lasting
            .iter()
            .filter(|one| one.source != LimitSource::Population || !mixed.contains(&one.test));
        let causes = search(evidence, limits, roster, kept.copied().collect());
        let found = mixed_tests(&causes, evidence, limits, roster);
        if found.is_subset(&mixed) {
            break causes;
        }
        mixed.extend(found);
    };
    let blamed: HashSet<u32> = lasting_causes
        .iter()
        .flat_map(|cause| members(cause.unit, roster))
        .collect();
    let unexplained = transient.into_iter().filter(|one| {
        !blamed.contains(&one.pair.initiator)
            && !blamed.contains(&one.pair.target)
            && !mixed.contains(&one.test)
    });
    let mut causes = lasting_causes;
    causes.extend(search(evidence, limits, roster, unexplained.collect()));
    Causes { causes, mixed }
}

/// Returns the tests whose populations are mixed, so that they have no limits (jobs.md 3.4).
fn mixed_tests(
    causes: &[Cause],
    evidence: &Evidence,
    limits: &Limits,
    roster: &Roster,
) -> BTreeSet<u16> {
    let is_mixed = |test: &u16| {
        let nics = roster.nics.iter().enumerate().filter(|(nic, _)| {
            evidence
                .counts(*test, *nic as u32)
                .iter()
                .flatten()
                .any(|count| *count > 0)
        });
        let measured: u32 = (0..roster.nics.len())
            .map(|nic| evidence.counts(*test, nic as u32)[0].iter().sum::<u32>())
            .sum();
        let by_population = |cause: &&Cause| {
            cause
                .pairs
                .iter()
                .any(|one| one.test == *test && one.source == LimitSource::Population)
        };
        let (paths, units): (Vec<&Cause>, Vec<&Cause>) = causes
            .iter()
            .filter(by_population)
            .partition(|cause| matches!(cause.unit, Unit::Path(_)));
        let blamed: HashSet<u32> = units
            .iter()
            .flat_map(|cause| members(cause.unit, roster))
            .collect();
        let unexplained = paths
            .iter()
            .flat_map(|cause| &cause.pairs)
            .filter(|one| one.test == *test)
            .count();
        let has_culprit = !units.is_empty() || !paths.is_empty();
        let (pairs, better) = evidence.better(*test, limits);
        (has_culprit && better >= 2 && better as f64 > MOST_BETTER * pairs as f64)
            || blamed.len() as f64 > MOST_BLAMED * nics.count() as f64
            || (unexplained >= 3 && unexplained as f64 > MOST_UNEXPLAINED * f64::from(measured))
    };
    (0..evidence.tests().len() as u16)
        .filter(is_mixed)
        .collect()
}
