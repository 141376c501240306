//! Tests of the reader of results.

use std::time::{Duration, SystemTime};

use campaign::quiet::answer::{Answer, Figures};
use campaign::quiet::findings::{Direction, Findings};
use campaign::quiet::roster::Roster;
use campaign::quiet::testing::{Cluster, Fault, settings, survey_with};
use campaign::timetable::{Histogram, TaskAnswer};
use facts::figures::{LARGEST_RATE, LONGEST_NS};
use load::findings::LoadFindings;
use load::testing::{conductor, fabric, results as results_of, setup};
use proptest::prelude::*;

use super::*;
use crate::changes::{self, Changes};
use crate::{html, text};
use check::document::testing::{bad, check, suspect};
use check::fleet_document::testing::mutated;
use check::stress_document;
use facts::severity::Severity;
use page::table::TextStyle;
use report::outcome::Side;
use serde::Serialize;
use serde_json::{Value, json};
use stat;
use stat::job::JobStat;
use stat::record::NodeRecord;
use survey::result::{Setup, testing};

/// A survey of 8 NICs on 4 nodes as JSON.
fn survey() -> Value {
    let mut survey = testing::survey(testing::mixed(), Ok(()));
    survey.why = vec![testing::explanation()];
    survey.why_shared = vec![testing::shared_value()];
    serde_json::to_value(survey).unwrap()
}

fn failure(document: &Value) -> Option<String> {
    let document = serde_json::to_vec(document).unwrap();
    let failure = content(&document, "file").err()?;
    Some(failure.message())
}

#[test]
fn refuses_indices_beyond_the_roster() {
    assert_eq!(failure(&survey()), None);
    for (place, value, missing) in [
        ("/roster/nics/0/node", json!(4), "node 4"),
        ("/verdict/culprits/0/unit", json!({"nic": 8}), "NIC 8"),
        ("/verdict/culprits/0/evidence/0/test", json!(2), "test 2"),
        ("/verdict/populations/0/test", json!(2), "test 2"),
        ("/verdict/matrices", json!([{"test": 0, "cells": [[0, 1, 1.0], [0, 8, null]]}]), "NIC 8"),
        ("/why/0/culprit", json!({"nic": 8}), "NIC 8"),
        ("/why/0/same_as", json!({"node": 4}), "node 4"),
        ("/why/0/controls", json!([1, 8]), "NIC 8"),
        ("/why_shared/0/culprits", json!([{"nic": 8}]), "NIC 8"),
    ] {
        let mut survey = survey();
        *survey.pointer_mut(place).unwrap() = value;
        let message = failure(&survey).unwrap_or_default();
        assert!(message.ends_with(&format!("the survey has no {missing}")), "{place}: {message}");
    }
}

/// Draws a document as `report` does.
fn draw(document: &[u8]) -> Result<(), Failure> {
    let content = content(document, "file")?;
    let results = content.map(|content| ReadResult { file: "file".into(), content });
    html::page(results.as_slice(), SystemTime::UNIX_EPOCH);
    Ok(())
}

/// Compares a document with `whole` as `compare` does, if it is of a kind that can be compared.
fn compare_with(whole: &[u8], document: &[u8]) -> Result<(), Failure> {
    let [new, base] = [document, whole].map(|document| compared(document, "file", "file"));
    let page = match (new?, base?) {
        (ComparedResult::Run(new), ComparedResult::Run(base)) => {
            let comparison = Comparison::new(&[*base], &[*new], None, 5.0)?;
            let document = page::json::document(&comparison)?;
            assert!(content(&document, "file")?.is_some());
            text::page(&comparison, true)
        }
        (ComparedResult::Survey(_, new), ComparedResult::Survey(_, base)) => {
            changes::page(&Changes::from_surveys(("base", &base), ("new", &new), 5.0))
        }
        (ComparedResult::Check(file, new), ComparedResult::Check(_, base)) => {
            let [base, new] = [base, new].map(|check| [(file.clone(), *check)]);
            changes::page(&Changes::from_checks(&base, &new, 5.0))
        }
        different => panic!("{different:?}"),
    };
    assert!(!page.text(TextStyle::Plain).contains('\u{1b}'));
    Ok(())
}

