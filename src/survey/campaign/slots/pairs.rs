//! Rounds of pairs -> the slots of a block, and the results of their tasks -> a result for each
//! pair.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{AnsweredBlock, Crew, LostMembers, MemberWork, ProgressText};
use crate::quiet::answer::{Answer, CounterEvidence, PairResult, Stage, Untested};
use crate::quiet::roster::{NicId, Pair, Roster, TestId};
use crate::quiet::rounds::Round;
use crate::timetable::{Slot, SlotTask, TaskAnswer, TaskResult, by_slot};
use facts::error::Failure;

/// Whether pairs of a stage have all their counters read. The sweep has many pairs, and limits for
/// few counters.
pub fn reads_all_counters(stage: Stage) -> bool {
    !matches!(stage, Stage::Sweep | Stage::Again)
}

/// Returns what the NICs do in the slot of a round. `has_address` says whether a NIC can measure: a
/// pair of which one cannot is in no slot.
pub fn slot(round: &Round, has_address: impl Fn(NicId) -> bool) -> Slot {
    let test = round.test;
    let reads_all_counters = reads_all_counters(round.stage);
    let mut parts = Slot::new();
    for pair in round.pairs.iter().filter(|pair| pair.nics().into_iter().all(&has_address)) {
        let Pair { initiator, target } = *pair;
        parts.insert(target, SlotTask::Answer { test, initiator });
        // In loopback, this is the only part.
        parts.insert(initiator, SlotTask::Measure { test, target, reads_all_counters });
    }
    parts
}

/// What the members have answered to a block of rounds.
pub struct MeasuredRounds {
    pub test: TestId,
    pub pairs: Vec<PairResult>,
    /// The pairs that failed because an operation had no answer.
    pub unanswered: BTreeSet<Pair>,
    /// Longest time that a process needed for a pair, without the time in which pairs are measured;
    /// `None` without a report.
    pub beyond: Option<Duration>,
    /// Largest difference between the clocks of the processes, in nanoseconds; `None` if unknown.
    pub clock_uncertainty_ns: Option<u64>,
    pub work: Vec<MemberWork>,
    pub lost: LostMembers,
    /// NICs that cannot measure any longer, with the reasons.
    pub failed: Vec<(NicId, String)>,
}

/// Has the members measure a block of rounds, in slots of this length. `first_round` is the number
/// of the first round, `variant` returns the test of the test setup that measures a pair.
///
/// # Errors
///
/// The errors of [`Crew::run`].
pub fn measure(
    crew: &mut dyn Crew,
    rounds: &[Round],
    first_round: u32,
    length: Duration,
    variant: &dyn Fn(TestId, Pair) -> TestId,
    line: ProgressText,
) -> Result<MeasuredRounds, Failure> {
    let members = crew.members();
    let slot = |round| {
        let mut slot = slot(round, |nic| members.has_address(nic));
        for (nic, part) in &mut slot {
            match part {
                SlotTask::Measure { test, target, .. } => {
                    *test = variant(*test, Pair { initiator: *nic, target: *target });
                }
                SlotTask::Answer { test, initiator } => {
                    *test = variant(*test, Pair { initiator: *initiator, target: *nic });
                }
                SlotTask::Send { .. } | SlotTask::Watch => {}
            }
        }
        slot
    };
    let slots: Vec<Slot> = rounds.iter().map(slot).collect();
    let answered = crew.run(&slots, length, None, line)?;
    let AnsweredBlock { reports, work, lost, failed } = answered;
    let uncertainties = reports.iter().map(|report| report.clock_uncertainty_ns);
    let clock_uncertainty_ns = uncertainties.max().flatten();
    let beyond = reports.iter().map(|report| report.beyond_ns).max();
    let results = by_slot(reports, slots.len());
    let roster = &crew.members().roster;
    let (pairs, unanswered) = self::results((rounds, first_round), &slots, results, &lost, roster);
    Ok(MeasuredRounds {
        test: rounds[0].test,
        pairs,
        unanswered,
        beyond: beyond.map(Duration::from_nanos),
        clock_uncertainty_ns,
        work,
        lost,
        failed,
    })
}

