//! `report`: results as one HTML page, which Chromium opens if it is installed.

#[path = "../harness/mod.rs"]
mod harness;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use harness::{Command, Fabric, assert_status, assert_success, finish, stderr, stdout};

/// NICs of the survey, in switches of four.
const NICS: u32 = 64;

/// The slow one of them.
const SLOW: u32 = 17;

/// A text that is dangerous if it is not escaped.
const HOSTILE: &str = "</script><script>alert(1)</script>";

/// Writes the page of `files` in `directory`, and returns it.
fn page(fabric: &Fabric, directory: &Path, files: &[&str]) -> String {
    let output = directory.join("page.html");
    let files: Vec<String> =
        files.iter().map(|file| directory.join(file).display().to_string()).collect();
    let command = format!("report {} -o {}", files.join(" "), output.display());
    assert_status(&fabric.run(&command), 0);
    fs::read_to_string(output).expect("a page")
}

/// Asserts that a page loads nothing, and that hostile text is text.
fn assert_self_contained(page: &str) {
    for outside in ["http:", "https:", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

/// A survey of [`NICS`] NICs, of which [`SLOW`] is slow and the last pair failed. One host has a
/// hostile name.
fn survey() -> Value {
    let nodes: Vec<Value> = (0..NICS)
        .map(|rank| match rank {
            40 => json!({"host": HOSTILE, "rank": rank, "absent": null}),
            _ => json!({"host": format!("nid{rank:06}"), "rank": rank, "absent": null}),
        })
        .collect();
    let nics: Vec<Value> = (0..NICS)
        .map(|nic| {
            let location = json!({"group": nic / 16, "switch": nic / 4 % 4, "port": nic % 4});
            json!({"node": nic, "device": "cxi0", "nid": nic, "location": location, "failure": null})
        })
        .collect();
    let mut cells = Vec::new();
    for initiator in 0..NICS {
        for target in (0..NICS).filter(|target| *target != initiator) {
            let is_slow = initiator == SLOW || target == SLOW;
            let ns = f64::from(1_900 + (initiator * 7 + target * 13) % 100);
            cells.push(json!([initiator, target, if is_slow { ns * 2.0 } else { ns }]));
        }
    }
    cells.pop();
    cells.push(json!([NICS - 1, NICS - 2, null]));
    let population = json!({
        "test": 0, "class": "other group", "count": 3000, "outside": 96, "failed": 0, "min": 1900.0,
        "percentiles": [1901.0, 1905.0, 1925.0, 1950.0, 1975.0, 1995.0, 3900.0], "max": 3998.0,
        "median_low": 1948.0, "median_high": 1952.0, "sigma": 30.0, "limit": 2535.0,
        "expected": 3000.0, "histogram": [[1900.0, 2904], [3800.0, 96]]
    });
    let evidence = json!({
        "test": 0, "class": "other group", "outside": 48, "measured": 48, "value": 3900.0,
        "median": 1950.0, "limit": 2535.0, "source": "population", "failure": null
    });
    json!({
        "schema_version": 1, "command": "survey", "cxidiag_version": "0.1.0", "conclusion": "bad",
        "exit_status": 3, "summary": "bad: 1 NIC; 63 of 64 NICs are good", "error": null,
        "started_unix_ms": 1_795_348_800_000u64, "elapsed_ms": 41_000, "is_software": false,
        "clock_uncertainty_ns": 900,
        "setup": {
            "arguments": ["write-lat", "--pairs=all"],
            "tests": [{"tool": "write-lat", "size_bytes": 8, "of_bandwidth": false}],
            "pairs": "all", "seed": 7, "nics_at_once": false, "max_active": null, "pair_s": 0.1,
            "time_limit_s": null, "expectations": [], "launcher": "slurm",
            "job": {"manager": "slurm", "id": "1234", "step": "0"}, "processes": NICS
        },
        "roster": {"nodes": nodes, "nics": nics},
        "verdict": {
            "culprits": [{
                "unit": {"nic": SLOW}, "word": "bad", "direction": "both",
                "evidence": [evidence],
                "witnesses": [{"nic": SLOW, "counter": "pct_retry_srb_requests", "change": 1204}]
            }],
            "untested": [{"unit": {"node": 40}, "reason": HOSTILE, "pairs": 3}],
            "unpaired": [],
            "populations": [population],
            "aggregates": [
                {"test": 0, "unit": {"group_pair": [0, 1]}, "count": 512, "median": 1950.0,
                 "worst": 3990.0, "outside": 32},
                {"test": 0, "unit": {"group": 0}, "count": 240, "median": 1940.0,
                 "worst": 1999.0, "outside": 0}
            ],
            "outside": [], "matrices": [{"test": 0, "cells": cells}],
            "planned": 4032, "answered": 4032
        }
    })
}

#[test]
fn draws_runs_and_comparisons() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let run = "write-lat --loopback -d soft0 -s 8:32 -n 50 --latency-gap=0 --quiet";
    let label = format!("--label=note={HOSTILE}");
    for (name, options) in [("a", "--histogram"), ("b", "--no-idc")] {
        let mut command = fabric.command(&format!("{run} --json={} {options}", at(name)));
        command.arg(&label);
        assert_success(&finish(command));
    }
    let compare = format!("compare {} {} --max-regress=9999% --json={}", at("a"), at("b"), at("c"));
    // A busy machine may make any run slower.
    let compared = fabric.run(&compare);
    assert!(matches!(compared.status.code(), Some(0 | 3 | 4)), "{}", stderr(&compared));
    let page = page(&fabric, directory.path(), &["a", "b", "c"]);
    assert_self_contained(&page);
    assert!(page.contains("no Cassini hardware"), "software NICs are named");
    for (words, count) in [
        ("Latency of each size: median and range of the runs", 2),
        ("How often each latency occurs, 16 B", 2),
        ("p50 of each size, base and new", 2),
        // The caption of a table, and its name for screen readers.
        ("Latencies</caption>", 2),
        ("compare write-lat", 1),
        // Which file is which: in the summary, and above each run.
        (&format!(">write-lat {}<", at("a")), 1),
        (&format!("{}: ", at("b")), 1),
        ("idc: true in base", 1),
    ] {
        assert_eq!(page.matches(words).count(), count, "{words}");
    }
    // From standard input to standard output, with each run of a file of many.
    let lines = fs::read(at("a")).expect("a run");
    let line: Value = serde_json::from_slice(&lines).expect("JSON");
    fs::write(at("lines"), format!("{line}\n{line}\n{line}\n{{\"cut")).expect("a file");
    let mut command = fabric.command("report - -o -");
    command.stdin(fs::File::open(at("lines")).expect("a file"));
    let output = finish(command);
    assert!(output.status.success());
    assert_eq!(stdout(&output).matches("<details class=\"run\"").count(), 3);
    assert!(stderr(&output).contains("standard input: line 4 is left out"));
}

/// The runs of the second file are three times as slow.
#[test]
fn compares_the_runs_of_two_files() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let run = "write-lat --loopback -d soft0 -s 8 -n 20 --latency-gap=0 --quiet";
    assert_success(&fabric.run(&format!("{run} --json={}", at("run"))));
    let text = fs::read_to_string(at("run")).expect("a run");
    let mut run: Value = serde_json::from_str(&text).expect("JSON");
    run["results"][0]["cpu_wait_percent"] = json!(0);
    for (name, median) in [("base.jsonl", 2_000), ("new.jsonl", 6_000)] {
        let line = |number: u64| {
            for percentile in run["results"][0]["latency"]["percentiles"].as_array_mut().unwrap() {
                percentile["value_ns"] = json!(median + number);
            }
            run.to_string() + "\n"
        };
        fs::write(at(name), (0..5).map(line).collect::<String>()).expect("a file");
    }
    let page = page(&fabric, directory.path(), &["base.jsonl", "new.jsonl"]);
    let title = page.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</h1>")).unwrap().0;
    assert!(title.contains("regressed") && title.contains("8 bytes"), "{title}");
    for (words, count) in [
        ("Comparison of write-lat</h2>", 1),
        // A line a file, and the runs one by one below.
        ("5 runs, the middle one: 8 B: median 2.00 us", 1),
        ("; the slowest one: 8 B: median 2.00 us", 1),
        ("5 runs, the middle one: 8 B: median 6.00 us", 1),
        ("<details class=\"run\"", 10),
        ("<figcaption>Latency of each run, 8 B</figcaption>", 1),
        ("<title>new.jsonl, 5: 6.00 us</title>", 1),
        // What was run, once.
        ("All options in effect", 1),
    ] {
        assert_eq!(page.matches(words).count(), count, "{words}");
    }
}