/// Shows what a node has written for `stat`, with another node, as `stat` does.
fn show_job(record: &[u8]) -> Result<(), Failure> {
    let read = NodeRecord::read(record).map_err(|why| refused("file", &why))?;
    let job = JobStat::of(vec![read, node("other")], Vec::new());
    let text = stat::text::page(&job, stat::text::Level::All).text(TextStyle::Plain);
    assert!(!text.contains('\u{1b}'));
    stat::metrics::families(&job);
    stat::output::csv(&job)?;
    draw(&page::json::document(&job)?)
}

fn node(name: &str) -> NodeRecord {
    stat::testing::node(name, &[("cxi0", &[("hni_sts_tx_ok_octets", 20_000)])])
}

fn json_of(document: &impl Serialize) -> Value {
    serde_json::from_slice(&page::json::document(document).unwrap()).unwrap()
}

/// What refusals have that do not name the changed key.
const REASONS: [&str; 8] = [
    " is out of range",
    "neither drawn nor",
    " has no ",
    "is not supported",
    "can be compared",
    "of another version",
    "missing field",
    "expected value",
];

/// Every second document, in which a value has another type, sign or size, or is missing.
#[test]
fn changed_documents_are_shown_or_refused_by_key() {
    let runs = [run(5e3)];
    let comparison = Comparison::new(&runs, &runs, None, 5.0).unwrap();
    let job = JobStat::of(vec![node("nid1")], vec!["nid3".into()]);
    let mut stressed = stress_document::testing::nic("P52930-001");
    stress_document::testing::add(&mut stressed, 21.0, &[Some(16.2); 5]);
    let outcome = json_of(&runs[0].outcome);
    type Show = fn(&[u8], &[u8]) -> Result<(), Failure>;
    let draw: Show = |_, document| draw(document);
    let kinds: [(&str, Value, Show); 10] = [
        ("/results/0", outcome.clone(), draw),
        ("/results/0", outcome, compare_with),
        ("", json_of(&comparison), draw),
        ("", json_of(&job), draw),
        ("", json_of(&node("nid1")), |_, record| show_job(record)),
        ("", json_of(&check(vec![bad()], vec![suspect()], None)), compare_with),
        ("", json_of(&link::document::testing::report(vec![bad()])), compare_with),
        ("", json_of(&stress_document::testing::report(vec![stressed])), compare_with),
        ("/why", survey(), draw),
        ("/why_shared", survey(), compare_with),
    ];
    for (part, whole, show) in kinds {
        let before = serde_json::to_vec(&whole).unwrap();
        assert_eq!(show(&before, &before).is_err(), whole["command"] == "stress");
        for (place, document) in mutated(&whole, part).into_iter().step_by(2) {
            let Err(failure) = show(&before, &serde_json::to_vec(&document).unwrap()) else {
                continue;
            };
            let message = failure.message();
            let is_short = message.len() < 2 * facts::text::MOST_TEXT;
            let key = place.split('/').next_back().unwrap();
            let mut parts = REASONS.into_iter().chain([key]);
            let is_named = parts.any(|part| message.contains(part));
            let is_plain = !message.contains(char::is_control);
            assert!(is_short && is_named && is_plain, "{place}: {message}");
        }
    }
}

fn run(figure: f64) -> ReadRun {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/older-result.json");
    let text = std::fs::read_to_string(file).unwrap();
    let mut outcome: Outcome = serde_json::from_str(&text).unwrap();
    for result in &mut outcome.results {
        let latency = result.latency.as_mut().unwrap();
        (latency.min_ns, latency.mean_ns) = (figure as u64, figure);
        latency.percentiles.iter_mut().for_each(|value| value.value_ns = figure as u64);
    }
    ReadRun { file: "file".into(), outcome }
}

/// Each document of a comparison is read back, whatever the runs measured.
#[test]
fn comparisons_of_any_figures_are_read_back() {
    for base in [0.0, 1.0, 1e18] {
        for new in [0.0, 1.0, 1e18] {
            for figure in ["p50", "mean", "min"] {
                let (base, new) = ([run(base)], [run(new), run(new)]);
                let figure = figure.parse().unwrap();
                let comparison = Comparison::new(&base, &new, Some(figure), 5.0).unwrap();
                let document = page::json::document(&comparison).unwrap();
                assert!(content(&document, "file").unwrap().is_some());
            }
        }
    }
}

