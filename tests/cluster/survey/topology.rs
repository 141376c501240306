//! Surveys whose NICs have locations from a topology.

use serde_json::Value;

use super::{SHORT, document};
use crate::alone;
use crate::harness::{Fabric, finish, stderr};

const FORM: &str = "dragonfly:groups=2,switches=2,nics=1";

/// Returns the locations of the NICs of a survey, as group and switch, and its messages.
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
    let of_nic = |nic: &Value| {
        let number = |name: &str| nic["location"][name].as_u64();
        number("group").zip(number("switch"))
    };
    let nics = document["roster"]["nics"].as_array().unwrap();
    let messages = stderr(&output);
    (nics.iter().map(of_nic).collect(), messages)
}

#[test]
fn topology_has_the_locations_of_nics() {
    let _alone = alone();
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1)].map(Some);
    let (found, messages) = locations(&format!("--topology={FORM}"), None);
    assert_eq!(found, expected, "{messages}");
    assert!(!messages.contains("--topology"), "{messages}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fabric");
    std::fs::write(&path, "dragonfly groups=2 switches=2 nics=1 # small\n").unwrap();
    let (found, messages) = locations(&format!("--topology={}", path.display()), None);
    assert_eq!(found, expected, "{messages}");
    // Their addresses say the same.
    let (found, messages) = locations("", Some(FORM));
    assert_eq!(found, expected, "{messages}");
}

#[test]
fn survey_names_a_nic_that_the_topology_lacks() {
    let _alone = alone();
    let form = "dragonfly:groups=3,switches=1,nics=1";
    let (found, messages) = locations(&format!("--topology={form}"), None);
    assert_eq!(found, [Some((0, 0)), Some((1, 0)), Some((2, 0)), None]);
    let expected = format!("--topology={form} lacks 1 of the NICs, such as soft3 of node3");
    assert!(messages.contains(&expected), "{messages}");
}