/// The text has no percentiles, a figure that is no number, and control characters.
#[test]
fn draws_old_logs() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let rule = "-".repeat(72);
    let text = format!(
        "{rule}\n    CXI RDMA Write Latency Test\nDevice           : cxi\u{1b}[2J0\r\n{rule}\n\
         RDMA Size[B]      Writes     Min[us]     Max[us]    Mean[us]  StdDev[us]\n           \
         8         100        1.61        5.56        3.49        -nan\n{rule}\n"
    );
    fs::write(directory.path().join("log"), text).expect("a file");
    let page = page(&fabric, directory.path(), &["log"]);
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'), "{page:?}");
    assert!(page.contains("cxi\\x1b[2J0"));
    let row = page.split("<th scope=\"row\"").find(|row| row.contains(">8 B<")).expect("a row");
    let cells: Vec<&str> = row.split("<td class=\"number\">").skip(1).collect();
    let cells: Vec<&str> = cells.iter().filter_map(|cell| cell.split('<').next()).collect();
    let expected = ["100", "1.61 us", "-", "-", "-", "-", "-", "5.56 us", "3.49 us", "-"];
    assert_eq!(cells, expected);
    let text = format!(
        "{rule}\n    CXI RDMA Write Bandwidth Test\n{rule}\n\
         RDMA Size[B]      Writes  BW[MB/s]  PktRate[Mpkt/s]\n           8  100  inf  1.0\n{rule}\n"
    );
    fs::write(directory.path().join("log"), text).expect("a file");
    assert!(self::page(&fabric, directory.path(), &["log"]).contains("without figures"));
}

