//! The command that decides what a survey has left undecided or untested.

use super::Survey;
use super::document::Conclusion;
use super::mixed::is_incomparable;
use cluster::survey::findings::{Certainty, Statistic};
use cluster::survey::roster::Roster;
use cluster::survey::untested::Untested;

/// Most NICs of which all pairs are proposed: 2,016 pairs.
const MOST_NICS: usize = 64;

/// How many times longer each pair is measured, and the longest time that is proposed, in seconds.
const LONGER: f64 = 4.0;
const LONGEST_PAIR_S: f64 = 2.0;

/// For how long each pair is measured, in seconds, after answers that did not come in a short slot.
const LATE_ANSWER_PAIR_S: f64 = 1.0;

/// The proposed time for processes that are missing.
const JOIN: &str = "120s";

/// Characters that need no quotes in a shell.
const PLAIN: &str = "-_=:,./@+%[]";

/// Returns the command; `None` if nothing is undecided or untested, and if the survey ended early.
pub fn next(survey: &Survey) -> Option<String> {
    let verdict = &survey.verdict;
    let is_open = match survey.conclusion {
        Conclusion::Undecided => true,
        Conclusion::Good | Conclusion::Bad => !verdict.untested.is_empty(),
        Conclusion::Interrupted | Conclusion::Failed => false,
    };
    is_open.then(|| command(survey, &changes(survey)))
}

/// Returns the options that change, with their new values. Without any, the same command decides
/// at another time.
fn changes(survey: &Survey) -> Vec<(&'static str, String)> {
    let (setup, verdict, roster) = (&survey.setup, &survey.verdict, &survey.roster);
    let mut changes = Vec::new();
    if roster.nodes.iter().any(|node| node.absent.is_some()) {
        changes.push(("join", JOIN.to_owned()));
    }
    let mut causes = verdict.causes.iter();
    let has_suspects = causes.any(|cause| cause.certainty == Certainty::Suspect);
    let has_incomparable = |is_bandwidth: bool| {
        let mut populations = verdict.populations.iter().filter(|one| is_incomparable(one));
        populations.any(|one| setup.tests[one.test.index()].of_bandwidth == is_bandwidth)
    };
    if !has_suspects && (has_incomparable(false) || has_incomparable(true)) {
        let limits = [(has_incomparable(false), "p50<TIME"), (has_incomparable(true), "bw>RATE")];
        let limits = limits.into_iter().filter(|(is_needed, _)| *is_needed);
        let limits: Vec<&str> = limits.map(|(_, limit)| limit).collect();
        changes.push(("expect", limits.join(",")));
        return changes;
    }
    let is_of_load = survey.load.as_ref().is_some_and(|load| !load.is_complete());
    if verdict.untested.is_empty() && is_of_load {
        return changes;
    }
    let has_all = verdict.widened || setup.pairs.split(',').any(|name| name == "all");
    let is_busy = verdict
        .populations
        .iter()
        .any(|one| one.figure != Statistic::Median || 2 * one.unjudged > one.count);
    let short = Untested::ShortSlot.to_string();
    if verdict.untested.iter().any(|part| part.reason == short) {
        let longer = longer_pair_s(setup.pair_s).max(LATE_ANSWER_PAIR_S);
        changes.push(pair_time(longer));
        return changes;
    }
    if !has_all {
        changes.push(("pairs", more_pairs(roster).to_owned()));
    } else if setup.nics_at_once {
        changes.push(("nics", "turn".to_owned()));
    }
    let longer = longer_pair_s(setup.pair_s);
    if (is_busy || (has_all && !setup.nics_at_once)) && longer > setup.pair_s {
        changes.push(pair_time(longer));
    }
    changes
}

fn longer_pair_s(pair_s: f64) -> f64 {
    (LONGER * pair_s).min(LONGEST_PAIR_S)
}

fn pair_time(pair_s: f64) -> (&'static str, String) {
    ("pair-time", format!("{:.0}ms", 1000.0 * pair_s))
}

