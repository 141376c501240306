//! How a client has ended, for the log and the counts.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;

use super::queue::ClientStage;
use facts::child;
use facts::error::Kind;
use session::is_interruption_of_peer;

/// How a client has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientOutcome {
    /// Its run succeeded.
    Done,
    /// Its run failed.
    Failed,
    /// It left the queue, or interrupted its run.
    Left,
    /// It did not begin.
    Refused,
}

/// The end of a client.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientEnding {
    pub outcome: ClientOutcome,
    /// What happened, for the log.
    pub text: String,
}

/// A client whose process has ended.
#[derive(Debug)]
pub struct ClientEnd {
    /// What it did.
    pub stage: ClientStage,
    /// For how long.
    pub took: Duration,
    /// The client had closed its connection before.
    pub has_lost_client: bool,
    /// What the process had exceeded, if it was signalled for it.
    pub exceeded: Option<String>,
    /// The document of its run; null without one.
    pub document: Value,
    /// What it wrote to its standard error.
    pub messages: String,
}

impl ClientEnd {
    /// Returns how the run of a process ended that has ended with `status`.
    pub fn ending(self, status: ExitStatus) -> ClientEnding {
        let Self { stage, document, messages, .. } = self;
        let took = self.took.as_secs_f64();
        if status.success() {
            return ClientEnding {
                outcome: ClientOutcome::Done,
                text: format!("done after {took:.3} s{}", measured(&document)),
            };
        }
        let reason = match (&document["error"]["message"], messages.lines().next_back()) {
            (Value::String(message), _) => message.clone(),
            (_, Some(last)) if status.signal().is_none() => last.to_owned(),
            _ => child::silent_end(status).message(),
        };
        // A process of a survey writes no document.
        let has_ended = self.has_lost_client && self.exceeded.is_none();
        let reason = match (self.exceeded, status.signal()) {
            (Some(limit), None) => limit,
            (Some(limit), Some(_)) => format!("{limit}; {reason}"),
            (None, _) => reason,
        };
        let is_lost = document["error"]["kind"] == Kind::Peer.name() || has_ended;
        let (outcome, text) = match stage {
            ClientStage::Arriving => (ClientOutcome::Refused, format!("did not begin: {reason}")),
            ClientStage::Waiting | ClientStage::Called if is_lost => {
                (ClientOutcome::Left, format!("left the queue after {took:.3} s"))
            }
            ClientStage::Waiting | ClientStage::Called => {
                (ClientOutcome::Failed, format!("failed in the queue after {took:.3} s: {reason}"))
            }
            ClientStage::Running if is_interruption_of_peer(&reason) => {
                (ClientOutcome::Left, format!("interrupted by the client after {took:.3} s"))
            }
            ClientStage::Running => {
                (ClientOutcome::Failed, format!("failed after {took:.3} s: {reason}"))
            }
        };
        ClientEnding { outcome, text }
    }
}

/// The sizes that were measured, and the bandwidth of the last one, for the log. The client has the
/// latencies.
fn measured(document: &Value) -> String {
    let results = document["results"].as_array();
    let results = results.map_or(&[][..], Vec::as_slice);
    let size = |result: &Value| result["size_bytes"].as_u64();
    let (Some(first), Some(result)) = (results.first().and_then(size), results.last()) else {
        return String::new();
    };
    let sizes = match size(result) {
        Some(last) if first < last => format!(": {first} to {last} bytes"),
        _ => format!(": {first} bytes"),
    };
    match result["bandwidth"]["bandwidth_bytes_per_s"].as_f64() {
        Some(bandwidth) => format!("{sizes}, {:.2} MB/s", bandwidth / 1e6),
        None => sizes,
    }
}
