//! Reads the counters of a size while it is measured, and writes a row for each interval.
//!
//! A thread of its own does both. The measuring loops only set a [`Gauge`], which is atomic.
//! Messages go to the thread before and after a size, never while it is measured.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::intervals::{Interval, Intervals, Reading, Series};
use super::stream::SharedOutput;
use super::text;
use crate::error::{Context, Failure};
use crate::measure::{Clock, Gauge, LatencyCounts, MonotonicRaw};
use crate::tool::Tool;

/// Longest time between two looks at a size that has not begun.
const POLL: Duration = Duration::from_millis(5);

/// Most attempts to read counters between two operations.
const ATTEMPTS: usize = 3;

/// A size that is about to be measured.
struct Size {
    bytes: u64,
    /// Set by the measuring loop.
    gauge: Arc<Gauge>,
    /// Receives the number of operations at the end of the size.
    end: Receiver<u64>,
    sampled: Sender<Sampled>,
}

/// What the thread has read and written of one size.
pub struct Sampled {
    /// The intervals; `None` if the measured part has not begun.
    pub intervals: Option<Intervals>,
    /// The first error in writing a row.
    pub written: io::Result<()>,
}

impl Default for Sampled {
    fn default() -> Self {
        Self {
            intervals: None,
            written: Ok(()),
        }
    }
}

/// The ends of the channels of a [`Size`] that are not in the thread.
struct Running {
    end: Sender<u64>,
    sampled: Receiver<Sampled>,
}

/// The thread. Dropping this value ends it.
pub struct Sampler {
    /// `None` ends the thread.
    sizes: Option<Sender<Size>>,
    running: Option<Running>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts a thread that writes the rows of intervals of `length` to `out`. With `one_of_two`, the
    /// peer issues operations as well, which the rows do not contain.
    ///
    /// # Errors
    ///
    /// A thread that the system refuses.
    pub fn start(
        tool: &'static Tool,
        length: Duration,
        one_of_two: bool,
        out: SharedOutput,
    ) -> Result<Self, Failure> {
        // Without capacity: the thread has received a size when `send` returns.
        let (sizes, received) = bounded(0);
        let mut work = Work {
            tool,
            length,
            one_of_two,
            out,
            latencies: (!tool.measures_bandwidth()).then(LatencyCounts::none),
        };
        let thread = thread::Builder::new()
            .name("intervals".into())
            .spawn(move || {
                for size in received {
                    if let Some(sampled) = work.sample(&size) {
                        // Fails only if the reporter does not wait for it.
                        let _ = size.sampled.send(sampled);
                    }
                }
            })
            .environment("cannot start a thread")?;
        Ok(Self {
            sizes: Some(sizes),
            running: None,
            thread: Some(thread),
        })
    }

    /// Begins the intervals of a size of `bytes`, whose counters the measuring loop sets in `gauge`.
    pub fn begin(&mut self, bytes: u64, gauge: &Arc<Gauge>) {
        let (end, ended) = bounded(1);
        let (sampled, result) = bounded(1);
        let size = Size {
            bytes,
            gauge: Arc::clone(gauge),
            end: ended,
            sampled,
        };
        if let Some(sizes) = &self.sizes
            && sizes.send(size).is_ok()
        {
            self.running = Some(Running {
                end,
                sampled: result,
            });
        }
    }

    /// Ends the intervals of the size, after `count` operations. `None` if none are being read.
    pub fn end(&mut self, count: u64) -> Option<Sampled> {
        let Running { end, sampled } = self.running.take()?;
        // Both fail only if the thread has panicked; the run does without intervals then.
        end.send(count).ok()?;
        sampled.recv().ok()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.running.take());
        drop(self.sizes.take());
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}

/// What the thread keeps from one size to the next.
struct Work {
    tool: &'static Tool,
    length: Duration,
    one_of_two: bool,
    out: SharedOutput,
    /// The latencies at the end of the last size, in a latency tool.
    latencies: Option<LatencyCounts>,
}

