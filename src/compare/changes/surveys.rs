//! Surveys compared: the state of each NIC, the medians of classes, and the medians of NICs over
//! the pairs that both surveys have.

use std::collections::{BTreeMap, HashMap};

use super::change::{Change, ChangeVerdict, percent};
use campaign::quiet::findings::{Matrix, Population, State, Test};
use facts::host::HostIndex;
use facts::robust::{spread, upper_median};
use survey::result::nics::all_states;
use survey::result::{Survey, words};

/// Least pairs of a NIC in both surveys, and least NICs with so many pairs, for its median.
const LEAST_PAIRS: usize = 3;
const LEAST_NICS: usize = 5;

/// A NIC differs from the others if its change is farther from their median than so many robust
/// standard deviations.
const DEVIATIONS: f64 = 4.0;

/// The changes from one survey to another, and remarks.
pub(super) fn changes(
    base: &Survey,
    new: &Survey,
    limit_percent: f64,
) -> (Vec<Change>, Vec<String>) {
    let hosts = HostIndex::new(new.roster.hosts());
    let (mut changes, others) = state_changes(base, new, &hosts);
    let mut remarks = Vec::new();
    if others > 0 {
        let nics = words::counted(others, "NIC");
        remarks.push(format!("Not compared: {nics} of hosts that only one survey has."));
    }
    let mut tests = 0;
    for (at, test) in new.setup.tests.iter().enumerate() {
        let Some(at_base) = base.setup.tests.iter().position(|candidate| candidate == test) else {
            continue;
        };
        tests += 1;
        let matrix = |survey: &Survey, at: usize| -> Option<HashMap<[String; 2], f64>> {
            let mut matrices = survey.verdict.matrices.iter();
            Some(figures(survey, matrices.find(|matrix| matrix.test.index() == at)?, &hosts))
        };
        if let Some((base, new)) = matrix(base, at_base).zip(matrix(new, at)) {
            changes.extend(nic_changes(test, &base, &new, limit_percent));
        }
        let populations = |survey: &Survey, at: usize| -> Vec<Population> {
            let all = survey.verdict.populations.iter();
            all.filter(|population| population.test.index() == at).cloned().collect()
        };
        let base_populations = populations(base, at_base);
        for population in populations(new, at) {
            if let Some(old) = base_populations.iter().find(|old| old.class == population.class) {
                let (change, remark) = class_change(test, old, &population, limit_percent);
                changes.push(change);
                remarks.extend(remark);
            }
        }
    }
    if tests < base.setup.tests.len().max(new.setup.tests.len()) {
        remarks
            .push("Only one survey has some of the tests: their figures are not compared.".into());
    }
    (changes, remarks)
}

/// The NICs whose state changed, and the number of NICs of hosts that one survey lacks.
fn state_changes(base: &Survey, new: &Survey, new_hosts: &HostIndex) -> (Vec<Change>, u64) {
    let [base_states, new_states] = [base, new].map(|survey| named_states(survey, new_hosts));
    let base_hosts = HostIndex::new(base.roster.hosts());
    let mut changes = Vec::new();
    let mut others = 0;
    for (name, (host, state)) in &base_states {
        let now = new_states.get(name).map(|(_, state)| *state);
        if now.is_none() && new_hosts.find(host).is_none() {
            others += 1;
            continue;
        }
        let is_gone = match now {
            None => true,
            Some(state) => state == State::Untested && has_failed(new, name),
        };
        let verdict = match now {
            _ if is_gone && *state != State::Untested => ChangeVerdict::Worse,
            Some(State::Suspect | State::Bad) if now > Some(*state) => ChangeVerdict::Worse,
            Some(State::Good) if *state >= State::Suspect => ChangeVerdict::Better,
            Some(State::Suspect) if *state == State::Bad => ChangeVerdict::Better,
            Some(now) if now == *state => continue,
            _ => ChangeVerdict::Changed,
        };
        let now = if is_gone { "gone" } else { now.map_or("gone", State::name) };
        let words = [Some(state.name()), Some(now)];
        changes.push(Change::from_words(name, "state", words, verdict));
    }
    for (name, (host, state)) in
        new_states.iter().filter(|(name, _)| !base_states.contains_key(*name))
    {
        others += u64::from(base_hosts.find(host).is_none());
        if *state >= State::Suspect {
            let words = [None, Some(state.name())];
            changes.push(Change::from_words(name, "state", words, ChangeVerdict::Worse));
        }
    }
    (changes, others)
}

