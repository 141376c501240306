//! Surveys that are interrupted, or lose members, and what they have written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{absent, bad, document, wait_for_lines};
use crate::cpus::{Work, cpus};
use crate::harness::planted::member;
use crate::harness::{Fabric, Process, assert_status, stderr};
use crew::host_list::expand;

/// The arguments of a survey of four NICs that writes each result to `lines`.
fn arguments(lines: &Path) -> String {
    format!(
        "survey --loopback=4 --no-why --pairs=all write-lat read-lat --json --jsonl={}",
        lines.display()
    )
}

/// Starts a survey, and waits until it has written its first results.
fn start(fabric: &Fabric, lines: &Path) -> Process {
    let mut survey = super::start(fabric.command(&arguments(lines)));
    wait_for_lines(&mut survey, lines, 2);
    survey
}

/// Runs a survey, and sends a signal to the member of a rank when the first results are written.
fn with_signal(rank: u32, signal: Signal) -> Value {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let survey = start(&fabric, &directory.path().join("lines"));
    kill_process(member(&fabric, rank).expect("a member"), signal).unwrap();
    let output = survey.finish();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    document(&output)
}

#[test]
fn names_killed_and_stopped_processes() {
    let _cpus = cpus(Work::Waits);
    // The end of a process that had not read an order yet resets its connection.
    let killed = ["closed its connection", "its connection was reset: it was killed"];
    for (signal, reasons) in [(Signal::KILL, &killed[..]), (Signal::STOP, &["no report within"])] {
        let document = with_signal(2, signal);
        let absent = absent(&document);
        assert_eq!(absent.len(), 1, "{absent:?}");
        assert_eq!(absent[0].0, 2, "{absent:?}");
        assert!(reasons.iter().any(|reason| absent[0].1.contains(reason)), "{absent:?}");
        assert_eq!(bad(&document), (vec![], 0), "{signal:?}: {document}");
    }
}

/// The time of the CPU that a process has used, in hundredths of a second.
fn cpu_ticks(process: Pid) -> u64 {
    let path = format!("/proc/{}/stat", process.as_raw_nonzero());
    let text = fs::read_to_string(path).expect("a process");
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Members of this machine get a signal too: their slots are a minute long.
#[test]
fn signal_ends_members_within_their_slots() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("lines");
    let arguments = format!("survey --loopback=2 --pair-time=10s --jsonl={}", lines.display());
    let mut survey = super::start(fabric.command(&arguments));
    wait_for_lines(&mut survey, &lines, 1);
    // A member that has used a second of a CPU measures.
    let members = [0, 1].map(|rank| member(&fabric, rank).expect("a member"));
    while !members.iter().any(|member| cpu_ticks(*member) > 100) {
        thread::sleep(Duration::from_millis(5));
    }
    survey.signal("TERM");
    let output = survey.finish();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

/// A process without a CPU is told when it runs again. The coordinator has said it then.
#[test]
fn process_that_was_given_up_prints_no_error() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let [lines, said] = ["lines", "said"].map(|name| directory.path().join(name));
    let mut command = fabric.command(&arguments(&lines));
    command.stderr(fs::File::create(&said).unwrap());
    let mut survey = super::start(command);
    wait_for_lines(&mut survey, &lines, 2);
    let stopped = [1, 2].map(|rank| member(&fabric, rank).expect("a member"));
    let signal = |signal| stopped.iter().for_each(|&id| kill_process(id, signal).unwrap());
    signal(Signal::STOP);
    let text = || fs::read_to_string(&said).unwrap();
    let given_up = || {
        let text = text();
        let hosts = text.lines().filter_map(|line| {
            let (hosts, _) = line.split_once(": no report within")?;
            expand(hosts.trim_start_matches("cxidiag survey: ")).ok()
        });
        hosts.flatten().count()
    };
    while given_up() < 2 {
        assert!(survey.try_wait().is_none(), "{}", text());
        thread::sleep(Duration::from_millis(1));
    }
    signal(Signal::CONT);
    assert_eq!(survey.finish().status.code(), Some(4), "{}", text());
    assert!(!text().contains("error:") && !text().contains("hint:"), "{}", text());
}

#[test]
fn interrupted_survey_writes_its_results_and_is_resumed() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("lines");
    let survey = start(&fabric, &lines);
    kill_process(Pid::from_raw(survey.id() as i32).unwrap(), Signal::TERM).unwrap();
    let output = survey.finish();
    assert_status(&output, 130);
    let interrupted = document(&output);
    assert_eq!(interrupted["conclusion"], "interrupted");
    let answered = |document: &Value| document["verdict"]["answered"].as_u64().unwrap();
    assert!(answered(&interrupted) < 12, "{interrupted}");
    let before = fs::read_to_string(&lines).unwrap().len();

    let output = fabric.run(&format!("{} --resume={}", arguments(&lines), lines.display()));
    let resumed = document(&output);
    assert_eq!(resumed["verdict"]["planned"], 12);
    assert!(answered(&resumed) >= answered(&interrupted));
    assert!(stderr(&output).contains("earlier results"), "{}", stderr(&output));
    let text = fs::read_to_string(&lines).unwrap();
    let (earlier, new) = text.split_at(before);
    let measured = sweep(earlier, |answer| !answer["measured"].is_null());
    let again = sweep(new, |_| true);
    assert!(measured.is_disjoint(&again), "{text}");
    assert_eq!(measured.union(&again).count(), 12, "{text}");
    assert!(rounds(earlier).max() < rounds(new).min(), "{text}");
}

/// The numbers of the rounds in `lines`.
fn rounds(lines: &str) -> impl Iterator<Item = u64> {
    let lines = lines.lines().map(serde_json::from_str::<Value>);
    lines.filter_map(|line| line.unwrap()["round"].as_u64())
}

/// Returns tool and NICs of each pair of the sweep in `lines` whose answer `is_wanted`.
fn sweep(lines: &str, is_wanted: impl Fn(&Value) -> bool) -> BTreeSet<[String; 3]> {
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["stage"] == "sweep" && is_wanted(&line["answer"]))
        .map(|line| {
            [&line["tool"], &line["initiator"]["device"], &line["target"]["device"]]
                .map(Value::to_string)
        })
        .collect()
}
