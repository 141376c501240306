//! Short runs of tools, and their documents.

use std::process::Output;

use serde_json::Value;

use super::{Fabric, measures_bandwidth, schema, stdout};

/// A short loopback run of `tool` with these options.
pub fn short(tool: &str, options: &[&str]) -> Output {
    let few: &[&str] = match tool {
        "atomic-bw" => &["-n", "2", "-l", "4"],
        tool if measures_bandwidth(tool) => &["-n", "2", "-l", "4", "-s", "64:128"],
        "atomic-lat" => &["-n", "30", "--latency-gap=0"],
        _ => &["-n", "30", "--latency-gap=0", "-s", "8:16"],
    };
    Fabric::new().run(&[&[tool, "--loopback", "-d", "soft0"], few, options].concat())
}

/// The one document on standard output.
#[track_caller]
pub fn document(output: &Output) -> Value {
    let value = serde_json::from_slice(&output.stdout);
    let value = value.unwrap_or_else(|error| panic!("{error}: {}", stdout(output)));
    schema::check(&value);
    value
}
