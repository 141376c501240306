//! `--jsonl`: a line with what is known before the first pair, then one for each measurement of a
//! pair. The lines name hosts and devices, so that a later survey can go on with missing pairs
//! although it numbers NICs differently (`--resume`).

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::Setup;
use super::document::{COMMAND, SCHEMA_VERSION};
use campaign::quiet::answer::{Answer, CounterEvidence, PairResult, Stage};
use campaign::quiet::findings::Test;
use campaign::quiet::roster::{NicId, Pair, Roster, TestId};
use crew::location::Class;
use facts::error::{Failure, cause, invalid};
use facts::host::HostIndex;
use facts::time_of_day::unix_ms;
use facts::{text, user_file};

/// Longest line, in bytes. The header of a survey of 65,536 NICs has fewer.
const LONGEST_LINE: u64 = 64 << 20;

/// The first line of a survey.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SurveyHeader {
    /// Version of the layout: the version of the document.
    pub schema_version: u32,
    /// Name of the command: survey.
    pub command: String,
    pub cxidiag_version: String,
    /// Start of the survey, in milliseconds since 1970-01-01 (UTC).
    pub started_unix_ms: u64,
    /// What is known before the first pair is measured.
    pub setup: Setup,
    /// The nodes and NICs.
    pub roster: Roster,
}

impl SurveyHeader {
    /// The first line of a survey that began at `started`.
    pub fn new(started: SystemTime, setup: &Setup, roster: &Roster) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            command: COMMAND.into(),
            cxidiag_version: env!("CARGO_PKG_VERSION").into(),
            started_unix_ms: unix_ms(started),
            setup: setup.clone(),
            roster: roster.clone(),
        }
    }
}

/// A NIC in a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NicName {
    pub host: String,
    pub device: String,
}

/// A counter of a NIC in a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CounterLine {
    pub nic: NicName,
    /// Name of the counter.
    pub counter: String,
    /// By how much it has changed.
    pub change: u64,
}

/// One measurement of a pair.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultLine {
    /// Name of the tool.
    pub tool: String,
    /// Size of the operations, in bytes.
    pub size_bytes: u64,
    /// The NIC that issued operations.
    pub initiator: NicName,
    /// The NIC that they addressed.
    pub target: NicName,
    /// The smallest part of the fabric that both share.
    pub class: Class,
    /// Why the pair was measured.
    pub stage: Stage,
    /// Number of the round, from 0.
    pub round: u32,
    /// Pairs that were measured at the same time, this one included.
    pub active: u32,
    /// The answer of the pair.
    pub answer: Answer,
    /// How long a side waited for its CPU, in percent of the time in which the pair was measured.
    #[serde(default)]
    pub waited_percent: u8,
    /// Counters of the initiator whose changes may explain the answer. In the sweep, only the
    /// counters of lost and damaged packets.
    #[serde(rename = "witnesses")]
    pub counters: Vec<CounterLine>,
}

impl ResultLine {
    pub fn new(result: &PairResult, roster: &Roster, tests: &[Test]) -> Self {
        let test = &tests[result.test.index()];
        let Pair { initiator, target } = result.pair;
        let counter = |evidence: &CounterEvidence| CounterLine {
            nic: name(roster, evidence.nic),
            counter: evidence.counter.clone(),
            change: evidence.change,
        };
        Self {
            tool: test.tool.clone(),
            size_bytes: test.size_bytes,
            initiator: name(roster, initiator),
            target: name(roster, target),
            class: roster.class(result.pair),
            stage: result.stage,
            round: result.round,
            active: result.active,
            answer: result.answer.clone(),
            waited_percent: result.waited_percent,
            counters: result.counters.iter().map(counter).collect(),
        }
    }
}

fn name(roster: &Roster, nic: NicId) -> NicName {
    let nic = roster.nic(nic);
    NicName { host: roster.node(nic.node).host.clone(), device: nic.device.clone() }
}

/// The file of an earlier survey, read from its beginning to its end.
#[derive(Debug)]
pub struct Earlier<R> {
    path: PathBuf,
    lines: R,
    /// What the earlier survey knew before its first pair.
    pub header: SurveyHeader,
}

/// The numbers of lines that were read from the file of an earlier survey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Results that were taken over.
    pub results: u64,
    /// Results of NICs and tests that this survey does not have.
    pub foreign: u64,
    /// Lines that cannot be read, as a program leaves if it is killed while it writes, or whose
    /// figures no NIC can have.
    pub damaged: u64,
}

impl fmt::Display for LineCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} earlier results", self.results)?;
        if self.foreign > 0 {
            write!(f, "; {} of other NICs or tests left out", self.foreign)?;
        }
        if self.damaged > 0 {
            write!(f, "; {} unreadable lines left out", self.damaged)?;
        }
        Ok(())
    }
}

impl Earlier<BufReader<File>> {
    /// Opens the file and reads its first line.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or was not written by a survey of this version.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = user_file::open(path)
            .map_err(|error| Failure::usage(invalid("resume", path.display(), cause(&error))))?;
        Self::read(path, BufReader::new(file))
    }
}

