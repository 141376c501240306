//! Why one NIC is slow that somebody suspects: no survey is measured, and no verdict is needed.
//! Without a good NIC beside it, it is compared with healthy NICs of its generation (diagnosis.md
//! 1).

use std::collections::{BTreeMap, BTreeSet};

use super::causes::cause::{Confidence, Why};
use super::causes::comparison::FiguresByTest;
use super::causes::evaluation::doubtful;
use super::causes::procedure::{DiagnosisCourse, TESTS, TestCode, TestRoute, TestStep};
use super::culprits::{CulpritNic, Explanation};
use super::investigation::{
    Diagnosed, GENERATION, Investigation, PARTNERS, has_huge_pages, has_parked_peers, is_idle,
    is_same_kind,
};
use super::slots::{Found, SlotNics};
use super::verdict::controls;
use campaign::quiet::findings::{Cause, Certainty, Direction, State};
use campaign::quiet::roster::{NicId, Roster, Unit};
use campaign::slots::{Crew, Members};
use crew::introduction::Introduction;
use facts::error::Failure;
use facts::host::is_same_host;
use health::item::{Readings, find};

/// Most times that tests are measured again whose slots say nothing, or that the NIC is slower.
const MOST_REPEATS: usize = 3;

/// Fewest good NICs that show what is normal (diagnosis.md 4.2).
const FEWEST_NORMAL: usize = 5;

const ALONE: &str = "no good NIC was measured beside it, so no cause is certain, and a latency that \
                     is too long does not show: --peer names a node with a good one";

/// What was measured and found.
#[derive(Clone, Debug)]
pub struct SuspectFindings {
    /// The nodes and NICs.
    pub roster: Roster,
    /// The NIC.
    pub suspect: NicId,
    /// Its generation, such as `Cassini 1`, if it is known.
    pub generation: Option<String>,
    /// Good NICs, beside which it was measured; empty without any.
    pub controls: Vec<NicId>,
    /// The figures.
    pub measured: FiguresByTest,
    /// Whether measurements said nothing, because processes waited for CPUs.
    pub is_disturbed: bool,
    /// The figures of healthy NICs of its generation, in place of good NICs.
    pub healthy: &'static [HealthyFigure],
    /// The causes.
    pub explanation: Explanation,
}

/// Finds out why the NIC of the process with this `rank` is slow. The NICs of the other processes,
/// which have introduced themselves as `joined`, are good.
///
/// # Errors
///
/// Other processes of which none can measure beside the NIC, and an interruption.
pub fn diagnose(
    crew: &mut dyn Crew,
    joined: &BTreeMap<u32, Introduction>,
    tests: &DiagnosisCourse,
    rank: u32,
) -> Result<SuspectFindings, Failure> {
    let members = crew.members();
    let suspect = suspect(members, rank)?;
    let roster = members.roster.clone();
    let cause = suspicion(suspect);
    let culprit = CulpritNic { cause: &cause, nic: suspect };
    let states = states(&roster, joined, rank, suspect);
    let candidates = controls(members, &states, &[], suspect);
    let all = [&[suspect], candidates.as_slice()].concat();
    let ranks: BTreeSet<u32> = all.iter().map(|nic| roster.node_of(*nic).rank).collect();
    let mut investigation = Investigation::new(crew, tests);
    let first = investigation.checks(&ranks)?;
    let own = first.readings(suspect, &roster);
    let (controls, left_out) = fit(candidates, &own, |nic| first.readings(nic, &roster));
    let left_out = left_out.into_iter().map(|(nic, why)| format!("{}: {why}", roster.name(nic)));
    let unfit: Vec<String> = unfit(&roster, &states, suspect).into_iter().chain(left_out).collect();
    check_controls(&roster, suspect, &controls, &unfit)?;
    for why in unfit {
        investigation.note(&format!("left out: {why}"));
    }
    let number = find(&own, GENERATION).and_then(|reading| reading.number);
    let healthy = healthy(number.filter(|_| controls.is_empty()));
    let places = SlotNics {
        roster: &roster,
        nic: suspect,
        controls: &controls,
        has_parked_peers: has_parked_peers(&own),
    };
    let others = first.all_readings(&controls, &roster);
    let mut found = measured(&mut investigation, &ranks, &culprit, places, (&own, &others))?;
    add_healthy(&mut found.measured, healthy);
    let second = investigation.checks(&ranks)?;
    let latest = |nic| second.latest_readings(&first, nic, &roster);
    let diagnosed = Diagnosed {
        culprit: &culprit,
        signature: None,
        doubt: controls.is_empty().then_some(ALONE),
        controls,
        found,
    };
    let others: Vec<_> = diagnosed.controls.iter().map(|nic| latest(*nic)).collect();
    let explanation = diagnosed.explanation(latest(suspect), &others);
    let explanation = with_limits(explanation, &roster, suspect, diagnosed.controls.len())?;
    Ok(SuspectFindings {
        roster,
        suspect,
        generation: generation(&own),
        controls: diagnosed.controls,
        is_disturbed: diagnosed.found.is_disturbed(),
        measured: diagnosed.found.measured,
        healthy,
        explanation,
    })
}

