//! Processes that join while the others measure. They take part from the next block on: the survey
//! begins again with all NICs, and takes over its results so far, as from an earlier survey.

use std::collections::{BTreeMap, HashSet};
use std::mem;

use cluster::survey::answer::{Answer, PairResult};
use cluster::survey::conductor::Conductor;
use cluster::timetable::Introduction;

/// Most results that are kept for late processes: about 200 bytes each.
const MOST_RESULTS: usize = 1 << 20;

/// The processes that join late.
pub struct LateMembers {
    /// The processes that take part.
    pub joined: BTreeMap<u32, Introduction>,
    /// The processes that have joined since the last block began.
    arrived: BTreeMap<u32, Introduction>,
    /// All results so far; none if no process is missing, or there were too many results.
    results: Option<Vec<PairResult>>,
}

impl LateMembers {
    /// Waits for the others of `size` processes, when these have `joined`.
    pub fn new(size: u32, joined: BTreeMap<u32, Introduction>) -> Self {
        Self {
            results: (joined.len() < size as usize).then(Vec::new),
            joined,
            arrived: BTreeMap::new(),
        }
    }

    pub fn note(&mut self, results: &[PairResult]) {
        if let Some(known) = &mut self.results {
            known.extend_from_slice(results);
        }
        self.results.take_if(|results| results.len() > MOST_RESULTS);
    }

    /// Notes that a process has joined.
    pub fn arrive(&mut self, introduction: Introduction) {
        if self.results.is_some() {
            self.arrived.insert(introduction.rank, introduction);
        }
    }

    /// Notes that a process is lost.
    pub fn lose(&mut self, rank: u32) {
        self.arrived.remove(&rank);
    }

    /// Returns the processes that have joined since the last call, which take part from now on.
    pub fn take_arrived(&mut self) -> Vec<Introduction> {
        let arrived: Vec<Introduction> = mem::take(&mut self.arrived).into_values().collect();
        let ranks = arrived.iter().map(|introduction| (introduction.rank, introduction.clone()));
        self.joined.extend(ranks);
        arrived
    }

    /// Gives the results so far to the `conductor` of all NICs.
    pub fn repeat(&self, conductor: &mut Conductor) {
        let results = self.results.iter().flatten();
        // If the target was too late, an operation that failed says nothing.
        let key = |result: &PairResult| (result.test, result.pair, result.stage, result.round);
        let untested = |result: &&PairResult| matches!(result.answer, Answer::Untested(_));
        let explained: HashSet<_> = results.clone().filter(untested).map(key).collect();
        let is_evidence = |result: &&PairResult| !explained.contains(&key(result));
        results.filter(is_evidence).for_each(|result| conductor.add_earlier(result));
    }
}
