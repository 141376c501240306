//! Programs on a terminal of their own.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

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

/// Opens a terminal. Returns its master, and the device for a program.
pub fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&ours).expect("a pseudo-terminal");
    unlockpt(&ours).expect("a pseudo-terminal");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let device = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("a terminal");
    (ours.into(), device.into())
}

/// Returns what is written to a terminal until the program closes it or `enough` is true.
pub fn shown(terminal: &mut File, enough: impl Fn(&str) -> bool) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if enough(&text) {
            return text;
        }
        match terminal.read(&mut buffer) {
            Ok(0) => return text,
            Ok(count) => seen.extend(&buffer[..count]),
            // The other end is closed.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => return text,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
}
