use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fleet;
use super::testing::{document, item, mutated};
use super::*;
use health::item::find;
use page::openmetrics::{Dialect, text};
use page::table::TextStyle;

type FleetAnswer = (String, Result<Check, String>);

fn fleet(answers: Vec<FleetAnswer>) -> FleetCheck {
    let elapsed = Duration::from_millis(1500);
    FleetCheck::new(SystemTime::UNIX_EPOCH, elapsed, answers)
}

fn nodes(range: std::ops::Range<u32>, check: &Check) -> Vec<FleetAnswer> {
    let named = range.map(|number| (format!("nid{number:04}"), Ok(check.clone())));
    named.collect()
}

fn firmware(version: &str) -> Check {
    document(4, &[item("firmware", version, "shown")])
}

fn lines(check: &FleetCheck) -> String {
    fleet::page(check).text(TextStyle::Plain)
}

/// A node changes each value of its check in turn.
#[test]
fn node_that_lies_changes_no_other_node() {
    use crate::document::testing::{bad, check, suspect};
    let whole = check(vec![bad(), suspect()], vec![suspect()], None);
    let whole = serde_json::to_value(whole).unwrap();
    let honest = nodes(0..3, &firmware("1.5"));
    for (place, document) in mutated(&whole, "") {
        let document = serde_json::to_vec(&document).unwrap();
        let answer = Check::read(&document).map_err(|failure| failure.message());
        if let Err(message) = &answer {
            let is_short = message.len() < 2000 && !message.contains(char::is_control);
            assert!(is_short, "{place}: {message}");
        }
        let mut answers = honest.clone();
        answers.push(("liar".into(), answer.clone()));
        let check = fleet(answers);
        assert!(!lines(&check).contains('\u{1b}'), "{place}");
        assert!(!text_of_metrics(&check).is_empty());
        fleet::csv(&check).unwrap();
        serde_json::to_vec(&check).unwrap();
        let other_nodes = check.nodes.iter().filter(|node| node.node != "liar");
        let verdicts: Vec<NodeVerdict> = other_nodes.map(|node| node.verdict).collect();
        assert_eq!(verdicts, [NodeVerdict::Good; 3], "{place}");
        if let Ok(check) = answer {
            let readings = check.readings("cxi0");
            assert!(
                readings.iter().all(|reading| reading.share().is_none_or(f64::is_finite)),
                "{place}"
            );
        }
    }
}

/// The check of a NIC with a value that begins with a number.
fn numbered(code: &str, value: &str) -> Check {
    let mut item = item(code, value, "shown");
    item["number"] = value.split(' ').next().unwrap().parse::<f64>().unwrap().into();
    item["unit"] = value.split_once(" in ").map(|(_, unit)| unit).into();
    document(1, &[item])
}

#[test]
fn twice_as_many_numa_nodes_are_other_memory() {
    let mut answers = nodes(0..4, &numbered("memory-size", "512.0 GiB in each of 2 NUMA nodes"));
    answers.extend(nodes(4..5, &numbered("memory-size", "512.0 GiB")));
    let check = fleet(answers);
    assert_eq!((check.counts.good, check.counts.suspect), (4, 1));
    let expected =
        "memory-size 512.0 GiB; 4 of 5 NICs have about 512.0 GiB in each of 2 NUMA nodes";
    let text = lines(&check).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(expected), "{text}");
}

#[test]
fn nodes_have_about_as_much_memory() {
    let memory = |size: &str| numbered("memory-size", size);
    let mut answers = Vec::new();
    for (number, size) in (0..).zip(["511.8 GiB", "511.2 GiB", "510.9 GiB", "448.0 GiB"]) {
        answers.extend(nodes(number..number + 1, &memory(size)));
    }
    let check = fleet(answers);
    assert_eq!((check.counts.good, check.counts.suspect), (3, 1));
    let text = lines(&check);
    assert!(text.contains("memory-size 448.0 GiB; 3 of 4 NICs have about\n  51"), "{text}");
}

/// Two values that differ a little are one, and no exact value.
#[test]
fn two_nodes_have_a_majority_only_if_they_agree() {
    let memory = |size: &str| numbered("memory-size", size);
    let value_for = |sizes: [&str; 2]| {
        let nodes =
            (0..).zip(sizes).flat_map(|(number, size)| nodes(number..number + 1, &memory(size)));
        let check = fleet(nodes.collect());
        let text = lines(&check);
        let row = text.lines().find(|line| line.starts_with("memory-size"));
        let words: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
        (check.counts.suspect, words.join(" "))
    };
    let close = value_for(["511.2 GiB", "511.8 GiB"]);
    // What all have is not listed.
    assert_eq!(close, (0, String::new()));
    let far = value_for(["448.0 GiB", "512.0 GiB"]);
    assert_eq!(far, (0, "memory-size no majority of 2 NICs".into()));
}

