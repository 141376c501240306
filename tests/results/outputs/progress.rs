//! Progress on a pseudo-terminal, but not in a pipe.

use std::process::Stdio;

use super::{Fabric, assert_success, stderr, stdout};
use crate::harness::terminal::{shown, terminal};
use crate::harness::{Command, assert_status, without_waits};

#[test]
fn shows_progress_on_a_terminal_until_the_run_ends() {
    for (tool, options, unit) in [
        ("write-lat", &["-s", "8:16", "-D", "100"][..], " us"),
        ("send-bw", &["-s", "64", "-n", "1000000000"], " MB/s"),
    ] {
        let (mut ours, device) = terminal();
        let fabric = Fabric::new();
        let mut command = fabric.command(&[&[tool, "--loopback", "-d", "soft0"], options].concat());
        let child = command.stderr(Stdio::from(device)).spawn().unwrap();
        drop(command);
        let line = |text: &str| text.contains(" left, mean ") && text.contains(unit);
        let text = shown(&mut ours, line);
        let first = text.split('\r').next().unwrap();
        let place = if tool == "write-lat" { "8 bytes (1 of 2): " } else { "64 bytes: " };
        assert!(first.starts_with(place) && first.contains(" %"), "{text:?}");
        // One line, drawn over again.
        assert!(!text.contains('\n'), "{text:?}");
        let id = child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &id]).status();
        assert!(killed.unwrap().success());
        let rest = std::thread::spawn(move || shown(&mut ours, |_| false));
        let output = child.finish();
        assert_eq!(output.status.code(), Some(130));
        let rest = rest.join().unwrap();
        let (_, last) = rest.rsplit_once("\x1b[K").expect("the line was removed");
        assert!(last.contains("interrupted") && !last.contains('%'), "{rest:?}");
    }
}

#[test]
fn tells_a_user_at_a_terminal_how_to_measure() {
    let fabric = Fabric::new();
    let (mut ours, device) = terminal();
    let mut command = fabric.command("send-bw -d soft0 -b -D 5 --port=0");
    let child = command.stderr(Stdio::from(device)).spawn().unwrap();
    drop(command);
    let advice = "cxidiag send-bw: this is a server; to measure, give ADDR, or --loopback";
    let text = shown(&mut ours, |text| text.contains(advice));
    let note = "(the client's options apply): --bidirectional --duration";
    assert!(text.contains(note) && text.contains(advice), "{text}");
    drop(child);
}

#[test]
fn shows_no_progress_with_quiet_or_intervals_or_in_a_pipe() {
    let options = ["write-lat", "--loopback", "-d", "soft0", "-D", "1"];
    let fabric = Fabric::new();
    for without in ["--quiet", "--interval=0.2"] {
        let (mut ours, device) = terminal();
        let mut command = fabric.command(&[&options[..], &[without]].concat());
        let child = command.stderr(Stdio::from(device)).spawn().unwrap();
        drop(command);
        let text = std::thread::spawn(move || shown(&mut ours, |_| false));
        assert!(child.finish().status.success());
        assert!(!without_waits(&text.join().unwrap()).contains('%'));
    }
    assert!(!stderr(&fabric.run(&options)).contains('%'));
}

#[test]
fn quiet_prints_results_without_summary_and_notes() {
    let fabric = Fabric::new();
    let options = "write-lat --loopback -d soft0 --latency-gap=0 -n 9 -g AMD --expect p50<1s";
    let full = fabric.run(options);
    let note = assert_status(&full, 0);
    assert!(note.contains("without effect: --gpu-type"), "{note}");
    let quiet = fabric.run(&format!("{options} --quiet"));
    assert_success(&quiet);
    assert_eq!(stderr(&quiet), "");
    // Only the rows differ. What remains of the summary is that no hardware is involved.
    let [full, quiet] = [full, quiet].map(|output| {
        let text = stdout(&output);
        let is_row = |line: &str| line.starts_with("   ");
        // The columns of the expectations, and the line below them, are as wide as their figures.
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines =
            text.lines().map(|line| if is_row(line) { "row".to_owned() } else { words(line) });
        let all = lines.collect::<Vec<_>>().join("\n");
        let (before, below) = all.rsplit_once('\n').expect("lines");
        assert!(below.chars().all(|c| c == '-'), "{below}");
        before.to_owned()
    });
    let (summary, results) = full.split_once("\nPlatform ").expect("a software NIC");
    assert!(summary.contains("\nIterations "), "{summary}");
    assert_eq!(quiet, format!("Platform {results}"));
    let server = fabric.server("write-lat", "-d soft0 --quiet");
    assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 2"));
    let server = server.finish();
    assert_success(&server);
    let text = stdout(&server);
    assert!(!text.contains("Iterations"), "{text}");
    assert!(text.contains("See client for results."), "{text}");
}
