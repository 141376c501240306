//! Tests of the first line.

use super::super::testing::{SWITCH, bandwidth, good_load, judgement, links, mixed_load};
use super::*;
use crate::result::testing::{cause, evidence, good, loaded, mixed, survey};
use campaign::quiet::findings::UntestedPart;
use campaign::quiet::roster::{NO_NIC, NodeId};
use facts::error::{Failure, Kind};
use load::findings::{BandwidthFigures, Grade, LoadFigure, LoadFindings, LoadJudgement, LoadUnit};
use std::time::{Duration, SystemTime};

const GOOD: &str = "good: 8 NICs (small writes within 1.30, bandwidth 1.30)";

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
    let links = |pairs: &[(u16, u16)]| {
        let units = pairs.iter().map(|(one, other)| Unit::GroupPair(*one, *other));
        Findings { causes: units.map(|unit| cause(unit, Certainty::Bad)).collect(), ..good() }
    };
    let absurd = {
        let mut findings = good();
        findings.populations.iter_mut().for_each(|one| one.sensitivity = None);
        findings
    };
    for (verdict, end, status, line) in [
        (good(), Ok(()), 0, GOOD),
        (
            absurd,
            Ok(()),
            0,
            "good: 8 NICs (no statement about small writes, no statement about bandwidth)",
        ),
        (
            links(&[(1, 4), (2, 4), (4, 5)]),
            Ok(()),
            3,
            "bad: a switch of group 004, or its links to groups 001, 002, 005 (latency)",
        ),
        (
            links(&[(1, 4), (2, 4), (2, 5)]),
            Ok(()),
            3,
            "bad: links between groups 001 and 004 and 2 more (latency); 8 of 8 NICs are good",
        ),
        (sample, Ok(()), 0, "good: 5 of 8 NICs (small writes within 1.30, bandwidth 1.30)"),
        (
            nearly,
            Ok(()),
            0,
            "good: 8 NICs (small writes within 1.30, bandwidth 1.30); 76 of 84 pairs measured",
        ),
        (
            suspect_of_sample,
            Ok(()),
            4,
            "undecided: links between groups 001 and 002 suspect (latency)",
        ),
        (transient, Ok(()), 0, GOOD),
        (switches, Ok(()), 3, "bad: switch 003.12, nid000419 cxi1 (latency); 3 of 8 NICs are good"),
        (
            suspect.clone(),
            Ok(()),
            4,
            "undecided: links between groups 001 and 002 suspect (latency)",
        ),
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
            "interrupted: 84 pairs measured; so far: \
             links between groups 001 and 002 suspect (latency)",
        ),
        (
            mixed(),
            Err(&interrupted),
            130,
            "interrupted: 66 of 84 pairs measured; bad so far: nid000417 cxi1 (latency, bandwidth)",
        ),
        (
            mixed(),
            Err(&failed),
            1,
            "failed: the coordinator has lost all processes; 66 of 84 pairs measured; \
             bad so far: nid000417 cxi1 (latency, bandwidth)",
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
        (0..1, "good: 8 NICs (small writes within 1.30; bandwidth not measured)"),
        (1..2, "good: 8 NICs (bandwidth within 1.30; latency not measured)"),
        (0..2, GOOD),
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
        (4, "undecided: class same group not judged: nothing to compare it with")
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
        (bad_links, 4, "undecided: links from group 000 to group 002 slow under each pattern"),
        (named, 0, GOOD),
        (once, 0, GOOD),
        (unmeasured, 4, "undecided: victims under incast:8 not judged: too few measurements count"),
        (good_load(), 0, GOOD),
        (with(vec![slow]), 0, GOOD),
        (with(vec![judgement_for(nic, Some(Certainty::Transient))]), 0, GOOD),
        (
            with(vec![bad(SWITCH), bad(SWITCH)]),
            3,
            "bad: switch 003.12 under load; 4 of 8 NICs are good",
        ),
        (
            with(vec![bad(nic), bad(group_links), bad(LoadUnit::Nic(NicId(1)))]),
            3,
            "bad: nid000418 cxi1, links from group 000 to group 002 and 1 more under load",
        ),
        (mixed_load(), 3, "bad: switch 003.12 under load; 4 of 8 NICs are good"),
        (
            with(vec![judgement_for(group_links, Some(Certainty::Suspect))]),
            4,
            "undecided: links from group 000 to group 002 suspect under load",
        ),
        // Without retests, a bad figure is not confirmed.
        (
            with(vec![judgement_for(nic, None)]),
            4,
            "undecided: nid000418 cxi1 suspect under load; 7 of 8 NICs are good, 1 suspect",
        ),
        (busy, 4, "undecided: load not judged: the fabric was busy; 8 of 8 NICs are good"),
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
        "bad: nid000417 cxi1 (latency, bandwidth); switch 003.12 under load"
    );
    survey.conclusion = Conclusion::Undecided;
    assert!(
        summary(&survey).starts_with(
            "undecided: nid000418 cxi0 to nid000419 cxi0 suspect (failures); links from group 000 to group 002 suspect under load"
        ),
        "{}",
        summary(&survey)
    );
}