/// What members may report, and lines of an earlier survey have.
fn any_rate() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::sample::select(vec![0.0, 5e-324, 1e-300, 1e-9, 1.0, 2e10, LARGEST_RATE]),
        (-12.0..15.0_f64).prop_map(|power| 10_f64.powf(power)),
    ]
}

fn any_ns() -> impl Strategy<Value = u64> {
    prop_oneof![prop::sample::select(vec![0, 1, 1800, 1900, LONGEST_NS]), 0..5000_u64]
}

/// Panics unless `survey` is read back from its document.
fn assert_is_read_back(verdict: Findings, load: Option<LoadFindings>, roster: Roster) {
    let setup = Setup { tests: testing::tests(), ..Setup::default() };
    let started = SystemTime::UNIX_EPOCH;
    let survey = Survey::new(setup, started, Duration::ZERO, roster, verdict, load, Ok(()));
    let document = page::json::document(&survey).unwrap();
    match content(&document, "file") {
        Ok(Some(Content::Survey(read))) => {
            assert_eq!(page::json::document(&*read).unwrap(), document);
            let content = Content::Survey(read);
            let result = ReadResult { file: "file".into(), content };
            assert!(!html::page(&[result], SystemTime::UNIX_EPOCH).is_empty());
        }
        other => panic!("{other:?}"),
    }
}

