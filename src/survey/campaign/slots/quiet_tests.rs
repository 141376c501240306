//! Surveys without load on models of clusters.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Crew;
use super::quiet::{QuietPlan, QuietSurvey, ResultRecorder};
use super::testing::ModelCrew;
use crate::quiet::answer::{PairResult, Stage};
use crate::quiet::conductor::{Settings, SurveyProgress};
use crate::quiet::findings::{Certainty, Direction, Findings};
use crate::quiet::pairs;
use crate::quiet::roster::{NicId, Pair, Roster, Unit};
use crate::quiet::rounds::NicOrder;
use crate::quiet::testing::{Cluster, Effect, Fault};
use crate::timetable::TestSetup;
use crew::location::Class;
use facts::error::Failure;

/// Keeps what a survey writes.
#[derive(Default)]
struct Keeper {
    begun: usize,
    results: Vec<PairResult>,
    nics: usize,
}

impl ResultRecorder for Keeper {
    fn begin(&mut self, roster: &Roster) -> Result<(), Failure> {
        self.begun += 1;
        self.nics = roster.nics.len();
        Ok(())
    }

    fn add(&mut self, results: &[PairResult], _: &Roster) -> Result<(), Failure> {
        self.results.extend_from_slice(results);
        Ok(())
    }

    fn line(&self, _: &SurveyProgress, _: Option<Duration>, _: &Roster, _: usize) -> String {
        String::new()
    }
}

fn plan(cluster: &Cluster, pairs: &str) -> QuietPlan {
    QuietPlan {
        setup: TestSetup {
            tests: cluster.tests.clone(),
            arguments: vec![Vec::new(); cluster.tests.len()],
            pair_ns: 50_000_000,
            first_nic: NicId(0),
        },
        settings: Settings {
            selections: pairs::parse(pairs, |_| Err("no file".into())).unwrap(),
            nics: NicOrder::AtOnce,
            most_active: None,
            seed: 1,
            expectations: Vec::new(),
            sensitivity: None,
            keep_figures: Some(true),
        },
        pairs: pairs.into(),
        ends: None,
        waits_for_others: false,
    }
}

/// Number of pairs of 16 NICs, each in one direction.
const ALL: u64 = 16 * 15 / 2;

/// A cluster of 16 nodes with a NIC each, of which NIC 1 is three times as slow.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new([2, 2, 4, 1], &["write-lat"], 1);
    cluster.faults.push(Fault::slow(Unit::Nic(NicId(1)), Direction::Both, 3.0));
    cluster
}

#[test]
fn names_slow_nic() {
    let cluster = cluster();
    let plan = plan(&cluster, "random:4");
    let mut crew = ModelCrew::new(cluster, &[]);
    let mut quiet = QuietSurvey::new(crew.members(), plan).unwrap();
    let mut written = Keeper::default();
    quiet.run(&mut crew, &mut written).unwrap();
    let findings = quiet.findings();
    let named: Vec<_> = findings.causes.iter().map(|cause| (cause.unit, cause.certainty)).collect();
    assert_eq!(named, [(Unit::Nic(NicId(1)), Certainty::Bad)]);
    assert_eq!(findings.answered, findings.planned);
    assert!(written.results.len() as u64 > findings.planned, "no retests");
    assert_eq!(quiet.uncertainty_ns, Some(1_000));
    assert_eq!(crew.notes, [""; 0]);
}

#[test]
fn goes_on_without_lost_members() {
    let cluster = cluster();
    let plan = plan(&cluster, "random:4");
    let mut crew = ModelCrew::new(cluster, &[]);
    crew.losses.insert(1, vec![5]);
    let mut quiet = QuietSurvey::new(crew.members(), plan).unwrap();
    quiet.run(&mut crew, &mut Keeper::default()).unwrap();
    assert_eq!(quiet.roster().nodes[5].absent.as_deref(), Some("it was killed"));
    let findings = quiet.findings();
    assert!(findings.answered < findings.planned);
    let named: Vec<_> = findings.causes.iter().map(|cause| cause.unit).collect();
    assert_eq!(named, [Unit::Nic(NicId(1))]);
}