/// The result of each pair of `rounds`, the first of which has the number `first_round`, from the
/// results in the `slots` of these rounds, and the pairs that failed because an operation had no
/// answer.
///
/// A pair may have two results: a target reports only that it could not do its part. A pair that
/// failed because its partner was lost says nothing about its NICs.
pub fn results(
    (rounds, first_round): (&[Round], u32),
    slots: &[Slot],
    results: Vec<Vec<TaskResult>>,
    lost: &LostMembers,
    roster: &Roster,
) -> (Vec<PairResult>, BTreeSet<Pair>) {
    let loss = |pair: Pair| {
        let nodes = pair.nics().map(|nic| roster.node_of(nic));
        nodes.into_iter().find_map(|node| {
            let reason = lost.get(&node.rank)?;
            Some(Untested::Other(format!("{}: {reason}", node.host)))
        })
    };
    let (mut pair_results, mut unanswered) = (Vec::new(), BTreeSet::new());
    for (number, (round, (slot, slot_results))) in
        (first_round..).zip(rounds.iter().zip(slots.iter().zip(results)))
    {
        let results = slot_results.into_iter().map(|result| (result.nic, result));
        let mut results: BTreeMap<NicId, TaskResult> = results.collect();
        for pair in &round.pairs {
            let empty = || PairResult {
                test: round.test,
                pair: *pair,
                stage: round.stage,
                round: number,
                active: round.pairs.len() as u32,
                answer: Answer::Untested(if slot.contains_key(&pair.initiator) {
                    Untested::NoReport
                } else {
                    Untested::NoAddress
                }),
                waited_percent: 0,
                counters: Vec::new(),
            };
            let sides = [pair.initiator, pair.target].map(|nic| results.remove(&nic));
            let sides: Vec<TaskResult> = sides.into_iter().flatten().collect();
            let lacks_answer =
                sides.iter().any(|side| matches!(side.answer, TaskAnswer::NoAnswer(_)))
                    && !sides.iter().any(|side| matches!(side.answer, TaskAnswer::Failed(_)));
            let sides = sides.into_iter().filter_map(|side| pair_result(side, empty()));
            let mut result = sides.reduce(merged).unwrap_or_else(empty);
            if !matches!(result.answer, Answer::Measured(_))
                && let Some(reason) = loss(*pair)
            {
                result.answer = Answer::Untested(reason);
            }
            if lacks_answer && matches!(result.answer, Answer::Failed(_)) {
                unanswered.insert(*pair);
            }
            pair_results.push(result);
        }
    }
    (pair_results, unanswered)
}

/// Returns what one side says about a pair, if anything; `empty` is a result that says nothing.
fn pair_result(side: TaskResult, empty: PairResult) -> Option<PairResult> {
    let answer = match side.answer {
        TaskAnswer::Figures(figures) => Answer::Measured(figures),
        TaskAnswer::Failed(why) | TaskAnswer::NoAnswer(why) => Answer::Failed(why),
        TaskAnswer::Untested(why) => Answer::Untested(why),
        TaskAnswer::Present | TaskAnswer::Latencies(_) | TaskAnswer::Sent { .. } => return None,
    };
    let evidence = |(counter, change)| CounterEvidence { nic: side.nic, counter, change };
    let is_initiator = side.nic == empty.pair.initiator;
    let counters = side.counters.into_iter().filter(|_| is_initiator);
    let counters = counters.map(evidence).collect();
    Some(PairResult { answer, waited_percent: side.waited_percent, counters, ..empty })
}

/// Returns what both sides of a pair say together. What was measured counts, however busy the CPUs
/// of the other side were: the load of a CPU must not decide which figures are kept.
fn merged(one: PairResult, other: PairResult) -> PairResult {
    let (mut kept, dropped) =
        if counts(&one.answer, &other.answer) { (one, other) } else { (other, one) };
    kept.waited_percent = match dropped.answer {
        // This side does not know how long it waited.
        Answer::Untested(Untested::Late | Untested::Paused) => 100,
        _ => kept.waited_percent.max(dropped.waited_percent),
    };
    kept
}

