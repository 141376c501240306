//! Why the culprits of a verdict are slow: which of them are investigated, beside which good NICs,
//! and within which time (diagnosis.md 6.1).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::CoordinatorLoop;
use super::investigation::{
    Checks, Diagnosed, Investigation, PARTNERS, UNTESTED, by_kind, has_huge_pages,
    has_parked_peers, is_idle, is_same_kind,
};
use super::{fabric_parts, group_links, untested};
use crate::command::survey::members::Members;
use crate::command::survey::why_culprits::{
    Culprit, FabricPart, Parts, left_out, parts, signature,
};
use crate::command::survey::why_links::Crossings;
use crate::command::survey::why_slots::{Found, Places};
use cluster::location::Class;
use cluster::survey::findings::{Findings, Unit};
use cluster::survey::ids::NicId;
use cluster::survey::roster::Roster;
use diagnosis::comparison::Measured;
use diagnosis::evaluation::{doubtful, evaluate};
use diagnosis::readings::Readings;
use diagnosis::shared::{SharedValue, shared_values};
use facts::error::Failure;
use report::survey::nics::{self, states};
use report::survey::why::Explanation;
use report::survey::words;

/// The longest time for which a test measures a NIC: no longer than a pair of the survey.
const LONGEST_PAIR: Duration = Duration::from_millis(50);

/// Time for all culprits (diagnosis.md 6.1).
const TIME: Duration = Duration::from_secs(60);

/// Longest diagnosis of a culprit: one is not begun with less time.
const OF_CULPRIT: Duration = Duration::from_secs(10);

/// Most kinds of culprits that are measured.
const MOST_SIGNATURES: usize = 8;

/// Good NICs whose files are read.
const CONTROLS: usize = 8;

const NO_TIME: &str = "there was no time for it";
const CHANGED: &str = "its files have changed during the diagnosis";
const NO_CONTROL: &str = "there is no good and idle NIC of its kind to compare with";

