//! The first line of the text: the conclusion of a survey.

use std::collections::HashSet;

use super::load_verdict::units;
use super::mixed::is_mixed;
use super::nics::{State, all_states};
use super::{Conclusion, Survey, load_words, words};
use cluster::survey::findings::{Certainty, Findings};
use cluster::survey::ids::NodeId;

/// Returns the first line, which fits into 80 columns except for a failure.
pub fn summary(survey: &Survey) -> String {
    let verdict = &survey.verdict;
    let pairs = pairs(verdict);
    let bad = joined([
        counts(verdict, Certainty::Bad),
        under_load(survey, Certainty::Bad, ""),
    ]);
    let suspect = counts(verdict, Certainty::Suspect);
    let suspect = joined([
        if suspect.is_empty() {
            suspect
        } else {
            format!("{suspect} suspect")
        },
        under_load(survey, Certainty::Suspect, "suspect "),
    ]);
    match survey.conclusion {
        Conclusion::Good => {
            let all = words::counted(survey.roster.nics.len() as u64, "NIC");
            let nics = match verdict.unpaired.len() {
                0 => all,
                unpaired => {
                    let measured = (survey.roster.nics.len() - unpaired) as u64;
                    format!("{} of {all}", words::grouped(measured))
                }
            };
            format!("good: {nics}, {pairs} measured")
        }
        Conclusion::Bad => format!("bad: {bad}; {}", nics(survey)),
        Conclusion::Undecided if !suspect.is_empty() => {
            format!("undecided: {suspect}; {}", nics(survey))
        }
        Conclusion::Undecided if verdict.populations.iter().any(|of| of.biased) => {
            format!("undecided: the missing pairs of a class are unevenly spread; {pairs} measured")
        }
        Conclusion::Undecided if is_mixed(verdict) => {
            format!("undecided: the pairs of a class differ too much; {pairs} measured")
        }
        Conclusion::Undecided if survey.load.as_ref().is_some_and(|of| of.unjudged.is_some()) => {
            format!("undecided: the fabric was busy, no verdict under load; {pairs} measured")
        }
        Conclusion::Undecided => format!("undecided: {pairs} measured; {}", nics(survey)),
        Conclusion::Interrupted => format!("interrupted: {pairs} measured; {}", so_far(&bad)),
        Conclusion::Failed => {
            let why = survey.error.as_ref().map_or("failed", |of| &of.message);
            format!("failed: {why}; {pairs} measured; {}", so_far(&bad))
        }
    }
}

/// Returns the parts that are outside the limits under load alone: the name of one, or how many
/// there are of each kind. Empty without any.
fn under_load(survey: &Survey, certainty: Certainty, state: &str) -> String {
    let units = units(survey.load.as_ref(), certainty);
    let names = match units.as_slice() {
        [] => return String::new(),
        [unit] => load_words::name(&survey.roster, unit),
        units => counted_kinds(units.iter().map(load_words::kind)),
    };
    format!("{names} {state}under load")
}

/// Returns texts with semicolons between them, without empty ones.
fn joined(texts: [String; 2]) -> String {
    let texts: Vec<String> = texts.into_iter().filter(|of| !of.is_empty()).collect();
    texts.join("; ")
}

fn so_far(bad: &str) -> String {
    if bad.is_empty() {
        "nothing bad so far".into()
    } else {
        format!("bad so far: {bad}")
    }
}

/// Returns the number of measured pairs.
pub fn pairs(verdict: &Findings) -> String {
    let Findings {
        answered, planned, ..
    } = *verdict;
    if answered == planned {
        words::counted(planned, "pair")
    } else {
        let all = words::counted(planned, "pair");
        format!("{} of {all}", words::grouped(answered))
    }
}

/// Returns the number of parts of each kind with this certainty: `1 NIC, 2 switches`.
fn counts(verdict: &Findings, certainty: Certainty) -> String {
    let causes = verdict.causes.iter().filter(|of| of.certainty == certainty);
    counted_kinds(causes.map(|of| words::kind(&of.unit)))
}

/// Returns how many parts of each kind there are.
fn counted_kinds<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    for kind in all {
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    let texts = kinds
        .iter()
        .map(|(kind, count)| words::counted(*count, kind));
    texts.collect::<Vec<_>>().join(", ")
}

