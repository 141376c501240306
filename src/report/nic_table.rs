//! Several NICs measured one after the other by a tool without a peer: a table, a matrix of NICs
//! and GPUs, and the documents of all runs.

use std::io::{self, Write};

use super::columns::{self, Layout, TextTable};
use super::outcome::{Outcome, SizeResult, Status};
use super::{counters, csv, extra, text};
use facts::error::Failure;
use facts::expect::Metric;
use facts::interrupt;
use page::documents::{Documents, Places};
use page::{json, table};
use plan::Plan;
use plan::run_options::Side;

/// One NIC that was measured.
#[derive(Debug)]
pub struct NicRun {
    pub nic: String,
    pub is_software: bool,
    /// NUMA node of the NIC.
    pub node: Option<u32>,
    /// The GPU that holds both buffers, if one does.
    pub gpu: Option<u8>,
    /// Whether this GPU is known to be the nearest one to the NIC.
    pub has_nearest_gpu: bool,
    /// Whether the run has a row in the table, and expectations apply to it: not if another GPU is
    /// the nearest one.
    pub is_judged: bool,
    pub outcome: Outcome,
}

impl NicRun {
    /// The NIC, and its GPU if there is one.
    fn name(&self) -> String {
        match self.gpu {
            Some(gpu) => format!("{} with GPU {gpu}", self.nic),
            None => self.nic.clone(),
        }
    }
}

/// The runs, and where they are written.
pub struct NicTable {
    layout: Layout,
    out: Box<dyn Write + Send>,
    documents: Documents,
    runs: Vec<NicRun>,
    has_gpus: bool,
    /// Sizes of each run, in bytes.
    sizes: Vec<u64>,
    is_begun: bool,
}

impl NicTable {
    /// Opens the documents of `plan`; the text goes to `out`.
    ///
    /// # Errors
    ///
    /// A document that cannot be written.
    pub fn open(plan: &Plan, out: Box<dyn Write + Send>, has_gpus: bool) -> Result<Self, Failure> {
        let outputs = &plan.outputs;
        let documents = Documents::open(&Places {
            json: outputs.json.clone(),
            jsonl: outputs.jsonl.clone(),
            csv: outputs.csv.clone(),
            ..Places::default()
        })?;
        let layout = Layout::new(plan.tool, outputs.unit, &plan.run);
        let sizes = plan.run.sizes().collect();
        Ok(Self { layout, out, documents, runs: Vec::new(), has_gpus, sizes, is_begun: false })
    }

    /// Adds a run, and prints its rows.
    ///
    /// # Errors
    ///
    /// The text cannot be written.
    pub fn add(&mut self, run: NicRun) -> Result<(), Failure> {
        let printed = if run.is_judged { self.print(&run) } else { Ok(()) };
        self.runs.push(run);
        printed.map_err(interrupt::output_failed)
    }

