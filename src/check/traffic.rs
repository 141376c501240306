//! Short runs of tools through one NIC, from this host to itself. Each is a process with a time
//! limit.

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use diag::probe::{Probe, Starved};
use facts::advice::Situation;
use facts::device::{DeviceName, LIBCXI_VARIABLE, LibraryFile};
use facts::error::{Failure, Kind};
use facts::expect::Metric;
use facts::percentile::Percentile;
use facts::severity::Severity;
use health::{Finding, Item, traffic};
use node::nic::link_speed::LinkSpeed;
use page::problem::Problem;
use report::Outcome;
use report::noise::is_disturbed;

/// Time limit of a run. Runs take some ten milliseconds.
const LIMIT: Duration = Duration::from_secs(3);

/// Time limit of a run whose processes wait for CPUs.
const LONGEST: Duration = Duration::from_secs(10);

/// Runs on all NICs that may exceed their limit: a check of eight NICs, two of which do not answer,
/// takes less than 10 s; on busy CPUs, less than 25 s.
const MAX_TIMEOUTS: usize = 2;

/// The runs: tool, item, options.
const RUNS: [(&str, &Item, &[&str]); 4] = [
    ("write-lat", &traffic::WRITE, &["--iters=1000", "--latency-gap=0"]),
    ("read-lat", &traffic::READ, &["--iters=1000", "--latency-gap=0"]),
    ("write-bw", &traffic::WRITE_BANDWIDTH, &["--duration=0.1", "--size=65536"]),
    ("read-bw", &traffic::READ_BANDWIDTH, &["--duration=0.1", "--size=65536"]),
];

/// The items without values, and why.
pub fn left_out(why: &str) -> Vec<Finding> {
    RUNS.map(|(_, item, _)| Finding::untested(item, why)).to_vec()
}

/// The runs of one check, on one NIC after the other.
#[derive(Debug)]
pub struct Runs<'a> {
    libcxi: Option<&'a LibraryFile>,
    /// Runs that have not ended within their limit, or written no result.
    without_result: usize,
}

impl<'a> Runs<'a> {
    /// The runs of a check with this library.
    pub fn new(libcxi: Option<&'a LibraryFile>) -> Self {
        Self { libcxi, without_result: 0 }
    }

    /// Measures through `device`, whose link has this `speed`. Returns the findings, and why a run
    /// was not possible: later runs are then left out.
    pub fn measure(
        &mut self,
        device: DeviceName,
        is_software: bool,
        speed: Option<LinkSpeed>,
    ) -> Result<(Vec<Finding>, Option<Failure>), Failure> {
        let libcxi = self.libcxi;
        let run = |tool, options| probe(tool, device, options, libcxi).run();
        self.measure_by(run, is_software, speed)
    }

