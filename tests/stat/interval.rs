//! `--interval`: what some counters did over time (monitoring.md 1.6 vector 17).

use std::fs;

use crate::Place;
use crate::harness::{CXIDIAG, assert_status, finish, schema};

#[test]
fn series_and_sentence_say_when_packets_were_lost() {
    let place = Place::new();
    // Nothing is lost for most of the time, however long the tool takes, and nothing before the
    // first interval has ended.
    let script = format!(
        "until [ \"$(cat cxidiag-stat.*/*.series.jsonl | wc -l)\" -ge 2 ]; do sleep 0.02; done
        begin=$(date +%s)
        CXIDIAG_FAULTS=loss=0.2 {CXIDIAG} write-lat --loopback -d soft0 -n 200 > /dev/null
        end=$(date +%s); sleep $((3 * (end - begin) + 2))"
    );
    let options = ["--interval=200ms", "--json=stat.json", "--trace=trace.json"];
    let output = finish(place.stat(&options, &["sh", "-c", &script]));
    let errors = assert_status(&output, 0);
    let text = fs::read_to_string(place.path().join("stat.json")).expect("a file");
    let document = schema::document(include_str!("../../docs/stat.schema.json"), &text);
    let delta = document["nics"][0]["counters"]["retry_handler/spt_timeouts"]["delta"].clone();
    let delta = delta.as_u64().expect("a number");
    assert!(delta > 0);
    let series = &document["series"][0];
    let names = series["counters"].as_array().expect("a list");
    assert_eq!(names.len(), 24);
    let column = names.iter().position(|name| *name == "retry_handler/spt_timeouts");
    let intervals = series["intervals"].as_array().expect("a list");
    assert!(intervals.len() >= 10, "{}", intervals.len());
    let count = |interval: &serde_json::Value| {
        interval["counts"][0][column.expect("a column")].as_u64().unwrap_or(0)
    };
    assert_eq!(intervals.iter().map(count).sum::<u64>(), delta);
    let sentence = format!("\nall {delta} timeouts of ");
    assert!(errors.contains(&sentence), "{errors}");
    let trace = fs::read_to_string(place.path().join("trace.json")).expect("a file");
    let trace: serde_json::Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let is_of_timeouts = |event: &&serde_json::Value| {
        event["name"] == "soft0 retry_handler/spt_timeouts per s" && event["args"]["per s"] != 0.0
    };
    let rising = events.iter().filter(is_of_timeouts).count();
    assert_eq!(rising, intervals.iter().filter(|interval| count(interval) > 0).count());
    assert_eq!(place.left(), ["stat.json", "trace.json"]);
}

#[test]
fn keeps_the_series_with_the_other_files() {
    let place = Place::new();
    let options = ["--interval=200ms", "--keep"];
    let errors = assert_status(&finish(place.stat(&options, &["sleep", "0.5"])), 0);
    assert!(!errors.contains("series"), "{errors}");
    let step = fs::read_dir(place.path()).expect("a directory").flatten().next();
    let files = fs::read_dir(step.expect("a directory").path()).expect("a directory").flatten();
    let names: Vec<String> =
        files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    for ending in [".start", ".json", ".series.jsonl"] {
        assert!(names.iter().any(|name| name.ends_with(ending)), "{ending}: {names:?}");
    }
    for refused in [&["--interval=0.1"][..], &["--interval=2h"]] {
        assert_status(&finish(place.stat(refused, &["true"])), 2);
    }
    assert_status(&finish(place.cxidiag(&["stat", "--interval=1s", "--start=x"])), 2);
}
