//! The reports of a block -> one result for each of its pairs.

use std::collections::BTreeMap;

use super::blocks::Slots;
use crate::survey::answer::{Answer, Pair, PairResult};
use crate::survey::roster::Roster;
use crate::survey::timetable::{BlockReport, Round};

/// Returns the result of each pair of `rounds`. `left_out` are the pairs that were in no block, and
/// `lost` the ranks that were lost in it, with the reasons.
///
/// A pair may have two reports: a target reports only what makes the figures of its initiator
/// worthless, such as a process that was late. A pair that failed because its partner was lost says
/// nothing about its NICs.
pub fn of_block(
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
        match known.get_mut(&key) {
            Some(other) if precedence(&result.answer) <= precedence(&other.answer) => {}
            Some(other) => *other = result,
            None => {
                known.insert(key, result);
            }
        }
    }
    let node = |nic: u32| &roster.nodes[roster.nics[nic as usize].node as usize];
    let loss = |pair: Pair| {
        let nodes = [pair.initiator, pair.target].map(node);
        nodes.into_iter().find_map(|node| {
            let reason = lost.get(&node.rank)?;
            Some(format!("{}: {reason}", node.host))
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
                    "one of the NICs has no address".into()
                } else {
                    "there is no report".into()
                }),
                witnesses: Vec::new(),
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

/// Returns which of two answers about a pair counts: the larger one.
fn precedence(answer: &Answer) -> u8 {
    match answer {
        Answer::Failed(_) => 0,
        Answer::Measured(_) => 1,
        Answer::Untested(_) => 2,
    }
}
