//! Plans for tests.

use std::ffi::OsString;

use crate::command_line::Request;
use crate::tools::TOOLS;
use crate::{Plan, command_line};

/// The plan of a client of `tool` with these options.
pub fn plan(tool: &str, options: &[&str]) -> Plan {
    let tool = TOOLS.iter().find(|other| other.name == tool).unwrap();
    let address: &[&str] = if tool.has_peer() { &["127.0.0.1"] } else { &[] };
    let arguments = [address, &["-d", "soft90"], options].concat();
    match command_line::parse(tool, arguments.into_iter().map(OsString::from).collect()) {
        Ok(Request::Run(typed)) => Plan::new(tool, tool.name.into(), *typed, None).unwrap(),
        _ => panic!("options of a run"),
    }
}
