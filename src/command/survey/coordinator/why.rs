//! Why culprits are slow: the coordinator has the files of culprits and good NICs read, has both
//! measured in turn, and evaluates what comes of it (diagnosis.md 6.1).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::{CoordinatorLoop, PREPARATION_LIMIT, REPORT_LIMIT, REPORT_LIMIT_OF_THOUSAND, by_size};
use crate::command::survey::why_course::Tests;
use crate::command::survey::why_culprits::{Culprit, culprits, left_out, signature};
use crate::command::survey::why_slots::{Found, Places, Slot};
use cluster::location::Class;
use cluster::survey::answer::Stage;
use cluster::survey::findings::Findings;
use cluster::survey::ids::NicId;
use cluster::survey::roster::Roster;
use cluster::survey::timetable::Round;
use cluster::tree::Event;
use diag::run::survey::longest;
use diagnosis::causes::{CPU_WAIT, FOREIGN};
use diagnosis::comparison::Measured;
use diagnosis::evaluation::{doubtful, evaluate};
use diagnosis::procedure::{Step, TESTS, TestCode};
use diagnosis::readings::{Reading, Readings, State, find, number};
use facts::error::Failure;
use facts::limit;
use facts::number::time_text;
use node::nic::health::host::HUGE_PAGES;
use node::nic::health::identity::GENERATION;
use report::check_fleet::NodeCheck;
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

/// Good NICs whose files are read, and beside which culprits are measured.
const CONTROLS: usize = 8;
const PARTNERS: usize = 2;

/// Free huge pages of 2 MiB that a test needs.
const HUGE_PAGES_OF_TEST: f64 = 4.0;

const NO_TIME: &str = "there was no time for it";
const UNTESTED: &str = "nothing is certain: the NICs beside it are untested, because processes \
                        waited for CPUs";
const CHANGED: &str = "its files have changed during the diagnosis";
const NO_CONTROL: &str = "there is no good and idle NIC of its kind to compare with";

