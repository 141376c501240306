//! Receives the results of a run: prints the text during the run, writes the documents at its end.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use cxi::gpu::GpuMap;

use super::columns::Layout;
use super::current_size::{CurrentSize, MeasuredBandwidth};
use super::distribution::{self, Style};
use super::intervals::Intervals;
use super::live_output::LiveOutput;
use super::outcome::{Counters, Detail, ExpectationResult, Extent, MatchCost, Outcome, SizeResult};
use super::run_documents::RunDocuments;
use super::run_facts::Connected;
use super::sampler::Sampled;
use super::summary::{self, Summary};
use super::{counters, extra, text};
use facts::error::{Failure, Kind};
use facts::expect::Metric;
use facts::interrupt;
use facts::rate::KeptSchedule;
use measure::{Gauge, MeasurementError, MeasuringClock, Recorder, Until};
use page::stream::{BestEffort, SharedOutput, Stream};
use plan::depths::Row;
use plan::outputs::Outputs;
use plan::run_options::Side;
use plan::{Plan, Role};

/// Largest number of samples of a size in JSON, which is made in memory.
const MAX_JSON_SAMPLES: usize = 1_000_000;

/// The text and the documents of one run.
pub struct Reporter {
    layout: Layout,
    side: Side,
    /// Whether one run after another is reported.
    persists: bool,
    /// Whether a run of a server that persists has ended.
    has_ended_run: bool,
    /// Whether each sample is printed.
    report_all: bool,
    program: String,
    /// Whether scripts for a legacy tool may read the text.
    has_script: bool,
    outputs: Outputs,
    /// The limit of the medians.
    until: Option<Until>,
    /// Rows of the run.
    rows: Vec<Row>,
    out: SharedOutput,
    /// Both sides issue operations.
    bidirectional: bool,
    live: LiveOutput,
    documents: RunDocuments,
    /// The outcome of a run that has not begun.
    not_begun: Outcome,
    outcome: Outcome,
    started: Instant,
    current: CurrentSize,
    /// Number of sizes whose bytes were checked.
    verified_sizes: usize,
}

impl Reporter {
    /// A reporter for `plan` that writes its text to `out`. It opens nothing.
    pub fn new(plan: &Plan, out: Box<dyn Write + Send>) -> Self {
        let outputs = plan.outputs.clone();
        let not_begun = Outcome::of(plan);
        Self {
            layout: Layout::new(plan.tool, outputs.unit, &plan.run),
            side: match plan.role {
                Role::Server => Side::Server,
                _ => Side::Client,
            },
            persists: plan.listening.persist,
            has_ended_run: false,
            report_all: plan.run.report_all,
            program: plan.program.clone(),
            has_script: plan.program == plan.tool.legacy_name && !outputs.take_stdout(),
            outputs,
            until: plan.until,
            rows: match plan.role {
                Role::Server => Vec::new(),
                _ => plan.run.rows().collect(),
            },
            out: SharedOutput::new(out),
            bidirectional: plan.run.lists.is_some_and(|lists| lists.bidirectional),
            live: LiveOutput::start(plan),
            documents: RunDocuments::default(),
            outcome: not_begun.clone(),
            not_begun,
            started: Instant::now(),
            current: CurrentSize::default(),
            verified_sizes: 0,
        }
    }

    /// A reporter without text.
    pub fn silent(plan: &Plan) -> Self {
        Self { has_script: false, ..Self::new(plan, Box::new(io::sink())) }
    }

    /// Checks that all documents of the plan can be written, and starts the thread that the plan
    /// asks for.
    ///
    /// # Errors
    ///
    /// A file cannot be written, two documents have the same file, or a thread cannot be started.
    pub fn open(&mut self) -> Result<(), Failure> {
        let comment = format!("cxidiag {} on {}", self.layout.tool.name, self.outcome.host.name);
        self.documents.open(&self.outputs, self.layout.depth, &comment)?;
        let iters = self.outcome.options.as_ref().and_then(|options| options.iters);
        let are_too_many = iters.is_some_and(|iters| iters > MAX_JSON_SAMPLES as u64);
        if self.report_all && self.documents.has_json() && are_too_many {
            self.warn(&format!(
                "JSON has no more than {MAX_JSON_SAMPLES} samples of a size: --samples=FILE writes all of them"
            ));
        }
        if let Some(length) = self.outputs.interval {
            let out = self.out.clone();
            self.live.start_intervals(self.layout, length, self.bidirectional, out)?;
        }
        Ok(())
    }