/// Returns host and state of each NIC, by its name.
fn named_states(survey: &Survey, hosts: &HostIndex) -> BTreeMap<String, (String, State)> {
    let roster = &survey.roster;
    let states = all_states(survey);
    let named = roster.nic_ids().zip(states).map(|(nic, state)| {
        let host = roster.node_of(nic).host.clone();
        (roster.name_among(hosts, nic), (host, state))
    });
    named.collect()
}

/// Whether a NIC could not be opened, or its node was lost.
fn has_failed(survey: &Survey, name: &str) -> bool {
    let roster = &survey.roster;
    let nic = roster.nic_ids().find(|nic| roster.name(*nic) == name);
    nic.is_some_and(|nic| roster.nic(nic).failure.is_some() || roster.node_of(nic).absent.is_some())
}

/// The change of the median of a class, and which change would have been found if that is more than
/// the limit. It is a change if the 95 % intervals of the medians are apart, too. Classes with few
/// pairs have no intervals: a change of theirs may be chance.
fn class_change(
    test: &Test,
    base: &Population,
    new: &Population,
    limit_percent: f64,
) -> (Change, Option<String>) {
    let (old, now) = (base.median(), new.median());
    let change_percent = percent(old, now).unwrap_or_default();
    let ends = |population: &Population| population.median_low.zip(population.median_high);
    let name = words::test(test);
    let mut remark = None;
    let verdict = match ends(base).zip(ends(new)) {
        Some(((low, high), (new_low, new_high))) if new_low > high || new_high < low => {
            verdict(test, change_percent, limit_percent)
        }
        Some(((low, high), (new_low, new_high))) => {
            let rise = (high / old) * (now / new_low) - 1.0;
            let fall = 1.0 - (low / old) * (now / new_high);
            let found_percent = 100.0 * rise.max(fall);
            if found_percent > limit_percent {
                remark = Some(format!(
                    "{name}, {}: a change of {found_percent:.0}% would have been found.",
                    new.class.name()
                ));
                ChangeVerdict::Unclear
            } else {
                ChangeVerdict::Ok
            }
        }
        None if change_percent.abs() > limit_percent => ChangeVerdict::Unclear,
        None => ChangeVerdict::Ok,
    };
    let what = format!("median, {}", new.class.name());
    (figure_change(&name, &what, test, (old, now), verdict), remark)
}

/// The verdict on a change of a figure.
fn verdict(test: &Test, change_percent: f64, limit_percent: f64) -> ChangeVerdict {
    let worse = if test.of_bandwidth { -change_percent } else { change_percent };
    if worse > limit_percent {
        ChangeVerdict::Worse
    } else if -worse > limit_percent {
        ChangeVerdict::Better
    } else {
        ChangeVerdict::Ok
    }
}

fn figure_change(
    part: &str,
    what: &str,
    test: &Test,
    (base, new): (f64, f64),
    verdict: ChangeVerdict,
) -> Change {
    let text = |value| format!("{} {}", words::figure(test, value), words::figure_unit(test));
    let (old, now) = (text(base), text(new));
    Change {
        change_percent: percent(base, new),
        ..Change::from_words(part, what, [Some(&old), Some(&now)], verdict)
    }
}

/// The figures of the pairs of a matrix, by the names of initiator and target.
fn figures(survey: &Survey, matrix: &Matrix, hosts: &HostIndex) -> HashMap<[String; 2], f64> {
    let cells = matrix.cells.iter();
    cells
        .filter_map(|(initiator, target, figure)| {
            let names = [*initiator, *target].map(|nic| survey.roster.name_among(hosts, nic));
            Some((names, (*figure)?))
        })
        .collect()
}