/// Without --output, the page of one file stands beside it.
#[test]
fn names_the_page_after_its_only_file() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let tool = format!("write-lat --loopback -d soft0 -n 20 --json={}", path("run.json"));
    assert_success(&fabric.run(&tool));
    let output = fabric.run(&format!("report {}", path("run.json")));
    assert_success(&output);
    assert_eq!(stdout(&output), format!("the page is {}\n", path("run.html")));
    assert!(Path::new(&path("run.html")).exists());
}

#[test]
fn refuses_what_it_cannot_draw() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    fs::write(at("text"), "no JSON").expect("a file");
    fs::write(at("other"), r#"{"schema_version":1,"nics":[]}"#).expect("a file");
    let page = at("page.html");
    for (arguments, status, words) in [
        (format!("-o {page}"), 2, "there are no files with results"),
        (format!("{} {}", at("text"), at("other")), 2, "--output names no file for the page"),
        (format!("- - -o {page}"), 2, "can be read only once"),
        (format!("{0} -o {0}", at("text")), 2, "which would be replaced"),
        (format!("{} -o {page}", at("text")), 1, "not valid JSON"),
        (format!("{} -o {page}", at("other")), 1, "not a result that can be drawn"),
        (format!("{} -o {page}", at("missing")), 1, "No such file"),
        (format!("{} -o {}/no/page", at("text"), at("")), 1, "cannot write"),
    ] {
        let error = assert_status(&fabric.run(&format!("report {arguments}")), status);
        assert!(error.contains(words), "{arguments}: {error}");
        assert!(!Path::new(&page).exists(), "{arguments}");
    }
}

