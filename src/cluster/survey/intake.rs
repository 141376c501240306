//! What a survey learns while it runs: results of pairs, of this survey and of an earlier one, and
//! nodes and NICs that are lost.

use std::collections::BTreeSet;

use super::answer::{Answer, Pair, PairResult, Stage};
use super::conductor::Conductor;
use super::failures::FAILING_PARTNERS;
use super::result_store::Key;
use super::unmeasured::why_unusable;

impl Conductor {
    /// Adds the result of a pair of a round. A second result of the same pair is ignored, with one
    /// exception: if the target was too late, an operation that failed says nothing.
    pub fn add(&mut self, result: PairResult) {
        let key = (result.test, result.pair);
        if self.outstanding.get(&key) == Some(&result.stage) {
            self.outstanding.remove(&key);
            self.settle(result);
        } else if let Answer::Untested(reason) = &result.answer {
            let is_explained = |failed: &PairResult| {
                (failed.test, failed.pair) == key
                    && (failed.stage, failed.round) == (result.stage, result.round)
            };
            self.withdraw(is_explained, &reason.to_string());
        }
    }

    /// Removes failures that `reason` has explained: their pairs have no answer, and NICs that only these
    /// have taken out of the sweep return.
    fn withdraw(&mut self, is_explained: impl Fn(&PairResult) -> bool, reason: &str) {
        let explained = self.evidence.remove_failures(&self.roster, is_explained);
        if explained.is_empty() {
            return;
        }
        self.failing.clear();
        self.parked.clear();
        let failed: Vec<Pair> = self.evidence.failed_pairs().collect();
        failed.into_iter().for_each(|pair| self.park(pair));
        for (key, stage) in explained {
            // The sweep has not come to the pair of an earlier survey.
            let is_pending = stage == Stage::Sweep && self.already[key.0 as usize].remove(key.1);
            if !is_pending {
                self.answered -= u64::from(stage == Stage::Sweep);
                self.miss(key, stage, reason);
            }
        }
    }

    /// Notes that a pair has no answer.
    fn miss(&mut self, key: Key, stage: Stage, reason: &str) {
        if stage == Stage::Sweep {
            self.unmeasured.add(key, reason, &self.roster);
        }
    }

    /// Takes the only result of a pair.
    fn settle(&mut self, result: PairResult) {
        let is_lost = why_unusable(&self.roster, result.pair).is_some();
        match &result.answer {
            Answer::Untested(reason) => self.miss(
                (result.test, result.pair),
                result.stage,
                &reason.to_string(),
            ),
            Answer::Failed(reason) if is_lost => {
                self.miss((result.test, result.pair), result.stage, reason)
            }
            _ => {
                if result.stage == Stage::Sweep {
                    self.answered += 1;
                } else {
                    self.retested += 1;
                }
                self.take(result);
            }
        }
    }

    /// Takes what a result says about its NICs.
    fn take(&mut self, result: PairResult) {
        if let Answer::Failed(_) = result.answer {
            self.park(result.pair);
        }
        self.evidence.add(result, &self.roster);
    }

    /// Takes a NIC out of the sweep if its operations fail with several partners, and with more than
    /// those of its partner do.
    fn park(&mut self, pair: Pair) {
        let Pair { initiator, target } = pair;
        if initiator == target || self.parked.contains(&initiator) || self.parked.contains(&target)
        {
            return;
        }
        self.failing.entry(initiator).or_default().insert(target);
        self.failing.entry(target).or_default().insert(initiator);
        let (one, other) = (self.failing[&initiator].len(), self.failing[&target].len());
        if one.max(other) >= FAILING_PARTNERS && one != other {
            let nic = if one > other { initiator } else { target };
            self.parked.insert(nic);
            for partner in self.failing.remove(&nic).unwrap_or_default() {
                if let Some(partners) = self.failing.get_mut(&partner) {
                    partners.remove(&nic);
                }
            }
        }
    }

    /// Adds a result of an earlier survey of the same roster, before the first round. The pair is not
    /// measured again, unless it was untested. It counts as answered if the sweep has it.
    pub fn already(&mut self, result: PairResult) {
        let says_nothing = match result.answer {
            Answer::Measured(_) => false,
            Answer::Failed(_) => why_unusable(&self.roster, result.pair).is_some(),
            Answer::Untested(_) => true,
        };
        if says_nothing {
            return;
        }
        if result.stage != Stage::Sweep {
            self.settle(result);
        } else if self.already[result.test as usize].insert(result.pair) {
            self.take(result);
        }
    }

    /// Gives up waiting for the results of the rounds so far: `reason` is why they are missing.
    pub fn give_up(&mut self, reason: &str) {
        for (key, stage) in std::mem::take(&mut self.outstanding) {
            self.miss(key, stage, reason);
        }
    }

    /// Leaves a node out of all further rounds, and gives up waiting for its results. Operations with it
    /// that failed say nothing about its partners: they are untested.
    pub fn lose(&mut self, node: u32, reason: &str) {
        self.roster.nodes[node as usize]
            .absent
            .get_or_insert_with(|| reason.to_owned());
        let own: BTreeSet<u32> = (0..self.roster.nics.len() as u32)
            .filter(|nic| self.roster.nics[*nic as usize].node == node)
            .collect();
        let is_of_node = |pair: Pair| own.contains(&pair.initiator) || own.contains(&pair.target);
        let lost: Vec<(Key, Stage)> = self
            .outstanding
            .extract_if(|(_, pair), _| is_of_node(*pair))
            .collect();
        for (key, stage) in lost {
            self.miss(key, stage, reason);
        }
        self.withdraw(|result| is_of_node(result.pair), reason);
    }

    /// Leaves a NIC out of all further rounds, for this reason. Operations with it that fail in the
    /// rounds so far say nothing about its partners.
    pub fn fail_nic(&mut self, nic: u32, reason: &str) {
        let failure = &mut self.roster.nics[nic as usize].failure;
        failure.get_or_insert_with(|| reason.to_owned());
    }
}
