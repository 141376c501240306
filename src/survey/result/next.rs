//! What would decide what a survey has left undecided or untested.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::Survey;
use super::distribution::is_incomparable;
use super::document::Conclusion;
use super::progress::time;
use campaign::quiet::answer::Untested;
use campaign::quiet::findings::{Certainty, Statistic};
use campaign::quiet::roster::{NO_NIC, Node, NodeId, Roster};
use crew::host_list;
use crew::launcher::command_line::CONTEXT;
use facts::child::PROGRAM;
use facts::number::listed;

/// Most NICs of which all pairs are proposed: 2,016 pairs.
const MOST_NICS: usize = 64;

/// How many partners of each NIC are proposed of more NICs.
const MORE_PARTNERS: usize = 16;

/// How many times longer each pair is measured, and the longest time that is proposed, in seconds.
const LONGER: f64 = 4.0;
const LONGEST_PAIR_S: f64 = 2.0;

/// For how long each pair is measured, in seconds, after answers that did not come in a short slot.
const LATE_ANSWER_PAIR_S: f64 = 1.0;

/// The proposed time for processes that are missing.
const JOIN: &str = "120s";

/// Characters that need no quotes in a shell.
const PLAIN: &str = "-_=:,./@+%[]";

/// Most processes that are named, and the fewest CPUs that one of them has used.
const MOST_NAMES: usize = 3;
const LEAST_CPUS: f64 = 0.1;

/// Options that name a file, which another survey would write over.
const OUTPUTS: [&str; 5] = ["json", "jsonl", "csv", "ticket", "bad-nodes"];

/// Options that are dropped: a survey that is resumed must have the same options, and one that
/// measures more needs more time.
const DROPPED: [&str; 2] = ["resume", "time-limit"];

/// A change of an option.
struct OptionChange {
    name: &'static str,
    value: String,
    /// How many times as long the survey takes.
    factor: f64,
}

/// The command that would decide. `None` if nothing is undecided or untested, if the survey ended
/// early, if no command would decide, and if the line of the launcher is unknown.
pub fn next(survey: &Survey) -> Option<String> {
    command(survey, &missing(survey)?.ok()?)
}

/// Returns what people do about what is undecided or untested: a sentence, or the beginning of one
/// that ends with the command.
pub fn advice(survey: &Survey) -> Option<String> {
    match missing(survey)? {
        Ok(changes) => {
            survey.next.as_ref()?;
            let factor: f64 = changes.iter().map(|change| change.factor).product();
            let seconds = survey.elapsed_ms as f64 / 1000.0 * factor.max(1.0);
            let duration = Duration::try_from_secs_f64(seconds.max(1.0));
            let duration = duration.map(|duration| format!(" in about {}", time(duration)));
            Some(format!("Next: this command would decide{}", duration.unwrap_or_default()))
        }
        Err(sentence) => Some(sentence),
    }
}

/// Returns what people do about busy CPUs.
fn free_cpus(survey: &Survey) -> String {
    let nodes = &survey.busy_nodes;
    let used = nodes.iter().filter_map(|node| node.load.as_ref()).flat_map(|load| &load.most);
    let others = used.filter(|(name, cpus)| name != PROGRAM && *cpus >= LEAST_CPUS);
    let others: BTreeSet<String> = others.map(|(name, _)| name.clone()).collect();
    let others = match others.into_iter().collect::<Vec<_>>().as_slice() {
        [] => "other processes, or its own,".into(),
        names => listed(names, MOST_NAMES),
    };
    let place = match survey.setup.launcher.as_str() {
        "loopback" => "this machine".to_owned(),
        _ if nodes.is_empty() => "nodes".to_owned(),
        _ => host_list::compress(nodes.iter().map(|n| survey.roster.node(n.node).host.as_str())),
    };
    format!(
        "Next: {others} used CPUs of {place}: run it again when they have ended, or on fewer NICs \
         a node."
    )
}