    /// Measures by `run`, which takes a tool and its options.
    fn measure_by(
        &mut self,
        mut run: impl FnMut(&'static str, &'static [&'static str]) -> Result<Outcome, Failure>,
        is_software: bool,
        speed: Option<LinkSpeed>,
    ) -> Result<(Vec<Finding>, Option<Failure>), Failure> {
        if self.without_result >= MAX_TIMEOUTS {
            return Ok((left_out("runs on other NICs did not end"), None));
        }
        let mut findings = Vec::new();
        let rest = |at: usize, why| {
            let left_out = RUNS.iter().skip(at);
            left_out.map(move |(_, item, _)| Finding::untested(item, why))
        };
        for (at, (tool, item, options)) in RUNS.into_iter().enumerate() {
            let outcome = match run(tool, options) {
                Ok(outcome) => outcome,
                Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
                Err(failure) if is_of_system(&failure) => {
                    self.without_result += usize::from(is_starved(&failure));
                    findings.extend(rest(at, "a run was not possible"));
                    return Ok((findings, Some(failure)));
                }
                Err(failure) => {
                    self.without_result += 1;
                    findings.push(failed(item, &failure.message()));
                    findings.extend(rest(at + 1, "a run did not end"));
                    return Ok((findings, None));
                }
            };
            match &outcome.error {
                Some(problem) if is_about_data(problem) => {
                    findings.push(failed(item, &problem.message));
                    findings.extend(rest(at + 1, "a run found wrong data"));
                    return Ok((findings, None));
                }
                Some(problem) if problem.kind == Kind::Nic.name() => {
                    findings.push(failed(item, &problem.message));
                }
                Some(problem) => {
                    findings.extend(rest(at, "a run was not possible"));
                    let failure = Failure::environment(format!("{tool}: {}", problem.message));
                    return Ok((findings, Some(failure.with_hint_if(problem.hint.clone()))));
                }
                None => findings.push(evaluated(item, &outcome, is_software, speed)),
            }
        }
        Ok((findings, None))
    }
}

fn probe(
    tool: &'static str,
    device: DeviceName,
    options: &[&str],
    libcxi: Option<&LibraryFile>,
) -> Probe {
    let device = format!("--device={device}");
    let mut arguments: Vec<OsString> = vec!["--loopback".into(), device.into(), "--verify".into()];
    arguments.extend(options.iter().map(OsString::from));
    let library = libcxi.map(|file| file.path.to_string_lossy().into_owned());
    Probe {
        tool,
        arguments,
        variables: vec![(LIBCXI_VARIABLE, library)],
        limit: Some(LIMIT),
        longest: Some(LONGEST),
        since: Instant::now(),
    }
}

/// Whether the system refused to start a run or left it without CPU, which says nothing about the
/// NIC.
fn is_of_system(failure: &Failure) -> bool {
    failure.error.root_cause().is::<io::Error>() || is_starved(failure)
}

fn is_starved(failure: &Failure) -> bool {
    failure.error.root_cause().is::<Starved>()
}

/// Whether a run found wrong data, on either side.
fn is_about_data(problem: &Problem) -> bool {
    problem.situation == Some(Situation::WrongData.name())
}

fn failed(item: &'static Item, why: &str) -> Finding {
    Finding { verdict: Severity::Bad, ..Finding::untested(item, why) }
}

fn evaluated(
    item: &'static Item,
    outcome: &Outcome,
    is_software: bool,
    speed: Option<LinkSpeed>,
) -> Finding {
    let result = outcome.results.first();
    let figure = |metric| result.and_then(|result| result.figure(metric));
    let median = figure(Metric::Percentile(Percentile::STANDARD[0]));
    let finding = match (median, figure(Metric::Bandwidth)) {
        (Some(ns), _) => traffic::latency(item, ns / 1e9, is_software),
        (None, Some(bytes_per_s)) => traffic::bandwidth(item, bytes_per_s, speed, is_software),
        (None, None) => Finding::untested(item, "no result"),
    };
    if result.is_some_and(is_disturbed) { traffic::disturbed(finding) } else { finding }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_end_leave_out_later_runs_and_then_later_nics() {
        let mut runs = Runs::new(None);
        let mut started = 0;
        let mut verdicts = || {
            let endless = |_, _| {
                started += 1;
                Err(Failure::environment("write-lat did not end within 3s"))
            };
            let (findings, failure) = runs.measure_by(endless, false, None).unwrap();
            assert_eq!(failure.map(|failure| failure.message()), None);
            findings.iter().map(|found| found.verdict).collect::<Vec<_>>()
        };
        let (bad, absent) = (Severity::Bad, Severity::NotAvailable);
        assert_eq!(verdicts(), [bad, absent, absent, absent]);
        assert_eq!(verdicts(), [bad, absent, absent, absent]);
        assert_eq!(verdicts(), [absent; 4]);
        assert_eq!(started, MAX_TIMEOUTS);
    }

    #[test]
    fn nic_is_not_bad_because_no_process_starts_or_runs() {
        let refused = || Failure::new(Kind::Environment, io::Error::from_raw_os_error(11));
        let starved =
            || Failure::new(Kind::Environment, Starved { waited: Duration::from_secs(8) });
        for (cause, message) in [
            (&refused as &dyn Fn() -> Failure, "write-lat: "),
            (&starved, "write-lat: its processes waited 8.0 s for CPUs"),
        ] {
            let run = |_, _| Err(cause().context("write-lat"));
            let (findings, failure) = Runs::new(None).measure_by(run, false, None).unwrap();
            let mut verdicts = findings.iter().map(|found| found.verdict);
            assert!(verdicts.all(|verdict| verdict == Severity::NotAvailable));
            assert!(failure.unwrap().message().starts_with(message));
        }
    }
}