#[test]
fn late_process_takes_part() {
    let cluster = cluster();
    let plan = QuietPlan { waits_for_others: true, ..plan(&cluster, "all") };
    let mut crew = ModelCrew::new(cluster, &[3]);
    crew.arrivals.insert(2, vec![3]);
    let mut quiet = QuietSurvey::new(crew.members(), plan).unwrap();
    let mut written = Keeper::default();
    quiet.run(&mut crew, &mut written).unwrap();
    let findings = quiet.findings();
    assert_eq!(crew.notes, ["joined late: nid000003"]);
    assert_eq!((written.begun, written.nics), (1, 16));
    // No pair is measured again because of the late process.
    let sweep = written.results.iter().filter(|result| result.stage == Stage::Sweep);
    let sweep: Vec<Pair> = sweep.map(|result| result.pair).collect();
    let pairs: BTreeSet<Pair> = sweep.iter().copied().collect();
    assert_eq!((sweep.len(), pairs.len() as u64), (pairs.len(), findings.planned));
    // Each two NICs at least once, also those with the late NIC.
    assert!(findings.planned >= ALL && findings.answered == findings.planned, "{findings:?}");
    let named: Vec<_> = findings.causes.iter().map(|cause| cause.unit).collect();
    assert_eq!(named, [Unit::Nic(NicId(1))]);
}

#[test]
fn process_that_nobody_waits_for_stays_out() {
    let cluster = cluster();
    let plan = plan(&cluster, "random:4");
    let mut crew = ModelCrew::new(cluster, &[3]);
    crew.arrivals.insert(1, vec![3]);
    let mut quiet = QuietSurvey::new(crew.members(), plan).unwrap();
    quiet.run(&mut crew, &mut Keeper::default()).unwrap();
    assert_eq!(quiet.roster().nodes[3].absent.as_deref(), Some("it did not join"));
}

#[test]
fn ends_when_the_time_is_up() {
    let cluster = cluster();
    let plan = QuietPlan { ends: Some(Instant::now()), ..plan(&cluster, "all") };
    let mut crew = ModelCrew::new(cluster, &[]);
    let mut quiet = QuietSurvey::new(crew.members(), plan).unwrap();
    quiet.run(&mut crew, &mut Keeper::default()).unwrap();
    let findings = quiet.findings();
    assert_eq!((findings.answered, crew.block), (0, 0));
}

#[test]
fn earlier_results_are_not_measured_again() {
    let cluster = cluster();
    let plan = plan(&cluster, "all");
    let mut crew = ModelCrew::new(cluster, &[]);
    let mut first = QuietSurvey::new(crew.members(), plan.clone()).unwrap();
    let mut keeper = Keeper::default();
    first.run(&mut crew, &mut keeper).unwrap();
    let mut second = QuietSurvey::new(crew.members(), plan).unwrap();
    second.add_earlier(&keeper.results);
    assert_eq!(second.measured_and_left(), (0, 0));
    let mut written = Keeper::default();
    second.run(&mut crew, &mut written).unwrap();
    assert_eq!(second.findings().answered, ALL);
    assert!((written.results.len() as u64) < ALL / 2, "{}", written.results.len());
}

/// Surveys nodes whose pairs of a class have this many bytes per second, with a fault.
fn with_rates(
    shape: [u16; 4],
    rates: &[(Class, f64)],
    fault: Option<Fault>,
    seed: u64,
) -> (Findings, ModelCrew) {
    let mut cluster = Cluster::new(shape, &["write-lat", "write-bw"], seed);
    cluster.tests[1].size_bytes = 65_536;
    cluster.faults.extend(fault);
    let plan = plan(&cluster, "random:4");
    run_with_rates(cluster, rates, plan)
}

fn run_with_rates(
    cluster: Cluster,
    rates: &[(Class, f64)],
    plan: QuietPlan,
) -> (Findings, ModelCrew) {
    let mut crew = ModelCrew::new(cluster, &[]);
    crew.rates = rates.iter().copied().collect();
    let mut quiet = QuietSurvey::new(crew.members(), plan).unwrap();
    quiet.run(&mut crew, &mut Keeper::default()).unwrap();
    (quiet.findings(), crew)
}

/// The parts that are bad.
fn bad(findings: &Findings) -> Vec<Unit> {
    let bad = findings.causes.iter().filter(|cause| cause.certainty == Certainty::Bad);
    bad.map(|cause| cause.unit).collect()
}

const SHAPE: [u16; 4] = [2, 2, 4, 1];

fn all_classes(rate: f64) -> [(Class, f64); 3] {
    [Class::Switch, Class::Group, Class::Fabric].map(|class| (class, rate))
}