#[test]
fn names_what_was_not_measured_and_why() {
    let absent = |node, reason: &str| UntestedPart::new(Unit::Node(NodeId(node)), reason);
    for (untested, line) in [
        (
            vec![absent(3, NO_NIC)],
            "undecided: nid000419 not measured: it has no NIC; \
             6 of 8 NICs are good",
        ),
        (
            vec![absent(2, "lost"), absent(3, "lost")],
            "undecided: nid000418, nid000419 not measured: lost; 4 of 8 NICs are good",
        ),
        (
            vec![absent(3, "a b c d e f g h i j k l m")],
            "undecided: nid000419 not measured; 6 of 8 NICs are good",
        ),
    ] {
        assert_eq!(survey(Findings { untested, ..good() }, Ok(())).summary, line);
    }
}

/// A verdict in which these tests do not judge these NICs.
fn unjudged(tests: &[u16], nics: impl IntoIterator<Item = u32>) -> Findings {
    let part = |nic| UntestedPart {
        tests: tests.iter().map(|test| TestId(*test)).collect(),
        ..UntestedPart::new(Unit::Nic(NicId(nic)), "busy CPUs")
    };
    Findings { untested: nics.into_iter().map(part).collect(), ..good() }
}

#[test]
fn good_is_said_of_the_figures_that_were_judged() {
    let slow = cause(Unit::Nic(NicId(3)), Certainty::Bad);
    let beside = |verdict: Findings| Findings { causes: vec![slow.clone()], ..verdict };
    let others = || (0..8).filter(|nic| *nic != 3);
    for (verdict, line) in [
        (
            unjudged(&[1], 0..8),
            "undecided: bandwidths not judged: busy CPUs; latencies of 8 of 8 NICs are good",
        ),
        (
            unjudged(&[0], 0..8),
            "undecided: latencies not judged: busy CPUs; bandwidths of 8 of 8 NICs are good",
        ),
        (unjudged(&[0, 1], 0..8), "undecided: latencies, bandwidths not judged: busy CPUs"),
        (unjudged(&[1], 2..3), "undecided: bandwidths of nid000417 cxi0 not judged: busy CPUs"),
        (
            unjudged(&[1], 2..4),
            "undecided: bandwidths of 2 NICs not judged: busy CPUs; 6 of 8 NICs are good",
        ),
        (
            unjudged(&[1], 2..5),
            "undecided: bandwidths of 3 NICs not judged: busy CPUs; 5 of 8 NICs are good",
        ),
        (
            beside(unjudged(&[1], others())),
            "bad: nid000417 cxi1 (latency); bandwidths not judged: busy CPUs",
        ),
        (
            beside(unjudged(&[0], others())),
            "bad: nid000417 cxi1 (latency); other latencies not judged: busy CPUs",
        ),
        (beside(good()), "bad: nid000417 cxi1 (latency); 7 of 8 NICs are good"),
    ] {
        let survey = survey(verdict, Ok(()));
        assert_eq!(survey.summary, line);
        assert!(line.len() <= 81);
    }
}

#[test]
fn names_three_parts_and_counts_the_others() {
    let causes = |count, test: u16| {
        let causes = (0..count).map(|nic| Cause {
            evidence: vec![evidence(TestId(test))],
            ..cause(Unit::Nic(NicId(nic)), Certainty::Bad)
        });
        causes.collect::<Vec<_>>()
    };
    let line = |causes| survey(Findings { causes, ..good() }, Ok(())).summary;
    assert_eq!(line(causes(3, 0)), "bad: nid000416 cxi0, nid000416 cxi1, nid000417 cxi0 (latency)");
    assert_eq!(
        line(causes(5, 1)),
        "bad: nid000416 cxi0, nid000416 cxi1, nid000417 cxi0 and 2 more (bandwidth)"
    );
    let mut both = causes(5, 1);
    both[4].evidence = vec![evidence(TestId(0))];
    assert_eq!(
        line(both),
        "bad: nid000416 cxi0 (bandwidth), nid000416 cxi1 (bandwidth) and 3 more"
    );
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
