//! The documents of a run: opened before it begins, written at its end.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::destination::Destination;
use super::hdr_log::HdrLog;
use super::json_lines::JsonLines;
use super::outcome::{Extent, Outcome, SizeResult};
use super::samples::SampleTable;
use super::{csv, json};
use facts::error::Failure;
use measure::Recorder;
use plan::outputs::{Outputs, Place};
use plan::tool::Tool;

/// Where the documents go. Histogram log and table of samples grow during the run.
#[derive(Default)]
pub struct Documents {
    json: Option<Destination>,
    jsonl: Option<JsonLines>,
    csv: Option<Destination>,
    /// CSV has gone to a stream or a device, where further rows need no header.
    has_header: bool,
    hdr_log: Option<(Destination, HdrLog)>,
    samples: Option<SampleTable>,
}

impl Documents {
    /// Checks that all documents of `outputs` can be written. `comment` describes the run in the
    /// histogram log.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or two documents have the same file. The documents that were
    /// opened before can be written.
    pub fn open(&mut self, outputs: &Outputs, comment: &str) -> Result<(), Failure> {
        // Standard output first: it gets its document even if the others fail.
        let stdout = |place: &&Place| place.file().is_none();
        for only_stdout in [true, false] {
            let open = |place: &Option<_>, destination: &mut Option<Destination>| {
                if let Some(place) = place.as_ref().filter(|place| stdout(place) == only_stdout) {
                    *destination = Some(Destination::open(place)?);
                }
                Ok::<(), Failure>(())
            };
            open(&outputs.json, &mut self.json)?;
            open(&outputs.csv, &mut self.csv)?;
        }
        if let Some(path) = &outputs.jsonl {
            self.jsonl = Some(JsonLines::open(path)?);
        }
        if let Some(path) = &outputs.hdr_log {
            let log = HdrLog::begin(SystemTime::now(), comment)?;
            self.hdr_log = Some((Destination::file(path)?, log));
        }
        if let Some(path) = &outputs.samples {
            self.samples = Some(SampleTable::begin(Destination::file(path)?)?);
        }
        let hdr_log = self.hdr_log.as_ref().map(|(destination, _)| destination);
        let samples = self.samples.as_ref().map(SampleTable::destination);
        let all = [self.json.as_ref(), self.csv.as_ref(), hdr_log, samples];
        let files = all
            .into_iter()
            .flatten()
            .filter_map(Destination::target)
            .chain(self.jsonl.as_ref().map(JsonLines::target));
        check_distinct(files.collect())
    }

    /// Returns whether the run is written as JSON.
    pub fn has_json(&self) -> bool {
        self.json.is_some() || self.jsonl.is_some()
    }

    /// Adds the latencies of a size to the documents that grow. The size was measured from `start`
    /// to
    /// `start + took` in the run.
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
        let size = result.size_bytes;
        if let Some((_, log)) = &mut self.hdr_log
            && result.count > 0
        {
            if result.extent != Extent::Complete {
                log.remark(&format!("Size {size} was measured only in part"));
            }
            log.add(size, start, took, recorder.histogram())?;
        }
        match (&mut self.samples, recorder.samples()) {
            (Some(table), Some(samples)) => table.add(size, samples),
            _ => Ok(()),
        }
    }

    /// Writes the documents of a run that has ended, and returns what has failed. JSON, JSON lines
    /// and CSV can be written again for another run.
    pub fn write(&mut self, outcome: &Outcome) -> Vec<Failure> {
        let json = self.json.as_ref();
        let csv = self.csv.as_ref();
        let written = [
            json.map(|to| to.write(&json::document(outcome)?)),
            self.jsonl.as_ref().map(|to| to.append(outcome)),
            csv.map(|to| {
                let is_replaced = to.target().is_some();
                let with_header = is_replaced || !self.has_header;
                self.has_header = true;
                to.write(&csv::document(outcome, with_header)?)
            }),
            self.hdr_log
                .take()
                .map(|(to, log)| to.write(&log.into_bytes())),
            self.samples.take().map(SampleTable::end),
        ];
        let written = written.into_iter().flatten();
        written.filter_map(Result::err).collect()
    }
}

/// Checks that no file is written by two documents.
///
/// # Errors
///
/// The first of the files that are.
pub fn check_distinct(mut files: Vec<&Path>) -> Result<(), Failure> {
    files.sort_unstable();
    match files.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(Failure::usage(format!(
            "two documents cannot be written to the same file, {}",
            two[0].display()
        ))),
        None => Ok(()),
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
