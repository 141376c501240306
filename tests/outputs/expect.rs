//! `--expect` with bounds of single sizes, units and files.

use crate::harness::{Fabric, assert_status, stdout};

use super::{document, short};

/// The bounds and sizes of the verdicts in a document, in order.
fn verdicts(options: &[&str]) -> Vec<(u64, String)> {
    let run = document(&short(
        "write-lat",
        &[options, &["--json", "--quiet"]].concat(),
    ));
    let verdicts = run["expectations"].as_array().expect("verdicts").iter();
    verdicts
        .map(|of| {
            let size = of["size_bytes"].as_u64().expect("a size");
            (
                size,
                of["expectation"].as_str().expect("a bound").to_owned(),
            )
        })
        .collect()
}

#[test]
fn bound_applies_to_its_size() {
    let found = verdicts(&["--expect", "8:p50<100s,16:max<100s,min>0ns"]);
    let expected = [
        (8, "8:p50<100s"),
        (8, "min>0ns"),
        (16, "16:max<100s"),
        (16, "min>0ns"),
    ];
    assert_eq!(
        found,
        expected.map(|(size, bound)| (size, bound.to_owned()))
    );
    let output = short("write-lat", &["--expect", "16:max<1ns"]);
    let error = assert_status(&output, 3);
    assert_eq!(
        error,
        "cxidiag write-lat: expectation not met: 16:max<1ns at 16 bytes\n"
    );
}

#[test]
fn bounds_come_from_a_file() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        "# these nodes\n8:p50<100s # small\n\nmin>0ns\n",
    )
    .expect("written");
    let option = format!("--expect=@{}", file.path().display());
    let found = verdicts(&[&option]);
    let expected = [(8, "8:p50<100s"), (8, "min>0ns"), (16, "min>0ns")];
    assert_eq!(
        found,
        expected.map(|(size, bound)| (size, bound.to_owned()))
    );
}

#[test]
fn bandwidth_has_decimal_binary_and_bit_units() {
    let output = short(
        "send-bw",
        &["--expect", "bw>1Gb/s,bw>1KiB/s,128:bw>1B/s,64:rate>1op/s"],
    );
    let text = stdout(&output);
    for bound in ["bw>1KiB/s", "128:bw>1B/s", "64:rate>1op/s"] {
        assert!(text.contains(&format!("  {bound} ")), "{text}");
    }
}

#[test]
fn t24_refuses_wrong_bounds_in_one_line() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "p50<1us\np50<\n").expect("written");
    let of_file = format!("@{}", file.path().display());
    for (tool, list, why) in [
        (
            "write-lat",
            "avg<1us",
            "unknown metric 'avg': the metrics are min, max, mean, stddev and ",
        ),
        (
            "send-bw",
            "peak>1GB/s",
            "unknown metric 'peak': the metrics are bw and rate",
        ),
        (
            "write-lat",
            "12:p50<1us",
            "the run does not measure 12 bytes, only 8",
        ),
        (
            "write-lat",
            "@/no/file",
            "cannot read the file: No such file or directory",
        ),
        (
            "write-lat",
            &of_file,
            "line 2: 'p50<' needs a number and a unit",
        ),
    ] {
        let output = Fabric::new().run(&[tool, "--loopback", "-d", "soft99", "--expect", list]);
        let error = assert_status(&output, 2);
        assert!(error.contains("--expect") && error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
