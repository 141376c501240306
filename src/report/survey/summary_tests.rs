//! Tests of the first line.

use super::*;
use crate::survey::load_testing::{SWITCH, bandwidth, good_load, judgement, links, mixed_load};
use crate::survey::testing::{cause, good, loaded, mixed, survey};
use cluster::load::findings::{
    BandwidthFigures, Grade, LoadFigure, LoadFindings, LoadJudgement, LoadUnit,
};
use cluster::survey::findings::Unit;
use cluster::survey::ids::NicId;
use facts::error::{Failure, Kind};
use std::time::{Duration, SystemTime};

#[test]
fn concludes_in_one_line() {
    let interrupted = Failure::new(Kind::Interrupted, anyhow::Error::msg("interrupted"));
    let failed = Failure::environment("the coordinator has lost all processes");
    let suspect =
        Findings { causes: vec![cause(Unit::GroupPair(1, 2), Certainty::Suspect)], ..good() };
    let transient =
        Findings { causes: vec![cause(Unit::Nic(NicId(2)), Certainty::Transient)], ..good() };
    let partial = Findings { answered: 75, ..good() };
    let nearly = Findings { answered: 76, ..good() };
    let switch = Unit::Switch { group: 3, switch: 12 };
    let switches = Findings {
        causes: vec![cause(switch, Certainty::Bad), cause(Unit::Nic(NicId(7)), Certainty::Bad)],
        ..good()
    };
    let sample = Findings { unpaired: [1, 2, 5].map(NicId).into(), ..good() };
    let suspect_of_sample = Findings { unpaired: [1, 2, 5].map(NicId).into(), ..suspect.clone() };
    for (verdict, end, status, line) in [
        (good(), Ok(()), 0, "good: 8 NICs, 84 pairs measured"),
        (sample, Ok(()), 0, "good: 5 of 8 NICs, 84 pairs measured"),
        (nearly, Ok(()), 0, "good: 8 NICs, 76 of 84 pairs measured"),
        (
            suspect_of_sample,
            Ok(()),
            4,
            "undecided: 1 pair of groups suspect; 5 of 8 NICs are good, 3 in no pair",
        ),
        (transient, Ok(()), 0, "good: 8 NICs, 84 pairs measured"),
        (switches, Ok(()), 3, "bad: 1 switch, 1 NIC; 3 of 8 NICs are good"),
        (suspect.clone(), Ok(()), 4, "undecided: 1 pair of groups suspect; 8 of 8 NICs are good"),
        (partial.clone(), Ok(()), 4, "undecided: 75 of 84 pairs measured; 8 of 8 NICs are good"),
        (
            Findings::default(),
            Ok(()),
            4,
            "undecided: 0 pairs measured; 0 of 8 NICs are good, 8 untested",
        ),
        (
            partial,
            Err(&interrupted),
            130,
            "interrupted: 75 of 84 pairs measured; nothing bad so far",
        ),
        (
            suspect,
            Err(&interrupted),
            130,
            "interrupted: 84 pairs measured; so far: 1 pair of groups suspect",
        ),
        (
            mixed(),
            Err(&interrupted),
            130,
            "interrupted: 66 of 84 pairs measured; bad so far: 1 NIC",
        ),
        (
            mixed(),
            Err(&failed),
            1,
            "failed: the coordinator has lost all processes; 66 of 84 pairs measured; \
             bad so far: 1 NIC",
        ),
    ] {
        let survey = survey(verdict, end);
        assert_eq!((survey.exit_status, survey.summary.as_str()), (status, line));
        let result = survey.result().map_err(|failure| failure.status());
        assert_eq!(result.err().unwrap_or(0), status);
    }
}

#[test]
fn good_says_what_was_measured() {
    for (tests, line) in [
        (0..1, "good (latency only): 8 NICs, 84 pairs measured"),
        (1..2, "good (bandwidth only): 8 NICs, 84 pairs measured"),
        (0..2, "good: 8 NICs, 84 pairs measured"),
    ] {
        let mut survey = survey(good(), Ok(()));
        survey.setup.tests = survey.setup.tests[tests].to_vec();
        survey.scope = Scope::from_tests(&survey.setup.tests);
        assert_eq!(summary(&survey), line);
    }
}

#[test]
fn links_without_comparison_are_unjudged() {
    let mut verdict = good();
    verdict.populations[1].incomparable = true;
    let unjudged = survey(verdict.clone(), Ok(()));
    assert_eq!(
        (unjudged.exit_status, unjudged.summary.as_str()),
        (4, "undecided: class same group unjudged (--expect judges it); 84 pairs measured")
    );
    // An absolute limit judges the class.
    verdict.populations[1].expected = Some(2500.0);
    assert_eq!(survey(verdict, Ok(())).exit_status, 0);
}