/// A cause without evidence: the NIC is suspected.
fn suspicion(suspect: NicId) -> Cause {
    Cause {
        unit: Unit::Nic(suspect),
        certainty: Certainty::Suspect,
        direction: Direction::Both,
        evidence: Vec::new(),
        counters: Vec::new(),
    }
}

/// Checks that there is a good NIC to compare with, unless there are no other NICs at all. `unfit`
/// says why others are none.
fn check_controls(
    roster: &Roster,
    suspect: NicId,
    controls: &[NicId],
    unfit: &[String],
) -> Result<(), Failure> {
    if !controls.is_empty() || unfit.is_empty() {
        return Ok(());
    }
    if let Some(why) = &roster.nic(suspect).failure {
        return Err(cannot_measure(roster, suspect, why));
    }
    let why = unfit.join("; ");
    Err(Failure::environment(format!("no good NIC to compare with: {why}")))
}

/// Adds to an explanation what this number of good NICs leaves out. Without a cause that is known,
/// a NIC that cannot be opened is a failure.
fn with_limits(
    explanation: Explanation,
    roster: &Roster,
    suspect: NicId,
    controls: usize,
) -> Result<Explanation, Failure> {
    let is_known = |why: &Why| why.confidence <= Confidence::Probably;
    if let Some(why) = &roster.nic(suspect).failure
        && !explanation.causes.iter().any(is_known)
    {
        return Err(cannot_measure(roster, suspect, why));
    }
    let notes = explanation.left_out.into_iter();
    let notes: Vec<String> = notes.chain(few_controls_note(controls)).collect();
    let left_out = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(Explanation { left_out, ..explanation })
}

/// The `candidates` that show what is normal for a NIC with its `own` readings, and why others do
/// not.
fn fit(
    candidates: Vec<NicId>,
    own: &Readings,
    readings: impl Fn(NicId) -> Readings,
) -> (Vec<NicId>, Vec<(NicId, String)>) {
    let (mut controls, mut left_out) = (Vec::new(), Vec::new());
    for nic in candidates {
        let readings = readings(nic);
        if !is_same_kind(own, &readings) {
            let generation = generation(&readings);
            let generation = generation.unwrap_or_else(|| "its generation is unknown".into());
            left_out.push((nic, generation));
        } else if !is_idle(&readings) {
            left_out.push((nic, "other processes use it".into()));
        } else if has_parked_peers(&readings) {
            left_out.push((nic, "its retry handler regards peers as down".into()));
        } else {
            controls.push(nic);
        }
    }
    (controls, left_out)
}

/// Measures the NIC if it can be opened and no other process uses it. The processes with these
/// `ranks` take part. The readings are its own, then the good NICs'.
fn measured(
    investigation: &mut Investigation,
    ranks: &BTreeSet<u32>,
    culprit: &CulpritNic,
    places: SlotNics,
    (own, others): (&Readings, &[Readings]),
) -> Result<Found, Failure> {
    let mut found = Found::default();
    if let Some(why) = &places.roster.nic(places.nic).failure {
        found.fail(why);
    } else if is_idle(own) {
        investigation.prepare(ranks)?;
        measure(investigation, culprit, places, (own, others), &mut found)?;
    }
    Ok(found)
}

/// Measures the NIC, and again what says nothing, what shows that it is slower, and what decides
/// between causes. The readings are its own, then the good NICs'.
fn measure(
    investigation: &mut Investigation,
    culprit: &CulpritNic,
    places: SlotNics,
    (own, others): (&Readings, &[Readings]),
    found: &mut Found,
) -> Result<(), Failure> {
    let has_huge_pages = others.iter().take(PARTNERS).chain([own]).all(has_huge_pages);
    investigation.measure_culprit(culprit, places, has_huge_pages, found)?;
    for _ in 0..MOST_REPEATS {
        let unmeasured = unmeasured_tests(&found.measured, places.controls.len()).into_iter();
        // What makes the NIC bad is measured several times: one may be an accident.
        let again: BTreeSet<TestCode> = unmeasured.chain(found.slower_tests()).collect();
        let again: Vec<TestCode> = again.into_iter().collect();
        investigation.measure_again(&again, places, found)?;
    }
    let known = [own.clone(), found.counters()].concat();
    let case = culprit.case(&known, others, &found.measured, true);
    investigation.measure_again(&doubtful(case), places, found)
}

