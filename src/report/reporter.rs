//! Takes what a run finds out: prints the text as it goes, makes the other formats at its end.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::destination::Destination;
use super::hdr_log::HdrLog;
use super::outcome::{
    Addresses, Device, Extent, FabricAddress, Outcome, Problem, SizeResult, Status, Verdict,
};
use super::output::{Aside, Output};
use super::progress::{Current, Progress};
use super::text::{self, Summary};
use super::{bandwidth, csv, extra, json};
use crate::error::{Failure, Kind};
use crate::interrupt;
use crate::machine::shown;
use crate::measure::SideResult;
use crate::measure::{Gauge, Rates, Recorder};
use crate::plan::expect::Metric;
use crate::plan::outputs::Outputs;
use crate::plan::{Plan, Role};
use crate::tool::Tool;

/// The text and the documents of one run.
pub struct Reporter {
    tool: &'static Tool,
    program: String,
    outputs: Outputs,
    /// Sizes of the run, in bytes.
    sizes: Vec<u64>,
    out: Box<dyn Write>,
    progress: Option<Progress>,
    documents: Documents,
    outcome: Outcome,
    started: Instant,
    /// When the size at hand was begun, from the start of the run.
    size_started: Duration,
}

/// What a bandwidth tool found out about one size.
#[derive(Clone, Copy, Debug)]
pub struct Lists {
    /// The size in bytes.
    pub size: u64,
    /// What both sides counted, this one first.
    pub sides: [SideResult; 2],
    /// What that makes together.
    pub rates: Rates,
    /// Whether this side sends.
    pub sends: bool,
    /// The peer's figures should be part of this, but are missing.
    pub one_sided: bool,
}

/// Where documents will go, and the one that is made as the run goes.
#[derive(Default)]
struct Documents {
    json: Option<Destination>,
    csv: Option<Destination>,
    hdr_log: Option<(Destination, HdrLog)>,
}

impl Reporter {
    /// A reporter for `plan` that writes its text to `out`. Nothing has been opened yet.
    pub fn new(plan: &Plan, out: Box<dyn Write>) -> Self {
        let outputs = plan.outputs.clone();
        Self {
            tool: plan.tool,
            program: plan.program.clone(),
            outputs,
            sizes: match plan.role {
                Role::Server => Vec::new(),
                _ => plan.run.sizes().collect(),
            },
            out,
            progress: match (&plan.role, plan.outputs.quiet) {
                (Role::Server, _) | (_, true) => None,
                _ => Progress::start(plan.run),
            },
            documents: Documents::default(),
            outcome: Outcome::of(plan),
            started: Instant::now(),
            size_started: Duration::ZERO,
        }
    }