#[test]
fn concludes_under_load() {
    let with = |judgements: Vec<LoadJudgement>| LoadFindings { judgements, ..good_load() };
    let judgement_for =
        |unit, certainty| judgement(unit, LoadFigure::Impact, Grade::Bad, certainty);
    let bad = |unit| judgement_for(unit, Some(Certainty::Bad));
    let nic = LoadUnit::Nic(NicId(5));
    let slow = judgement(nic, LoadFigure::TargetPauses, Grade::Slow, None);
    let group_links = LoadUnit::GroupLinks { from: 0, to: 2, both: false };
    let aborted =
        LoadFindings { aborted: Some("timeouts at 2 of 8 NICs".into()), ..with(vec![bad(nic)]) };
    let unconfirmed =
        LoadFindings { judgements: vec![judgement_for(nic, None)], ..aborted.clone() };
    let busy =
        LoadFindings { unjudged: Some("traffic of others at 3 of 8 NICs".into()), ..good_load() };
    let unmeasured =
        LoadFindings { unmeasured: vec!["victims under incast:8".into()], ..good_load() };
    // The links from group 2 to group 0 were good under one of both patterns.
    let under = |ratios: [f64; 2]| BandwidthFigures {
        sets: vec![links(0, 2, ratios[0]), links(2, 0, ratios[1])],
        ..bandwidth("bisect:system")
    };
    let bad_links =
        LoadFindings { bandwidths: vec![under([0.5, 0.5]), under([0.6, 1.0])], ..good_load() };
    let named = LoadFindings {
        judgements: vec![judgement_for(group_links, Some(Certainty::Transient))],
        ..bad_links.clone()
    };
    let once = LoadFindings { bandwidths: vec![under([0.5, 1.0])], ..good_load() };
    for (load, status, line) in [
        (
            bad_links,
            4,
            "undecided: links from group 000 to group 002 slow under each pattern; \
             8 of 8 NICs are good",
        ),
        (named, 0, "good: 8 NICs, 84 pairs measured"),
        (once, 0, "good: 8 NICs, 84 pairs measured"),
        (
            unmeasured,
            4,
            "undecided: most measurements of a part of the load do not count; 84 pairs measured",
        ),
        (good_load(), 0, "good: 8 NICs, 84 pairs measured"),
        (with(vec![slow]), 0, "good: 8 NICs, 84 pairs measured"),
        (
            with(vec![judgement_for(nic, Some(Certainty::Transient))]),
            0,
            "good: 8 NICs, 84 pairs measured",
        ),
        (
            with(vec![bad(SWITCH), bad(SWITCH)]),
            3,
            "bad: switch 003.12 under load; 4 of 8 NICs are good",
        ),
        (
            with(vec![bad(nic), bad(group_links), bad(LoadUnit::Nic(NicId(1)))]),
            3,
            "bad: 2 NICs, 1 pair of groups under load; 6 of 8 NICs are good",
        ),
        (mixed_load(), 3, "bad: switch 003.12 under load; 4 of 8 NICs are good"),
        (
            with(vec![judgement_for(group_links, Some(Certainty::Suspect))]),
            4,
            "undecided: links from group 000 to group 002 suspect under load; \
             8 of 8 NICs are good",
        ),
        // Without retests, a bad figure is not confirmed.
        (
            with(vec![judgement_for(nic, None)]),
            4,
            "undecided: nid000418 cxi1 suspect under load; 7 of 8 NICs are good, 1 suspect",
        ),
        (busy, 4, "undecided: the fabric was busy, no verdict under load; 84 pairs measured"),
        (
            aborted,
            1,
            "failed: the load ended early: timeouts at 2 of 8 NICs; 84 pairs measured; \
             bad so far: nid000418 cxi1 under load",
        ),
        (
            unconfirmed,
            1,
            "failed: the load ended early: timeouts at 2 of 8 NICs; 84 pairs measured; \
             so far: nid000418 cxi1 suspect under load",
        ),
    ] {
        let survey = loaded(load);
        assert_eq!((survey.exit_status, survey.summary.as_str()), (status, line));
    }
}

#[test]
fn names_parts_with_and_without_load() {
    let mut survey = survey(mixed(), Ok(()));
    survey.load = Some(mixed_load());
    assert_eq!(
        summary(&survey),
        "bad: 1 NIC; switch 003.12 under load; 0 of 8 NICs are good, 2 suspect, 2 untested"
    );
    survey.conclusion = Conclusion::Undecided;
    assert!(
        summary(&survey).starts_with(
            "undecided: 1 path suspect; links from group 000 to group 002 suspect under load; "
        ),
        "{}",
        summary(&survey)
    );
}

#[test]
fn names_absent_nodes() {
    let mut survey = survey(good(), Ok(()));
    survey.roster.nics.truncate(6);
    survey.roster.nodes[3].absent = Some("it did not join within 30 s".into());
    survey.conclusion = Conclusion::Undecided;
    assert_eq!(
        summary(&survey),
        "undecided: 84 pairs measured; 6 of 6 NICs are good, 1 node absent"
    );
    survey.roster.nodes[3].absent = Some(NO_NIC.into());
    assert!(summary(&survey).ends_with(", 1 node without a NIC"));
    // The NICs of a node that has joined are counted.
    survey.roster.nodes[0].absent = Some("lost".into());
    let line = summary(&survey);
    assert!(line.ends_with("; 4 of 6 NICs are good, 2 untested, 1 node without a NIC"), "{line}");
}

#[test]
fn one_nic_is_singular() {
    let mut survey = survey(Findings::default(), Ok(()));
    survey.roster.nics.truncate(1);
    assert_eq!(nics(&survey), "0 of 1 NIC is good, 1 untested");
}

#[test]
fn a_signal_counts_more_than_the_end_of_the_load() {
    let quiet = survey(good(), Ok(()));
    let interrupted = Failure::new(Kind::Interrupted, anyhow::Error::msg("interrupted"));
    let load = LoadFindings { aborted: Some("interrupted".into()), ..good_load() };
    let survey = Survey::new(
        quiet.setup,
        SystemTime::UNIX_EPOCH,
        Duration::ZERO,
        quiet.roster,
        quiet.verdict,
        Some(load),
        Err(&interrupted),
    );
    assert_eq!(survey.conclusion, Conclusion::Interrupted);
}
