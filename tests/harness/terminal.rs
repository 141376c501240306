//! Programs on a terminal of their own.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Fabric;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/terminal.py");

/// Returns whether there is Python, and says so if there is none.
pub fn has_python() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import signal"]).stdout(Stdio::null());
    let is_there = python.status().is_ok_and(|status| status.success());
    if !is_there {
        println!("not tested: no python3");
    }
    is_there
}

/// A shell command on this fabric and on a terminal, on which `deed` is done when it shows `text`
/// (`terminal.py`); `None` without Python.
pub fn on_terminal(
    fabric: &Fabric,
    deed: &str,
    text: &str,
    command: &str,
) -> Option<super::Command> {
    let args = [SCRIPT, deed, text, command];
    has_python().then(|| fabric.command_of(Path::new("python3"), &args))
}
