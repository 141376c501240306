//! The campaign after a survey: which culprits of its verdict are investigated, beside which good
//! NICs, and within which time (diagnosis.md 6.1). For slow links between two groups, ordered flows
//! show whether some of several parallel links are slow (diagnosis.md 4.3). Values that several
//! culprits share and hardly any good NIC has may have one cause (diagnosis.md 4.2, rule 4).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::causes::assessment::Case;
use super::causes::cause::Confidence;
use super::causes::comparison::FiguresByTest;
use super::causes::evaluation::{doubtful, evaluate};
use super::causes::procedure::{DiagnosisCourse, TestCode};
use super::culprits::{
    CulpritNic, Explanation, FabricPart, GroupLinks, LOOK_AT_SWITCHES, Parts, left_out, parts,
    signature,
};
use super::investigation::{
    Checks, Crossings, Diagnosed, Investigation, PARTNERS, UNTESTED, by_kind, directions,
    has_huge_pages, has_parked_peers, is_idle, is_same_kind,
};
use super::slots::{Found, SlotNics};
use super::unmeasured;
use campaign::quiet::findings::{Cause, Findings, State, states_beside_bad};
use campaign::quiet::roster::{NicId, Roster, Unit};
use campaign::slots::{Crew, Members};
use crew::location::Class;
use facts::error::Failure;
use facts::number::counted;
use health::Finding;
use health::item::{Readings, find};
use health::majority::{RARE, count, is_same, normals, values};

/// The longest time for which a test measures a NIC: no longer than a pair of the survey.
pub const LONGEST_PAIR: Duration = Duration::from_millis(50);

/// Time for all culprits (diagnosis.md 6.1).
const WHOLE_TIME: Duration = Duration::from_secs(60);

/// Longest diagnosis of a culprit: one is not begun with less time.
const CULPRIT_TIME: Duration = Duration::from_secs(10);

/// Most kinds of culprits that are measured.
const MOST_SIGNATURES: usize = 8;

/// Good NICs whose files are read.
const CONTROLS: usize = 8;

const NO_TIME: &str = "there was no time for it";
const CHANGED: &str = "its files have changed during the diagnosis";
const NO_CONTROL: &str = "there is no good and idle NIC of its kind to compare with";

/// What is known about the culprits of a verdict.
#[derive(Debug, Default)]
pub struct Diagnoses {
    pub explanations: Vec<Explanation>,
    /// The values that several culprits share.
    pub shared: Vec<SharedValue<Unit>>,
}

/// When no further culprit is begun with.
#[derive(Clone, Copy)]
struct CulpritDeadline {
    began: Instant,
    /// When the survey ends at the latest.
    ends: Option<Instant>,
}

impl CulpritDeadline {
    fn is_near(self) -> bool {
        let left = |end: Instant| end.saturating_duration_since(Instant::now());
        let is_over = self.began.elapsed() + CULPRIT_TIME > WHOLE_TIME;
        is_over || self.ends.is_some_and(|end| left(end) < CULPRIT_TIME)
    }
}

/// What the culprits are compared with.
struct Surroundings<'a> {
    roster: &'a Roster,
    states: &'a [State],
    /// What the files said before the tests.
    first: &'a Checks,
}

/// Finds out why the culprits of a verdict are slow; the survey ends at `ends` at the latest. Adds
/// what is known about each of them to `found`, in the order of the verdict. After an error,
/// culprits that were measured are missing there.
///
/// # Errors
///
/// An interruption, and members that are all lost.
pub fn explain(
    crew: &mut dyn Crew,
    tests: &DiagnosisCourse,
    (roster, verdict): (&Roster, &Findings),
    ends: Option<Instant>,
    found: &mut Diagnoses,
) -> Result<(), Failure> {
    let deadline = CulpritDeadline { began: Instant::now(), ends };
    let explained = explain_parts(crew, tests, (roster, verdict), deadline, found);
    let place = |explanation: &Explanation| {
        let mut causes = verdict.causes.iter();
        let place = causes.position(|cause| cause.unit == explanation.culprit);
        place.unwrap_or(usize::MAX)
    };
    found.explanations.sort_by_key(place);
    explained
}

