//! The limits of the pairs of a test and class (jobs.md 3.4).

use std::collections::BTreeMap;

use super::findings::LimitSource;
use super::ids::PopulationKey;
use super::population::{Centre, Noise, Sorted};

/// Number of packets that the initiator of any pair may send again inside the limit.
pub const FEW_RETRIES: u64 = 5;

/// Ratio to the retries of a good pair above which retries are outside the limit.
const MANY_RETRIES: f64 = 10.0;

/// Part of the pairs that are certainly good. One bad NIC of four takes part in half of the pairs.
const GOOD_PART: f64 = 0.25;

/// The limit of a population.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The centre of the costs.
    pub centre: Centre,
    /// The largest cost inside the limit; infinite without a limit.
    pub cost: f64,
    /// The largest difference of two costs that is noise.
    pub noise: f64,
    /// The largest number of retries inside the limit; infinite without a limit.
    pub retries: f64,
    /// Median of the retries of a pair.
    pub usual_retries: f64,
}

/// The limits of the populations.
pub type Limits = BTreeMap<PopulationKey, Limit>;

impl Limit {
    /// Returns the limit of pairs with these costs and retries.
    pub fn of(costs: &Sorted, retries: &Sorted, noise: Noise, of_bandwidth: bool) -> Self {
        let centre = Centre::of(costs);
        Self {
            centre,
            cost: noise.limit(centre, of_bandwidth),
            noise: noise.difference(of_bandwidth),
            retries: (MANY_RETRIES * retries.quantile(GOOD_PART)).max(FEW_RETRIES as f64),
            usual_retries: retries.median(),
        }
    }

    /// Returns the cost below which a pair is as much better than the median as the limit is worse.
    pub fn mirrored(&self) -> f64 {
        let median = self.centre.median;
        (median * median / self.cost).min(median - self.noise)
    }

    /// Returns whether the costs have no centre: their robust deviation is more than `part` of the
    /// median, and more than noise.
    pub fn is_wide(&self, part: f64) -> bool {
        self.centre.sigma > (part * self.centre.median).max(self.noise)
    }

    /// Returns the centre of a population that is too small for a limit.
    pub fn without_limit(self) -> Self {
        Self {
            cost: f64::INFINITY,
            retries: f64::INFINITY,
            ..self
        }
    }

    /// Returns which limit a pair does not meet. If both limits are broken, the retries explain the
    /// cost.
    pub fn source(self, cost: f64, retries: u64) -> Option<LimitSource> {
        if retries as f64 > self.retries {
            Some(LimitSource::Retries)
        } else if cost > self.cost {
            Some(LimitSource::Population)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(retries: &[u64]) -> Limit {
        let sorted = |of: &[u64]| Sorted::of(of.iter().map(|one| (*one as f64, 1)).collect());
        let costs = sorted(&vec![1000; retries.len()]);
        Limit::of(&costs, &sorted(retries), Noise::HARDWARE, false)
    }

    #[test]
    fn accepts_few_retries() {
        let of_clean = limit(&[0; 16]);
        assert_eq!(of_clean.source(1000.0, FEW_RETRIES), None);
        let one_more = of_clean.source(1000.0, FEW_RETRIES + 1);
        assert_eq!(one_more, Some(LimitSource::Retries));
        assert_eq!(of_clean.without_limit().source(1e9, 1000), None);
    }

    #[test]
    fn ignores_retries_of_bad_nic_of_four_in_the_limit() {
        let limit = limit(&[40, 0, 40, 0, 40, 0, 40, 0, 40, 0, 40, 0]);
        assert_eq!(limit.retries, FEW_RETRIES as f64);
    }

    #[test]
    fn accepts_retries_that_all_pairs_have() {
        let limit = limit(&[20, 25, 30, 40, 60, 100, 150, 190]);
        assert_eq!(limit.source(1000.0, 190), None);
        assert_eq!(limit.source(2000.0, 190), Some(LimitSource::Population));
    }

    /// Some software NICs sleep between operations, others poll.
    #[test]
    fn accepts_noise_of_software_nics_in_a_population() {
        let costs = Sorted::of([(2_000.0, 5), (19_000.0, 4), (30_000.0, 1)].into());
        let retries = Sorted::of([(0.0, 10)].into());
        let of = |noise| Limit::of(&costs, &retries, noise, false);
        let (hardware, software) = (of(Noise::HARDWARE), of(Noise::SOFTWARE));
        assert!(hardware.is_wide(0.7) && hardware.mirrored() > 0.0);
        assert!(!software.is_wide(0.7) && software.mirrored() < 0.0);
    }
}