    /// Makes sure that everything can be written that the plan asks for.
    pub fn open(&mut self) -> Result<(), Failure> {
        // Standard output first: whatever happens to the others, it gets its document.
        let stdout = |place: &&crate::plan::outputs::Place| place.file().is_none();
        for only_stdout in [true, false] {
            let open = |place: &Option<_>, destination: &mut Option<Destination>| {
                if let Some(place) = place.as_ref().filter(|place| stdout(place) == only_stdout) {
                    *destination = Some(Destination::open(place)?);
                }
                Ok::<(), Failure>(())
            };
            open(&self.outputs.json, &mut self.documents.json)?;
            open(&self.outputs.csv, &mut self.documents.csv)?;
        }
        if let Some(path) = &self.outputs.hdr_log {
            let comment = format!("cxidiag {} on {}", self.tool.name, self.outcome.host.name);
            let log = HdrLog::begin(SystemTime::now(), &comment)?;
            self.documents.hdr_log = Some((Destination::file(path)?, log));
        }
        let Documents { json, csv, hdr_log } = &self.documents;
        let hdr_log = hdr_log.as_ref().map(|(destination, _)| destination);
        let all = [json.as_ref(), csv.as_ref(), hdr_log];
        let mut targets: Vec<&Path> = all
            .into_iter()
            .flatten()
            .filter_map(Destination::target)
            .collect();
        targets.sort_unstable();
        match targets.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(Failure::usage(format!(
                "two kinds of results cannot go to one file, {}",
                two[0].display()
            ))),
            None => Ok(()),
        }
    }

    /// Where the text goes.
    pub fn text(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Both sides have met: prints the summary block. `server` is an address at which the server was
    /// reached, in a client.
    pub fn met(&mut self, summary: &Summary, server: std::net::SocketAddr) -> Result<(), Failure> {
        let address = |nic, pid| FabricAddress { nic, pid };
        self.outcome.addresses = Some(Addresses {
            local: address(summary.own.address.nic, summary.own.address.pid),
            remote: address(summary.peer.nic, summary.peer.pid),
            vni: summary.own.vni,
            server_ip: server.ip().to_string(),
            server_port: server.port(),
        });
        self.outcome.device = Some(Device {
            name: summary.device.to_string(),
            is_software: Some(summary.simulated),
            svc_id: summary.svc_id,
        });
        if let Some(options) = &mut self.outcome.options {
            let (own, peer) = (summary.own.gpus, summary.peer_gpus);
            options.gpu_type = own.kind.map(|kind| kind.to_string());
            options.peer_tx_gpu = peer.tx;
            options.peer_rx_gpu = peer.rx;
            // A legacy tool tells what it was built for, used or not.
            let kind = peer.kind.filter(|_| peer.any());
            options.peer_gpu_type = kind.map(|kind| kind.to_string());
        }
        if let Some(options) = &mut self.outcome.options
            && !summary.cpus.is_empty()
        {
            options.cpu = Some(shown(summary.cpus));
        }
        text::summary(&mut self.out, summary)
            .and_then(|()| self.out.flush())
            .map_err(interrupt::output_failed)
    }

    /// Latencies of the first size are about to be measured.
    pub fn begin_latencies(&mut self, report_all: bool) -> Result<(), Failure> {
        text::begin(&mut self.out, self.tool, report_all).map_err(interrupt::output_failed)
    }

    /// Bandwidth of the first size is about to be measured.
    pub fn begin_bandwidth(&mut self) -> Result<(), Failure> {
        bandwidth::begin(&mut self.out, self.tool).map_err(interrupt::output_failed)
    }

    /// A size is about to be measured; `gauge` will tell how far that has come.
    pub fn begin_size(&mut self, size: u64, gauge: &Arc<Gauge>) {
        self.size_started = self.started.elapsed();
        if let Some(progress) = &self.progress {
            progress.show(Current {
                size,
                place: (self.outcome.results.len() + 1, self.sizes.len()),
                gauge: Arc::clone(gauge),
                started: Instant::now(),
            });
        }
    }

    /// Text follows.
    fn hide_progress(&self) {
        if let Some(progress) = &self.progress {
            progress.hide();
        }
    }

    /// A size was measured: `recorder` has its latencies.
    pub fn latencies(&mut self, size: u64, recorder: &Recorder) -> Result<(), Failure> {
        self.keep_latencies(size, recorder, Extent::Complete)?;
        self.row_of_latencies(size, recorder)
            .map_err(interrupt::output_failed)
    }

    /// A failure has ended the run in the middle: `recorder` has what there is of a size. The failure
    /// counts, not what cannot be written.
    pub fn latencies_cut_short(&mut self, size: u64, recorder: &Recorder, failure: &Failure) {
        self.hide_progress();
        if !self.has(size) {
            let _ = self.keep_latencies(size, recorder, Extent::Partial);
        }
        let row = match recorder.statistics().count() {
            0 => Ok(()),
            _ => self.row_of_latencies(size, recorder),
        };
        let _ = row
            .and_then(|()| text::cut_short(&mut self.out, self.tool, failure, ""))
            .and_then(|()| self.extra());
    }

    fn row_of_latencies(&mut self, size: u64, recorder: &Recorder) -> io::Result<()> {
        self.hide_progress();
        let out = &mut self.out;
        text::result(
            out,
            self.tool,
            size,
            recorder.statistics(),
            recorder.samples(),
        )
    }

    /// Whether there is a result of `size`.
    fn has(&self, size: u64) -> bool {
        self.outcome
            .results
            .iter()
            .any(|result| result.size_bytes == size)
    }

    fn keep_latencies(
        &mut self,
        size: u64,
        recorder: &Recorder,
        extent: Extent,
    ) -> Result<(), Failure> {
        let result = SizeResult::of_latencies(size, recorder, extent);
        // Of any percentile, where the document has only some.
        let figure = |metric| match metric {
            Metric::Percentile(percentile) => recorder.percentile(percentile).map(|ns| ns as f64),
            metric => result.figure(metric),
        };
        let verdicts = verdicts(&self.outputs, size, result.extent, figure);
        if let Some((_, log)) = &mut self.documents.hdr_log
            && result.count > 0
        {
            if result.extent != Extent::Complete {
                log.remark(&format!("Size {size} was measured only in part"));
            }
            let took = self.started.elapsed() - self.size_started;
            log.add(size, self.size_started, took, recorder.histogram())?;
        }
        self.outcome.expectations.extend(verdicts);
        self.outcome.results.push(result);
        Ok(())
    }

    /// A size was measured.
    pub fn bandwidth(&mut self, lists: Lists) -> Result<(), Failure> {
        self.keep_bandwidth(lists, Extent::Complete);
        self.row_of_bandwidth(lists)
            .map_err(interrupt::output_failed)
    }

    /// A failure has ended the run in the middle; as [`Self::latencies_cut_short`].
    pub fn bandwidth_cut_short(&mut self, lists: Lists, failure: &Failure) {
        self.hide_progress();
        let is_something = lists.sides[0].count > 0;
        if is_something && !self.has(lists.size) {
            self.keep_bandwidth(lists, Extent::Partial);
        }
        let row = match is_something {
            true => self.row_of_bandwidth(lists),
            false => Ok(()),
        };
        let one_sided = is_something && lists.one_sided;
        let _ = row
            .and_then(|()| bandwidth::cut_short(&mut self.out, self.tool, failure, one_sided))
            .and_then(|()| self.extra());
    }

    fn keep_bandwidth(&mut self, lists: Lists, extent: Extent) {
        let result = SizeResult::of_lists(lists.size, lists.sides, lists.rates, extent);
        let verdicts = verdicts(&self.outputs, lists.size, extent, |metric| {
            result.figure(metric)
        });
        self.outcome.expectations.extend(verdicts);
        self.outcome.results.push(result);
    }

    fn row_of_bandwidth(&mut self, lists: Lists) -> io::Result<()> {
        self.hide_progress();
        let count = lists.sends.then_some(lists.sides[0].count);
        bandwidth::result(&mut self.out, self.tool, lists.size, count, lists.rates)
    }

    /// What a server has to say about each size.
    pub fn server_result(&mut self) -> Result<(), Failure> {
        text::server_result(&mut self.out, self.tool).map_err(interrupt::output_failed)
    }

    /// What a server has to say at its end.
    pub fn server_end(&mut self) -> Result<(), Failure> {
        text::server_end(&mut self.out, self.tool).map_err(interrupt::output_failed)
    }

    /// There are no more sizes: prints what stands behind the table.
    pub fn end(&mut self) -> Result<(), Failure> {
        text::end(&mut self.out, self.tool)
            .and_then(|()| self.extra())
            .map_err(interrupt::output_failed)
    }

    /// The blocks of text that were asked for.
    fn extra(&mut self) -> io::Result<()> {
        self.judge_the_rest();
        let out = &mut self.out;
        if self.outputs.percentiles {
            extra::percentiles(out, self.tool, &self.outcome.results)?;
        }
        let expectations = self.outputs.expectations.as_slice();
        if !expectations.is_empty() {
            extra::verdicts(out, self.tool, expectations, &self.outcome.expectations)?;
        }
        out.flush()
    }

    /// The run has ended, well or not: writes the documents. The result is what the program ends with.
    pub fn finish(mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        self.progress = None;
        self.judge_the_rest();
        let result = result.and_then(|()| all_met(&self.outcome.expectations));
        self.outcome
            .close(result.as_ref().copied(), self.started.elapsed());
        // A document that cannot be written is told unless worse has happened before.
        let Documents { json, csv, hdr_log } = std::mem::take(&mut self.documents);
        let written = [
            json.map(|to| to.write(&json::document(&self.outcome)?)),
            csv.map(|to| to.write(&csv::document(&self.outcome)?)),
            hdr_log.map(|(to, log)| to.write(&log.into_bytes())),
        ];
        let program = &self.program;
        written
            .into_iter()
            .flatten()
            .fold(result, |before, written| {
                match (before, written) {
                    // A verdict that nobody can read is none.
                    (Err(verdict), Err(failure)) if verdict.kind == Kind::Unmet => {
                        verdict.report(program, &mut io::stderr());
                        Err(failure)
                    }
                    (Err(worse), Err(failure)) => {
                        failure.report(program, &mut io::stderr());
                        Err(worse)
                    }
                    (before, written) => before.and(written),
                }
            })
    }

    /// Sizes that were not measured get their entries, and never meet an expectation.
    fn judge_the_rest(&mut self) {
        for &size in &self.sizes[self.outcome.results.len().min(self.sizes.len())..] {
            let verdicts = verdicts(&self.outputs, size, Extent::None, |_| None);
            self.outcome.expectations.extend(verdicts);
            self.outcome.results.push(SizeResult::none(size));
        }
    }
}

