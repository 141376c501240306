//! What the results of a survey say, at its end or at any moment before.

use super::answer::Stage;
use super::blame::{Causes, causes};
use super::conductor::Conductor;
use super::culprit::{Facts, culprit};
use super::gaps::{Gaps, Rest};
use super::verdict::{Culprit, LimitSource, Verdict};

/// Most results outside the limits in a verdict.
const MOST_OUTSIDE: usize = 10_000;

impl Conductor {
    /// Returns what the results so far say.
    pub fn verdict(&self) -> Verdict {
        let so_far = self.evidence.limits(&self.roster);
        let limits = self.limits.as_ref().unwrap_or(&so_far);
        let Causes { causes, mixed } = causes(&self.evidence, limits, &self.roster);
        let outside = self.evidence.outside(limits, &self.roster);
        let facts = Facts {
            evidence: &self.evidence,
            limits,
            failures: self.evidence.failures(),
            roster: &self.roster,
        };
        let mut culprits: Vec<Culprit> =
            causes.iter().map(|cause| culprit(cause, &facts)).collect();
        culprits.sort_by_key(|culprit| {
            let pairs: u32 = culprit.evidence.iter().map(|one| one.outside).sum();
            let failed = culprit
                .evidence
                .iter()
                .any(|one| one.source == LimitSource::Failure);
            std::cmp::Reverse((culprit.word, failed, pairs))
        });
        let mut populations = self.evidence.populations(limits, &outside);
        for population in &mut populations {
            population.limit = population
                .limit
                .filter(|_| !mixed.contains(&(population.test, population.class)));
        }
        let (gaps, answered) = self.gaps_so_far();
        Verdict {
            culprits,
            untested: gaps.untested(&self.roster),
            populations,
            aggregates: self.evidence.aggregates(&outside, &self.roster),
            outside: self.evidence.results(&outside, MOST_OUTSIDE),
            matrices: if self.keeps_figures {
                self.evidence.matrices()
            } else {
                Vec::new()
            },
            planned: self.planned,
            answered,
        }
    }

    /// Returns the gaps and the number of answers if the survey ends at this moment.
    fn gaps_so_far(&self) -> (Gaps, u64) {
        let (mut gaps, mut answered) = (self.gaps.clone(), self.answered);
        let mut rest = Rest::new(&self.roster, |nic| self.evidence.answers(nic) > 0);
        self.sweep.clone().drain(|test, pair| {
            if self.already[test as usize].contains(pair) {
                answered += 1;
            } else {
                rest.add(pair);
            }
        });
        let outstanding = self.outstanding.iter();
        let of_sweep = outstanding.filter(|(_, stage)| **stage == Stage::Sweep);
        of_sweep.for_each(|((_, pair), _)| rest.add(*pair));
        self.queue.of_sweep().for_each(|pair| rest.add(pair));
        gaps.leave_out_rest(rest, "the survey ended before");
        (gaps, answered)
    }
}
