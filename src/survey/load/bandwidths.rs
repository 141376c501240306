//! Bandwidths under a pattern.

use std::collections::BTreeMap;

use super::findings::BandwidthFigures;
use super::limits::{SHARE, worst};
use super::names::pattern_name;
use super::pattern::{Pattern, Set};
use super::rates::SlotRates;
use super::theory::FabricShape;
use super::{sets, stars};
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;
use facts::robust::{mean, median, quantile, sorted};

/// The percentiles in the figures of a pattern.
const PERCENTILES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

/// Returns the mean rate of each NIC that sent, over its slots.
fn means_of_nics(slots: &[SlotRates]) -> Vec<f64> {
    let mut sums: BTreeMap<NicId, (f64, u32)> = BTreeMap::new();
    for sent in slots.iter().flat_map(|slot| &slot.sent) {
        let (sum, count) = sums.entry(sent.source).or_default();
        *sum += sent.rate;
        *count += 1;
    }
    let means = sums.into_values();
    means.map(|(sum, count)| sum / f64::from(count)).collect()
}

/// Returns the median over NICs of their mean rate; `None` without any.
pub fn median_of_nics(slots: &[SlotRates]) -> Option<f64> {
    median(&means_of_nics(slots))
}

/// What the figures of a pattern are compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Yardstick {
    /// The bandwidth without load, in bytes per second, if it was measured.
    pub quiet: Option<f64>,
    /// The shape of the fabric, if it is known and the load is not partial.
    pub shape: Option<FabricShape>,
}

/// Returns the figures of the NICs, of the parts of the fabric and of targets under a pattern.
pub fn figures(
    roster: &Roster,
    pattern: Pattern,
    slots: &[SlotRates],
    yardstick: Yardstick,
) -> BandwidthFigures {
    let nics = sorted(&means_of_nics(slots));
    // NICs whose results do not count send as well.
    let in_slot = |slot: &SlotRates| (slot.sent.len() + slot.unjudged.len()) as f64;
    let senders: Vec<f64> = slots.iter().map(in_slot).collect();
    let at = |part: f64| {
        if nics.is_empty() { 0.0 } else { quantile(&nics, part) }
    };
    let mean_of_nic = mean(&nics);
    let quiet = yardstick.quiet.filter(|quiet| *quiet > 0.0);
    let shape = yardstick.shape.zip(quiet);
    let theory = shape.and_then(|(shape, quiet)| shape.scaled_to(quiet).nic_value(pattern));
    let share_of_theory = mean_of_nic.zip(theory).map(|(mean, theory)| mean / theory);
    let ratio_to_quiet = mean_of_nic.zip(quiet).map(|(mean, quiet)| mean / quiet);
    let sets = sets::figures(roster, pattern, slots, theory);
    let stars = match pattern {
        Pattern::Incast(_) => stars::figures(slots, quiet),
        _ => Vec::new(),
    };
    let share_grade =
        share_of_theory.filter(|_| is_judged_by_share(pattern)).map(|share| SHARE.grade(share));
    let set_grades = sets.iter().map(|set| set.grade);
    let star_grades = stars.iter().map(|star| star.grade);
    let grade = worst(share_grade.into_iter().chain(set_grades).chain(star_grades));
    BandwidthFigures {
        pattern: pattern_name(pattern),
        slots: slots.len() as u32,
        nics: nics.len() as u32,
        unjudged: slots.iter().map(|slot| slot.unjudged.len() as u32).sum(),
        mean: mean_of_nic.unwrap_or(0.0),
        sum: mean_of_nic.unwrap_or(0.0) * mean(&senders).unwrap_or(0.0),
        min: at(0.0),
        p1: at(0.01),
        percentiles: PERCENTILES.map(at),
        theory,
        share_of_theory,
        ratio_to_quiet,
        sets,
        stars,
        grade,
    }
}

/// Returns whether the share of theory is a verdict: a worst shift may be slow in a good fabric.
pub fn is_judged_by_share(pattern: Pattern) -> bool {
    matches!(pattern, Pattern::AllToAll | Pattern::Bisect { of: Set::System, .. })
}