/// The NICs whose figures changed by more than the limit, and unlike the figures of other NICs.
/// Pairs that both surveys measured count, in any direction.
fn nic_changes(
    test: &Test,
    base: &HashMap<[String; 2], f64>,
    new: &HashMap<[String; 2], f64>,
    limit_percent: f64,
) -> Vec<Change> {
    let mut pairs: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for (names, now) in new {
        let [initiator, target] = names;
        let reversed = || base.get(&[target.clone(), initiator.clone()]);
        let Some(old) = base.get(names).or_else(reversed).filter(|old| **old > 0.0) else {
            continue;
        };
        for name in names {
            pairs.entry(name).or_default().push((*old, *now));
        }
    }
    let ratios = |pairs: &[(f64, f64)]| median(pairs.iter().map(|(old, now)| now / old));
    pairs.retain(|_, pair| pair.len() >= LEAST_PAIRS);
    let all: Vec<f64> = pairs.values().map(|pair| ratios(pair)).collect();
    if all.len() < LEAST_NICS {
        return Vec::new();
    }
    let middle = median(all.iter().copied());
    let deviation = spread(&all, middle, upper_median);
    let mut changes = Vec::new();
    for ((name, pairs), ratio) in pairs.iter().zip(all) {
        let verdict = verdict(test, (ratio - 1.0) * 100.0, limit_percent);
        if (ratio - middle).abs() > DEVIATIONS * deviation && verdict != ChangeVerdict::Ok {
            let old = median(pairs.iter().map(|(old, _)| *old));
            let what =
                format!("{}, {}", words::test(test), words::counted(pairs.len() as u64, "pair"));
            changes.push(figure_change(name, &what, test, (old, old * ratio), verdict));
        }
    }
    changes
}

