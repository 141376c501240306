//! The slots of a culprit in a diagnosis, and what they have come to.

use super::why_course::Tests;
use super::why_culprits::Culprit;
use cluster::location::Class;
use cluster::survey::answer::{Answer, Pair, PairResult};
use cluster::survey::busy::is_busy;
use cluster::survey::findings::Direction;
use cluster::survey::ids::{NicId, TestId};
use cluster::survey::roster::Roster;
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

/// The NICs of the slots of a culprit.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The nodes and NICs.
    pub roster: &'a Roster,
    /// The NIC of the culprit.
    pub nic: NicId,
    /// Good NICs.
    pub controls: &'a [NicId],
}

impl Places<'_> {
    /// Returns the slots of the test of the survey that shows a culprit best.
    pub fn of_survey(self, culprit: &Culprit) -> Vec<Slot> {
        let Some(evidence) = culprit.cause.evidence.first() else {
            return Vec::new();
        };
        let route = match (evidence.class, culprit.cause.direction) {
            (Class::Loopback, _) => Route::Loopback,
            (_, Direction::Target) => Route::To,
            (_, Direction::Initiator | Direction::Both) => Route::From,
        };
        self.slots(TestCode::S, evidence.test, route, Some(evidence.class))
    }

    /// Returns the slots of the tests of a step.
    pub fn of_step(self, step: Step, tests: &Tests) -> Vec<Slot> {
        let of_step = TESTS.iter().filter(|test| test.step == step);
        of_step.flat_map(|test| self.of_test(test, tests)).collect()
    }

    /// Returns the slots of a test.
    pub fn of_test(self, test: &Test, tests: &Tests) -> Vec<Slot> {
        let place = tests.place(test.code);
        let mut slots = self.slots(test.code, place, test.route, None);
        // Time for a second good NIC is left in the tests that separate node and fabric only.
        if test.step == Step::Second {
            slots.truncate(2);
        }
        slots
    }

    /// Returns the slots of a test: good NICs, then the culprit, and in loopback another good NIC.
    /// Tests between two NICs are left out if no two good NICs are as far from each other as the
    /// culprit is from one of them, in this class if one is given.
    fn slots(self, code: TestCode, test: TestId, route: Route, class: Option<Class>) -> Vec<Slot> {
        let directed = |initiator, target| Pair { initiator, target };
        let pairs: Vec<(bool, Pair)> = if route == Route::Loopback {
            let mut controls = self.controls.iter();
            let first = controls.next().map(|nic| (false, Pair::loopback(*nic)));
            let last = controls.next().map(|nic| (false, Pair::loopback(*nic)));
            let own = Some((true, Pair::loopback(self.nic)));
            first.into_iter().chain(own).chain(last).collect()
        } else {
            let Some((good, other)) = self.partners(class) else {
                return Vec::new();
            };
            match route {
                Route::From => vec![
                    (false, directed(other, good)),
                    (true, directed(self.nic, good)),
                ],
                _ => vec![
                    (false, directed(good, other)),
                    (true, directed(good, self.nic)),
                ],
            }
        };
        let slot = |(of_culprit, pair)| Slot {
            code,
            of_culprit,
            test,
            pair,
        };
        pairs.into_iter().map(slot).collect()
    }

    /// Returns two good NICs: the partner of the culprit, and a NIC that is as far from it.
    fn partners(self, class: Option<Class>) -> Option<(NicId, NicId)> {
        let distance = |nic, partner| {
            self.roster.class(Pair {
                initiator: nic,
                target: partner,
            })
        };
        let controls = || self.controls.iter().copied();
        let mut all = controls().flat_map(|good| controls().map(move |other| (good, other)));
        all.find(|(good, other)| {
            let of_culprit = distance(self.nic, *good);
            good != other
                && distance(*other, *good) == of_culprit
                && class.is_none_or(|class| class == of_culprit)
        })
    }
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
                "{void} of {slots} measurements: processes waited for CPUs, or could not measure"
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
                // A process that waited for its CPU at all has late samples of its own.
                let p99 = of.metric(Metric::Percentile(Percentile::P99));
                let tail = p99.filter(|_| result.waited_percent == 0);
                let tail = tail.map(|p99| p99 - of.value());
                let (values, tails) = if slot.of_culprit {
                    (&mut figures.own, &mut figures.own_tails)
                } else {
                    (&mut figures.others, &mut figures.others_tails)
                };
                values.push(of.value());
                tails.extend(tail);
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
