//! `survey --load`: the plan, what is found under load, and how load ends.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::document;
use crate::cpus::{Work, cpus};
use crate::harness::planted::member;
use crate::harness::{Fabric, Process, assert_status, finish, stderr, stdout};

/// Two groups of two switches with two NICs each, so slow that two CPUs do not limit them.
const FORM: &str = "dragonfly:groups=2,switches=2,nics=2,nic=10MB/s,local=10MB/s,\
                    global-rate=10MB/s,latency=20us;route minimal";

/// How often a survey that busy CPUs disturb is repeated.
const ATTEMPTS: usize = 5;

/// How long a test waits for what happens in seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The arguments of a survey of these NICs with a short quiet part and short slots. The quiet part
/// measures latencies only: a bandwidth needs longer than its slot at 10 MB/s.
fn arguments(nics: u32, load: &str) -> String {
    format!(
        "survey write-lat --loopback={nics} --pairs=halves --pair-time=20ms --no-why \
         --load-window=64K --load={load}"
    )
}

/// The parts that are bad under load, confirmed or not.
fn bad(document: &Value) -> Vec<Value> {
    let judgements = document["load"]["judgements"].as_array().expect("a list");
    let bad = judgements.iter().filter(|judgement| judgement["grade"] == "bad");
    let lasting = bad.filter(|entry| entry["word"] != "transient");
    lasting.map(|entry| entry["unit"].clone()).collect()
}

#[test]
fn plan_names_patterns_and_sends_nothing() {
    let fabric = Fabric::new();
    let mut command = fabric.command(&arguments(8, "plan,bisect:switch,incast:64"));
    command.env("CXIDIAG_TOPOLOGY", FORM);
    let output = finish(command);
    assert_status(&output, 0);
    let text = stdout(&output);
    assert!(text.starts_with("plan: at most 8 of 8 NICs would send at once; nothing was sent\n"));
    assert!(text.contains("\nbisect:switch"), "{text}");
    // No pair was measured either.
    assert!(!text.contains("good"), "{text}");
}

/// Nothing else may be called bad.
#[test]
fn slow_nic_is_found_under_load() {
    let _cpus = cpus(Work::Measures);
    let slow_nic = serde_json::json!({"nic": 3});
    for _ in 0..ATTEMPTS {
        let fabric = Fabric::new();
        let mut command = fabric.command(&format!("{} --json", arguments(8, "bisect:switch")));
        command.env("CXIDIAG_TOPOLOGY", format!("{FORM};fault nic 3 rate=40%"));
        let document = document(&finish(command));
        let found = bad(&document);
        assert!(found.iter().all(|part| *part == slow_nic), "{found:?}: {document}");
        if !found.is_empty() {
            return;
        }
    }
    panic!("{slow_nic} was not found");
}

#[test]
fn good_fabric_has_no_culprit_and_shares_of_theory() {
    let _cpus = cpus(Work::Measures);
    let fabric = Fabric::new();
    let load = arguments(8, "bisect:switch,incast:4");
    let mut command = fabric.command(&format!("{load} --json"));
    command.arg(format!("--topology={FORM}"));
    command.env("CXIDIAG_TOPOLOGY", FORM);
    let output = finish(command);
    let document = document(&output);
    assert_eq!(bad(&document), [Value::Null; 0], "{document}");
    let load = &document["load"];
    assert_eq!(load["aborted"], Value::Null, "{document}");
    assert_eq!(load["settings"]["is_partial"], false);
    let bandwidths = load["bandwidths"].as_array().expect("a list");
    let patterns: Vec<&str> =
        bandwidths.iter().filter_map(|bandwidth| bandwidth["pattern"].as_str()).collect();
    assert!(patterns.contains(&"bisect:switch"), "{patterns:?}");
    assert!(patterns.contains(&"incast:4"), "{patterns:?}");
    assert!(bandwidths.iter().any(|bandwidth| bandwidth["theory"].is_number()));
}