impl CoordinatorLoop<'_> {
    /// Finds out why the culprits of a verdict are slow. `explanations` has what is known after an
    /// error as well.
    ///
    /// # Errors
    ///
    /// An interruption.
    pub(super) fn explain(
        &mut self,
        verdict: &Findings,
        explanations: &mut Vec<Explanation>,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let roster = self.conductor.roster().clone();
        let (culprits, others) = culprits(&roster, verdict);
        explanations.extend(others);
        if culprits.is_empty() {
            return Ok(());
        }
        let is_late = |of: &Self| {
            let is_over = began.elapsed() + OF_CULPRIT > TIME;
            is_over || of.left().is_some_and(|left| left < OF_CULPRIT)
        };
        if is_late(self) {
            explanations.extend(culprits.iter().map(|of| left_out(of.cause, NO_TIME)));
            return Ok(());
        }
        let parts = words::counted(culprits.len() as u64, "part");
        self.outputs.note(&format!("finding out why: {parts}"));
        let states = states(&roster, verdict);
        let controls: Vec<Vec<NicId>> = (culprits.iter())
            .map(|of| self.controls(&roster, &states, &culprits, of.nic))
            .collect();
        let all = culprits
            .iter()
            .map(|of| of.nic)
            .chain(controls.iter().flatten().copied());
        let ranks: BTreeSet<u32> = all.map(|nic| roster.node_of(nic).rank).collect();
        let first = self.checks(&ranks)?;
        let tests = Tests::new(&self.request.tests, &self.request.service);
        self.prepare_diagnosis(&tests, &ranks)?;
        let mut diagnosed: Vec<Diagnosed> = Vec::new();
        let mut same: Vec<(&Culprit, usize)> = Vec::new();
        for (culprit, controls) in culprits.iter().zip(controls) {
            let own = readings(&first, culprit.nic, &roster);
            let is_usable = |nic: &NicId| {
                let control = readings(&first, *nic, &roster);
                is_same_kind(&own, &control) && is_idle(&control)
            };
            let controls: Vec<NicId> = controls.into_iter().filter(is_usable).collect();
            let others = readings_of(&first, &controls, &roster);
            let signature = signature(culprit, &own, &others);
            let is_known = |of: &Diagnosed| signature.is_some() && of.signature == signature;
            if let Some(index) = diagnosed.iter().position(is_known) {
                same.push((culprit, index));
                continue;
            }
            if controls.is_empty() {
                explanations.push(left_out(culprit.cause, NO_CONTROL));
                continue;
            }
            if diagnosed.len() >= MOST_SIGNATURES || is_late(self) {
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
                };
                let has_huge_pages = [&own]
                    .into_iter()
                    .chain(others.iter().take(PARTNERS))
                    .all(has_huge_pages);
                self.measure_culprit(culprit, places, &tests, has_huge_pages, &mut found)?;
                let known = [own.clone(), found.counters()].concat();
                let case = culprit.case(&known, &others, &found.measured, has_good);
                self.measure_again(&doubtful(case), places, &tests, &mut found)?;
            }
            diagnosed.push(Diagnosed {
                culprit,
                signature,
                controls,
                has_good,
                found,
            });
        }
        let second = self.checks(&ranks)?;
        let latest = |nic| {
            let (before, after) = (
                readings(&first, nic, &roster),
                readings(&second, nic, &roster),
            );
            if after.is_empty() {
                return before;
            }
            // The traffic of others is known from the time before the tests only.
            let others = before.into_iter().filter(|of| of.code == FOREIGN);
            let after = after.into_iter().filter(|of| of.code != FOREIGN);
            after.chain(others).collect()
        };
        for of in &diagnosed {
            let others: Vec<Readings> = of.controls.iter().map(|nic| latest(*nic)).collect();
            explanations.push(of.explanation(latest(of.culprit.nic), &others));
        }
        for (culprit, index) in &same {
            let other = &diagnosed[*index];
            let others: Vec<Readings> = other.controls.iter().map(|nic| latest(*nic)).collect();
            // Its files may have changed during the tests.
            let now = [*culprit, other.culprit].map(|of| signature(of, &latest(of.nic), &others));
            let is_same = now[0].is_some() && now[0] == now[1];
            explanations.push(if is_same {
                Explanation {
                    same_as: Some(other.culprit.cause.unit),
                    left_out: None,
                    ..left_out(culprit.cause, "")
                }
            } else {
                left_out(culprit.cause, CHANGED)
            });
        }
        let place = |of: &Explanation| {
            let mut causes = verdict.causes.iter();
            causes.position(|cause| cause.unit == of.culprit)
        };
        explanations.sort_by_key(place);
        Ok(())
    }

    /// Returns NICs to compare a culprit with, on nodes without culprits: good ones first, then
    /// NICs at its switch. Untested NICs are the last: beside them, no cause is certain.
    fn controls(
        &self,
        roster: &Roster,
        states: &[nics::State],
        culprits: &[Culprit],
        culprit: NicId,
    ) -> Vec<NicId> {
        let own = roster.nic(culprit);
        let is_usable = |nic: &NicId| {
            let node = roster.nic(*nic).node;
            let state = states[nic.index()];
            matches!(state, nics::State::Good | nics::State::Untested)
                && self.members.addresses[nic.index()].is_some()
                && culprits.iter().all(|of| roster.nic(of.nic).node != node)
        };
        let mut usable: Vec<NicId> = roster.nic_ids().filter(is_usable).collect();
        usable.sort_by_key(|nic| {
            let of = roster.nic(*nic);
            let is_untested = states[nic.index()] == nics::State::Untested;
            let class = Class::between(own.location, of.location);
            (is_untested, of.device != own.device, class != Class::Switch)
        });
        let mut nodes = BTreeSet::new();
        usable.retain(|nic| nodes.insert(roster.nic(*nic).node));
        usable.truncate(CONTROLS);
        usable
    }

    /// Asks these processes for checks of their NICs, except for those that are lost. A process
    /// without an answer has none.
    fn checks(&mut self, ranks: &BTreeSet<u32>) -> Result<BTreeMap<u32, NodeCheck>, Failure> {
        let ranks = self.present(ranks);
        self.root.send_checks(ranks.iter().copied());
        let size = ranks.len() as u32;
        let limit = by_size(REPORT_LIMIT, REPORT_LIMIT_OF_THOUSAND, size);
        let reason = format!("it did not check its NICs within {}", time_text(limit));
        let until = Instant::now() + limit::in_effect(limit);
        let mut checks = BTreeMap::new();
        let lost = self.wait_for(ranks, until, &reason, |event| match event {
            Event::Checked { rank, document } => {
                checks.extend(NodeCheck::read(&document).ok().map(|check| (rank, check)));
                Some(rank)
            }
            _ => None,
        })?;
        self.leave_out(lost);
        Ok(checks)
    }

    /// Leaves out lost members. The verdict stands.
    fn leave_out(&mut self, lost: BTreeMap<u32, String>) {
        for (rank, reason) in lost {
            self.members.lose(rank, &reason);
        }
    }

    /// Returns the processes of `ranks` that are not lost.
    fn present(&self, ranks: &BTreeSet<u32>) -> BTreeSet<u32> {
        let nodes = self.members.roster.nodes.iter();
        let present = nodes.filter(|node| node.absent.is_none() && ranks.contains(&node.rank));
        present.map(|node| node.rank).collect()
    }

    /// Prepares these processes for the tests.
    fn prepare_diagnosis(&mut self, tests: &Tests, ranks: &BTreeSet<u32>) -> Result<(), Failure> {
        let ranks = self.present(ranks);
        let pair = self.why_pair();
        let firsts = self.members.first_nics.iter();
        let firsts = firsts.filter(|(rank, _)| ranks.contains(rank));
        let courses = firsts.map(|(rank, first)| (*rank, tests.course(*first, pair)));
        self.root.send_courses(courses.collect());
        let reason = "it did not open its targets in time";
        let until = Instant::now() + limit::in_effect(PREPARATION_LIMIT);
        let lost = self.wait_for(ranks, until, reason, |event| match event {
            Event::Begun { rank } => Some(rank),
            _ => None,
        })?;
        self.leave_out(lost);
        Ok(())
    }

    /// Measures a culprit beside good NICs.
    fn measure_culprit(
        &mut self,
        culprit: &Culprit,
        places: Places,
        tests: &Tests,
        has_huge_pages: bool,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let of_survey = places.of_survey(culprit);
        let mut slots = of_survey.clone();
        slots.extend(places.of_step(Step::First, tests, |_| true));
        self.run_slots(&slots, tests, found)?;
        let second = places.of_step(Step::Second, tests, |_| true);
        self.run_slots(&second, tests, found)?;
        let third = places.of_step(Step::Third, tests, |test| {
            let is_useful = test.repeats.is_some_and(|base| found.is_slower(base));
            is_useful && (has_huge_pages || !test.needs_huge_pages)
        });
        self.run_slots(&third, tests, found)?;
        // What decides is measured again: one measurement may have been an accident.
        match found.slowest() {
            Some(TestCode::S) => self.run_slots(&of_survey, tests, found),
            Some(slowest) => self.measure_again(&[slowest], places, tests, found),
            None => Ok(()),
        }
    }

    /// Measures these tests again, except for the test of the survey.
    fn measure_again(
        &mut self,
        codes: &[TestCode],
        places: Places,
        tests: &Tests,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let again = TESTS.iter().filter(|test| codes.contains(&test.code));
        let slots: Vec<Slot> = again.flat_map(|test| places.of_test(test, tests)).collect();
        self.run_slots(&slots, tests, found)
    }

    fn why_pair(&self) -> Duration {
        self.request.pair_time.min(LONGEST_PAIR)
    }

    /// Measures in these slots, one pair at a time.
    fn run_slots(
        &mut self,
        slots: &[Slot],
        tests: &Tests,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let rounds: Vec<Round> = slots
            .iter()
            .map(|slot| Round {
                test: slot.test,
                stage: Stage::Comparison,
                pairs: vec![slot.pair],
            })
            .collect();
        if rounds.is_empty() {
            return Ok(());
        }
        let first = self.round;
        let block = self.run_block(&rounds, longest(self.why_pair()))?;
        let (results, lost) = block.results(&rounds, &self.members.roster);
        self.leave_out(lost);
        for result in &results.pairs {
            let slot = result.round.checked_sub(first);
            if let Some(slot) = slot.and_then(|slot| slots.get(slot as usize)) {
                let of_bandwidth = tests.is_of_bandwidth(slot.test);
                found.add(slot, result, of_bandwidth);
            }
        }
        Ok(())
    }
}

