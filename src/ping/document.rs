//! The answers of NICs, as data and as JSON. The doc comments of the types are the descriptions in
//! their schema, docs/ping.schema.json.

use std::time::{Instant, SystemTime};

use hdrhistogram::Histogram;
use serde::Serialize;

use facts::device::DeviceName;
use facts::error::{Failure, Kind, Step};
use facts::time_of_day::{milliseconds, unix_ms};
use page::problem::Problem;
use report::outcome::Outcome;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// A kind of operation.
#[derive(Clone, Copy, Debug)]
pub struct PingOperation {
    /// Its name.
    pub name: &'static str,
    /// The tool that measures it.
    pub tool: &'static str,
}

/// All kinds, in the order in which they are measured. The last one needs both directions: the peer
/// answers with a message of its own.
pub const OPERATIONS: [PingOperation; 4] = [
    PingOperation { name: "write", tool: "write-lat" },
    PingOperation { name: "read", tool: "read-lat" },
    PingOperation { name: "atomic", tool: "atomic-lat" },
    PingOperation { name: "send", tool: "send-lat" },
];

/// Significant digits of the median of all pings.
const DIGITS: u8 = 4;

/// The end of a run with a few operations of one kind.
#[derive(Clone, Debug)]
pub struct PingAnswer {
    /// Address and name of the peer's NIC, if the handshake was complete.
    peer_nic: Option<u32>,
    peer_device: Option<String>,
    /// The latencies, or why there is no answer.
    pub latencies: Result<PingLatencies, Problem>,
}

/// The latencies of a few operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PingLatencies {
    pub(super) min_ns: u64,
    pub(super) median_ns: u64,
    pub(super) max_ns: u64,
}

impl PingAnswer {
    /// The answer in the outcome of a run.
    pub fn of(outcome: Outcome) -> Self {
        let latency = outcome.results.first().and_then(|result| result.latency.as_ref());
        let found = latency.and_then(|latency| {
            let median =
                latency.percentiles.iter().find(|percentile| percentile.percent == 50.0)?;
            Some(PingLatencies {
                min_ns: latency.min_ns,
                median_ns: median.value_ns,
                max_ns: latency.max_ns,
            })
        });
        let without = || Problem::from(&Failure::environment("the run has no result"));
        Self {
            peer_nic: outcome.addresses.map(|addresses| addresses.remote.nic),
            peer_device: outcome.peer.and_then(|peer| peer.device),
            latencies: match outcome.error {
                Some(problem) => Err(problem),
                None => found.ok_or_else(without),
            },
        }
    }

    /// The answer of a run without an outcome.
    pub fn none(failure: &Failure) -> Self {
        Self { peer_nic: None, peer_device: None, latencies: Err(failure.into()) }
    }
}

/// The answers of NICs, as `cxidiag ping --json` writes them. A value that is unknown is null.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Ping {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// Start of the first round, in milliseconds since 1970-01-01 (UTC).
    started_unix_ms: u64,
    /// Time until the end of the last round, in milliseconds.
    elapsed_ms: u64,
    /// The pairs of NICs.
    pub pairs: Vec<PingPair>,
    #[serde(skip)]
    started: Instant,
}

/// One NIC of this machine, and the one that answers it.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Pair"))]
pub struct PingPair {
    /// The host, as typed; the name of this host with --loopback.
    pub host: String,
    /// Name of the NIC of this machine.
    #[serde(serialize_with = "by_name")]
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub device: DeviceName,
    /// Whether it is a software NIC, so that no Cassini hardware is involved.
    pub(super) is_software: bool,
    /// Address of the NIC that answers; null if none has answered.
    peer_nic: Option<u32>,
    /// Its name; null if none has answered, or the server does not send it.
    peer_device: Option<String>,
    /// Each kind of operation.
    pub(super) operations: Vec<OperationResult>,
    /// The different failures.
    pub(super) failures: Vec<PairFailure>,
    /// The answers of the last round.
    #[serde(skip)]
    pub(super) last: Vec<PingAnswer>,
    /// Pings without an answer because the NIC of the server measures with another client.
    #[serde(skip)]
    busy: u64,
}

/// The answers to one kind of operation. A ping is a few operations, in a run of its own.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub(super) struct OperationResult {
    /// The kind: write, read, atomic or send.
    pub(super) name: &'static str,
    /// Number of pings; without those that were left out because one before them could not reach
    /// the NIC of the peer.
    pub(super) sent: u64,
    /// Number of pings without an answer.
    pub(super) lost: u64,
    /// Smallest latency, in nanoseconds; null without an answer.
    pub(super) min_ns: Option<u64>,
    /// Median of the medians of all pings, in nanoseconds; null without an answer.
    pub(super) median_ns: Option<u64>,
    /// Largest latency, in nanoseconds; null without an answer.
    pub(super) max_ns: Option<u64>,
    #[serde(skip)]
    medians: Histogram<u64>,
}

