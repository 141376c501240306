//! Whether busy CPUs disturb a survey: a note tells its user early why it takes long.

use super::results::BlockResults;
use cluster::survey::untested::Untested;

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
    pub fn add(&mut self, block: &BlockResults) -> Option<String> {
        self.disturbed += block.untested(Untested::is_from_busy_cpus);
        self.pairs += block.pairs.len();
        let Self {
            disturbed, pairs, ..
        } = *self;
        if self.is_noted || disturbed < FEWEST || disturbed * LEAST_PART < pairs {
            return None;
        }
        self.is_noted = true;
        Some(format!(
            "the CPUs are busy: {disturbed} of {pairs} pairs so far are measured again; \
             free CPUs, or set a longer --pair-time"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::survey::answer::{Answer, Pair, PairResult, Stage};
    use cluster::survey::ids::{NicId, TestId};

    /// Returns the results of a block whose pairs were not measured, all for this reason.
    fn block(reason: Untested, pairs: usize) -> BlockResults {
        let result = PairResult {
            test: TestId(0),
            pair: Pair {
                initiator: NicId(0),
                target: NicId(1),
            },
            stage: Stage::Sweep,
            round: 0,
            active: 1,
            answer: Answer::Untested(reason),
            waited_percent: 0,
            counters: Vec::new(),
        };
        BlockResults {
            test: TestId(0),
            pairs: vec![result; pairs],
            beyond: None,
            clock_uncertainty_ns: None,
        }
    }

    #[test]
    fn notes_many_disturbed_pairs_once() {
        let mut busy = BusyCpus::default();
        assert_eq!(busy.add(&block(Untested::NoReport, 16)), None);
        assert_eq!(busy.add(&block(Untested::Late, 4)), None);
        let note = busy.add(&block(Untested::NoCpu, 1)).unwrap();
        assert!(note.contains("5 of 21 pairs"), "{note}");
        assert_eq!(busy.add(&block(Untested::Paused, 20)), None);
    }

    #[test]
    fn notes_no_small_part_of_disturbed_pairs() {
        let mut busy = BusyCpus::default();
        assert_eq!(busy.add(&block(Untested::NoReport, 26)), None);
        assert_eq!(busy.add(&block(Untested::Late, 6)), None);
    }
}