/// Returns how many NICs are good, suspect and untested, and how many nodes have no NIC because
/// they are absent.
fn nics(survey: &Survey) -> String {
    let states = all_states(survey);
    let count = |state| states.iter().filter(|of| **of == state).count() as u64;
    let all = words::counted(states.len() as u64, "NIC");
    let is_one = states.len() == 1 || count(State::Good) == 1;
    let are = if is_one { "is" } else { "are" };
    let mut text = format!("{} of {all} {are} good", words::grouped(count(State::Good)));
    let others = [
        ("suspect", State::Suspect),
        ("untested", State::Untested),
        ("in no pair", State::Unpaired),
    ];
    for (name, state) in others {
        if count(state) > 0 {
            text += &format!(", {} {name}", words::grouped(count(state)));
        }
    }
    let roster = &survey.roster;
    let with_nics: HashSet<NodeId> = roster.nics.iter().map(|nic| nic.node).collect();
    let nodes = roster.node_ids().zip(&roster.nodes);
    let absent = nodes.filter(|(at, node)| node.absent.is_some() && !with_nics.contains(at));
    match absent.count() as u64 {
        0 => {}
        count => text += &format!(", {} absent", words::counted(count, "node")),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::load_testing::{SWITCH, good_load, judgement, mixed_load};
    use super::super::testing::{cause, good, loaded, mixed, survey};
    use super::*;
    use cluster::load::findings::{Grade, LoadFigure, LoadFindings, LoadJudgement, LoadUnit};
    use cluster::survey::findings::Unit;
    use cluster::survey::ids::NicId;
    use facts::error::{Failure, Kind};

    #[test]
    fn concludes_in_one_line() {
        let interrupted = Failure::new(Kind::Interrupted, anyhow::Error::msg("interrupted"));
        let failed = Failure::environment("the coordinator has lost all processes");
        let suspect = Findings {
            causes: vec![cause(Unit::GroupPair(1, 2), Certainty::Suspect)],
            ..good()
        };
        let transient = Findings {
            causes: vec![cause(Unit::Nic(NicId(2)), Certainty::Transient)],
            ..good()
        };
        let partial = Findings {
            answered: 75,
            ..good()
        };
        let nearly = Findings {
            answered: 76,
            ..good()
        };
        let switch = Unit::Switch {
            group: 3,
            switch: 12,
        };
        let switches = Findings {
            causes: vec![
                cause(switch, Certainty::Bad),
                cause(Unit::Nic(NicId(7)), Certainty::Bad),
            ],
            ..good()
        };
        let sample = Findings {
            unpaired: [1, 2, 5].map(NicId).into(),
            ..good()
        };
        let suspect_of_sample = Findings {
            unpaired: [1, 2, 5].map(NicId).into(),
            ..suspect.clone()
        };
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
            (
                switches,
                Ok(()),
                3,
                "bad: 1 switch, 1 NIC; 3 of 8 NICs are good",
            ),
            (
                suspect,
                Ok(()),
                4,
                "undecided: 1 pair of groups suspect; 8 of 8 NICs are good",
            ),
            (
                partial.clone(),
                Ok(()),
                4,
                "undecided: 75 of 84 pairs measured; 8 of 8 NICs are good",
            ),
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
            assert_eq!(
                (survey.exit_status, survey.summary.as_str()),
                (status, line)
            );
            let result = survey.result().map_err(|failure| failure.status());
            assert_eq!(result.err().unwrap_or(0), status);
        }
    }

    #[test]
    fn concludes_under_load() {
        let with = |judgements: Vec<LoadJudgement>| LoadFindings {
            judgements,
            ..good_load()
        };
        let of = |unit, certainty| judgement(unit, LoadFigure::Impact, Grade::Bad, certainty);
        let bad = |unit| of(unit, Some(Certainty::Bad));
        let nic = LoadUnit::Nic(NicId(5));
        let slow = judgement(nic, LoadFigure::TargetPauses, Grade::Slow, None);
        let links = LoadUnit::GroupLinks {
            from: 0,
            to: 2,
            both: false,
        };
        let aborted = LoadFindings {
            aborted: Some("timeouts at 2 of 8 NICs".into()),
            ..with(vec![bad(nic)])
        };
        let busy = LoadFindings {
            unjudged: Some("traffic of others at 3 of 8 NICs".into()),
            ..good_load()
        };
        for (load, status, line) in [
            (good_load(), 0, "good: 8 NICs, 84 pairs measured"),
            (with(vec![slow]), 0, "good: 8 NICs, 84 pairs measured"),
            (
                with(vec![of(nic, Some(Certainty::Transient))]),
                0,
                "good: 8 NICs, 84 pairs measured",
            ),
            (
                with(vec![bad(SWITCH), bad(SWITCH)]),
                3,
                "bad: switch 003.12 under load; 4 of 8 NICs are good",
            ),
            (
                with(vec![bad(nic), bad(links), bad(LoadUnit::Nic(NicId(1)))]),
                3,
                "bad: 2 NICs, 1 pair of groups under load; 6 of 8 NICs are good",
            ),
            (
                mixed_load(),
                3,
                "bad: switch 003.12 under load; 4 of 8 NICs are good",
            ),
            (
                with(vec![of(links, Some(Certainty::Suspect))]),
                4,
                "undecided: links from group 000 to group 002 suspect under load; \
                 8 of 8 NICs are good",
            ),
            // Without retests, a bad figure is not confirmed.
            (
                with(vec![of(nic, None)]),
                4,
                "undecided: nid000418 cxi1 suspect under load; 7 of 8 NICs are good, 1 suspect",
            ),
            (
                busy,
                4,
                "undecided: the fabric was busy, no verdict under load; 84 pairs measured",
            ),
            (
                aborted,
                1,
                "failed: the load ended early: timeouts at 2 of 8 NICs; 84 pairs measured; \
                 bad so far: nid000418 cxi1 under load",
            ),
        ] {
            let survey = loaded(load);
            assert_eq!(
                (survey.exit_status, survey.summary.as_str()),
                (status, line)
            );
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
        // The NICs of a node that has joined are counted.
        survey.roster.nodes[0].absent = Some("lost".into());
        let line = summary(&survey);
        assert!(
            line.ends_with("; 4 of 6 NICs are good, 2 untested, 1 node absent"),
            "{line}"
        );
    }

    #[test]
    fn one_nic_is_singular() {
        let mut survey = survey(Findings::default(), Ok(()));
        survey.roster.nics.truncate(1);
        assert_eq!(nics(&survey), "0 of 1 NIC is good, 1 untested");
    }
}