/// Whether an answer counts, not the answer of the other side.
fn counts(answer: &Answer, other: &Answer) -> bool {
    let is_busy =
        |answer: &Answer| matches!(answer, Answer::Untested(why) if why.is_from_busy_cpus());
    match (answer, other) {
        // A process that had no CPU explains why an operation failed.
        (Answer::Failed(_), other) => !matches!(other, Answer::Untested(_)),
        (Answer::Measured(_), other) => is_busy(other),
        (Answer::Untested(_), Answer::Measured(_)) => !is_busy(answer),
        (Answer::Untested(_), _) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::answer::Figures;
    use crate::quiet::testing::Cluster;

    const PAIR: Pair = Pair { initiator: NicId(0), target: NicId(1) };

    fn roster() -> Roster {
        Cluster::new([0, 0, 2, 1], &[], 0).roster
    }

    fn round(stage: Stage, pairs: &[Pair]) -> Round {
        Round { test: TestId(4), stage, pairs: pairs.into() }
    }

    /// The answer of a pair whose NICs report these answers.
    fn result(answers: &[TaskAnswer], left_out: bool, lost: &[u32]) -> Answer {
        pair_of(answers, left_out, lost).answer
    }

    /// The result of a pair whose NICs report these answers; the second one has waited for its CPU.
    fn pair_of(answers: &[TaskAnswer], left_out: bool, lost: &[u32]) -> PairResult {
        let rounds = [round(Stage::Sweep, &[PAIR])];
        let slots = [slot(&rounds[0], |_| !left_out)];
        let task_result = |(nic, answer): (NicId, &TaskAnswer)| TaskResult {
            waited_percent: 30 * nic.0 as u8,
            counters: vec![("retries".into(), 7)],
            ..TaskResult::new(0, nic, answer.clone())
        };
        let reported = NicId::first(2).zip(answers).map(task_result).collect();
        let lost = lost.iter().map(|rank| (*rank, "it ended".to_owned())).collect();
        let (found, _) = results((&rounds, 7), &slots, vec![reported], &lost, &roster());
        let [result] = found.try_into().unwrap();
        assert_eq!((result.round, result.active, result.pair), (7, 1, PAIR));
        result
    }

    fn measured() -> TaskAnswer {
        TaskAnswer::Figures(Figures::Bandwidth {
            bytes_per_second: 1.0,
            operations_per_second: 1.0,
        })
    }

    #[test]
    fn both_nics_of_a_pair_have_parts() {
        let alone = Pair::loopback(NicId(1));
        let test = TestId(4);
        let measure =
            |target, reads_all_counters| SlotTask::Measure { test, target, reads_all_counters };
        let both = slot(&round(Stage::Sweep, &[PAIR]), |_| true);
        let answer = SlotTask::Answer { test, initiator: NicId(0) };
        let expected = [(NicId(0), measure(NicId(1), false)), (NicId(1), answer)];
        assert_eq!(both, Slot::from(expected));
        for (stage, reads_all_counters) in [(Stage::Again, false), (Stage::Comparison, true)] {
            let loopback = slot(&round(stage, &[alone]), |_| true);
            let expected = [(NicId(1), measure(NicId(1), reads_all_counters))];
            assert_eq!(loopback, Slot::from(expected));
        }
        assert!(slot(&round(Stage::Sweep, &[PAIR]), |nic| nic == NicId(0)).is_empty());
    }

    #[test]
    fn counters_are_those_of_the_initiator() {
        let failed = || TaskAnswer::Failed("no answer".into());
        let evidence = CounterEvidence { nic: NicId(0), counter: "retries".into(), change: 7 };
        let both = pair_of(&[failed(), failed()], false, &[]);
        assert_eq!(both.counters, [evidence]);
        let target = pair_of(&[TaskAnswer::Present, failed()], false, &[]);
        assert_eq!((target.counters.len(), target.waited_percent), (0, 30));
    }

    #[test]
    fn prefers_report_that_says_most() {
        let failed = TaskAnswer::Failed("no answer".into());
        let late = TaskAnswer::Untested(Untested::Late);
        let moved = TaskAnswer::Untested("the address has changed".into());
        let [is_failed, is_late, is_moved] = [
            Answer::Failed("no answer".into()),
            Answer::Untested(Untested::Late),
            Answer::Untested("the address has changed".into()),
        ];
        let is_measured = result(&[measured()], false, &[]);
        assert!(matches!(is_measured, Answer::Measured(_)));
        for (one, other, expected) in [
            (&measured(), &late, &is_measured),
            (&measured(), &moved, &is_moved),
            (&measured(), &failed, &is_failed),
            (&failed, &late, &is_late),
            (&failed, &moved, &is_moved),
        ] {
            for answers in [[one, other], [other, one]] {
                let answers = answers.map(Clone::clone);
                assert_eq!(&result(&answers, false, &[]), expected, "{answers:?}");
            }
        }
    }

    #[test]
    fn tells_how_long_a_side_waited() {
        let waited = |other| pair_of(&[measured(), other], false, &[]).waited_percent;
        assert_eq!(waited(TaskAnswer::Untested(Untested::NoCpu)), 30);
        assert_eq!(waited(TaskAnswer::Untested(Untested::Late)), 100);
        // A target that did its part has nothing to say.
        assert_eq!(waited(TaskAnswer::Present), 0);
    }

    #[test]
    fn reports_pair_without_report_as_untested() {
        let untested = |why: &str| Answer::Untested(why.into());
        assert_eq!(result(&[], false, &[]), Answer::Untested(Untested::NoReport));
        assert_eq!(result(&[], true, &[]), Answer::Untested(Untested::NoAddress));
        let why = "nid000001: it ended";
        assert_eq!(result(&[TaskAnswer::Failed("no answer".into())], false, &[1]), untested(why));
        // The figure was known before the partner was lost.
        assert_eq!(result(&[measured()], false, &[1]), result(&[measured()], false, &[]));
    }
}