/// The options that give the verdict what it lacks, or what else does; `None` if it lacks nothing,
/// or if nothing is known to decide.
fn missing(survey: &Survey) -> Option<Result<Vec<OptionChange>, String>> {
    let (verdict, roster) = (&survey.verdict, &survey.roster);
    let is_open = match survey.conclusion {
        Conclusion::Undecided => true,
        Conclusion::Good | Conclusion::Bad => !verdict.untested.is_empty(),
        Conclusion::Interrupted | Conclusion::Failed => false,
    };
    if !is_open || roster.nics.len() < 2 {
        return None;
    }
    let is_late = |node: &Node| node.absent.as_ref().is_some_and(|reason| reason != NO_NIC);
    let join = OptionChange { name: "join", value: JOIN.to_owned(), factor: 1.0 };
    let join = roster.nodes.iter().any(is_late).then_some(join);
    let mut causes = verdict.causes.iter();
    let has_suspects = causes.any(|cause| cause.certainty == Certainty::Suspect);
    let load = survey.load.as_ref();
    let load = load.filter(|load| verdict.untested.is_empty() && !load.is_complete());
    // More pairs free no CPUs.
    let are_cpus_busy = !survey.busy_nodes.is_empty()
        || verdict.untested.iter().any(|part| part.reason.is_from_busy_cpus())
        || verdict.populations.iter().any(|one| one.figure != Statistic::Median)
        || load.is_some_and(|load| !load.unmeasured.is_empty());
    let other = if !has_suspects && verdict.populations.iter().any(is_incomparable) {
        Some(
            "Next: some pairs have no others to compare with: run it again with the --expect that \
              they should meet."
                .to_owned(),
        )
    } else if load.is_some_and(|load| load.unjudged.is_some()) {
        Some("Next: run it again when no other job uses the fabric.".to_owned())
    } else {
        are_cpus_busy.then(|| free_cpus(survey))
    };
    let options = match (&join, other, load) {
        (_, None, None) => changes(survey),
        (None, Some(sentence), _) => return Some(Err(sentence)),
        _ => Vec::new(),
    };
    let options: Vec<OptionChange> = join.into_iter().chain(options).collect();
    (!options.is_empty()).then_some(Ok(options))
}

/// The options that change, with their new values; none if no option helps.
fn changes(survey: &Survey) -> Vec<OptionChange> {
    let (setup, verdict, roster) = (&survey.setup, &survey.verdict, &survey.roster);
    let nics = roster.nics.len();
    let change = |name, value, factor| vec![OptionChange { name, value, factor }];
    let pair_time =
        |pair_s| change("pair-time", format!("{:.0}ms", 1000.0 * pair_s), pair_s / setup.pair_s);
    let longer = (LONGER * setup.pair_s).min(LONGEST_PAIR_S);
    if verdict.untested.iter().any(|part| part.reason == Untested::ShortSlot) {
        return pair_time(longer.max(LATE_ANSWER_PAIR_S));
    }
    let has_all = verdict.widened || setup.pairs.split(',').any(|name| name == "all");
    if !has_all {
        let (pairs, partners) = more_pairs(roster);
        let planned = verdict.planned.max(1) as f64;
        change("pairs", pairs, (nics * partners * setup.tests.len()) as f64 / planned)
    } else if setup.nics_at_once {
        change("nics", "turn".to_owned(), nics as f64 / roster.nodes.len() as f64)
    } else if longer > setup.pair_s {
        pair_time(longer)
    } else {
        Vec::new()
    }
}

/// The pairs that show most about these NICs, and about how many partners each NIC has.
fn more_pairs(roster: &Roster) -> (String, usize) {
    if roster.nics.len() <= MOST_NICS {
        ("all".into(), roster.nics.len() - 1)
    } else if roster.nics.iter().any(|nic| nic.location.is_some()) {
        ("within-switch,switches,groups".into(), MORE_PARTNERS)
    } else {
        (format!("random:{MORE_PARTNERS}"), MORE_PARTNERS)
    }
}

/// The line that starts the processes again, on the same nodes; `None` if it is unknown.
fn line(survey: &Survey) -> Option<Vec<String>> {
    let Survey { setup, roster, .. } = survey;
    if setup.command_line.is_empty() || setup.launcher != "slurm" {
        return Some(setup.command_line.clone()).filter(|line| !line.is_empty());
    }
    let is_device = |argument: &String| argument.starts_with("-d") || argument.starts_with("--dev");
    let devices = |node: NodeId| -> Vec<&str> {
        let nics = roster.nics.iter().filter(|nic| nic.node == node);
        nics.map(|nic| nic.device.as_str()).collect()
    };
    let known = roster.node_ids().map(devices).filter(|devices| !devices.is_empty());
    let differ = known.collect::<BTreeSet<_>>().len() > 1;
    let hosts: BTreeSet<&str> = roster.hosts().collect();
    // A task that has not joined has no name of a host.
    let are_known = hosts.iter().all(|host| !host.starts_with("rank "));
    if setup.arguments.iter().any(is_device) && differ || !are_known {
        return None;
    }
    let (nodes, list) = (hosts.len(), host_list::compress(hosts.iter().copied()));
    let srun = format!("srun -N{nodes} -n{} --nodelist={list} --mpi=none", setup.processes);
    Some(srun.split(' ').map(str::to_owned).chain(setup.command_line.clone()).collect())
}