/// The median of at least one value.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    upper_median(&values.collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChangeVerdict::{Better, Changed, Ok as Same, Unclear, Worse};
    use campaign::quiet::roster::{NicId, TestId};
    use survey::result::testing;

    /// A survey without causes. All pairs of the first test take 2 us, pairs of NIC 2 `slow` times
    /// as much.
    fn survey(slow: f64) -> Survey {
        let mut survey = testing::survey(testing::good(), Ok(()));
        let pairs = (0..8).flat_map(|one| (0..one).map(move |other| (one, other)));
        let figure = |one, other| {
            if one == 2 || other == 2 { 2e3 * slow } else { 2e3 }
        };
        survey.verdict.matrices = vec![Matrix {
            test: TestId(0),
            cells: pairs
                .map(|(one, other)| (NicId(one), NicId(other), Some(figure(one, other))))
                .collect(),
        }];
        survey
    }

    fn shown(base: &Survey, new: &Survey) -> Vec<(String, String, ChangeVerdict)> {
        let (changes, _) = changes(base, new, 5.0);
        let changes = changes.into_iter().filter(|change| change.verdict != Same);
        changes.map(|change| (change.part, change.what, change.verdict)).collect()
    }

    /// The verdict on medians with these 95 % intervals, as ratios to the median, and on a change
    /// to `now`.
    fn medians(interval: Option<f64>, now: f64) -> (ChangeVerdict, bool) {
        let survey = testing::survey(testing::good(), Ok(()));
        let population = |median: f64| {
            let mut population = survey.verdict.populations[0].clone();
            population.percentiles = [median; 7];
            population.median_low = interval.map(|part| median / part);
            population.median_high = interval.map(|part| median * part);
            population
        };
        let test = &survey.setup.tests[0];
        let (change, remark) = class_change(test, &population(1.0), &population(now), 5.0);
        (change.verdict, remark.is_some())
    }

    #[test]
    fn a_class_is_ok_only_if_a_change_would_have_been_found() {
        assert_eq!(medians(Some(1.01), 1.0), (Same, false));
        assert_eq!(medians(Some(1.01), 1.04), (Same, false));
        assert_eq!(medians(Some(1.01), 1.06), (Worse, false));
        assert_eq!(medians(Some(1.01), 0.9), (Better, false));
        assert_eq!(medians(Some(1.1), 1.0), (Unclear, true));
        assert_eq!(medians(Some(1.1), 1.15), (Unclear, true));
        assert_eq!(medians(Some(1.1), 1.3), (Worse, false));
        // Classes of few pairs have no intervals.
        assert_eq!(medians(None, 1.0), (Same, false));
        assert_eq!(medians(None, 1.2), (Unclear, false));
    }

    #[test]
    fn compares_states_of_nics() {
        let (good, mixed) = (survey(1.0), testing::survey(testing::mixed(), Ok(())));
        let states = |verdicts: [ChangeVerdict; 5]| -> Vec<(String, String, ChangeVerdict)> {
            let names = ["417 cxi1", "418 cxi0", "418 cxi1", "419 cxi0", "419 cxi1"];
            let value_for = |(name, verdict)| (format!("nid000{name}"), "state".into(), verdict);
            names.into_iter().zip(verdicts).map(value_for).collect()
        };
        assert_eq!(shown(&good, &mixed), states([Worse, Worse, Changed, Worse, Changed]));
        assert_eq!(shown(&mixed, &good), states([Better, Better, Changed, Better, Changed]));
        assert_eq!(shown(&mixed, &mixed), []);
        // A node that is lost, and a NIC that the host no longer has, are worse than untested.
        let mut gone = survey(1.0);
        gone.roster.nodes[0].absent = Some("lost".into());
        gone.roster.nics.pop();
        gone.verdict.matrices.clear();
        let names: Vec<String> = shown(&good, &gone).into_iter().map(|(name, _, _)| name).collect();
        assert_eq!(names, ["nid000416 cxi0", "nid000416 cxi1", "nid000419 cxi1"]);
        gone.roster.nodes.pop();
        gone.roster.nics.pop();
        let (_, remarks) = changes(&good, &gone, 5.0);
        assert_eq!(remarks, ["Not compared: 2 NICs of hosts that only one survey has."]);
    }

    /// One survey has the names of a launcher, the other the names of the hosts.
    #[test]
    fn compares_hosts_by_other_forms_of_their_names() {
        let (mut base, new) = (survey(1.0), survey(1.2));
        let expected = shown(&base, &new);
        assert!(!expected.is_empty());
        for node in &mut base.roster.nodes {
            node.host = format!("{}.Cluster.Example", node.host.to_uppercase());
        }
        assert_eq!(shown(&base, &new), expected);
        let (_, remarks) = changes(&base, &new, 5.0);
        assert_eq!(remarks, [""; 0]);
    }

    #[test]
    fn compares_medians_of_nics_over_common_pairs() {
        let nic =
            |verdict| [("nid000417 cxi0".to_owned(), "write-lat 8, 7 pairs".to_owned(), verdict)];
        assert_eq!(shown(&survey(1.0), &survey(1.2)), nic(Worse));
        assert_eq!(shown(&survey(1.2), &survey(1.0)), nic(Better));
        assert_eq!(shown(&survey(1.0), &survey(1.04)), []);
        // The directions of the pairs do not matter.
        let mut turned = survey(1.2);
        for cell in &mut turned.verdict.matrices[0].cells {
            *cell = (cell.1, cell.0, cell.2);
        }
        assert_eq!(shown(&survey(1.0), &turned), nic(Worse));
    }

    #[test]
    fn compares_medians_of_classes_beyond_their_intervals() {
        let with_bandwidth = |factor: f64| {
            let mut survey = survey(1.0);
            let population = &mut survey.verdict.populations[2];
            population.percentiles[3] *= factor;
            for end in [&mut population.median_low, &mut population.median_high] {
                *end = end.map(|end| end * factor);
            }
            survey
        };
        let class =
            |verdict| [("write-bw 1M".to_owned(), "median, same switch".to_owned(), verdict)];
        assert_eq!(shown(&survey(1.0), &with_bandwidth(0.9)), class(Worse));
        assert_eq!(shown(&survey(1.0), &with_bandwidth(1.1)), class(Better));
        let mut wide = with_bandwidth(0.9);
        wide.verdict.populations[2].median_high = Some(18.9e9);
        let unclear = [("write-bw 1M".to_owned(), "median, same switch".to_owned(), Unclear)];
        assert_eq!(shown(&survey(1.0), &wide), unclear);
        // Another test is not compared.
        wide.setup.tests[0].size_bytes = 64;
        let (changes, remarks) = changes(&survey(1.0), &wide, 5.0);
        assert_eq!((changes.len(), remarks.len()), (1, 2));
    }
}
