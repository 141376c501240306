//! `stat --top`: the NICs of this node on a terminal.

use std::process::Output;

use crate::Place;
use crate::harness::terminal::on_terminal;
use crate::harness::{CXIDIAG, Fabric, assert_status, finish, stderr, stdout};

/// Runs `stat --top` on a terminal that gets a key when it shows this text.
fn top(key: &str, text: &str) -> Option<Output> {
    let fabric = Fabric::new();
    let stat = format!("stty rows 20 cols 70; exec {CXIDIAG} stat soft0 --top");
    on_terminal(&fabric, key, text, &stat).map(finish)
}

/// The sequences that show the cursor and the screen from before.
const RESTORED: &str = "\x1b[?25h\x1b[?1049l";

#[test]
fn shows_each_nic_until_the_key_q() {
    let Some(output) = top("quit", "Received") else {
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
    let Some(output) = top("interrupt", "reading the counters") else {
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