    fn print(&mut self, run: &NicRun) -> io::Result<()> {
        if !self.is_begun {
            if run.is_software {
                writeln!(self.out, "Software NICs (no Cassini hardware involved)")?;
            }
            let gpu = if self.has_gpus { "  GPU" } else { "" };
            let titles = columns::header(self.layout, TextTable::Results);
            writeln!(self.out, "{:6}  NUMA{gpu}  {titles}", "NIC")?;
            self.is_begun = true;
        }
        for line in rows(self.layout, run, self.has_gpus) {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }

    /// Prints the matrix, writes the documents, and returns the result of all runs; `failure` has
    /// ended them early.
    ///
    /// # Errors
    ///
    /// `failure`, a document that cannot be written, a run that failed, and an expectation that is
    /// not met.
    pub fn end(mut self, failure: Option<Failure>) -> Result<(), Failure> {
        let mut lines = Vec::new();
        if self.has_gpus {
            for size in &self.sizes {
                lines.extend(matrix(self.layout, &self.runs, *size));
            }
            lines.extend(failures(&self.runs));
        }
        lines.extend(self.extra());
        let printed = text::lines(&mut self.out, lines);
        let written = self.write_documents();
        match failure {
            Some(failure) => Err(failure),
            None => printed.map_err(interrupt::output_failed).and(written).and(result(&self.runs)),
        }
    }

    /// Returns how many sizes were verified, and the counters of each run, if requested.
    fn extra(&self) -> Vec<String> {
        let results = self.runs.iter().flat_map(|run| &run.outcome.results);
        let verified = results.filter(|result| result.verified_bytes.is_some()).count();
        let mut lines: Vec<String> = extra::verified(verified).into_iter().collect();
        for run in &self.runs {
            if let Some(counters) = &run.outcome.counters {
                lines.extend([String::new(), format!("{}:", run.name())]);
                lines.extend(counters::lines(Side::Client, counters));
            }
        }
        lines
    }

    /// Writes one document for each run.
    fn write_documents(&self) -> Result<(), Failure> {
        let Documents { json, jsonl, csv, .. } = &self.documents;
        let outcomes = || self.runs.iter().map(|run| &run.outcome);
        if let Some(to) = json {
            let lines = outcomes().map(json::line);
            to.write(&lines.collect::<Result<Vec<_>, _>>()?.concat())?;
        }
        if let Some(to) = jsonl {
            outcomes().try_for_each(|outcome| to.append(outcome))?;
        }
        if let Some(to) = csv {
            let rows = outcomes().enumerate().map(|(at, run)| csv::document(run, at == 0));
            to.write(&rows.collect::<Result<Vec<_>, _>>()?.concat())?;
        }
        Ok(())
    }
}

/// A row for each size of a run, or why it failed.
fn rows(layout: Layout, run: &NicRun, has_gpus: bool) -> Vec<String> {
    let number = |number: Option<u32>| number.map_or("-".into(), |number| number.to_string());
    let gpu =
        if has_gpus { format!("  {:>3}", number(run.gpu.map(u32::from))) } else { String::new() };
    let start = format!("{:6}  {:>4}{gpu}", run.nic, number(run.node));
    if let Some(why) = failure(run) {
        return vec![format!("{start}  {why}")];
    }
    let row = |result: &SizeResult| {
        let row = columns::row(layout, result, Some(result.count));
        format!("{start}  {row}{}", verdict(&run.outcome, result.size_bytes))
    };
    run.outcome.results.iter().map(row).collect()
}

/// Whether a size meets the expectations, as the end of its row.
fn verdict(outcome: &Outcome, size: u64) -> String {
    let own = || outcome.expectations.iter().filter(|verdict| verdict.size_bytes == size);
    let unmet: Vec<&str> =
        own().filter(|verdict| !verdict.met).map(|verdict| verdict.expectation.as_str()).collect();
    match (own().count(), unmet.as_slice()) {
        (0, _) => String::new(),
        (_, []) => "  met".into(),
        (_, unmet) => format!("  NOT MET: {}", unmet.join(", ")),
    }
}

/// Returns why a run has no results, if it has failed.
fn failure(run: &NicRun) -> Option<String> {
    let Outcome { status, error, .. } = &run.outcome;
    if matches!(status, Status::Complete | Status::Unmet) {
        return None;
    }
    Some(format!("failed: {}", error.as_ref().map_or("", |problem| &problem.message)))
}

/// The bandwidths of a size by NIC and GPU. A star marks the nearest GPU.
fn matrix(layout: Layout, runs: &[NicRun], size: u64) -> Vec<String> {
    let mut nics: Vec<&str> = Vec::new();
    for run in runs {
        if !nics.contains(&run.nic.as_str()) {
            nics.push(&run.nic);
        }
    }
    let last = runs.iter().filter_map(|run| run.gpu).max();
    let gpus: Vec<u8> = last.into_iter().flat_map(|last| 0..=last).collect();
    let cell = |nic: &str, gpu: u8| {
        let run = runs.iter().find(|run| run.nic == nic && run.gpu == Some(gpu))?;
        let result = run.outcome.results.iter().find(|result| result.size_bytes == size);
        let bandwidth = result.and_then(|result| result.figure(Metric::Bandwidth));
        let text = bandwidth.map_or("failed".into(), |figure| layout.bandwidth(figure));
        Some(if run.has_nearest_gpu { format!("*{text}") } else { text })
    };
    let rows = nics.iter().map(|nic| {
        let cells = gpus.iter().map(|gpu| cell(nic, *gpu).unwrap_or_else(|| "-".into()));
        [(*nic).to_owned()].into_iter().chain(cells).collect()
    });
    let titles: Vec<String> = gpus.iter().map(|gpu| format!(">GPU {gpu}")).collect();
    let titles: Vec<&str> = ["NIC"].into_iter().chain(titles.iter().map(String::as_str)).collect();
    let is_marked = runs.iter().any(|run| run.has_nearest_gpu);
    let star = if is_marked { " (*: the nearest GPU)" } else { "" };
    let title = format!("BW[{}] of {size} bytes by NIC and GPU{star}", layout.unit);
    let lines = table::lines(&titles, rows.collect());
    ["".to_owned(), title].into_iter().chain(lines).collect()
}

/// Returns why runs failed that have no row.
fn failures(runs: &[NicRun]) -> Vec<String> {
    let others = runs.iter().filter(|run| !run.is_judged);
    let line = |run: &NicRun| {
        let gpu = run.gpu.map_or(String::new(), |gpu| format!(" GPU {gpu}"));
        Some(format!("{}{gpu}: {}", run.nic, failure(run)?))
    };
    others.filter_map(line).collect()
}

/// The result of all runs together.
fn result(runs: &[NicRun]) -> Result<(), Failure> {
    let having = |is_wanted: fn(&Status) -> bool| {
        let found = runs.iter().filter(|run| is_wanted(&run.outcome.status));
        found.map(NicRun::name).collect::<Vec<_>>()
    };
    let (failed, unmet) = (
        having(|status| matches!(status, Status::Failed | Status::Interrupted)),
        having(|status| *status == Status::Unmet),
    );
    let count = runs.len();
    let message = |names: &[String], what| {
        format!("{} of {count} measurements {what}: {}", names.len(), names.join(", "))
    };
    if !failed.is_empty() {
        Err(Failure::environment(message(&failed, "failed")))
    } else if !unmet.is_empty() {
        Err(Failure::unmet(message(&unmet, "miss their expectation")))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reporter;
    use plan::testing::plan;

    #[test]
    fn matrix_has_a_column_for_each_gpu() {
        let plan = plan("loopback-bw", &["-s", "8"]);
        let run = |gpu: u8| NicRun {
            nic: "soft0".into(),
            is_software: true,
            node: None,
            gpu: Some(gpu),
            has_nearest_gpu: false,
            is_judged: true,
            outcome: Reporter::new(&plan, Box::new(io::sink())).into_outcome(Ok(())).0,
        };
        let layout = Layout::new(plan.tool, plan.outputs.unit, &plan.run);
        for last in [1, u8::MAX] {
            let runs: Vec<NicRun> = (0..=last).map(run).collect();
            let lines = matrix(layout, &runs, 8);
            assert!(lines[2].ends_with(&format!("  GPU {last}")), "{}", lines[2]);
            assert_eq!(lines[3].matches("failed").count(), runs.len());
        }
    }
}