/// Returns the pairs that show most about these NICs.
fn more_pairs(roster: &Roster) -> &'static str {
    if roster.nics.len() <= MOST_NICS {
        "all"
    } else if roster.nics.iter().any(|nic| nic.location.is_some()) {
        "within-switch,switches,groups"
    } else {
        "random:16"
    }
}

/// Returns the command of the survey with changed options.
fn command(survey: &Survey, changes: &[(&str, String)]) -> String {
    let launch = match survey.setup.launcher.as_str() {
        "slurm" => "srun --ntasks-per-node=1 --mpi=none cxidiag survey",
        _ => "cxidiag survey",
    };
    let arguments = &survey.setup.arguments;
    let end = arguments.iter().position(|argument| argument == "--");
    let (own, tool_texts) = arguments.split_at(end.unwrap_or(arguments.len()));
    let mut words = vec![launch.to_owned()];
    let mut is_value = false;
    for argument in own {
        let names = |name: &str| argument.strip_prefix("--") == Some(name);
        let has_name = |name: &str| {
            let rest = argument.strip_prefix("--").and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with('='))
        };
        let is_changed = changes.iter().any(|(name, _)| has_name(name));
        let is_option = changes.iter().any(|(name, _)| names(name));
        if !is_changed && !is_option && !is_value {
            words.push(quoted(argument));
        }
        is_value = is_option;
    }
    words.extend(changes.iter().map(|(name, value)| quoted(&format!("--{name}={value}"))));
    words.extend(tool_texts.iter().map(|argument| quoted(argument)));
    words.join(" ")
}

/// Returns an argument as a shell reads it.
fn quoted(argument: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || PLAIN.contains(letter);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cause, good, mixed, survey};
    use super::*;
    use cluster::survey::findings::{Findings, Unit, UntestedPart};
    use cluster::survey::ids::NicId;

    fn suspect() -> Findings {
        Findings { causes: vec![cause(Unit::Nic(NicId(1)), Certainty::Suspect)], ..good() }
    }

    #[test]
    fn good_survey_has_no_next_command() {
        assert_eq!(survey(good(), Ok(())).next, None);
    }

    #[test]
    fn proposes_all_pairs_and_then_more_time() {
        let mut undecided = survey(suspect(), Ok(()));
        let all =
            "srun --ntasks-per-node=1 --mpi=none cxidiag survey write-lat,write-bw --pairs=all";
        assert_eq!(undecided.next.as_deref(), Some(all));
        undecided.setup.launcher = "hosts".into();
        undecided.setup.arguments =
            ["--pairs", "all", "--hosts=a b", "--", "--cpu=1"].map(str::to_owned).into();
        undecided.setup.pairs = "all".into();
        let longer = "cxidiag survey --pairs all '--hosts=a b' --pair-time=400ms -- --cpu=1";
        assert_eq!(next(&undecided).as_deref(), Some(longer));
        undecided.setup.nics_at_once = true;
        assert!(next(&undecided).unwrap().contains(" --nics=turn -- "));
        undecided.setup.pairs = "random:4".into();
        let replaced = "cxidiag survey '--hosts=a b' --pairs=all -- --cpu=1";
        assert_eq!(next(&undecided).as_deref(), Some(replaced));
    }

    #[test]
    fn proposes_long_pairs_after_late_answers() {
        let mut verdict = good();
        verdict.untested = vec![UntestedPart {
            unit: Unit::Nic(NicId(0)),
            tests: Vec::new(),
            is_coarse: false,
            reason: Untested::ShortSlot.to_string(),
            pairs: 1,
        }];
        let next = survey(verdict, Ok(())).next.unwrap();
        assert!(next.ends_with(" --pair-time=1000ms"), "{next}");
    }

    #[test]
    fn bad_survey_with_untested_parts_has_a_next_command() {
        assert!(survey(mixed(), Ok(())).next.is_some());
    }

    #[test]
    fn names_the_limit_that_judges_links_without_comparison() {
        let mut verdict = good();
        verdict.populations[1].incomparable = true;
        let next = survey(verdict, Ok(())).next.unwrap();
        assert!(next.ends_with(" --pairs=random:3 '--expect=p50<TIME'"), "{next}");
    }
}
