//! HdrHistogram logs of the tools, read by a reader that was written from the format alone.

use std::io::Read;
use std::process::Output;

use base64::Engine;
use flate2::read::ZlibDecoder;
use serde_json::Value;

use super::{Fabric, assert_success, read, schema};

/// One interval of a log.
pub struct Interval {
    tag: String,
    start: f64,
    length: f64,
    /// Pairs of the largest value of a bucket and its count.
    counts: Vec<(u64, u64)>,
}

pub fn intervals(log: &str) -> Vec<Interval> {
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some("#[Histogram log format version 1.3]"));
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines.map(interval).collect()
}

fn interval(line: &str) -> Interval {
    let fields: Vec<&str> = line.split(',').collect();
    let [tag, start, length, _max, histogram] = fields.try_into().expect("five fields");
    let compressed = base64::engine::general_purpose::STANDARD.decode(histogram).expect("base64");
    // Compressed: cookie, length, zlib stream.
    assert_eq!(word(&compressed, 0), 0x1c84_9314);
    assert_eq!(word(&compressed, 4) as usize, compressed.len() - 8);
    let mut bytes = Vec::new();
    ZlibDecoder::new(&compressed[8..]).read_to_end(&mut bytes).expect("a zlib stream");
    Interval {
        tag: tag.strip_prefix("Tag=").expect("a tag").into(),
        start: start.parse().expect("seconds"),
        length: length.parse().expect("seconds"),
        counts: counts(&bytes),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Version 2: cookie, payload length, normalizing offset, digits, lowest and highest value, ratio;
/// then counts as zigzag LEB128. A negative count is a number of empty buckets.
fn counts(bytes: &[u8]) -> Vec<(u64, u64)> {
    assert_eq!(word(bytes, 0), 0x1c84_9313);
    assert_eq!(word(bytes, 4) as usize, bytes.len() - 40);
    assert_eq!(word(bytes, 8), 0);
    let digits = word(bytes, 12);
    let lowest = u64::from_be_bytes(bytes[16..24].try_into().unwrap());
    let highest = u64::from_be_bytes(bytes[24..32].try_into().unwrap());
    assert_eq!((lowest, highest), (1, 3_600_000_000_000));
    // Buckets of equal width up to the first power of two that tells the digits apart twice over.
    let linear = (2 * 10_u64.pow(digits)).next_power_of_two();
    let mut found = Vec::new();
    let mut payload = bytes[40..].iter();
    let mut index = 0;
    while payload.len() > 0 {
        match zigzag(&mut payload) {
            empty if empty < 0 => index += empty.unsigned_abs(),
            count => {
                found.push((largest(index, linear), count as u64));
                index += 1;
            }
        }
    }
    found.retain(|(_, count)| *count > 0);
    found
}

fn zigzag<'a>(payload: &mut impl Iterator<Item = &'a u8>) -> i64 {
    let (mut value, mut shift) = (0_u64, 0);
    for byte in payload {
        // The ninth byte has eight bits of the value.
        if shift == 56 {
            value |= u64::from(*byte) << shift;
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The largest value of a bucket: `linear` buckets of width 1, then half as many of each doubled
/// width.
fn largest(index: u64, linear: u64) -> u64 {
    if index < linear {
        return index;
    }
    let half = linear / 2;
    let doublings = (index - linear) / half + 1;
    let width = 1 << doublings;
    (half + (index - linear) % half) * width + width - 1
}

fn log_and_document(args: &[&str]) -> (String, Value, Output) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let (log, json) = (file("log"), file("json"));
    let options = [format!("--hdr-log={}", log.display()), format!("--json={}", json.display())];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let output = Fabric::new().run(&[args, &options[..]].concat());
    let document: Value = serde_json::from_str(&read(&json)).unwrap();
    schema::check(&document);
    (read(&log), document, output)
}

#[test]
fn log_has_each_sample_of_each_size() {
    let args = [
        "read-lat",
        "--loopback",
        "-d",
        "soft0",
        "-n",
        "40",
        "--latency-gap=0",
        "-s",
        "8:32",
        "--report-all",
    ];
    let (log, document, output) = log_and_document(&args);
    assert_success(&output);
    // What the text reports, one by one.
    let text = super::stdout(&output);
    let tables: Vec<Vec<u64>> =
        text.split("WriteNum  Latency[us]\n").skip(1).map(latencies).collect();
    let intervals = intervals(&log);
    assert_eq!((intervals.len(), tables.len()), (3, 3));
    let mut end = 0.0;
    for ((interval, table), result) in
        intervals.iter().zip(&tables).zip(document["results"].as_array().unwrap())
    {
        assert_eq!(interval.tag, format!("size_{}", result["size_bytes"]));
        assert!(interval.start >= end - 0.002, "intervals in order");
        end = interval.start + interval.length;
        let mut sorted = table.clone();
        sorted.sort_unstable();
        let from_log = interval
            .counts
            .iter()
            .flat_map(|&(value, count)| std::iter::repeat_n(value, count as usize));
        let from_log: Vec<u64> = from_log.collect();
        assert_eq!(from_log.len(), 40);
        for (logged, exact) in from_log.iter().zip(&sorted) {
            assert!(logged >= exact && logged - exact <= exact / 10_000, "{logged} for {exact}");
        }
        // Nearest rank, told apart to four digits.
        let median = result["latency"]["percentiles"][0]["value_ns"].as_u64().unwrap();
        assert!(median >= sorted[19] && median - sorted[19] <= sorted[19] / 10_000);
    }
}

/// The latencies of a table, in ns.
fn latencies(table: &str) -> Vec<u64> {
    let rows = table.lines().take_while(|line| !line.starts_with('-'));
    rows.map(|row| {
        let us = row.split_whitespace().nth(1).expect("a latency");
        us.replace('.', "").parse().expect("a number")
    })
    .collect()
}

#[test]
fn writes_log_without_intervals_if_the_run_fails() {
    let (log, document, output) =
        log_and_document(&["write-lat", "--loopback", "-d", "soft0", "-v", "7777"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(document["status"], "failed");
    assert!(intervals(&log).is_empty());
}
