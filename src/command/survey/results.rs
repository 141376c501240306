//! The reports of a block -> one record with a result for each of its pairs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::blocks::Slots;
use cluster::survey::answer::{Answer, Pair, PairResult};
use cluster::survey::ids::TestId;
use cluster::survey::roster::Roster;
use cluster::survey::timetable::{BlockReport, Round};
use cluster::survey::untested::Untested;

/// The results of a block: one record that each part of the coordinator reads.
#[derive(Debug)]
pub struct BlockResults {
    pub test: TestId,
    pub pairs: Vec<PairResult>,
    /// Longest time that a process needed for a pair, without the time in which pairs are measured;
    /// `None` without a report.
    pub beyond: Option<Duration>,
    /// Largest difference between the clocks of the processes, in nanoseconds; `None` if unknown.
    pub clock_uncertainty_ns: Option<u64>,
}

impl BlockResults {
    /// Returns the results of `rounds`, which have the same test. `left_out` are the pairs that
    /// were in no block. `lost` are the ranks that were lost in the block, with the reasons.
    pub fn new(
        rounds: &[Round],
        slots: Slots,
        reports: Vec<BlockReport>,
        left_out: &[(u32, Pair)],
        lost: &BTreeMap<u32, String>,
        roster: &Roster,
    ) -> Self {
        let uncertainties = reports.iter().map(|report| report.clock_uncertainty_ns);
        let beyond = reports.iter().map(|report| report.beyond_ns).max();
        Self {
            test: rounds[0].test,
            clock_uncertainty_ns: uncertainties.max().flatten(),
            beyond: beyond.map(Duration::from_nanos),
            pairs: pairs(rounds, slots, reports, left_out, lost, roster),
        }
    }

    /// Returns how many pairs were not measured because a process was late.
    pub fn late(&self) -> usize {
        let is_late = |pair: &&PairResult| pair.answer == Answer::Untested(Untested::Late);
        self.pairs.iter().filter(is_late).count()
    }
}

