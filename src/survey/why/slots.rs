//! The slots of a culprit in a diagnosis, and what they have come to.

use std::collections::BTreeSet;

use super::causes::procedure::{Column, DiagnosisCourse};
use super::causes::readings::{Growth, MeasuredFlow, counter_readings, flow_reading};
use super::culprits::CulpritNic;
use crate::causes::comparison::{
    Compared, DelayedMeasurement, FiguresByTest, Floor, Tail, TestFigures, compare,
};
use crate::causes::procedure::{TESTS, TestCode, TestProcedure, TestRoute, TestStep};
use campaign::quiet::answer::{Answer, PairResult};
use campaign::quiet::busy::is_busy;
use campaign::quiet::findings::Direction;
use campaign::quiet::roster::{NicId, Pair, Roster, TestId};
use crew::location::Class;
use crew::star::MemoryCopy;
use facts::expect::Metric;
use facts::figures::Figures;
use facts::percentile::Percentile;
use health::Finding;

/// What a slot measures.
#[derive(Clone, Copy)]
pub struct MeasuredSlot {
    /// The test of the diagnosis.
    pub code: TestCode,
    /// Between which NICs the test measures.
    pub route: TestRoute,
    /// Whether the culprit takes part.
    pub is_culprit: bool,
    /// The test of the course.
    pub test: TestId,
    /// The NICs.
    pub pair: Pair,
}

/// The NICs of the slots of a culprit.
#[derive(Clone, Copy, Debug)]
pub struct SlotNics<'a> {
    /// The nodes and NICs.
    pub roster: &'a Roster,
    /// The NIC of the culprit.
    pub nic: NicId,
    /// Good NICs.
    pub controls: &'a [NicId],
    /// Whether the retry handler of the NIC regards peers as down: then it sends to none.
    pub has_parked_peers: bool,
}

impl SlotNics<'_> {
    /// The slots of the test of the survey that shows a culprit best.
    pub fn survey_slots(self, culprit: &CulpritNic) -> Vec<MeasuredSlot> {
        let Some(evidence) = culprit.cause.evidence.first() else {
            return Vec::new();
        };
        let route = match (evidence.class, culprit.cause.direction) {
            (Class::Loopback, _) => TestRoute::Loopback,
            (_, Direction::Target) => TestRoute::To,
            (_, Direction::Initiator | Direction::Both) => TestRoute::From,
        };
        self.slots(TestCode::S, evidence.test, route, Some(evidence.class))
    }

    pub fn step_slots(
        self,
        step: TestStep,
        tests: &DiagnosisCourse,
        is_wanted: impl Fn(&TestProcedure) -> bool,
    ) -> Vec<MeasuredSlot> {
        let step_tests = TESTS.iter().filter(|test| test.step == step && is_wanted(test));
        step_tests.flat_map(|test| self.test_slots(test, tests)).collect()
    }

    pub fn test_slots(self, test: &TestProcedure, tests: &DiagnosisCourse) -> Vec<MeasuredSlot> {
        let place = tests.place(test.code);
        let mut slots = self.slots(test.code, place, test.route, None);
        // Time for a second good NIC is left in the tests that separate node and fabric only.
        if test.step != TestStep::First {
            slots.truncate(2);
        }
        slots
    }

    /// The slots of a test: good NICs, then the culprit, and in loopback another good NIC. Tests
    /// between two NICs are left out if no two good NICs are as far from each other as the culprit
    /// is from one of them, in this class if one is given, and where the culprit would send to a
    /// peer that may be parked (diagnosis.md 6.1).
    fn slots(
        self,
        code: TestCode,
        test: TestId,
        route: TestRoute,
        class: Option<Class>,
    ) -> Vec<MeasuredSlot> {
        let directed = |initiator, target| Pair { initiator, target };
        let pairs: Vec<(bool, Pair)> = if route == TestRoute::Loopback {
            let mut controls = self.controls.iter();
            let first = controls.next().map(|nic| (false, Pair::loopback(*nic)));
            let last = controls.next().map(|nic| (false, Pair::loopback(*nic)));
            let own = Some((true, Pair::loopback(self.nic)));
            first.into_iter().chain(own).chain(last).collect()
        } else if route == TestRoute::From && self.has_parked_peers {
            Vec::new()
        } else {
            let Some((good, other)) = self.partners(class) else {
                return Vec::new();
            };
            match route {
                TestRoute::From => {
                    vec![(false, directed(other, good)), (true, directed(self.nic, good))]
                }
                _ => vec![(false, directed(good, other)), (true, directed(good, self.nic))],
            }
        };
        let slot = |(is_culprit, pair)| MeasuredSlot { code, route, is_culprit, test, pair };
        pairs.into_iter().map(slot).collect()
    }

    /// Two good NICs: the partner of the culprit, and a NIC that is as far from it.
    fn partners(self, class: Option<Class>) -> Option<(NicId, NicId)> {
        let distance = |nic, partner| self.roster.class(Pair { initiator: nic, target: partner });
        let controls = || self.controls.iter().copied();
        let mut all = controls().flat_map(|good| controls().map(move |other| (good, other)));
        all.find(|(good, other)| {
            let culprit_class = distance(self.nic, *good);
            good != other
                && distance(*other, *good) == culprit_class
                && class.is_none_or(|class| class == culprit_class)
        })
    }
}

