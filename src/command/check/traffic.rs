//! Short runs of tools through one NIC, from this host to itself. Each is a process with a time
//! limit.

use std::ffi::OsString;
use std::time::Duration;

use super::super::probe::Probe;
use crate::device::{DeviceName, LIBCXI_VARIABLE, LibraryFile};
use crate::error::{Failure, Kind};
use crate::measure::Percentile;
use crate::nic::health::{Finding, Item, Verdict, traffic};
use crate::nic::link_speed::LinkSpeed;
use crate::plan::expect::Metric;
use crate::report::Outcome;
use crate::report::noise::is_disturbed;

/// Time limit of a run. Runs take some ten milliseconds; 8 NICs with four of them have 10 s.
const LIMIT: Duration = Duration::from_secs(5);

/// The runs: tool, item, options.
const RUNS: [(&str, &Item, &[&str]); 4] = [
    (
        "write-lat",
        &traffic::WRITE,
        &["--iters=1000", "--latency-gap=0"],
    ),
    (
        "read-lat",
        &traffic::READ,
        &["--iters=1000", "--latency-gap=0"],
    ),
    (
        "write-bw",
        &traffic::WRITE_BANDWIDTH,
        &["--duration=0.1", "--size=65536"],
    ),
    (
        "read-bw",
        &traffic::READ_BANDWIDTH,
        &["--duration=0.1", "--size=65536"],
    ),
];

/// Returns the items without values, and why.
pub fn left_out(why: &str) -> Vec<Finding> {
    RUNS.map(|(_, item, _)| Finding::untested(item, why))
        .to_vec()
}

/// Measures through `device`, whose link has this `speed`. Returns the findings, and why a run was
/// not possible: later runs are then left out.
///
/// # Errors
///
/// An interruption.
pub fn measure(
    device: DeviceName,
    is_software: bool,
    speed: Option<LinkSpeed>,
    libcxi: Option<&LibraryFile>,
) -> Result<(Vec<Finding>, Option<Failure>), Failure> {
    let mut findings = Vec::new();
    for (at, (tool, item, options)) in RUNS.into_iter().enumerate() {
        let outcome = match probe(tool, device, options, libcxi).run() {
            Ok(outcome) => outcome,
            Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
            Err(failure) => {
                // A run has ended itself where the NIC does not answer.
                findings.push(failed(item, &failure.message()));
                continue;
            }
        };
        match &outcome.error {
            Some(problem) if problem.kind == Kind::Nic.name() => {
                findings.push(failed(item, &problem.message));
            }
            Some(problem) => {
                let why = "a run was not possible";
                let rest = RUNS.iter().skip(at);
                findings.extend(rest.map(|(_, item, _)| Finding::untested(item, why)));
                let failure = Failure::environment(format!("{tool}: {}", problem.message));
                return Ok((findings, Some(failure.with_hint_if(problem.hint.clone()))));
            }
            None => findings.push(judged(item, &outcome, is_software, speed)),
        }
    }
    Ok((findings, None))
}

fn probe(
    tool: &'static str,
    device: DeviceName,
    options: &[&str],
    libcxi: Option<&LibraryFile>,
) -> Probe {
    let mut arguments: Vec<OsString> =
        vec!["--loopback".into(), format!("--device={device}").into()];
    arguments.extend(options.iter().map(OsString::from));
    let library = libcxi.map(|file| file.path.to_string_lossy().into_owned());
    Probe {
        tool,
        arguments,
        variables: vec![(LIBCXI_VARIABLE, library)],
        limit: Some(LIMIT),
    }
}

fn failed(item: &'static Item, why: &str) -> Finding {
    Finding {
        verdict: Verdict::Bad,
        ..Finding::untested(item, why)
    }
}

fn judged(
    item: &'static Item,
    outcome: &Outcome,
    is_software: bool,
    speed: Option<LinkSpeed>,
) -> Finding {
    let result = outcome.results.first();
    let figure = |metric| result.and_then(|of| of.figure(metric));
    let median = figure(Metric::Percentile(Percentile::STANDARD[0]));
    let finding = match (median, figure(Metric::Bandwidth)) {
        (Some(ns), _) => traffic::latency(item, ns / 1e9, is_software),
        (None, Some(bytes_per_s)) => traffic::bandwidth(item, bytes_per_s, speed, is_software),
        (None, None) => Finding::untested(item, "no result"),
    };
    if result.is_some_and(is_disturbed) {
        traffic::disturbed(finding)
    } else {
        finding
    }
}
