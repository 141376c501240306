//! The checks of many nodes in one: its text and its documents.

use std::io::{self, Write};
use std::time::{Instant, SystemTime};

use super::request::CheckRequest;
use crate::document::Check;
use crate::fleet_document::FleetCheck;
use crate::{fleet_metrics, fleet_text};
use cli::output;
use facts::error::Failure;
use page::destination::Place;
use page::documents::{Documents, Places};
use page::table::TextStyle;

/// The name of each node, and its check or why there is none.
pub type Answers = Vec<(String, Result<Check, String>)>;

/// Gathers checks by `gather`, prints what they amount to, and writes the documents.
///
/// # Errors
///
/// A file that cannot be written, a failure of `gather`, a node that is bad or cannot be tested.
pub fn report(
    request: &CheckRequest,
    gather: impl FnOnce() -> Result<Answers, Failure>,
) -> Result<(), Failure> {
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        csv: request.csv.clone(),
        bad_nodes: request.bad_nodes.clone().map(Place::File),
        metrics: request.metrics.file_with(fleet_metrics::SERIES)?,
        ..Places::default()
    });
    let mut documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let answers = output::or_failure(&documents, gather())?;
    let check = FleetCheck::new(started, clock.elapsed(), answers);
    if request.is_before_survey {
        let page = fleet_text::page(&check);
        let page = if request.is_quiet { page.first_line() } else { page };
        let text = page.text(TextStyle::Plain);
        let _ = writeln!(io::stderr(), "cxidiag survey: check: {text}");
    } else {
        output::write(&documents, &check, request.is_quiet, fleet_text::page)?;
    }
    documents.write_metrics(|| fleet_metrics::families(&check))?;
    let has_text = !documents.has_stdout();
    if let Some(to) = documents.csv.take() {
        to.write(&fleet_text::csv(&check)?)?;
    }
    if let Some(to) = documents.bad_nodes.take() {
        to.write(check.bad_nodes().as_bytes())?;
    }
    check.result().map_err(|failure| if has_text { failure.printed() } else { failure })
}