/// Returns the result of each pair of `rounds`.
///
/// A pair may have two reports: a target reports only that it could not do its part, or that it
/// waited for its CPU. A pair that failed because its partner was lost says nothing about its NICs.
fn pairs(
    rounds: &[Round],
    slots: Slots,
    reports: Vec<BlockReport>,
    left_out: &[(u32, Pair)],
    lost: &BTreeMap<u32, String>,
    roster: &Roster,
) -> Vec<PairResult> {
    let mut known: BTreeMap<(u32, Pair), PairResult> = BTreeMap::new();
    for result in reports.into_iter().flat_map(|report| report.results) {
        let key = (result.round, result.pair);
        let both_result = match known.remove(&key) {
            Some(other) => merged(other, result),
            None => result,
        };
        known.insert(key, both_result);
    }
    let loss = |pair: Pair| {
        let nodes = pair.nics().map(|nic| roster.node_of(nic));
        nodes.into_iter().find_map(|node| {
            let reason = lost.get(&node.rank)?;
            Some(Untested::Other(format!("{}: {reason}", node.host)))
        })
    };
    let mut results = Vec::new();
    for (slot, round) in (0..).zip(rounds) {
        let number = slots.first_round + slot;
        for pair in &round.pairs {
            let found = known.remove(&(number, *pair));
            let mut result = found.unwrap_or_else(|| PairResult {
                test: round.test,
                pair: *pair,
                stage: round.stage,
                round: number,
                active: round.pairs.len() as u32,
                answer: Answer::Untested(if left_out.contains(&(slot, *pair)) {
                    Untested::NoAddress
                } else {
                    Untested::NoReport
                }),
                waited_percent: 0,
                counters: Vec::new(),
            });
            if !matches!(result.answer, Answer::Measured(_))
                && let Some(reason) = loss(*pair)
            {
                result.answer = Answer::Untested(reason);
            }
            results.push(result);
        }
    }
    results
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

/// Returns whether an answer counts, not the answer of the other side.
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
    use std::slice;

    use super::*;
    use cluster::survey::answer::{Figures, Stage};
    use cluster::survey::ids::{NicId, NodeId};
    use cluster::survey::roster::{Nic, Node};

    const PAIR: Pair = Pair { initiator: NicId(0), target: NicId(1) };

    fn roster() -> Roster {
        let node = |rank| Node { host: format!("n{rank}"), rank, absent: None };
        let nic = |node| Nic {
            node: NodeId(node),
            device: "cxi0".into(),
            nid: Some(node),
            location: None,
            failure: None,
        };
        Roster { nodes: [0, 1].map(node).into(), nics: [0, 1].map(nic).into() }
    }

    /// Returns the answer of a pair whose NICs report these answers.
    fn result(answers: &[Answer], left_out: bool, lost: &[u32]) -> Answer {
        pair_result(answers, left_out, lost).answer
    }

    /// Returns the result of a pair whose NICs report these answers; the side with rank 1 has
    /// waited for its CPU.
    fn pair_result(answers: &[Answer], left_out: bool, lost: &[u32]) -> PairResult {
        let rounds = [Round { test: TestId(0), stage: Stage::Sweep, pairs: vec![PAIR] }];
        let slots = Slots { block: 0, first_round: 7, begins_ns: 0, slot_ns: 1 };
        let report = |(rank, answer): (u32, &Answer)| BlockReport {
            block: 0,
            rank,
            results: vec![PairResult {
                test: TestId(0),
                pair: PAIR,
                stage: Stage::Sweep,
                round: 7,
                active: 1,
                answer: answer.clone(),
                waited_percent: 30 * rank as u8,
                counters: Vec::new(),
            }],
            addresses: Vec::new(),
            beyond_ns: 0,
            clock_uncertainty_ns: None,
            load: None,
        };
        let reports = (0..).zip(answers).map(report).collect();
        let left_out = left_out.then_some((0, PAIR));
        let lost = lost.iter().map(|rank| (*rank, "it ended".to_owned()));
        let results =
            pairs(&rounds, slots, reports, left_out.as_slice(), &lost.collect(), &roster());
        let [result] = results.try_into().unwrap();
        assert_eq!((result.round, result.pair), (7, PAIR));
        result
    }

    #[test]
    fn prefers_report_that_says_most() {
        let measured = Answer::Measured(Figures::Bandwidth {
            bytes_per_second: 1.0,
            operations_per_second: 1.0,
        });
        let failed = Answer::Failed("no answer".into());
        let late = Answer::Untested(Untested::Late);
        let moved = Answer::Untested("the address has changed".into());
        for (one, other, expected) in [
            (&measured, &late, &measured),
            (&measured, &moved, &moved),
            (&measured, &failed, &failed),
            (&failed, &late, &late),
            (&failed, &moved, &moved),
        ] {
            for answers in [[one, other], [other, one]] {
                let answers = answers.map(Clone::clone);
                assert_eq!(&result(&answers, false, &[]), expected, "{answers:?}");
            }
        }
        assert_eq!(&result(slice::from_ref(&measured), false, &[]), &measured);
    }

    #[test]
    fn tells_how_long_a_side_waited() {
        let measured = Answer::Measured(Figures::Bandwidth {
            bytes_per_second: 1.0,
            operations_per_second: 1.0,
        });
        let waited = |other| pair_result(&[measured.clone(), other], false, &[]).waited_percent;
        assert_eq!(waited(Answer::Untested(Untested::NoCpu)), 30);
        assert_eq!(waited(Answer::Untested(Untested::Late)), 100);
    }

    #[test]
    fn reports_pair_without_report_as_untested() {
        let untested = |why: &str| Answer::Untested(why.into());
        assert_eq!(result(&[], false, &[]), untested("there is no report"));
        let why = "one of the NICs has no address";
        assert_eq!(result(&[], true, &[]), untested(why));
    }

    #[test]
    fn discards_failure_with_lost_partner() {
        let failed = Answer::Failed("no answer".into());
        let lost = Answer::Untested("n1: it ended".into());
        assert_eq!(result(&[failed], false, &[1]), lost);
    }
}
