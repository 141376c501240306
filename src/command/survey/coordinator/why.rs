//! Why culprits are slow: the coordinator has the files of culprits and good NICs read, has both
//! measured in turn, and evaluates what comes of it (diagnosis.md 6.1).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::{CoordinatorLoop, PREPARATION_LIMIT, REPORT_LIMIT, REPORT_LIMIT_OF_THOUSAND, by_size};
use crate::command::survey::why_course::Tests;
use crate::command::survey::why_culprits::{Culprit, culprits, left_out, signature};
use crate::command::survey::why_slots::{Found, Slot, of_step, of_survey, slots_of};
use cluster::location::Class;
use cluster::survey::answer::Stage;
use cluster::survey::findings::Findings;
use cluster::survey::ids::NicId;
use cluster::survey::roster::Roster;
use cluster::survey::timetable::Round;
use cluster::tree::Event;
use diag::run::survey::longest;
use diagnosis::causes::CPU_WAIT;
use diagnosis::comparison::Measured;
use diagnosis::evaluation::{Confidence, doubtful, evaluate};
use diagnosis::procedure::{Step, TESTS, TestCode};
use diagnosis::readings::{Reading, Readings, State, find};
use facts::error::Failure;
use facts::limit;
use facts::number::time_text;
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

const NO_CONTROL: &str = "there is no good NIC of its kind to compare with";

