//! Whether busy CPUs disturb a survey: its user learns early why it takes long.

use cluster::survey::answer::{Answer, PairResult};

/// Fewest disturbed pairs, and their least part of all pairs, that are noted.
const FEWEST: usize = 5;
const LEAST_PART: usize = 5;

/// Pairs that were disturbed by busy CPUs.
#[derive(Debug, Default)]
pub struct BusyCpus {
    disturbed: usize,
    pairs: usize,
    is_noted: bool,
}

impl BusyCpus {
    /// Adds the results of a block. Returns a note if many pairs were disturbed, once.
    pub fn add(&mut self, results: &[PairResult]) -> Option<String> {
        let is_disturbed = |of: &&PairResult| matches!(&of.answer, Answer::Untested(reason) if reason.is_from_busy_cpus());
        self.disturbed += results.iter().filter(is_disturbed).count();
        self.pairs += results.len();
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
    use cluster::survey::answer::{Pair, Stage};
    use cluster::survey::untested::Untested;

    fn results(reasons: &[Untested]) -> Vec<PairResult> {
        let result = |reason: &Untested| PairResult {
            test: 0,
            pair: Pair {
                initiator: 0,
                target: 1,
            },
            stage: Stage::Sweep,
            round: 0,
            active: 1,
            answer: Answer::Untested(reason.clone()),
            counters: Vec::new(),
        };
        reasons.iter().map(result).collect()
    }

    #[test]
    fn many_disturbed_pairs_are_noted_once() {
        let mut busy = BusyCpus::default();
        assert_eq!(busy.add(&results(&vec![Untested::NoReport; 16])), None);
        assert_eq!(busy.add(&results(&vec![Untested::Late; 4])), None);
        let note = busy.add(&results(&[Untested::Late])).unwrap();
        assert!(note.contains("5 of 21 pairs"), "{note}");
        assert_eq!(busy.add(&results(&vec![Untested::Late; 20])), None);
    }

    #[test]
    fn few_disturbed_pairs_are_not_noted() {
        let mut busy = BusyCpus::default();
        assert_eq!(busy.add(&results(&vec![Untested::NoReport; 26])), None);
        assert_eq!(busy.add(&results(&vec![Untested::Late; 6])), None);
    }
}
