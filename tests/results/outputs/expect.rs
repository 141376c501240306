//! `--expect`: verdicts, bounds of single sizes, units and files.

use serde_json::json;

use crate::harness::{Fabric, assert_status, stderr, stdout};

use super::{document, short};

/// The bounds and sizes of the verdicts in a document, in order.
fn verdicts(options: &[&str]) -> Vec<(u64, String)> {
    let run = document(&short("write-lat", &[options, &["--json", "--quiet"]].concat()));
    let verdicts = run["expectations"].as_array().expect("verdicts").iter();
    verdicts
        .map(|verdict| {
            let size = verdict["size_bytes"].as_u64().expect("a size");
            (size, verdict["expectation"].as_str().expect("a bound").to_owned())
        })
        .collect()
}

#[test]
fn bound_applies_to_its_size() {
    let found = verdicts(&["--expect", "8:p50<100s,16:max<100s,min>0ns"]);
    let expected = [(8, "8:p50<100s"), (8, "min>0ns"), (16, "16:max<100s"), (16, "min>0ns")];
    assert_eq!(found, expected.map(|(size, bound)| (size, bound.to_owned())));
    let output = short("write-lat", &["--expect", "16:max<1ns"]);
    let error = assert_status(&output, 3);
    assert_eq!(error, "cxidiag write-lat: expectation not met: 16:max<1ns at 16 bytes\n");
}

#[test]
fn bounds_come_from_a_file() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "# these nodes\n8:p50<100s # small\n\nmin>0ns\n").expect("written");
    let option = format!("--expect=@{}", file.path().display());
    let found = verdicts(&[&option]);
    let expected = [(8, "8:p50<100s"), (8, "min>0ns"), (16, "min>0ns")];
    assert_eq!(found, expected.map(|(size, bound)| (size, bound.to_owned())));
}

#[test]
fn bandwidth_has_decimal_binary_and_bit_units() {
    let output = short("send-bw", &["--expect", "bw>1Gb/s,bw>1KiB/s,128:bw>1B/s,64:rate>1op/s"]);
    let text = stdout(&output);
    for bound in ["bw>1KiB/s", "128:bw>1B/s", "64:rate>1op/s"] {
        assert!(text.contains(&format!("  {bound} ")), "{text}");
    }
}

#[test]
fn t24_refuses_wrong_bounds_in_one_line() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "p50<1us\np50<\n").expect("written");
    let file_text = format!("@{}", file.path().display());
    for (tool, list, why) in [
        (
            "write-lat",
            "avg<1us",
            "unknown metric 'avg': the metrics are min, max, mean, stddev and ",
        ),
        ("send-bw", "peak>1GB/s", "unknown metric 'peak': the metrics are bw and rate"),
        ("write-lat", "12:p50<1us", "the run does not measure 12 bytes, only 8"),
        ("write-lat", "@/no/file", "cannot read the file: No such file or directory"),
        ("write-lat", &file_text, "line 2: 'p50<' needs a number and a unit"),
    ] {
        let output = Fabric::new().run(&[tool, "--loopback", "-d", "soft99", "--expect", list]);
        let error = assert_status(&output, 2);
        assert!(error.contains("--expect") && error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn checks_expectations_for_each_size() {
    let output = short("write-lat", &["--expect", "max<1h,p50<1s"]);
    assert_eq!(output.status.code(), Some(2), "there are no hours");
    let output = short("write-lat", &["--json", "--expect", "p95<100s,min>=1ns"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = document(&output);
    let verdicts = run["expectations"].as_array().unwrap();
    let judged: Vec<_> = verdicts
        .iter()
        .map(|verdict| (verdict["size_bytes"].clone(), verdict["expectation"].clone()))
        .collect();
    let both = |size: u64| [(json!(size), json!("p95<100s")), (json!(size), json!("min>=1ns"))];
    assert_eq!(judged, [both(8), both(16)].concat());
    assert!(verdicts.iter().all(|verdict| verdict["met"] == true && verdict["measured"].is_f64()));

    let output = short("write-lat", &["--json", "--expect", "p50<1s,mean<1ns"]);
    assert_eq!(output.status.code(), Some(3));
    let run = document(&output);
    assert_eq!(run["status"], "unmet");
    assert_eq!(run["error"]["kind"], "unmet");
    let met: Vec<_> =
        run["expectations"].as_array().unwrap().iter().map(|entry| entry["met"] == true).collect();
    assert_eq!(met, [true, false, true, false]);
    let said = stderr(&output);
    assert!(said.contains("expectation not met: mean<1ns at 8 bytes, and 1 more"), "{said}");

    // A bandwidth that is too high fails as well.
    let output = short("send-bw", &["--expect", "bw>=1B/s,bw<=2B/s"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("bw<=2B/s at 64 bytes, and 1 more"));
}

#[test]
fn rejects_invalid_expectations_with_one_document() {
    for (tool, list) in [
        ("write-lat", "bw>1GB/s"),
        ("send-bw", "p99<4us"),
        ("read-lat", "p99<4"),
        ("send-lat", "p99"),
    ] {
        // The arguments are rejected before the device is opened.
        let output =
            Fabric::new().run(&[tool, "--loopback", "-d", "cxi99", "--json", "--expect", list]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let run = document(&output);
        assert_eq!(run["error"]["kind"], "usage");
        assert!(stderr(&output).contains(run["error"]["message"].as_str().unwrap()));
    }
}

#[test]
fn requires_each_of_several_expectations() {
    let run = |expectations: [&str; 2]| {
        let [first, second] = expectations;
        let args = ["write-lat", "-d", "soft0", "--loopback", "-n", "3", "--expect", first];
        Fabric::new().run(&[&args[..], &["--expect", second]].concat()).status.code()
    };
    assert_eq!(run(["p50<1ns", "p50<100s"]), Some(3));
    assert_eq!(run(["p50 < 100s, mean<100s", "p50<100 s"]), Some(0));
}
