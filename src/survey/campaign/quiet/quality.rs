//! How well the pairs of a class judge its NICs: what a survey could have found, and which NICs
//! differ within the limits.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::findings::{Outlier, Statistic};
use super::fit::PairResidual;
use super::limits::{Limit, Limits};
use super::roster::{NicId, Pair, PopulationKey, Role, Roster, TestId, Unit, crossing, members};
use super::selection::{PartEffect, Selected, select};
use super::slow_parts::{ExplainedPairs, Judgement};
use crate::blame::{FALSE_ALARM, error_of_median, score_limit};
use crew::location::Class;
use facts::robust::{at_rank, lower_median};

/// Part of the pairs of a class that may be slow by chance without a loss of sensitivity.
const MOST_IN_TAIL: f64 = 0.1;

/// A survey that would find nothing but larger ratios, and larger ones than twice the ratio that
/// the user asks for, states none.
const MOST_STATED: f64 = 10.0;

/// Most parts into which faults are planted, and fewest parts for each that is slow at a time.
const MOST_PLANTED: usize = 16;
const PARTS_BESIDE: usize = 16;

/// Most pairs of a test whose figures are judged with planted faults: of more, the spread of the
/// figures says enough, and judging them takes too long.
const MOST_PAIRS: usize = 1 << 14;

/// How much the part of a ratio above 1 grows from one that is tried to the next.
const STEP: f64 = 1.1;

/// A part that may be slow in a role, or in both, with the indices of its pairs.
struct Plant {
    unit: Unit,
    pairs: Vec<usize>,
}

impl Limit {
    /// Whether a ratio says something to a user.
    pub fn may_state(&self, ratio: f64) -> bool {
        ratio <= MOST_STATED.max(2.0 * self.ratio.exp())
    }
}

impl ExplainedPairs {
    /// Returns what the parts leave of the residuals of the pairs of a class.
    fn rests(&self, class: Class) -> Vec<f64> {
        let own = self.classes.iter().zip(&self.selected.rest);
        own.filter(|(other, _)| **other == class).map(|(_, rest)| *rest).collect()
    }

    /// The logarithm of the ratio to good pairs that all pairs of a class but the part `most` do
    /// not exceed, without the effects of parts.
    fn rest_of_most(&self, class: Class, most: f64) -> f64 {
        let rests = self.rests(class);
        let place = (rests.len() as f64 * (1.0 - most)) as usize;
        at_rank(&rests, place).unwrap_or_default()
    }

    /// The smallest ratio at which a part with this many pairs of a class would have been found.
    fn smallest_ratio(&self, limit: &Limit, class: Class, pairs: usize) -> f64 {
        let together = limit.ratio.max(found_with(pairs, &self.selected));
        let tail = self.rest_of_most(class, MOST_IN_TAIL);
        let found = together.min(limit.pair_limit).max(tail).exp();
        // What waiting adds is the same beside a slow part.
        1.0 + (found - 1.0) * limit.waiting.exp()
    }

    /// Returns some of the parts that pairs of a class belong to, in each role and in both, in
    /// lists of parts that may be slow at the same time. `parts` returns the parts of a pair.
    fn plants<const N: usize>(
        &self,
        class: Class,
        parts: impl Fn(Pair) -> [Option<(Unit, Role)>; N],
    ) -> Vec<Vec<Plant>> {
        let mut roles: BTreeMap<Unit, [Vec<usize>; 2]> = BTreeMap::new();
        let mut own = BTreeSet::new();
        for (index, (one, other)) in self.pairs.iter().zip(&self.classes).enumerate() {
            for (unit, role) in parts(one.pair).into_iter().flatten() {
                roles.entry(unit).or_default()[role.index()].push(index);
                own.extend((*other == class).then_some(unit));
            }
        }
        roles.retain(|unit, _| own.contains(unit));
        let mut units: Vec<_> = roles.into_iter().collect();
        units.sort_by_key(|(_, [initiator, target])| initiator.len() + target.len());
        let step = units.len().div_ceil(MOST_PLANTED).max(1);
        let together = (units.len() / PARTS_BESIDE).clamp(1, MOST_PLANTED);
        let some: Vec<_> = units.into_iter().step_by(step).collect();
        let plant = |(unit, pairs): &(Unit, [Vec<usize>; 2]), role: Option<Role>| {
            let own = role.map_or_else(|| pairs.concat(), |role| pairs[role.index()].clone());
            // Pairs in loopback have the same NIC in both roles.
            Plant { unit: *unit, pairs: BTreeSet::from_iter(own).into_iter().collect() }
        };
        let roles = [None, Some(Role::Initiator), Some(Role::Target)].into_iter();
        let lists = roles.flat_map(|role| some.chunks(together).map(move |some| (role, some)));
        let lists = lists.map(|(role, some)| {
            let plants = some.iter().map(|one| plant(one, role));
            plants.filter(|plant| !plant.pairs.is_empty()).collect()
        });
        lists.collect()
    }