impl Work {
    /// Reads the counters of a size until its end. Returns `None` if the reporter has gone.
    fn sample(&mut self, size: &Size) -> Option<Sampled> {
        let gauge = &size.gauge;
        let mut rows = Rows::new(self.tool, self.out.clone());
        let mut series = None;
        let count = loop {
            series = series.or_else(|| self.begin(size));
            let wait = match &series {
                None => Some(POLL.min(self.length / 2)),
                // What the loop does after the end is not measured.
                Some(_) if gauge.ended().is_some() => None,
                Some(series) => {
                    let left = series.next_end().saturating_sub(MonotonicRaw.now());
                    Some(Duration::from_nanos(left))
                }
            };
            let message = match wait {
                Some(wait) => size.end.recv_timeout(wait),
                None => size.end.recv().map_err(RecvTimeoutError::from),
            };
            match message {
                Ok(count) => break count,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(series) = &mut series
                && MonotonicRaw.now() >= series.next_end()
            {
                let reading = read(gauge);
                if gauge.ended().is_none() {
                    rows.add(&series.add(reading));
                }
            }
        };
        let intervals = series.or_else(|| self.begin(size)).map(|mut series| {
            let last = last(gauge, count, series.last());
            if last.at > series.last().at || last.count > series.last().count {
                rows.add(&series.add(last));
            }
            self.latencies = series.last().latencies.clone();
            let intervals = series.finish();
            rows.finish(&intervals, self.one_of_two);
            intervals
        });
        Some(Sampled {
            intervals,
            written: rows.written,
        })
    }

    /// Returns the intervals of a size whose measured part has begun, without a row.
    fn begin(&mut self, size: &Size) -> Option<Series> {
        let first = Reading {
            at: size.gauge.begun()?,
            count: 0,
            sum: 0,
            latencies: self.latencies.take(),
        };
        Some(Series::new(size.bytes, self.length, first))
    }
}

/// Reads the counters, if possible between two operations, so that they belong together.
fn read(gauge: &Gauge) -> Reading {
    let mut attempts = 1;
    loop {
        let (count, sum) = gauge.get();
        let reading = Reading {
            at: MonotonicRaw.now(),
            count,
            sum,
            latencies: gauge.latencies(),
        };
        if gauge.get() == (count, sum) || attempts == ATTEMPTS {
            return reading;
        }
        attempts += 1;
    }
}

/// Returns the counters at the end of a size of `count` operations, not before `former`. A list that
/// was issued when the time was up is counted, but the loop has not set it in the gauge.
fn last(gauge: &Gauge, count: u64, former: &Reading) -> Reading {
    let reading = read(gauge);
    Reading {
        at: gauge.ended().unwrap_or(reading.at).max(former.at),
        count: reading.count.max(count),
        ..reading
    }
}

/// The table of the intervals of one size. Its titles precede the first row.
struct Rows {
    tool: &'static Tool,
    out: SharedOutput,
    has_titles: bool,
    /// The first error; nothing is written after it.
    written: io::Result<()>,
}

impl Rows {
    fn new(tool: &'static Tool, out: SharedOutput) -> Self {
        Self {
            tool,
            out,
            has_titles: false,
            written: Ok(()),
        }
    }

    /// Writes the row of an interval, so that a reader sees it at once.
    fn add(&mut self, interval: &Interval) {
        let tool = self.tool;
        if !self.has_titles {
            self.has_titles = true;
            self.write(|out| text::interval_titles(out, tool));
        }
        self.write(|out| text::interval(out, tool, interval));
    }

    /// Writes what follows the last row.
    fn finish(&mut self, intervals: &Intervals, one_of_two: bool) {
        let tool = self.tool;
        self.write(|out| text::interval_summary(out, tool, intervals, one_of_two));
    }

    fn write(&mut self, write: impl FnOnce(&mut SharedOutput) -> io::Result<()>) {
        if self.written.is_ok() {
            self.written = write(&mut self.out);
        }
    }
}
