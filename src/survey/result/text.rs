//! The text at the end of a survey: the verdict in one line, the causes with their evidence, the
//! parts that were not measured, the figures of all pairs, and what was found under load.

use std::collections::BTreeMap;
use std::time::Duration;

use super::next::advice;
use super::nics::bad_hosts;
use super::progress::time;
use super::summary::{pairs, tests_name};
use super::{Survey, distribution, load_text, why_text, words};
use campaign::quiet::busy::{BusyNode, HostLoad};
use campaign::quiet::findings::{Cause, Certainty, Outlier, UntestedPart};
use campaign::quiet::roster::{Nic, NodeId, Unit};
use crew::host_list::compress;
use crew::location::Class;
use cxi::address::virtual_function;
use facts::job;
use facts::number::listed;
use facts::severity::Severity;
use page::page::{Page, Words};

/// Most bad parts in the text.
const MOST_BAD: usize = 50;

/// Most suspect parts in the text, and most transient ones.
const MOST_OTHERS: usize = 10;

/// Most nodes with busy CPUs that have a line each.
const MOST_BUSY: usize = 3;

/// Most lines about what was not measured.
const MOST_UNTESTED: usize = 20;

/// Most sentences about a bad part.
const MOST_SENTENCES: usize = 3;

pub fn page(survey: &Survey) -> Page {
    // Programs take the verdict from the first line, however long the reason for a failure is.
    let mut page = Page::headline(&survey.summary, survey.exit_status);
    for line in [place(survey), measured(survey)] {
        page.paragraph(line, "  ");
    }
    if survey.is_software {
        page.line("software NICs: no Cassini hardware involved");
    }
    if let Some(line) = virtual_functions(survey) {
        page.paragraph(line, "  ");
    }
    if let Some(line) = shortfall(survey) {
        page.paragraph(line, "  ");
    }
    let bad = Words::verdict(Severity::Bad, "Bad");
    let suspect =
        Words::first(Severity::Suspect, "Suspect: outside the limits, not confirmed by retests");
    let transient = "Transient: outside the limits once, inside them in retests".into();
    for (title, certainty, most, sentences) in [
        (bad, Certainty::Bad, MOST_BAD, MOST_SENTENCES),
        (suspect, Certainty::Suspect, MOST_OTHERS, 1),
        (transient, Certainty::Transient, MOST_OTHERS, 1),
    ] {
        section(&mut page, survey, title, certainty, most, sentences);
    }
    why_text::add(&mut page, survey);
    let hosts = bad_hosts(survey);
    if !hosts.is_empty() && !survey.is_software {
        let advice = format!("Next: run 'cxidiag check' on {}.", compress(hosts));
        page.empty_line();
        page.paragraph(advice, "  ");
    }
    if let Some(advice) = advice(survey) {
        page.empty_line();
        page.paragraph(advice, "  ");
        page.lines(survey.next.iter().map(|command| format!("  {command}")));
    }
    outliers(&mut page, survey);
    busy(&mut page, survey);
    untested(&mut page, survey);
    distribution::add(&mut page, survey);
    distribution::worst_places(&mut page, survey);
    load_text::add(&mut page, survey);
    page
}

/// Returns what all pairs lack to published figures, which is no verdict on any of them.
fn shortfall(survey: &Survey) -> Option<String> {
    let found = survey.shortfall.as_ref()?;
    let test = &survey.setup.tests[found.test.index()];
    let median = words::figure(test, found.median);
    Some(format!(
        "Slower than {} expects: {}, {}: median {median} {}, expected {}. Pairs are judged by each \
         other; what all share may be slow: settings, kernel, BIOS, firmware (docs/layers.md).",
        found.profile,
        words::test(test),
        found.class.name(),
        words::figure_unit(test),
        found.expectation,
    ))
}

/// Returns where and how long the survey has measured.
pub(super) fn place(survey: &Survey) -> String {
    let roster = &survey.roster;
    let nodes = words::counted(roster.nodes.len() as u64, "node");
    let nics = words::counted(roster.nics.len() as u64, "NIC");
    let pairs = pairs(&survey.verdict);
    let by = match &survey.setup.job {
        Some(batch_job) => {
            let step =
                batch_job.step.as_deref().map_or(String::new(), |step| format!(" step {step}"));
            format!("{} job {}{step}", job::label(&batch_job.manager), batch_job.id)
        }
        None => survey.setup.launcher.clone(),
    };
    let took = match survey.elapsed_ms {
        ms @ ..100_000 => format!("{:.1} s", ms as f64 / 1000.0),
        ms => time(Duration::from_millis(ms)),
    };
    format!("{nodes}, {nics} ({by}): {pairs} in {took}")
}

