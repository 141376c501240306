//! The parts of a cluster, tests, figures and the evidence against a part, in words.

use super::Survey;
use campaign::quiet::answer::{Answer, PairResult};
use campaign::quiet::findings::{
    Cause, Direction, Evidence, LimitSource, Population, Test, members,
};
use campaign::quiet::roster::{Pair, Roster, Unit};
use crew::location::Class;
use facts::groups::by_key;
use node::nic::counter_table::{CounterRow, Preset};

pub use facts::number::{counted, grouped};

/// The name of a part, with the number of its NICs: `switch 003.12 (16 NICs)`.
pub fn unit(roster: &Roster, unit: &Unit) -> String {
    let name = name(roster, unit);
    match (unit, members(roster, unit).len()) {
        (Unit::Nic(_) | Unit::GroupPair(..) | Unit::Path(_), _) | (_, 0) => name,
        (_, count) => format!("{name} ({})", counted(count as u64, "NIC")),
    }
}

/// The name of a part: `nid000417 cxi1`, `switch 003.12`.
pub fn name(roster: &Roster, unit: &Unit) -> String {
    match *unit {
        Unit::Nic(nic) => roster.name(nic),
        Unit::Node(node) => roster.node(node).host.clone(),
        Unit::Switch { group, switch } => format!("switch {group:03}.{switch:02}"),
        Unit::Group(group) => format!("group {group:03}"),
        Unit::GroupPair(one, other) => format!("links between groups {one:03} and {other:03}"),
        Unit::Path(pair) => path(roster, pair),
    }
}

/// The name of a pair of NICs, in its direction.
pub fn path(roster: &Roster, pair: Pair) -> String {
    let [initiator, target] = pair.nics().map(|nic| roster.name(nic));
    if pair.is_loopback() {
        format!("{initiator} with itself")
    } else {
        format!("{initiator} to {target}")
    }
}

/// The noun for a kind of part.
pub fn kind(unit: &Unit) -> &'static str {
    match unit {
        Unit::Nic(_) => "NIC",
        Unit::Node(_) => "node",
        Unit::Switch { .. } => "switch",
        Unit::Group(_) => "group",
        Unit::GroupPair(..) => "pair of groups",
        Unit::Path(_) => "path",
    }
}

/// A size as users type it: `8`, `64K`, `1M`.
pub fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// The name of a test: `write-lat 8`.
pub fn test(test: &Test) -> String {
    format!("{} {}", test.tool, size(test.size_bytes))
}

/// The unit of the figures of a test in texts.
pub fn figure_unit(test: &Test) -> &'static str {
    if test.of_bandwidth { "GB/s" } else { "us" }
}

/// A figure of a test, without its unit.
pub fn figure(test: &Test, value: f64) -> String {
    if test.of_bandwidth {
        let decimals = if value < 1e9 { 3 } else { 2 };
        format!("{:.decimals$}", value / 1e9)
    } else {
        let decimals = if value < 10.0 { 3 } else { 2 };
        format!("{:.decimals$}", value / 1e3)
    }
}

/// A figure of a test with its unit: latencies of a millisecond or more in ms or s.
fn scaled_figure(test: &Test, value: f64) -> (String, &'static str) {
    if test.of_bandwidth || value < 1e6 {
        return (figure(test, value), figure_unit(test));
    }
    let (scale, unit) = if value < 1e9 { (1e6, "ms") } else { (1e9, "s") };
    (format!("{:.2}", value / scale), unit)
}

/// The answer of a pair: `3.90 us`, `failed`.
pub fn answer(tests: &[Test], result: &PairResult) -> String {
    let test = &tests[result.test.index()];
    match &result.answer {
        Answer::Measured(figures) => {
            format!("{} {}", figure(test, figures.value()), figure_unit(test))
        }
        Answer::Failed(_) => "failed".into(),
        Answer::Untested(_) => "not measured".into(),
    }
}

