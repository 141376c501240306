//! Diagnoses on models of clusters: figures come from the model, files are made up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::causes::cause::{Confidence, Observation};
use super::causes::procedure::DiagnosisCourse;
use super::suspect;
use super::verdict::{Diagnoses, explain};
use crate::causes::procedure::TESTS;
use campaign::quiet::findings::{
    Cause, Certainty, Direction, Evidence, Findings, LimitSource, Statistic, Test,
};
use campaign::quiet::roster::{NicId, Pair, TestId, Unit};
use campaign::quiet::testing::{Cluster, Effect, Fault, pair};
use campaign::slots::Crew;
use campaign::slots::testing::ModelCrew;
use crew::location::Class;
use facts::severity::Severity;
use health::item::Readings;
use health::item::testing::reading;

fn course() -> DiagnosisCourse {
    course_with(Vec::new())
}

/// The test of a survey with write-bw, and the tests of a diagnosis. These software NICs have links
/// of their own.
fn course_with(planted: Vec<String>) -> DiagnosisCourse {
    let test = |tool: &str, size_bytes| Test {
        tool: tool.into(),
        size_bytes,
        of_bandwidth: tool.ends_with("bw"),
    };
    let own = TESTS.iter().map(|own| {
        // Tests that differ in their arguments only have places of their own.
        let arguments = vec![format!("{:?}", own.code)];
        (own.code, (test(own.tool, own.size_bytes), arguments))
    });
    let survey = vec![(test("write-bw", 65_536), Vec::new())];
    DiagnosisCourse::new(survey, own.collect(), Duration::from_millis(50), planted)
}

/// Returns what the files of a NIC with a link of this width say.
fn files(width: &str) -> Readings {
    let state = if width == "x16" { Severity::Good } else { Severity::Bad };
    vec![
        reading("generation", "Cassini 1", Severity::Shown),
        reading("pcie-width", width, state),
        reading("huge-pages", "512 of 2M", Severity::Shown),
    ]
}

/// A verdict that calls parts bad, because their bandwidth is half of the median.
fn verdict(units: &[Unit]) -> Findings {
    let evidence = Evidence {
        test: TestId(0),
        class: Class::Switch,
        outside: 6,
        measured: 6,
        figure: Statistic::Median,
        value: Some(12e9),
        median: Some(24e9),
        limit: Some(20e9),
        source: LimitSource::Population,
        retries: None,
        usual_retries: None,
        failure: None,
    };
    let cause = |unit: &Unit| Cause {
        unit: *unit,
        certainty: Certainty::Bad,
        direction: Direction::Both,
        evidence: vec![evidence.clone()],
        counters: Vec::new(),
    };
    Findings { causes: units.iter().map(cause).collect(), answered: 1, ..Findings::default() }
}

/// The crew of 12 nodes at one switch, whose NICs of these numbers have half of the bandwidth of
/// the others. All files are good.
fn crew(slow: &[u32]) -> ModelCrew {
    let mut cluster = Cluster::new([1, 1, 12, 1], &["write-bw"], 3);
    let fault = |nic: &u32| Fault {
        unit: Unit::Nic(NicId(*nic)),
        direction: Direction::Both,
        effect: Effect::Throttles(2.0),
    };
    cluster.faults = slow.iter().map(fault).collect();
    let mut crew = ModelCrew::new(cluster, &[]);
    crew.files = NicId::first(12).map(|nic| (nic, files("x16"))).collect();
    crew
}

fn explained(crew: &mut ModelCrew, verdict: &Findings) -> Diagnoses {
    let roster = crew.members().roster.clone();
    let mut found = Diagnoses::default();
    explain(crew, &course(), (&roster, verdict), None, &mut found).unwrap();
    found
}

#[test]
fn measures_in_short_slots_and_late_pairs_again_in_longer_ones() {
    for is_late in [false, true] {
        let mut crew = crew(&[4]);
        crew.is_late = is_late;
        crew.files.insert(NicId(4), files("x8"));
        let found = explained(&mut crew, &verdict(&[Unit::Nic(NicId(4))]));
        let [explanation] = &found.explanations[..] else { panic!("{found:?}") };
        assert_eq!(explanation.causes[0].cause.as_deref(), Some("pcie-narrow"));
        assert_eq!(explanation.left_out, None);
        assert!(crew.short_slots > 20, "{}", crew.short_slots);
    }
}

