//! The parts of a cluster and their evidence, in words.

use super::Survey;
use super::nics::members;
use crate::location::Class;
use crate::nic::counter_table::{Preset, Row};
use crate::survey::answer::{Answer, PairResult};
use crate::survey::roster::Roster;
use crate::survey::verdict::{Culprit, Direction, Evidence, LimitSource, Population, Test, Unit};

/// Counters that a sentence names.
const NAMED_COUNTERS: usize = 3;

/// Short names of counters that administrators know.
const SHORT: [(&str, &str); 3] = [
    ("pct_retry_srb_requests", "retries"),
    ("pct_spt_timeouts", "timeouts"),
    ("hni_pcs_uncorrected_cw", "uncorrected code words"),
];

/// Returns the name of a part, with the number of its NICs: `switch 003.12 (16 NICs)`.
pub fn unit(roster: &Roster, unit: &Unit) -> String {
    let name = name(roster, unit);
    match (unit, members(roster, unit).len()) {
        (Unit::Nic(_) | Unit::GroupPair(..) | Unit::Path(_), _) | (_, 0) => name,
        (_, count) => format!("{name} ({})", counted(count as u64, "NIC")),
    }
}

/// Returns the name of a part: `nid000417 cxi1`, `switch 003.12`.
pub fn name(roster: &Roster, unit: &Unit) -> String {
    match *unit {
        Unit::Nic(nic) => roster.name(nic),
        Unit::Node(node) => roster.nodes[node as usize].host.clone(),
        Unit::Switch { group, switch } => format!("switch {group:03}.{switch:02}"),
        Unit::Group(group) => format!("group {group:03}"),
        Unit::GroupPair(one, other) => format!("links between groups {one:03} and {other:03}"),
        Unit::Path(pair) => path(roster, pair.initiator, pair.target),
    }
}

/// Returns the name of a pair of NICs, in its direction.
pub fn path(roster: &Roster, initiator: u32, target: u32) -> String {
    if initiator == target {
        format!("{} with itself", roster.name(initiator))
    } else {
        format!("{} to {}", roster.name(initiator), roster.name(target))
    }
}

/// Returns what a kind of part is called.
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

/// Returns a number with what it counts: `1 NIC`, `1,204 NICs`, `2 pairs of groups`.
pub fn counted(number: u64, what: &str) -> String {
    let number_text = grouped(number);
    let (noun, rest) = what.split_once(' ').unwrap_or((what, ""));
    let ending = match noun {
        _ if number == 1 => "",
        "switch" => "es",
        _ => "s",
    };
    format!("{number_text} {noun}{ending} {rest}")
        .trim_end()
        .to_owned()
}

/// Returns a number with a comma before each three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a size as users type it: `8`, `64K`, `1M`.
pub fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Returns the name of a test: `write-lat 8`.
pub fn test(test: &Test) -> String {
    format!("{} {}", test.tool, size(test.size_bytes))
}

/// Returns the unit of the figures of a test in texts.
pub fn figure_unit(test: &Test) -> &'static str {
    if test.of_bandwidth { "GB/s" } else { "us" }
}

/// Returns a figure of a test, without its unit.
pub fn figure(test: &Test, value: f64) -> String {
    if test.of_bandwidth {
        let decimals = if value < 1e9 { 3 } else { 2 };
        format!("{:.decimals$}", value / 1e9)
    } else {
        format!("{:.2}", value / 1e3)
    }
}

/// Returns the answer of a pair: `3.90 us`, `failed`.
pub fn answer(tests: &[Test], result: &PairResult) -> String {
    let test = &tests[usize::from(result.test)];
    match &result.answer {
        Answer::Measured(of) => format!("{} {}", figure(test, of.value()), figure_unit(test)),
        Answer::Failed(_) => "failed".into(),
        Answer::Untested(_) => "not measured".into(),
    }
}

