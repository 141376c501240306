//! `why`: why one NIC is slow that somebody suspects, beside good NICs of other nodes, by the
//! members of a survey that measures nothing else (docs/why.md); or why a job makes no progress
//! (docs/hang.md).

use std::ffi::OsString;
use std::time::{Instant, SystemTime};

use super::launch::Launch;
use super::nic_diagnosis::NicDiagnosis;
use super::processes::Started;
use super::request::{ProcessSource, SurveyRequest, tests};
use super::why_options::{Beside, WhyRequest};
use super::{coordinator, nic_diagnosis_text};
use cli::output;
use facts::error::Failure;
use facts::host::host_name;
use facts::interrupt;
use node::machine::Machine;
use node::{backend, reading};
use page::destination::Place;
use page::documents::{Documents, Places};
use page::table::TextStyle;
use plan::tools::TOOLS;
use why::suspect::SuspectFindings;

pub use super::why_options::usage;

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a NIC that does not exist, good NICs that do not answer, a file that cannot
/// be written, and a NIC that is slow; with `--job` or `--merge`, the failures of [`hang::run`].
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let read = crate::why_options::parse(&arguments);
    let Some(request) = output::or_refusal(&arguments, read)? else {
        return Ok(());
    };
    if let Some(hang) = request.hang() {
        return hang::run(&hang);
    }
    let ready = backend::check(request.device).and_then(|()| interrupt::watch());
    output::or_early_failure(crate::processes::own_place(request.json.as_ref()), ready)?;
    if measure_if_started(&request)? {
        return Ok(());
    }
    reading::limit_waits();
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        ticket: request.ticket.clone().map(Place::File),
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let present = check::require(request.device, &Machine::this());
    output::or_failure(&documents, present)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let mut has_results = false;
    let report = |found: SuspectFindings| {
        has_results = true;
        let typed = arguments.iter().map(|word| word.to_string_lossy().into_owned());
        let diagnosis = NicDiagnosis::new(typed.collect(), started, clock.elapsed(), found);
        output::write(&documents, &diagnosis, request.is_quiet, nic_diagnosis_text::page)?;
        if let Some(ticket) = &documents.ticket {
            let text = nic_diagnosis_text::ticket(&diagnosis).text(TextStyle::Markdown);
            ticket.write(text.as_bytes())?;
        }
        documents.conclude(diagnosis.result())
    };
    let diagnosed = diagnose(&request, "why", &arguments, report);
    if has_results { diagnosed } else { output::or_failure(&documents, diagnosed) }
}

/// Measures with the NIC of this process, if [`diagnose`] has started it. Returns whether it has.
///
/// # Errors
///
/// The errors of a member of a survey.
fn measure_if_started(request: &WhyRequest) -> Result<bool, Failure> {
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