#[test]
fn narrow_link_explains_half_of_the_bandwidth() {
    let mut crew = crew(&[4]);
    crew.files.insert(NicId(4), files("x8"));
    let found = explained(&mut crew, &verdict(&[Unit::Nic(NicId(4))]));
    let [explanation] = &found.explanations[..] else { panic!("{found:?}") };
    let why = &explanation.causes[0];
    assert_eq!(why.cause.as_deref(), Some("pcie-narrow"), "{why:?}");
    assert!(why.confidence <= Confidence::Probably, "{why:?}");
    assert_eq!(crew.notes, ["finding out why: 1 part"]);
}

#[test]
fn nothing_is_named_without_a_sign_in_files() {
    let mut crew = crew(&[4]);
    let found = explained(&mut crew, &verdict(&[Unit::Nic(NicId(4))]));
    let explanation = &found.explanations[0];
    assert_eq!(explanation.nic, Some(NicId(4)));
    assert!(!explanation.controls.contains(&NicId(4)) && explanation.controls.len() == 2);
    let is_sure = explanation.causes.iter().any(|why| why.confidence == Confidence::Because);
    assert!(!is_sure, "{explanation:?}");
}

#[test]
fn culprits_with_the_same_files_are_measured_once() {
    let mut crew = crew(&[4, 6]);
    for nic in [4, 6] {
        crew.files.insert(NicId(nic), files("x8"));
    }
    let units = [4, 6].map(|nic| Unit::Nic(NicId(nic)));
    let found = explained(&mut crew, &verdict(&units));
    let same: Vec<_> = found.explanations.iter().map(|explanation| explanation.same_as).collect();
    assert_eq!(same, [None, Some(units[0])]);
}

#[test]
fn explanations_have_the_order_of_the_verdict() {
    let path = Pair { initiator: NicId(1), target: NicId(2) };
    let units = [Unit::Switch { group: 0, switch: 0 }, Unit::Path(path)];
    let found = explained(&mut crew(&[]), &verdict(&units));
    let order: Vec<Unit> =
        found.explanations.iter().map(|explanation| explanation.culprit).collect();
    assert_eq!(order, units);
}

#[test]
fn no_culprit_is_begun_without_time() {
    let mut crew = crew(&[4]);
    let roster = crew.members().roster.clone();
    let mut found = Diagnoses::default();
    let verdict = verdict(&[Unit::Nic(NicId(4))]);
    explain(&mut crew, &course(), (&roster, &verdict), Some(Instant::now()), &mut found).unwrap();
    let left_out = found.explanations[0].left_out.as_deref();
    assert_eq!((left_out, crew.block), (Some("there was no time for it"), 0));
}

#[test]
fn lost_controls_do_not_end_a_diagnosis() {
    let mut crew = crew(&[4]);
    crew.files.insert(NicId(4), files("x8"));
    crew.losses.insert(0, vec![0]);
    let found = explained(&mut crew, &verdict(&[Unit::Nic(NicId(4))]));
    assert_eq!(found.explanations.len(), 1);
}

#[test]
fn suspect_is_compared_with_nics_of_other_nodes() {
    let mut crew = crew(&[0]);
    crew.files.insert(NicId(0), files("x8"));
    let joined: BTreeMap<_, _> = crew.joined.clone();
    let found = suspect::diagnose(&mut crew, &joined, &course(), 0).unwrap();
    assert_eq!((found.suspect, found.generation.as_deref()), (NicId(0), Some("Cassini 1")));
    assert!(found.controls.len() > 4 && !found.controls.contains(&NicId(0)));
    let why = &found.explanation.causes[0];
    assert_eq!(why.cause.as_deref(), Some("pcie-narrow"), "{why:?}");
}

