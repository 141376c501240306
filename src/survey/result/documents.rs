//! The documents of a survey: opened before it begins, written while it measures and at its end.
//! The rows of `--csv`: one for each measurement of a pair, in the order in which they were made.

use std::time::SystemTime;

use super::lines::{ResultLine, SurveyHeader};
use super::metrics::families;
use super::nics::bad_nodes;
use super::{Setup, Survey, ticket};
use campaign::quiet::answer::{Answer, Figures, PairResult, Stage};
use campaign::quiet::findings::Test;
use campaign::quiet::roster::{Nic, Roster};
use facts::error::{Context, Failure};
use facts::expect::Metric;
use facts::percentile::Percentile;
use facts::text::cell;
use page::destination::{Destination, Growing};
use page::documents::{Documents, Places};
use page::table::TextStyle;

/// The documents of a survey. The table of measurements grows during the survey.
#[derive(Default)]
pub struct SurveyDocuments {
    documents: Documents,
    csv: Option<PairTable>,
    /// Whether a document has standard output, in place of the text.
    pub has_stdout: bool,
}

impl SurveyDocuments {
    /// Checks that all documents can be written.
    ///
    /// # Errors
    ///
    /// A file cannot be written, two documents have the same file, or two have standard output.
    pub fn open(places: &Places) -> Result<Self, Failure> {
        let mut documents = Documents::open(places)?;
        let has_stdout = documents.has_stdout();
        let csv = documents.csv.take();
        Ok(Self { has_stdout, csv: csv.map(PairTable::begin).transpose()?, documents })
    }

    /// Writes the failure of a survey without results in place of its document.
    pub fn write_failure(&self, failure: &Failure) {
        self.documents.write_failure(failure);
    }

    /// Writes what is known before the first pair.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn begin(
        &self,
        started: SystemTime,
        setup: &Setup,
        roster: &Roster,
    ) -> Result<(), Failure> {
        match &self.documents.jsonl {
            Some(lines) => lines.append(&SurveyHeader::new(started, setup, roster)),
            None => Ok(()),
        }
    }

    /// Writes measurements. Many measurements in one call need fewer writes.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn add(
        &mut self,
        results: &[PairResult],
        roster: &Roster,
        tests: &[Test],
    ) -> Result<(), Failure> {
        if let Some(lines) = &self.documents.jsonl {
            let result_lines = results.iter().map(|result| ResultLine::new(result, roster, tests));
            lines.append_all(result_lines)?;
        }
        match &mut self.csv {
            Some(table) => results.iter().try_for_each(|result| table.add(result, roster, tests)),
            None => Ok(()),
        }
    }

    /// Writes the documents of a survey that has ended. Returns the failures.
    pub fn end(self, survey: &Survey) -> Vec<Failure> {
        let Self { documents, csv, .. } = self;
        let written = [
            Some(documents.write_json(survey)),
            csv.map(PairTable::end),
            Some(documents.write_metrics(|| families(survey))),
            documents.bad_nodes.map(|to| to.write(bad_nodes(survey).as_bytes())),
            documents
                .ticket
                .map(|to| to.write(ticket::page(survey).text(TextStyle::Markdown).as_bytes())),
        ];
        let written = written.into_iter().flatten();
        written.filter_map(Result::err).collect()
    }
}

/// The subject of a row.
struct PairRow<'a> {
    result: &'a PairResult,
    roster: &'a Roster,
    test: &'a Test,
}