/// Opens a page in Chromium as a reader does who sorts the map by badness, and moves to the first
/// pair and one to the right by keys. Returns the document afterwards, with the labels of the rows
/// before as `data-first-labels`, and the console. `None` if Chromium is not installed; `tests/run`
/// installs it.
fn opened(page: &str) -> Option<(String, String)> {
    const READER: &str = r#"<script>
        const labels = [...document.querySelectorAll(".y.labels > span")];
        document.body.dataset.firstLabels = labels.map((label) => label.textContent).join();
        const choice = document.querySelector(".map select");
        choice.value = "by_badness";
        choice.dispatchEvent(new Event("change"));
        const canvas = document.querySelector(".map canvas");
        for (const key of ["ArrowDown", "ArrowRight", "+"]) {
            canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
        }
    </script>"#;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("page.html");
    fs::write(&file, page.replace("</body>", &format!("{READER}</body>"))).expect("a page");
    let child = Command::new("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(["--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(child) = child else {
        eprintln!("not tested: chromium is not installed");
        return None;
    };
    let output = child.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    let console = stderr(&output);
    let console = console.lines().filter(|line| line.contains(":CONSOLE"));
    Some((stdout(&output), console.collect::<Vec<_>>().join("\n")))
}

#[test]
fn names_the_files_of_surveys_the_worst_first() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let mut good = survey();
    good["conclusion"] = json!("good");
    for (name, survey) in [("tuesday", good), ("monday", survey())] {
        fs::write(directory.path().join(name), survey.to_string()).expect("a file");
    }
    let page = page(&fabric, directory.path(), &["tuesday", "monday"]);
    // The slow NIC was bad in both surveys.
    assert!(page.contains("History of NICs</h2>"));
    assert_eq!(page.matches("<td class=\"state bad\"").count(), 2);
    for start in ["\">survey ", "<h2>Survey "] {
        let names: Vec<&str> = page
            .split(start)
            .skip(1)
            .filter_map(|rest| rest.split_once('<')?.0.rsplit('/').next())
            .collect();
        assert_eq!(names, ["monday", "tuesday"], "{start}");
    }
}

#[test]
fn draws_survey_with_a_map_of_all_pairs() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("survey"), survey().to_string()).expect("a file");
    let page = page(&fabric, directory.path(), &["survey"]);
    assert_self_contained(&page);
    // Without JavaScript, the tables have the verdict.
    for words in [
        "1 NIC; 63 of 64 NICs are good",
        "nid000017 cxi0",
        "1,204 retries",
        "limit 2.54 us",
        "expected 3.00 us",
        "median between groups",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // What people look for comes first: the verdict, the names, the map, the causes, the rest.
    let places = [
        "<strong>nid000017 cxi0",
        "<figure class=\"map\"",
        "What is to blame",
        "<caption>Untested",
        "How many pairs have which figure",
    ];
    let places = places.map(|words| page.find(words).expect(words));
    assert!(places.is_sorted(), "{places:?}");
    let summary = "pairs of 64 NICs, 1 failed; figures from 1.90 us to 4.00 us. Worst NIC: \
                   nid000017 cxi0, ";
    assert!(page.contains(summary), "{page}");
    let Some((document, console)) = opened(&page) else {
        return;
    };
    assert_eq!(console, "");
    assert!(document.contains("role=\"img\" aria-label=\"Map of write-lat 8: 4,032 pairs"));
    assert!(document.contains(&format!("data-pairs=\"{}\"", NICS * (NICS - 1))));
    assert!(document.contains("</span>not planned</span>"), "the diagonal");
    // There is room for the names of switches, and after a zoom for the names of NICs.
    let switches = (0..16).map(|number| format!("{:03}.{:02}", number / 4, number % 4));
    let switches = switches.collect::<Vec<_>>().join(",");
    assert!(document.contains(&format!("data-first-labels=\"{switches}\"")));
    for (axis, title) in [("x", "Targets"), ("y", "Initiators")] {
        let title = format!("<div class=\"{axis} title\" aria-hidden=\"true\">{title}</div>");
        assert!(document.contains(&title), "{title}");
        let (_, labels) = document.split_once(&format!("class=\"{axis} labels\"")).expect("labels");
        let (_, first) = labels.split_once("<span>").expect("a label");
        assert!(first.starts_with("nid000017 cxi0</span>"), "{axis}");
    }
    // The worst NIC is the first row; the second column is the worst of the others.
    let (_, tip) = document.split_once("class=\"tip\"").expect("a tip");
    let (_, tip) = tip.split_once('>').expect("a tip");
    let (tip, _) = tip.split_once("</div>").expect("a tip");
    assert!(tip.starts_with("nid000017 cxi0 to "), "{tip}");
    let lines: Vec<&str> = tip.lines().collect();
    assert!(lines[1].starts_with("3.") && lines[1].ends_with(" us"), "{tip}");
}

