//! `survey` and `why`: several processes with a software NIC each, as a user runs them, alone and
//! under the launchers of clusters.

#[path = "../harness/mod.rs"]
mod harness;

mod arguments;
mod causes;
mod check_first;
mod cpus;
mod endings;
mod findings;
mod hostile;
mod launchers;
mod load;
mod servers;
mod tasks;
mod topology;
mod why;

use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use harness::{Command, Process, schema, stdout};

/// Arguments of surveys that are not interrupted: the longest slots take 133 ms instead of 333 ms.
pub const SHORT: &str = "--pair-time=20ms";

/// The document of a survey, which is valid by its schema.
fn document(output: &Output) -> Value {
    schema::document(include_str!("../../docs/survey.schema.json"), &stdout(output))
}

/// The names of the NICs that are bad by themselves, and the number of other bad parts.
fn bad(document: &Value) -> (Vec<String>, usize) {
    let culprits = document["verdict"]["culprits"].as_array().unwrap();
    let bad = culprits.iter().filter(|culprit| culprit["word"] == "bad");
    let mut nics = Vec::new();
    let mut others = 0;
    for culprit in bad {
        match culprit["unit"]["nic"].as_u64().or(culprit["unit"]["node"].as_u64()) {
            Some(nic) => nics.push(device(document, nic)),
            None => others += 1,
        }
    }
    (nics, others)
}

fn device(document: &Value, nic: u64) -> String {
    let nic = &document["roster"]["nics"][nic as usize];
    nic["device"].as_str().unwrap().to_owned()
}

/// Returns why nodes take no part any more, with their ranks.
fn absent(document: &Value) -> Vec<(u64, String)> {
    let nodes = document["roster"]["nodes"].as_array().unwrap().iter();
    let absent = nodes.filter_map(|node| {
        let reason = node["absent"].as_str()?;
        Some((node["rank"].as_u64()?, reason.to_owned()))
    });
    absent.collect()
}

fn start(mut command: Command) -> Process {
    command.spawn().expect("the program starts")
}

/// Waits until a survey has written this number of lines.
fn wait_for_lines(survey: &mut Process, path: &Path, count: usize) {
    while fs::read_to_string(path).map_or(0, |text| text.lines().count()) < count {
        let ended = survey.try_wait();
        assert!(ended.is_none(), "the survey has ended before {count} lines");
        thread::sleep(Duration::from_millis(1));
    }
}
