//! The documents of a run: opened before it begins, written at its end. The samples of a run as
//! comma-separated values, one row each; its latencies as HdrHistogram log, version 2: one interval
//! for each size, in nanoseconds.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::csv;
use super::outcome::{Extent, Outcome, SizeResult};
use facts::error::Failure;
use measure::Recorder;
use page::destination::{Destination, Growing, Place};
use page::documents::{Documents, Places};
use page::json;
use plan::depths::{DepthKind, Row};
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

    /// Whether the run is written as JSON.
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

/// A table of samples, which grows during the run.
pub struct SampleTable {
    rows: BufWriter<Growing>,
}

impl SampleTable {
    /// Begins the table that will be written to `destination`, with a column for what stands before
    /// the entry or message that matches, if anything does in any row.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be written.
    pub fn begin(destination: Destination, depth: Option<DepthKind>) -> Result<Self, Failure> {
        let mut table = Self { rows: BufWriter::new(Growing::begin(destination)?) };
        let title = match depth {
            Some(DepthKind::Posted) => ",posted",
            Some(DepthKind::Unexpected) => ",unexpected",
            None => "",
        };
        let begun = writeln!(table.rows, "size_bytes{title},iteration,latency_ns");
        table.checked(begun)?;
        Ok(table)
    }

    /// Adds the samples (ns) of a row.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub fn add(&mut self, row: Row, samples: &[u64]) -> Result<(), Failure> {
        let (size, depth) = (row.size, row.posted.or(row.unexpected));
        let depth = depth.map_or(String::new(), |depth| format!(",{depth}"));
        let rows = &mut self.rows;
        let mut numbered = samples.iter().enumerate();
        let added = numbered.try_for_each(|(at, ns)| writeln!(rows, "{size}{depth},{at},{ns}"));
        self.checked(added)
    }

    /// Writes the table.
    ///
    /// # Errors
    ///
    /// The table cannot be written.
    pub fn end(mut self) -> Result<(), Failure> {
        let flushed = self.rows.flush();
        self.checked(flushed)?;
        self.rows.get_ref().end()
    }

    fn checked(&self, written: io::Result<()>) -> Result<(), Failure> {
        written.map_err(|error| self.rows.get_ref().failure(&error))
    }
}

/// A log that gets an interval for each size.
pub struct HdrLog {
    bytes: Vec<u8>,
}

impl HdrLog {
    /// Begins the log of a run that started at `started`; `comment` describes the run.
    ///
    /// # Errors
    ///
    /// None in practice: the log is made in memory.
    pub fn begin(started: SystemTime, comment: &str) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(comment)
            .add_comment("Latencies in ns; the tag of an interval is its size in bytes")
            .with_start_time(started)
            .with_base_time(started)
            .begin_log_with(&mut bytes, &mut V2DeflateSerializer::new())
            .map_err(cannot)?;
        Ok(Self { bytes })
    }

    /// Adds the samples of `row`, recorded from `start` to `start + duration` in the run.
    ///
    /// # Errors
    ///
    /// The histogram cannot be encoded.
    pub fn add(
        &mut self,
        row: Row,
        start: Duration,
        duration: Duration,
        histogram: &Histogram<u64>,
    ) -> Result<(), Failure> {
        let depth = |name, depth: Option<u16>| {
            depth.map_or(String::new(), |depth| format!("_{name}_{depth}"))
        };
        let tag = format!(
            "size_{}{}{}",
            row.size,
            depth("posted", row.posted),
            depth("unexpected", row.unexpected)
        );
        IntervalLogWriterBuilder::new()
            .begin_log_with(&mut self.bytes, &mut V2DeflateSerializer::new())
            .map_err(cannot)?
            .write_histogram(histogram, start, duration, Tag::new(&tag))
            .map_err(cannot)
    }

    /// Adds a comment.
    pub fn remark(&mut self, text: &str) {
        self.bytes.extend(format!("#{text}\n").bytes());
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn cannot(error: impl std::fmt::Display) -> Failure {
    Failure::environment(format!("cannot write the histogram log: {error}"))
}
