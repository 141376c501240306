//! The tables of docs/metrics.md, made from the metrics of made-up results.
//!
//! `CXIDIAG_UPDATE_DOCS=1 cargo test --test results metrics_page` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use super::schema::assert_documented;
use campaign::quiet::findings::Certainty;
use campaign::quiet::roster::Unit;
use check::document::testing::check;
use check::fleet_document::{FleetCheck, testing as fleet_testing};
use check::job::document::{JobCheck, ProcessSettings};
use check::job::table::SettingFinding;
use check::stress;
use check::stress_document::testing as stress_testing;
use facts::severity::Severity;
use health::{Finding, ITEMS};
use page::openmetrics::{Family, Kind, Sample};
use serve::probe_metrics;
use stat::job::JobStat;
use stat::{metrics as stat_metrics, testing as stat_testing};
use survey::result::metrics as survey_metrics;
use survey::result::testing::{cause, explanation, loaded, mixed, mixed_load, survey};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");

/// The heading of the first table. What is before it is written by hand.
const FIRST: &str = "\n## `cxidiag check`\n";

/// What the labels say, in the order of their names.
const LABELS: [(&str, &str); 34] = [
    ("cause", "id of a cause in [causes.md](causes.md), such as `pcie-narrow`"),
    ("check", "code of an item in [items.md](items.md), such as `link-down`"),
    (
        "class",
        "which part both NICs share, such as `same switch`; under load also `all`; of probes `switch`, \
         `group`, `other`, or `unknown` if addresses do not show it",
    ),
    ("command", "command that wrote the file"),
    (
        "confidence",
        "how certain a cause is: `because`, `probably`, `possibly`, `also_found`, `transient`, \
         `unknown`",
    ),
    ("device", "the NIC, such as `cxi0`; `host` for settings of the host"),
    (
        "direction",
        "of a pause: `received` (this NIC held off its sender), `sent` (the switch stopped this NIC)",
    ),
    ("driver", "version of the driver"),
    ("figure", "what is bad under load, such as `bandwidth`"),
    ("firmware", "version of the firmware"),
    ("generation", "`Cassini 1`, `Cassini 2` or `software NIC`"),
    ("group", "group of the NIC by its address, such as `003`"),
    ("host", "name of the host"),
    (
        "kind",
        "of code words `good`, `corrected` or `uncorrected`, of PCIe errors one of the last two; \
         of a part, such as `switch` or `node`; of latencies `min` or `median` of a burst",
    ),
    ("name", "of a part, such as `switch 003.12`; of `stat`, a counter"),
    ("node", "name of the node; of probes as in the list of hosts"),
    ("pattern", "pattern of the load, such as `incast:8`"),
    ("pcp", "priority of the link, 0 to 7"),
    ("percentile", "over the pairs of a class, 0 (minimum) to 100 (maximum); under load 50 or 99"),
    (
        "reason",
        "of failures `error` (reported by the NIC), `no_answer` or `resent` (a write took 0.5 s or \
         more); of probes that were left out, a row of \
         [monitoring.md](monitoring.md#probes-that-are-left-out)",
    ),
    ("rule", "rule about settings, such as `L13` ([settings.md](settings.md))"),
    (
        "sensor",
        "`asic`, `media` (the end of the cable), `regulator`; a supply of the card, such as `vdd`; \
         under load a column of the table, such as `ASIC_0`",
    ),
    ("serial", "serial number of the NIC"),
    ("severity", "of AER errors: `correctable`, `nonfatal`, `fatal`"),
    ("size", "size of the operations in bytes"),
    ("spread", "spread of the load over the cluster, such as `groups`"),
    ("state", "of a NIC: `good`, `unpaired` (in no pair), `untested`, `suspect`, `bad`"),
    ("switch", "switch of the NIC by its address, such as `003.12`"),
    ("target", "node that is probed, as the list of hosts names it"),
    ("target_device", "its NIC"),
    ("tool", "tool that measured, such as `write-lat`"),
    ("traffic_class", "of the victims; empty if it is the class of the load"),
    (
        "verdict",
        "`good`, `suspect`, `untested`, `no_answer` or `bad`; of a part `suspect` or `bad`; of a \
         setting `note` or `bad`",
    ),
    ("version", "release of cxidiag"),
];

/// Words in names that are against Prometheus' conventions: types, and units that are not base
/// units.
const UNUSUAL: [&str; 14] = [
    "bits",
    "count",
    "counter",
    "gauge",
    "histogram",
    "info",
    "kilobytes",
    "megabytes",
    "microseconds",
    "milliseconds",
    "nanoseconds",
    "percent",
    "summary",
    "total",
];

/// Names with such a word, which the page explains.
const EXCEPTIONS: [&str; 1] = ["cxidiag_stat_counter"];