/// The failure of a NIC that cannot be opened: its service or its library may refuse it, which says
/// nothing about the NIC.
fn cannot_measure(roster: &Roster, nic: NicId, why: &str) -> Failure {
    let name = &roster.nic(nic).device;
    Failure::environment(format!("{name} cannot measure: {why}"))
}

/// The NIC of the process with this rank.
fn suspect(members: &Members, rank: u32) -> Result<NicId, Failure> {
    let node = members.node(rank).map(|node| members.roster.node(node));
    if let Some(why) = node.and_then(|node| node.absent.as_deref()) {
        return Err(Failure::environment(format!("its process: {why}")));
    }
    let nic = members.first_nics.get(&rank);
    nic.copied().ok_or_else(|| Failure::environment("its process has no NIC"))
}

/// The state of each NIC: all but the suspect and other NICs of its node are good.
fn states(
    roster: &Roster,
    joined: &BTreeMap<u32, Introduction>,
    rank: u32,
    suspect: NicId,
) -> Vec<State> {
    let own = joined.get(&rank);
    let state = |nic: NicId| {
        let other = joined.get(&roster.node_of(nic).rank);
        let is_apart = own.zip(other).is_some_and(|(own, other)| is_apart(own, other));
        if nic != suspect && is_apart { State::Good } else { State::Suspect }
    };
    roster.nic_ids().map(state).collect()
}

/// Whether the NIC of another process can show what is normal: a fault of a node slows all of its
/// NICs. Each software NIC stands for a node.
fn is_apart(own: &Introduction, other: &Introduction) -> bool {
    let device =
        |introduction: &Introduction| introduction.nics.first().map(|nic| nic.device.clone());
    let is_software = own.nics.iter().any(|nic| nic.simulated);
    !is_same_host(&own.host, &other.host) || is_software && device(own) != device(other)
}

/// Returns why NICs of other processes cannot show what is normal.
fn unfit(roster: &Roster, states: &[State], suspect: NicId) -> Vec<String> {
    let absent = roster.nodes.iter().filter_map(|node| {
        let why = node.absent.as_ref()?;
        Some(format!("{}: {why}", node.host))
    });
    let others = roster.nic_ids().filter(|nic| *nic != suspect);
    let present = others.filter(|nic| roster.node_of(*nic).absent.is_none());
    let failed = present.filter_map(|nic| {
        let why = match &roster.nic(nic).failure {
            Some(why) => why,
            None if states[nic.index()] == State::Good => return None,
            None => "a NIC of the same node is no control",
        };
        Some(format!("{}: {why}", roster.name(nic)))
    });
    absent.chain(failed).collect()
}

/// The generation of a NIC, such as `Cassini 1`.
fn generation(readings: &Readings) -> Option<String> {
    find(readings, GENERATION)?.value.clone()
}

/// The tests that have no figure yet of the NIC, or of one of this number of good NICs.
fn unmeasured_tests(measured: &FiguresByTest, controls: usize) -> Vec<TestCode> {
    let is_unmeasured = |code| {
        let Some(figures) = measured.get(&code) else {
            return true;
        };
        let is_compared = controls == 0 || !figures.others.is_empty();
        figures.own.is_empty() || !is_compared
    };
    let is_planned = |route| route == TestRoute::Loopback || controls >= PARTNERS;
    let planned = TESTS.iter().filter(|test| {
        let is_of_nic = test.step != TestStep::OfLinks && test.repeats.is_none();
        is_of_nic && is_planned(test.route)
    });
    planned.map(|test| test.code).filter(|code| is_unmeasured(*code)).collect()
}

/// Adds the figures of healthy NICs in place of good ones.
fn add_healthy(measured: &mut FiguresByTest, healthy: &[HealthyFigure]) {
    for figure in healthy {
        if let Some(figures) = measured.get_mut(&figure.test) {
            figures.others.push(figure.usual);
        }
    }
}

/// Returns what this number of good NICs leaves out.
fn few_controls_note(controls: usize) -> Option<String> {
    let normal = format!(
        "files are not compared with most good NICs, because that needs {FEWEST_NORMAL} of them"
    );
    match controls {
        0 => None,
        1 => Some(format!(
            "one peer: what passes between two NICs was not measured, because that needs two good \
             NICs; {normal}"
        )),
        _ if controls < FEWEST_NORMAL => Some(normal),
        _ => None,
    }
}