/// Returns what the check of its node says about a NIC; nothing without a check.
fn readings(checks: &BTreeMap<u32, NodeCheck>, nic: NicId, roster: &Roster) -> Readings {
    let check = checks.get(&roster.node_of(nic).rank);
    check.map_or(Vec::new(), |check| check.readings(&roster.nic(nic).device))
}

/// Returns whether a node has enough free huge pages for a test: for the buffers of both sides in
/// loopback.
fn has_huge_pages(of: &Readings) -> bool {
    let sizes = find(of, HUGE_PAGES.code).and_then(|of| of.value.as_deref());
    let mut sizes = sizes.unwrap_or_default().split(", ");
    let free = sizes.find(|of| of.ends_with(" of 2M")).and_then(number);
    free >= Some(HUGE_PAGES_OF_TEST)
}

/// Returns whether two NICs are of one generation: others differ for good reasons (diagnosis.md
/// 4.2).
fn is_same_kind(one: &Readings, other: &Readings) -> bool {
    let [one, other] = [one, other].map(|of| find(of, GENERATION.code));
    one.map(|of| &of.value) == other.map(|of| &of.value)
}

/// Returns whether no other processes use a NIC, as far as is known.
fn is_idle(of: &Readings) -> bool {
    find(of, FOREIGN).is_none_or(|of| of.state != State::Suspect)
}

