//! `cxidiag compare` on documents that tools wrote, changed where a test needs it.

use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use super::{Fabric, document, short, stderr, stdout};

/// Two documents of one tool in files.
struct Pair {
    directory: tempfile::TempDir,
    base: Value,
    new: Value,
}

impl Pair {
    /// A result of `tool`, twice.
    fn of(tool: &str) -> Self {
        let document = document(&short(tool, &["--json", "--quiet"]));
        Self {
            directory: tempfile::tempdir().unwrap(),
            base: document.clone(),
            new: document,
        }
    }

    fn file(&self, name: &str, document: &Value) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, document.to_string()).unwrap();
        path
    }

    fn compare(&self, options: &[&str]) -> Output {
        let (base, new) = (self.file("base", &self.base), self.file("new", &self.new));
        let files = [base.to_str().unwrap(), new.to_str().unwrap()];
        Fabric::new().run(&[&["compare"], &files[..], options].concat())
    }
}

/// Sets the median of a size.
fn set_median(document: &mut Value, at: usize, ns: u64) {
    document["results"][at]["latency"]["percentiles"][0]["value_ns"] = ns.into();
}

fn with_medians(base: [u64; 2], new: [u64; 2]) -> Pair {
    let mut pair = Pair::of("write-lat");
    for at in 0..2 {
        set_median(&mut pair.base, at, base[at]);
        set_median(&mut pair.new, at, new[at]);
    }
    pair
}

#[test]
fn compares_the_median_of_each_size() {
    let pair = with_medians([2_000, 4_000], [2_100, 2_000]);
    let output = pair.compare(&[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "5 % are allowed: {text}");
    for row in ["           8  p50  ", "  -50.00%  ok\n"] {
        assert!(text.contains(row), "{text}");
    }
    let output = pair.compare(&["--max-regress", "4.99%"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("+5.00%  regressed\n"));
    let said = stderr(&output);
    assert!(said.contains("more than 4.99%: 8 bytes\n"), "{said}");
    assert_eq!(
        pair.compare(&["--figure=mean", "--max-regress=0"])
            .status
            .code(),
        Some(0)
    );
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
    bandwidth(&mut pair.new, 22e9);
    let output = pair.compare(&[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stdout(&output).contains("  24000.000  22000.000  -8.33%  regressed\n"),
        "{}",
        stdout(&output)
    );
    assert_eq!(pair.compare(&["--max-regress=9%"]).status.code(), Some(0));
    bandwidth(&mut pair.new, 48e9);
    assert_eq!(pair.compare(&[]).status.code(), Some(0));
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
    assert!(
        text.contains("Difference       : idc: true in base, false in new\n"),
        "{text}"
    );
    assert_eq!(text.matches("Difference").count(), 1, "{text}");
    pair.base["device"]["is_software"] = false.into();
    pair.new["status"] = "failed".into();
    pair.base["clock"]["name"] = "TSC".into();
    pair.new["clock"]["name"] = "CLOCK_MONOTONIC_RAW".into();
    let text = stdout(&pair.compare(&[]));
    for line in [
        "Difference       : clock: TSC in base, CLOCK_MONOTONIC_RAW in new\n",
        "Difference       : base: hardware, new: software NIC\n",
        "Difference       : new is incomplete: failed\n",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}

#[test]
fn rejects_files_that_cannot_be_compared() {
    let mut pair = Pair::of("write-lat");
    pair.new["tool"] = "read-lat".into();
    let output = pair.compare(&[]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("write-lat") && said.contains("read-lat"),
        "{said}"
    );

    pair.new["schema_version"] = 2.into();
    let output = pair.compare(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("schema version 2"));

    for nonsense in [json!({"schema_version": 1}), json!([]), json!("x")] {
        pair.new = nonsense;
        let output = pair.compare(&[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).contains("not a result of cxidiag"),
            "{}",
            stderr(&output)
        );
    }
    for arguments in [
        &["compare"][..],
        &["compare", "a"],
        &["compare", "a", "b", "c"],
        &["compare", "a", "b", "--max-regress=-5%"],
        &["compare", "a", "b", "--max-regress=x"],
        &["compare", "a", "b", "--max-regress="],
        &["compare", "a", "b", "--figure=avg"],
        &["compare", "a", "b", "--nonsense"],
    ] {
        let output = Fabric::new().run(arguments);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(2), ""),
            "{arguments:?}"
        );
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
    let output = Fabric::new().run(&["compare", "/no/such/file", "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot read /no/such/file: No such file"));
}