#[test]
fn healthy_suspect_has_no_cause() {
    let mut crew = crew(&[]);
    let joined: BTreeMap<_, _> = crew.joined.clone();
    let found = suspect::diagnose(&mut crew, &joined, &course(), 0).unwrap();
    assert!(found.controls.len() > 4);
    assert!(!found.is_disturbed && !found.measured.is_empty());
    let explanation = &found.explanation;
    assert!(explanation.causes.iter().all(|why| why.cause.is_none()), "{explanation:?}");
    assert_eq!(explanation.left_out, None);
}

/// Vector 29 of diagnosis.md 8.
#[test]
fn driver_of_all_culprits_is_shared() {
    let slow = [1, 4, 6];
    let mut crew = crew(&slow);
    for (nic, files) in &mut crew.files {
        let version = if slow.contains(&nic.0) { "1.9" } else { "1.8" };
        files.push(reading("driver", version, Severity::Shown));
    }
    let units = slow.map(|nic| Unit::Nic(NicId(nic)));
    let found = explained(&mut crew, &verdict(&units));
    let [shared] = &found.shared[..] else { panic!("{found:?}") };
    assert_eq!((shared.value.as_str(), shared.normal.as_str()), ("1.9", "1.8"));
    assert_eq!((&shared.culprits[..], shared.of_culprits, shared.others), (&units[..], 3, 0));
}

/// Vector 25: one of two cables between two groups is slow. Of the flows between two NICs of one
/// group and two of the other, half are on this cable; so are writes that are not ordered, which a
/// fabric spreads over both cables. So the survey's figure is no proof.
#[test]
fn slow_parallel_link_between_groups_is_the_cause() {
    let mut cluster = Cluster::new([4, 1, 2, 1], &["write-bw"], 3);
    let slow = [(0, 2), (1, 3)].map(|(initiator, target)| Fault {
        unit: Unit::Path(pair(initiator, target)),
        direction: Direction::Both,
        effect: Effect::Throttles(2.5),
    });
    cluster.faults = slow.into();
    let mut crew = ModelCrew::new(cluster, &[]);
    let links = Unit::GroupPair(0, 1);
    let found = explained(&mut crew, &verdict(&[links]));
    let [explanation] = &found.explanations[..] else { panic!("{found:?}") };
    assert_eq!(explanation.culprit, links);
    let why = &explanation.causes[0];
    let named = (why.cause.as_deref(), why.confidence);
    assert_eq!(named, (Some("global-link"), Confidence::Probably), "{why:?}");
}

/// The evidence about hops of NIC 4, which takes three times as long as the others. The names of
/// all NICs begin with `prefix`; the NICs in `planted` have links of their own.
fn hops(prefix: &str, planted: &[&str]) -> Option<Observation> {
    let mut cluster = Cluster::new([1, 1, 12, 1], &["write-bw"], 3);
    cluster.faults = vec![Fault::slow(Unit::Nic(NicId(4)), Direction::Both, 3.0)];
    for (number, nic) in cluster.roster.nics.iter_mut().enumerate() {
        nic.device = format!("{prefix}{number}");
    }
    let mut crew = ModelCrew::new(cluster, &[]);
    crew.files = NicId::first(12).map(|nic| (nic, files("x16"))).collect();
    let joined = crew.joined.clone();
    let planted = planted.iter().map(|name| (*name).to_owned()).collect();
    let found = suspect::diagnose(&mut crew, &joined, &course_with(planted), 4).unwrap();
    assert!(!found.is_disturbed);
    let mut evidence = found.explanation.causes[0].evidence.iter();
    evidence.find(|item| item.test == "T").cloned()
}

/// CPUs do the work of software NICs, so their hops show links only if the user has planted these.
#[test]
fn hops_show_hardware_and_planted_links() {
    for hops in [hops("cxi", &[]), hops("soft", &["soft4"])] {
        let hops = hops.expect("evidence");
        let ratio = hops.own.zip(hops.others).map(|(own, others)| own / others);
        assert!(ratio > Some(2.0), "{hops:?}");
    }
    let left_out = hops("soft", &["soft3"]).expect("evidence");
    let text = "hops without a CPU not measured: CPUs make the hops of software NICs";
    assert_eq!((left_out.text.as_str(), left_out.own), (text, None));
}
