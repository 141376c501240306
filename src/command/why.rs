//! `why`: why one NIC is slow, beside good NICs of other nodes (docs/why.md).

mod usage;

use std::ffi::OsString;
use std::time::{Instant, SystemTime};

pub use self::usage::usage;
use super::survey;
use check;
use cli::output;
use cluster::why::suspect::SuspectFindings;
use facts::error::Failure;
use facts::interrupt;
use node::machine::Machine;
use node::{backend, reading};
use page::destination::Place;
use page::documents::{Documents, Places};
use page::table::TextStyle;
use report::why::NicDiagnosis;
use report::why_text;

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a NIC that does not exist, good NICs that do not answer, a file that cannot
/// be written, and a NIC that is slow.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let read = usage::parse(&arguments);
    let Some((request, suspect)) = output::or_refusal(&arguments, read)? else {
        return Ok(());
    };
    let ready = backend::check(suspect.device).and_then(|()| interrupt::watch());
    output::or_early_failure(survey::own_place(request.json.as_ref()), ready)?;
    if survey::measure_if_started(&suspect)? {
        return Ok(());
    }
    reading::limit_waits();
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        ticket: request.ticket.clone().map(Place::File),
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let present = check::require(suspect.device, &Machine::this());
    output::or_failure(&documents, present)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let mut has_results = false;
    let report = |found: SuspectFindings| {
        has_results = true;
        let typed = arguments.iter().map(|word| word.to_string_lossy().into_owned());
        let diagnosis = NicDiagnosis::new(typed.collect(), started, clock.elapsed(), found);
        output::write(&documents, &diagnosis, request.is_quiet(), why_text::page)?;
        if let Some(ticket) = &documents.ticket {
            let text = why_text::ticket(&diagnosis).text(TextStyle::Markdown);
            ticket.write(text.as_bytes())?;
        }
        documents.conclude(diagnosis.result())
    };
    let diagnosed = survey::diagnose(&suspect, "why", &arguments, report);
    if has_results { diagnosed } else { output::or_failure(&documents, diagnosed) }
}