/// The argument for an output of the next survey, which does not replace the first one.
fn next_output(argument: &str) -> Option<String> {
    let (name, path) = argument.strip_prefix("--")?.split_once('=')?;
    let path = Path::new(Some(path).filter(|path| OUTPUTS.contains(&name) && *path != "-")?);
    let stem = path.file_stem()?.to_str()?;
    let end = path.extension().map_or(String::new(), |end| format!(".{}", end.display()));
    Some(format!("--{name}={}", path.with_file_name(format!("{stem}-next{end}")).display()))
}

/// The command of the survey with changed options; `None` if it is unknown, or has these options
/// already.
fn command(survey: &Survey, changes: &[OptionChange]) -> Option<String> {
    let line = line(survey)?;
    let option = |change: &OptionChange| format!("--{}={}", change.name, change.value);
    let options: Vec<String> = changes.iter().map(option).collect();
    let contexts = line.split(|word| word == CONTEXT);
    let contexts: Vec<Vec<String>> =
        contexts.map(|context| changed(context, changes, &options)).collect();
    let words = contexts.join(&CONTEXT.to_owned());
    let has_options = options.iter().all(|option| line.contains(option));
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    (!has_options).then(|| words.join(" "))
}

/// The words of a command with `options` in place of the options that `changes` names, and without
/// [`DROPPED`] ones.
fn changed(line: &[String], changes: &[OptionChange], options: &[String]) -> Vec<String> {
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    let mut words = Vec::new();
    let mut is_value = false;
    for word in &line[..end] {
        let option = word.strip_prefix("--").unwrap_or_default();
        let is_named = |name: &str| {
            DROPPED.contains(&name) || changes.iter().any(|change| change.name == name)
        };
        let has_value = option.split_once('=').is_some_and(|(name, _)| is_named(name));
        if !is_named(option) && !has_value && !is_value {
            words.push(next_output(word).unwrap_or_else(|| word.clone()));
        }
        is_value = is_named(option);
    }
    words.extend(options.iter().chain(&line[end..]).cloned());
    words
}