/// Counters that a sentence names.
const NAMED_COUNTERS: usize = 3;

/// Short names of counters that administrators know.
const SHORT: [(&str, &str); 6] = [
    ("pct_retry_srb_requests", "retries"),
    ("pct_spt_timeouts", "timeouts"),
    ("hni_pcs_uncorrected_cw", "uncorrected code words"),
    ("ixe_tc_req_ecn_pkts", "congestion marks in requests"),
    ("ixe_tc_rsp_ecn_pkts", "congestion marks in responses"),
    ("oxe_stall_fgfc_blk", "cycles held back by the flow control of the fabric"),
];

/// The sentences of the evidence against a cause, one for each test and class, the strongest first.
/// The first one names the counters as well.
pub fn evidence_sentences(survey: &Survey, cause: &Cause) -> Vec<String> {
    let mut sentences: Vec<String> =
        cause.evidence.iter().map(|evidence| sentence(survey, cause, evidence)).collect();
    let counters = counters(cause);
    match sentences.first_mut() {
        Some(first) if !counters.is_empty() => {
            first.push_str("; ");
            first.push_str(&counters);
        }
        Some(_) => {}
        None => sentences.push(counters),
    }
    sentences
}

/// Returns what a test says: `writes 3.90 us to 31 of 31 partners, median of its class 1.90`.
fn sentence(survey: &Survey, cause: &Cause, evidence: &Evidence) -> String {
    let test = &survey.setup.tests[evidence.test.index()];
    let pairs = pairs(survey, cause, evidence);
    let operations = operations(survey, test);
    let failure = evidence.failure.as_deref();
    match evidence.source {
        LimitSource::LinkErrors => {
            return format!("packets were damaged on its link during {operations}{pairs}");
        }
        LimitSource::Losses => return format!("packets were lost during {operations}{pairs}"),
        LimitSource::Tail => {
            return format!("the slowest {operations}{pairs} take far longer than in other pairs");
        }
        _ => {}
    }
    let Some(value) = evidence.value else {
        let why = failure.map_or(String::new(), |why| format!(": {why}"));
        return format!("{operations}{pairs} fail{why}");
    };
    if let Some(retries) = evidence.retries {
        let usual = evidence.usual_retries.unwrap_or(0.0);
        let [retries, usual] = [retries, usual].map(|value| grouped(value.round() as u64));
        return format!(
            "{operations}{pairs} need {retries} retries each, median of its class {usual}"
        );
    }
    let (number, unit) = scaled_figure(test, value);
    let mut text = format!("{operations} {number} {unit}{pairs}");
    // The unit is named again where it is another one.
    let beside = |value: f64| match scaled_figure(test, value) {
        (number, own) if own == unit => number,
        (number, own) => format!("{number} {own}"),
    };
    if let (LimitSource::Expect, Some(limit)) = (evidence.source, evidence.limit) {
        let bound = if test.of_bandwidth { "at least" } else { "at most" };
        text += &format!(", expected {bound} {}", beside(limit));
    }
    if let Some(median) = evidence.median {
        text += &format!(", median of its class {}", beside(median));
    }
    if let Some(why) = failure {
        text += &format!("; some fail: {why}");
    }
    text
}

/// The operations of a tool, with their size if there are several.
fn operations(survey: &Survey, test: &Test) -> String {
    let noun = match test.tool.split('-').next() {
        Some("write") => "writes",
        Some("read") => "reads",
        Some("atomic") => "atomics",
        Some("send") => "sends",
        _ => "operations",
    };
    let is_of_tool = |candidate: &&Test| candidate.tool == test.tool;
    if survey.setup.tests.iter().filter(is_of_tool).count() > 1 {
        format!("{noun} of {}", counted(test.size_bytes, "byte"))
    } else {
        noun.to_owned()
    }
}

