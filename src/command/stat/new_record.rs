//! The record of a node, before its command has run.

use std::ffi::OsString;
use std::time::Duration;

use super::nics::Nics;
use super::program::Program;
use super::request::StatRequest;
use node::machine::Machine;
use report::stat::record::{FORMAT, NodeRecord};

/// Returns the record of a node before its command.
pub fn new_record(
    request: &StatRequest,
    command: &[OsString],
    program: &Program,
    machine: &Machine,
    nics: &Nics,
    started: Duration,
) -> NodeRecord {
    let words = if request.with_arguments {
        command
    } else {
        &command[..command.len().min(1)]
    };
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    NodeRecord {
        stat_format: FORMAT,
        cxidiag_version: env!("CARGO_PKG_VERSION").into(),
        node: program.node().to_owned(),
        boot_id: machine.boot_id(),
        step: program.step(),
        run: 1,
        command: words.collect(),
        set: request.set.name.clone(),
        counters: request.set.counters.clone(),
        started_unix_ns: nanoseconds(started),
        end: None,
        nics: nics.records(),
    }
}

/// Returns a time in nanoseconds.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
