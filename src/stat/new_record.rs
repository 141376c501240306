//! The record of a node, before its command has run.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use super::nics::RecordedNics;
use super::options::StatRequest;
use crate::parallel_program::ParallelProgram;
use crate::record::{FORMAT, NodeRecord, nanoseconds};
use crew::launcher::node_count;
use facts::time_of_day::Clocks;
use node::backend::WRAPPER;
use node::machine::Machine;

/// Returns the record of a node before its command.
pub fn new_record(
    request: &StatRequest,
    command: &[OsString],
    program: &ParallelProgram,
    machine: &Machine,
    nics: &RecordedNics,
    started: Clocks,
) -> NodeRecord {
    let words = if request.with_arguments { command } else { name_of(command) };
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    NodeRecord {
        stat_format: FORMAT,
        cxidiag_version: env!("CARGO_PKG_VERSION").into(),
        node: program.node().to_owned(),
        boot_id: machine.boot_id(),
        step: program.step(),
        job_nodes: node_count(|name| env::var(name).ok()),
        run: 1,
        command: words.collect(),
        set: request.set.name.clone(),
        counters: request.set.counters.clone(),
        started_unix_ns: nanoseconds(started.of_day),
        started_ns: nanoseconds(started.monotonic),
        end: None,
        nics: nics.records(),
    }
}

/// Returns the name of a command. The wrapper of software NICs executes the program that follows
/// its options.
fn name_of(command: &[OsString]) -> &[OsString] {
    let is_wrapper = |word: &OsString| Path::new(word).file_name() == Some(WRAPPER.as_ref());
    let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"--");
    let wrapped = match command {
        [first, rest @ ..] if is_wrapper(first) => {
            &rest[rest.iter().take_while(is_option).count()..]
        }
        _ => &[],
    };
    let named = if wrapped.is_empty() { command } else { wrapped };
    &named[..named.len().min(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_program_that_cxi_softnic_executes() {
        let name = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let name = name_of(&words).iter().map(|word| word.to_string_lossy());
            name.collect::<String>()
        };
        assert_eq!(name("./app input"), "./app");
        assert_eq!(name("cxi-softnic ./app input"), "./app");
        assert_eq!(name("/opt/cxi-softnic --verbose --no-sys app"), "app");
        assert_eq!(name("cxi-softnic --version"), "cxi-softnic");
    }
}