    /// Whether all of these parts would be found if they were slower by `value`, a logarithm: by
    /// their pairs together, or by a single pair.
    fn finds(&self, plants: &[Plant], value: f64, limits: &Limits, roster: &Roster) -> bool {
        let with_rest = self.pairs.iter().zip(&self.selected.rest);
        let mut pairs: Vec<PairResidual> =
            with_rest.map(|(one, rest)| PairResidual { value: *rest, ..*one }).collect();
        for index in plants.iter().flat_map(|plant| &plant.pairs) {
            pairs[*index].value += value;
        }
        let limit = |index: usize| limits.get(&(self.test, self.classes[index]));
        let ratio = limit(0).map_or(0.0, |limit| limit.ratio);
        let selected = select(&pairs, ratio, roster);
        plants.iter().all(|plant| {
            let is_outside = |index: &usize| {
                limit(*index).is_some_and(|limit| pairs[*index].value.min(value) > limit.pair_limit)
            };
            let is_it = |effect: &PartEffect| {
                let is_larger = matches!(effect.unit, Unit::Node(_) | Unit::Switch { .. });
                let mut own = effect.pairs.iter().map(|index| *index as usize);
                effect.is_outside(ratio)
                    && (effect.unit == plant.unit || is_larger)
                    && own.any(|index| plant.pairs.contains(&index))
            };
            plant.pairs.iter().any(is_outside) || selected.effects.iter().any(is_it)
        })
    }

    /// The smallest ratio, from `least`, at which all of these parts would be found in the figures
    /// of the survey; `None` if the ratio would say nothing.
    fn found_ratio(
        &self,
        plants: &[Vec<Plant>],
        least: f64,
        limit: &Limit,
        (limits, roster): (&Limits, &Roster),
    ) -> Option<f64> {
        let mut ratio = least;
        for own in plants {
            let added = |ratio: f64| (1.0 + (ratio - 1.0) * (-limit.waiting).exp()).ln();
            while limit.may_state(ratio) && !self.finds(own, added(ratio), limits, roster) {
                ratio = 1.0 + (ratio - 1.0) * STEP;
            }
        }
        Some(ratio).filter(|ratio| !plants.is_empty() && limit.may_state(*ratio))
    }
}

impl Judgement {
    /// The smallest ratio at which NICs of a class would have been found in a role or in both, if
    /// faults of some are planted into the figures of the survey.
    pub fn stated_sensitivity(&self, key: PopulationKey, roster: &Roster) -> Option<f64> {
        let (limit, domain) = self.judged(key)?;
        let nics = |pair: Pair| pair.roles().map(|(role, nic)| Some((Unit::Nic(nic), role)));
        let least = self.sensitivity(key)?;
        if domain.pairs.len() > MOST_PAIRS {
            return Some(least);
        }
        domain.found_ratio(&domain.plants(key.1, nics), least, limit, (&self.limits, roster))
    }

