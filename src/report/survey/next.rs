//! The command that would decide what a survey has left undecided or untested.

use std::collections::BTreeSet;
use std::path::Path;

use super::Survey;
use super::document::Conclusion;
use super::mixed::is_incomparable;
use cluster::host_list;
use cluster::survey::findings::{Certainty, Statistic, UntestedPart};
use cluster::survey::ids::NodeId;
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

/// The launchers whose tasks may have other arguments than the first one: none of their lines is
/// known.
const TASK_LAUNCHERS: [&str; 4] = ["pals", "flux", "openmpi", "hydra"];

/// Returns the command. `None` if nothing is undecided or untested, if the survey ended early, if
/// no command would decide, and if the line of the launcher is unknown.
pub fn next(survey: &Survey) -> Option<String> {
    let verdict = &survey.verdict;
    let is_open = match survey.conclusion {
        Conclusion::Undecided => true,
        Conclusion::Good | Conclusion::Bad => !verdict.untested.is_empty(),
        Conclusion::Interrupted | Conclusion::Failed => false,
    };
    let changes =
        if is_open && survey.roster.nics.len() > 1 { changes(survey) } else { Vec::new() };
    if changes.is_empty() { None } else { command(survey, &changes) }
}

/// Returns the options that change, with their new values; none if no option cures what is missing.
fn changes(survey: &Survey) -> Vec<(&'static str, String)> {
    let (setup, verdict, roster) = (&survey.setup, &survey.verdict, &survey.roster);
    let mut changes = Vec::new();
    if roster.nodes.iter().any(|node| node.absent.is_some()) {
        changes.push(("join", JOIN.to_owned()));
    }
    let mut causes = verdict.causes.iter();
    let has_suspects = causes.any(|cause| cause.certainty == Certainty::Suspect);
    // Only a limit that the user knows judges pairs without a comparison.
    let is_incomparable = !has_suspects && verdict.populations.iter().any(is_incomparable);
    let is_of_load = survey.load.as_ref().is_some_and(|load| !load.is_complete());
    let has_busy_cpus =
        |part: &UntestedPart| Untested::from(part.reason.as_str()).is_from_busy_cpus();
    let is_beside_busy =
        !survey.busy_nodes.is_empty() || verdict.untested.iter().any(has_busy_cpus);
    if is_incomparable || is_beside_busy || verdict.untested.is_empty() && is_of_load {
        return changes;
    }
    let has_all = verdict.widened || setup.pairs.split(',').any(|name| name == "all");
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
    let is_unclear = verdict.populations.iter().any(|one| one.figure != Statistic::Median);
    let longer = longer_pair_s(setup.pair_s);
    if (is_unclear || (has_all && !setup.nics_at_once)) && longer > setup.pair_s {
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

/// Returns the line that starts the processes again, on the same nodes; `None` if it is unknown.
fn launch(survey: &Survey) -> Option<String> {
    let Survey { setup, roster, .. } = survey;
    let launcher = setup.launcher.as_str();
    if TASK_LAUNCHERS.contains(&launcher) {
        return None;
    }
    if launcher != "slurm" {
        return Some("cxidiag survey".to_owned());
    }
    let is_device = |argument: &String| argument.starts_with("-d") || argument.starts_with("--dev");
    let devices = |node: NodeId| -> Vec<&str> {
        let nics = roster.nics.iter().filter(|nic| nic.node == node);
        nics.map(|nic| nic.device.as_str()).collect()
    };
    let differ = roster.node_ids().any(|node| devices(node) != devices(NodeId(0)));
    let hosts: BTreeSet<&str> = roster.hosts().collect();
    // A task that has not joined has no name of a host.
    let are_known = hosts.iter().all(|host| !host.starts_with("rank "));
    if setup.arguments.iter().any(is_device) && differ || !are_known {
        return None;
    }
    let (nodes, list) = (hosts.len(), host_list::compress(hosts.iter().copied()));
    Some(format!(
        "srun -N{nodes} -n{} {} --mpi=none cxidiag survey",
        setup.processes,
        quoted(&format!("--nodelist={list}"))
    ))
}

/// Returns the name of the next document of a survey: it does not replace the first one.
fn next_document(argument: &str) -> Option<String> {
    let path = Path::new(argument.strip_prefix("--json=").filter(|path| *path != "-")?);
    let stem = path.file_stem()?.to_str()?;
    let end = path.extension().map_or(String::new(), |end| format!(".{}", end.display()));
    Some(format!("--json={}", path.with_file_name(format!("{stem}-next{end}")).display()))
}

/// Returns the command of the survey with changed options; `None` if it is unknown, or the command
/// of the survey itself.
fn command(survey: &Survey, changes: &[(&str, String)]) -> Option<String> {
    let launch = launch(survey)?;
    let arguments = &survey.setup.arguments;
    let end = arguments.iter().position(|argument| argument == "--");
    let (own, tool_texts) = arguments.split_at(end.unwrap_or(arguments.len()));
    let mut words = vec![launch];
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
            words.push(quoted(&next_document(argument).unwrap_or_else(|| argument.clone())));
        }
        is_value = is_option;
    }
    let changed: Vec<String> =
        changes.iter().map(|(name, value)| format!("--{name}={value}")).collect();
    let is_same = changed.iter().all(|option| own.contains(option));
    words.extend(changed.iter().map(|option| quoted(option)));
    words.extend(tool_texts.iter().map(|argument| quoted(argument)));
    (!is_same).then(|| words.join(" "))
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
    use cluster::survey::busy::BusyNode;
    use cluster::survey::findings::{Findings, Unit};
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
        let all = "srun -N4 -n4 --nodelist=nid[000416-000419] --mpi=none cxidiag survey \
                   write-lat,write-bw --pairs=all";
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
    fn proposes_nothing_that_does_not_decide() {
        let mut verdict = good();
        verdict.populations[1].incomparable = true;
        assert_eq!(survey(verdict, Ok(())).next, None, "only a limit of the user judges it");
        let mut undecided = survey(suspect(), Ok(()));
        undecided.busy_nodes =
            vec![BusyNode { node: NodeId(1), slots: 4, busy_slots: 4, load: None }];
        assert_eq!(next(&undecided), None, "more pairs do not free CPUs");
        undecided.busy_nodes.clear();
        assert!(next(&undecided).is_some());
        undecided.roster.nics.truncate(1);
        assert_eq!(next(&undecided), None, "one NIC has no pair");
    }

    #[test]
    fn never_proposes_the_same_command() {
        let mut undecided = survey(suspect(), Ok(()));
        undecided.setup.pairs = "all".into();
        undecided.setup.pair_s = LONGEST_PAIR_S;
        assert_eq!(next(&undecided), None);
        undecided.roster.nodes[3].absent = Some("it did not join within 2min".into());
        undecided.setup.arguments = vec!["--pairs=all".into(), "--join=120s".into()];
        assert_eq!(next(&undecided), None);
        undecided.setup.arguments.pop();
        assert!(next(&undecided).is_some_and(|line| line.ends_with(" --join=120s")));
    }

    #[test]
    fn proposes_only_lines_of_launchers_that_are_known() {
        let mut undecided = survey(suspect(), Ok(()));
        for launcher in TASK_LAUNCHERS {
            undecided.setup.launcher = launcher.into();
            assert_eq!(next(&undecided), None, "{launcher}");
        }
        undecided.setup.launcher = "slurm".into();
        undecided.setup.arguments = vec!["-d".into(), "cxi0,cxi1".into()];
        let line = next(&undecided).expect("all nodes have these NICs");
        assert!(line.ends_with(" -d cxi0,cxi1 --pairs=all"), "{line}");
        undecided.roster.nics[3].device = "cxi7".into();
        assert_eq!(next(&undecided), None, "-d of the first task is not that of all");
        undecided.setup.arguments.clear();
        assert!(next(&undecided).is_some(), "each task finds its NICs");
        undecided.roster.nodes[3].host = "rank 3".into();
        assert_eq!(next(&undecided), None);
    }

    #[test]
    fn keeps_the_document_of_the_first_survey() {
        let mut undecided = survey(suspect(), Ok(()));
        undecided.setup.launcher = "loopback".into();
        undecided.setup.arguments =
            ["--loopback=8", "--json=dir/out.json"].map(str::to_owned).into();
        let line = "cxidiag survey --loopback=8 --json=dir/out-next.json --pairs=all";
        assert_eq!(next(&undecided).as_deref(), Some(line));
    }
}