fn explain_parts(
    crew: &mut dyn Crew,
    tests: &DiagnosisCourse,
    (roster, verdict): (&Roster, &Findings),
    deadline: CulpritDeadline,
    found: &mut Diagnoses,
) -> Result<(), Failure> {
    let explanations = &mut found.explanations;
    let mut parts = parts(roster, verdict);
    explanations.append(&mut parts.left_out);
    let states = states_beside_bad(roster, verdict);
    let untested = unmeasured::untested_nics(roster, &states);
    if parts.causes().count() + untested.len() == 0 {
        return Ok(());
    }
    if deadline.is_near() {
        explanations.extend(parts.causes().map(|cause| left_out(cause, NO_TIME)));
        return Ok(());
    }
    announce(crew, parts.causes().count(), untested.len());
    let Parts { culprits, fabric_parts, links, .. } = parts;
    let beside = |nic| controls(crew.members(), &states, &culprits, nic);
    let controls: Vec<Vec<NicId>> = culprits.iter().map(|culprit| beside(culprit.nic)).collect();
    let beside_part = |part: &FabricPart| part.nics.first().copied().map(beside);
    let beside_parts = fabric_parts.iter().map(|fabric| beside_part(fabric).unwrap_or_default());
    let beside_parts: Vec<Vec<NicId>> = beside_parts.collect();
    let rank = |nic: NicId| roster.node_of(nic).rank;
    let compared = culprits.iter().map(|culprit| culprit.nic);
    let compared = compared.chain(controls.iter().flatten().copied());
    let ranks: BTreeSet<u32> = compared.map(rank).collect();
    let in_parts = fabric_parts.iter().flat_map(|fabric| &fabric.nics);
    let in_parts = in_parts.chain(beside_parts.iter().flatten()).chain(&untested).copied();
    let checked: BTreeSet<u32> = ranks.iter().copied().chain(in_parts.map(rank)).collect();
    let mut investigation = Investigation::new(crew, tests);
    let first = investigation.checks(&checked)?;
    for (part, controls) in fabric_parts.iter().zip(&beside_parts) {
        explanations.push(unmeasured::part_explanation(part, controls, &first, roster));
    }
    let read = |nic: &NicId| (*nic, first.readings(*nic, roster));
    explanations.extend(unmeasured::nic_explanations(untested.iter().map(read).collect()));
    let crossings = links.iter();
    let crossings = crossings.map(|links| find_crossings(links, roster, verdict, &states));
    let crossings: Vec<Vec<Crossings>> = crossings.collect();
    let across = crossings.iter().flatten().flat_map(Crossings::nics).map(rank);
    let measured: BTreeSet<u32> = ranks.iter().copied().chain(across).collect();
    if measured.is_empty() {
        return Ok(());
    }
    found.shared = shared_by_kind(&culprits, &controls, &first, roster);
    investigation.prepare(&measured)?;
    explain_links(&mut investigation, &links, &crossings, deadline, explanations)?;
    if culprits.is_empty() {
        return Ok(());
    }
    let surroundings = Surroundings { roster, states: &states, first: &first };
    let all = culprits.iter().zip(controls).collect();
    diagnose(&mut investigation, &surroundings, all, deadline, explanations)
}

/// Notes what is investigated: this number of parts, and of untested NICs.
fn announce(crew: &mut dyn Crew, parts: usize, untested: usize) {
    if parts > 0 {
        crew.note(&format!("finding out why: {}", counted(parts as u64, "part")));
    }
    if untested > 0 {
        let nics = counted(untested as u64, "NIC");
        crew.note(&format!("reading the files of {nics} left untested"));
    }
}

/// Measures the links between groups at their `crossings`, and adds what is known about them to
/// `explanations`.
fn explain_links(
    investigation: &mut Investigation,
    links: &[GroupLinks],
    crossings: &[Vec<Crossings>],
    deadline: CulpritDeadline,
    explanations: &mut Vec<Explanation>,
) -> Result<(), Failure> {
    for (group_links, crossings) in links.iter().zip(crossings) {
        explanations.push(if deadline.is_near() {
            left_out(group_links.cause, NO_TIME)
        } else {
            link_explanation(group_links.cause, crossings, investigation)?
        });
    }
    Ok(())
}