#[test]
fn nodes_of_other_kinds_are_good() {
    let counts = |code: &str, values: &[&str]| {
        let mut answers = Vec::new();
        for (number, value) in (0..).zip(values) {
            answers.extend(nodes(number..number + 1, &numbered(code, value)));
        }
        let counts = fleet(answers).counts;
        (counts.good, counts.suspect)
    };
    // More memory, and no value that most have.
    let more = ["512 GiB", "512 GiB", "1024 GiB"];
    assert_eq!(counts("memory-size", &more), (3, 0));
    let mixed = ["512 GiB", "256 GiB", "1024 GiB"];
    assert_eq!(counts("memory-size", &mixed), (3, 0));
    let shallow = ["133 us (C6)", "133 us (C6)", "2 us (C1)"];
    assert_eq!(counts("idle-states", &shallow), (3, 0));
    let deep = ["133 us (C6)", "2 us (C1)", "2 us (C1)"];
    assert_eq!(counts("idle-states", &deep), (2, 1));
}

#[test]
fn names_groups_of_nodes_worst_first() {
    let mut answers = nodes(1..5, &firmware("1.5.53"));
    answers.extend(nodes(5..7, &firmware("1.5.41")));
    let bad = document(4, &[item("link-down", "down", "bad"), item("firmware", "1.5.53", "shown")]);
    answers.extend(nodes(7..8, &bad));
    let three = document(3, &[item("firmware", "1.5.53", "shown")]);
    answers.extend(nodes(8..9, &three));
    let lost = ["nid0009", "nid0010"].map(|name| (name.to_owned(), Err("refused".to_owned())));
    answers.extend(lost);
    let check = fleet(answers);
    let expected = "bad: 2 of 10 nodes; 2 without answer, 2 suspect, 4 good";
    assert_eq!((check.summary.as_str(), check.exit_status), (expected, 3));
    let text = lines(&check);
    for line in [
        "\nBAD link-down cxi0 cxi1 cxi2 cxi3 (1 node): link-down down, expected L\n  nid0007\n",
        "\nBAD nic-count host (1 node): nic-count 3; 7 of 8 nodes have 4\n  nid0008\n",
        "\nWITHOUT ANSWER (2 nodes): refused\n  nid[0009-0010]\n",
        "\nSUSPECT firmware cxi0 cxi1 cxi2 cxi3 (2 nodes): firmware 1.5.41; 23 of 31 NICs\n  \
         have 1.5.53\n  nid[0005-0006]\n",
        "\nfirmware   1.5.53  23 of 31 NICs\n",
        "\nlink-down: check the cable ",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    assert_eq!(check.bad_nodes(), "nid[0007-0008]\n");
    let table = String::from_utf8(fleet::csv(&check).unwrap()).unwrap();
    assert!(table.contains("\nnid0001,good,,,\n"), "{table}");
    assert!(table.contains("\nnid0009,no_answer,untested,host,refused\n"), "{table}");
    let metrics = text_of_metrics(&check);
    assert!(metrics.contains("\ncxidiag_fleet_nodes{verdict=\"bad\"} 2\n"), "{metrics}");
}

fn text_of_metrics(check: &FleetCheck) -> String {
    text(&fleet::families(check), Dialect::NodeExporter)
}

#[test]
fn status_follows_from_worst_node() {
    let lost = || vec![("nid9".to_owned(), Err("no".to_owned()))];
    let good = || nodes(0..2, &firmware("1"));
    for (answers, status, summary) in [
        (good(), 0, "good: 2 of 2 nodes"),
        ([good(), lost()].concat(), 4, "undecided: 1 of 3 nodes without answer; 2 good"),
        (vec![], 4, "undecided: 0 of 0 nodes untested"),
        (nodes(0..1, &document(0, &[])), 4, "undecided: 1 of 1 node untested"),
    ] {
        let check = fleet(answers);
        assert_eq!((check.exit_status, check.summary.as_str()), (status, summary));
        let result = check.result().map_err(|failure| failure.status());
        assert_eq!(result.err().unwrap_or(0), status);
    }
}

#[test]
fn half_is_no_majority() {
    let mut answers = nodes(0..1, &firmware("1"));
    answers.extend(nodes(1..2, &firmware("2")));
    let check = fleet(answers);
    assert_eq!(check.summary, "good: 0 of 2 nodes; 2 suspect");
    let firmware = check.majority.iter().find(|majority| majority.code == "firmware");
    assert_eq!(firmware.and_then(|value| value.value.clone()), None);
}

#[test]
fn compares_nics_of_one_generation() {
    let node = |generation: &str, speed: &str| {
        let mut check = document(1, &[item("pcie-speed", speed, "good")]);
        check.devices[0].items[0].value = Some(generation.into());
        check
    };
    let mut answers = nodes(0..3, &node("Cassini 1", "16 GT/s"));
    answers.extend(nodes(3..5, &node("Cassini 2", "32 GT/s")));
    let check = fleet(answers);
    let codes: Vec<&str> = check.groups.iter().map(|group| group.code.as_str()).collect();
    assert_eq!(codes, ["generation"]);
}

#[test]
fn merges_512_nodes() {
    let items: Vec<_> = (0..40).map(|index| item(&format!("i{index}"), "value", "good")).collect();
    let mut answers = nodes(1..511, &document(8, &items));
    answers.extend(nodes(511..513, &document(7, &items)));
    let check = fleet(answers);
    assert_eq!(check.summary, "bad: 2 of 512 nodes; 510 good");
    assert_eq!(check.groups.len(), 1);
}

proptest! {
    /// Each finding of a node is in exactly one group with its verdict, code and device; groups
    /// name no other nodes, and the order of answers does not matter.
    #[test]
    fn groups_hold_each_finding_once(
        kinds in prop::collection::vec((0_usize..4, 0_usize..3, 0_usize..3), 0..40),
        turn in 0_usize..40,
    ) {
        let verdicts = ["good", "suspect", "bad"];
        let answer = |&(nics, verdict, version): &(usize, usize, usize)| {
            if nics == 3 {
                return Err(format!("reason {version}"));
            }
            let items = [
                item("link-down", "v", verdicts[verdict]),
                item("firmware", &version.to_string(), "shown"),
            ];
            Ok(document(nics, &items))
        };
        let named = kinds.iter().enumerate();
        let mut answers: Vec<FleetAnswer> =
            named.map(|(at, kind)| (format!("n{at}"), answer(kind))).collect();
        let check = fleet(answers.clone());
        let mut group_findings = Vec::new();
        for group in &check.groups {
            let names = host_list::expand(&group.nodes).unwrap();
            prop_assert_eq!(names.len(), group.count);
            for name in names {
                for device in group.devices.split(' ') {
                    group_findings.push((name.clone(), group.verdict, group.code.clone(), device.to_owned()));
                }
            }
        }
        let node_findings = check.nodes.iter().flat_map(|node| {
            let found = node.findings.iter();
            found.map(|finding| (node.node.clone(), finding.verdict, finding.code.clone(), finding.device.clone()))
        });
        let mut node_findings: Vec<_> = node_findings.collect();
        group_findings.sort();
        node_findings.sort();
        prop_assert_eq!(group_findings, node_findings);
        prop_assert!(check.groups.is_sorted_by_key(|group| std::cmp::Reverse(group.verdict)));
        if !answers.is_empty() {
            let middle = turn % answers.len();
            answers.rotate_left(middle);
        }
        let again = fleet(answers);
        prop_assert_eq!(again.groups, check.groups);
        prop_assert_eq!(again.nodes, check.nodes);
    }
}

/// A text says nothing about the share of a limit.
#[test]
fn share_of_a_limit_follows_from_numbers() {
    let share = |numbers: Value| {
        let mut narrow = item("pcie-width", "x4", "bad");
        narrow["limit"] = "x16".into();
        narrow["number"] = 8.into();
        narrow["numbers"] = numbers;
        let readings = document(1, &[narrow]).readings("cxi0");
        find(&readings, "pcie-width").unwrap().share()
    };
    assert_eq!(share(json!({"limit": 16.0})), Some(0.5));
    assert_eq!(share(json!({})), None);
    assert_eq!(share(json!({"limit": 0.0})), None);
}

/// In documents of earlier releases, the number of NICs is only a text.
#[test]
fn fewer_nics_are_bad_in_documents_of_earlier_releases() {
    let earlier = |nics: usize| {
        let mut check = document(nics, &[]);
        check.host[0].number = None;
        Check::read(&serde_json::to_vec(&check).unwrap()).unwrap()
    };
    let mut answers = nodes(0..7, &earlier(4));
    answers.extend(nodes(7..8, &earlier(3)));
    let text = lines(&fleet(answers));
    assert!(text.contains("BAD nic-count host (1 node): nic-count 3;"), "{text}");
}