pub(super) fn measured(survey: &Survey) -> String {
    let tests: Vec<String> = survey.setup.tests.iter().map(words::test).collect();
    let pairs = &survey.setup.pairs;
    let seed = if pairs.contains("random") {
        format!(" (seed {})", survey.setup.seed)
    } else {
        String::new()
    };
    let widened = if survey.verdict.widened { ", then all" } else { "" };
    format!("{}; pairs {pairs}{seed}{widened}", tests.join(", "))
}

/// Adds the causes with this certainty.
fn section(
    page: &mut Page,
    survey: &Survey,
    title: Words,
    certainty: Certainty,
    most: usize,
    sentences: usize,
) {
    let listed = survey.verdict.causes.iter().filter(|cause| cause.certainty == certainty);
    let listed: Vec<&Cause> = listed.collect();
    if listed.is_empty() {
        return;
    }
    page.empty_line();
    page.line(title);
    for cause in listed.iter().take(most) {
        let name = words::unit(&survey.roster, &cause.unit);
        let all = words::evidence_sentences(survey, cause);
        let mut shown = all.iter().take(sentences);
        let first = shown.next().map_or(String::new(), |text| format!(": {text}"));
        page.paragraph(format!("{name}{first}"), "    ");
        for further in shown {
            page.indented(further, "  ");
        }
    }
    page.and_more(listed.len(), most);
}

/// Adds which NICs are slower than the others of their class by more than half of the limit, if all
/// pairs of the class pass as many links. The documents have all of them.
fn outliers(page: &mut Page, survey: &Survey) {
    let verdict = &survey.verdict;
    let is_shown = |outlier: &&Outlier| {
        let mut populations = verdict.populations.iter();
        let own = populations.find(|one| (one.test, one.class) == (outlier.test, outlier.class));
        let limit = own.and_then(|one| Some((one.limit? / one.median()).ln().abs()));
        let has_equal_hops = !matches!(outlier.class, Class::Group | Class::Fabric);
        has_equal_hops && limit.is_some_and(|limit| outlier.ratio.ln() > limit / 2.0)
    };
    let outliers: Vec<&Outlier> = verdict.outliers.iter().filter(is_shown).collect();
    if outliers.is_empty() {
        return;
    }
    page.line("\nSlower than others, within the limits");
    for outlier in outliers.iter().take(MOST_OTHERS) {
        let test = &survey.setup.tests[outlier.test.index()];
        let text = format!(
            "{}: {:.2} times the {} of good pairs, {}",
            survey.roster.name(outlier.nic),
            if test.of_bandwidth { 1.0 / outlier.ratio } else { outlier.ratio },
            if test.of_bandwidth { "bandwidth" } else { "latency" },
            words::test(test),
        );
        page.paragraph(text, "    ");
    }
    page.and_more(outliers.len(), MOST_OTHERS);
}

/// Adds which nodes had busy CPUs. The nodes of `--loopback` are this machine.
fn busy(page: &mut Page, survey: &Survey) {
    let nodes = &survey.busy_nodes;
    let is_here = survey.setup.launcher == "loopback";
    if nodes.is_empty() {
        return;
    }
    page.line("\nBusy CPUs: latencies are upper bounds, bandwidths lower ones");
    if !is_here && nodes.len() > MOST_BUSY {
        return page.paragraph(busy_together(survey), "    ");
    }
    let shown = if is_here { 1 } else { MOST_BUSY };
    for node in nodes.iter().take(shown) {
        let name = if is_here {
            "this machine".into()
        } else {
            words::name(&survey.roster, &Unit::Node(node.node))
        };
        let BusyNode { slots, busy_slots, .. } = node;
        let load = node.load.as_ref().map_or(String::new(), load_text);
        let text = format!("{name}: waited for CPUs in {busy_slots} of {slots} slots{load}");
        page.paragraph(text, "    ");
    }
}

