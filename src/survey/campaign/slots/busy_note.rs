//! Whether busy CPUs disturb a survey: a note tells its user early.

use crate::quiet::answer::PairResult;
use crate::quiet::busy::is_busy;

/// Fewest disturbed pairs for a note.
const FEWEST: usize = 5;

/// The note appears if at least one of this many pairs was disturbed.
const LEAST_PART: usize = 5;

/// The number of pairs that busy CPUs disturbed.
#[derive(Debug, Default)]
pub struct BusyCpus {
    disturbed: usize,
    pairs: usize,
    is_noted: bool,
}

impl BusyCpus {
    /// Counts the pairs of a block. Returns a note if many pairs so far were disturbed, once.
    pub fn add(&mut self, pairs: &[PairResult], is_bandwidth: bool) -> Option<String> {
        let disturbed = pairs.iter().filter(|pair| is_busy(pair, is_bandwidth));
        self.disturbed += disturbed.count();
        self.pairs += pairs.len();
        let Self { disturbed, pairs, .. } = *self;
        if self.is_noted || disturbed < FEWEST || disturbed * LEAST_PART < pairs {
            return None;
        }
        self.is_noted = true;
        Some(format!(
            "the CPUs are busy: processes waited for them in {disturbed} of {pairs} pairs so far; \
             with free CPUs the survey finds more in less time"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::answer::{Answer, Pair, Stage, Untested};
    use crate::quiet::ids::{NicId, TestId};

    /// Returns pairs that were not measured, all for this reason.
    fn block(reason: Untested, pairs: usize) -> Vec<PairResult> {
        let result = PairResult {
            test: TestId(0),
            pair: Pair { initiator: NicId(0), target: NicId(1) },
            stage: Stage::Sweep,
            round: 0,
            active: 1,
            answer: Answer::Untested(reason),
            waited_percent: 0,
            counters: Vec::new(),
        };
        vec![result; pairs]
    }

    #[test]
    fn notes_many_disturbed_pairs_once() {
        let mut busy = BusyCpus::default();
        assert_eq!(busy.add(&block(Untested::NoReport, 16), false), None);
        assert_eq!(busy.add(&block(Untested::Late, 4), false), None);
        let note = busy.add(&block(Untested::NoCpu, 1), false).unwrap();
        assert!(note.contains("5 of 21 pairs"), "{note}");
        assert_eq!(busy.add(&block(Untested::Paused, 20), false), None);
    }

    #[test]
    fn notes_no_small_part_of_disturbed_pairs() {
        let mut busy = BusyCpus::default();
        assert_eq!(busy.add(&block(Untested::NoReport, 26), false), None);
        assert_eq!(busy.add(&block(Untested::Late, 6), false), None);
    }
}
