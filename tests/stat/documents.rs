//! The documents of `stat`.

use std::fs;

use crate::Place;
use crate::harness::{CXIDIAG, assert_status, finish, metrics, schema, stdout};

const SCHEMA: &str = include_str!("../../docs/stat.schema.json");

#[test]
fn json_has_all_counters_of_the_set_and_fits_its_schema() {
    let place = Place::new();
    let list = place.write("list", "rh:spt_timeouts\nmade_up\nhni_tx_ok_opt\n");
    let tool = [CXIDIAG, "write-lat", "--loopback", "-d", "soft0", "-n", "100"];
    for (set, counters) in [("job", None), (&*format!("@{list}"), Some(3))] {
        let set = format!("--set={set}");
        let output = finish(place.stat(&[&set, "--json=stat.json"], &tool));
        let errors = assert_status(&output, 0);
        assert_eq!(errors.contains("no NIC has these counters: made_up"), counters.is_some());
        let text = fs::read_to_string(place.path().join("stat.json")).expect("a file");
        let document = schema::document(SCHEMA, &text);
        assert_eq!(document["program"], serde_json::json!([CXIDIAG]));
        assert_eq!(document["exit_status"], 0);
        let found = document["nics"][0]["counters"].as_object().expect("an object");
        assert_eq!(found.len(), counters.unwrap_or(found.len()));
        assert!(found.len() >= 3);
        let sent = &found["hni_tx_ok_opt"];
        assert!(sent["delta"].as_u64().expect("a number") >= 200, "{sent}");
        if counters.is_some() {
            assert!(found["made_up"].is_null());
        }
    }
    let output = finish(place.stat(&["--json"], &["true"]));
    assert_eq!(assert_status(&output, 0), "");
    schema::document(SCHEMA, &stdout(&output));
}

#[test]
fn json_has_locations_on_a_fabric_of_switches() {
    let place = Place::new();
    let mut stat = place.cxidiag(&["stat", "soft0", "soft1", "--json", "--", "true"]);
    stat.env("CXIDIAG_TOPOLOGY", "dragonfly:groups=2,switches=1,nics=1");
    let document = schema::document(SCHEMA, &stdout(&finish(stat)));
    let location = |nic: usize| document["nics"][nic]["location"].clone();
    let at = |group| serde_json::json!({"group": group, "switch": 0, "port": 1});
    assert_eq!([location(0), location(1)], [at(0), at(1)]);
    let alone = finish(place.stat(&["--json"], &["true"]));
    let document = schema::document(SCHEMA, &stdout(&alone));
    assert!(document["nics"][0]["location"].is_null());
}

#[test]
fn metrics_and_text_agree() {
    let place = Place::new();
    let options = ["--openmetrics=stat.om", "--report=all", "-o", "report"];
    let tool = [CXIDIAG, "write-lat", "--loopback", "-d", "soft0", "-n", "100"];
    let output = finish(place.stat(&options, &tool));
    assert_eq!(assert_status(&output, 0), "");
    let prom = place.stat(&["--openmetrics=stat.prom", "--quiet"], &["true"]);
    assert_status(&finish(prom), 0);
    let [prom, metrics] = ["stat.prom", "stat.om"].map(|name| place.path().join(name));
    metrics::assert_accepted(&prom, &metrics, 4);
    let metrics = fs::read_to_string(metrics).expect("a file");
    assert!(metrics.ends_with("# EOF\n"));
    assert!(metrics.contains("cxidiag_stat_exit_status 0\n"), "{metrics}");
    assert!(metrics.contains("cxidiag_stat_nics 1\n"), "{metrics}");
    let report = fs::read_to_string(place.path().join("report")).expect("a file");
    let row = report.lines().find(|line| line.contains(" hni_tx_ok_opt ")).expect("a row");
    let sent = row.split_whitespace().nth(2).expect("a column");
    let name = "name=\"hni_tx_ok_opt\"} ";
    let sample = metrics.lines().find(|line| line.contains(name)).expect("a sample");
    assert_eq!(sample.rsplit(' ').next(), Some(sent));
}

#[test]
fn text_has_a_file_of_its_own() {
    let place = Place::new();
    let output = finish(place.stat(&["--json", "--output=report"], &["true"]));
    assert_eq!(assert_status(&output, 0), "");
    schema::document(SCHEMA, &stdout(&output));
    let report = fs::read_to_string(place.path().join("report")).expect("a file");
    assert!(report.starts_with("1 node, 1 NIC"), "{report}");
    let same = ["--json=same", "--output=same"];
    let errors = assert_status(&finish(place.stat(&same, &["touch", "started"])), 2);
    assert!(errors.contains("to the same file"), "{errors}");
    assert_eq!(place.left(), ["report"]);
}
