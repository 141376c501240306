//! Made-up nodes.

use std::time::Duration;

use super::record::{EndRecord, EndStatus, FORMAT, NicRecord, NodeRecord, TimedValues};
use node::nic::counter::CounterReading;
use node::nic::counters::{CounterReadings, NicFacts};

/// Time between the readings of made-up nodes, in seconds.
pub const SECONDS: u64 = 10;

/// When their first readings began, in seconds since 1970, and since the node started.
const STARTED: u64 = 1_700_000_000;
const UP: u64 = 7_000;

/// A node whose command took [`SECONDS`]. Each NIC has the counters that have counted, and by how
/// much.
pub fn node(name: &str, nics: &[(&str, &[(&str, u64)])]) -> NodeRecord {
    let mut counters: Vec<String> = Vec::new();
    for (counter, _) in nics.iter().flat_map(|(_, counts)| *counts) {
        if !counters.iter().any(|known| known == counter) {
            counters.push((*counter).to_owned());
        }
    }
    let readings = |counts: &[(&str, u64)], is_end: bool| -> CounterReadings {
        let time = |start| Duration::from_secs(start + if is_end { SECONDS } else { 0 });
        let reading = |by: u64| CounterReading {
            value: 1000 + if is_end { by } else { 0 },
            at: time(UP),
            stamp: Some(time(STARTED)),
        };
        let named = counts.iter().map(|(name, by)| ((*name).to_owned(), reading(*by)));
        named.collect()
    };
    let nic = |(device, counts): &(&str, &[(&str, u64)])| {
        let facts = NicFacts { device: (*device).to_owned(), ..NicFacts::default() };
        let before = TimedValues::of(&readings(counts, false), &counters);
        let mut nic = NicRecord::begin(&facts, None, None, before);
        nic.after = Some(TimedValues::of(&readings(counts, true), &counters));
        nic
    };
    NodeRecord {
        stat_format: FORMAT,
        cxidiag_version: "0".into(),
        node: name.into(),
        boot_id: Some("boot".into()),
        step: None,
        job_nodes: None,
        run: 1,
        command: vec!["./app".into()],
        set: "job".into(),
        started_unix_ns: STARTED * 1_000_000_000,
        started_ns: UP * 1_000_000_000,
        end: Some(EndRecord {
            unix_ns: (STARTED + SECONDS) * 1_000_000_000,
            ns: (UP + SECONDS) * 1_000_000_000,
            status: Some(EndStatus::Exit(0)),
            is_interim: false,
            still_running: 0,
        }),
        nics: nics.iter().map(nic).collect(),
        counters,
    }
}