#[test]
fn cap_makes_the_load_partial() {
    let _cpus = cpus(Work::Measures);
    let fabric = Fabric::new();
    let load = arguments(8, "bisect:switch --load-cap=4");
    let mut command = fabric.command(&format!("{load} --json"));
    command.arg(format!("--topology={FORM}"));
    command.env("CXIDIAG_TOPOLOGY", FORM);
    let document = document(&finish(command));
    let settings = &document["load"]["settings"];
    assert_eq!(settings["is_partial"], true, "{document}");
    assert!(settings["most_aggressors"].as_u64() <= Some(4), "{document}");
    let bandwidths = document["load"]["bandwidths"].as_array().expect("a list");
    assert!(bandwidths.iter().all(|bandwidth| bandwidth["share_of_theory"].is_null()));
}

#[test]
fn load_is_refused_outside_of_jobs_and_in_prologs() {
    let fabric = Fabric::new();
    let output = finish(fabric.command("survey --hosts=n1,n2 --load"));
    assert_status(&output, 2);
    assert!(stderr(&output).contains("--load-cap"), "{}", stderr(&output));
    let mut command = fabric.command("survey --loopback=4 --load");
    command.env("SLURM_SCRIPT_CONTEXT", "prolog_slurmd");
    let output = finish(command);
    assert_status(&output, 2);
    assert!(stderr(&output).contains("prolog"), "{}", stderr(&output));
}

/// Starts a survey, and waits until it loads the fabric.
fn start_load(fabric: &Fabric) -> Process {
    let mut command = fabric.command(&arguments(8, "all2all,bisect:switch,bisect:group"));
    command.env("CXIDIAG_TOPOLOGY", FORM);
    let mut survey = super::start(command);
    let mut lines = BufReader::new(survey.stderr.as_mut().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("loading the fabric") {
        line.clear();
        let count = lines.read_line(&mut line).expect("a pipe");
        assert!(count > 0, "the survey ended before its load");
    }
    wait_until("NICs send", || sends(fabric));
    survey
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {LIMIT:?}");
    }
}

/// Whether a NIC of the survey sends, while another process looks at its counters.
fn sends(fabric: &Fabric) -> bool {
    let mut looks = fabric.command("stat soft0 soft1 soft2 soft3 -- sleep 1");
    looks.env("CXIDIAG_TOPOLOGY", FORM);
    let report = stderr(&finish(looks));
    assert!(report.contains("traffic: "), "{report}");
    !report.contains("traffic: nothing was sent")
}

/// load.md 3.8: load ends without orders when the coordinator is gone.
#[test]
fn members_end_when_their_coordinator_is_killed_under_load() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let mut survey = start_load(&fabric);
    survey.kill();
    survey.wait();
    wait_until("the members end", || (0..8).all(|rank| member(&fabric, rank).is_none()));
}

#[test]
fn load_ends_while_the_coordinator_is_stopped() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let survey = start_load(&fabric);
    survey.signal("STOP");
    wait_until("the load ends", || !sends(&fabric));
    survey.signal("CONT");
    drop(survey);
}

/// A member that is killed is left out, and the load goes on; a second one ends it.
#[test]
fn second_lost_node_ends_the_load() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let survey = start_load(&fabric);
    for rank in [2, 5] {
        kill_process(member(&fabric, rank).expect("a member"), Signal::KILL).unwrap();
    }
    let output = survey.finish();
    assert_status(&output, 1);
    let text = stdout(&output);
    assert!(text.contains("2 nodes were lost under load"), "{text}");
}

#[test]
fn interrupted_load_shows_the_figures_so_far() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let survey = start_load(&fabric);
    survey.signal("INT");
    let output = survey.finish();
    assert_status(&output, 130);
    assert!(stdout(&output).contains("\nUnder load\n"), "{}", stdout(&output));
}

/// Without locations there are no groups: known before the quiet part.
#[test]
fn impossible_load_is_refused_before_the_quiet_part() {
    let fabric = Fabric::new();
    let output = finish(fabric.command(&arguments(4, "bisect:system")));
    assert_status(&output, 2);
    assert!(stderr(&output).contains("bisect:system"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
}
