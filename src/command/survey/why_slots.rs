//! The slots of a culprit in a diagnosis, and what they have come to.

use super::why_course::Tests;
use super::why_culprits::Culprit;
use cluster::location::Class;
use cluster::survey::answer::{Answer, Pair, PairResult};
use cluster::survey::busy::is_busy;
use cluster::survey::findings::Direction;
use cluster::survey::ids::{NicId, TestId};
use diagnosis::comparison::{Figures, Measured};
use diagnosis::procedure::{Route, Step, TESTS, Test, TestCode};
use facts::expect::Metric;
use facts::percentile::Percentile;

/// What a slot measures.
#[derive(Clone, Copy)]
pub struct Slot {
    /// The test of the diagnosis.
    pub code: TestCode,
    /// Whether the culprit takes part.
    pub of_culprit: bool,
    /// The test of the course.
    pub test: TestId,
    /// The NICs.
    pub pair: Pair,
}

/// Returns the slots of the test of the survey that shows a culprit best.
pub fn of_survey(culprit: &Culprit, controls: &[NicId]) -> Vec<Slot> {
    let Some(evidence) = culprit.cause.evidence.first() else {
        return Vec::new();
    };
    let route = match (evidence.class, culprit.cause.direction) {
        (Class::Loopback, _) => Route::Loopback,
        (_, Direction::Target) => Route::To,
        (_, Direction::Initiator | Direction::Both) => Route::From,
    };
    slots_on(TestCode::S, evidence.test, route, culprit.nic, controls)
}

/// Returns the slots of the tests of a step.
pub fn of_step(step: Step, nic: NicId, controls: &[NicId], tests: &Tests) -> Vec<Slot> {
    let of_step = TESTS.iter().filter(|test| test.step == step);
    of_step
        .flat_map(|test| slots_of(test, nic, controls, tests))
        .collect()
}

pub fn slots_of(test: &Test, nic: NicId, controls: &[NicId], tests: &Tests) -> Vec<Slot> {
    slots_on(test.code, tests.place(test.code), test.route, nic, controls)
}

/// Returns the slots of a test: good NICs, then the culprit. Without a second good NIC, tests
/// between two NICs have nothing to be compared with.
fn slots_on(
    code: TestCode,
    test: TestId,
    route: Route,
    nic: NicId,
    controls: &[NicId],
) -> Vec<Slot> {
    let directed = |initiator, target| Pair { initiator, target };
    let pairs = match (route, controls) {
        (Route::Loopback, [good, ..]) => [Pair::loopback(*good), Pair::loopback(nic)],
        (Route::From, [good, other, ..]) => [directed(*other, *good), directed(nic, *good)],
        (Route::To, [good, other, ..]) => [directed(*good, *other), directed(*good, nic)],
        _ => return Vec::new(),
    };
    [false, true]
        .into_iter()
        .zip(pairs)
        .map(|(of_culprit, pair)| Slot {
            code,
            of_culprit,
            test,
            pair,
        })
        .collect()
}

/// What the slots of a culprit have come to.
#[derive(Default)]
pub struct Found {
    /// The figures.
    pub measured: Measured,
    /// Slots, and slots that say nothing, because a process waited for its CPU or was lost.
    pub slots: u32,
    void: u32,
    /// Whether any slot of the culprit says something, and whether it waited for its CPU in any.
    has_own: bool,
    has_waited: bool,
}

impl Found {
    /// Returns whether nothing is known because the culprit waited for its CPU.
    pub fn is_void(&self) -> bool {
        self.has_waited && !self.has_own
    }

    /// Returns how many measurements say nothing; `None` without any.
    pub fn left_out(&self) -> Option<String> {
        let Self { slots, void, .. } = self;
        (*void > 0).then(|| {
            format!(
                "{void} of {slots} measurements, in which processes waited for CPUs or were lost"
            )
        })
    }

    /// Adds the result of a slot.
    pub fn add(&mut self, slot: &Slot, result: &PairResult, of_bandwidth: bool) {
        self.slots += 1;
        let is_busy = is_busy(result, of_bandwidth);
        if is_busy || matches!(result.answer, Answer::Untested(_)) {
            self.void += 1;
            self.has_waited |= is_busy && slot.of_culprit;
            return;
        }
        self.has_own |= slot.of_culprit;
        let figures = self.measured.entry(slot.code).or_insert_with(|| Figures {
            of_bandwidth,
            ..Figures::default()
        });
        match &result.answer {
            Answer::Measured(of) => {
                let p99 = of.metric(Metric::Percentile(Percentile::P99));
                let (values, tails) = if slot.of_culprit {
                    (&mut figures.own, &mut figures.own_tails)
                } else {
                    (&mut figures.others, &mut figures.others_tails)
                };
                values.push(of.value());
                tails.extend(p99);
            }
            Answer::Failed(why) if slot.of_culprit => figures.failure = Some(why.clone()),
            Answer::Failed(_) | Answer::Untested(_) => {}
        }
    }

    /// Returns the test in which the culprit is slowest beside good NICs.
    pub fn slowest(&self) -> Option<TestCode> {
        let speed = |figures: &Figures| {
            let [own, others] = [figures.own.first()?, figures.others.first()?];
            Some(if figures.of_bandwidth {
                own / others
            } else {
                others / own
            })
        };
        let all = self.measured.iter();
        let all = all.filter_map(|(code, figures)| Some((speed(figures)?, *code)));
        all.min_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, code)| code)
    }
}
