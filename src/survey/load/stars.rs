//! Targets to which many NICs send: sum and fairness.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::StarFigures;
use super::limits::{FAIRNESS, INCAST_SUM, SMALLEST_SHARE, worst};
use super::rates::SlotRates;
use campaign::quiet::ids::NicId;
use facts::robust::{mean, median};

/// The slots of one target so far.
#[derive(Default)]
struct StarSlots {
    sources: usize,
    sums: Vec<f64>,
    fairness: Vec<f64>,
    smallest: Vec<f64>,
}

/// Returns the figures of all targets, the worst first. A target counts in a slot if the rates of
/// all of its sources are known. `quiet` is the bandwidth without load.
pub fn figures(slots: &[SlotRates], quiet: Option<f64>) -> Vec<StarFigures> {
    let mut target_lists: BTreeMap<NicId, StarSlots> = BTreeMap::new();
    for slot in slots {
        let incomplete: BTreeSet<NicId> = slot.unknown_flows().map(|(_, target)| target).collect();
        let mut shares: BTreeMap<NicId, Vec<f64>> = BTreeMap::new();
        for (_, target, rate) in slot.flows() {
            shares.entry(target).or_default().push(rate);
        }
        shares.retain(|target, _| !incomplete.contains(target));
        for (target, shares) in shares {
            let star = target_lists.entry(target).or_default();
            star.sources = star.sources.max(shares.len());
            star.sums.push(shares.iter().sum());
            star.fairness.extend(fairness(&shares));
            star.smallest.extend(smallest_share(&shares));
        }
    }
    let figures =
        target_lists.into_iter().filter_map(|(target, star)| target_star(target, &star, quiet));
    let mut figures: Vec<StarFigures> = figures.collect();
    figures.sort_by(|one, other| {
        let by_grade = other.grade.cmp(&one.grade);
        by_grade.then(one.sum.total_cmp(&other.sum))
    });
    figures
}

/// Returns the figures of a target; `None` without slots.
fn target_star(target: NicId, star: &StarSlots, quiet: Option<f64>) -> Option<StarFigures> {
    let sum = mean(&star.sums)?;
    let ratio_to_quiet = quiet.filter(|quiet| *quiet > 0.0).map(|quiet| sum / quiet);
    // Without any answer there are no shares to compare: the sum is 0, which is bad by itself.
    let fairness = median(&star.fairness).unwrap_or(1.0);
    let smallest_share = median(&star.smallest).unwrap_or(1.0);
    let sum_grade = ratio_to_quiet.map(|ratio| INCAST_SUM.grade(ratio));
    let share_grades = [FAIRNESS.grade(fairness), SMALLEST_SHARE.grade(smallest_share)];
    Some(StarFigures {
        target,
        sources: star.sources as u32,
        sum,
        ratio_to_quiet,
        fairness,
        smallest_share,
        grade: worst(share_grades.into_iter().chain(sum_grade)),
    })
}

/// Returns Jain's index of fairness: 1 for equal shares, 1/n if one of n gets everything. `None`
/// if the shares are all 0.
fn fairness(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Returns the smallest share as a ratio to an equal share. `None` if the shares are all 0.
fn smallest_share(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let smallest = shares.iter().copied().fold(f64::INFINITY, f64::min);
    (sum > 0.0).then(|| smallest * shares.len() as f64 / sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::findings::Grade;
    use super::super::rates::SentRate;
    use super::*;
    use crate::slot::LoadFlow;

    fn star(target: u32, rates: &[f64]) -> SlotRates {
        let sent = rates.iter().enumerate().map(|(source, rate)| SentRate {
            source: NicId(100 + source as u32),
            peers: vec![NicId(target)],
            rate: *rate,
        });
        SlotRates { sent: sent.collect(), ..SlotRates::default() }
    }

    #[test]
    fn equal_shares_of_the_whole_port_are_good() {
        // load.md 5, vector 30
        let found = figures(&[star(0, &[2650e6; 8])], Some(21_500e6));
        assert!((found[0].ratio_to_quiet.unwrap() - 0.986).abs() < 1e-3);
        assert_eq!((found[0].fairness, found[0].grade), (1.0, Grade::Good));
    }

    #[test]
    fn fairness_and_smallest_share_are_those_of_vector_22() {
        let shares = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2];
        assert!((fairness(&shares).unwrap() - 0.920).abs() < 5e-4);
        assert!((smallest_share(&shares).unwrap() - 0.222).abs() < 5e-4);
        assert_eq!((fairness(&[0.0; 3]), smallest_share(&[0.0; 3])), (None, None));
    }

    proptest! {
        #[test]
        fn fairness_is_between_one_of_all_and_equal_shares(
            shares in prop::collection::vec(0.0..10.0, 2..40),
        ) {
            if let (Some(index), Some(least)) = (fairness(&shares), smallest_share(&shares)) {
                prop_assert!(index >= 1.0 / shares.len() as f64 - 1e-9 && index <= 1.0 + 1e-9);
                prop_assert!((0.0..=1.0 + 1e-9).contains(&least));
            }
        }
    }

    #[test]
    fn one_starved_source_is_bad() {
        // load.md 5, vector 22
        let shares = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2].map(|share| share * 1e9);
        let slots = [star(0, &shares), star(1, &[1e9; 8])];
        let found = figures(&slots, Some(7.2e9));
        assert_eq!(found[0].target, NicId(0));
        assert!((found[0].smallest_share - 0.22).abs() < 3e-3);
        assert_eq!(FAIRNESS.grade(found[0].fairness), Grade::Slow);
        assert_eq!([found[0].grade, found[1].grade], [Grade::Bad, Grade::Good]);
    }

    #[test]
    fn low_sum_is_bad_only_if_the_quiet_bandwidth_is_known() {
        let slots = [star(0, &[1e9; 8])];
        assert_eq!(figures(&slots, Some(16e9))[0].grade, Grade::Bad);
        let unknown = &figures(&slots, None)[0];
        assert_eq!((unknown.ratio_to_quiet, unknown.grade), (None, Grade::Good));
    }

    #[test]
    fn star_with_an_unknown_source_does_not_count() {
        let mut slot = star(0, &[1e9; 7]);
        slot.unjudged.push(LoadFlow { source: NicId(107), peers: vec![NicId(0)] });
        assert_eq!(figures(&[slot], Some(8e9)), []);
    }
}