/// Returns which pairs of a cause are outside the limit, with a space before.
fn pairs(survey: &Survey, cause: &Cause, evidence: &Evidence) -> String {
    let [outside, measured] =
        [evidence.outside, evidence.measured].map(|number| grouped(number.into()));
    let share = format!("{outside} of {measured}");
    let test = &survey.setup.tests[evidence.test.index()];
    let is_read = test.tool.starts_with("read");
    match (&cause.unit, evidence.class) {
        (Unit::Path(_), _) if evidence.measured < 2 => String::new(),
        (Unit::Path(_), _) => format!(" in {share} measurements"),
        (Unit::Nic(_), Class::Loopback) => " in loopback".into(),
        (Unit::Nic(_), class) => {
            // In one role a NIC has a pair with each partner, in both roles it can have two.
            let (with, others) = match (cause.direction, is_read) {
                (Direction::Initiator, false) => ("to", "partners"),
                (Direction::Target, false) => ("from", "partners"),
                (Direction::Initiator, true) => ("from", "partners"),
                (Direction::Target, true) => ("by", "partners"),
                (Direction::Both, _) => ("in", "pairs"),
            };
            let is_of_test = |population: &&Population| population.test == evidence.test;
            let has_classes = survey.verdict.populations.iter().filter(is_of_test).count() > 1;
            let place = if has_classes { place(class) } else { "" };
            format!(" {with} {share} {others}{place}")
        }
        (Unit::GroupPair(one, other), _) => {
            let way = match cause.direction {
                Direction::Initiator => format!(" from group {one:03} to {other:03}"),
                Direction::Target => format!(" from group {other:03} to {one:03}"),
                Direction::Both => String::new(),
            };
            format!(" in {share} pairs{way}")
        }
        _ => {
            let role = match cause.direction {
                Direction::Initiator => " as initiator",
                Direction::Target => " as target",
                Direction::Both => "",
            };
            format!(" in {share} pairs{role}")
        }
    }
}

/// Returns where the partners of a class are, with a space before.
fn place(class: Class) -> &'static str {
    match class {
        Class::Loopback | Class::Unknown => "",
        Class::Node => " in its node",
        Class::Switch => " at its switch",
        Class::Group => " in its group",
        Class::Fabric => " in other groups",
    }
}

/// The counters that support a cause: `1,204 retries, 3 timeouts`.
fn counters(cause: &Cause) -> String {
    let changes = cause.counters.iter().map(|found| (meaning(&found.counter), found.change));
    let sums = by_key(changes).into_iter().take(NAMED_COUNTERS).map(|(meaning, changes)| {
        format!("{} {meaning}", grouped(changes.into_iter().fold(0, u64::saturating_add)))
    });
    sums.collect::<Vec<_>>().join(", ")
}

