//! `stat --top`: the NICs of this node on a terminal.

use std::process::{Output, Stdio};

use crate::Place;
use crate::harness::{CXIDIAG, Command, assert_status, finish, stderr, stdout};

const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/terminal.py");

/// Runs `stat --top` on a terminal that gets a key when it shows this text.
fn on_terminal(key: &str, text: &str) -> Option<Output> {
    let place = Place::new();
    let mut python = Command::new("python3");
    python.arg("--version").stdout(Stdio::null());
    if !python.status().is_ok_and(|status| status.success()) {
        println!("not tested: no python3");
        return None;
    }
    let stat = format!("stty rows 20 cols 70; exec {CXIDIAG} stat soft0 --top");
    let mut terminal = Command::new("python3");
    terminal.args([TERMINAL, key, text, &stat]);
    terminal.env("CXIDIAG_FABRIC_DIR", place.fabric.path());
    Some(finish(terminal))
}

/// The sequences that show the cursor and the screen from before.
const RESTORED: &str = "\x1b[?25h\x1b[?1049l";

#[test]
fn shows_each_nic_until_the_key_q() {
    let Some(output) = on_terminal("quit", "Received") else {
        return;
    };
    assert_status(&output, 0);
    let shown = stdout(&output);
    assert!(shown.contains("1 NIC: the last "), "{shown}");
    assert!(shown.contains("\nsoft0 "), "{shown}");
    assert!(shown.trim_end().ends_with(RESTORED), "{shown:?}");
}

#[test]
fn restores_the_terminal_after_ctrl_c() {
    let Some(output) = on_terminal("interrupt", "reading the counters") else {
        return;
    };
    assert_status(&output, 130);
    assert!(stdout(&output).contains(RESTORED), "{output:?}");
}

#[test]
fn needs_a_terminal_and_nothing_else() {
    for (options, why) in [
        (&["soft0", "--top"][..], "--top needs a terminal"),
        (&["--top", "--", "true"], "--top runs no command"),
        (&["--top", "--json"], "--top writes no report"),
        (&["--top", "--merge", "x"], "exclude each other"),
    ] {
        let place = Place::new();
        let output = finish(place.cxidiag(&[&["stat"], options].concat()));
        assert_status(&output, 2);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}
