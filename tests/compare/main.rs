//! `cxidiag compare` on documents that tools wrote, changed where a test needs it.

#[path = "../harness/mod.rs"]
mod harness;
mod layers;

use std::fs::File;
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use harness::short_runs::{document, short};
use harness::{Fabric, assert_status, assert_success, finish, schema, stderr, stdout};

/// A limit above the noise of any run.
const ANY_CHANGE: &str = "--max-regress=9999%";

/// The schema of what `compare --json` writes.
const COMPARISON: &str = include_str!("../../docs/comparison.schema.json");

/// The schema of what `compare --json` writes of surveys and checks.
const CHANGES: &str = include_str!("../../docs/changes.schema.json");

/// Two documents of one tool, from which files are made.
struct Pair {
    directory: tempfile::TempDir,
    base: Value,
    new: Value,
}

impl Pair {
    /// A result of `tool` on a quiet machine, twice.
    fn of(tool: &str) -> Self {
        let mut document = document(&short(tool, &["--json", "--quiet"]));
        for result in document["results"].as_array_mut().unwrap() {
            result["cpu_wait_percent"] = 0.0.into();
        }
        Self { directory: tempfile::tempdir().unwrap(), base: document.clone(), new: document }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn compare(&self, options: &[&str]) -> Output {
        let base = self.file("base", &self.base.to_string());
        let new = self.file("new", &self.new.to_string());
        let files = [base.to_str().unwrap(), new.to_str().unwrap()];
        Fabric::new().run(&[&["compare"], &files[..], options].concat())
    }

    /// Compares runs with these medians, one run on each line of a file for each side.
    fn compare_medians(&self, base: &[u64], new: &[u64], options: &[&str]) -> Output {
        let lines = |medians: &[u64]| {
            let line = |&ns: &u64| {
                let mut run = self.base.clone();
                set_latencies(&mut run, 0, ns);
                set_latencies(&mut run, 1, 1_000);
                run.to_string() + "\n"
            };
            medians.iter().map(line).collect::<String>()
        };
        let (base, new) = (self.file("base", &lines(base)), self.file("new", &lines(new)));
        let files = [base.to_str().unwrap(), "--", new.to_str().unwrap()];
        Fabric::new().run(&[&["compare"], &files[..], options].concat())
    }
}

/// Sets the latencies of a size: the median, a minimum 1 % below and percentiles 1 % above.
fn set_latencies(document: &mut Value, at: usize, ns: u64) {
    let latency = &mut document["results"][at]["latency"];
    latency["min_ns"] = (ns - ns / 100).into();
    for percentile in latency["percentiles"].as_array_mut().unwrap() {
        percentile["value_ns"] = (ns + ns / 100).into();
    }
    latency["percentiles"][0]["value_ns"] = ns.into();
}

fn with_medians(base: [u64; 2], new: [u64; 2]) -> Pair {
    let mut pair = Pair::of("write-lat");
    for at in 0..2 {
        set_latencies(&mut pair.base, at, base[at]);
        set_latencies(&mut pair.new, at, new[at]);
    }
    pair
}

/// A program that reads the document also reads why there are no results.
#[test]
fn commands_that_fail_write_the_document_of_a_failure() {
    let fabric = Fabric::new();
    for (args, message) in [
        ("compare /nonexistent /dev/null", "cannot read /nonexistent"),
        ("why cxi9", "there is no cxi9"),
        ("selftest -d cxi9", "cannot open device cxi9"),
        ("devices cxi9", "cannot open device cxi9"),
    ] {
        let mut command = fabric.command(&format!("{args} --json"));
        command.env("CXIDIAG_LIBCXI", "/nonexistent");
        let output = finish(command);
        let error = assert_status(&output, 1);
        let document: Value = serde_json::from_str(&stdout(&output)).expect(args);
        assert_eq!(document["cxidiag_version"], env!("CARGO_PKG_VERSION"));
        let problem = match &document["error"] {
            // The NIC has the error in the document of `devices`.
            Value::Null => &document["devices"][0]["error"],
            problem => problem,
        };
        let text = problem["message"].as_str().expect(args);
        assert!(text.contains(message) && error.contains(text), "{problem} {error}");
    }
}

#[test]
fn compares_the_median_of_each_size() {
    let pair = with_medians([2_000, 4_000], [2_100, 2_000]);
    let output = pair.compare(&[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "5 % are allowed: {text}");
    for row in [
        "      8  p50[us]   2.000   1.0%    2.100   1.0%    +5.00%  ok\n",
        "   4.000   1.0%    2.000   1.0%   -50.00%  improved\n",
    ] {
        let spaces = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(spaces(&text).contains(&spaces(row)), "{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let output = pair.compare(&["--max-regress", "4.99%"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("+5.00%  regressed\n"));
    let said = stderr(&output);
    assert!(said.contains("more than 4.99%: 8 bytes\n"), "{said}");
    // Equal means, whose noise hides changes of 1 %.
    let mut pair = with_medians([2_000, 4_000], [2_000, 4_000]);
    for run in [&mut pair.base, &mut pair.new] {
        for (at, mean) in [2_000.0, 4_000.0].into_iter().enumerate() {
            let latency = &mut run["results"][at]["latency"];
            latency["mean_ns"] = mean.into();
            latency["standard_deviation_ns"] = (mean / 100.0).into();
        }
    }
    for (limit, status) in [("0", 4), ("3%", 0)] {
        let output = pair.compare(&["--figure=mean", "--max-regress", limit]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
    }
}

#[test]
fn one_run_a_side_must_differ_by_more_than_its_samples() {
    let mut pair = with_medians([2_000, 4_000], [2_200, 4_000]);
    assert_eq!(pair.compare(&[]).status.code(), Some(3));
    // A tenth of the samples of the base are slower than the median of the new run.
    pair.base["results"][0]["latency"]["percentiles"][1]["value_ns"] = 2_200.into();
    let output = pair.compare(&[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("+10.00%  within noise\n"), "{text}");
    assert!(text.contains("Within noise: 8 bytes. "), "{text}");
    assert!(text.contains("measure 5 runs or more for each side"), "{text}");
    // The new run has faster samples than the median of the base.
    let mut pair = with_medians([2_000, 4_000], [2_200, 4_000]);
    pair.new["results"][0]["latency"]["min_ns"] = 2_000.into();
    assert_eq!(pair.compare(&[]).status.code(), Some(4));
}

#[test]
fn run_without_the_metric_leaves_noise_of_others_known() {
    let pair = with_medians([2_000, 4_000], [2_200, 4_000]);
    let (base, new) = (pair.base.to_string(), pair.new.to_string());
    let mut without = pair.base.clone();
    without["results"][0]["latency"] = Value::Null;
    let base = pair.file("base", &format!("{without}\n{base}\n"));
    let new = pair.file("new", &new);
    let [base, new] = [&base, &new].map(|file| file.to_str().unwrap());
    let output = Fabric::new().run(&["compare", base, "--", new]);
    let text = stdout(&output);
    assert!(text.contains("+10.00%  regressed\n"), "{text}");
}

#[test]
fn a_run_that_waited_for_its_cpu_decides_nothing() {
    let mut pair = with_medians([2_000, 4_000], [9_000, 4_000]);
    pair.new["results"][0]["cpu_wait_percent"] = 30.0.into();
    let output = pair.compare(&[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("+350.00%  unclear\n"), "{text}");
    assert!(text.contains("Unclear: 8 bytes. "), "{text}");
}

#[test]
fn noise_above_the_limit_leaves_a_small_change_unclear() {
    let mut pair = with_medians([2_000, 4_000], [2_040, 4_000]);
    pair.base["results"][0]["latency"]["percentiles"][1]["value_ns"] = 10_760.into();
    let output = pair.compare(&[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("+2.00%  unclear\n"), "{text}");
    let said = stderr(&output);
    assert!(said.contains("unclear: 8 bytes: would have found a change of 438%"), "{said}");
    assert_eq!(pair.compare(&["--max-regress=439%"]).status.code(), Some(0));
    let document: Value = serde_json::from_slice(&pair.compare(&["--json"]).stdout).unwrap();
    let detectable =
        |at: usize| document["groups"][0]["sizes"][at]["detectable_percent"].as_f64().unwrap();
    assert!((detectable(0) - 438.0).abs() < 0.1 && detectable(1) < 1.1);
    // Rates that fall, in runs that are ranked and not ranked.
    let mut pair = Pair::of("send-bw");
    pair.base["results"][0]["bandwidth"]["bandwidth_bytes_per_s"] = 24e9.into();
    pair.new = pair.base.clone();
    let output = pair.compare(&[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("would have found a change of 33%"), "{said}");
    assert_eq!(pair.compare(&["--max-regress=34%"]).status.code(), Some(0));
    let pair = Pair::of("write-lat");
    let spread = [1_000, 1_500, 2_000, 2_500, 3_000];
    let output = pair.compare_medians(&spread, &spread, &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("would have found a change of "), "{said}");
}

/// Other programs do not slow the median down by a factor of 10.
#[test]
fn large_change_counts_in_runs_that_waited_for_their_cpu() {
    let mut pair = with_medians([2_000, 4_000], [21_000, 4_000]);
    pair.new["results"][0]["cpu_wait_percent"] = 30.0.into();
    let output = pair.compare(&[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("+950.00%  regressed\n"), "{text}");
}

#[test]
fn percentile_of_all_documents_can_decide() {
    let mut pair = with_medians([2_000, 4_000], [2_000, 4_000]);
    let error = stderr(&pair.compare(&["--figure=p95"]));
    let expected =
        "base has only p50, p90, p99, p99.9, p99.99, p100 (see --percentiles=95 of the tool)";
    assert!(error.contains(expected), "{error}");
    for (run, ns) in [(&mut pair.base, 2_100), (&mut pair.new, 2_900)] {
        run["options"]["percentiles"] = json!([95.0]);
        for result in run["results"].as_array_mut().unwrap() {
            let percentiles = result["latency"]["percentiles"].as_array_mut().unwrap();
            let mut p95 = percentiles[0].clone();
            p95["percent"] = 95.0.into();
            p95["value_ns"] = ns.into();
            percentiles.push(p95);
        }
    }
    let text = stdout(&pair.compare(&["--figure=p95"]));
    let row = text.lines().find(|line| line.contains(" p95[us] ")).unwrap();
    assert!(row.contains("2.100") && row.contains("2.900") && row.contains("+38.10%"), "{text}");
}

#[test]
fn document_replaces_no_file_that_is_compared() {
    let pair = with_medians([2_000, 4_000], [2_000, 4_000]);
    let output = pair.file("base", &pair.base.to_string());
    let error = stderr(&pair.compare(&[&format!("--json={}", output.display())]));
    assert!(error.contains("for --json: this is a file with results"), "{error}");
    assert_eq!(std::fs::read_to_string(output).unwrap(), pair.base.to_string());
}

#[test]
fn many_runs_are_ranked() {
    let pair = Pair::of("write-lat");
    let base = [2_000, 2_010, 2_020, 2_030, 2_040];
    let verdict = |new: &[u64]| {
        let output = pair.compare_medians(&base, new, &["--json"]);
        let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sizes = &comparison["groups"][0]["sizes"];
        let size = &sizes[0];
        assert_eq!(size["test"], "mann_whitney_u");
        let unchanged = &sizes[1];
        assert_eq!(unchanged["verdict"], "ok");
        assert_eq!(unchanged["p_value"], Value::Null);
        let verdict = size["verdict"].as_str().unwrap().to_owned();
        (output.status.code(), verdict, size["p_value"].as_f64().unwrap())
    };
    let (status, word, p_value) = verdict(&[2_300, 2_310, 2_320, 2_330, 2_340]);
    assert_eq!((status, word.as_str()), (Some(3), "regressed"));
    assert!((p_value - 1.0 / 252.0).abs() < 1e-9, "{p_value}");
    let (status, word, _) = verdict(&[1_700, 1_710, 1_720, 1_730, 1_740]);
    assert_eq!((status, word.as_str()), (Some(0), "improved"));
    // Two fast runs among the slow ones.
    let (status, word, p_value) = verdict(&[2_005, 2_015, 2_320, 2_330, 2_340]);
    assert_eq!((status, word.as_str()), (Some(4), "within_noise"));
    assert!(p_value > 0.01, "{p_value}");
    // A clear change below the limit.
    let (status, word, _) = verdict(&[2_060, 2_061, 2_062, 2_063, 2_064]);
    assert_eq!((status, word.as_str()), (Some(0), "ok"));

    let text = stdout(&pair.compare_medians(&base, &base, &[]));
    assert!(text.contains("(5 runs, soft"), "{text}");
    assert!(text.contains("Mann-Whitney U of the runs, 1% for each size and direction"), "{text}");
}

/// The added latency is longer than the time slices of a busy machine.
#[test]
fn finds_a_slower_link() {
    let directory = tempfile::tempdir().unwrap();
    let runs = |name: &str, link: &str| {
        let path = directory.path().join(name);
        let option = format!("--jsonl={}", path.display());
        let few = ["-n", "9", "--warmup=1", "--latency-gap=0"];
        let arguments = [&["write-lat", "--loopback", "-d", "soft0", &option], &few[..]].concat();
        for _ in 0..5 {
            let fabric = Fabric::new();
            let mut command = fabric.command(&arguments[..]);
            command.env("CXIDIAG_LINK", link);
            assert_success(&command.output().unwrap());
        }
        path.to_str().unwrap().to_owned()
    };
    let (base, new) = (runs("base", "latency=1us"), runs("new", "latency=20ms"));
    let compare = |files: [&str; 2]| Fabric::new().run(&["compare", files[0], files[1]]);
    let output = compare([&base, &new]);
    assert_eq!(output.status.code(), Some(3), "{}", stdout(&output));
    assert_eq!(compare([&new, &base]).status.code(), Some(0));
}

#[test]
fn treats_lower_bandwidth_as_worse() {
    let mut pair = Pair::of("send-bw");
    let bandwidth = |document: &mut Value, value: f64| {
        for at in 0..2 {
            document["results"][at]["bandwidth"]["bandwidth_bytes_per_s"] = value.into();
        }
    };
    bandwidth(&mut pair.base, 24e9);
    bandwidth(&mut pair.new, 12e9);
    let output = pair.compare(&[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("24000.0    33%  12000.0    33%  -50.00%  regressed\n"), "{text}");
    assert!(text.contains("Noise of 33% is assumed"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert_eq!(pair.compare(&["--max-regress=50%"]).status.code(), Some(0));
    // Smaller changes need intervals: six of one second, of one side.
    bandwidth(&mut pair.new, 22e9);
    assert!(stdout(&pair.compare(&[])).contains("-8.33%  within noise\n"));
    for document in [&mut pair.base, &mut pair.new] {
        for result in document["results"].as_array_mut().unwrap() {
            let row = |at: u64| {
                json!({
                    "start_s": at, "end_s": at + 1, "count": 1, "mean_ns": null, "p99_ns": null,
                    "bandwidth_bytes_per_s": 1000 + at, "packet_rate_packets_per_s": 1
                })
            };
            let rows: Vec<Value> = (0..6).map(row).collect();
            result["intervals"] =
                json!({"interval_s": 1, "rows": rows, "min": null, "p5": null, "max": null});
        }
    }
    let output = pair.compare(&[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("-8.33%  regressed\n") && !text.contains("assumed"), "{text}");
}

#[test]
fn treats_unmeasured_size_as_regressed() {
    let mut pair = with_medians([2_000, 4_000], [2_000, 4_000]);
    pair.new["results"][1]["extent"] = "partial".into();
    let output = pair.compare(&["--max-regress=1000%"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("not measured completely: 16 bytes"));
    // A size that is incomplete in the base is not compared.
    std::mem::swap(&mut pair.base, &mut pair.new);
    let output = pair.compare(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("  no base\n"));
    pair.base["results"] = json!([]);
    let output = pair.compare(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nothing to compare"));
}

#[test]
fn names_differences_of_the_runs() {
    let mut pair = Pair::of("write-lat");
    assert!(!stdout(&pair.compare(&[])).contains("Difference"));
    pair.new["options"]["idc"] = false.into();
    pair.new["options"]["port"] = 5.into();
    let text = stdout(&pair.compare(&[]));
    assert!(text.contains("Difference       : idc: true in base, false in new\n"), "{text}");
    assert_eq!(text.matches("Difference").count(), 1, "{text}");
    pair.base["device"]["is_software"] = false.into();
    pair.new["status"] = "failed".into();
    pair.base["clock"]["name"] = "TSC".into();
    pair.new["clock"]["name"] = "CLOCK_MONOTONIC_RAW".into();
    // An older document names no class.
    pair.base["device"]["traffic_class"] = Value::Null;
    pair.new["device"]["traffic_class"] = "LOW_LATENCY".into();
    let text = stdout(&pair.compare(&[]));
    for line in [
        "Difference       : traffic class: BEST_EFFORT in base, LOW_LATENCY in new\n",
        "Difference       : clock: TSC in base, CLOCK_MONOTONIC_RAW in new\n",
        "Difference       : NIC: hardware in base, software in new\n",
        "Difference       : new is incomplete: failed\n",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    // Runs of one side are compared with its first one.
    pair.new["options"]["idc"] = true.into();
    pair.new["options"]["iters"] = 77.into();
    let iters = pair.base["options"]["iters"].clone();
    let (base, new) = (pair.base.to_string(), pair.new.to_string());
    let mixed = pair.file("mixed", &format!("{base}\n{new}\n"));
    let mixed = mixed.to_str().unwrap();
    let output = Fabric::new().run(&["compare", mixed, "--", mixed]);
    let text = stdout(&output);
    let line = format!("Difference       : iters: {iters} in new run 1, 77 in new run 2\n");
    assert!(text.contains(&line), "{text}");
}

#[test]
fn counts_client_and_server_of_a_run_once() {
    let mut pair = Pair::of("write-lat");
    pair.new["side"] = "server".into();
    pair.new["options"]["percentiles"] = json!([95.0]);
    let both = format!("{}\n{}\n", pair.base, pair.new);
    let both = pair.file("both", &both.repeat(5));
    let server = pair.file("server", &pair.new.to_string());
    let compare = |files: [&PathBuf; 2]| {
        let [base, new] = files.map(|file| file.to_str().unwrap());
        Fabric::new().run(&["compare", base, "--", new])
    };
    let output = compare([&both, &both]);
    let (text, said) = (stdout(&output), stderr(&output));
    assert_eq!(text.matches("(5 runs, ").count(), 2, "{text}");
    assert!(!text.contains("Difference"), "{text}");
    let warning = "5 documents of servers are left out: those of clients are used\n";
    assert_eq!(said.matches(warning).count(), 2, "{said}");
    // A server's documents alone are used. Percentiles that are printed change no result.
    let output = compare([&both, &server]);
    let text = stdout(&output);
    assert_eq!(text.matches("Difference").count(), 1, "{text}");
    assert!(text.contains(": new has documents of servers\n"), "{text}");
}

#[test]
fn reads_lines_and_standard_input() {
    let pair = Pair::of("write-lat");
    let run = pair.base.to_string();
    let torn = pair.file("torn", &format!("{run}\n{}\n\n{run}\n", &run[..run.len() / 2]));
    let base = pair.file("base", &run);
    let mut command = Fabric::new().command(&[
        "compare",
        torn.to_str().unwrap(),
        "--",
        "-",
        "--json",
        ANY_CHANGE,
    ]);
    command.stdin(File::open(&base).unwrap());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check_against(COMPARISON, &comparison);
    let group = &comparison["groups"][0];
    assert_eq!(group["base"].as_array().unwrap().len(), 2);
    assert_eq!(group["new"][0]["file"], "-");
    let said = stderr(&output);
    assert!(said.contains("torn: line 2 is left out: not valid JSON: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    let file = pair.directory.path().join("comparison.json");
    let option = format!("--json={}", file.display());
    let output = pair.compare(&[&option]);
    assert!(stdout(&output).contains("Verdict"));
    let comparison = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    schema::check_against(COMPARISON, &comparison);
}

#[test]
fn checks_stored_runs_against_bounds() {
    let mut pair = with_medians([2_000, 1_000], [2_000, 1_000]);
    pair.new["results"][1]["extent"] = "partial".into();
    let (base, new) = (pair.base.to_string(), pair.new.to_string());
    let both = pair.file("both", &format!("{base}\n{new}\n"));
    let text = pair.file("text", &stdout(&short("write-lat", &[])));
    let bounds = pair.file("bounds", "# of an acceptance\np50<=2us\n8:p50>1us # both\n");
    let [both, text] = [&both, &text].map(|file| file.to_str().unwrap());
    let check = |arguments: &[&str]| Fabric::new().run(&[&["compare"], arguments].concat());
    let file_of_bounds = format!("--expect=@{}", bounds.display());
    let output = check(&[&file_of_bounds, both]);
    assert_status(&output, 3);
    let table = stdout(&output);
    let verdicts: Vec<&str> =
        table.lines().skip(1).filter_map(|line| line.rsplit("  ").next()).collect();
    let expected = ["met", "met", "met", "met", "not measured completely", "met"];
    assert_eq!(verdicts, expected, "{table}");
    assert!(stderr(&output).contains("not met: 1 of 6 bounds"), "{}", stderr(&output));

    // Text has no percentiles.
    assert_status(&check(&["--expect=mean<1000s", text]), 0);
    for arguments in [
        &["--expect=p99<1000s", text][..],
        &["--expect=bw>1MB/s", text],
        &["--expect=p50<1us"],
        &["--expect=p50<1us", both, "--", both],
        &["--expect=p50<1us", "--figure=mean", both],
        &["--expect=p50<1us", "--json", both],
        &["--expect=p50<1GB/s", both],
    ] {
        assert_status(&check(arguments), 2);
    }
}

#[test]
fn compares_checks_and_writes_markdown() {
    let pair = Pair::of("write-lat");
    let fabric = Fabric::new();
    let checked = fabric.run("check soft0 --no-traffic --json");
    let good: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    let mut bad = good.clone();
    let items = bad["devices"][0]["items"].as_array_mut().unwrap();
    let link = items.iter_mut().find(|item| item["code"] == "link-down").expect("an item");
    link["value"] = "down".into();
    link["verdict"] = "bad".into();
    let (good, bad) = (pair.file("good", &good.to_string()), pair.file("bad", &bad.to_string()));
    let [good, bad] = [&good, &bad].map(|file| file.to_str().unwrap());
    let output = fabric.run(&["compare", good, bad]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    let row = text.lines().find(|line| line.contains("link state")).expect("a row");
    assert!(row.contains("down (bad)") && row.ends_with("worse"), "{row}");
    assert!(stderr(&output).contains("worse than the base: "));
    let output = fabric.run(&["compare", bad, good, "--markdown"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("* Base: ") && text.contains("\n|---"), "{text}");
    let output = fabric.run(&["compare", good, bad, "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let document = serde_json::from_slice(&output.stdout).expect("JSON");
    schema::check_against(CHANGES, &document);
    // Different kinds, and an option for runs.
    let run = pair.file("run", &pair.base.to_string());
    for (arguments, why) in [
        (&["compare", run.to_str().unwrap(), bad][..], "run is a run of a tool, "),
        (&["compare", good, bad, "--figure=p50"], "--figure"),
    ] {
        let output = fabric.run(arguments);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn rejects_files_that_cannot_be_compared() {
    let mut pair = Pair::of("write-lat");
    pair.new["tool"] = "read-lat".into();
    let output = pair.compare(&[]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("write-lat") && said.contains("read-lat"), "{said}");

    pair.new["schema_version"] = 2.into();
    let output = pair.compare(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("schema version 2"));

    for nonsense in [json!({"schema_version": 1}), json!([]), json!("x")] {
        pair.new = nonsense;
        let output = pair.compare(&[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("not a result of cxidiag"), "{}", stderr(&output));
    }
    let base = pair.file("base", &pair.base.to_string());
    let base = base.to_str().unwrap();
    let damaged = pair.file("damaged", "{\n\"a\": [\n1\n],\n");
    let output = Fabric::new().run(&["compare", damaged.to_str().unwrap(), "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("damaged: not valid JSON: "), "{}", stderr(&output));
    for (arguments, why) in [
        (&["compare"][..], "no files are given"),
        (&["compare", "a"], "one file is given"),
        (&["compare", "a", "b", "c"], "-- stands between both sides"),
        (&["compare", "a", "--"], "no files on one side of --"),
        (&["compare", "-", "--", "-"], "can be read only once"),
        (&["compare", "a", "b", "--max-regress=-5%"], "'-5%'"),
        (&["compare", "a", "--", "b", "--max-regress=x"], "'x'"),
        (&["compare", "a", "b", "--max-regress="], "''"),
        (&["compare", "a", "b", "--figure=avg"], "'avg': the metrics are min, "),
        (&["compare", "a", "b", "--json="], "name of a file"),
        (&["compare", "a", "b", "--nonsense"], "--nonsense"),
    ] {
        let output = Fabric::new().run(arguments);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(2), ""),
            "{arguments:?}"
        );
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(why), "{said}");
    }
    // The file of --json stands after an equals sign.
    for (files, status) in [(&["a", "b"][..], 2), (&[base, "--", base], 1)] {
        let arguments = [&["compare"], files, &["--json", "out.json"]].concat();
        let output = Fabric::new().run(&arguments);
        assert_eq!(output.status.code(), Some(status));
        let said = stderr(&output);
        assert!(said.contains("did you mean --json=out.json?"), "{said}");
    }
    let output = Fabric::new().run(&["compare", "/no/such/file", "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot read /no/such/file: No such file"));
}

/// Names come from files of other people, and so do the files.
#[test]
fn shows_control_characters_of_names() {
    let mut pair = Pair::of("write-lat");
    pair.base["host"]["name"] = "\u{1b}[2Jnode1\nnode2".into();
    pair.new["host"]["name"] = "\u{9b}31m".into();
    let directory = pair.directory.path();
    let files = ["base\u{1b}[31m", "new"].map(|name| directory.join(name));
    for (file, document) in files.iter().zip([&pair.base, &pair.new]) {
        std::fs::write(file, document.to_string() + "\n{\n").unwrap();
    }
    let [base, new] = files.each_ref().map(|file| file.to_str().unwrap());
    let output = Fabric::new().run(&["compare", base, new, ANY_CHANGE]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for text in [stdout(&output), stderr(&output)] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert!(text.contains("base\\x1b[31m"), "{text}");
    }
    let text = stdout(&output);
    for name in ["\\x1b[2Jnode1\\x0anode2", "\\x9b31m"] {
        assert!(text.contains(name), "{text}");
    }
    let page = directory.join("page");
    let page = page.to_str().unwrap();
    let output = Fabric::new().run(&["report", base, new, "--output", page]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stderr(&output).contains("base\\x1b[31m"), "{}", stderr(&output));
}

/// Returns what the legacy bandwidth tool of writes prints on NICs with these bandwidths.
fn printed(bandwidths: &[&str]) -> String {
    let run = |(nic, bandwidth): (usize, &&str)| {
        let rule = "-".repeat(51);
        format!(
            "cxi{nic}\n{rule}\n    CXI RDMA Write Bandwidth Test\nDevice           : cxi{nic}\n\
             Write Size       : 65536\n{rule}\n\
             RDMA Size[B]      Writes  BW[MB/s]  PktRate[Mpkt/s]\n       \
             65536      204800  {bandwidth}        11.384888\n{rule}\n"
        )
    };
    bandwidths.iter().enumerate().map(run).collect()
}

/// One of three NICs has half the bandwidth. The median of all runs has not changed.
#[test]
fn compares_each_nic_of_a_log_with_itself() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let base = printed(&["23316.20", "23420.00", "23330.00"]);
    let base = file("base", base.as_bytes());
    let new = file("new", printed(&["23420.00", "11637.50", "23377.00"]).as_bytes());
    let compare = |files: &[&str]| Fabric::new().run(&[&["compare"], files].concat());
    let output = compare(&[&base, &new, "--max-regress=40%"]);
    let error = assert_status(&output, 3);
    assert!(error.contains("by more than 40%: cxi1 (65536 bytes)"), "{error}");
    let text = stdout(&output);
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("Verdict")).collect();
    let cells = |row: &str| row.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = [
        "Measured Size[B] Metric Base New Change Verdict",
        "cxi0 65536 bw[MB/s] 23316.2 23420.0 +0.45% ok",
        "cxi1 65536 bw[MB/s] 23420.0 11637.5 -50.31% regressed",
        "cxi2 65536 bw[MB/s] 23330.0 23377.0 +0.20% ok",
    ];
    assert_eq!(rows.iter().take(4).map(|row| cells(row)).collect::<Vec<_>>(), expected);
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");

    // A NIC without a new run, and one without a base.
    let two = file("two", printed(&["23316.20", "23420.00"]).as_bytes());
    let error = assert_status(&compare(&[&base, &two, "--max-regress=40%"]), 3);
    assert!(error.contains("not measured completely: cxi2 (65536 bytes)"), "{error}");
    let output = compare(&[&two, &base, "--max-regress=40%"]);
    assert_success(&output);
    assert!(cells(&stdout(&output)).contains("cxi2 65536 bw[MB/s] - 23330.0 - no base"));
    // A run that printed its summary only.
    let whole = std::fs::read_to_string(&new).unwrap();
    let (started, _) = whole.rsplit_once("RDMA Size").unwrap();
    let started = file("started", started.as_bytes());
    let error = assert_status(&compare(&[&two, &started, "--max-regress=60%"]), 0);
    assert!(error.contains("has no results"), "{error}");
    let error = assert_status(&compare(&["--expect=bw>=1GB/s", &started]), 3);
    assert!(error.contains("not met: 1 of 3 bounds"), "{error}");

    // A compressed log.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &std::fs::read(&base).unwrap()).unwrap();
    let packed = file("base.gz", &gzip.finish().unwrap());
    assert_success(&compare(&["--expect=bw>=23GB/s", &packed]));

    // A figure that is no number.
    let inf = file("inf", printed(&["23316.20", "inf", "23330.00"]).as_bytes());
    let error = assert_status(&compare(&["--expect=bw>=1GB/s", &inf]), 3);
    assert!(error.contains("bw 'inf' is no number of a NIC"), "{error}");

    // Three clients wrote to one terminal.
    let lines = printed(&["20656.55", "01200.10", "20648.74"]);
    let (heads, rows): (Vec<&str>, Vec<&str>) =
        lines.lines().partition(|line| !line.starts_with([' ', 'R']) || line.contains("CXI"));
    let mixed = file("mixed", ([heads, rows].concat().join("\n") + "\n").as_bytes());
    let error = assert_status(&compare(&["--expect=bw>=1GB/s", &mixed]), 4);
    assert!(error.contains("belong to none of the runs before it, or to several"), "{error}");
}

/// A bound counts for the tools that have its metric.
#[test]
fn checks_bounds_of_several_tools_in_one_file() {
    let mut pair = with_medians([2_000, 4_000], [2_000, 4_000]);
    pair.new["tool"] = "read-lat".into();
    let text = printed(&["23316.20"]);
    let latencies = pair.file("latencies", &format!("{}\n{}\n", pair.base, pair.new));
    let bandwidths = pair.file("bandwidths", &text);
    let [latencies, bandwidths] = [&latencies, &bandwidths].map(|file| file.to_str().unwrap());
    let run = |arguments: &[&str]| Fabric::new().run(&[&["compare"], arguments].concat());
    let bounds = ["--expect=bw>=20GB/s", "--expect=p50<5us", latencies, bandwidths];
    let output = run(&bounds);
    assert_status(&output, 0);
    assert_eq!(stdout(&output).matches("  met").count(), 5, "{}", stdout(&output));
    let error = stderr(&output);
    assert_eq!(error.lines().count(), 2, "{error}");
    assert!(error.contains("bw>=20GB/s is left out for read-lat, write-lat"), "{error}");
    // A tool of one side only is named; the others decide.
    let output = run(&[latencies, bandwidths, "--", latencies]);
    let error = assert_status(&output, 3);
    assert!(error.contains("not measured completely: write-bw cxi0 (65536 bytes)"), "{error}");
    let output = run(&[latencies, "--", latencies, bandwidths, "--figure=p50"]);
    assert_status(&output, 0);
    assert!(!stdout(&output).contains("write-bw"), "{}", stdout(&output));
}

/// The text has the figures of the document, rounded: of latencies to 10 ns, of bandwidths to 10
/// kB/s.
#[test]
fn text_of_a_run_has_the_results_of_its_document() {
    for tool in plan::tools::peer_tools() {
        let directory = tempfile::tempdir().unwrap();
        let [text, json, page] = ["text", "json", "page"].map(|name| directory.path().join(name));
        let output = short(tool.name, &[&format!("--json={}", json.display())]);
        assert_success(&output);
        std::fs::write(&text, &output.stdout).unwrap();
        let [text, json, page] = [&text, &json, &page].map(|path| path.to_str().unwrap());
        let output = Fabric::new().run(&["compare", json, text, "--json", ANY_CHANGE]);
        let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
        let compared = &compared["groups"][0];
        assert_eq!(compared["differences"], json!([]), "{}", tool.name);
        let is_bandwidth = tool.measures_bandwidth();
        assert_eq!(compared["metric"], if is_bandwidth { "bw" } else { "mean" });
        let output = Fabric::new().run(&["compare", json, text, "--figure=p99"]);
        let why = if is_bandwidth { "measures bw and rate" } else { "is the text of a run" };
        assert!(assert_status(&output, 2).contains(why), "{}", tool.name);
        let run: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
        let sizes = compared["sizes"].as_array().unwrap();
        assert_eq!(sizes.len(), run["results"].as_array().unwrap().len());
        for metric in sizes.iter().flat_map(|size| size["metrics"].as_array().unwrap()) {
            let [base, new] = ["base", "new"].map(|side| metric[side]["value"].as_f64().unwrap());
            let rounding = match metric["metric"].as_str().unwrap() {
                "bw" => 10_000.0,
                _ => 10.0,
            };
            assert!((base - new).abs() <= rounding, "{}: {metric}", tool.name);
        }
        assert_success(&Fabric::new().run(&["report", text, "--output", page]));
    }
}