/// An argument as a shell reads it.
fn quoted(argument: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || PLAIN.contains(letter);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cause, good, mixed, mixed_load, survey};
    use super::*;
    use campaign::quiet::busy::{BusyNode, HostLoad};
    use campaign::quiet::findings::{Findings, UntestedPart};
    use campaign::quiet::roster::{NicId, Unit};

    /// Sets the line that has started the survey.
    fn start(survey: &mut Survey, launcher: &str, line: &[&str]) {
        survey.setup.launcher = launcher.into();
        survey.setup.command_line = line.iter().map(|word| (*word).to_owned()).collect();
    }

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
        let typed = ["/opt/cxidiag", "survey", "--pairs", "all", "--hosts=a b", "--", "--cpu=1"];
        start(&mut undecided, "hosts", &typed);
        undecided.setup.pairs = "all".into();
        let longer = "/opt/cxidiag survey --pairs all '--hosts=a b' --pair-time=400ms -- --cpu=1";
        assert_eq!(next(&undecided).as_deref(), Some(longer));
        undecided.setup.nics_at_once = true;
        assert!(next(&undecided).unwrap().contains(" --nics=turn -- "));
        undecided.setup.pairs = "random:4".into();
        let replaced = "/opt/cxidiag survey '--hosts=a b' --pairs=all -- --cpu=1";
        assert_eq!(next(&undecided).as_deref(), Some(replaced));
    }

    #[test]
    fn proposes_long_pairs_after_late_answers() {
        let mut verdict = good();
        verdict.untested = vec![UntestedPart {
            pairs: 1,
            ..UntestedPart::new(Unit::Nic(NicId(0)), Untested::ShortSlot)
        }];
        let next = survey(verdict, Ok(())).next.unwrap();
        assert!(next.ends_with(" --pair-time=1000ms"), "{next}");
    }

    #[test]
    fn bad_survey_with_untested_parts_has_a_next_command() {
        assert!(survey(mixed(), Ok(())).next.is_some());
    }

    #[test]
    fn says_what_is_missing_where_no_command_decides() {
        let mut verdict = good();
        verdict.populations[1].incomparable = true;
        let survey_of_few = survey(verdict, Ok(()));
        assert_eq!(survey_of_few.next, None, "only a limit of the user judges it");
        let words = advice(&survey_of_few).unwrap();
        assert!(words.contains("no others to compare with") && words.contains("--expect"));

        let undecided = survey(suspect(), Ok(()));
        let words = advice(&undecided).unwrap();
        assert_eq!(words, "Next: this command would decide in about 16 s");
        let busy = |most: &[(&str, f64)]| {
            let most = most.iter().map(|(name, cpus)| ((*name).to_owned(), *cpus)).collect();
            let load = Some(HostLoad { mean: 4.0, cpus: 2, most });
            let node = BusyNode { node: NodeId(1), slots: 4, busy_slots: 4, load };
            undecided.clone().beside(vec![node])
        };
        let beside = busy(&[("stress", 1.5), ("cxidiag", 0.5), ("sshd", 0.01)]);
        assert_eq!(beside.next, None, "more pairs do not free CPUs");
        assert_eq!(
            advice(&beside).unwrap(),
            "Next: stress used CPUs of nid000417: run it again when they have ended, or on fewer \
             NICs a node."
        );
        let alone = advice(&busy(&[("cxidiag", 2.0)])).unwrap();
        assert!(alone.contains("other processes, or its own, used CPUs of nid000417"), "{alone}");

        let mut loaded = survey(good(), Ok(()));
        loaded.conclusion = Conclusion::Undecided;
        loaded.load = Some(mixed_load());
        let load = loaded.load.as_mut().unwrap();
        (load.unjudged, load.unmeasured) = (Some("traffic of others".into()), Vec::new());
        assert_eq!(next(&loaded), None, "no quiet pair decides a load");
        assert!(advice(&loaded).unwrap().contains("no other job uses the fabric"));
        let load = loaded.load.as_mut().unwrap();
        (load.unjudged, load.unmeasured) = (None, vec!["incast:4".into()]);
        assert!(advice(&loaded).unwrap().contains("used CPUs of nodes"));

        let mut single = undecided.clone();
        single.roster.nics.truncate(1);
        assert_eq!((next(&single), advice(&single)), (None, None), "one NIC has no pair");
    }

    #[test]
    fn never_proposes_the_same_command() {
        let mut undecided = survey(suspect(), Ok(()));
        undecided.setup.pairs = "all".into();
        undecided.setup.pair_s = LONGEST_PAIR_S;
        assert_eq!((next(&undecided), advice(&undecided)), (None, None));
        undecided.roster.nodes[3].absent = Some("it did not join within 2min".into());
        start(&mut undecided, "slurm", &["cxidiag", "survey", "--pairs=all", "--join=120s"]);
        assert_eq!(next(&undecided), None);
        undecided.setup.command_line.pop();
        assert!(next(&undecided).is_some_and(|line| line.ends_with(" --join=120s")));
        undecided.roster.nodes[3].absent = Some(NO_NIC.into());
        assert_eq!(next(&undecided), None, "time brings no NIC");
    }

    #[test]
    fn proposes_only_lines_of_launchers_that_are_known() {
        let mut undecided = survey(suspect(), Ok(()));
        start(&mut undecided, "flux", &[]);
        assert_eq!((next(&undecided), undecided.clone().beside(Vec::new()).next), (None, None));
        let contexts = "mpirun -n 1 cxidiag survey -d soft0 --json=a.json : -n 1 cxidiag survey -d \
                        soft1 -- --cpu=1";
        start(&mut undecided, "openmpi", &contexts.split(' ').collect::<Vec<_>>());
        let line = "mpirun -n 1 cxidiag survey -d soft0 --json=a-next.json --pairs=all : -n 1 \
                    cxidiag survey -d soft1 --pairs=all -- --cpu=1";
        assert_eq!(next(&undecided).as_deref(), Some(line));

        undecided.setup.arguments = vec!["-d".into(), "cxi0,cxi1".into()];
        start(&mut undecided, "slurm", &["cxidiag", "survey", "-d", "cxi0,cxi1"]);
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
    fn keeps_the_outputs_of_the_first_survey() {
        let mut undecided = survey(suspect(), Ok(()));
        let typed = "cxidiag survey --loopback=8 --json=dir/out.json --csv=- --jsonl=a.jsonl \
                     --bad-nodes=bad --resume=a.jsonl --time-limit 5s";
        start(&mut undecided, "loopback", &typed.split(' ').collect::<Vec<_>>());
        let line = "cxidiag survey --loopback=8 --json=dir/out-next.json --csv=- \
                    --jsonl=a-next.jsonl --bad-nodes=bad-next --pairs=all";
        assert_eq!(next(&undecided).as_deref(), Some(line));
    }

    #[test]
    fn says_how_long_longer_pairs_take() {
        let mut undecided = survey(suspect(), Ok(()));
        (undecided.setup.pairs, undecided.elapsed_ms) = ("all".into(), 10_000);
        undecided.setup.pair_s = 0.05;
        undecided.next = next(&undecided);
        assert!(undecided.next.as_ref().is_some_and(|line| line.ends_with(" --pair-time=200ms")));
        let advice = advice(&undecided).expect("a sentence");
        assert!(advice.ends_with(" in about 40 s"), "{advice}");
    }
}
