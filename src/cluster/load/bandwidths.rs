//! Bandwidths of NICs under a pattern.

use std::collections::BTreeMap;

use super::findings::{BandwidthFigures, Grade};
use super::names::pattern_name;
use super::pattern::Pattern;
use super::rates::SlotRates;
use super::statistics::{mean, median, quantile, sorted};
use crate::survey::ids::NicId;

/// The percentiles in the figures of a pattern.
const PERCENTILES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

/// Returns the mean rate of each NIC that sent, over its slots.
fn means_of_nics(slots: &[SlotRates]) -> Vec<f64> {
    let mut of_nics: BTreeMap<NicId, (f64, u32)> = BTreeMap::new();
    for sent in slots.iter().flat_map(|slot| &slot.sent) {
        let (sum, count) = of_nics.entry(sent.source).or_default();
        *sum += sent.rate;
        *count += 1;
    }
    let means = of_nics.into_values();
    means.map(|(sum, count)| sum / f64::from(count)).collect()
}

/// Returns the median over NICs of their mean rate; `None` without any.
pub fn median_of_nics(slots: &[SlotRates]) -> Option<f64> {
    median(&means_of_nics(slots))
}

/// Returns the figures of the NICs under a pattern, without theory, sets and stars. `quiet` is the
/// bandwidth without load.
pub fn figures(pattern: Pattern, slots: &[SlotRates], quiet: Option<f64>) -> BandwidthFigures {
    let nics = sorted(&means_of_nics(slots));
    let in_slot = |slot: &SlotRates| slot.sent.iter().map(|of| of.rate).sum::<f64>();
    let sums: Vec<f64> = slots.iter().map(in_slot).collect();
    let at = |part: f64| {
        if nics.is_empty() {
            0.0
        } else {
            quantile(&nics, part)
        }
    };
    let mean_of_nic = mean(&nics).unwrap_or(0.0);
    BandwidthFigures {
        pattern: pattern_name(pattern),
        slots: slots.len() as u32,
        nics: nics.len() as u32,
        unjudged: slots.iter().map(|slot| slot.unjudged).sum(),
        mean: mean_of_nic,
        sum: mean(&sums).unwrap_or(0.0),
        min: at(0.0),
        p1: at(0.01),
        percentiles: PERCENTILES.map(at),
        theory: None,
        share_of_theory: None,
        ratio_to_quiet: quiet
            .filter(|quiet| *quiet > 0.0)
            .map(|quiet| mean_of_nic / quiet),
        sets: Vec::new(),
        stars: Vec::new(),
        grade: Grade::Unjudged,
    }
}