impl<'a> PairRow<'a> {
    fn initiator(&self) -> &'a Nic {
        self.roster.nic(self.result.pair.initiator)
    }

    fn target(&self) -> &'a Nic {
        self.roster.nic(self.result.pair.target)
    }

    fn host(&self, nic: &Nic) -> String {
        self.roster.node(nic.node).host.clone()
    }

    /// A latency; empty for other rows.
    fn latency(&self, metric: Metric) -> String {
        match &self.result.answer {
            Answer::Measured(figures @ Figures::Latency { .. }) => or_empty(figures.metric(metric)),
            _ => String::new(),
        }
    }

    /// The number of samples of a latency tool; empty for other rows.
    fn samples(&self) -> String {
        match self.result.answer {
            Answer::Measured(Figures::Latency { count, .. }) => count.to_string(),
            _ => String::new(),
        }
    }

    /// A figure of a bandwidth tool; empty for other rows.
    fn bandwidth(&self, figure: impl FnOnce(f64, f64) -> f64) -> String {
        match self.result.answer {
            Answer::Measured(Figures::Bandwidth { bytes_per_second, operations_per_second }) => {
                figure(bytes_per_second, operations_per_second).to_string()
            }
            _ => String::new(),
        }
    }
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A field of a row; empty if it does not apply.
type PairField = fn(&PairRow) -> String;

/// The columns, with their titles.
const COLUMNS: [(&str, PairField); 24] = [
    ("tool", |row| row.test.tool.clone()),
    ("size_bytes", |row| row.test.size_bytes.to_string()),
    ("initiator_host", |row| row.host(row.initiator())),
    ("initiator_device", |row| row.initiator().device.clone()),
    ("initiator_nid", |row| or_empty(row.initiator().nid)),
    ("target_host", |row| row.host(row.target())),
    ("target_device", |row| row.target().device.clone()),
    ("target_nid", |row| or_empty(row.target().nid)),
    ("class", |row| {
        let pair = row.result.pair;
        row.roster.class(pair).name().into()
    }),
    ("stage", |row| match row.result.stage {
        Stage::Sweep => "sweep".into(),
        Stage::Retest(number) => format!("retest {number}"),
        Stage::Swap => "swap".into(),
        Stage::Again => "again".into(),
        Stage::Comparison => "comparison".into(),
    }),
    ("round", |row| row.result.round.to_string()),
    ("active_pairs", |row| row.result.active.to_string()),
    ("answer", |row| match row.result.answer {
        Answer::Measured(_) => "measured".into(),
        Answer::Failed(_) => "failed".into(),
        Answer::Untested(_) => "untested".into(),
    }),
    ("samples", |row| row.samples()),
    ("min_ns", |row| row.latency(Metric::Min)),
    ("median_ns", |row| row.latency(Metric::Percentile(Percentile::MEDIAN))),
    ("p99_ns", |row| row.latency(Metric::Percentile(Percentile::P99))),
    ("max_ns", |row| row.latency(Metric::Max)),
    ("bandwidth_bytes_per_s", |row| row.bandwidth(|bytes, _| bytes)),
    ("operations_per_s", |row| row.bandwidth(|_, operations| operations)),
    ("message", |row| match &row.result.answer {
        Answer::Measured(_) => String::new(),
        Answer::Failed(why) => why.clone(),
        Answer::Untested(reason) => reason.to_string(),
    }),
    ("p5_ns", |row| row.latency(Metric::Percentile(Percentile::P5))),
    ("waited_percent", |row| row.result.waited_percent.to_string()),
    ("p90_ns", |row| row.latency(Metric::Percentile(Percentile::P90))),
];

/// The start of messages about failures.
const WHAT: &str = "cannot write CSV";

/// A table of measurements, which grows during the survey.
struct PairTable {
    rows: csv::Writer<Growing>,
}

impl PairTable {
    /// Begins the table that will be written to `destination`.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be written.
    pub fn begin(destination: Destination) -> Result<Self, Failure> {
        let mut rows = csv::Writer::from_writer(Growing::begin(destination)?);
        let titles = COLUMNS.map(|(title, _)| title);
        rows.write_record(titles).environment(WHAT)?;
        Ok(Self { rows })
    }

