//! Reads the counters of a size while it is measured, and writes a row for each interval.
//!
//! A thread of its own does both. The measuring loops only set a [`Gauge`], which is atomic.
//! Messages go to the thread before and after a size, never while it is measured.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::columns::Layout;
use super::intervals::{Interval, Intervals, Series, SizeReading};
use super::text;
use facts::error::Failure;
use facts::threads;
use measure::{Clock, Gauge, LatencyCounts, MonotonicRaw};
use page::stream::SharedOutput;

/// Longest time between two checks whether a size has begun.
const POLL: Duration = Duration::from_millis(5);

/// Most attempts to read counters between two operations.
const ATTEMPTS: usize = 3;

/// A size that is about to be measured.
struct Size {
    bytes: u64,
    /// Set by the measuring loop.
    gauge: Arc<Gauge>,
    end: Arc<EndSignal>,
    sampled: Sender<Sampled>,
}

#[derive(Clone, Copy)]
enum SizeEnd {
    /// After this number of operations.
    Operations(u64),
    /// The reporter is dropped.
    Dropped,
}

/// The end of a size, for which the thread waits until the end of an interval. A channel would
/// yield the CPU several times before it sleeps, each time until the measuring thread is
/// interrupted.
#[derive(Default)]
struct EndSignal {
    end: Mutex<Option<SizeEnd>>,
    changed: Condvar,
}

impl EndSignal {
    fn lock(&self) -> MutexGuard<'_, Option<SizeEnd>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, end: SizeEnd) {
        *self.lock() = Some(end);
        self.changed.notify_one();
    }

    /// Waits for the end of the size, at most for `limit`.
    fn wait(&self, limit: Duration) -> Option<SizeEnd> {
        let waited = self.changed.wait_timeout_while(self.lock(), limit, |end| end.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
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
        Self { intervals: None, written: Ok(()) }
    }
}

/// A [`Size`], outside the thread.
struct RunningSize {
    end: Arc<EndSignal>,
    sampled: Receiver<Sampled>,
}

impl Drop for RunningSize {
    fn drop(&mut self) {
        self.end.set(SizeEnd::Dropped);
    }
}

/// The thread. Dropping this value ends it.
pub struct Sampler {
    /// `None` ends the thread.
    sizes: Option<Sender<Size>>,
    running: Option<RunningSize>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts a thread that writes the rows of intervals of `length` to `out`. With `one_of_two`,
    /// the peer issues operations as well, which the rows do not contain.
    ///
    /// # Errors
    ///
    /// A thread that the system refuses.
    pub fn start(
        layout: Layout,
        length: Duration,
        one_of_two: bool,
        out: SharedOutput,
    ) -> Result<Self, Failure> {
        // Without capacity: the thread has received a size when `send` returns.
        let (sizes, received) = bounded(0);
        let mut work = SamplerWork {
            layout,
            length,
            one_of_two,
            out,
            latencies: (!layout.tool.measures_bandwidth()).then(LatencyCounts::none),
        };
        let thread = threads::start("intervals", move || {
            for size in received {
                if let Some(sampled) = work.sample(&size) {
                    // Fails only if the reporter does not wait for it.
                    let _ = size.sampled.send(sampled);
                }
            }
        })?;
        Ok(Self { sizes: Some(sizes), running: None, thread: Some(thread) })
    }

    /// Begins the intervals of a size of `bytes`, whose counters the measuring loop sets in
    /// `gauge`.
    pub fn begin(&mut self, bytes: u64, gauge: &Arc<Gauge>) {
        let end = Arc::default();
        let (sampled, result) = bounded(1);
        let size = Size { bytes, gauge: Arc::clone(gauge), end: Arc::clone(&end), sampled };
        if let Some(sizes) = &self.sizes
            && sizes.send(size).is_ok()
        {
            self.running = Some(RunningSize { end, sampled: result });
        }
    }