    /// The smallest ratio at which a NIC of a class that is slow in both roles would have been
    /// found, as far as the spread of the figures shows: of the NIC with the largest one. Either
    /// all of its pairs are outside the limit of a pair, or its pairs together are significantly
    /// slow. A NIC is not found among pairs that are as slow by chance, as pairs beside busy CPUs
    /// are. `None` without a limit, and for bandwidths that busy CPUs limit: these hide NICs that
    /// could reach as much, but not more.
    pub fn sensitivity(&self, key: PopulationKey) -> Option<f64> {
        let (limit, domain) = self.judged(key)?;
        let mut pairs: BTreeMap<NicId, usize> = BTreeMap::new();
        let mut nics = BTreeSet::new();
        for (one, class) in domain.pairs.iter().zip(&domain.classes) {
            for nic in one.pair.nics() {
                *pairs.entry(nic).or_default() += 1;
                if *class == key.1 {
                    nics.insert(nic);
                }
            }
        }
        let fewest = nics.iter().map(|nic| pairs[nic]).min()?;
        Some(domain.smallest_ratio(limit, key.1, fewest)).filter(|ratio| limit.may_state(*ratio))
    }

    /// The same for the links between two groups whose pairs the class has.
    pub fn sensitivity_of_links(&self, key: PopulationKey, roster: &Roster) -> Option<f64> {
        let (limit, domain) =
            self.judged(key).filter(|(_, domain)| domain.pairs.len() <= MOST_PAIRS)?;
        let plants = domain.plants(key.1, |pair| [crossing(roster, pair)]);
        domain.found_ratio(&plants, limit.ratio.exp(), limit, (&self.limits, roster))
    }

    /// The limit of a class and the pairs of its test; `None` without a limit, and for bandwidths
    /// that busy CPUs limit.
    fn judged(&self, key: PopulationKey) -> Option<(&Limit, &ExplainedPairs)> {
        let limit = self.limits.get(&key).filter(|limit| limit.has_costs())?;
        let is_bound = limit.statistic == Statistic::Bound;
        let domain = self.domain(key.0, key.1 == Class::Loopback)?;
        (!is_bound).then_some((limit, domain))
    }

    /// Returns how many pairs of a class are better than its centre by more than the limit, and how
    /// many it has.
    pub fn better(&self, key: PopulationKey) -> (usize, usize) {
        let limit = self.limits.get(&key).map_or(f64::INFINITY, |limit| limit.pair_limit);
        let Some(domain) = self.domain(key.0, key.1 == Class::Loopback) else {
            return (0, 0);
        };
        let rests = domain.rests(key.1);
        (rests.iter().filter(|rest| **rest < -limit).count(), rests.len())
    }

    fn domain(&self, test: TestId, in_loopback: bool) -> Option<&ExplainedPairs> {
        let mut domains = self.domains.iter();
        domains.find(|one| (one.test, one.in_loopback) == (test, in_loopback))
    }

    /// The NICs that differ from the other ones of their class within the limits, the worst first.
    pub fn outliers(&self, causes: &[Unit], roster: &Roster) -> Vec<Outlier> {
        let cause_nics: HashSet<NicId> =
            causes.iter().flat_map(|unit| members(*unit, roster)).collect();
        let mut outliers = Vec::new();
        for domain in self.domains.iter().filter(|domain| !domain.in_loopback) {
            let selected = &domain.selected;
            let effects = selected.effects.iter();
            let nic_effects = effects.filter(|effect| matches!(effect.unit, Unit::Nic(_)));
            let mut residuals = selected.rest.clone();
            for effect in nic_effects {
                for pair in &effect.pairs {
                    residuals[*pair as usize] += effect.value;
                }
            }
            let mut own: BTreeMap<NicId, (Vec<f64>, BTreeMap<Class, usize>)> = BTreeMap::new();
            for ((one, class), residual) in domain.pairs.iter().zip(&domain.classes).zip(residuals)
            {
                for nic in one.pair.nics() {
                    let (residuals, classes) = own.entry(nic).or_default();
                    residuals.push(residual);
                    *classes.entry(*class).or_default() += 1;
                }
            }
            for (nic, (residuals, classes)) in own {
                let error = error_of_median(selected.spread, residuals.len());
                // All pairs may be equal.
                let deviation = selected.spread_of_nics.max(error).max(f64::EPSILON);
                let effect = lower_median(&residuals).unwrap_or(f64::NAN);
                let score = effect / deviation;
                let class = classes.into_iter().max_by_key(|(_, count)| *count);
                let is_within = |class| {
                    let limit = self.limits.get(&(domain.test, class));
                    limit.is_some_and(|limit| limit.has_costs() && effect <= limit.ratio)
                };
                if let Some((class, _)) = class
                    && score > score_limit(selected.nics)
                    && is_within(class)
                    && !cause_nics.contains(&nic)
                {
                    outliers.push(Outlier {
                        nic,
                        test: domain.test,
                        class,
                        ratio: effect.exp(),
                        score,
                    });
                }
            }
        }
        outliers.sort_by(|one, other| other.score.total_cmp(&one.score));
        outliers
    }
}

