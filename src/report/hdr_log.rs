//! Latencies -> HdrHistogram log, version 2: one interval for each size, in nanoseconds.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use facts::error::Failure;
use plan::depths::Row;

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
