//! `check --job`: whether the settings of a job take effect (docs/settings.md). Rules and facts
//! about settings are data, in `settings.txt`.

mod command;
pub mod document;
mod evidence;
pub mod finding;
mod judge;
mod library;
mod process;
mod rules;
mod table;
#[cfg(test)]
mod tests;
mod values;

use std::time::{Instant, SystemTime};

use self::document::JobCheck;
use self::evidence::JobEvidence;
use self::judge::JobEvidences;
pub use self::library::answer_parent;
use super::request::{CheckRequest, JobProcess};
use super::step;
use cli::output;
use crew::launcher::LauncherTask;
use facts::error::Failure;
use facts::host::host_name;
use page::documents::{Documents, Places};
use page::json;

/// Checks the settings of a process, or of the processes of a launcher.
///
/// # Errors
///
/// A file that cannot be written, a process that cannot be read, a setting that is bad.
pub fn run(
    request: &CheckRequest,
    process: JobProcess,
    task: Option<&LauncherTask>,
) -> Result<(), Failure> {
    match task {
        Some(task) if process == JobProcess::Own => {
            let document = || json::line(&process::read(process, &request.command, Some(task))?);
            let read = |document: &[u8]| json::read::<JobEvidence>(document);
            step::run_with(request, task, &document, |gather| report(request, || gather(&read)))
        }
        _ => report(request, || {
            Ok(vec![(host_name(), Ok(process::read(process, &request.command, None)?))])
        }),
    }
}

/// Checks the settings of this process.
///
/// # Errors
///
/// Files of this process that cannot be read.
pub fn check_own_settings() -> Result<JobCheck, Failure> {
    let (started, clock) = (SystemTime::now(), Instant::now());
    let evidence = process::read(JobProcess::Own, &[], None)?;
    let answers = judge::judged(vec![(host_name(), Ok(evidence))]);
    Ok(JobCheck::new(started, clock.elapsed(), &answers))
}

/// Gathers what was found, prints it, and writes the documents.
fn report(
    request: &CheckRequest,
    gather: impl FnOnce() -> Result<JobEvidences, Failure>,
) -> Result<(), Failure> {
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        metrics: request.metrics.file_with(document::SERIES)?,
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let answers = judge::judged(output::or_failure(&documents, gather())?);
    let check = JobCheck::new(started, clock.elapsed(), &answers);
    documents.write_metrics(|| document::families(&check))?;
    output::write(&documents, &check, request.is_quiet, document::page)?;
    documents.conclude(check.result())
}