/// Returns what the checks say about several NICs.
fn readings_of(
    checks: &BTreeMap<u32, NodeCheck>,
    nics: &[NicId],
    roster: &Roster,
) -> Vec<Readings> {
    let of_nic = |nic: &NicId| readings(checks, *nic, roster);
    nics.iter().map(of_nic).collect()
}

/// A culprit that was measured, or whose files explain it.
struct Diagnosed<'a> {
    culprit: &'a Culprit<'a>,
    signature: Option<Vec<String>>,
    controls: Vec<NicId>,
    /// Whether the survey has found the NICs good beside which it was measured.
    has_good: bool,
    found: Found,
}

impl Diagnosed<'_> {
    /// Returns what is known about it with its latest items, and the items of good NICs.
    fn explanation(&self, mut own: Readings, others: &[Readings]) -> Explanation {
        let is_unread = own.is_empty();
        let Self { culprit, found, .. } = self;
        own.extend(found.counters());
        own.extend(found.is_void().then(cpu_wait));
        let diagnosis = evaluate(culprit.case(&own, others, &found.measured, self.has_good));
        let notes = [
            is_unread.then(|| "its files could not be read".to_owned()),
            found.left_out(),
            (!self.has_good && found.slots > 0).then(|| UNTESTED.to_owned()),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        Explanation {
            nic: (found.slots > 0).then_some(culprit.nic),
            controls: self.controls.iter().copied().take(PARTNERS).collect(),
            causes: diagnosis.whys,
            differs: diagnosis.differs,
            excluded: diagnosis.excluded,
            left_out: (!notes.is_empty()).then(|| notes.join("; ")),
            ..left_out(culprit.cause, "")
        }
    }
}

/// Returns the reading of a culprit whose processes waited for their CPUs.
fn cpu_wait() -> Reading {
    Reading {
        code: CPU_WAIT.into(),
        name: "waiting for CPUs".into(),
        value: Some("in all tests".into()),
        state: State::Suspect,
        text: "its processes waited for their CPUs in all tests".into(),
        share: None,
        is_attribute: false,
    }
}
