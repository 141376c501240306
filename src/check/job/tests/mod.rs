//! The examples and public sets of settings.md, on model libraries and nodes. Faults planted at
//! random in the correct public sets: each is named, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::document::{JobCheck, ProcessSettings, families, page};
use super::evidence::{JobEvidence, LibfabricAnswer, ParameterType, SECRET};
use super::judged;
use super::table::RULES;
use super::table::{FindingSeverity, SettingFinding};
use super::values::{dotted, meant, nearest_name, strtol};
use page::table::TextStyle;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

const NAMES: &str = include_str!("../../../../tests/libfabric/names.txt");

const PAGE: &str = include_str!("../../../../docs/reference/settings.md");

/// The model of a libfabric with these parts beside its core: `cxi`, `cuda`.
pub fn library(version: &str, parts: &[&str]) -> LibfabricAnswer {
    let number = dotted(version);
    let lines = NAMES.lines().filter(|line| !line.starts_with('#'));
    let name = |line: &'static str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, kind, since, until, needed @ ..] = words.as_slice() else { panic!("{line}") };
        let kind = match *kind {
            "text" => ParameterType::Text,
            "int" => ParameterType::Int,
            "bool" => ParameterType::Bool,
            "size" => ParameterType::Size,
            _ => panic!("{line}"),
        };
        let is_built = needed.iter().all(|part| parts.contains(part));
        let is_here = is_built && dotted(since) <= number && number <= dotted(until);
        is_here.then(|| ((*name).to_owned(), kind))
    };
    LibfabricAnswer {
        path: format!("/opt/cray/libfabric/{version}/lib64/libfabric.so.1"),
        version: version.into(),
        names: lines.filter_map(name).collect(),
        providers: ["cxi", "shm", "tcp", "udp", "sockets"].map(str::to_owned).to_vec(),
        tx_size: None,
        rx_size: None,
    }
}

