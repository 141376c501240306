//! `why`: why one NIC is slow, beside good NICs of other nodes (docs/why.md), or why a job makes no
//! progress (docs/hang.md).

use std::ffi::OsString;
use std::time::{Instant, SystemTime};

use crate::nic_diagnosis::NicDiagnosis;
use crate::nic_diagnosis_text;
pub use crate::why_options::usage;
use cli::output;
use facts::error::Failure;
use facts::interrupt;
use node::machine::Machine;
use node::{backend, reading};
use page::destination::Place;
use page::documents::{Documents, Places};
use page::table::TextStyle;
use why::suspect::SuspectFindings;

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
    if crate::suspect::measure_if_started(&request)? {
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
    let diagnosed = crate::suspect::diagnose(&request, "why", &arguments, report);
    if has_results { diagnosed } else { output::or_failure(&documents, diagnosed) }
}
