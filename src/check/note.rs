//! Lines on standard error beside the check.

use std::io::{self, Write};

use facts::text::shown;
use facts::time_of_day::{Clocks, step_text};

/// Prints a line on standard error.
pub fn note(what: &str) {
    let _ = writeln!(io::stderr(), "cxidiag check: {}", shown(what));
}

/// Prints a line of `program` about what the clock did since `began`, if it was stepped.
pub fn note_step(program: &str, began: Clocks) {
    if let Some(step) = Clocks::now().step_since(began) {
        let _ = writeln!(io::stderr(), "{program}: {}", step_text("this host", step));
    }
}