    /// Adds a measurement of a test.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub fn add(
        &mut self,
        result: &PairResult,
        roster: &Roster,
        tests: &[Test],
    ) -> Result<(), Failure> {
        let row = PairRow { result, roster, test: &tests[result.test.index()] };
        let cells = COLUMNS.map(|(_, field)| cell(&field(&row)).into_owned());
        self.rows.write_record(cells).environment(WHAT)
    }

    /// Writes the table.
    ///
    /// # Errors
    ///
    /// The table cannot be written.
    pub fn end(mut self) -> Result<(), Failure> {
        let flushed = self.rows.flush();
        let document = self.rows.get_ref();
        flushed.map_err(|error| document.failure(&error))?;
        document.end()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::super::lines::Earlier;
    use super::super::testing::{mixed, result, roster, setup, survey, tests};
    use super::*;
    use campaign::quiet::roster::TestId;
    use page::destination::Place;
    use page::openmetrics::MetricsFile;

    fn places(directory: &Path) -> Places {
        let place = |name: &str| Place::File(directory.join(name));
        Places {
            json: Some(place("a.json")),
            jsonl: Some(directory.join("a.jsonl")),
            csv: Some(place("a.csv")),
            metrics: Some(MetricsFile::of(directory.join("a.prom"))),
            bad_nodes: Some(place("bad")),
            ticket: Some(place("ticket")),
            ..Places::default()
        }
    }

    #[test]
    fn writes_all_documents() {
        let directory = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        let places = places(directory.path());
        let mut documents = SurveyDocuments::open(&places).unwrap();
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        documents.begin(started, &setup(), &roster()).unwrap();
        let two = [result(), result()];
        documents.add(&two, &roster(), &tests()).unwrap();
        assert_eq!(read("a.jsonl").lines().count(), 3);
        let failures = documents.end(&survey(mixed(), Ok(())));
        assert!(failures.is_empty(), "{failures:?}");
        assert_eq!(read("a.csv").lines().count(), 3);
        assert_eq!(read("bad"), "nid000417\n");
        assert!(read("a.prom").contains("\ncxidiag_survey_exit_status 3\n"));
        let survey: Survey = serde_json::from_str(&read("a.json")).unwrap();
        assert_eq!((survey.verdict, survey.setup), (mixed(), setup()));
        let mut resumed = Vec::new();
        let earlier = Earlier::open(&directory.path().join("a.jsonl")).unwrap();
        let taken = earlier.results(&roster(), &tests(), |result| resumed.push(result));
        assert_eq!((taken.unwrap().results, resumed), (2, two.to_vec()));
    }

    #[test]
    fn writes_a_row_for_each_measurement() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pairs.csv");
        let mut table = PairTable::begin(Destination::file(&path).unwrap()).unwrap();
        let bandwidth = PairResult {
            test: TestId(1),
            stage: Stage::Retest(2),
            answer: Answer::Measured(Figures::Bandwidth {
                bytes_per_second: 9.5e9,
                operations_per_second: 9059.906,
            }),
            ..result()
        };
        let failed =
            PairResult { answer: Answer::Failed("=no answer, within\x1b 2 s".into()), ..result() };
        for result in [result(), bandwidth, failed] {
            table.add(&result, &roster(), &tests()).unwrap();
        }
        table.end().unwrap();
        let expected = "\
tool,size_bytes,initiator_host,initiator_device,initiator_nid,target_host,target_device,target_nid,\
class,stage,round,active_pairs,answer,samples,min_ns,median_ns,p99_ns,max_ns,\
bandwidth_bytes_per_s,operations_per_s,message,p5_ns,waited_percent,p90_ns
write-lat,8,nid000417,cxi1,1795,nid000416,cxi0,1792,same switch,sweep,2,4,measured,5000,3500,3900,5100,9000,,,,3600,0,4400
write-bw,1048576,nid000417,cxi1,1795,nid000416,cxi0,1792,same switch,retest 2,2,4,measured,,,,,,9500000000,9059.906,,,0,
write-lat,8,nid000417,cxi1,1795,nid000416,cxi0,1792,same switch,sweep,2,4,failed,,,,,,,,\"'=no answer, within\\x1b 2 s\",,0,
";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}