/// A failure of a pair.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub(super) struct PairFailure {
    /// The kind of operation.
    pub(super) operation: &'static str,
    /// The step that failed: device, link, service, vni, name, tcp, handshake (what accepts
    /// connections does not speak as a server), address, turn (the NIC of the server measures with
    /// another client), answer, operation (a NIC reports an error), or
    /// direction (operations of this NIC are answered, operations of the peer's NIC do not arrive
    /// here); null if it is none of these.
    pub(super) step: Option<String>,
    /// What failed and why, in one line.
    pub(super) message: String,
    /// What to check and do, in one line; null if unknown.
    pub(super) hint: Option<String>,
    /// How often it happened.
    pub(super) count: u64,
}

fn by_name<S: serde::Serializer>(device: &DeviceName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(device)
}

impl PingPair {
    /// A pair of which nothing is known yet.
    pub fn new(host: &str, device: DeviceName) -> Self {
        Self {
            host: host.to_owned(),
            device,
            is_software: device.platform().is_simulated,
            peer_nic: None,
            peer_device: None,
            operations: OPERATIONS
                .map(|operation| OperationResult {
                    name: operation.name,
                    sent: 0,
                    lost: 0,
                    min_ns: None,
                    median_ns: None,
                    max_ns: None,
                    medians: Histogram::new(DIGITS).expect("a valid number of digits"),
                })
                .into(),
            failures: Vec::new(),
            last: Vec::new(),
            busy: 0,
        }
    }

    /// Adds the answers of a round, in the order of [`OPERATIONS`]; the last ones may be missing.
    pub fn add(&mut self, mut answers: Vec<PingAnswer>) {
        name_direction(&mut answers);
        for (result, answer) in self.operations.iter_mut().zip(&answers) {
            result.sent += 1;
            self.peer_nic = answer.peer_nic.or(self.peer_nic);
            if answer.peer_device.is_some() {
                self.peer_device.clone_from(&answer.peer_device);
            }
            match &answer.latencies {
                Ok(latencies) => result.add(latencies),
                Err(problem) => {
                    result.lost += 1;
                    self.busy += u64::from(problem.step.as_deref() == Some(Step::Turn.name()));
                    count(&mut self.failures, result.name, problem);
                }
            }
        }
        self.last = answers;
    }

    /// The NIC that answers: by its name, or else by its address.
    pub(super) fn peer(&self) -> String {
        let address = || self.peer_nic.map(|nic| format!("{nic:#x}"));
        let name = self.peer_device.clone().or_else(address);
        name.unwrap_or_else(|| "?".into())
    }

    fn sent(&self) -> u64 {
        self.operations.iter().map(|operation| operation.sent).sum()
    }

    fn lost(&self) -> u64 {
        self.operations.iter().map(|operation| operation.lost).sum()
    }
}

impl OperationResult {
    fn add(&mut self, latencies: &PingLatencies) {
        let min = self.min_ns.map_or(latencies.min_ns, |min| min.min(latencies.min_ns));
        self.min_ns = Some(min);
        self.max_ns = self.max_ns.max(Some(latencies.max_ns));
        // Fails only if memory for a larger histogram is missing.
        let _ = self.medians.record(latencies.median_ns);
        let median = self.medians.value_at_quantile(0.5);
        // Rounded to the digits of the histogram, it may exceed the largest latency.
        self.median_ns = self.max_ns.map(|max| median.min(max));
    }
}

/// Names the step of a send without an answer if everything before it is answered: writes, reads
/// and atomics need no operation of the peer's NIC.
fn name_direction(answers: &mut [PingAnswer]) {
    let Some((last, others)) = answers.split_last_mut() else {
        return;
    };
    let Err(send) = &mut last.latencies else {
        return;
    };
    let is_last = others.len() + 1 == OPERATIONS.len();
    if is_last && others.iter().all(|answer| answer.latencies.is_ok()) {
        let is_about_peer =
            send.step.as_deref() == Some(Step::Answer.name()) || send.kind == Kind::Peer.name();
        if is_about_peer {
            send.step = Some(DIRECTION.into());
        }
    }
}

/// The step of a pair with one working direction.
pub(super) const DIRECTION: &str = "direction";

fn count(failures: &mut Vec<PairFailure>, operation: &'static str, problem: &Problem) {
    let same = |failure: &PairFailure| {
        failure.operation == operation
            && failure.step == problem.step
            && failure.message == problem.message
    };
    if let Some(failure) = failures.iter_mut().find(|failure| same(failure)) {
        failure.count += 1;
    } else if failures.len() < MOST_FAILURES {
        failures.push(PairFailure {
            operation,
            step: problem.step.clone(),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
            count: 1,
        });
    }
}

