//! The pairs that were not measured, with the reasons.

use std::collections::BTreeMap;

use super::answer::{Pair, TestPair};
use super::findings::{Unit, UntestedPart};
use super::ids::NicId;
use super::missing::Missing;
use super::roster::Roster;
use super::untested::Untested;

/// Most pairs without an answer that the survey measures again, or names one by one.
const MOST_UNANSWERED: usize = 4096;

/// Pairs of the sweep that were not measured.
#[derive(Clone, Debug)]
pub struct Unmeasured {
    /// Pairs without an answer, which the survey may measure again.
    unanswered: BTreeMap<TestPair, Untested>,
    /// Numbers of pairs that will not be measured.
    left_out: BTreeMap<(Unit, Untested), u64>,
    /// The numbers of pairs by NIC.
    pub(super) missing: Missing,
}

impl Unmeasured {
    /// Creates an empty collection.
    pub fn new(missing: Missing) -> Self {
        Self { unanswered: BTreeMap::new(), left_out: BTreeMap::new(), missing }
    }

    /// Notes that a pair is not measured because of a part.
    pub fn leave_out(&mut self, part: Unit, reason: Untested) {
        *self.left_out.entry((part, reason)).or_default() += 1;
    }

    /// Notes that a pair has no answer.
    pub fn add(&mut self, key: TestPair, reason: &Untested, roster: &Roster) {
        if let Some((part, reason)) = why_unusable(roster, key.1) {
            self.leave_out(part, reason);
            return;
        }
        self.missing.add(key);
        if self.unanswered.len() < MOST_UNANSWERED {
            self.unanswered.insert(key, reason.clone());
        } else {
            self.leave_out(Unit::Nic(key.1.initiator), reason.clone());
        }
    }

    /// Returns the pairs that may be tried again.
    pub fn unanswered(&self) -> impl Iterator<Item = TestPair> {
        self.unanswered.keys().copied()
    }

    /// Removes the pairs that may be tried again.
    pub fn take_unanswered(&mut self) -> Vec<TestPair> {
        let keys = std::mem::take(&mut self.unanswered).into_keys();
        keys.inspect(|key| self.missing.remove(*key)).collect()
    }

    /// Notes that pairs are not measured because the survey ends.
    pub fn leave_out_rest(&mut self, rest: UnmeasuredPairs, reason: &str) {
        self.missing.extend(&rest.missing);
        for (nic, count) in rest.nic_counts.into_iter().enumerate() {
            if count > 0 {
                let part = rest.unusable[nic].clone();
                let part = part.unwrap_or_else(|| (Unit::Nic(NicId(nic as u32)), reason.into()));
                *self.left_out.entry(part).or_default() += count;
            }
        }
        for (pair, count) in rest.paths {
            let part = (Unit::Path(pair), reason.into());
            *self.left_out.entry(part).or_default() += count;
        }
    }

    /// Returns the parts that were not measured, with nodes and NICs that are absent in any case.
    pub fn untested(&self, roster: &Roster) -> Vec<UntestedPart> {
        let mut pairs = self.left_out.clone();
        for ((_, pair), reason) in &self.unanswered {
            *pairs.entry((Unit::Path(*pair), reason.clone())).or_default() += 1;
        }
        for (id, node) in roster.node_ids().zip(&roster.nodes) {
            if let Some(reason) = &node.absent {
                pairs.entry((Unit::Node(id), reason.as_str().into())).or_default();
            }
        }
        for (id, nic) in roster.nic_ids().zip(&roster.nics) {
            if let Some(reason) = &nic.failure {
                pairs.entry((Unit::Nic(id), reason.as_str().into())).or_default();
            }
        }
        let pairs = pairs.into_iter();
        pairs
            .map(|((unit, reason), pairs)| UntestedPart {
                pairs,
                ..UntestedPart::new(unit, reason)
            })
            .collect()
    }
}

/// Numbers of pairs that the end of a survey leaves out. There may be many millions, so the pairs
/// are counted by NIC, unless both NICs were measured with other partners and such pairs are few.
#[derive(Debug)]
pub struct UnmeasuredPairs {
    /// The reason why each NIC cannot be measured, if there is one.
    unusable: Vec<Option<(Unit, Untested)>>,
    is_measured: Vec<bool>,
    nic_counts: Vec<u64>,
    paths: BTreeMap<Pair, u64>,
    missing: Missing,
}

impl UnmeasuredPairs {
    /// Creates an empty count; `is_measured` says whether a NIC has been measured in any pair.
    pub fn new(roster: &Roster, missing: Missing, is_measured: impl Fn(NicId) -> bool) -> Self {
        let nics = roster.nic_ids();
        let unusable = |nic| why_unusable(roster, Pair::loopback(nic));
        Self {
            unusable: nics.clone().map(unusable).collect(),
            is_measured: nics.map(is_measured).collect(),
            nic_counts: vec![0; roster.nics.len()],
            paths: BTreeMap::new(),
            missing,
        }
    }

    /// Counts a pair of a test.
    pub fn add(&mut self, (test, pair): TestPair) {
        let nics = pair.nics().map(|nic| nic.index());
        let unusable = nics.into_iter().find(|nic| self.unusable[*nic].is_some());
        if unusable.is_none() {
            self.missing.add((test, pair));
        }
        let unmeasured = || nics.into_iter().find(|nic| !self.is_measured[*nic]);
        match unusable.or_else(unmeasured) {
            Some(nic) => self.nic_counts[nic] += 1,
            None if self.paths.len() < MOST_UNANSWERED || self.paths.contains_key(&pair) => {
                *self.paths.entry(pair).or_default() += 1;
            }
            None => self.nic_counts[nics[0]] += 1,
        }
    }
}

/// Returns the part that prevents the measurement of a pair, and why.
pub fn why_unusable(roster: &Roster, pair: Pair) -> Option<(Unit, Untested)> {
    pair.nics().into_iter().find_map(|id| {
        let nic = roster.nic(id);
        if let Some(reason) = &roster.node(nic.node).absent {
            return Some((Unit::Node(nic.node), reason.as_str().into()));
        }
        let no_address = nic.nid.is_none().then_some("it has no address");
        Some((Unit::Nic(id), nic.failure.as_deref().or(no_address)?.into()))
    })
}