/// A slow fabric is no dead one, at any rate.
#[test]
fn rate_of_the_fabric_is_measured() {
    for decade in 4..=11 {
        let rate = 10_f64.powi(decade);
        let (findings, crew) = with_rates(SHAPE, &all_classes(rate), None, 1);
        assert_eq!(bad(&findings), [], "{rate}");
        assert_eq!(findings.answered, findings.planned, "{rate}: {:?}", crew.notes);
        let slow = Fault {
            unit: Unit::Nic(NicId(3)),
            direction: Direction::Both,
            effect: Effect::Throttles(2.0),
        };
        let (findings, _) = with_rates(SHAPE, &all_classes(rate), Some(slow), 1);
        assert_eq!(bad(&findings), [Unit::Nic(NicId(3))], "{rate}");
    }
}

#[test]
fn one_class_may_be_slower_than_others() {
    for shape in [SHAPE, [1, 2, 2, 1], [4, 2, 2, 1], [8, 2, 2, 1]] {
        for class in [Class::Switch, Class::Group, Class::Fabric] {
            for (rate, seed) in [(1e4, 1), (1e5, 2), (1e5, 5), (1e6, 3)] {
                let (findings, crew) = with_rates(shape, &[(class, rate)], None, seed);
                assert_eq!(bad(&findings), [], "{shape:?} {class:?} {rate} {seed}");
                let (answered, planned) = (findings.answered, findings.planned);
                assert_eq!(answered, planned, "{shape:?} {class:?} {rate}: {:?}", crew.notes);
            }
        }
    }
}

/// Dead parts are probed once for each test and class, not waited for again and again.
#[test]
fn dead_parts_cost_few_long_slots() {
    for (shape, unit) in [
        (SHAPE, Unit::Nic(NicId(5))),
        (SHAPE, Unit::Nic(NicId(12))),
        (SHAPE, Unit::Group(1)),
        ([0, 0, 2, 1], Unit::Nic(NicId(1))),
        ([0, 0, 3, 1], Unit::Nic(NicId(1))),
        ([8, 2, 4, 1], Unit::Group(1)),
    ] {
        for seed in 1..=4 {
            let dead = Fault { unit, direction: Direction::Both, effect: Effect::IsDead };
            let (findings, crew) = with_rates(shape, &[], Some(dead), seed);
            assert!(!bad(&findings).is_empty(), "{shape:?} {unit:?} {seed}: {findings:?}");
            assert!(crew.long_slots <= 6, "{shape:?} {unit:?} {seed}: {}", crew.long_slots);
        }
    }
}

/// A part whose lists take longer than a slot is slow, not dead.
#[test]
fn slow_parts_of_slow_fabrics_are_measured() {
    let links = Unit::GroupPair(0, 2);
    for (unit, direction) in [
        (Unit::Nic(NicId(3)), Direction::Both),
        (Unit::Nic(NicId(3)), Direction::Initiator),
        (links, Direction::Both),
    ] {
        for (factor, seed) in [(4.0, 1), (20.0, 2), (100.0, 3)] {
            let slow = Fault { unit, direction, effect: Effect::Throttles(factor) };
            let (findings, crew) = with_rates([4, 2, 2, 1], &all_classes(25e6), Some(slow), seed);
            assert_eq!(bad(&findings), [unit], "{direction:?} {factor}");
            let evidence = findings.causes.iter().flat_map(|cause| &cause.evidence);
            assert!(evidence.into_iter().all(|one| one.value.is_some()), "{findings:?}");
            assert_eq!(findings.answered, findings.planned, "{unit:?} {factor}: {:?}", crew.notes);
        }
    }
}

/// A slot that tells slow pairs from dead ones is longer than what is left of the time.
#[test]
fn slow_part_is_not_dead_when_the_time_is_short() {
    let mut cluster = Cluster::new([4, 2, 2, 1], &["write-lat", "write-bw"], 1);
    cluster.tests[1].size_bytes = 65_536;
    let (unit, effect) = (Unit::Nic(NicId(3)), Effect::Throttles(4.0));
    cluster.faults.push(Fault { unit, direction: Direction::Both, effect });
    let ends = Some(Instant::now() + Duration::from_secs(3));
    let plan = QuietPlan { ends, ..plan(&cluster, "random:4") };
    let (findings, crew) = run_with_rates(cluster, &all_classes(25e6), plan);
    assert_eq!((bad(&findings), crew.long_slots), (Vec::new(), 0));
}