impl CoordinatorLoop<'_> {
    /// Finds out why the culprits of a verdict are slow.
    ///
    /// # Errors
    ///
    /// An interruption.
    pub(super) fn explain(&mut self, verdict: &Findings) -> Result<Vec<Explanation>, Failure> {
        let began = Instant::now();
        let (culprits, mut explanations) = culprits(self.conductor.roster(), verdict);
        if culprits.is_empty() {
            return Ok(explanations);
        }
        let controls = self.controls(verdict, &culprits);
        if controls.is_empty() {
            explanations.extend(culprits.iter().map(|of| left_out(of.cause, NO_CONTROL)));
            return Ok(explanations);
        }
        let parts = words::counted(culprits.len() as u64, "part");
        self.outputs.note(&format!("finding out why: {parts}"));
        let roster = self.conductor.roster().clone();
        let all = culprits.iter().map(|of| of.nic).chain(controls.clone());
        let ranks: BTreeSet<u32> = all.map(|nic| roster.node_of(nic).rank).collect();
        let first = self.checks(&ranks)?;
        let tests = Tests::new(&self.request.tests, &self.request.service);
        self.prepare_diagnosis(&tests, &ranks)?;
        let mut kinds: Vec<(Vec<String>, usize)> = Vec::new();
        let mut measured: BTreeMap<usize, (Vec<NicId>, Found)> = BTreeMap::new();
        for (index, culprit) in culprits.iter().enumerate() {
            let own = readings(&first, culprit.nic, &roster);
            let is_of_kind = |nic: &NicId| is_same_kind(&own, &readings(&first, *nic, &roster));
            let controls: Vec<NicId> = controls.iter().copied().filter(is_of_kind).collect();
            let others: Vec<Readings> = controls
                .iter()
                .map(|nic| readings(&first, *nic, &roster))
                .collect();
            let signature = signature(culprit, &own, &others);
            if let Some((_, other)) = kinds.iter().find(|(known, _)| *known == signature) {
                explanations.push(Explanation {
                    same_as: Some(culprits[*other].cause.unit),
                    left_out: None,
                    ..left_out(culprit.cause, "")
                });
                continue;
            }
            let is_late = began.elapsed() + OF_CULPRIT > TIME
                || self.left().is_some_and(|left| left < OF_CULPRIT);
            if controls.is_empty() {
                explanations.push(left_out(culprit.cause, NO_CONTROL));
                continue;
            }
            if kinds.len() >= MOST_SIGNATURES || is_late {
                explanations.push(left_out(culprit.cause, "there was no time for it"));
                continue;
            }
            kinds.push((signature, index));
            let nothing = Measured::new();
            let by_files = evaluate(culprit.case(&own, &others, &nothing));
            let is_explained = by_files.whys.first().map(|why| why.confidence);
            let mut found = Found::default();
            if is_explained != Some(Confidence::Because) {
                self.measure_culprit(culprit, &controls, &tests, &mut found)?;
                let again = doubtful(culprit.case(&own, &others, &found.measured));
                self.measure_again(&again, culprit, &controls, &tests, &mut found)?;
            }
            measured.insert(index, (controls, found));
        }
        let second = self.checks(&ranks)?;
        for (index, (controls, found)) in &measured {
            let latest = |nic| match readings(&second, nic, &roster) {
                empty if empty.is_empty() => readings(&first, nic, &roster),
                latest => latest,
            };
            let culprit = &culprits[*index];
            let others: Vec<Readings> = controls.iter().map(|nic| latest(*nic)).collect();
            explanations.push(explanation(
                culprit,
                latest(culprit.nic),
                controls,
                &others,
                found,
            ));
        }
        let place = |of: &Explanation| {
            let mut causes = verdict.causes.iter();
            causes.position(|cause| cause.unit == of.culprit)
        };
        explanations.sort_by_key(place);
        Ok(explanations)
    }

    /// Returns NICs to compare culprits with, on nodes of their own: good ones first, then NICs at
    /// the switch of the first culprit. A NIC that busy CPUs have left untested may be slow itself:
    /// beside it, a culprit looks faster, so that no cause becomes surer.
    fn controls(&self, verdict: &Findings, culprits: &[Culprit]) -> Vec<NicId> {
        let roster = self.conductor.roster();
        let states = states(roster, verdict);
        let first = roster.nic(culprits[0].nic);
        let is_usable = |nic: &NicId| {
            matches!(
                states[nic.index()],
                nics::State::Good | nics::State::Untested
            ) && self.members.addresses[nic.index()].is_some()
                && !culprits
                    .iter()
                    .any(|of| roster.nic(of.nic).node == roster.nic(*nic).node)
        };
        let mut good: Vec<NicId> = roster.nic_ids().filter(is_usable).collect();
        let is_far = |nic: &NicId| {
            let of = roster.nic(*nic);
            let is_other_device = of.device != first.device && !of.device.starts_with("soft");
            let class = Class::between(first.location, of.location);
            let is_untested = states[nic.index()] == nics::State::Untested;
            (is_untested, is_other_device, class != Class::Switch)
        };
        good.sort_by_key(is_far);
        let mut nodes = BTreeSet::new();
        good.retain(|nic| nodes.insert(roster.nic(*nic).node));
        good.truncate(CONTROLS);
        good
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
        controls: &[NicId],
        tests: &Tests,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let of_survey = of_survey(culprit, controls);
        let mut slots = of_survey.clone();
        slots.extend(of_step(Step::First, culprit.nic, controls, tests));
        self.run_slots(&slots, tests, found)?;
        slots = of_step(Step::Second, culprit.nic, controls, tests);
        self.run_slots(&slots, tests, found)?;
        // What decides is measured again: one measurement may have been an accident.
        let slowest = found.slowest();
        let again = TESTS.iter().filter(|test| Some(test.code) == slowest);
        let mut again: Vec<Slot> = again
            .flat_map(|test| slots_of(test, culprit.nic, controls, tests))
            .collect();
        if slowest == Some(TestCode::S) {
            again = of_survey;
        }
        again.extend(again.first().copied());
        self.run_slots(&again, tests, found)
    }

    /// Measures these tests again, except for the test of the survey.
    fn measure_again(
        &mut self,
        codes: &[TestCode],
        culprit: &Culprit,
        controls: &[NicId],
        tests: &Tests,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let again = TESTS.iter().filter(|test| codes.contains(&test.code));
        let slots: Vec<Slot> = again
            .flat_map(|test| slots_of(test, culprit.nic, controls, tests))
            .collect();
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

/// Returns whether two NICs are of one generation: others differ for good reasons (diagnosis.md
/// 4.2).
fn is_same_kind(one: &Readings, other: &Readings) -> bool {
    let [one, other] = [one, other].map(|of| find(of, GENERATION.code));
    one.map(|of| &of.value) == other.map(|of| &of.value)
}

/// Returns what is known about a culprit with these items and figures, beside these good NICs.
fn explanation(
    culprit: &Culprit,
    mut own: Readings,
    controls: &[NicId],
    others: &[Readings],
    found: &Found,
) -> Explanation {
    let is_unread = own.is_empty();
    own.extend(found.is_void().then(cpu_wait));
    let diagnosis = evaluate(culprit.case(&own, others, &found.measured));
    Explanation {
        nic: (found.slots > 0).then_some(culprit.nic),
        controls: controls.iter().copied().take(PARTNERS).collect(),
        causes: diagnosis.whys,
        differs: diagnosis.differs,
        excluded: diagnosis.excluded,
        left_out: if is_unread {
            Some("its files could not be read".to_owned())
        } else {
            found.left_out()
        },
        ..left_out(culprit.cause, "")
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
        is_attribute: false,
    }
}