impl<R: BufRead> Earlier<R> {
    fn read(path: &Path, mut lines: R) -> Result<Self, Failure> {
        let mut line = Vec::new();
        read_line(&mut lines, &mut line).map_err(|error| unreadable(path, &cause(&error)))?;
        let not_ours = |why: &str| {
            let refused = Failure::usage(invalid("resume", path.display(), why));
            refused.with_hint("name a file that 'cxidiag survey --jsonl' wrote")
        };
        let header: Option<SurveyHeader> = serde_json::from_slice(&line).ok();
        let Some(header) = header.filter(|header| header.command == COMMAND) else {
            return Err(not_ours("its first line does not describe a survey"));
        };
        if header.schema_version != SCHEMA_VERSION {
            return Err(not_ours(&format!(
                "schema version {} is not supported (expected {SCHEMA_VERSION})",
                header.schema_version
            )));
        }
        Ok(Self { path: path.into(), lines, header })
    }

    /// Reads the results. `take` receives the results of NICs and tests of this survey, with their
    /// indices in `roster` and `tests`.
    ///
    /// # Errors
    ///
    /// The file, or none of its results, can be read.
    pub fn results(
        mut self,
        roster: &Roster,
        tests: &[Test],
        mut take: impl FnMut(PairResult),
    ) -> Result<LineCounts, Failure> {
        let known = KnownNics::new(roster);
        let mut taken = LineCounts::default();
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = read_line(&mut self.lines, &mut bytes);
            match read.map_err(|error| unreadable(&self.path, &cause(&error)))? {
                0 => break,
                _ if bytes.trim_ascii().is_empty() => continue,
                _ => {}
            }
            match serde_json::from_slice::<ResultLine>(&text::shown_json(&bytes)) {
                Ok(ResultLine { answer: Answer::Measured(figures), .. })
                    if !figures.are_possible() =>
                {
                    taken.damaged += 1;
                }
                Ok(line) => match result(line, &known, tests) {
                    Some(result) => {
                        taken.results += 1;
                        take(result);
                    }
                    None => taken.foreign += 1,
                },
                // A survey that went on with this file began with a header of its own.
                Err(_) if serde_json::from_slice::<SurveyHeader>(&bytes).is_ok() => {}
                Err(_) => taken.damaged += 1,
            }
        }
        // A program that was killed at its first result leaves one damaged line.
        if taken.results + taken.foreign == 0 && taken.damaged > 1 {
            let why = format!("none of its {} results is valid", taken.damaged);
            return Err(unreadable(&self.path, &why));
        }
        Ok(taken)
    }
}

/// The NICs of a survey by their names. A line may have the name of a host from another source.
struct KnownNics {
    hosts: HostIndex,
    nics: HashMap<NicName, NicId>,
}

impl KnownNics {
    fn new(roster: &Roster) -> Self {
        let nics = roster.nic_ids().map(|nic| (name(roster, nic), nic));
        Self { hosts: HostIndex::new(roster.hosts()), nics: nics.collect() }
    }

    fn get(&self, name: &NicName) -> Option<NicId> {
        let own =
            NicName { host: self.hosts.name(&name.host).to_owned(), device: name.device.clone() };
        self.nics.get(&own).copied()
    }
}

/// The result in a line; `None` if this survey does not have a NIC or the test.
fn result(line: ResultLine, known: &KnownNics, tests: &[Test]) -> Option<PairResult> {
    let is_of = |test: &Test| test.tool == line.tool && test.size_bytes == line.size_bytes;
    let counter_evidence = |line: CounterLine| {
        Some(CounterEvidence {
            nic: known.get(&line.nic)?,
            counter: line.counter,
            change: line.change,
        })
    };
    Some(PairResult {
        test: TestId(u16::try_from(tests.iter().position(is_of)?).ok()?),
        pair: Pair { initiator: known.get(&line.initiator)?, target: known.get(&line.target)? },
        stage: line.stage,
        round: line.round,
        active: line.active,
        answer: line.answer,
        waited_percent: line.waited_percent,
        counters: line.counters.into_iter().filter_map(counter_evidence).collect(),
    })
}

/// Reads a line into an empty buffer. Returns its bytes, or 0 at the end of the file.
fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let read = lines.by_ref().take(LONGEST_LINE).read_until(b'\n', line)?;
    if read as u64 == LONGEST_LINE {
        let mebibytes = LONGEST_LINE >> 20;
        let why = format!("a line is longer than {mebibytes} MiB, the limit for results");
        return Err(io::Error::other(why));
    }
    Ok(read)
}

