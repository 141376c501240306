//! Helpers for the tests of the session.

use std::ffi::OsString;

use crate::cli::{self, Request};
use crate::plan::Plan;
use crate::tool::Tool;
use crate::tools::TOOLS;

/// The tool of these tests.
pub fn tool() -> &'static Tool {
    TOOLS.iter().find(|tool| tool.name == "write-lat").unwrap()
}

/// The plan for these arguments.
pub fn plan(arguments: &[&str]) -> Plan {
    let Ok(Request::Run(typed)) =
        cli::parse(tool(), arguments.iter().map(OsString::from).collect())
    else {
        panic!("{arguments:?}");
    };
    Plan::new(tool(), "cxidiag write-lat".into(), *typed, None).unwrap()
}

/// Bytes from hexadecimal digits; blanks and line ends do not count.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