/// One line about many nodes with busy CPUs.
fn busy_together(survey: &Survey) -> String {
    let nodes = &survey.busy_nodes;
    let hosts = nodes.iter().map(|node| survey.roster.node(node.node).host.as_str());
    let sum = |count: fn(&BusyNode) -> u32| nodes.iter().map(count).map(u64::from).sum::<u64>();
    let (busy, all) = (sum(|node| node.busy_slots), sum(|node| node.slots));
    let loads = nodes.iter().filter_map(|node| node.load.as_ref());
    let most = loads.max_by(|one, other| one.mean.total_cmp(&other.mean));
    let most = most.map_or(String::new(), |load| format!("; at most{}", &load_text(load)[1..]));
    let hosts = compress(hosts);
    format!("{hosts}: waited for CPUs in {busy} of {all} slots{most}")
}

/// Returns how many NICs are virtual functions, which share the link of their NIC; `None` without
/// any.
fn virtual_functions(survey: &Survey) -> Option<String> {
    let nics = &survey.roster.nics;
    let is_virtual = |nic: &&Nic| nic.nid.and_then(virtual_function).is_some();
    let count = nics.iter().filter(is_virtual).count();
    (count > 0).then(|| {
        let all = words::counted(nics.len() as u64, "NIC");
        format!("virtual functions: {count} of {all}, which share the links of their NICs")
    })
}

/// Returns what used the CPUs of a host, as the end of a line.
fn load_text(load: &HostLoad) -> String {
    let cpus = words::counted(load.cpus.into(), "CPU");
    let most = load.most.iter();
    let most: Vec<String> = most.map(|(name, used)| format!("{name} {used:.1}")).collect();
    let most = match most.as_slice() {
        [] => String::new(),
        most => format!(" (CPUs used: {})", most.join(", ")),
    };
    format!("; load {:.1} on {cpus}{most}", load.mean)
}

/// Parts of one kind that were not measured, or not judged, for one reason.
pub struct UntestedGroup {
    /// Their names, or how many they are.
    pub names: String,
    /// The figures that were not judged; empty if the parts were not measured.
    pub tests: String,
    /// Why they were not measured or not judged.
    pub reason: String,
    /// Number of pairs that were left out.
    pub pairs: u64,
}

/// Returns what was not measured or not judged: parts of one kind with one reason are a group, and
/// so are NICs that the same tests do not judge.
pub fn untested_groups(survey: &Survey) -> Vec<UntestedGroup> {
    let mut positions = BTreeMap::new();
    let mut groups: Vec<Vec<&UntestedPart>> = Vec::new();
    let untested = &survey.verdict.untested;
    let is_nic = |part: &UntestedPart| matches!(part.unit, Unit::Nic(_));
    let has_same_reason = |part: &UntestedPart| part.reason == untested[0].reason;
    let are_all_nics = untested.len() == survey.roster.nics.len()
        && untested.iter().all(|part| is_nic(part) && has_same_reason(part));
    for untested_part in untested {
        let UntestedPart { tests, reason, .. } = untested_part;
        let kind = match untested_part.unit {
            Unit::Nic(_) if are_all_nics || !tests.is_empty() => "",
            Unit::Nic(nic) => &survey.roster.nic(nic).device,
            ref unit => words::kind(unit),
        };
        let position = *positions.entry((kind, tests, reason)).or_insert(groups.len());
        match groups.get_mut(position) {
            Some(group) => group.push(untested_part),
            None => groups.push(vec![untested_part]),
        }
    }
    let group = |parts: &Vec<&UntestedPart>| UntestedGroup {
        names: names(survey, parts),
        tests: tests_name(survey, &parts[0].tests),
        reason: parts[0].reason.to_string(),
        pairs: parts.iter().map(|part| part.pairs).sum(),
    };
    groups.iter().map(group).collect()
}

/// Adds what was not measured, and what was not judged.
fn untested(page: &mut Page, survey: &Survey) {
    let (unmeasured, unjudged): (Vec<_>, Vec<_>) =
        untested_groups(survey).into_iter().partition(|group| group.tests.is_empty());
    for (title, groups) in [("\nUntested", unmeasured), ("\nNot judged", unjudged)] {
        if !groups.is_empty() {
            page.line(title);
        }
        for UntestedGroup { names, tests, reason, pairs } in groups.iter().take(MOST_UNTESTED) {
            let tests = if tests.is_empty() { String::new() } else { format!("{tests} of ") };
            // The pairs of a process that never joined were not even planned.
            let pairs = match *pairs {
                0 => String::new(),
                count => format!(" ({})", words::counted(count, "pair")),
            };
            page.paragraph(format!("{tests}{names}: {reason}{pairs}"), "    ");
        }
        page.and_more(groups.len(), MOST_UNTESTED);
    }
}

