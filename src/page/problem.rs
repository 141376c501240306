//! A failure in documents.

use serde::{Deserialize, Serialize};

use facts::error::{Failure, Situation};

/// A failure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Kind of the failure.
    pub kind: String,
    /// What failed and why, in one line.
    pub message: String,
    /// What to check and do, in one line; null if unknown.
    pub hint: Option<String>,
    /// The step on the way to an answer of the peer's NIC at which the run failed: device, link,
    /// service, vni, name, tcp, handshake, address, turn, answer or operation; null if it is none
    /// of these.
    #[serde(default)]
    pub step: Option<String>,
    /// The problem, where the program knows it, such as other_token, server_busy or no_answer; null
    /// otherwise.
    #[serde(default)]
    pub situation: Option<String>,
    /// What the NIC said about each of its queues and portals after the failure; empty if it was
    /// not asked.
    #[serde(default)]
    pub nic_states: Vec<String>,
}

impl From<&Failure> for Problem {
    fn from(failure: &Failure) -> Self {
        Self {
            kind: failure.kind.name().into(),
            message: failure.message(),
            hint: failure.hint.clone(),
            step: failure.step().map(|step| step.name().into()),
            situation: failure.situation.map(Situation::name),
            nic_states: failure.nic_states().to_vec(),
        }
    }
}