/// Diagnoses culprits that can be measured, one of each kind, each beside the NICs that are listed
/// with it. Adds what is known about each of them to `explanations`.
fn diagnose<'a>(
    investigation: &mut Investigation,
    surroundings: &Surroundings,
    culprits: Vec<(&'a CulpritNic<'a>, Vec<NicId>)>,
    deadline: CulpritDeadline,
    explanations: &mut Vec<Explanation>,
) -> Result<(), Failure> {
    let Surroundings { roster, first, .. } = surroundings;
    let ranks =
        culprits.iter().flat_map(|(culprit, controls)| [&culprit.nic].into_iter().chain(controls));
    let ranks: BTreeSet<u32> = ranks.map(|nic| roster.node_of(*nic).rank).collect();
    let mut diagnosed: Vec<Diagnosed> = Vec::new();
    let mut same: Vec<(&CulpritNic, usize)> = Vec::new();
    for (culprit, controls) in culprits {
        let own = first.readings(culprit.nic, roster);
        let is_usable = |nic: &NicId| {
            let control = first.readings(*nic, roster);
            is_same_kind(&own, &control) && is_idle(&control) && !has_parked_peers(&control)
        };
        let controls: Vec<NicId> = controls.into_iter().filter(is_usable).collect();
        let others = first.all_readings(&controls, roster);
        let signature = signature(culprit, &own, &others);
        let is_known =
            |diagnosed: &Diagnosed| signature.is_some() && diagnosed.signature == signature;
        if let Some(index) = diagnosed.iter().position(is_known) {
            same.push((culprit, index));
        } else if controls.is_empty() {
            explanations.push(left_out(culprit.cause, NO_CONTROL));
        } else if diagnosed.len() >= MOST_SIGNATURES || deadline.is_near() {
            explanations.push(left_out(culprit.cause, NO_TIME));
        } else {
            let one = measure(investigation, surroundings, culprit, controls, (&own, &others))?;
            diagnosed.push(Diagnosed { signature, ..one });
        }
    }
    let second = investigation.checks(&ranks)?;
    let latest = |nic| second.latest_readings(first, nic, roster);
    for culprit in &diagnosed {
        let others: Vec<Readings> = culprit.controls.iter().map(|nic| latest(*nic)).collect();
        explanations.push(culprit.explanation(latest(culprit.culprit.nic), &others));
    }
    for (culprit, index) in &same {
        let other = &diagnosed[*index];
        let others: Vec<Readings> = other.controls.iter().map(|nic| latest(*nic)).collect();
        // Its files may have changed during the tests.
        let now = [*culprit, other.culprit]
            .map(|culprit| signature(culprit, &latest(culprit.nic), &others));
        let is_same = now[0].is_some() && now[0] == now[1];
        explanations.push(if is_same {
            Explanation {
                same_as: Some(other.culprit.cause.unit),
                ..Explanation::new(culprit.cause.unit)
            }
        } else {
            left_out(culprit.cause, CHANGED)
        });
    }
    Ok(())
}

/// Measures a culprit beside `controls`, unless its files explain it. They say `own` about it, and
/// `others` about the controls.
fn measure<'a>(
    investigation: &mut Investigation,
    surroundings: &Surroundings,
    culprit: &'a CulpritNic<'a>,
    controls: Vec<NicId>,
    (own, others): (&Readings, &[Readings]),
) -> Result<Diagnosed<'a>, Failure> {
    let is_good = |nic: &NicId| surroundings.states[nic.index()] == State::Good;
    let has_good = controls.iter().take(PARTNERS).all(is_good);
    let nothing = FiguresByTest::new();
    let by_files = evaluate(culprit.case(own, others, &nothing, has_good));
    let mut found = Found::default();
    if !by_files.is_final() {
        let places = SlotNics {
            roster: surroundings.roster,
            nic: culprit.nic,
            controls: &controls,
            has_parked_peers: has_parked_peers(own),
        };
        let has_huge_pages = others.iter().take(PARTNERS).chain([own]).all(has_huge_pages);
        investigation.measure_culprit(culprit, places, has_huge_pages, &mut found)?;
        let known = [own.clone(), found.counters()].concat();
        let case = culprit.case(&known, others, &found.measured, has_good);
        investigation.measure_again(&doubtful(case), places, &mut found)?;
    }
    let doubt = (!has_good).then_some(UNTESTED);
    Ok(Diagnosed { culprit, signature: None, controls, doubt, found })
}

