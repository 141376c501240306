//! Surveys whose NICs have locations from a topology.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{SHORT, document};
use crate::cpus::{Work, cpus};
use crate::harness::{CXIDIAG, Fabric, finish, stderr, stdout};

const FORM: &str = "dragonfly:groups=2,switches=2,nics=1";

/// The locations of the NICs of a survey, as group and switch, and its messages.
fn locations(arguments: &str, variable: Option<&str>) -> (Vec<Option<(u64, u64)>>, String) {
    let fabric = Fabric::new();
    let mut command = fabric.command(&format!(
        "survey --loopback=4 --pairs=neighbours {SHORT} --no-why --json {arguments}"
    ));
    if let Some(value) = variable {
        command.env("CXIDIAG_TOPOLOGY", value);
    }
    let output = finish(command);
    let document = document(&output);
    let switch_of_nic = |nic: &Value| {
        let number = |name: &str| nic["location"][name].as_u64();
        number("group").zip(number("switch"))
    };
    let nics = document["roster"]["nics"].as_array().unwrap();
    let messages = stderr(&output);
    (nics.iter().map(switch_of_nic).collect(), messages)
}

#[test]
fn topology_has_the_locations_of_nics() {
    let _cpus = cpus(Work::Waits);
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1)].map(Some);
    let (found, messages) = locations(&format!("--topology={FORM}"), None);
    assert_eq!(found, expected, "{messages}");
    assert!(!messages.contains("--topology"), "{messages}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fabric");
    fs::write(&path, "dragonfly groups=2 switches=2 nics=1 # small\n").unwrap();
    let (found, messages) = locations(&format!("--topology={}", path.display()), None);
    assert_eq!(found, expected, "{messages}");
    // Their addresses say the same.
    let (found, messages) = locations("", Some(FORM));
    assert_eq!(found, expected, "{messages}");
}

#[test]
fn survey_names_a_nic_that_the_topology_lacks() {
    let _cpus = cpus(Work::Waits);
    let form = "dragonfly:groups=3,switches=1,nics=1";
    let (found, messages) = locations(&format!("--topology={form}"), None);
    assert_eq!(found, [Some((0, 0)), Some((1, 0)), Some((2, 0)), None]);
    let expected = format!("--topology={form} lacks 1 of the NICs, such as soft3 of node3");
    assert!(messages.contains(&expected), "{messages}");
}

/// load.md 4.6: a bandwidth is what the fabric permits while a link is full, however long processes
/// wait for their CPUs.
#[test]
fn full_link_makes_a_bandwidth_valid_on_busy_cpus() {
    let _cpus = cpus(Work::Measures);
    let status = fs::read_to_string("/proc/self/status").expect("proc");
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = cpus.expect("a line of Linux").trim().split([',', '-']).next();
    let cpu = first.expect("a CPU");
    let fabric = Fabric::new();
    let on_cpu = |arguments: &[&str]| {
        let taskset = [&["--cpu-list", cpu], arguments].concat();
        fabric.command_of(Path::new("taskset"), &taskset[..])
    };
    let directory = tempfile::tempdir().unwrap();
    let busy = format!("while [ -d {} ]; do :; done", directory.path().display());
    let _loops = [0, 1].map(|_| on_cpu(&["sh", "-c", &busy]).spawn().expect("it starts"));
    // One list of operations takes 1 s.
    let form = "dragonfly:groups=1,switches=1,nics=3,nic=2MB/s";
    let survey =
        "survey --loopback=3 --pairs=all --pair-time=500ms --no-why --csv -s 4096 write-bw";
    let words: Vec<&str> =
        [CXIDIAG].into_iter().chain(survey.split(' ')).chain(["--", "--list-size=512"]).collect();
    let mut command = on_cpu(&words);
    command.env("CXIDIAG_TOPOLOGY", form);
    let output = finish(command);
    let table = stdout(&output);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let [heads, pairs @ ..] = &lines[..] else {
        panic!("{}", stderr(&output));
    };
    assert_eq!(pairs.len(), 3, "{table}");
    for pair in pairs {
        let value = |name: &str| {
            let place = heads.iter().position(|head| *head == name).expect(name);
            pair[place].parse::<f64>().expect("a number")
        };
        let bandwidth = value("bandwidth_bytes_per_s");
        assert!((1.8e6..2e6).contains(&bandwidth), "{table}");
        // On this CPU, they wait for it for about 80 % of the time.
        assert!(value("waited_percent") <= 40.0, "{table}");
    }
}