    /// The writer of the text.
    pub fn text(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Records what is known once both sides have connected.
    pub fn connected(&mut self, summary: &Summary, connected: &Connected) {
        if self.side == Side::Server {
            // The run begins with its client, which has chosen the options.
            self.started = Instant::now();
            self.outcome.begin(connected.plan, summary.run);
            self.rows = summary.run.rows().collect();
            self.layout = summary.layout;
        }
        self.outcome.connect(summary, connected);
        self.current.fan = summary.run.extensions.fan;
        self.current.rate = summary.run.extensions.rate.map(|rate| {
            let list_size = summary.run.lists.map_or(1, |lists| lists.list_size);
            (rate, list_size.into())
        });
    }

    /// Prints the summary block.
    pub fn print_summary(&mut self, summary: &Summary) -> Result<(), Failure> {
        // One write: each one is a system call, and may wake the reader.
        let mut block = Vec::new();
        let write = if self.outputs.quiet { summary::write_platform } else { summary::write };
        write(&mut block, summary)
            .and_then(|()| self.out.write_all(&block))
            .and_then(|()| self.out.flush())
            .map_err(interrupt::output_failed)
    }

    /// Prints what precedes the latencies of the first size.
    pub fn begin_latencies(&mut self, report_all: bool) -> Result<(), Failure> {
        let each_has_titles = report_all || self.live.has_intervals();
        text::begin(&mut self.out, self.layout, each_has_titles).map_err(interrupt::output_failed)
    }

    /// Prints what precedes the bandwidth of the first size.
    pub fn begin_bandwidth(&mut self) -> Result<(), Failure> {
        let each_has_titles = self.live.has_intervals();
        text::begin(&mut self.out, self.layout, each_has_titles).map_err(interrupt::output_failed)
    }

    /// Sets the facts about the clock.
    pub fn set_clock(&mut self, clock: MeasuringClock) {
        self.outcome.clock = clock;
    }

    /// Whether an output shows what the tool itself adds to a latency.
    pub fn shows_own_error(&self) -> bool {
        self.outputs.show_error || self.documents.has_json()
    }

    /// Sets what the tool itself adds to a latency.
    pub fn set_own_error(&mut self, error: MeasurementError) {
        self.outcome.measurement_error = Some(error);
    }

    /// Sets the number of bytes of the current size that were checked, if they were.
    pub fn set_verified(&mut self, bytes: Option<u64>) {
        self.current.verified_bytes = bytes;
        self.verified_sizes += usize::from(bytes.is_some());
    }

    /// Sets how the rate was kept with the current size, if there is one.
    pub fn set_kept(&mut self, kept: Option<KeptSchedule>) {
        self.current.kept = kept;
    }

    /// Sets the median of the writes that the current size is compared with, in nanoseconds, if it
    /// is compared.
    pub fn set_write(&mut self, median_ns: Option<u64>) {
        self.current.write_ns = median_ns;
    }

    /// Sets the medians of the fans of the current size, in nanoseconds, if there are any: from the
    /// start to the first arrival, and from there to the last one.
    pub fn set_fan(&mut self, medians_ns: Option<[u64; 2]>) {
        self.current.fan_ns = medians_ns;
    }

    /// Sets what the counters of the NICs did during the run, if they are to be shown.
    pub fn set_counters(&mut self, counters: Option<Counters>) {
        self.outcome.counters = counters;
    }

    /// Prints a warning on standard error. The run continues if it cannot be written.
    pub fn warn(&mut self, warning: &str) {
        self.live.hide();
        let _ = writeln!(io::stderr(), "{}: warning: {warning}", self.program);
    }

    /// Sets how the buffers of this side on GPUs are mapped.
    pub fn set_gpu_map(&mut self, map: GpuMap) {
        if let Some(options) = &mut self.outcome.options {
            options.gpu_map = Some(map.way.to_string());
        }
    }

    /// Shows the progress of a size, which the measuring loop sets in `gauge`.
    pub fn begin_size(&mut self, row: Row, gauge: &Arc<Gauge>) {
        self.current.begin(row, self.started.elapsed());
        let place = (self.outcome.results.len() + 1, self.rows.len());
        self.live.begin(row, place, gauge);
    }

    /// Sets the row of a latency server, which measures nothing.
    pub fn set_row(&mut self, row: Row) {
        self.current.row = row;
    }

    /// Reports the latencies of a size.
    ///
    /// # Errors
    ///
    /// The text or the histogram log cannot be written.
    pub fn latencies(&mut self, size: u64, recorder: &Recorder) -> Result<(), Failure> {
        let Sampled { intervals, written } = self.live.end_intervals(recorder.statistics().count());
        self.keep_latencies(size, recorder, intervals, Extent::Complete)?;
        written
            .and_then(|()| self.row_of_latencies(size, recorder))
            .map_err(interrupt::output_failed)
    }

    /// Reports the samples of a size during which `failure` ended the run. Errors in writing are
    /// ignored, because the failure is more important.
    pub fn latencies_cut_short(&mut self, size: u64, recorder: &Recorder, failure: &Failure) {
        self.live.hide();
        let sampled = self.live.end_intervals(recorder.statistics().count());
        if !self.has_current() {
            let _ = self.keep_latencies(size, recorder, sampled.intervals, Extent::Partial);
        }
        let is_something = recorder.statistics().count() > 0;
        let row = |reporter: &mut Self| reporter.row_of_latencies(size, recorder);
        self.cut_short(failure, "", is_something.then_some(row));
    }

    /// Prints `row` and what follows a table that `failure` has cut short. Under a legacy name all
    /// of it goes to standard error: scripts take each row for the result of a whole size.
    fn cut_short(
        &mut self,
        failure: &Failure,
        remark: &str,
        row: Option<impl FnOnce(&mut Self) -> io::Result<()>>,
    ) {
        let out = self.out.clone();
        if self.has_script {
            let _ = text::end(&mut self.out, self.layout);
            self.out = SharedOutput::new(Box::new(BestEffort(Stream::to(io::stderr()))));
            if row.is_some() {
                let _ = text::titles(&mut self.out, self.layout);
            }
        }
        let _ = row
            .map_or(Ok(()), |row| row(self))
            .and_then(|()| text::cut_short(&mut self.out, self.layout, failure, remark))
            .and_then(|()| {
                let lines = self.extra();
                text::lines(&mut self.out, lines)
            });
        self.out = out;
        self.warn_of_waits();
    }

    fn row_of_latencies(&mut self, size: u64, recorder: &Recorder) -> io::Result<()> {
        self.live.hide();
        let result =
            SizeResult::from_latencies(size, recorder, Extent::Complete, Detail::default())
                .in_row(self.current.row);
        let samples = recorder.samples().filter(|_| self.report_all);
        self.titles_after_intervals(samples.is_some())?;
        let (out, count) = (&mut self.out, Some(result.count));
        text::result(out, self.layout, &result, count, samples)
    }

    /// Prints the titles of the results after the intervals of a size, unless `others` do.
    fn titles_after_intervals(&mut self, others: bool) -> io::Result<()> {
        if self.live.has_intervals() && !others {
            text::titles(&mut self.out, self.layout)?;
        }
        Ok(())
    }

    /// Whether there is a result of the current row.
    fn has_current(&self) -> bool {
        self.outcome.results.iter().any(|result| result.row() == self.current.row)
    }

    fn keep_latencies(
        &mut self,
        size: u64,
        recorder: &Recorder,
        intervals: Option<Intervals>,
        extent: Extent,
    ) -> Result<(), Failure> {
        let detail = Detail {
            own_spread_ns: self.outcome.measurement_error.map(|error| error.spread_ns),
            until: self.until,
            further: &self.outputs.percentiles,
            histogram: self.outputs.histogram,
        };
        let result =
            SizeResult { intervals, ..SizeResult::from_latencies(size, recorder, extent, detail) };
        let mut result = self.current.complete(result);
        if let Some(latency) = &mut result.latency
            && self.report_all
            && self.documents.has_json()
        {
            let samples = recorder.samples();
            let samples = samples.filter(|samples| samples.len() <= MAX_JSON_SAMPLES);
            latency.samples_ns = samples.map(<[u64]>::to_vec);
        }
        // An expectation may name any percentile; the document has only some.
        let figure = |metric| match metric {
            Metric::Percentile(percentile) => recorder.percentile(percentile).map(|ns| ns as f64),
            metric => result.figure(metric),
        };
        let verdicts = verdicts(&self.outputs, result.row(), result.extent, figure);
        let took = self.started.elapsed() - self.current.began;
        self.documents.add_latencies(&result, recorder, self.current.began, took)?;
        self.outcome.expectations.extend(verdicts);
        self.outcome.results.push(result);
        Ok(())
    }

    /// Reports the bandwidth of a size.
    pub fn bandwidth(&mut self, measured: &MeasuredBandwidth) -> Result<(), Failure> {
        let Sampled { intervals, written } = self.live.end_intervals(measured.sides[0].count);
        self.keep_bandwidth(measured, intervals, Extent::Complete);
        written.and_then(|()| self.row_of_bandwidth(measured)).map_err(interrupt::output_failed)
    }

    /// Reports the bandwidth of a size during which `failure` ended the run. Errors in writing are
    /// ignored, because the failure is more important.
    pub fn bandwidth_cut_short(&mut self, measured: &MeasuredBandwidth, failure: &Failure) {
        self.live.hide();
        let is_something = measured.count.unwrap_or(measured.sides[0].count) > 0;
        let sampled = self.live.end_intervals(measured.sides[0].count);
        if is_something && !self.has_current() {
            self.keep_bandwidth(measured, sampled.intervals, Extent::Partial);
        }
        let remark = if is_something && measured.one_sided {
            " (the last size: operations of this side alone)"
        } else if measured.is_measured_by_peer && !is_something {
            " (the server has issued the operations and counts them)"
        } else {
            ""
        };
        let row = |reporter: &mut Self| reporter.row_of_bandwidth(measured);
        self.cut_short(failure, remark, is_something.then_some(row));
    }

    fn keep_bandwidth(
        &mut self,
        measured: &MeasuredBandwidth,
        intervals: Option<Intervals>,
        extent: Extent,
    ) {
        let result = SizeResult { intervals, ..measured.result(extent) };
        let result = self.current.complete(result);
        let verdicts =
            verdicts(&self.outputs, result.row(), extent, |metric| result.figure(metric));
        self.outcome.expectations.extend(verdicts);
        self.outcome.results.push(result);
    }

    fn row_of_bandwidth(&mut self, measured: &MeasuredBandwidth) -> io::Result<()> {
        self.live.hide();
        let result = measured.result(Extent::Complete).in_row(self.current.row);
        self.titles_after_intervals(false)?;
        text::result(&mut self.out, self.layout, &result, measured.count, None)
    }

    /// Reports that a size is done on a latency server, which measures nothing. Prints once in a
    /// run where the results are.
    pub fn server_result(&mut self, size: u64) -> Result<(), Failure> {
        let result = self
            .current
            .complete(SizeResult { extent: Extent::Complete, ..SizeResult::none(size) });
        self.outcome.results.push(result);
        match self.outcome.results.len() {
            1 => text::server_result(&mut self.out, self.layout).map_err(interrupt::output_failed),
            _ => Ok(()),
        }
    }

    /// Prints what a latency server prints after the last size.
    pub fn server_end(&mut self) -> Result<(), Failure> {
        let lines = extra::verified(self.verified_sizes).into_iter().chain(self.counters());
        text::end(&mut self.out, self.layout)
            .and_then(|()| text::lines(&mut self.out, lines))
            .map_err(interrupt::output_failed)
    }

    /// Prints what follows the table of results.
    pub fn end(&mut self) -> Result<(), Failure> {
        let results = &self.outcome.results;
        let walk = MatchCost::of(results);
        let mut lines = extra::writes(results);
        lines.extend(extra::fans(results));
        lines.extend(extra::walk(self.layout.depth, walk.as_ref()));
        lines.extend(extra::missed_rates(results));
        lines.extend(extra::verified(self.verified_sizes));
        self.outcome.walk = walk;
        lines.extend(self.extra());
        text::end(&mut self.out, self.layout)
            .and_then(|()| text::lines(&mut self.out, lines))
            .map_err(interrupt::output_failed)?;
        self.warn_of_waits();
        Ok(())
    }

    /// Says on standard error if CPUs were taken away: scripts search the table for sizes.
    fn warn_of_waits(&mut self) {
        if let Some(warning) = extra::waits_for_cpu(&self.current.cpu_waits) {
            self.warn(&warning);
        }
    }

    /// The blocks of percentiles and verdicts, if requested.
    fn extra(&mut self) -> Vec<String> {
        self.add_unmeasured_sizes();
        let Self { layout, outputs, outcome, .. } = &*self;
        let (tool, results) = (layout.tool, outcome.results.as_slice());
        let mut lines = Vec::new();
        if self.until.is_some() {
            lines.extend(extra::medians(tool, results));
        }
        lines.extend(extra::slowest_pairs(*layout, results));
        lines.extend(extra::both_ends(*layout, self.side, results));
        if outputs.show_error
            && let Some(error) = &outcome.measurement_error
        {
            lines.push(extra::own_error(&outcome.clock, error));
        }
        let percentiles = outputs.percentiles.as_slice();
        if !percentiles.is_empty() {
            lines.extend(distribution::percentile_lines(
                tool,
                results,
                percentiles,
                outputs.show_error,
            ));
        }
        if outputs.histogram {
            lines.extend(distribution::histogram_lines(
                results,
                Style::for_output(outputs.take_stdout()),
            ));
        }
        if !outputs.expectations.is_empty() {
            lines.extend(extra::verdicts(tool, &outputs.expectations, &outcome.expectations));
        }
        lines.extend(self.counters());
        lines
    }

    /// Returns what the counters of the NICs did, if requested.
    fn counters(&self) -> Vec<String> {
        let counters = self.outcome.counters.as_ref();
        counters.map_or(Vec::new(), |counters| counters::lines(self.side, counters))
    }

    /// Writes the documents of a server's run that has ended with `result`, and forgets the run.
    /// The next run replaces the files.
    ///
    /// # Errors
    ///
    /// The failure of the run, or a document that cannot be written.
    pub fn end_run(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        let result = self.write_documents(result);
        self.has_ended_run = true;
        self.outcome = self.not_begun.clone();
        self.rows.clear();
        self.verified_sizes = 0;
        self.current.forget();
        result
    }

    /// Writes the documents after the run has ended with `result`, and returns the result of the
    /// program. The documents of a server with one client after another show its last run.
    ///
    /// # Errors
    ///
    /// The failure of the run, an expectation that is not met, or a document that cannot be
    /// written.
    pub fn finish(mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        self.live = LiveOutput::default();
        let is_interrupted = |failure: &Failure| failure.kind == Kind::Interrupted;
        let has_served = result.as_ref().err().is_none_or(is_interrupted) || self.has_ended_run;
        if self.persists && has_served {
            return result;
        }
        self.write_documents(result)
    }

    /// The outcome of a run that has ended with `result`, and the result of the program. The caller
    /// writes the documents.
    pub fn into_outcome(mut self, result: Result<(), Failure>) -> (Outcome, Result<(), Failure>) {
        let result = self.close(result);
        (self.outcome, result)
    }

    fn close(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        self.add_unmeasured_sizes();
        let result = self.outcome.result(result);
        self.outcome.close(result.as_ref().copied(), self.started.elapsed());
        result
    }

    /// Writes the documents of a run that has ended with `result`, and returns the first failure.
    fn write_documents(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        let result = self.close(result);
        // The first failure counts, but a missing document is worse than an unmet expectation.
        let program = &self.program;
        let failures = self.documents.write(&self.outcome).into_iter();
        failures.fold(result, |before, failure| match before {
            Err(verdict) if verdict.kind == Kind::Unmet => {
                verdict.report(program, &mut io::stderr());
                Err(failure)
            }
            Err(worse) => {
                failure.report(program, &mut io::stderr());
                Err(worse)
            }
            Ok(()) => Err(failure),
        })
    }

    /// Adds an entry for each row that was not measured. It meets no expectation.
    fn add_unmeasured_sizes(&mut self) {
        for &row in &self.rows[self.outcome.results.len().min(self.rows.len())..] {
            let verdicts = verdicts(&self.outputs, row, Extent::None, |_| None);
            self.outcome.expectations.extend(verdicts);
            self.outcome.results.push(SizeResult::none(row.size).in_row(row));
        }
    }
}

/// The writer of the text of a run with these `outputs`: standard output, or standard error if a
/// document goes to standard output.
pub fn text_output(outputs: &Outputs) -> Box<dyn Write + Send> {
    match (outputs.take_stdout(), outputs.quiet) {
        (false, _) => Box::new(Stream::to(io::stdout())),
        (true, false) => Box::new(BestEffort(Stream::to(io::stderr()))),
        (true, true) => Box::new(io::sink()),
    }
}

fn verdicts(
    outputs: &Outputs,
    row: Row,
    extent: Extent,
    figure: impl Fn(Metric) -> Option<f64>,
) -> Vec<ExpectationResult> {
    let expectations = outputs.expectations.iter();
    let applying = expectations.filter(|expectation| expectation.applies_to(row.size));
    applying
        .map(|expectation| {
            ExpectationResult::new(row, expectation, extent, figure(expectation.metric))
        })
        .collect()
}