/// The values that culprits of one kind share and hardly any good NIC of this kind has. A node with
/// several culprits counts once: they have the same host.
fn shared_by_kind(
    culprits: &[CulpritNic],
    controls: &[Vec<NicId>],
    checks: &Checks,
    roster: &Roster,
) -> Vec<SharedValue<Unit>> {
    let mut nodes = BTreeSet::new();
    let node_culprits =
        culprits.iter().filter(|culprit| nodes.insert(roster.nic(culprit.nic).node));
    let read =
        node_culprits.map(|culprit| (culprit.cause.unit, checks.readings(culprit.nic, roster)));
    let controls: BTreeSet<NicId> = controls.iter().flatten().copied().collect();
    let controls: Vec<NicId> = controls.into_iter().collect();
    let others = checks.all_readings(&controls, roster);
    let groups = by_kind(read.collect()).into_iter();
    let values = groups.flat_map(|group| {
        let alike = others.iter().filter(|other| is_same_kind(&group[0].1, other));
        shared_values(&group, &alike.cloned().collect::<Vec<_>>())
    });
    values.collect()
}

/// Returns NICs to compare a culprit with, on nodes without culprits: good ones first, then
/// NICs at its switch. Untested NICs are the last: beside them, no cause is certain.
pub fn controls(
    members: &Members,
    states: &[State],
    culprits: &[CulpritNic],
    culprit: NicId,
) -> Vec<NicId> {
    let roster = &members.roster;
    let own = roster.nic(culprit);
    let is_usable = |nic: &NicId| {
        let node = roster.nic(*nic).node;
        let state = states[nic.index()];
        matches!(state, State::Good | State::Untested)
            && members.has_address(*nic)
            && culprits.iter().all(|culprit| roster.nic(culprit.nic).node != node)
    };
    let mut usable: Vec<NicId> = roster.nic_ids().filter(is_usable).collect();
    usable.sort_by_key(|nic| {
        let facts = roster.nic(*nic);
        let is_untested = states[nic.index()] == State::Untested;
        let class = Class::between(own.location, facts.location);
        (is_untested, facts.device != own.device, class != Class::Switch)
    });
    let mut nodes = BTreeSet::new();
    usable.retain(|nic| nodes.insert(roster.nic(*nic).node));
    usable.truncate(CONTROLS);
    usable
}

/// The pairs of NICs across the links of two groups and others, in each direction that is slow.
fn find_crossings(
    links: &GroupLinks,
    roster: &Roster,
    verdict: &Findings,
    states: &[State],
) -> Vec<Crossings> {
    let directions = directions(links.groups, links.cause.direction).into_iter();
    let crossings = directions.map(|groups| Crossings::of(roster, verdict, states, groups));
    crossings.flatten().collect()
}

/// Measures across links, in one direction after the other until one explains them.
fn link_explanation(
    cause: &Cause,
    directions: &[Crossings],
    investigation: &mut Investigation,
) -> Result<Explanation, Failure> {
    let Some(evidence) = cause.evidence.first() else {
        return Ok(left_out(cause, LOOK_AT_SWITCHES));
    };
    let mut best: Option<Explanation> = None;
    for crossings in directions {
        let found = investigation.measure_links(crossings, evidence.test)?;
        let one = evaluated(cause, crossings, &found);
        let confidence = |explanation: &Explanation| explanation.causes[0].confidence;
        let is_final = confidence(&one) <= Confidence::Probably;
        // A direction that is not slow now says less than one that is.
        let is_open = |explanation: &Explanation| {
            matches!(confidence(explanation), Confidence::Transient | Confidence::NotMeasured)
        };
        if is_final || best.as_ref().is_none_or(is_open) {
            best = Some(one);
        }
        if is_final {
            break;
        }
    }
    Ok(best.unwrap_or_else(|| left_out(cause, LOOK_AT_SWITCHES)))
}