    /// Ends the intervals of the size, after `count` operations. `None` if none are being read.
    pub fn end(&mut self, count: u64) -> Option<Sampled> {
        let running = self.running.take()?;
        running.end.set(SizeEnd::Operations(count));
        // Fails only if the thread has panicked; the run does without intervals then.
        running.sampled.recv().ok()
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
struct SamplerWork {
    layout: Layout,
    length: Duration,
    one_of_two: bool,
    out: SharedOutput,
    /// The latencies at the end of the last size, in a latency tool.
    latencies: Option<LatencyCounts>,
}

impl SamplerWork {
    /// Reads the counters of a size until its end. Returns `None` if the reporter has gone.
    fn sample(&mut self, size: &Size) -> Option<Sampled> {
        let gauge = &size.gauge;
        let mut rows = Rows::new(self.layout, self.out.clone());
        let mut series = None;
        let count = loop {
            series = series.or_else(|| self.begin(size));
            let wait = match &series {
                None => POLL.min(self.length / 2),
                Some(_) if gauge.ended().is_some() => self.length,
                Some(series) => {
                    let left = series.next_end().saturating_sub(MonotonicRaw.now());
                    Duration::from_nanos(left)
                }
            };
            match size.end.wait(wait) {
                Some(SizeEnd::Operations(count)) => break count,
                Some(SizeEnd::Dropped) => return None,
                None => {}
            }
            if let Some(series) = &mut series
                && let Some(reading) = due(gauge, series)
            {
                rows.add(&series.add(reading));
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
        Some(Sampled { intervals, written: rows.written })
    }

    /// The intervals of a size whose measured part has begun, without a row.
    fn begin(&mut self, size: &Size) -> Option<Series> {
        let first = SizeReading {
            at: size.gauge.begun()?,
            count: 0,
            sum: 0,
            latencies: self.latencies.take(),
        };
        Some(Series::new(size.bytes, self.length, first))
    }
}

/// Reads the counters, if possible between two operations, so that they belong together.
fn read(gauge: &Gauge) -> SizeReading {
    let mut attempts = 1;
    loop {
        let (count, sum) = gauge.get();
        let reading =
            SizeReading { at: MonotonicRaw.now(), count, sum, latencies: gauge.latencies() };
        if gauge.get() == (count, sum) || attempts == ATTEMPTS {
            return reading;
        }
        attempts += 1;
    }
}

/// The counters if an interval is to end.
fn due(gauge: &Gauge, series: &Series) -> Option<SizeReading> {
    if MonotonicRaw.now() < series.next_end() {
        return None;
    }
    let reading = read(gauge);
    // What the loop does after the end is not measured.
    gauge.ended().is_none().then_some(reading)
}

/// The counters at the end of a size of `count` operations, not before `former`. A list that was
/// issued when the time was up is counted, but the loop has not set it in the gauge.
fn last(gauge: &Gauge, count: u64, former: &SizeReading) -> SizeReading {
    let reading = read(gauge);
    SizeReading {
        at: gauge.ended().unwrap_or(reading.at).max(former.at),
        count: reading.count.max(count),
        ..reading
    }
}

/// The table of the intervals of one size. Its titles precede the first row.
struct Rows {
    layout: Layout,
    out: SharedOutput,
    has_titles: bool,
    /// The first error; nothing is written after it.
    written: io::Result<()>,
}

impl Rows {
    fn new(layout: Layout, out: SharedOutput) -> Self {
        Self { layout, out, has_titles: false, written: Ok(()) }
    }

    /// Writes the row of an interval, so that a reader sees it at once.
    fn add(&mut self, interval: &Interval) {
        let layout = self.layout;
        if !self.has_titles {
            self.has_titles = true;
            self.write(|out| text::interval_titles(out, layout));
        }
        self.write(|out| text::interval(out, layout, interval));
    }

    /// Writes what follows the last row.
    fn finish(&mut self, intervals: &Intervals, one_of_two: bool) {
        let layout = self.layout;
        self.write(|out| text::interval_summary(out, layout, intervals, one_of_two));
    }

    fn write(&mut self, write: impl FnOnce(&mut SharedOutput) -> io::Result<()>) {
        if self.written.is_ok() {
            self.written = write(&mut self.out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};

    use crossbeam_channel::unbounded;

    use super::*;
    use plan::tools::TOOLS;

    const MS: u64 = 1_000_000;

    /// Passes on what is written, or fails.
    struct Channel(Option<Sender<String>>);

    impl Write for Channel {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let lines = self.0.as_ref().ok_or(ErrorKind::StorageFull)?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            lines.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn sampler(tool: &str, length: Duration, out: Channel) -> Sampler {
        let tool = TOOLS.iter().find(|candidate| candidate.name == tool).unwrap();
        let out = SharedOutput::new(Box::new(out));
        Sampler::start(Layout::of(tool), length, false, out).unwrap()
    }

    /// Begins a size of 8 bytes, whose measured part began 10 ms ago.
    fn begin(sampler: &mut Sampler, gauge: &Arc<Gauge>) -> u64 {
        let begun = MonotonicRaw.now() - 10 * MS;
        gauge.begin(begun);
        sampler.begin(8, gauge);
        begun
    }

    fn counts(sampled: &Sampled) -> Vec<u64> {
        let intervals = sampled.intervals.as_ref().unwrap();
        intervals.rows.iter().map(|row| row.figures.count).collect()
    }

    #[test]
    fn writes_a_row_while_the_size_is_measured() {
        let (lines, written) = unbounded();
        let mut sampler = sampler("send-bw", Duration::from_millis(1), Channel(Some(lines)));
        let gauge = Arc::new(Gauge::default());
        gauge.set(30, 0);
        begin(&mut sampler, &gauge);
        let mut text = String::new();
        while !text.contains(" 30 ") {
            text += &written.recv().unwrap();
        }
        let sampled = sampler.end(40).unwrap();
        assert_eq!(counts(&sampled).iter().sum::<u64>(), 40);
        assert_eq!(counts(&sampled)[0], 30);
        sampled.written.unwrap();
    }

    #[test]
    fn intervals_end_in_the_measured_part_only() {
        let gauge = Gauge::default();
        gauge.set(30, 0);
        let first =
            SizeReading { at: MonotonicRaw.now() - 10 * MS, count: 0, sum: 0, latencies: None };
        let series = |length| Series::new(8, length, first.clone());
        let (short, long) = (series(Duration::from_millis(1)), series(Duration::from_secs(3_600)));
        assert_eq!(due(&gauge, &short).map(|reading| reading.count), Some(30));
        assert!(due(&gauge, &long).is_none());
        gauge.end(MonotonicRaw.now());
        assert!(due(&gauge, &short).is_none());
    }

    #[test]
    fn rest_ends_with_the_measured_part() {
        let (lines, written) = unbounded();
        let mut sampler = sampler("send-bw", Duration::from_millis(1), Channel(Some(lines)));
        let gauge = Arc::new(Gauge::default());
        gauge.set(30, 0);
        gauge.end(MonotonicRaw.now());
        let begun = begin(&mut sampler, &gauge);
        gauge.end(begun + 3 * MS);
        let sampled = sampler.end(32).unwrap();
        let rows = sampled.intervals.as_ref().unwrap().rows.as_slice();
        assert_eq!((rows[0].start_s, rows[0].end_s), (0.0, 0.003));
        assert_eq!((rows.len(), counts(&sampled)), (1, vec![32]));
        let text: String = written.try_iter().collect();
        assert!(text.contains("     0.000       0.003          32 "), "{text}");
    }

    #[test]
    fn size_that_has_not_begun_has_no_intervals() {
        let (lines, written) = unbounded();
        let mut sampler = sampler("write-lat", Duration::from_millis(1), Channel(Some(lines)));
        sampler.begin(8, &Arc::new(Gauge::with_latencies()));
        let sampled = sampler.end(0).unwrap();
        assert!(sampled.intervals.is_none() && written.is_empty());
        assert!(sampler.end(0).is_none());
    }

    #[test]
    fn latencies_of_former_sizes_do_not_count() {
        let (lines, _written) = unbounded();
        let mut sampler = sampler("write-lat", Duration::from_secs(1), Channel(Some(lines)));
        let gauge = Arc::new(Gauge::with_latencies());
        for latency in [400, 100] {
            gauge.clear();
            begin(&mut sampler, &gauge);
            gauge.record(latency);
            gauge.set(1, latency);
            let intervals = sampler.end(1).unwrap().intervals.unwrap();
            let figures = intervals.rows[0].figures;
            assert_eq!(figures.mean_ns, Some(latency as f64));
            assert_eq!(figures.p99_ns, Some(latency));
        }
    }

    #[test]
    fn returns_error_of_a_row_with_all_intervals() {
        let mut sampler = sampler("send-bw", Duration::from_millis(1), Channel(None));
        let gauge = Arc::new(Gauge::default());
        begin(&mut sampler, &gauge);
        let sampled = sampler.end(7).unwrap();
        assert_eq!(counts(&sampled).iter().sum::<u64>(), 7);
        let error = sampled.written.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn thread_ends_in_the_middle_of_a_size() {
        let (lines, _written) = unbounded();
        let mut sampler = sampler("send-bw", Duration::from_secs(3_600), Channel(Some(lines)));
        begin(&mut sampler, &Arc::new(Gauge::default()));
        drop(sampler);
    }
}
