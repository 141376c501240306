//! How much of a size was measured.

use serde::{Deserialize, Serialize};

/// How much of a size was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// All iterations, or the full duration.
    Complete,
    /// A part: the run ended early.
    Partial,
    /// Nothing: the run ended before this size.
    #[default]
    None,
}
