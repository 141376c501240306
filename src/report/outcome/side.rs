//! The side of a process in a run.

use serde::{Deserialize, Serialize};

/// The side of a process in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The client, also of a loopback run.
    #[default]
    Client,
    /// The server.
    Server,
}
