//! Stored runs against expectations, as `compare --expect` shows them.

use super::runs::ReadRun;
use facts::error::Failure;
use facts::expect::Expectation;
use facts::severity::Severity;
use page::page::{Page, Words};
use report::outcome::{ExpectationResult, Extent, Status};

/// What stored runs say about expectations.
#[derive(Debug)]
pub struct StoredVerdicts {
    rows: Vec<StoredVerdict>,
}

/// What a run says about an expectation.
#[derive(Debug)]
struct StoredVerdict {
    file: String,
    place: String,
    expectation: Expectation,
    /// `None` if the run has no size to which the expectation applies.
    result: Option<(Extent, ExpectationResult)>,
}

impl StoredVerdicts {
    /// Checks each run against all expectations for which its tool has the metric.
    pub fn new(runs: &[ReadRun], expectations: &[Expectation]) -> Self {
        let mut rows = Vec::new();
        for run in runs {
            let ReadRun { file, outcome } = run;
            let measures = |expectation: &&Expectation| {
                expectation.tool.as_ref().map_or_else(
                    || expectation.metric.is_of_bandwidth() == run.measures_bandwidth(),
                    |tool| *tool == outcome.tool,
                )
            };
            for expectation in expectations.iter().filter(measures) {
                let sizes = outcome.results.iter();
                let sizes = sizes.filter(|size| expectation.applies_to(size.size_bytes));
                let before = rows.len();
                // The text of another program names no NIC.
                let words = || [outcome.host.known_name(), Some(&outcome.tool)];
                let program = || words().into_iter().flatten().collect::<Vec<_>>().join(" ");
                let row = |result| StoredVerdict {
                    file: file.clone(),
                    place: outcome.device.as_ref().map_or_else(program, |_| outcome.place()),
                    expectation: expectation.clone(),
                    result,
                };
                rows.extend(sizes.map(|size| {
                    let figure = size.figure(expectation.metric);
                    let result =
                        ExpectationResult::new(size.row(), expectation, size.extent, figure);
                    row(Some((size.extent, result)))
                }));
                // A run that ended early lacks sizes to which a bound without a size applies.
                let is_cut = matches!(outcome.status, Status::Interrupted | Status::Failed);
                let is_missing = rows.len() == before && expectation.tool.is_none();
                if is_missing || (is_cut && expectation.size.is_none()) {
                    rows.push(row(None));
                }
            }
        }
        Self { rows }
    }

    /// Whether no bound applies to any run.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A table with a row for each size and expectation of each run.
    pub fn page(&self) -> Page {
        let columns = ["File", "Measured by", ">Size[B]", "Expected", ">Measured", "Verdict"];
        let mut page = Page::default();
        page.table(&columns, self.rows.iter().map(StoredVerdict::cells));
        page
    }

    /// Whether each run has measured and met everything.
    ///
    /// # Errors
    ///
    /// The number of verdicts that are not "met".
    pub fn result(&self) -> Result<(), Failure> {
        let unmet = self.rows.iter().filter(|row| row.verdict() != "met").count();
        match unmet {
            0 => Ok(()),
            _ => Err(Failure::unmet(format!("not met: {unmet} of {} bounds", self.rows.len()))),
        }
    }
}

impl StoredVerdict {
    fn verdict(&self) -> &'static str {
        match &self.result {
            Some((_, result)) if result.met => "met",
            Some((Extent::Complete, ExpectationResult { measured: Some(_), .. })) => "not met",
            Some((_, ExpectationResult { measured: Some(_), .. })) => "not measured completely",
            Some((_, ExpectationResult { measured: None, .. })) | None => "not measured",
        }
    }

    fn cells(&self) -> Vec<Words> {
        let result = self.result.as_ref().map(|(_, result)| result);
        let row = result.map(|result| result.row().cell());
        let row = row.or(self.expectation.size.map(|size| size.to_string()));
        let measured = result.map(|result| result.measured_text(self.expectation.metric));
        let severity = if self.verdict() == "met" { Severity::Good } else { Severity::Bad };
        vec![
            self.file.as_str().into(),
            self.place.as_str().into(),
            row.map_or_else(|| "-".into(), Words::from),
            self.expectation.text.as_str().into(),
            measured.map_or_else(|| "-".into(), Words::from),
            Words::verdict(severity, self.verdict()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printed;
    use facts::error::Kind;
    use facts::expect;
    use page::table::TextStyle;

    const LOG: &str = "\
--------------------------------------------------
    CXI RDMA Write Bandwidth Test
Device           : cxi1
--------------------------------------------------
RDMA Size[B]      Writes  BW[MB/s]  PktRate[Mpkt/s]
        4096      256000  20433.31         9.977201
        8192      256000  23000.00        10.835864
--------------------------------------------------
";

    fn verdicts(list: &str) -> StoredVerdicts {
        verdicts_on(LOG, list)
    }

    fn verdicts_on(log: &str, list: &str) -> StoredVerdicts {
        let run = |outcome| ReadRun { file: "log".into(), outcome };
        let runs: Vec<ReadRun> = printed::runs(log).unwrap().0.into_iter().map(run).collect();
        assert_eq!(runs.len(), 1);
        StoredVerdicts::new(&runs, &expect::parse(list, true).unwrap())
    }

    #[test]
    fn has_a_row_for_each_size_and_bound() {
        let checked = verdicts("bw>=23GB/s, 4K:bw>20GB/s, 16K:bw>1GB/s");
        let text = checked.page().text(TextStyle::Plain);
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[0],
            ["File", "Measured", "by", "Size[B]", "Expected", "Measured", "Verdict"]
        );
        let expected = [
            "log cxi1 4096 bw>=23GB/s 20433.310MB/s not met",
            "log cxi1 8192 bw>=23GB/s 23000.000MB/s met",
            "log cxi1 4096 4K:bw>20GB/s 20433.310MB/s met",
            "log cxi1 16384 16K:bw>1GB/s - not measured",
        ];
        let rows: Vec<String> = rows[1..].iter().map(|row| row.join(" ")).collect();
        assert_eq!(rows, expected);
        let failure = checked.result().unwrap_err();
        assert_eq!(failure.kind, Kind::Unmet);
        assert_eq!(failure.to_string(), "not met: 2 of 4 bounds");
        verdicts("bw>=20GB/s").result().unwrap();
        let cut = LOG.trim_end().trim_end_matches('-');
        verdicts_on(cut, "4K:bw>=20GB/s").result().unwrap();
        let failure = verdicts_on(cut, "bw>=20GB/s").result().unwrap_err();
        assert_eq!(failure.to_string(), "not met: 1 of 3 bounds");
    }
}
