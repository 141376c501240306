//! What the decision table says of a node, and its ranks in groups.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::calls::RankCall;
use crate::nics::{Motion, NicState};
use crate::process::Activity;
use crate::ranks::names;
use crate::reading::{NodeReading, RankState};

/// Part of the ranks that a group of outliers may have.
const OUTLIER_SHARE: f64 = 0.02;

facts::named_enum! {
    /// How much a row of the table says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Certainty {
        /// The proof would not be there without the cause.
        Because = "because",
        /// It fits, and readings exclude others.
        Probably = "probably",
        /// Data moves: no hang.
        Moving = "moving",
        /// It has a sign of its own.
        Possibly = "possibly",
        /// It excludes causes, and names none.
        Open = "open",
    }
    /// Its name in texts.
    pub fn name(self);
}

/// What a row of the decision table says about this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct HangFinding {
    /// Number of the row in docs/reference/hangs.md 7.
    pub row: u32,
    /// How much it says.
    pub certainty: Certainty,
    /// What it says.
    pub text: String,
    /// The readings that say it.
    pub proof: String,
    /// What to do next.
    pub next: String,
    /// What would be wrong to conclude.
    pub exclusion: String,
}

/// Ranks that do the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct RankGroup {
    /// What their main threads do, as texts say it: the call in which they are, if it is known.
    pub does: String,
    /// What the main thread of the first one does, as the kernel shows it.
    pub activity: Activity,
    /// The ranks, or their processes.
    pub names: String,
    /// Number of ranks.
    pub count: u32,
    /// Whether it has so few ranks that it stands out from the others.
    pub is_outlier: bool,
}

/// Ranks that do the same.
pub type Members<'a> = Vec<&'a RankState>;

/// The ranks in groups that do the same, each with whether it stands out: these first, then the
/// largest first.
pub fn members<'a>(ranks: impl IntoIterator<Item = &'a RankState>) -> Vec<(bool, Members<'a>)> {
    let mut groups: BTreeMap<(Option<String>, Option<Activity>), Members<'_>> = BTreeMap::new();
    for rank in ranks {
        let call = rank.call.as_ref().and_then(RankCall::text);
        let activity = call.is_none().then_some(rank.activity);
        groups.entry((call, activity)).or_default().push(rank);
    }
    let largest = groups.values().map(Vec::len).max().unwrap_or(0);
    let count: usize = groups.values().map(Vec::len).sum();
    let most = ((OUTLIER_SHARE * count as f64) as usize).max(1);
    let is_outlier = |members: &Members| members.len() <= most && members.len() < largest;
    let mut groups: Vec<_> =
        groups.into_values().map(|members| (is_outlier(&members), members)).collect();
    groups.sort_by_key(|(is_outlier, members)| (!is_outlier, Reverse(members.len())));
    groups
}

/// The name of some ranks.
pub fn names_of(ranks: &[&RankState]) -> String {
    names(&ranks.iter().map(|rank| rank.numbers()).collect::<Vec<_>>())
}

/// Returns what the first of some ranks does, with its own function if all are in this one.
pub fn does(ranks: &[&RankState]) -> String {
    let Some(first) = ranks.first() else { return String::new() };
    let text = first.does();
    let own = |rank: &RankState| rank.call.as_ref().filter(|call| call.is_own())?.caller.clone();
    match own(first)
        .filter(|function| ranks.iter().all(|rank| own(rank).as_ref() == Some(function)))
    {
        Some(function) => format!("{text}, in its function {function}"),
        None => text,
    }
}

/// The ranks in groups that do the same, in the order of [`members`].
pub fn groups(ranks: &[RankState]) -> Vec<RankGroup> {
    let groups = members(ranks).into_iter().map(|(is_outlier, members)| RankGroup {
        does: does(&members),
        activity: members[0].activity,
        names: names_of(&members),
        count: members.len() as u32,
        is_outlier,
    });
    groups.collect()
}

/// A finding from its text, proof, next step, and what would be wrong to conclude.
pub fn finding(
    row: u32,
    certainty: Certainty,
    [text, proof, next, exclusion]: [&str; 4],
) -> HangFinding {
    let [text, proof, next, exclusion] = [text, proof, next, exclusion].map(str::to_owned);
    HangFinding { row, certainty, text, proof, next, exclusion }
}

/// Returns how sure a cause is that a job may have while its data moves, too.
pub fn unless_moving(node: &NodeReading, certainty: Certainty) -> Certainty {
    let is_busy = node.nics.iter().any(|nic| nic.motion == Motion::Busy);
    if is_busy || !moved(node).is_empty() { Certainty::Possibly } else { certainty }
}

/// Whether all NICs are silent, and have nothing outstanding.
pub fn is_quiet(node: &NodeReading) -> bool {
    let is_quiet = |nic: &NicState| nic.motion == Motion::Silent && nic.has_nothing_outstanding();
    !node.nics.is_empty() && node.nics.iter().all(is_quiet)
}

/// The ranks that have left a call of MPI which returns only when something has happened.
pub fn moved(node: &NodeReading) -> Members<'_> {
    let has_moved = |rank: &&RankState| rank.call.as_ref().is_some_and(RankCall::has_moved);
    node.ranks.iter().filter(has_moved).collect()
}

/// Whether messages between ranks of this report pass NICs, as far as it is known: ranks of one
/// node may use its memory.
pub fn has_further_nodes(node: &NodeReading) -> bool {
    let hosts = |rank: &RankState| rank.host.clone();
    let is_merged = node.ranks.iter().any(|rank| hosts(rank) != hosts(&node.ranks[0]));
    is_merged || node.size.is_some_and(|size| u64::from(size) > node.ranks.len() as u64)
}

/// Whether all ranks but one are in one collective, without a packet of the job. Messages between
/// ranks of a node may pass its memory: ranks in different calls could move there, and so could a
/// job of one node.
pub fn stands_still(node: &NodeReading) -> bool {
    let groups = members(&node.ranks);
    let [(true, _), (_, others)] = groups.as_slice() else { return false };
    let is_collective = |rank: &&RankState| {
        rank.call.as_ref().is_some_and(|call| call.is_blocked() && call.is_collective())
    };
    others.iter().all(is_collective) && is_quiet(node) && has_further_nodes(node)
}