fn unreadable(path: &Path, why: &str) -> Failure {
    Failure::environment(format!("cannot read {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{result, roster, setup, tests};
    use super::*;
    use campaign::quiet::answer::Figures;

    fn written(results: &[PairResult]) -> String {
        let header = SurveyHeader::new(SystemTime::UNIX_EPOCH, &setup(), &roster());
        let mut text = serde_json::to_string(&header).unwrap() + "\n";
        for result in results {
            let line = ResultLine::new(result, &roster(), &tests());
            text += &(serde_json::to_string(&line).unwrap() + "\n");
        }
        text
    }

    fn read(text: &str, roster: &Roster, tests: &[Test]) -> (Vec<PairResult>, LineCounts) {
        let mut results = Vec::new();
        let earlier = Earlier::read(Path::new("x"), text.as_bytes()).unwrap();
        assert_eq!(earlier.header.setup, setup());
        let taken = earlier.results(roster, tests, |result| results.push(result));
        (results, taken.unwrap())
    }

    #[test]
    fn writes_lines_that_explain_themselves() {
        let text = written(&[result()]);
        let expected = "{\"tool\":\"write-lat\",\"size_bytes\":8,\
            \"initiator\":{\"host\":\"nid000417\",\"device\":\"cxi1\"},\
            \"target\":{\"host\":\"nid000416\",\"device\":\"cxi0\"},\
            \"class\":\"same switch\",\"stage\":\"sweep\",\"round\":2,\"active\":4,\
            \"answer\":{\"measured\":{\"latency\":{\"count\":5000,\"min_ns\":3500,\
            \"p5_ns\":3600,\"median_ns\":3900,\"p90_ns\":4400,\"p99_ns\":5100,\
            \"max_ns\":9000}}},\"waited_percent\":0,\
            \"witnesses\":[{\"nic\":{\"host\":\"nid000417\",\"device\":\"cxi1\"},\
            \"counter\":\"pct_retry_srb_requests\",\"change\":17}]}";
        assert_eq!(text.lines().nth(1), Some(expected));
    }

    #[test]
    fn finds_results_of_nics_that_are_numbered_differently() {
        let bandwidth = PairResult {
            test: TestId(1),
            stage: Stage::Retest(2),
            answer: Answer::Measured(Figures::Bandwidth {
                bytes_per_second: 1e9 / 3.0,
                operations_per_second: 0.1,
            }),
            ..result()
        };
        let failed = PairResult { answer: Answer::Failed("no answer".into()), ..result() };
        let results = [result(), bandwidth, failed];
        let text = written(&results);
        let all = LineCounts { results: 3, ..LineCounts::default() };
        assert_eq!(read(&text, &roster(), &tests()), (results.to_vec(), all));
        // The last node comes first, and the tests are in another order.
        let mut other = roster();
        other.nics.rotate_right(2);
        let swapped: Vec<Test> = tests().into_iter().rev().collect();
        let (found, _) = read(&text, &other, &swapped);
        let first = PairResult {
            test: TestId(1),
            pair: Pair { initiator: NicId(5), target: NicId(2) },
            counters: vec![CounterEvidence { nic: NicId(5), ..result().counters[0].clone() }],
            ..result()
        };
        assert_eq!(found[0], first);
        // The hosts have the names of another launcher.
        let mut renamed = roster();
        for node in &mut renamed.nodes {
            node.host = format!("{}.Cluster.Example", node.host.to_uppercase());
        }
        let found = read(&text, &renamed, &tests());
        assert_eq!(found, (results.to_vec(), all));
    }

    #[test]
    fn leaves_out_foreign_and_damaged_lines() {
        let mut text = written(&[result(), result()]);
        text += &written(&[]);
        // No NIC has these bandwidths.
        let bandwidth = |bytes_per_second| PairResult {
            test: TestId(1),
            answer: Answer::Measured(Figures::Bandwidth {
                bytes_per_second,
                operations_per_second: 1.0,
            }),
            ..result()
        };
        for rate in [1e308, -1.0] {
            text += written(&[bandwidth(rate)]).lines().nth(1).unwrap();
            text.push('\n');
        }
        text.push_str("{\"tool\":\"wri");
        let mut smaller = roster();
        smaller.nics.truncate(3);
        let taken = LineCounts { foreign: 2, damaged: 3, ..LineCounts::default() };
        assert_eq!(read(&text, &smaller, &tests()), (vec![], taken));
        assert_eq!(
            taken.to_string(),
            "0 earlier results; 2 of other NICs or tests left out; 3 unreadable lines left out"
        );
    }

    #[test]
    fn refuses_file_without_a_valid_result() {
        let text = written(&[result(), result()]).replace("same switch", "nearby");
        let earlier = Earlier::read(Path::new("x"), text.as_bytes()).unwrap();
        let failure = earlier.results(&roster(), &tests(), |_| {}).unwrap_err();
        let message = "cannot read x: none of its 2 results is valid";
        assert_eq!(failure.message(), message);
    }

    #[test]
    fn refuses_other_files() {
        let other_command = written(&[]).replacen("\"survey\"", "\"check\"", 1);
        let other_version =
            written(&[]).replacen("\"schema_version\":1", "\"schema_version\":9", 1);
        for (text, why) in [
            (other_command.as_str(), "its first line does not describe a survey"),
            ("", "its first line does not describe a survey"),
            ("{\"tool\":1}\n", "its first line does not describe a survey"),
            (&other_version, "schema version 9 is not supported (expected 1)"),
        ] {
            let failure = Earlier::read(Path::new("x"), text.as_bytes()).unwrap_err();
            assert_eq!(failure.message(), format!("invalid value 'x' for --resume: {why}"));
        }
    }
}
