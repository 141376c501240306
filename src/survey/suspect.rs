//! The diagnosis of one NIC that somebody suspects, by the members of a survey that measures
//! nothing else.

use std::ffi::OsString;

use super::coordinator;
use super::launch::Launch;
use super::processes::Started;
use super::request::{ProcessSource, SurveyRequest, tests};
use super::why_options::{Beside, WhyRequest};
use facts::error::Failure;
use facts::host::host_name;
use plan::tools::TOOLS;
use why::suspect::SuspectFindings;

/// Measures with the NIC of this process, if [`diagnose`] has started it. Returns whether it has.
///
/// # Errors
///
/// The errors of a member of a survey.
pub fn measure_if_started(request: &WhyRequest) -> Result<bool, Failure> {
    match Started::from_environment() {
        Some(started) => {
            super::member::run_started(&member_request(request)?, started).map(|()| true)
        }
        None => Ok(false),
    }
}

/// Finds out why a NIC is slow, and gives what was found to `report`. Processes of this machine are
/// started with the `command` and the `arguments` of this one.
///
/// # Errors
///
/// Options that no tool can measure with, processes that do not start or find each other, an
/// interruption, and the errors of `report`.
pub fn diagnose(
    request: &WhyRequest,
    command: &'static str,
    arguments: &[OsString],
    report: impl FnOnce(SuspectFindings) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let member_request = member_request(request)?;
    let (launch, rank) = match &request.beside {
        Beside::Loopback(count) => (Launch::loopback(*count, arguments), request.device.index),
        Beside::Peers { hosts, devices } => {
            let devices = devices.clone();
            (Launch::beside(host_name(), hosts, devices, arguments), 0)
        }
        Beside::Nothing => (Launch::beside(host_name(), &[], Vec::new(), arguments), 0),
    };
    coordinator::diagnose(&member_request, &launch.for_command(command), rank, report)
}

/// Returns the request of a survey whose members measure the NIC.
fn member_request(request: &WhyRequest) -> Result<SurveyRequest, Failure> {
    let (processes, devices) = match &request.beside {
        Beside::Loopback(count) => (ProcessSource::Loopback(*count), None),
        Beside::Peers { .. } | Beside::Nothing => {
            (ProcessSource::Hosts(Vec::new()), Some(vec![request.device]))
        }
    };
    Ok(SurveyRequest {
        processes,
        devices,
        // Members read the options about the service from a test.
        tests: tests(&[&TOOLS[0]], &[], &request.service.arguments(), &[])?,
        service: request.service.clone(),
        pair_time: request.pair_time,
        port: request.port,
        is_quiet: request.is_quiet,
        ..SurveyRequest::default()
    })
}
