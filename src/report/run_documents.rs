//! The documents of a run: opened before it begins, written at its end.

use std::time::{Duration, SystemTime};

use super::csv;
use super::hdr_log::HdrLog;
use super::outcome::{Extent, Outcome, SizeResult};
use super::samples::SampleTable;
use facts::error::Failure;
use measure::Recorder;
use page::destination::{Destination, Place};
use page::documents::{Documents, Places};
use page::json;
use plan::depths::DepthKind;
use plan::outputs::Outputs;
use plan::tool::Tool;

/// The documents of a run. Histogram log and table of samples grow during the run.
#[derive(Default)]
pub struct RunDocuments {
    documents: Documents,
    /// CSV has gone to a stream or a device, where further rows need no header.
    has_header: bool,
    hdr_log: Option<HdrLog>,
    samples: Option<SampleTable>,
}

impl RunDocuments {
    /// Checks that all documents of `outputs` can be written. `comment` describes the run in the
    /// histogram log; `depth` is the column that its samples have beside the size.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or two documents have the same file. The documents that were
    /// opened before can be written.
    pub fn open(
        &mut self,
        outputs: &Outputs,
        depth: Option<DepthKind>,
        comment: &str,
    ) -> Result<(), Failure> {
        let opened = self.documents.open_all(&Places {
            json: outputs.json.clone(),
            jsonl: outputs.jsonl.clone(),
            csv: outputs.csv.clone(),
            hdr_log: outputs.hdr_log.clone(),
            samples: outputs.samples.clone(),
            ..Places::default()
        });
        if self.documents.hdr_log.is_some() {
            self.hdr_log = Some(HdrLog::begin(SystemTime::now(), comment)?);
        }
        if let Some(destination) = self.documents.samples.take() {
            self.samples = Some(SampleTable::begin(destination, depth)?);
        }
        opened
    }

    /// Returns whether the run is written as JSON.
    pub fn has_json(&self) -> bool {
        self.documents.json.is_some() || self.documents.jsonl.is_some()
    }

    /// Adds the latencies of a size to the documents that grow. The size was measured from `start`
    /// to `start + took` in the run.
    ///
    /// # Errors
    ///
    /// A histogram that cannot be encoded, and a temporary file that cannot be written.
    pub fn add_latencies(
        &mut self,
        result: &SizeResult,
        recorder: &Recorder,
        start: Duration,
        took: Duration,
    ) -> Result<(), Failure> {
        let row = result.row();
        if let Some(log) = &mut self.hdr_log
            && result.count > 0
        {
            if result.extent != Extent::Complete {
                log.remark(&format!("Size {} was measured only in part", row.cell()));
            }
            log.add(row, start, took, recorder.histogram())?;
        }
        match (&mut self.samples, recorder.samples()) {
            (Some(table), Some(samples)) => table.add(row, samples),
            _ => Ok(()),
        }
    }

    /// Writes the documents of a run that has ended, and returns what has failed. JSON, JSON lines
    /// and CSV can be written again for another run.
    pub fn write(&mut self, outcome: &Outcome) -> Vec<Failure> {
        let Self { documents, has_header, hdr_log, samples } = self;
        let lines = documents.jsonl.as_ref();
        let csv = documents.csv.as_ref();
        let hdr_log = documents.hdr_log.take().zip(hdr_log.take());
        let written = [
            Some(documents.write_json(outcome)),
            lines.map(|to| to.append(outcome)),
            csv.map(|to| {
                let with_header = to.target().is_some() || !*has_header;
                *has_header = true;
                to.write(&csv::document(outcome, with_header)?)
            }),
            hdr_log.map(|(to, log)| to.write(&log.into_bytes())),
            samples.take().map(SampleTable::end),
        ];
        let written = written.into_iter().flatten();
        written.filter_map(Result::err).collect()
    }
}

/// Prints the document that `outputs` asks for on standard output, if any, for a run that `failure`
/// refused because of its arguments.
pub fn refused(tool: &Tool, outputs: &Outputs, failure: &Failure) {
    let mut outcome = Outcome::bare(tool);
    outcome.close(Err(failure), Duration::ZERO);
    let document = if outputs.json == Some(Place::Stdout) {
        json::document(&outcome)
    } else if outputs.csv == Some(Place::Stdout) {
        csv::document(&outcome, true)
    } else {
        return;
    };
    // The failure itself goes to standard error in any case.
    let _ = document.and_then(|document| Destination::Stdout.write(&document));
}