/// Returns what the measurements of one direction say.
fn evaluated(cause: &Cause, crossings: &Crossings, found: &Found) -> Explanation {
    let [own, others] = found.flows();
    let mut measured = found.measured.clone();
    if own.is_none() {
        // Flows that say nothing about links permit no cause either.
        measured.remove(&TestCode::O);
    }
    let own: Readings = own.into_iter().chain(found.counters()).collect();
    let others: Vec<Readings> = others.map(|reading| vec![reading]).into_iter().collect();
    let diagnosis = evaluate(Case {
        own: &own,
        others: &others,
        measured: &measured,
        fails: false,
        has_good_controls: crossings.are_good,
    });
    let doubt = (!crossings.are_good).then(|| UNTESTED.to_owned());
    let notes: Vec<String> = found.left_out().into_iter().chain(doubt).collect();
    let (first, beside) = crossings.first();
    Explanation {
        nic: Some(first),
        controls: beside,
        causes: diagnosis.whys,
        excluded: diagnosis.excluded,
        not_excluded: diagnosis.not_excluded,
        left_out: (!notes.is_empty()).then(|| notes.join("; ")),
        ..Explanation::new(cause.unit)
    }
}

/// Fewest culprits that share a value.
const FEWEST: usize = 3;

/// Values with this chance or a larger one are left out.
const CHANCE: f64 = 0.05;

/// A value that several culprits share and hardly any good NIC has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "testing", schemars(rename = "SharedValue"))]
pub struct SharedValue<Part> {
    /// The culprits with this value.
    pub culprits: Vec<Part>,
    /// Number of culprits with any value.
    pub of_culprits: usize,
    /// Code of the item.
    pub attribute: String,
    /// Its name.
    pub name: String,
    /// The value.
    pub value: String,
    /// The value of most good NICs.
    pub normal: String,
    /// Number of good NICs with the value of the culprits.
    pub others: usize,
    /// Number of good NICs with any value.
    pub of_others: usize,
    /// Probability, from 0 to 1, that at least this many culprits have the value if the value is
    /// unrelated to the verdict.
    pub chance: f64,
}

/// The values that several of these culprits share and hardly any good NIC has, in the order of
/// their items. Each culprit and good NIC is of a node of its own: what a node has counts once.
fn shared_values<Part: Copy>(
    culprits: &[(Part, Readings)],
    others: &[Readings],
) -> Vec<SharedValue<Part>> {
    let mut found = Vec::new();
    for (code, normal) in normals(others) {
        let with_item = culprits.iter().filter_map(|(part, own)| Some((*part, find(own, code)?)));
        let with_item: Vec<_> = with_item.collect();
        let own: Vec<&Finding> = with_item.iter().map(|(_, reading)| *reading).collect();
        let others = values(others, code);
        let mut seen: Vec<&Finding> = Vec::new();
        for (_, reading) in &with_item {
            if count(reading, &seen) > 0 {
                continue;
            }
            seen.push(reading);
            let (with, other_count) = (count(reading, &own), count(reading, &others));
            let chance = chance([with, other_count], [own.len(), others.len()]);
            let is_rare = other_count as f64 <= RARE * others.len() as f64;
            if with < FEWEST || !is_rare || chance >= CHANCE {
                continue;
            }
            let has_it = |entry: &&(Part, &Finding)| is_same(reading, entry.1);
            found.push(SharedValue {
                culprits: with_item.iter().filter(has_it).map(|with_item| with_item.0).collect(),
                of_culprits: own.len(),
                attribute: code.to_owned(),
                name: reading.name.clone(),
                value: reading.value.clone().unwrap_or_default(),
                normal: normal.value.clone().unwrap_or_default(),
                others: other_count,
                of_others: others.len(),
                chance,
            });
        }
    }
    found
}

/// The p-value of Fisher's exact test, one-sided: the probability that at least `with[0]` of the
/// `with[0] + with[1]` NICs with a value are among the `totals[0]` culprits, if the value is
/// unrelated to the verdict. `totals[1]` is the number of good NICs.
fn chance(with: [usize; 2], totals: [usize; 2]) -> f64 {
    let all_with = with[0] + with[1];
    let without = totals[0] + totals[1] - all_with;
    let most = all_with.min(totals[0]);
    let ways = |first: usize| ln_choices(all_with, first) + ln_choices(without, totals[0] - first);
    let all = ln_choices(totals[0] + totals[1], totals[0]);
    let sum: f64 = (with[0]..=most).map(|first| (ways(first) - all).exp()).sum();
    sum.min(1.0)
}