impl CoordinatorLoop<'_> {
    /// Finds out why the culprits of a verdict are slow. Adds what is known about each of them to
    /// `explanations`, and the values that several of them share to `shared`, also before an error.
    pub(super) fn explain(
        &mut self,
        verdict: &Findings,
        explanations: &mut Vec<Explanation>,
        shared: &mut Vec<SharedValue<Unit>>,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let roster = self.conductor.roster().clone();
        let Parts { culprits, fabric_parts, links, left_out: others } = parts(&roster, verdict);
        explanations.extend(others);
        let states = states(&roster, verdict);
        let untested = untested::untested(&roster, &states);
        if culprits.is_empty() && fabric_parts.is_empty() && links.is_empty() && untested.is_empty()
        {
            return Ok(());
        }
        let ends = self.ends;
        let is_late = || {
            let left = |end: Instant| end.saturating_duration_since(Instant::now());
            let is_over = began.elapsed() + OF_CULPRIT > TIME;
            is_over || ends.is_some_and(|end| left(end) < OF_CULPRIT)
        };
        if is_late() {
            let causes = culprits.iter().map(|culprit| culprit.cause);
            let causes = causes.chain(fabric_parts.iter().map(|fabric| fabric.cause));
            let causes = causes.chain(links.iter().map(|link| link.cause));
            explanations.extend(causes.map(|cause| left_out(cause, NO_TIME)));
            return Ok(());
        }
        let notes = &mut self.control.notes;
        let parts = culprits.len() + fabric_parts.len() + links.len();
        if parts > 0 {
            let parts = words::counted(parts as u64, "part");
            notes.add(&format!("finding out why: {parts}"));
        }
        if !untested.is_empty() {
            let nics = words::counted(untested.len() as u64, "NIC");
            notes.add(&format!("reading the files of {nics} left untested"));
        }
        let beside = |nic| controls(&self.control.members, &states, &culprits, nic);
        let controls: Vec<Vec<NicId>> =
            culprits.iter().map(|culprit| beside(culprit.nic)).collect();
        let all =
            culprits.iter().map(|culprit| culprit.nic).chain(controls.iter().flatten().copied());
        let rank = |nic: NicId| roster.node_of(nic).rank;
        let ranks: BTreeSet<u32> = all.map(rank).collect();
        let beside_part = |part: &FabricPart| part.nics.first().copied().map(beside);
        let beside_parts =
            fabric_parts.iter().map(|fabric| beside_part(fabric).unwrap_or_default());
        let beside_parts: Vec<Vec<NicId>> = beside_parts.collect();
        let in_parts = fabric_parts.iter().flat_map(|fabric| &fabric.nics);
        let in_parts = in_parts.chain(beside_parts.iter().flatten()).chain(&untested).copied();
        let checked: BTreeSet<u32> = ranks.iter().copied().chain(in_parts.map(rank)).collect();
        let mut investigation = Investigation::new(
            &mut self.control,
            self.request,
            self.request.pair_time.min(LONGEST_PAIR),
        );
        let first = investigation.checks(&checked)?;
        for (part, controls) in fabric_parts.iter().zip(&beside_parts) {
            explanations.push(fabric_parts::explanation(part, controls, &first, &roster));
        }
        let read = |nic: &NicId| (*nic, first.readings(*nic, &roster));
        let read: Vec<_> = untested.iter().map(read).collect();
        explanations.extend(untested::explanations(read));
        let crossings = links.iter();
        let crossings =
            crossings.map(|links| group_links::crossings(links, &roster, verdict, &states));
        let crossings: Vec<Vec<Crossings>> = crossings.collect();
        let across = crossings.iter().flatten().flat_map(Crossings::nics).map(rank);
        let measured: BTreeSet<u32> = ranks.iter().copied().chain(across).collect();
        if measured.is_empty() {
            return Ok(());
        }
        *shared = shared_by_kind(&culprits, &controls, &first, &roster);
        investigation.prepare(&measured)?;
        for (group_links, crossings) in links.iter().zip(&crossings) {
            explanations.push(if is_late() {
                left_out(group_links.cause, NO_TIME)
            } else {
                group_links::explanation(group_links.cause, crossings, &mut investigation)?
            });
        }
        if culprits.is_empty() {
            return Ok(());
        }
        let mut diagnosed: Vec<Diagnosed> = Vec::new();
        let mut same: Vec<(&Culprit, usize)> = Vec::new();
        for (culprit, controls) in culprits.iter().zip(controls) {
            let own = first.readings(culprit.nic, &roster);
            let is_usable = |nic: &NicId| {
                let control = first.readings(*nic, &roster);
                is_same_kind(&own, &control) && is_idle(&control) && !has_parked_peers(&control)
            };
            let controls: Vec<NicId> = controls.into_iter().filter(is_usable).collect();
            let others = first.readings_of(&controls, &roster);
            let signature = signature(culprit, &own, &others);
            let is_known =
                |diagnosed: &Diagnosed| signature.is_some() && diagnosed.signature == signature;
            if let Some(index) = diagnosed.iter().position(is_known) {
                same.push((culprit, index));
                continue;
            }
            if controls.is_empty() {
                explanations.push(left_out(culprit.cause, NO_CONTROL));
                continue;
            }
            if diagnosed.len() >= MOST_SIGNATURES || is_late() {
                explanations.push(left_out(culprit.cause, NO_TIME));
                continue;
            }
            let is_good = |nic: &NicId| states[nic.index()] == nics::State::Good;
            let has_good = controls.iter().take(PARTNERS).all(is_good);
            let nothing = Measured::new();
            let by_files = evaluate(culprit.case(&own, &others, &nothing, has_good));
            let mut found = Found::default();
            if !by_files.is_final() {
                let places = Places {
                    roster: &roster,
                    nic: culprit.nic,
                    controls: &controls,
                    has_parked_peers: has_parked_peers(&own),
                };
                let has_huge_pages = others.iter().take(PARTNERS).chain([&own]).all(has_huge_pages);
                investigation.measure_culprit(culprit, places, has_huge_pages, &mut found)?;
                let known = [own.clone(), found.counters()].concat();
                let case = culprit.case(&known, &others, &found.measured, has_good);
                investigation.measure_again(&doubtful(case), places, &mut found)?;
            }
            diagnosed.push(Diagnosed {
                culprit,
                signature,
                controls,
                doubt: (!has_good).then_some(UNTESTED),
                found,
            });
        }
        let second = investigation.checks(&ranks)?;
        let latest = |nic| second.readings_or(&first, nic, &roster);
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
        let place = |explanation: &Explanation| {
            let mut causes = verdict.causes.iter();
            let place = causes.position(|cause| cause.unit == explanation.culprit);
            place.unwrap_or(usize::MAX)
        };
        explanations.sort_by_key(place);
        Ok(())
    }
}

/// Returns the values that culprits of one kind share and hardly any good NIC of this kind has. A
/// node with several culprits counts once: they have the same host.
fn shared_by_kind(
    culprits: &[Culprit],
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
    let others = checks.readings_of(&controls, roster);
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
    states: &[nics::State],
    culprits: &[Culprit],
    culprit: NicId,
) -> Vec<NicId> {
    let roster = &members.roster;
    let own = roster.nic(culprit);
    let is_usable = |nic: &NicId| {
        let node = roster.nic(*nic).node;
        let state = states[nic.index()];
        matches!(state, nics::State::Good | nics::State::Untested)
            && members.addresses[nic.index()].is_some()
            && culprits.iter().all(|culprit| roster.nic(culprit.nic).node != node)
    };
    let mut usable: Vec<NicId> = roster.nic_ids().filter(is_usable).collect();
    usable.sort_by_key(|nic| {
        let facts = roster.nic(*nic);
        let is_untested = states[nic.index()] == nics::State::Untested;
        let class = Class::between(own.location, facts.location);
        (is_untested, facts.device != own.device, class != Class::Switch)
    });
    let mut nodes = BTreeSet::new();
    usable.retain(|nic| nodes.insert(roster.nic(*nic).node));
    usable.truncate(CONTROLS);
    usable
}
