//! Lines on standard error beside the report.

use std::io::{self, Write};

use facts::text::shown;

/// Name of the command, for messages.
pub const NAME: &str = "cxidiag stat";

/// Prints a line on standard error.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{NAME}: {}", shown(line));
}