/// Without noise, the deviations of NICs are 0.
#[test]
fn survey_of_equal_figures_is_read_back() {
    let mut outliers = 0;
    for slow in [1.005, 1.02, 1.04, 1.1, 1.2] {
        let mut cluster = Cluster::new([1, 1, 16, 1], &["write-lat", "write-bw"], 1);
        cluster.noise = 0.0;
        cluster.faults = vec![Fault::slow(Unit::Nic(NicId(3)), Direction::Both, slow)];
        let findings = survey_with(&mut cluster, settings("all", 1), Cluster::measure);
        outliers += findings.outliers.len();
        assert_is_read_back(findings, None, cluster.roster);
    }
    assert!(outliers > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn surveys_of_any_figures_are_read_back(
        rates in prop::collection::vec(any_rate(), 1..6),
        ns in prop::collection::vec(any_ns(), 1..6),
        usual in 0..100_usize,
    ) {
        let mut cluster = Cluster::new([2, 2, 2, 1], &["write-lat", "write-bw"], 1);
        let mut number = 0;
        let findings = survey_with(&mut cluster, settings("all", 1), |cluster, round| {
            let mut results = cluster.measure(round);
            for result in &mut results {
                number += 1;
                if number % 100 < usual {
                    continue;
                }
                if let Answer::Measured(figures) = &mut result.answer {
                    let (rate, ns) = (rates[number % rates.len()], ns[number % ns.len()]);
                    *figures = match figures {
                        Figures::Latency { .. } => Figures::Latency {
                            count: 1,
                            min_ns: ns,
                            p5_ns: Some(ns),
                            median_ns: ns,
                            p90_ns: Some(ns),
                            p99_ns: Some(ns),
                            max_ns: ns,
                        },
                        Figures::Bandwidth { .. } => Figures::Bandwidth {
                            bytes_per_second: rate,
                            operations_per_second: rate,
                        },
                    };
                }
            }
            results
        });
        assert_is_read_back(findings, None, cluster.roster);
    }

    #[test]
    fn loads_of_any_figures_are_read_back(
        rates in prop::collection::vec(any_rate(), 1..6),
        ns in prop::collection::vec(any_ns(), 1..6),
        usual in 0..100_usize,
    ) {
        let roster = fabric([4, 2, 2, 1]);
        let mut load = conductor(&roster, setup("standard"));
        let mut number = 0;
        loop {
            let load_slots = load.next_load_slots();
            if load_slots.is_empty() {
                break;
            }
            for load_slot in load_slots {
                let mut results = results_of(&load_slot, 0, |_| 1e9);
                for result in &mut results {
                    number += 1;
                    if number % 100 < usual {
                        continue;
                    }
                    let (rate, ns) = (rates[number % rates.len()], ns[number % ns.len()]);
                    match &mut result.answer {
                        TaskAnswer::Sent { bytes, .. } => bytes.fill((rate as u64).min(1 << 50)),
                        TaskAnswer::Latencies(latencies) => {
                            *latencies = Histogram::default();
                            latencies.add(ns, 1);
                        }
                        _ => {}
                    }
                }
                load.add(&load_slot, &results);
            }
        }
        let findings = load.findings();
        assert_is_read_back(Findings::default(), Some(findings), roster);
    }
}

#[test]
fn refuses_numbers_beyond_what_a_nic_can_show() {
    let mut survey = survey();
    survey["verdict"]["populations"][0]["limit"] = json!(1e308);
    let message = failure(&survey).unwrap();
    let expected = "not a result of cxidiag: 1e+308 is out of range (at most 1e21)";
    assert!(message.ends_with(expected), "{message}");
    survey["verdict"]["populations"][0]["limit"] = json!(1e-320);
    survey["summary"] = json!("\\\" 1e308 ");
    assert_eq!(failure(&survey), None);
}

#[test]
fn names_what_is_no_result() {
    for (document, why) in [
        (
            json!({"schema_version": 1, "command": "why", "roster": {}, "suspect": 0}),
            "a document of 'cxidiag why' is neither drawn nor compared",
        ),
        (
            json!({"schema_version": 1, "command": "stress", "host_name": "n", "devices": []}),
            "a document of 'cxidiag check --stress' is neither drawn nor compared",
        ),
        (
            json!({"schema_version": -1, "results": []}),
            "not a result of cxidiag: schema_version: invalid value",
        ),
        (
            json!({"schema_version": 1, "roster": {"nodes": 5}, "verdict": {}}),
            "not a result of cxidiag: roster.nodes: invalid type",
        ),
        (json!([1, 2]), "not a result of cxidiag"),
        (json!({"schema_version": 2, "results": []}), "schema version 2 is not supported"),
        (json!({"schema_version": 1, "roster": {}}), "the lines of --jsonl have no verdict"),
        (json!({"schema_version": 1, "results": []}), "not a result of cxidiag: missing field"),
    ] {
        let message = failure(&document).unwrap();
        assert!(message.contains(why), "{message}");
    }
}

/// The document has none of the fields that later builds added.
#[test]
fn reads_documents_of_earlier_builds() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/older-result.json");
    let (runs, warnings) = read_compared(&RunSource::of(file.as_ref())).unwrap();
    let [ComparedResult::Run(run)] = runs.as_slice() else {
        panic!("{runs:?}");
    };
    let Outcome { labels, job, options, results, .. } = &run.outcome;
    assert!(warnings.is_empty() && labels.is_empty() && job.is_none());
    assert_eq!(options.as_ref().unwrap().percentiles, [0.0; 0]);
    assert_eq!((results.len(), results[0].cpu_wait_percent), (2, None));
}

#[test]
fn reads_checks_for_comparisons_only() {
    use check::document::testing::{bad, check};
    let file = tempfile::NamedTempFile::new().unwrap();
    let document = serde_json::to_vec(&check(vec![bad()], vec![], None)).unwrap();
    std::fs::write(&file, document).unwrap();
    let source = RunSource::of(file.path());
    let message = read(&source).unwrap_err().message();
    assert!(message.ends_with("not a result that can be drawn"), "{message}");
    let (read, _) = read_compared(&source).unwrap();
    let [ComparedResult::Check(_, check)] = read.as_slice() else {
        panic!("{read:?}");
    };
    assert_eq!(check.devices[0].items[0].verdict, Severity::Bad);
}

#[test]
fn leaves_out_servers_of_measured_runs() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/older-result.json");
    let result = |side| {
        let (mut results, _) = read(&RunSource::of(file.as_ref())).unwrap();
        let mut result = results.remove(0);
        if let Content::Run(run) = &mut result.content {
            run.side = side;
        }
        result
    };
    let mut both = vec![result(Side::Server), result(Side::Client)];
    assert!(runs::leave_out_servers(&mut both, ReadResult::run).is_some() && both.len() == 1);
    let mut servers = vec![result(Side::Server)];
    assert!(runs::leave_out_servers(&mut servers, ReadResult::run).is_none() && servers.len() == 1);
}