/// Returns the sentences of the evidence against a culprit, one for each test and class, the strongest
/// first. The first one names the counters as well.
pub fn sentences(survey: &Survey, culprit: &Culprit) -> Vec<String> {
    let mut sentences: Vec<String> = culprit
        .evidence
        .iter()
        .map(|evidence| sentence(survey, culprit, evidence))
        .collect();
    let counters = counters(culprit);
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
fn sentence(survey: &Survey, culprit: &Culprit, evidence: &Evidence) -> String {
    let test = &survey.setup.tests[usize::from(evidence.test)];
    let pairs = pairs(survey, culprit, evidence);
    let operations = operations(survey, test);
    let failure = evidence.failure.as_deref();
    let Some(value) = evidence.value else {
        let why = failure.map_or(String::new(), |why| format!(": {why}"));
        return format!("{operations}{pairs} fail{why}");
    };
    let mut text = format!(
        "{operations} {} {}{pairs}",
        figure(test, value),
        figure_unit(test)
    );
    if let (LimitSource::Expect, Some(limit)) = (evidence.source, evidence.limit) {
        let bound = if test.of_bandwidth {
            "at least"
        } else {
            "at most"
        };
        text += &format!(", expected {bound} {}", figure(test, limit));
    }
    if let Some(median) = evidence.median {
        text += &format!(", median of its class {}", figure(test, median));
    }
    if let Some(why) = failure {
        text += &format!("; some fail: {why}");
    }
    text
}

/// Returns the operations of a tool, with their size if there are several.
fn operations(survey: &Survey, test: &Test) -> String {
    let noun = match test.tool.split('-').next() {
        Some("write") => "writes",
        Some("read") => "reads",
        Some("atomic") => "atomics",
        Some("send") => "sends",
        _ => "operations",
    };
    let of_tool = |of: &&Test| of.tool == test.tool;
    if survey.setup.tests.iter().filter(of_tool).count() > 1 {
        format!("{noun} of {}", counted(test.size_bytes, "byte"))
    } else {
        noun.to_owned()
    }
}

/// Returns which pairs of a culprit are outside the limit, with a space before.
fn pairs(survey: &Survey, culprit: &Culprit, evidence: &Evidence) -> String {
    let [outside, measured] = [evidence.outside, evidence.measured].map(|of| grouped(of.into()));
    let share = format!("{outside} of {measured}");
    let test = &survey.setup.tests[usize::from(evidence.test)];
    let is_read = test.tool.starts_with("read");
    match (&culprit.unit, evidence.class) {
        (Unit::Path(_), _) if evidence.measured < 2 => String::new(),
        (Unit::Path(_), _) => format!(" in {share} measurements"),
        (Unit::Nic(_), Class::Loopback) => " in loopback".into(),
        (Unit::Nic(_), class) => {
            let with = match (culprit.direction, is_read) {
                (Direction::Initiator, false) => "to",
                (Direction::Target, false) => "from",
                (Direction::Both, false) => "to and from",
                (Direction::Initiator, true) => "from",
                (Direction::Target, true) => "by",
                (Direction::Both, true) => "from and by",
            };
            let of_test = |of: &&Population| of.test == evidence.test;
            let has_classes = survey.verdict.populations.iter().filter(of_test).count() > 1;
            let place = if has_classes { place(class) } else { "" };
            format!(" {with} {share} partners{place}")
        }
        _ => {
            let role = match culprit.direction {
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

/// Returns the counters that support a culprit: `1,204 retries, 3 timeouts`.
fn counters(culprit: &Culprit) -> String {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for witness in &culprit.witnesses {
        let meaning = meaning(&witness.counter);
        match sums.iter_mut().find(|(known, _)| *known == meaning) {
            Some((_, sum)) => *sum += witness.change,
            None => sums.push((meaning, witness.change)),
        }
    }
    let named: Vec<String> = sums
        .into_iter()
        .take(NAMED_COUNTERS)
        .map(|(meaning, sum)| format!("{} {meaning}", grouped(sum)))
        .collect();
    named.join(", ")
}

/// Returns what a counter counts, for a text that begins with the number.
fn meaning(counter: &str) -> String {
    if let Some((_, short)) = SHORT.iter().find(|(name, _)| *name == counter) {
        return (*short).to_owned();
    }
    let is_of = |row: &&Row| row.names().any(|name| name == counter);
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
    use super::super::testing::{culprit, evidence, good, roster, survey};
    use super::*;
    use crate::survey::answer::{Pair, Witness};
    use crate::survey::verdict::Word;

    /// Returns the sentence about a part, with this evidence in the first test of `tool`.
    fn said(tool: &str, unit: Unit, direction: Direction, evidence: Evidence) -> String {
        let mut survey = survey(good(), Ok(()));
        survey.setup.tests[0].tool = tool.into();
        survey.verdict.populations.remove(1);
        let culprit = Culprit {
            direction,
            evidence: vec![evidence],
            ..culprit(unit, Word::Bad)
        };
        sentences(&survey, &culprit).concat()
    }

    #[test]
    fn names_the_role_of_a_nic() {
        use Direction::{Both, Initiator, Target};
        for (tool, direction, text) in [
            ("write-lat", Initiator, "writes 3.90 us to 6 of 6 partners"),
            ("write-lat", Target, "writes 3.90 us from 6 of 6 partners"),
            (
                "send-lat",
                Both,
                "sends 3.90 us to and from 6 of 6 partners",
            ),
            ("read-lat", Initiator, "reads 3.90 us from 6 of 6 partners"),
            ("read-lat", Target, "reads 3.90 us by 6 of 6 partners"),
            (
                "atomic-lat",
                Initiator,
                "atomics 3.90 us to 6 of 6 partners",
            ),
        ] {
            let said = said(tool, Unit::Nic(0), direction, evidence(0));
            assert_eq!(said, format!("{text}, median of its class 1.90"));
        }
    }

    #[test]
    fn names_the_pairs_of_a_part() {
        let path = Unit::Path(Pair {
            initiator: 0,
            target: 4,
        });
        let switch = Unit::Switch {
            group: 3,
            switch: 12,
        };
        let once = Evidence {
            outside: 1,
            measured: 1,
            ..evidence(0)
        };
        let alone = Evidence {
            class: Class::Loopback,
            ..once.clone()
        };
        for (unit, evidence, text) in [
            (path, once, "writes 3.90 us"),
            (path, evidence(0), "writes 3.90 us in 6 of 6 measurements"),
            (Unit::Nic(0), alone, "writes 3.90 us in loopback"),
            (
                switch,
                evidence(0),
                "writes 3.90 us in 6 of 6 pairs as target",
            ),
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
            ..evidence(0)
        };
        let partly = Evidence {
            value: Some(3900.0),
            ..failing.clone()
        };
        let expected = Evidence {
            limit: Some(2500.0),
            median: None,
            source: LimitSource::Expect,
            ..evidence(0)
        };
        for (evidence, text) in [
            (
                failing,
                "writes to 6 of 6 partners fail: no answer within 2 s",
            ),
            (
                partly,
                "writes 3.90 us to 6 of 6 partners, median of its class 1.90; some fail: no \
                 answer within 2 s",
            ),
            (
                expected,
                "writes 3.90 us to 6 of 6 partners, expected at most 2.50",
            ),
        ] {
            let said = said("write-lat", Unit::Nic(0), Direction::Initiator, evidence);
            assert_eq!(said, text);
        }
    }

    #[test]
    fn names_sizes_of_a_tool_with_several() {
        let mut survey = survey(good(), Ok(()));
        survey.verdict.populations.clear();
        let large = Test {
            size_bytes: 4096,
            ..survey.setup.tests[0].clone()
        };
        survey.setup.tests.push(large);
        let said = sentences(&survey, &culprit(Unit::Nic(0), Word::Bad)).concat();
        assert!(
            said.starts_with("writes of 8 bytes 3.90 us to 6 of 6"),
            "{said}"
        );
    }

    #[test]
    fn names_counters_by_their_meaning() {
        let witness = |counter: &str, change| Witness {
            nic: 0,
            counter: counter.into(),
            change,
        };
        let culprit = Culprit {
            witnesses: vec![
                witness("pct_spt_timeouts", 3),
                witness("hni_llr_tx_replay_event", 1_000_000),
                witness("pct_spt_timeouts", 2),
                witness("no_such_counter", 7),
                witness("pct_retry_srb_requests", 1),
            ],
            ..culprit(Unit::Nic(0), Word::Bad)
        };
        let expected = "5 timeouts, 1,000,000 replays sent again over the link, 7 no_such_counter";
        assert_eq!(counters(&culprit), expected);
    }

    #[test]
    fn names_parts() {
        let pair = |initiator, target| Unit::Path(Pair { initiator, target });
        let switch = Unit::Switch {
            group: 3,
            switch: 13,
        };
        for (part, text) in [
            (Unit::Nic(3), "nid000417 cxi1"),
            (Unit::Node(1), "nid000417 (2 NICs)"),
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
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
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
    }
}
