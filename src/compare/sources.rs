//! Files with results that `compare` and `report` read.

use std::fmt::Display;
use std::io::{self, Write};

use crate::runs::RunSource;
use facts::error::{Failure, invalid};
use facts::text::shown;
use page::destination::Place;

/// Checks that standard input is read once.
pub fn check_stdin<'a>(sources: impl Iterator<Item = &'a RunSource>) -> Result<(), Failure> {
    match sources.filter(|source| **source == RunSource::Stdin).count() {
        0 | 1 => Ok(()),
        _ => Err(Failure::usage("standard input (-) can be read only once")),
    }
}

/// Checks that the output of this option does not replace a file that is read.
pub fn check_output(
    sources: &[RunSource],
    option: &'static str,
    output: &Place,
) -> Result<(), Failure> {
    let target = output.file().and_then(|output| output.canonicalize().ok());
    let is_target = |source: &RunSource| match source {
        RunSource::Stdin => false,
        RunSource::File(path) => target.is_some() && path.canonicalize().ok() == target,
    };
    match output.file().filter(|_| sources.iter().any(is_target)) {
        None => Ok(()),
        Some(output) => {
            let allowed = "this is a file with results, which would be replaced";
            Err(Failure::usage(invalid(option, output.display(), allowed)))
        }
    }
}

pub fn warn(name: &str, what: impl Display) {
    let _ = writeln!(io::stderr(), "{name}: warning: {}", shown(&what.to_string()));
}