/// The families of each command, each with at least one sample.
fn commands() -> Vec<(&'static str, Vec<Family>)> {
    let each_item_findings = ITEMS.map(|item| Finding {
        number: Some(1.0),
        ..Finding::compared(item, "1", "1", Severity::Good)
    });
    let node_check = check(each_item_findings.to_vec(), Vec::new(), None);

    let mut links = link::document::families(&link::document::testing::report(Vec::new()));
    links.retain(|family| family.name.starts_with("cxidiag_link_"));

    let mut nic = stress_testing::nic("P52930-001");
    stress_testing::add(&mut nic, 21.0, &[Some(16.0); 5]);
    let stress = stress::families(&stress_testing::report(vec![nic]));

    let bad = fleet_testing::item("link-down", "down", "bad");
    let node = ("nid1".to_owned(), Ok(fleet_testing::document(1, &[bad])));
    let fleet = FleetCheck::new(SystemTime::UNIX_EPOCH, Duration::ZERO, vec![node]);

    let setting = SettingFinding { setting: "FI_CXI_FOO".to_owned(), ..SettingFinding::default() };
    let process = ProcessSettings { findings: vec![setting], ..ProcessSettings::default() };
    let answers = vec![("nid1".to_owned(), Ok(Rc::new(process)))];
    let settings = JobCheck::new(SystemTime::UNIX_EPOCH, Duration::ZERO, &answers);

    let mut verdict = mixed();
    let switch = Unit::Switch { group: 3, switch: 12 };
    verdict.causes.push(cause(switch, Certainty::Suspect));
    let mut quiet = survey(verdict, Ok(()));
    quiet.why = vec![explanation()];
    let quiet = survey_metrics::families(&quiet);
    let names: BTreeSet<&str> = quiet.iter().map(|family| &*family.name).collect();
    let mut load = survey_metrics::families(&loaded(mixed_load()));
    load.retain(|family| !names.contains(&*family.name));

    let usual: &[(&str, u64)] = &[("hni_fgfc_port", 100)];
    let outlier: &[(&str, u64)] = &[("hni_fgfc_port", 90_000)];
    let devices: Vec<String> = (0..16).map(|number| format!("cxi{number}")).collect();
    let counts = |number| if number == 0 { outlier } else { usual };
    let nics = devices.iter().enumerate();
    let nics: Vec<_> = nics.map(|(number, device)| (device.as_str(), counts(number))).collect();
    let job = JobStat::of(vec![stat_testing::node("nid1", &nics)], Vec::new());

    vec![
        ("`cxidiag check`", check::metrics::families(&node_check)),
        ("`cxidiag link`", links),
        ("`cxidiag check --stress`", stress),
        ("`cxidiag check` of many nodes", check::fleet::families(&fleet)),
        ("`cxidiag check --job`", check::job::document::families(&settings)),
        ("`cxidiag survey`", quiet),
        ("`cxidiag survey --load`", load),
        ("`cxidiag stat`", stat_metrics::families(&job)),
        ("`cxidiag serve --probe`", probe_metrics::families(&probe_metrics::testing::probes())),
    ]
}

/// The name of the samples of a family, and their type.
fn sample_name(family: &Family) -> (String, &'static str) {
    let (suffix, kind) = match family.kind {
        Kind::Gauge => ("", "gauge"),
        Kind::Counter => ("_total", "counter"),
        Kind::Info => ("_info", "info"),
    };
    (format!("{}{suffix}", family.name), kind)
}

/// The labels of a family, which all of its samples have.
fn labels(family: &Family) -> Vec<&'static str> {
    let names = |sample: &Sample| -> Vec<&'static str> {
        sample.labels.iter().map(|(name, _)| *name).collect()
    };
    let first = family.samples.first();
    let first = names(first.unwrap_or_else(|| panic!("{}: no sample", family.name)));
    for sample in &family.samples {
        assert_eq!(names(sample), first, "{}", family.name);
    }
    first
}

/// A table for each command. A metric of several commands is in the table of the first one.
fn tables() -> String {
    let mut text = String::new();
    let mut shown = BTreeSet::new();
    for (title, families) in commands() {
        let _ = write!(text, "\n## {title}\n\n| metric | labels | meaning |\n|---|---|---|\n");
        for family in families {
            let (name, _) = sample_name(&family);
            if !shown.insert(name.clone()) {
                continue;
            }
            let labels: Vec<String> =
                labels(&family).iter().map(|label| format!("`{label}`")).collect();
            let labels = labels.join(", ");
            let _ = writeln!(text, "| `{name}` | {labels} | {} |", family.help);
        }
    }
    text += "\n## Labels\n\n| label | meaning |\n|---|---|\n";
    for (label, meaning) in LABELS {
        let _ = writeln!(text, "| `{label}` | {meaning} |");
    }
    text
}

#[test]
fn page_lists_all_metrics() {
    let page = fs::read_to_string(PAGE).expect("a page");
    let (intro, _) = page.split_once(FIRST).expect("a first table");
    let made = format!("{intro}{}", tables());
    assert_documented(PAGE, &made);
}

#[test]
fn explains_each_label_once() {
    let all = commands();
    let families = all.iter().flat_map(|(_, families)| families);
    let used: BTreeSet<&str> = families.flat_map(labels).collect();
    let explained: Vec<&str> = LABELS.iter().map(|(label, _)| *label).collect();
    assert_eq!(Vec::from_iter(used), explained);
}

#[test]
fn names_follow_conventions() {
    for (_, families) in commands() {
        for family in families {
            let name = &*family.name;
            assert!(name.starts_with("cxidiag_"), "{name}");
            let is_usual = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.chars().all(is_usual), "{name}");
            let padded = format!("_{name}_");
            let unusual = UNUSUAL.iter().find(|word| padded.contains(&format!("_{word}_")));
            let is_exception = EXCEPTIONS.contains(&name);
            assert_eq!(unusual.is_some(), is_exception, "{name}: {unusual:?}");
        }
    }
}

/// The node exporter refuses one name with two texts, and the same sample in two files.
#[test]
fn files_of_two_commands_have_different_samples() {
    let mut texts = BTreeMap::new();
    let mut samples = BTreeSet::new();
    for (_, families) in commands() {
        for family in families {
            let (name, kind) = sample_name(&family);
            let text = (family.help, kind);
            let known = texts.entry(name.clone()).or_insert(text.clone());
            assert_eq!(*known, text, "{name}");
            for sample in &family.samples {
                let sample_labels = (name.clone(), sample.labels.clone());
                assert!(samples.insert(sample_labels.clone()), "{sample_labels:?}");
            }
        }
    }
}