/// Returns what a counter counts, for a text that begins with the number.
fn meaning(counter: &str) -> String {
    if let Some((_, short)) = SHORT.iter().find(|(name, _)| *name == counter) {
        return (*short).to_owned();
    }
    let is_of = |row: &&CounterRow| row.names().any(|name| name == counter);
    match Preset::All.rows().find(is_of) {
        Some(row) => {
            let meaning = row.meaning.split(';').next().unwrap_or(row.meaning);
            format!("{} {meaning}", row.unit)
        }
        None => counter.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cause, evidence, good, roster, survey};
    use super::*;
    use campaign::quiet::answer::CounterEvidence;
    use campaign::quiet::findings::Certainty;
    use campaign::quiet::roster::{NicId, NodeId, TestId};

    #[test]
    fn names_parts() {
        let pair = |initiator, target| {
            Unit::Path(Pair { initiator: NicId(initiator), target: NicId(target) })
        };
        let switch = Unit::Switch { group: 3, switch: 13 };
        for (part, text) in [
            (Unit::Nic(NicId(3)), "nid000417 cxi1"),
            (Unit::Node(NodeId(1)), "nid000417 (2 NICs)"),
            (switch, "switch 003.13 (4 NICs)"),
            (Unit::Group(3), "group 003 (8 NICs)"),
            (Unit::GroupPair(3, 12), "links between groups 003 and 012"),
            (pair(0, 7), "nid000416 cxi0 to nid000419 cxi1"),
            (pair(2, 2), "nid000417 cxi0 with itself"),
        ] {
            assert_eq!(unit(&roster(), &part), text);
        }
    }

    #[test]
    fn writes_numbers_for_people() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        for (bytes, text) in [(8, "8"), (1_500, "1500"), (65_536, "64K"), (1 << 20, "1M")] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(counted(1, "pair of groups"), "1 pair of groups");
        assert_eq!(counted(2, "pair of groups"), "2 pairs of groups");
        assert_eq!(counted(2, "switch"), "2 switches");
        let bandwidth = &survey(good(), Ok(())).setup.tests[1];
        assert_eq!(figure(bandwidth, 24.126e9), "24.13");
        assert_eq!(figure(bandwidth, 12.3e6), "0.012");
        let latency = &survey(good(), Ok(())).setup.tests[0];
        assert_eq!(figure(latency, 1.0), "0.001");
        assert_eq!(figure(latency, 1_904.0), "1.90");
    }

    /// The sentence about a part, with this evidence in the first test of `tool`.
    fn said(tool: &str, unit: Unit, direction: Direction, evidence: Evidence) -> String {
        let mut survey = survey(good(), Ok(()));
        survey.setup.tests[0].tool = tool.into();
        survey.verdict.populations.remove(1);
        let cause = Cause { direction, evidence: vec![evidence], ..cause(unit, Certainty::Bad) };
        evidence_sentences(&survey, &cause).concat()
    }

    #[test]
    fn names_the_role_of_a_nic() {
        use Direction::{Both, Initiator, Target};
        for (tool, direction, text) in [
            ("write-lat", Initiator, "writes 3.90 us to 6 of 6 partners"),
            ("write-lat", Target, "writes 3.90 us from 6 of 6 partners"),
            ("send-lat", Both, "sends 3.90 us in 6 of 6 pairs"),
            ("read-lat", Initiator, "reads 3.90 us from 6 of 6 partners"),
            ("read-lat", Target, "reads 3.90 us by 6 of 6 partners"),
            ("atomic-lat", Initiator, "atomics 3.90 us to 6 of 6 partners"),
        ] {
            let said = said(tool, Unit::Nic(NicId(0)), direction, evidence(TestId(0)));
            assert_eq!(said, format!("{text}, median of its class 1.90"));
        }
    }

    #[test]
    fn names_the_pairs_of_a_part() {
        let path = Unit::Path(Pair { initiator: NicId(0), target: NicId(4) });
        let switch = Unit::Switch { group: 3, switch: 12 };
        let once = Evidence { outside: 1, measured: 1, ..evidence(TestId(0)) };
        let alone = Evidence { class: Class::Loopback, ..once.clone() };
        for (unit, evidence, text) in [
            (path, once, "writes 3.90 us"),
            (path, evidence(TestId(0)), "writes 3.90 us in 6 of 6 measurements"),
            (Unit::Nic(NicId(0)), alone, "writes 3.90 us in loopback"),
            (switch, evidence(TestId(0)), "writes 3.90 us in 6 of 6 pairs as target"),
        ] {
            let said = said("write-lat", unit, Direction::Target, evidence);
            assert_eq!(said, format!("{text}, median of its class 1.90"));
        }
    }

    #[test]
    fn names_failures_and_expectations() {
        let failing = Evidence {
            value: None,
            failure: Some("no answer within 2 s".into()),
            source: LimitSource::Failure,
            ..evidence(TestId(0))
        };
        let partly = Evidence { value: Some(3900.0), ..failing.clone() };
        let expected = Evidence {
            limit: Some(2500.0),
            median: None,
            source: LimitSource::Expect,
            ..evidence(TestId(0))
        };
        for (evidence, text) in [
            (failing, "writes to 6 of 6 partners fail: no answer within 2 s"),
            (
                partly,
                "writes 3.90 us to 6 of 6 partners, median of its class 1.90; some fail: no \
                 answer within 2 s",
            ),
            (expected, "writes 3.90 us to 6 of 6 partners, expected at most 2.50"),
        ] {
            let said = said("write-lat", Unit::Nic(NicId(0)), Direction::Initiator, evidence);
            assert_eq!(said, text);
        }
    }

    #[test]
    fn names_direction_of_links_between_groups() {
        for (direction, way) in [
            (Direction::Initiator, " from group 002 to 012"),
            (Direction::Target, " from group 012 to 002"),
            (Direction::Both, ""),
        ] {
            let links = Unit::GroupPair(2, 12);
            let said = said("write-lat", links, direction, evidence(TestId(0)));
            let expected = format!("writes 3.90 us in 6 of 6 pairs{way}, median of its class 1.90");
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn names_retries() {
        let resending = Evidence {
            source: LimitSource::Retries,
            retries: Some(31.5),
            usual_retries: Some(0.0),
            ..evidence(TestId(0))
        };
        let said = said("write-lat", Unit::Nic(NicId(0)), Direction::Initiator, resending);
        let expected = "writes to 6 of 6 partners need 32 retries each, median of its class 0";
        assert_eq!(said, expected);
    }

    #[test]
    fn long_latencies_have_larger_units() {
        for (value, text) in [
            (999_000.0, "writes 999.00 us to 6 of 6 partners, median of its class 1.90"),
            (304_386_170.0, "writes 304.39 ms to 6 of 6 partners, median of its class 1.90 us"),
            (2e9, "writes 2.00 s to 6 of 6 partners, median of its class 1.90 us"),
        ] {
            let slow = Evidence { value: Some(value), ..evidence(TestId(0)) };
            let said = said("write-lat", Unit::Nic(NicId(0)), Direction::Initiator, slow);
            assert_eq!(said, text);
        }
    }

    #[test]
    fn names_signs_beside_the_figures() {
        for (source, text) in [
            (
                LimitSource::LinkErrors,
                "packets were damaged on its link during writes in 6 of 6 pairs",
            ),
            (LimitSource::Losses, "packets were lost during writes in 6 of 6 pairs"),
            (
                LimitSource::Tail,
                "the slowest writes in 6 of 6 pairs take far longer than in other pairs",
            ),
        ] {
            let sign = Evidence { value: None, median: None, source, ..evidence(TestId(0)) };
            let said = said("write-lat", Unit::Nic(NicId(0)), Direction::Both, sign);
            assert_eq!(said, text);
        }
    }

    #[test]
    fn names_sizes_of_a_tool_with_several() {
        let mut survey = survey(good(), Ok(()));
        survey.verdict.populations.clear();
        let large = Test { size_bytes: 4096, ..survey.setup.tests[0].clone() };
        survey.setup.tests.push(large);
        let said =
            evidence_sentences(&survey, &cause(Unit::Nic(NicId(0)), Certainty::Bad)).concat();
        assert!(said.starts_with("writes of 8 bytes 3.90 us to 6 of 6"), "{said}");
    }

    #[test]
    fn names_counters_by_their_meaning() {
        let counter_evidence = |counter: &str, change| CounterEvidence {
            nic: NicId(0),
            counter: counter.into(),
            change,
        };
        let cause = Cause {
            counters: vec![
                counter_evidence("pct_spt_timeouts", 3),
                counter_evidence("hni_llr_tx_replay_event", 1_000_000),
                counter_evidence("pct_spt_timeouts", 2),
                counter_evidence("no_such_counter", 7),
                counter_evidence("pct_retry_srb_requests", 1),
            ],
            ..cause(Unit::Nic(NicId(0)), Certainty::Bad)
        };
        let expected = "5 timeouts, 1,000,000 replays sent again over the link, 7 no_such_counter";
        assert_eq!(counters(&cause), expected);
    }
}