/// The logarithm of the number of ways to choose `some` of `all`.
fn ln_choices(all: usize, some: usize) -> f64 {
    let factors = (0..some).map(|i| ((all - i) as f64 / (i + 1) as f64).ln());
    factors.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::severity::Severity;
    use health::item::testing::reading;

    fn readings(value: &str) -> Readings {
        let is_memory = value.ends_with("GiB");
        let code = if is_memory { "memory-size" } else { "driver" };
        vec![reading(code, value, Severity::Shown)]
    }

    /// The shared values of culprits and good NICs with these values: which culprits, how many good
    /// NICs, and the value.
    fn of(culprits: &[&str], others: &[&str]) -> Vec<(Vec<usize>, usize, String)> {
        let culprits: Vec<_> =
            culprits.iter().map(|culprit| readings(culprit)).enumerate().collect();
        let others: Vec<_> = others.iter().map(|other| readings(other)).collect();
        let found = shared_values(&culprits, &others).into_iter();
        let shown = found.map(|value| (value.culprits, value.others, value.value));
        shown.collect()
    }

    /// Vector 29 of diagnosis.md 8.
    #[test]
    fn driver_of_three_culprits_is_shared() {
        let culprits: Vec<_> = (0..3).map(|part| (part, readings("1.9"))).collect();
        let found = shared_values(&culprits, &vec![readings("1.8"); 5]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprits, [0, 1, 2]);
        assert_eq!((found[0].of_culprits, found[0].others), (3, 0));
        assert_eq!((found[0].of_others, found[0].normal.as_str()), (5, "1.8"));
        assert!((found[0].chance - 1.0 / 56.0).abs() < 1e-9);
    }

    #[test]
    fn few_culprits_or_common_values_share_nothing() {
        let good = ["1.8"; 5];
        assert_eq!(of(&["1.9", "1.9"], &good), []);
        assert_eq!(of(&["1.9", "1.9", "1.7"], &good), []);
        // Good NICs have the normal value, too few of them are known, or one has the value.
        assert_eq!(of(&["1.8"; 3], &good), []);
        assert_eq!(of(&["1.9"; 3], &["1.8"; 4]), []);
        assert_eq!(of(&["1.9"; 3], &["1.8", "1.8", "1.8", "1.8", "1.9"]), []);
        // Two of twelve good NICs are too many, however many culprits have the value.
        let mut many = ["1.8"; 12];
        many[..2].fill("1.9");
        assert_eq!(of(&["1.9"; 20], &many), []);
        // One of 20 good NICs is 5 %.
        let mut many = ["1.8"; 20];
        many[3] = "1.9";
        let expected = (vec![0, 1, 2], 1, "1.9".to_owned());
        assert_eq!(of(&["1.9"; 3], &many), [expected]);
    }

    #[test]
    fn value_of_a_small_part_of_the_culprits_may_be_chance() {
        let mut culprits = ["1.8"; 20];
        culprits[..3].fill("1.9");
        assert_eq!(of(&culprits, &["1.8"; 5]), []);
        let few: Vec<_> = culprits[..4].iter().map(|culprit| (0, readings(culprit))).collect();
        let found = shared_values(&few, &vec![readings("1.8"); 8]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].culprits.len(), found[0].of_culprits), (3, 4));
    }

    #[test]
    fn sizes_of_memory_are_shared_if_they_are_close() {
        let culprits = ["448.0 GiB", "448.1 GiB", "447.9 GiB"];
        let expected = (vec![0, 1, 2], 0, "448.0 GiB".to_owned());
        assert_eq!(of(&culprits, &["512.0 GiB"; 5]), [expected]);
    }

    #[test]
    fn chance_is_the_tail_of_the_hypergeometric_distribution() {
        for (with, counts, expected) in [
            ([3, 0], [3, 5], 1.0 / 56.0),
            ([3, 0], [20, 5], 1140.0 / 2300.0),
            // The lady tasting tea: 3 of 4 right by chance.
            ([3, 1], [4, 4], 17.0 / 70.0),
            ([0, 3], [4, 4], 1.0),
            ([4, 4], [4, 4], 1.0),
        ] {
            let chance = chance(with, counts);
            assert!((chance - expected).abs() < 1e-12, "{with:?} {chance}");
        }
        // A site's 24 failures of 30 runs with a cabinet, and none of 43 without.
        assert!(chance([24, 0], [30, 43]) < 1e-12);
    }
}
