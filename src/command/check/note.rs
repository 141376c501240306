//! Lines on standard error beside the check.

use std::io::{self, Write};

use facts::text::shown;

/// Prints a line on standard error.
pub fn note(what: &str) {
    let _ = writeln!(io::stderr(), "cxidiag check: {}", shown(what));
}