/// The most failures that a pair keeps: messages contain numbers, which may differ each time.
const MOST_FAILURES: usize = 20;

impl Ping {
    /// The report before the first round.
    pub fn new(pairs: Vec<PingPair>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            started_unix_ms: unix_ms(SystemTime::now()),
            elapsed_ms: 0,
            pairs,
            started: Instant::now(),
        }
    }

    /// Whether every pair has failed because its NIC of this machine cannot be opened.
    pub fn has_no_device(&self) -> bool {
        let is_of_device =
            |failure: &PairFailure| failure.step.as_deref() == Some(Step::Device.name());
        self.pairs
            .iter()
            .all(|pair| !pair.failures.is_empty() && pair.failures.iter().all(is_of_device))
    }

    /// Ends the last round.
    pub fn end(&mut self) {
        self.elapsed_ms = milliseconds(self.started.elapsed());
    }

    /// Whether all operations were answered.
    ///
    /// # Errors
    ///
    /// How many were not, or that there was no operation at all; undecided if each one that was
    /// not answered met a NIC that measures with another client.
    pub fn result(&self) -> Result<(), Failure> {
        let sent: u64 = self.pairs.iter().map(PingPair::sent).sum();
        let lost: u64 = self.pairs.iter().map(PingPair::lost).sum();
        let busy: u64 = self.pairs.iter().map(|pair| pair.busy).sum();
        match (sent, lost) {
            (0, _) => Err(Failure::environment("ended before the first answer")),
            (_, 0) => Ok(()),
            _ if busy == lost => Err(Failure::undecided(format!(
                "{lost} of {sent} pings undecided: the NIC measures with another client"
            ))),
            _ => Err(Failure::environment(format!("{lost} of {sent} pings without an answer"))),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn answered(min_ns: u64, median_ns: u64, max_ns: u64) -> PingAnswer {
        PingAnswer {
            peer_nic: Some(0x13),
            peer_device: None,
            latencies: Ok(PingLatencies { min_ns, median_ns, max_ns }),
        }
    }

    pub fn unanswered() -> PingAnswer {
        PingAnswer::none(&Failure::nic("no answer to a send within 5 s"))
    }

    pub fn pair(rounds: impl IntoIterator<Item = Vec<PingAnswer>>) -> PingPair {
        let mut pair = PingPair::new("node7", "cxi1".parse().unwrap());
        for round in rounds {
            pair.add(round);
        }
        pair
    }

    #[test]
    fn names_the_only_direction_that_works() {
        let ok = || answered(1900, 2010, 2500);
        for (answers, step) in [
            (vec![ok(), ok(), ok(), unanswered()], "direction"),
            (vec![ok(), unanswered(), ok(), unanswered()], "answer"),
            (vec![unanswered()], "answer"),
        ] {
            let pair = pair([answers]);
            let last = pair.failures.last().unwrap();
            assert_eq!(last.step.as_deref(), Some(step));
        }
    }

    #[test]
    fn combines_rounds() {
        let rounds = [(5, 7, 9), (4, 20, 30), (6, 8, 9), (6, 9, 9)];
        let pair = pair(rounds.map(|(min, median, max)| vec![answered(min, median, max)]));
        let write = &pair.operations[0];
        assert_eq!((write.sent, write.lost), (4, 0));
        let times = [write.min_ns, write.median_ns, write.max_ns];
        assert_eq!(times, [Some(4), Some(8), Some(30)]);
        assert_eq!(pair.operations[1].sent, 0);
    }

    #[test]
    fn counts_equal_failures_once() {
        let mut pair = pair((0..3).map(|_| vec![unanswered()]));
        assert_eq!(pair.failures.len(), 1);
        assert_eq!(pair.failures[0].count, 3);
        for number in 0..100 {
            let failure = Failure::nic(format!("error {number}"));
            pair.add(vec![PingAnswer::none(&failure)]);
        }
        assert_eq!(pair.failures.len(), MOST_FAILURES);
        assert_eq!(pair.lost(), 103);
    }

    #[test]
    fn counts_pings_without_an_answer() {
        assert!(Ping::new(vec![pair([])]).result().is_err());
        let ok = || answered(1900, 2010, 2500);
        assert!(Ping::new(vec![pair([vec![ok(); 4]])]).result().is_ok());
        let pairs = vec![pair([vec![ok(); 4]]), pair([vec![ok(), unanswered()]])];
        let message = Ping::new(pairs).result().unwrap_err().message();
        assert_eq!(message, "1 of 6 pings without an answer");
    }
}