/// Where the text of a run with these `outputs` goes: standard output, or beside a document that
/// has it.
pub fn text_output(outputs: &Outputs) -> Box<dyn Write> {
    match (outputs.take_stdout(), outputs.quiet) {
        (false, _) => Box::new(Output::to(io::stdout())),
        (true, false) => Box::new(Aside(Output::to(io::stderr()))),
        (true, true) => Box::new(io::sink()),
    }
}

/// Prints a document for a program that asked for one by arguments that cannot be.
pub fn refused(tool: &Tool, arguments: &[std::ffi::OsString], failure: &Failure) {
    let asks = |name: &str| {
        let dashed = format!("--{name}");
        let to_stdout = format!("--{name}=-");
        arguments
            .iter()
            .any(|typed| *typed == *dashed || *typed == *to_stdout)
    };
    let mut outcome = Outcome::bare(tool);
    outcome.close(Err(failure), Duration::ZERO);
    let document = match (asks("json"), asks("csv")) {
        (true, _) => json::document(&outcome),
        (false, true) => csv::document(&outcome),
        (false, false) => return,
    };
    // The failure itself is told on stderr, whatever becomes of this.
    let _ = document.and_then(|document| Destination::Stdout.write(&document));
}

impl Outcome {
    /// Enters how the run has ended.
    fn close(&mut self, result: Result<(), &Failure>, elapsed: Duration) {
        self.elapsed_ms = elapsed.as_millis() as u64;
        let Err(failure) = result else {
            self.status = Status::Complete;
            self.exit_status = 0;
            return;
        };
        self.status = match failure.kind {
            Kind::Unmet => Status::Unmet,
            Kind::Interrupted => Status::Interrupted,
            _ => Status::Failed,
        };
        self.exit_status = failure.status();
        self.error = Some(Problem::from(failure));
    }
}

fn verdicts(
    outputs: &Outputs,
    size: u64,
    extent: Extent,
    figure: impl Fn(Metric) -> Option<f64>,
) -> Vec<Verdict> {
    let judge = |of| Verdict::new(size, of, extent, figure(of.metric));
    outputs.expectations.iter().map(judge).collect()
}

/// Fails unless all expectations are met.
fn all_met(verdicts: &[Verdict]) -> Result<(), Failure> {
    let unmet: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.met).collect();
    let Some(first) = unmet.first() else {
        return Ok(());
    };
    let others = match unmet.len() - 1 {
        0 => String::new(),
        1 => ", and 1 more".into(),
        more => format!(", and {more} more"),
    };
    Err(Failure::unmet(format!(
        "not as expected: {} with {} bytes{others}",
        first.expectation, first.size_bytes
    )))
}