/// A bandwidth of healthy NICs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HealthyFigure {
    pub test: TestCode,
    /// What healthy NICs reach, in bytes per second.
    pub usual: f64,
    /// What each of them reaches at least.
    pub least: f64,
}

/// The figures of Cassini 1 with a link of 200 Gb/s.
const CASSINI_1: [HealthyFigure; 2] = [
    HealthyFigure { test: TestCode::B1, usual: 23.1e9, least: 22.5e9 },
    HealthyFigure { test: TestCode::B3, usual: 20.5e9, least: 19.0e9 },
];

/// The known figures of a generation of Cassini; none of others.
pub fn healthy(generation: Option<f64>) -> &'static [HealthyFigure] {
    if generation == Some(1.0) { &CASSINI_1 } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::super::causes::comparison::TestFigures;
    use super::*;
    use crew::introduction::IntroducedNic;

    fn introduction(host: &str, device: &str) -> Introduction {
        Introduction {
            rank: 0,
            size: 2,
            host: host.into(),
            topology: None,
            nics: vec![IntroducedNic {
                device: device.into(),
                address: None,
                vni: 1,
                class: "BEST_EFFORT".into(),
                location: None,
                simulated: device.starts_with("soft"),
                link_gbps: None,
                failure: None,
            }],
        }
    }

    #[test]
    fn nics_of_the_same_node_are_no_controls() {
        let is_apart = |own: [&str; 2], other: [&str; 2]| {
            let [own, other] = [own, other].map(|[host, device]| introduction(host, device));
            is_apart(&own, &other)
        };
        assert!(is_apart(["n1", "cxi0"], ["n2", "cxi0"]));
        assert!(!is_apart(["n1", "cxi0"], ["n1", "cxi1"]));
        assert!(is_apart(["n1", "soft0"], ["n1", "soft1"]));
        assert!(!is_apart(["n1", "soft0"], ["n1", "soft0"]));
    }

    #[test]
    fn tests_without_figures_are_measured_again() {
        let figures = |own: &[f64], others: &[f64]| TestFigures {
            own: own.to_vec(),
            others: others.to_vec(),
            ..TestFigures::default()
        };
        // Flows between groups say nothing about a NIC.
        let nic_tests = TESTS.iter().filter(|test| test.step != TestStep::OfLinks);
        let all = nic_tests.map(|test| test.code);
        let mut measured: FiguresByTest = all.map(|code| (code, figures(&[1.0], &[1.0]))).collect();
        assert_eq!(unmeasured_tests(&measured, 2), []);
        measured.insert(TestCode::L1, figures(&[], &[1.0]));
        measured.insert(TestCode::L2, figures(&[1.0], &[]));
        measured.remove(&TestCode::B4);
        let failed = TestFigures { failure: Some("no answer".into()), ..TestFigures::default() };
        measured.insert(TestCode::B1, failed);
        let [l1, l2, b1, b4] = [TestCode::L1, TestCode::L2, TestCode::B1, TestCode::B4];
        assert_eq!(unmeasured_tests(&measured, 2), [l1, l2, b1, b4]);
        assert_eq!(unmeasured_tests(&measured, 1), [l1, l2, b1]);
        assert_eq!(unmeasured_tests(&measured, 0), [l1, b1]);
    }

    #[test]
    fn healthy_nics_stand_for_good_ones() {
        let own = TestFigures { own: vec![14e9], ..TestFigures::default() };
        let tests = [TestCode::L1, TestCode::B1];
        let mut measured: FiguresByTest = tests.map(|code| (code, own.clone())).into();
        add_healthy(&mut measured, healthy(Some(1.0)));
        assert!(measured[&TestCode::L1].others.is_empty());
        assert_eq!(measured[&TestCode::B1].others, [23.1e9]);
        assert_eq!(measured.len(), 2);
    }

    #[test]
    fn says_what_few_good_nics_leave_out() {
        assert!(few_controls_note(1).is_some_and(|note| note.starts_with("one peer: ")));
        assert!(
            few_controls_note(4).is_some_and(|note| note.starts_with("files are not compared"))
        );
        assert_eq!((few_controls_note(0), few_controls_note(5)), (None, None));
    }

    #[test]
    fn only_cassini_1_has_known_figures() {
        assert_eq!(healthy(Some(1.0)), CASSINI_1);
        assert_eq!([healthy(Some(2.0)), healthy(None)], [[]; 2]);
    }

    #[test]
    fn healthy_nics_reach_more_than_the_least() {
        assert!(CASSINI_1.iter().all(|figure| figure.least < figure.usual));
    }
}