/// What the slots of a culprit have come to.
#[derive(Default)]
pub struct Found {
    /// The figures.
    pub measured: FiguresByTest,
    /// By how much the counters of the culprit and of good NICs have grown in loopback.
    in_loopback: [Growth; 2],
    /// The same while they sent to other NICs.
    to_others: [Growth; 2],
    /// Slots, slots in which a process waited for its CPU, and slots without a measurement.
    pub slots: u32,
    busy: u32,
    untested: u32,
    /// Ordered flows between the groups of a culprit, and between others, in the order of time.
    flows: [Vec<MeasuredFlow>; 2],
}

impl Found {
    /// Notes why the culprit can measure nothing.
    pub fn fail(&mut self, why: &str) {
        let figures = self.measured.entry(TestCode::L1).or_default();
        figures.failure = Some(why.to_owned());
    }

    /// Returns how many measurements say less or nothing; `None` without any.
    pub fn left_out(&self) -> Option<String> {
        let all = self.slots;
        let busy = (self.busy > 0).then(|| {
            let busy = self.busy;
            format!(
                "processes waited for CPUs in {busy} of {all} measurements: there, minima and \
                 bounds count"
            )
        });
        let untested = (self.untested > 0).then(|| {
            let untested = self.untested;
            format!("{untested} of {all} measurements did not take place")
        });
        let notes: Vec<String> = busy.into_iter().chain(untested).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    pub fn add(&mut self, slot: &MeasuredSlot, result: &PairResult, is_bandwidth: bool) {
        self.slots += 1;
        let is_busy = is_busy(result, is_bandwidth);
        let figures = self
            .measured
            .entry(slot.code)
            .or_insert_with(|| TestFigures { is_bandwidth, ..TestFigures::default() });
        if let Answer::Untested(reason) = &result.answer {
            figures.is_late |= is_busy && slot.is_culprit;
            figures.unmeasured = Some(reason.to_string());
            self.busy += u32::from(is_busy);
            // A service may have too few triggered operations for hops: that disturbs nothing.
            self.untested += u32::from(!is_busy && slot.code != TestCode::T);
            return;
        }
        self.busy += u32::from(is_busy);
        self.add_counters(slot, result);
        let figures = self.measured.entry(slot.code).or_default();
        match &result.answer {
            Answer::Measured(measured) => self.add_measured(slot, result, measured, is_bandwidth),
            Answer::Failed(why) => {
                figures.unmeasured = Some(why.clone());
                // What works now and then says nothing when it fails: an answer may have come too
                // late.
                let is_fault = slot.is_culprit && !is_busy && slot.code != TestCode::T;
                if is_fault && figures.own.is_empty() {
                    figures.failure = Some(why.clone());
                }
            }
            Answer::Untested(_) => {}
        }
    }

    /// Adds the figures of a slot; figures of a process that waited for its CPU are kept apart.
    fn add_measured(
        &mut self,
        slot: &MeasuredSlot,
        result: &PairResult,
        measured: &Figures,
        is_bandwidth: bool,
    ) {
        let is_busy = is_busy(result, is_bandwidth);
        let figures = self.measured.entry(slot.code).or_default();
        let (quiet, tails, floors, waiting) = if slot.is_culprit {
            (
                &mut figures.own,
                &mut figures.own_tails,
                &mut figures.own_floors,
                &mut figures.own_waiting,
            )
        } else {
            (
                &mut figures.others,
                &mut figures.others_tails,
                &mut figures.others_floors,
                &mut figures.others_waiting,
            )
        };
        let percentile = |rank| measured.metric(Metric::Percentile(rank));
        floors.extend(
            measured
                .metric(Metric::Min)
                .filter(|_| !is_bandwidth)
                .map(|min| Floor { min, p5: percentile(Percentile::P5).unwrap_or(min) }),
        );
        let value = measured.value();
        if is_busy {
            let percent = result.waited_percent;
            waiting.push(DelayedMeasurement { percent, value });
        } else {
            quiet.push(value);
        }
        // A process that waited for its CPU at all has late samples of its own.
        let p99 = percentile(Percentile::P99).filter(|_| result.waited_percent == 0);
        tails.extend(p99.map(|p99| Tail { p99, median: value }));
        if slot.code == TestCode::O && !is_busy {
            self.flows[usize::from(!slot.is_culprit)].push(MeasuredFlow {
                initiator: slot.pair.initiator.0,
                target: slot.pair.target.0,
                rate: value,
            });
        }
        if slot.is_culprit {
            figures.failure = None;
        }
    }

    /// Notes why a test is not measured.
    pub fn leave_out(&mut self, code: TestCode, why: &str) {
        self.measured.entry(code).or_default().unmeasured = Some(why.to_owned());
    }

    /// Adds how fast the nodes of the culprit (`true`) and of good NICs have copied memory. Copies
    /// on different numbers of CPUs are not compared.
    pub fn add_memory_copies(&mut self, copies: &[(bool, MemoryCopy)]) {
        let mut own = copies.iter().filter(|(culprit, _)| *culprit);
        let Some((_, own)) = own.next() else {
            return;
        };
        let alike = copies.iter().filter(|(_, copy)| copy.cpus == own.cpus);
        let figures = self
            .measured
            .entry(TestCode::M)
            .or_insert_with(|| TestFigures { is_bandwidth: true, ..TestFigures::default() });
        for (culprit, copy) in alike {
            let values = if *culprit { &mut figures.own } else { &mut figures.others };
            values.push(copy.bytes_per_second as f64);
        }
    }

    /// Adds the counters of the initiator. Good NICs that send to the culprit say nothing: their
    /// counters grow because of it.
    fn add_counters(&mut self, slot: &MeasuredSlot, result: &PairResult) {
        let growths = match slot.route {
            TestRoute::To if slot.is_culprit => return,
            TestRoute::Loopback => &mut self.in_loopback,
            TestRoute::From | TestRoute::To => &mut self.to_others,
        };
        let counters =
            result.counters.iter().map(|evidence| (evidence.counter.as_str(), evidence.change));
        growths[usize::from(!slot.is_culprit)].add(counters);
    }

    /// Returns what the counters say, to other NICs rather than in loopback.
    pub fn counters(&self) -> Vec<Finding> {
        let all = [&self.to_others, &self.in_loopback];
        let mut found: Vec<Finding> = Vec::new();
        for reading in all.into_iter().flat_map(|[own, others]| counter_readings(own, others)) {
            if found.iter().all(|candidate| candidate.code != reading.code) {
                found.push(reading);
            }
        }
        found
    }

    /// Returns what the flows between the groups of a culprit say, and the flows between others.
    pub fn flows(&self) -> [Option<Finding>; 2] {
        self.flows.each_ref().map(|flows| flow_reading(flows))
    }

    /// Whether the culprit is slower in a test than good NICs.
    pub fn is_slower(&self, code: TestCode) -> bool {
        let mut slower = self.slower_columns();
        slower.any(|column| column.tests() == (code, None))
    }

    /// The tests in which the culprit is slower than good NICs, and in whose difference.
    pub fn slower_tests(&self) -> BTreeSet<TestCode> {
        let tests = self.slower_columns().map(Column::tests);
        tests.flat_map(|(test, base)| [Some(test), base]).flatten().collect()
    }

    fn slower_columns(&self) -> impl Iterator<Item = Column> {
        let comparisons = compare(&self.measured).into_iter();
        let slower = comparisons.filter(|comparison| comparison.outcome == Compared::Slower);
        slower
            .map(|comparison| comparison.column)
            .filter(|column| ![Column::Tail, Column::Waiting].contains(column))
    }

    /// Whether any measurement says less, or nothing.
    pub fn is_disturbed(&self) -> bool {
        self.busy + self.untested > 0
    }

    /// The test in which the culprit is slowest beside good NICs.
    pub fn slowest(&self) -> Option<TestCode> {
        let speed = |figures: &TestFigures| {
            let [own, others] = [figures.own.first()?, figures.others.first()?];
            Some(if figures.is_bandwidth { own / others } else { others / own })
        };
        let all = self.measured.iter().filter_map(|(code, figures)| Some((speed(figures)?, *code)));
        all.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, code)| code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::quiet::answer::{CounterEvidence, Figures as Answered, RETRIES, Stage, Untested};
    use campaign::quiet::roster::{Nic, Node, NodeId};
    use crew::location::Location;

    /// A roster with a NIC on a node of its own at each of these switches of a group.
    fn roster(switches: &[u16]) -> Roster {
        let numbered = || (0..).zip(switches);
        let node = |(rank, _): (u32, &u16)| Node { host: format!("n{rank}"), rank, absent: None };
        let nic = |(node, switch): (u32, &u16)| Nic {
            node: NodeId(node),
            device: "cxi0".into(),
            nid: Some(node),
            location: Some(Location { group: 0, switch: *switch, port: None }),
            failure: None,
        };
        Roster {
            nodes: numbered().map(node).collect(),
            nics: numbered().map(nic).collect(),
            ..Roster::default()
        }
    }

    /// The partner of NIC 0 and the good NIC beside it.
    fn partners(switches: &[u16], class: Option<Class>) -> Option<(u32, u32)> {
        let roster = roster(switches);
        let controls: Vec<NicId> = roster.nic_ids().skip(1).collect();
        let places = SlotNics {
            roster: &roster,
            nic: NicId(0),
            controls: &controls,
            has_parked_peers: false,
        };
        let found = places.partners(class);
        found.map(|(good, other)| (good.0, other.0))
    }

    #[test]
    fn good_pair_is_as_far_apart_as_culprit_and_partner() {
        assert_eq!(partners(&[1, 1, 1], None), Some((1, 2)));
        // NIC 1 is at the switch of the culprit, NICs 2 and 3 are at another one.
        assert_eq!(partners(&[1, 1, 2, 2], None), Some((2, 1)));
        let switch = Some(Class::Switch);
        assert_eq!(partners(&[1, 1, 2, 2], switch), None);
        assert_eq!(partners(&[1, 1, 1, 2], switch), Some((1, 2)));
        assert_eq!(partners(&[1, 2], None), None);
    }

    #[test]
    fn sends_nothing_to_peers_that_may_be_parked() {
        let roster = roster(&[1, 1, 1]);
        let routes = |has_parked_peers| {
            let places = SlotNics {
                roster: &roster,
                nic: NicId(0),
                controls: &[NicId(1), NicId(2)],
                has_parked_peers,
            };
            let routes = [TestRoute::Loopback, TestRoute::From, TestRoute::To].into_iter();
            let slots = routes.map(|route| places.slots(TestCode::S, TestId(0), route, None).len());
            slots.collect::<Vec<usize>>()
        };
        assert_eq!(routes(false), [3, 2, 2]);
        assert_eq!(routes(true), [3, 0, 2]);
    }

    /// A slot of a NIC that sends.
    fn slot_of(code: TestCode, is_culprit: bool) -> MeasuredSlot {
        let pair = Pair::loopback(NicId(0));
        MeasuredSlot { code, route: TestRoute::From, is_culprit, test: TestId(0), pair }
    }

    /// The result of a slot whose process had its CPU.
    fn result_of(slot: &MeasuredSlot, answer: Answer) -> PairResult {
        PairResult {
            test: slot.test,
            pair: slot.pair,
            stage: Stage::Comparison,
            round: 0,
            active: 1,
            answer,
            waited_percent: 0,
            counters: Vec::new(),
        }
    }

    /// The counters of a good NIC that sends to the culprit grow because of the culprit.
    #[test]
    fn counters_are_compared_in_the_same_kind_of_test() {
        let retries = |routes: &[(TestRoute, bool, u64)]| {
            let mut found = Found::default();
            for (route, culprit, change) in routes {
                let slot = MeasuredSlot { route: *route, ..slot_of(TestCode::P1, *culprit) };
                let counter_evidence =
                    CounterEvidence { nic: NicId(0), counter: RETRIES.into(), change: *change };
                let result = PairResult {
                    counters: vec![counter_evidence],
                    ..result_of(&slot, Answer::Failed("no answer".into()))
                };
                found.add(&slot, &result, false);
            }
            found.counters().len()
        };
        use TestRoute::{From, Loopback, To};
        assert_eq!(retries(&[(From, true, 60), (From, false, 0)]), 1);
        assert_eq!(retries(&[(From, true, 60), (From, false, 60)]), 0);
        assert_eq!(retries(&[(To, true, 60), (From, false, 0)]), 0);
        assert_eq!(retries(&[(From, true, 60), (Loopback, false, 0)]), 0);
        let both = [(From, true, 60), (From, false, 0), (Loopback, true, 60), (Loopback, false, 0)];
        assert_eq!(retries(&both), 1);
    }

    #[test]
    fn memory_copies_on_as_many_cpus_are_compared() {
        let copy = |cpus, bytes_per_second| MemoryCopy { cpus, bytes_per_second };
        let copies = [(false, copy(8, 90)), (true, copy(8, 50)), (false, copy(4, 45))];
        let mut found = Found::default();
        found.add_memory_copies(&copies);
        let figures = &found.measured[&TestCode::M];
        assert_eq!((&figures.own, &figures.others), (&vec![50.0], &vec![90.0]));
        assert!(found.is_slower(TestCode::M));
        let mut without_own = Found::default();
        without_own.add_memory_copies(&copies[..1]);
        assert!(without_own.measured.is_empty());
    }

    #[test]
    fn slots_of_waiting_processes_say_less() {
        let slot = |is_culprit| MeasuredSlot {
            route: TestRoute::Loopback,
            ..slot_of(TestCode::L1, is_culprit)
        };
        let result = |answer, waited_percent| PairResult {
            waited_percent,
            ..result_of(&slot(true), answer)
        };
        let latency = || {
            Answer::Measured(Answered::Latency {
                count: 1000,
                min_ns: 1000,
                p5_ns: Some(1000),
                median_ns: 1400,
                p90_ns: Some(1900),
                p99_ns: Some(2000),
                max_ns: 9000,
            })
        };
        let mut found = Found::default();
        found.add(&slot(true), &result(latency(), 26), false);
        let figures = &found.measured[&TestCode::L1];
        let waiting = DelayedMeasurement { percent: 26, value: 1400.0 };
        let floor = Floor { min: 1000.0, p5: 1000.0 };
        assert_eq!((figures.own.len(), figures.own_tails.len()), (0, 0));
        assert_eq!(figures.own_waiting, [waiting]);
        assert_eq!(figures.own_floors, [floor]);
        found.add(&slot(false), &result(latency(), 0), false);
        let lost = Answer::Untested(Untested::NoReport);
        found.add(&slot(false), &result(lost, 0), false);
        // The median counts, the 99th percentile does not.
        found.add(&slot(true), &result(latency(), 1), false);
        let figures = &found.measured[&TestCode::L1];
        assert_eq!((&figures.own, &figures.others), (&vec![1400.0], &vec![1400.0]));
        let tail = Tail { p99: 2000.0, median: 1400.0 };
        assert_eq!((figures.own_tails.len(), &figures.others_tails), (0, &vec![tail]));
        assert!(!figures.is_late);
        let text = found.left_out().unwrap_or_default();
        let expected = "processes waited for CPUs in 1 of 4 measurements: there, minima and \
                        bounds count; 1 of 4 measurements did not take place";
        assert_eq!(text, expected);
        found.add(&slot(true), &result(Answer::Untested(Untested::Late), 0), false);
        assert!(found.measured[&TestCode::L1].is_late);
    }

    /// A service without enough triggered operations, or a chain that fails, ends no diagnosis.
    #[test]
    fn hops_without_figures_have_a_reason_and_disturb_nothing() {
        let why = |is_culprit, answer, waited_percent| {
            let slot = slot_of(TestCode::T, is_culprit);
            let result = PairResult { waited_percent, ..result_of(&slot, answer) };
            let mut found = Found::default();
            found.add(&slot, &result, false);
            let disturbed = found.is_disturbed();
            assert!(found.measured[&TestCode::T].failure.is_none());
            (found.measured.remove(&TestCode::T).and_then(|figures| figures.unmeasured), disturbed)
        };
        let other = || Untested::Other("service 1 has 0 available".into());
        for is_culprit in [false, true] {
            let refused = why(is_culprit, Answer::Untested(other()), 0);
            assert_eq!(refused, (Some("service 1 has 0 available".into()), false));
            let failed = why(is_culprit, Answer::Failed("hop 7 failed".into()), 0);
            assert_eq!(failed, (Some("hop 7 failed".into()), false));
        }
        let latency = Answered::Latency {
            count: 9,
            min_ns: 1000,
            p5_ns: None,
            median_ns: 1400,
            p90_ns: None,
            p99_ns: None,
            max_ns: 9000,
        };
        let busy = why(true, Answer::Measured(latency), 26);
        assert_eq!(busy, (None, true));
        assert_eq!(why(true, Answer::Measured(latency), 0), (None, false));
    }

    /// What counters show does not depend on CPUs.
    #[test]
    fn counters_beside_busy_cpus_count() {
        let mut found = Found::default();
        for (is_culprit, change) in [(true, 60), (false, 0)] {
            let slot = slot_of(TestCode::B4, is_culprit);
            let answer = Answer::Measured(Answered::Bandwidth {
                bytes_per_second: 1e9,
                operations_per_second: 1e6,
            });
            let counter = CounterEvidence { nic: NicId(0), counter: RETRIES.into(), change };
            let result = PairResult {
                waited_percent: 60,
                counters: vec![counter],
                ..result_of(&slot, answer)
            };
            found.add(&slot, &result, true);
        }
        assert_eq!(found.counters().len(), 1);
        let figures = &found.measured[&TestCode::B4];
        assert_eq!((figures.own_waiting.len(), figures.own_floors.len()), (1, 0));
    }
}