/// The settings `A=B ; C=D`.
pub fn settings(text: &str) -> Vec<(String, String)> {
    let settings = text.split(" ; ").map(str::trim).filter(|setting| !setting.is_empty());
    let pair = |setting: &str| {
        let (name, value) = setting.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    settings.map(pair).collect()
}

/// A process on a node with four NICs. `changes` are facts, `-name` removes one.
pub fn evidence(version: &str, changes: &str, environment: &str) -> JobEvidence {
    let nics = "cxi0,cxi1,cxi2,cxi3";
    let facts = [
        ("nics", nics),
        ("interfaces", "eth0,hsn0,hsn1,hsn2,hsn3,lo"),
        ("hsn", "hsn0,hsn1,hsn2,hsn3"),
        ("rdzv_get_on", nics),
        ("nccl_plugin", "/path/lib/libnccl-net.so"),
    ];
    let mut facts: BTreeMap<String, String> =
        facts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let mut parts = vec!["cxi", "cuda"];
    let (mut conf, mut other_libraries) = (BTreeMap::new(), Vec::new());
    for change in changes.split_whitespace() {
        match change.split_once('=') {
            Some(("conf", text)) => {
                let (name, value) = text.split_once(':').unwrap();
                conf.insert(name.to_owned(), value.to_owned());
            }
            Some(("other", version)) => other_libraries.push(library(version, &["cxi"])),
            Some((name, text)) => {
                facts.insert(name.to_owned(), text.to_owned());
            }
            None => {
                let name = change.strip_prefix('-').unwrap();
                facts.remove(name);
                parts.retain(|part| *part != name);
            }
        }
    }
    let evidence = JobEvidence::new(settings(environment), facts);
    let library = Some(library(version, &parts));
    JobEvidence { conf, library, other_libraries, origin: "a test".into(), ..evidence }
}

/// Returns what a check finds.
fn judge(evidence: &JobEvidence) -> Vec<SettingFinding> {
    ProcessSettings::new(evidence).findings
}

/// The fields of each line of a table.
fn table(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    // An empty field between two bars.
    let lines = lines.map(|line| format!("{line} ").replace("| |", "|  |").replace("| |", "|  |"));
    lines.map(|line| line.leak().split(" | ").map(str::trim).collect())
}

fn text_of(findings: &[SettingFinding]) -> String {
    let lines = findings.iter().map(|found| {
        let instead = found.instead.as_deref().unwrap_or_default();
        format!(
            "{} {:?} {}: {} / {instead}\n",
            found.code, found.severity, found.setting, found.text
        )
    });
    lines.collect()
}

#[test]
fn says_the_words_of_each_rule() {
    let mut wrong = String::new();
    for line in table(include_str!("examples.txt")) {
        let [rule, version, changes, settings, text, ref instead @ ..] = *line.as_slice() else {
            panic!("{line:?}")
        };
        let instead = instead.first().copied().unwrap_or_default();
        let (code, severity) = rule.split_once(' ').unwrap();
        let found = judge(&evidence(version, changes, settings));
        let is_expected = |finding: &SettingFinding| {
            finding.code == code
                && format!("{:?}", finding.severity).to_lowercase() == severity
                && finding.text.starts_with(text)
                && finding.instead.as_deref().unwrap_or_default().starts_with(instead)
                && !finding.source.is_empty()
        };
        let bad = found.iter().filter(|finding| finding.severity == FindingSeverity::Bad);
        let others = bad.filter(|finding| finding.code != code).count();
        if !found.iter().any(is_expected) || (severity == "note" && others > 0) {
            wrong += &format!("{line:?}\n{}", text_of(&found));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Asserts that the settings of each line of a table have the findings of its last field.
fn assert_findings(text: &'static str) {
    let mut wrong = String::new();
    for line in table(text).filter(|line| line.len() > 2) {
        let [_, version, changes, settings, ref expected @ ..] = *line.as_slice() else {
            panic!("{line:?}")
        };
        let found = judge(&evidence(version, changes, settings));
        let mut codes: Vec<String> = found
            .iter()
            .map(|finding| match finding.severity {
                FindingSeverity::Bad => finding.code.clone(),
                _ => finding.code.to_lowercase(),
            })
            .collect();
        codes.sort();
        codes.dedup();
        if codes.join(" ") != expected.first().copied().unwrap_or_default() {
            wrong += &format!("{line:?}\n{}", text_of(&found));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn names_the_dead_settings_of_public_sets_and_no_other() {
    assert_findings(include_str!("public_sets.txt"));
}

#[test]
fn explains_the_public_cases_that_settings_show() {
    let cases = include_str!("public_cases.txt");
    assert_findings(cases);
    let numbers: BTreeSet<u32> = table(cases).map(|line| line[0].parse().unwrap()).collect();
    let rows =
        PAGE.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse().ok());
    assert_eq!(numbers, rows.collect());
}

/// The first and the last field of each row of the page whose first field is a rule.
fn rules_of_page() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGE.lines().filter_map(|line| {
        let mut fields = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let (id, severity) = (fields.next()?, fields.last()?);
        let (family, number) = id.split_at_checked(1)?;
        let is_rule = "LMNRS".contains(family) && number.parse::<u32>().is_ok();
        is_rule.then_some((id, severity))
    })
}

#[test]
fn page_has_the_rules_and_their_severities() {
    // Rules that are no data: they compare files or ranks.
    let mut rules = BTreeMap::from([
        ("L50", FindingSeverity::Note),
        ("L51", FindingSeverity::Bad),
        ("R1", FindingSeverity::Note),
        ("R2", FindingSeverity::Bad),
    ]);
    for rule in &RULES.rules {
        let severity = rule.severity.unwrap_or(FindingSeverity::Note);
        let worst = rules.entry(rule.id).or_insert(severity);
        *worst = severity.min(*worst);
    }
    // L32 says that nothing is to be said.
    let page = rules_of_page().filter(|(id, _)| *id != "L32");
    let page: BTreeMap<&str, &str> =
        page.map(|(id, severity)| (id, severity.split(';').next().unwrap())).collect();
    let rules: BTreeMap<&str, &str> =
        rules.into_iter().map(|(id, severity)| (id, severity.name())).collect();
    assert_eq!(page, rules);
    assert_eq!(page.len(), 84);
}

#[test]
fn each_rule_has_an_example() {
    let examples: Vec<&str> = table(include_str!("examples.txt"))
        .map(|line| line[0].split(' ').next().unwrap())
        .collect();
    let rules = include_str!("../settings.txt").lines();
    for rule in rules.filter_map(|line| line.strip_prefix("rule ")) {
        let id = rule.split(' ').next().unwrap();
        assert!(examples.contains(&id), "{id}");
    }
}

#[test]
fn reads_numbers_as_the_c_library_does() {
    for (text, number, rest) in [
        ("16K", 16, "K"),
        ("0x100", 256, ""),
        ("020000", 8192, ""),
        ("-1", -1, ""),
        (" 7 ", 7, ""),
        ("08", 0, "8"),
        ("0x", 0, "x"),
        ("99999999999999999999", i128::from(i64::MAX), ""),
    ] {
        assert_eq!(strtol(text), Some((number, rest)), "{text}");
    }
    assert_eq!(strtol("abc"), None);
    assert_eq!(strtol(""), None);
    assert_eq!(
        ["12M", "64KiB", "1e6", "2 GB", "x"].map(meant),
        [Some(12 << 20), Some(64 << 10), Some(1_000_000), Some(2 << 30), None]
    );
}

#[test]
fn suggests_only_near_names() {
    let known = ["FI_CXI_ODP", "FI_CXI_ATS", "FI_CXI_RX_MATCH_MODE", "FI_CXI_DEFAULT_CQ_SIZE"];
    for (name, near) in [
        ("FI_CXI_FOO", None),
        ("FI_CXI_ODQ", Some("FI_CXI_ODP")),
        ("FI_CXI_RX_MATCHMODE", Some("FI_CXI_RX_MATCH_MODE")),
        ("FI_CXI_MATCH_RX_MODE", Some("FI_CXI_RX_MATCH_MODE")),
        ("FI_CXI_CQ_SIZE", Some("FI_CXI_DEFAULT_CQ_SIZE")),
        ("FI_OPX_UUID", None),
    ] {
        assert_eq!(nearest_name(name, known.into_iter()), near, "{name}");
    }
}

#[test]
fn equal_defaults_and_known_names_are_no_findings() {
    let settings = "FI_CXI_OFLOW_BUF_SIZE=12582912 ; FI_CXI_RDZV_THRESHOLD=0 ; NCCL_IB_DISABLE=1 ; \
                    CXI_FORK_SAFE=1 ; FI_CXI_COLL_FABRIC_MGR_CACERT=x ; FI_CXI_RDZV_PROTO=alt-read ; \
                    FI_CXI_RX_MATCH_MODE=software ; FI_PROVIDER=CXI ; SLURM_NETWORK=job_vni";
    let found = judge(&evidence("2.3", "-nccl", settings));
    let notes = text_of(&found);
    assert!(found.iter().all(|finding| finding.code == "N10"), "{notes}");
    let hpe = evidence("1.22", "", "FI_MR_CACHE_MONITOR=kdreg2");
    let mut library = hpe.library.unwrap();
    library.names.insert("FI_CXI_FORCE_DEV_REG_COPY".into(), ParameterType::Bool);
    let hpe = JobEvidence::new(settings_of_hpe(), BTreeMap::new());
    assert_eq!(judge(&JobEvidence { library: Some(library), ..hpe }), []);
}

fn settings_of_hpe() -> Vec<(String, String)> {
    settings("FI_MR_CACHE_MONITOR=kdreg2 ; FI_CXI_FORCE_DEV_REG_COPY=1")
}

#[test]
fn never_keeps_a_secret() {
    let text = "FI_CXI_COLL_MCAST_TOKEN=abc123 ; FI_CXI_API_KEY=abc123 ; NCCL_SECRET=abc123";
    let evidence = evidence("2.3", "", text);
    let process = ProcessSettings::new(&evidence);
    let check = JobCheck::new(
        SystemTime::UNIX_EPOCH,
        Duration::ZERO,
        &vec![("n1".into(), Ok(Rc::new(process)))],
    );
    let texts = [
        serde_json::to_string(&evidence).unwrap(),
        serde_json::to_string(&check).unwrap(),
        page(&check).text(TextStyle::Plain),
    ];
    assert!(texts.iter().all(|text| !text.contains("abc123")), "{texts:?}");
    assert!(texts[0].contains(SECRET), "{}", texts[0]);
}

fn answer(version: &str, environment: &str) -> Result<JobEvidence, String> {
    Ok(evidence(version, "", environment))
}

fn job(answers: Vec<(&str, Result<JobEvidence, String>)>) -> JobCheck {
    let answers = answers.into_iter().map(|(node, answer)| (node.to_owned(), answer)).collect();
    JobCheck::new(SystemTime::UNIX_EPOCH, Duration::ZERO, &judged(answers))
}

#[test]
fn names_ranks_that_differ() {
    let most = "FI_CXI_RX_MATCH_MODE=hybrid ; FI_CXI_DEVICE_NAME=cxi1 ; FI_CXI_OPTIMIZED_MRS=0";
    let few = "FI_CXI_DEVICE_NAME=cxi2";
    let mut answers = vec![("n1", answer("2.3", most)); 3];
    answers.push(("n2", answer("2.3", few)));
    answers.push(("n3", Err("it did not join".into())));
    let check = job(answers);
    let said = |code: &str| {
        let found: Vec<_> = check.findings.iter().filter(|found| found.code == code).collect();
        assert_eq!(found.len(), 1, "{code}");
        (found[0].severity, found[0].text.clone(), found[0].nodes.clone())
    };
    let text = "differs: hybrid on 3 ranks, unset on 1 (n2).";
    assert_eq!(said("R1"), (FindingSeverity::Note, text.into(), "n2".into()));
    let text = "must be equal in all processes: 0 on 3 ranks, 1 on 1 (n2).";
    assert_eq!(said("L51"), (FindingSeverity::Bad, text.into(), "n2".into()));
    assert_eq!(check.exit_status, 3);
    assert_eq!(check.summary, format!("FAIL L51 FI_CXI_OPTIMIZED_MRS: {text}"));
    let check = job(vec![("n1", answer("2.3", "")), ("n2", answer("1.22", ""))]);
    assert_eq!(check.findings[0].code, "R2");
    let expected = "differs: libfabric 1.22 at /opt/cray/libfabric/1.22/lib64/libfabric.so.1 on 1 rank, libfabric 2.3 at \
                    /opt/cray/libfabric/2.3/lib64/libfabric.so.1 on 1 (n1).";
    assert_eq!(check.findings[0].text, expected);
    assert_eq!(check.exit_status, 3);
    let nodes: Vec<(&str, _)> = ["n0", "n1", "n2", "n3", "n4", "n5"]
        .map(|node| (node, answer("2.3", &format!("MPICH_X={node}"))))
        .into();
    let text = job(nodes).findings.remove(0).text;
    let expected =
        "differs: n0 on 1 rank, n1 on 1 (n1), n2 on 1 (n2), n3 on 1 (n3), 2 more values.";
    assert_eq!(text, expected);
    let on = answer("2.3", "FI_CXI_OPTIMIZED_MRS=true ; FI_PROVIDER=cxi");
    let check = job(vec![("n1", on), ("n2", answer("2.3", ""))]);
    assert_eq!(check.summary, "FAIL R1 FI_PROVIDER: differs: cxi on 1 rank, unset on 1 (n2).");
}

#[test]
fn concludes_from_findings_and_what_was_not_asked() {
    let good = job(vec![("n1", answer("2.3", "FI_CXI_RX_MATCH_MODE=hybrid"))]);
    let path = "/opt/cray/libfabric/2.3/lib64/libfabric.so.1";
    let line = format!("OK 1 setting; libfabric 2.3 at {path} (a test) knows all names");
    assert_eq!((good.exit_status, &good.summary), (0, &line));
    let noted = job(vec![("n1", answer("2.3", "FI_LOG_LEVEL=9"))]);
    assert_eq!(noted.summary, format!("{line} (notes: L45 FI_LOG_LEVEL)"));
    let expected = format!(
        "{line} (notes: L45 FI_LOG_LEVEL)\n\nNOTE L45 FI_LOG_LEVEL=9\n  read as \
                            warn.\n  Source: libfabric src/log.c\n"
    );
    assert_eq!(page(&noted).text(TextStyle::Plain), expected);
    let bad = "FI_CXI_DEFAULT_TX_SIZE=32768 ; FI_CXI_FOO=1";
    let bad = job(vec![("n1", answer("2.3", bad))]);
    let line = "FAIL L2 FI_CXI_FOO=1: libfabric 2.3 does not know this name; it has no effect. (and 1 \
                more)";
    assert_eq!((bad.exit_status, bad.summary.as_str()), (3, line));
    assert_eq!(bad.result().unwrap_err().status(), 3);
    let unasked = JobEvidence::new(settings("FI_CXI_FOO=1"), BTreeMap::new());
    let unasked = JobEvidence { untested: vec!["no libfabric".into()], ..unasked };
    let check = job(vec![("n1", Ok(unasked))]);
    assert_eq!(
        (check.exit_status, check.summary.as_str()),
        (4, "UNDECIDED untested job: no libfabric")
    );
    let counts = families(&bad).into_iter().find(|family| family.name == "cxidiag_job_findings");
    assert_eq!(counts.unwrap().samples.len(), 2);
}

#[test]
fn findings_on_a_node_without_facts_say_something() {
    for line in table(include_str!("examples.txt")) {
        for library in [None, Some(library(line[1], &["cxi"]))] {
            let evidence = JobEvidence::new(settings(line[3]), BTreeMap::new());
            for finding in judge(&JobEvidence { library, ..evidence }) {
                let text = finding.text;
                assert!(
                    !text.is_empty() && !text.contains("()"),
                    "{line:?}: {} {text}",
                    finding.code
                );
            }
        }
    }
    let evidence = JobEvidence::new(settings("NCCL_NET=a\nb"), BTreeMap::new());
    assert_eq!(evidence.settings["NCCL_NET"], "a b");
}

#[test]
fn library_without_the_provider_is_one_finding() {
    let settings = "FI_CXI_FOO=1 ; FI_CXI_DEFAULT_TX_SIZE=32768 ; FI_CXI_RX_MATCH_MODE=Hybrid";
    let found = judge(&evidence("2.3", "-cxi", settings));
    let codes: Vec<&str> = found.iter().map(|finding| finding.code.as_str()).collect();
    assert_eq!(codes, ["L7"]);
}

#[test]
fn judges_the_names_by_each_library_of_a_process() {
    let found = judge(&evidence("2.3", "other=1.22", "FI_CXI_FORCE_DEV_REG_COPY=1"));
    let expected = "L49 Note other_libfabrics: this process has several libfabrics: \
                    /opt/cray/libfabric/2.3/lib64/libfabric.so.1 (2.3), \
                    /opt/cray/libfabric/1.22/lib64/libfabric.so.1 (1.22). / \n\
                    L5 Bad FI_CXI_FORCE_DEV_REG_COPY: needs libfabric 2.0 or later; this is 1.22. / \n";
    assert_eq!(text_of(&found), expected);
}

#[test]
fn ranks_share_the_answer_of_their_node() {
    let rank = |node: &'static str, is_first: bool, environment: &str| {
        let mut rank = evidence("2.3", "", environment);
        rank.file = "/opt/a/libfabric.so.1".into();
        rank.library = Some(LibfabricAnswer { tx_size: Some(1000), ..library("2.3", &["cxi"]) })
            .filter(|_| is_first);
        rank.is_asked_elsewhere = !is_first;
        (node, Ok(rank))
    };
    let wrong = "FI_CXI_DEFAULT_TX_SIZE=32768 ; FI_CXI_FOO=1";
    let check = job(vec![rank("n1", true, wrong), rank("n1", false, wrong)]);
    let found = |check: &JobCheck, code: &str| {
        let found = check.findings.iter().find(|found| found.code == code);
        found.map(|found| (found.text.clone(), found.processes))
    };
    let text = "above the limit 16384; libfabric uses its default 1000 instead, without a message.";
    assert_eq!(found(&check, "L13"), Some((text.into(), 2)));
    assert_eq!(found(&check, "L2").map(|(_, processes)| processes), Some(2));
    // The size is for a process with another setting.
    let check = job(vec![rank("n1", true, ""), rank("n1", false, wrong)]);
    assert_eq!(found(&check, "L13"), Some((text.replace("1000", "1024"), 1)));
    // Nobody on the node has asked this file.
    let (node, other) = rank("n1", false, "");
    let other = other.map(|other| JobEvidence { file: "/opt/b/libfabric.so.1".into(), ..other });
    let check = job(vec![rank("n1", true, ""), (node, other), rank("n2", false, "")]);
    let reason = |file: &str| {
        format!("/opt/{file}/libfabric.so.1: not asked by the first process of the node")
    };
    let untested: Vec<&str> = check
        .findings
        .iter()
        .filter(|found| found.code == "untested")
        .map(|found| found.text.as_str())
        .collect();
    assert_eq!(untested, [reason("b"), reason("a")]);
}

#[test]
fn says_of_which_names_libfabric_knows_all() {
    let path = "/opt/cray/libfabric/2.3/lib64/libfabric.so.1 (a test)";
    for (typed, known) in [
        ("FI_CXI_COMPAT=0", " (notes: L4 FI_CXI_COMPAT)"),
        ("FI_LOG_LEVEL=warn ; NCCL_CROSS_NIC=1", " knows all FI_ names"),
        ("NCCL_CROSS_NIC=1", ""),
    ] {
        let check = job(vec![("n1", answer("2.3", typed))]);
        let line = check.summary.split_once(path).map(|(_, rest)| rest);
        let notes = line.and_then(|line| line.strip_prefix(known));
        assert!(notes.is_some_and(|rest| rest.is_empty() || rest.starts_with(" (")), "{line:?}");
    }
}

#[test]
fn knows_families_and_secrets() {
    assert!(RULES.has("family", "OFI_NCCL_PROTOCOL") && !RULES.has("family", "FIXTURE"));
    assert!(
        RULES.has("secret", "FI_CXI_COLL_MCAST_TOKEN")
            && !RULES.has("secret", "FI_CXI_PROV_KEY_CACHE")
    );
}

/// A setting with a fault of this kind, and the rules that may name it.
fn planted(random: &mut Rng, kind: usize) -> (String, Vec<&'static str>) {
    match kind {
        0 => {
            // One letter or part is missing, twice, or at another place.
            let names = library("2.3", &["cxi", "cuda"]).names;
            let names: Vec<String> = names.into_keys().filter(|name| name.len() > 14).collect();
            let name = random.choice(&names).expect("names").clone();
            let place = 8 + random.usize(..name.len() - 9);
            let mut wrong = name.clone();
            match random.usize(..3) {
                0 => drop(wrong.remove(place)),
                1 => wrong.insert(place, 'Q'),
                _ => {
                    let letter = wrong.remove(place);
                    wrong.insert(place - 1, letter);
                }
            }
            if names.contains(&wrong) {
                wrong += "X";
            }
            (format!("{wrong}=1"), vec!["L1"])
        }
        1 => {
            let wrong = [
                ("FI_CXI_DEFAULT_TX_SIZE=", 16385, "L13"),
                ("FI_CXI_DEFAULT_RX_SIZE=", 15361, "L14"),
                ("FI_CXI_CQ_FILL_PERCENT=", 101, "L20"),
                ("FI_CXI_RDZV_THRESHOLD=", 12_582_913, "L15"),
                ("FI_CXI_RDZV_GET_MIN=", 12_582_912, "L17"),
            ];
            let (name, least, rule) = random.choice(wrong).expect("faults");
            (format!("{name}{}", least + random.usize(..1 << 20)), vec![rule])
        }
        2 => {
            let names = ["OFLOW_BUF_SIZE", "DEFAULT_CQ_SIZE", "RDZV_THRESHOLD", "DEFAULT_TX_SIZE"];
            let number = 1 + random.usize(..64);
            let unit = random.choice(["K", "M", "k", "MiB", "MB"]).expect("units");
            (format!("FI_CXI_{}={number}{unit}", random.choice(names).expect("names")), vec!["L8"])
        }
        3 => {
            let wrong = [
                ("FI_CXI_REQ_BUF_MIN_POSTED=6 ; FI_CXI_RX_MATCH_MODE=hardware", "L25"),
                ("FI_CXI_HYBRID_PREEMPTIVE=1 ; FI_CXI_RX_MATCH_MODE=software", "L24"),
                ("FI_MR_CACHE_MAX_COUNT=0 ; FI_MR_CACHE_MONITOR=kdreg2", "L38"),
                ("FI_CXI_OFLOW_BUF_COUNT=6 ; FI_CXI_OFLOW_BUF_MIN_POSTED=3", "L26"),
                ("FI_CXI_ATS_MLOCK_MODE=off", "L27"),
                ("FI_PROVIDER=tcp", "L39"),
                ("MPICH_OFI_NIC_POLICY=GPU ; MPICH_GPU_SUPPORT_ENABLED=0", "L2 M2"),
                ("OMPI_MCA_mtl=ofi ; OMPI_MCA_pml=ob1", "M10"),
            ];
            let (text, rules) = random.choice(wrong).expect("faults");
            (text.to_owned(), rules.split(' ').collect())
        }
        _ => {
            let wrong = [
                ("FI_CXI_RX_MATCH_MODE=Hybrid", "L12"),
                ("FI_CXI_RDZV_PROTO=altread", "L12"),
                ("FI_CXI_ODP=enabled", "L11"),
                ("FI_MR_CACHE_MONITOR=userfaultd", "L34"),
                ("FI_CXI_DEFAULT_CQ_SIZE=0131072", "L9"),
                ("NCCL_NET_GDR_LEVEL=phb", "N5"),
                ("FI_CXI_DEVICE_NAME=hsn0", "L21"),
            ];
            let (text, rule) = random.choice(wrong).expect("faults");
            (text.to_owned(), vec![rule])
        }
    }
}

#[test]
fn names_planted_faults_and_nothing_else() {
    let correct: Vec<_> = table(include_str!("public_sets.txt"))
        .filter(|line| {
            line[1] == "2.3" && !line.get(4).is_some_and(|codes| codes.contains(['L', 'N']))
        })
        .collect();
    assert!(correct.len() >= 8, "{}", correct.len());
    let mut random = Rng::with_seed(1);
    let (mut named, mut wrong) = (0, String::new());
    for number in 0..100 {
        let line = random.choice(&correct).expect("sets");
        let (fault, rules) = planted(&mut random, number % 5);
        // The set's own value gives way to the planted one.
        let mut all: BTreeMap<String, String> = settings(line[3]).into_iter().collect();
        let planted = settings(&fault);
        all.extend(planted.clone());
        let all: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let found = judge(&evidence(line[1], line[2], &all.join(" ; ")));
        let (right, others): (Vec<_>, Vec<_>) = found
            .into_iter()
            .filter(|found| found.severity == FindingSeverity::Bad)
            // The default protocol, which replaces the misspelt one, needs hardware rendezvous.
            .filter(|found| found.code != "L30" || !fault.contains("RDZV_PROTO"))
            .partition(|found| {
                let is_planted = planted.iter().any(|(name, _)| *name == found.setting);
                is_planted && rules.contains(&found.code.as_str())
            });
        named += usize::from(!right.is_empty());
        if right.is_empty() || !others.is_empty() {
            wrong += &format!("{fault} in {}: {}", line[0], text_of(&others));
        }
    }
    assert!(named >= 95 && wrong.matches(" Bad ").count() == 0, "{named}: {wrong}");
}