/// Returns what `stat` writes about two nodes, of which one has timeouts in the third second. One
/// host has a hostile name.
fn stat() -> Value {
    let counters = |timeouts: u64| {
        json!({
            "hni_sts_tx_ok_octets": {"before": 0, "after": 8_000_000, "delta": 8_000_000,
                "seconds": 8.0},
            "retry_handler/spt_timeouts": {"before": 1, "after": 1 + timeouts, "delta": timeouts,
                "seconds": 8.0},
            "pct_retry_srb_requests": null
        })
    };
    let nic = |host: &str, timeouts| {
        json!({"host": host, "device": "cxi0", "is_software": true, "serial": null,
            "counters": counters(timeouts)})
    };
    let intervals: Vec<Value> = (0..8)
        .map(|second| {
            let timeouts = if second == 2 { 320 } else { 0 };
            json!({"unix_ms": 1_795_348_801_000u64 + 1000 * second,
                "counts": [[1_000_000, timeouts]]})
        })
        .collect();
    json!({
        "schema_version": 1, "cxidiag_version": "0.1.0", "command": "stat", "program": [HOSTILE],
        "exit_status": null, "signal": 9, "job": "Slurm job 1234 step 0", "set": "job",
        "started_unix_ms": 1_795_348_800_000u64, "seconds": 8.0,
        "nodes": [
            {"host": "nid1", "has_end": true, "still_running": 0},
            {"host": HOSTILE, "has_end": false, "still_running": 0}
        ],
        "missing_nodes": ["nid3"],
        "nics": [nic("nid1", 320), nic(HOSTILE, 0)],
        "findings": [
            {"code": "timeouts", "nics": [{"host": "nid1", "device": "cxi0"}], "value": 320.0,
             "limit": "0", "source": "Open MPI",
             "text": "packets were sent again on 1 of 2 NICs: nid1 cxi0, 320 timeouts"},
            {"code": "short", "nics": [], "value": 8.0, "limit": "5 s", "source": "Open MPI",
             "text": HOSTILE}
        ],
        "series": [{
            "host": "nid1", "counters": ["hni_sts_tx_ok_octets", "retry_handler/spt_timeouts"],
            "devices": ["cxi0"], "started_unix_ms": 1_795_348_800_000u64, "intervals": intervals
        }]
    })
}

#[test]
fn draws_what_nics_did_while_a_command_ran() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let mut good = stat();
    good["findings"] = json!([]);
    good["series"] = json!([]);
    for (name, document) in [("bad", stat()), ("good", good)] {
        fs::write(directory.path().join(name), document.to_string()).expect("a file");
    }
    let page = page(&fabric, directory.path(), &["good", "bad"]);
    assert_self_contained(&page);
    let expected = [
        ("no Cassini hardware", 1),
        ("/bad</h2>", 1),
        // In the headline, in the summary and in the section.
        ("packets were sent again on 1 of 2 NICs: nid1 cxi0, 320 timeouts", 3),
        ("all 320 timeouts of nid1 cxi0 between 12:00:02 and 12:00:03", 1),
        ("nothing from nid3", 2),
        ("<th scope=\"row\" class=\"words\">nid1 cxi0</th>", 2),
        (">8.0 MB<", 4),
        (">320<", 2),
        // A caption, and the name of the picture for readers who do not see it.
        ("Timeouts over time, of the NICs with most", 2),
        ("Sent over time, of the NICs with most", 2),
        ("Lost code words and replays over time", 0),
        ("nid1 cxi0, 3 s: 320 /s", 1),
        ("ended by signal 9", 2),
        ("Slurm job 1234 step 0", 2),
    ];
    let found = expected.map(|(words, _)| (words, page.matches(words).count()));
    assert_eq!(found, expected);
    // The worst one comes first.
    let badges = ["</span>unusual", "</span>readings missing"];
    let places = badges.map(|words| page.find(words).expect(words));
    assert!(places.is_sorted(), "{places:?}");
    let mut newer = stat();
    newer["schema_version"] = json!(2);
    fs::write(directory.path().join("newer"), newer.to_string()).expect("a file");
    let newer = directory.path().join("newer").display().to_string();
    let error = assert_status(&fabric.run(&format!("report {newer} -o -")), 1);
    assert!(error.contains("version"), "{error}");
}