/// The smallest effect that `pairs` of a part show to be significant.
fn found_with(pairs: usize, selected: &Selected) -> f64 {
    let nic_value = score_limit(selected.nics) * selected.spread_of_nics;
    let mut rest = selected.rest.clone();
    rest.sort_by(|one, other| other.total_cmp(one));
    // So many other pairs may be as slow as half of the effect.
    let part = (FALSE_ALARM / selected.candidates.max(1) as f64).powf(1.0 / pairs.max(1) as f64);
    let others = part * (rest.len() as f64 + 1.0) - 0.5;
    if pairs < 2 || others < 0.0 {
        return f64::INFINITY;
    }
    let half = rest.get(others as usize).copied().unwrap_or_default();
    nic_value.max(2.0 * half)
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Cause, Certainty, Direction, Findings, State, Statistic, states};
    use super::super::roster::{NicId, Unit, crossing};
    use super::super::testing::{Cluster, Fault, Load, named, survey, survey_of_some};

    fn cluster(tool: &str, factor: f64) -> Cluster {
        let mut cluster = Cluster::new([0, 0, 16, 1], &[tool], 1);
        let nic = Unit::Nic(NicId(3));
        cluster.faults = vec![Fault::slow(nic, Direction::Both, factor)];
        cluster
    }

    fn outliers(findings: &Findings) -> Vec<NicId> {
        findings.outliers.iter().map(|one| one.nic).collect()
    }

    #[test]
    fn lists_nic_that_differs_within_the_limits() {
        let mut cluster = cluster("write-lat", 1.1);
        cluster.noise = 0.01;
        let findings = survey(&mut cluster, "all", 1);
        assert_eq!(named(&findings), []);
        assert_eq!(outliers(&findings), [NicId(3)]);
        let outlier = &findings.outliers[0];
        assert!((1.08..1.12).contains(&outlier.ratio), "{outlier:?}");
    }

    #[test]
    fn names_nic_with_half_of_the_bandwidth() {
        let findings = survey(&mut cluster("write-bw", 2.0), "all", 1);
        let expected = (Unit::Nic(NicId(3)), Certainty::Bad, Direction::Both);
        assert_eq!(named(&findings), [expected]);
        assert_eq!(outliers(&findings), []);
    }

    #[test]
    fn noise_lessens_the_sensitivity() {
        let sensitivity = |noise| {
            let mut cluster = cluster("write-lat", 1.0);
            cluster.noise = noise;
            let findings = survey(&mut cluster, "all", 1);
            findings.populations[0].sensitivity.unwrap()
        };
        assert_eq!((100.0 * sensitivity(0.01)).round(), 130.0);
        assert!(sensitivity(0.3) > 1.35);
    }

    /// A NIC that is slower by the stated ratio in a role is not called good by another survey,
    /// beside any noise.
    #[test]
    fn states_how_slow_a_nic_must_be_in_any_role() {
        let (mut found, mut all) = (0, 0);
        for (tool, noise, seed) in (0..6).flat_map(|seed| {
            [("write-lat", 0.01), ("write-lat", 0.1), ("write-bw", 0.01), ("write-bw", 0.1)]
                .map(|(tool, noise)| (tool, noise, seed))
        }) {
            let survey_with = |seed, faults| {
                let mut cluster =
                    Cluster::new([0, 0, [9, 16][seed as usize % 2], 1], &[tool], seed);
                (cluster.noise, cluster.faults) = (noise, faults);
                (survey_of_some(&mut cluster, "random:4", seed), cluster.roster)
            };
            let (good, _) = survey_with(seed, Vec::new());
            let ratio = good.populations[0].sensitivity.expect("a ratio");
            assert!((1.07..4.0).contains(&ratio), "{ratio}");
            let nic = NicId(seed as u32);
            for direction in [Direction::Initiator, Direction::Target, Direction::Both] {
                let fault = Fault::slow(Unit::Nic(nic), direction, 1.05 * ratio);
                let (findings, roster) = survey_with(seed, vec![fault]);
                found += u32::from(states(&roster, &findings)[nic.index()] != State::Good);
                all += 1;
            }
        }
        assert!(found * 100 >= all * 95, "{found} of {all}");
    }

    /// Bandwidths differ by chance so much that nothing follows from them.
    #[test]
    fn states_nothing_where_no_fault_would_be_found() {
        for seed in 0..5 {
            let mut cluster = Cluster::new([0, 0, 9, 1], &["write-bw"], seed);
            cluster.noise = 3.0;
            let findings = survey_of_some(&mut cluster, "random:4", seed);
            let population = &findings.populations[0];
            let limit = population.limit.map(|limit| population.percentiles[3] / limit);
            for ratio in [population.sensitivity, limit].into_iter().flatten() {
                assert!(ratio <= 10.0, "{ratio}");
            }
            assert!(states(&cluster.roster, &findings).iter().all(|state| *state != State::Good));
        }
    }

    /// Links that are slower than the stated ratio are found, beside any noise.
    #[test]
    fn states_how_slow_links_between_groups_must_be() {
        let (mut found, mut all) = (0, 0);
        for (noise, seed) in
            [0.01, 0.05, 0.1].into_iter().flat_map(|noise| (0..10).map(move |seed| (noise, seed)))
        {
            let mut cluster = Cluster::new([4, 2, 2, 1], &["write-lat"], seed);
            cluster.noise = noise;
            let good = survey(&mut cluster, "random:4", seed);
            let link_values = good.populations.iter().filter_map(|one| one.links_sensitivity);
            let ratio = link_values.reduce(f64::max).expect("pairs between groups");
            assert!(ratio >= 1.3, "{ratio}");
            let links = Unit::GroupPair(0, 1);
            cluster.faults = vec![Fault::slow(links, Direction::Both, 1.05 * ratio)];
            let findings = survey(&mut cluster, "random:4", seed);
            let is_seen = |cause: &Cause| match cause.unit {
                Unit::Path(pair) => {
                    crossing(&cluster.roster, pair).map(|(unit, _)| unit) == Some(links)
                }
                unit => unit == links,
            };
            found += u32::from(findings.causes.iter().any(is_seen));
            all += 1;
        }
        assert!(found * 10 >= all * 9, "{found} of {all}");
    }

    #[test]
    fn judges_all_pairs_by_the_same_statistic() {
        for (disturbed, noise_of_least, expected, sensitivity) in [
            (0.05, (0.5, 0.0), Statistic::Median, 1.3..1.4),
            // Minima are two thirds of the 5th percentiles, which waiting may have raised.
            (0.8, (0.5, 0.0), Statistic::P5, 1.4..1.5),
            (0.8, (0.0, 0.5), Statistic::Min, 1.3..1.4),
        ] {
            let mut cluster = cluster("write-lat", 2.0);
            cluster.noise_of_least = noise_of_least;
            cluster.load = Some(Load { node: None, disturbed, untested: 0.0, is_harmless: false });
            let findings = survey(&mut cluster, "all", 1);
            assert_eq!(findings.populations[0].figure, expected);
            let stated = findings.populations[0].sensitivity.expect("a limit");
            assert!(sensitivity.contains(&stated), "{stated}");
            assert_eq!(findings.causes[0].evidence[0].figure, expected);
            let found = named(&findings);
            assert_eq!(found, [(Unit::Nic(NicId(3)), Certainty::Bad, Direction::Both)]);
        }
    }
}