/// The names of parts of one kind, and of NICs with one device name.
fn names(survey: &Survey, parts: &[&UntestedPart]) -> String {
    let roster = &survey.roster;
    let host = |node: NodeId| roster.node(node).host.as_str();
    let hosts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part.unit {
            Unit::Node(node) => Some(host(node)),
            Unit::Nic(nic) => Some(host(roster.nic(nic).node)),
            _ => None,
        })
        .collect();
    match (&parts[0].unit, parts) {
        (Unit::Node(_), _) => compress(hosts),
        (Unit::Nic(_), _) if parts.len() == roster.nics.len() => "all NICs".to_owned(),
        (Unit::Nic(_), _) if !parts[0].tests.is_empty() => {
            let names: Vec<String> =
                parts.iter().map(|part| words::name(roster, &part.unit)).collect();
            listed(&names, MOST_OTHERS)
        }
        (Unit::Nic(nic), _) => {
            let device = &roster.nic(*nic).device;
            format!("{} {device}", compress(hosts))
        }
        (unit, [_]) => words::unit(roster, unit),
        (unit, _) => words::counted(parts.len() as u64, words::kind(unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cause, good, mixed, survey};
    use super::*;
    use campaign::quiet::findings::{Aggregate, Findings, Statistic};
    use campaign::quiet::roster::{NicId, Pair, TestId};
    use facts::error::Failure;
    use page::table::TextStyle;

    fn text(verdict: Findings) -> String {
        page(&survey(verdict, Ok(()))).text(TextStyle::Plain)
    }

    #[test]
    fn shows_good_survey() {
        let expected = "\
good: 8 NICs (small writes within 1.30, bandwidth 1.30)
4 nodes, 8 NICs (Slurm job 1234 step 0): 84 pairs in 12.3 s
write-lat 8, write-bw 1M; pairs random:3 (seed 7)

Test (us)    Class        Pairs   Min  Median   p99   Max  Limit  Outside
write-lat 8  same switch     24  1.80    1.90  2.01  2.10   2.47        0
write-lat 8  same group      24  1.80    1.90  2.01  2.10   2.47        0

Test (GB/s)  Class        Pairs    Max  Median     p1    Min  Limit  Outside
write-bw 1M  same switch     24  21.00   19.00  18.10  18.00  17.67        0
write-lat 8 would have found a NIC 1.30 times as slow as good ones.
write-bw 1M would have found a NIC 1.30 times as slow as good ones.
";
        assert_eq!(text(good()), expected);
    }

    #[test]
    fn names_outliers_within_the_limits() {
        let outlier = |test, ratio| Outlier {
            nic: NicId(3),
            test: TestId(test),
            class: Class::Switch,
            ratio,
            score: 6.13,
        };
        let far = Outlier { class: Class::Group, ..outlier(0, 1.25) };
        let outliers = vec![outlier(0, 1.05), outlier(0, 1.2), outlier(1, 1.05), far];
        let verdict = Findings { outliers, ..good() };
        let expected = "
Slower than others, within the limits
nid000417 cxi1: 1.20 times the latency of good pairs, write-lat 8
nid000417 cxi1: 0.95 times the bandwidth of good pairs, write-bw 1M
";
        let text = text(verdict);
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.matches("of good pairs").count(), 2, "{text}");
    }

    #[test]
    fn names_busy_nodes_with_their_load() {
        let mut survey = survey(good(), Ok(()));
        let busy = |node, load| BusyNode { node: NodeId(node), slots: 14, busy_slots: 13, load };
        let load = HostLoad {
            mean: 4.04,
            cpus: 2,
            most: vec![("stress-ng".into(), 1.9), ("python3".into(), 0.1)],
        };
        survey.busy_nodes = vec![busy(1, Some(load)), busy(2, None)];
        let text = |survey: &Survey| page(survey).text(TextStyle::Plain);
        let expected = "
Busy CPUs: latencies are upper bounds, bandwidths lower ones
nid000417: waited for CPUs in 13 of 14 slots; load 4.0 on 2 CPUs (CPUs used:
    stress-ng 1.9, python3 0.1)
nid000418: waited for CPUs in 13 of 14 slots

";
        assert!(text(&survey).contains(expected), "{}", text(&survey));
        let busiest = survey.busy_nodes[0].clone();
        survey.busy_nodes =
            (0..4).map(|node| BusyNode { node: NodeId(node), ..busiest.clone() }).collect();
        let together = "
nid[000416-000419]: waited for CPUs in 52 of 56 slots; at most load 4.0 on 2
    CPUs (CPUs used: stress-ng 1.9, python3 0.1)
";
        assert!(text(&survey).contains(together), "{}", text(&survey));
        survey.setup.launcher = "loopback".into();
        assert_eq!(text(&survey).matches("this machine: waited").count(), 1);
    }

    #[test]
    fn says_which_figures_are_judged_on_busy_cpus() {
        let judged = |figures: [Statistic; 2]| {
            let mut verdict = good();
            for (population, figure) in verdict.populations.iter_mut().zip(figures) {
                population.figure = figure;
            }
            let text = text(verdict);
            text.find("Busy CPUs").map(|start| text[start..].to_owned())
        };
        assert_eq!(judged([Statistic::Median; 2]), None);
        let minima = "Busy CPUs: latencies are judged by their minima, which the limit is for.\n";
        assert_eq!(judged([Statistic::Min; 2]).unwrap(), minima);
        let both = "\
Busy CPUs: latencies are judged by 5th percentiles (write-lat 8 same group) or
    minima (write-lat 8 same switch), which the limit is for.
";
        assert_eq!(judged([Statistic::Min, Statistic::P5]).unwrap(), both);
    }

    #[test]
    fn shows_causes_first() {
        let expected = "\
bad: nid000417 cxi1 (latency, bandwidth); nid000418 cxi1 not measured
4 nodes, 8 NICs (Slurm job 1234 step 0): 66 of 84 pairs in 12.3 s
write-lat 8, write-bw 1M; pairs random:3 (seed 7)

Bad
nid000417 cxi1: writes 3.90 us to 6 of 6 partners at its switch, median of its
    class 1.90; 1,204 retries, 42 cycles the switch held off this NIC
  writes 9.50 GB/s to 6 of 6 partners, median of its class 19.00

Suspect: outside the limits, not confirmed by retests
nid000418 cxi0 to nid000419 cxi0: writes in 6 of 6 measurements fail: the NIC
    reported PT_DISABLED

Transient: outside the limits once, inside them in retests
nid000416 cxi0: writes 3.90 us to 6 of 6 partners at its switch, median of its
    class 1.90

Next: run 'cxidiag check' on nid000417.

Next: this command would decide in about 16 s
  srun -N4 -n4 --nodelist=nid[000416-000419] --mpi=none cxidiag survey write-lat,write-bw --pairs=all

Untested
nid000419: no answer within 30 s (12 pairs)
nid000418 cxi1: cannot open cxi1: no such device (6 pairs)

Test (us)    Class        Pairs   Min  Median   p99   Max  Limit  Expect  Outside
write-lat 8  same switch     24  1.80    1.90  2.01  2.10   2.47    2.50        6
write-lat 8  same group      24  1.80    1.90  2.01  2.10      -       -        0

Test (GB/s)  Class        Pairs    Max  Median     p1    Min  Limit  Outside
write-bw 1M  same switch     24  21.00   19.00  18.10  18.00  17.67        0
A class whose pairs differ too much has no limit; --expect sets an absolute one.
write-lat 8 would have found a NIC 1.30 times as slow as good ones.
write-bw 1M would have found a NIC 1.30 times as slow as good ones.

Most pairs outside      Test              Pairs  Median  Worst  Outside
switch 003.12 (4 NICs)  write-lat 8 (us)     20    1.90   3.95        6
";
        let text = text(mixed());
        assert_eq!(text, expected);
        let is_command = |line: &str| line.starts_with("  srun ");
        let mut lines = text.lines().filter(|line| !is_command(line));
        assert!(lines.all(|line| line.len() <= 81), "{text}");
    }

    #[test]
    fn shows_seed_of_random_pairs_and_long_times_in_minutes() {
        let mut survey = survey(good(), Ok(()));
        assert_eq!(measured(&survey), "write-lat 8, write-bw 1M; pairs random:3 (seed 7)");
        survey.setup.pairs = "all".into();
        assert_eq!(measured(&survey), "write-lat 8, write-bw 1M; pairs all");
        survey.elapsed_ms = 100_000;
        assert!(place(&survey).ends_with(" in 1 min 40 s"));
    }

    #[test]
    fn has_the_verdict_in_one_line() {
        let failure = Failure::environment(format!("cannot write /{}", "long ".repeat(20)));
        let survey = survey(good(), Err(&failure));
        let text = page(&survey).text(TextStyle::Plain);
        assert_eq!(text.lines().next(), Some(survey.summary.as_str()));
    }

    #[test]
    fn shows_failed_pairs_of_a_class() {
        let mut verdict = good();
        verdict.populations[0].failed = 2;
        let expected = "
Test (us)    Class        Pairs   Min  Median   p99   Max  Limit  Outside  Failed
write-lat 8  same switch     24  1.80    1.90  2.01  2.10   2.47        0       2
";
        let text = text(verdict);
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn combines_parts_with_one_reason() {
        let path = |initiator, target| {
            Unit::Path(Pair { initiator: NicId(initiator), target: NicId(target) })
        };
        let untested =
            |unit, reason: &str| UntestedPart { pairs: 2, ..UntestedPart::new(unit, reason) };
        let verdict = Findings {
            untested: vec![
                untested(Unit::Node(NodeId(2)), "absent"),
                untested(path(0, 2), "late"),
                untested(Unit::Nic(NicId(1)), "closed"),
                untested(Unit::Node(NodeId(3)), "absent"),
                untested(Unit::Nic(NicId(3)), "closed"),
                untested(Unit::Nic(NicId(4)), "closed"),
                untested(path(0, 4), "late"),
                untested(path(0, 6), "lost"),
            ],
            ..good()
        };
        let expected = "
Untested
nid[000418-000419]: absent (4 pairs)
2 paths: late (4 pairs)
nid[000416-000417] cxi1: closed (4 pairs)
nid000418 cxi0: closed (2 pairs)
nid000416 cxi0 to nid000419 cxi0: lost (2 pairs)

Test";
        let some = text(verdict);
        assert!(some.contains(expected), "{some}");
        let all = Findings {
            untested: (0..8).map(|nic| untested(Unit::Nic(NicId(nic)), "closed")).collect(),
            ..good()
        };
        let all = text(all);
        assert!(all.contains("\nUntested\nall NICs: closed (16 pairs)\n"), "{all}");
    }

    #[test]
    fn shows_the_places_with_the_largest_shares_outside() {
        let place = |group, count, outside| Aggregate {
            test: TestId(0),
            unit: Unit::Group(group),
            count,
            median: 1900.0,
            worst: 2000.0,
            outside,
        };
        let mut verdict = good();
        verdict.aggregates = (10..16).map(|group| place(group, 10, 1)).collect();
        verdict.aggregates.push(place(3, 100, 11));
        let text = text(verdict);
        let (_, table) = text.split_once("\nMost pairs outside").unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].starts_with("group 003 (8 NICs)  write-lat 8 (us)    100"), "{text}");
        assert_eq!((lines.len(), lines[6]), (7, "and 2 more"), "{text}");
    }

    #[test]
    fn explains_why_a_class_has_no_limit() {
        let mut verdict = good();
        verdict.populations[0].limit = None;
        let large = "A class whose pairs differ too much has no limit;";
        let small = "A class with fewer than 8 pairs has no limit;";
        let both = text(verdict.clone());
        assert!(both.contains(large) && !both.contains(small), "{both}");
        verdict.populations[0].count = 7;
        let both = text(verdict.clone());
        assert!(!both.contains(large) && both.contains(small), "{both}");
        verdict.populations[0].count = 9;
        verdict.populations[0].unjudged = 2;
        let waited = text(verdict.clone());
        let why = "A class whose processes waited for their CPUs is not judged.";
        assert!(waited.contains(why) && !waited.contains(large), "{waited}");
        verdict.populations[0].expected = Some(2500.0);
        assert!(!text(verdict).contains("has no limit"));
    }

    #[test]
    fn limits_the_number_of_lines() {
        let suspects = (0..8).cycle().take(23);
        let verdict = Findings {
            causes: suspects.map(|nic| cause(Unit::Nic(NicId(nic)), Certainty::Suspect)).collect(),
            ..good()
        };
        let text = text(verdict);
        assert_eq!(text.matches("writes 3.90 us").count(), MOST_OTHERS);
        assert!(text.contains("\nand 13 more\n"), "{text}");
    }
}
