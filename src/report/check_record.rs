//! The document of a check, read back: what `compare` uses of it (`check`).

use serde::Deserialize;

use super::outcome::Problem;
use facts::severity::Severity;

/// The health of the NICs of a machine.
#[derive(Clone, Debug, Deserialize)]
pub struct CheckRecord {
    pub host_name: String,
    /// Start of the check, in milliseconds since 1970-01-01 (UTC).
    pub started_unix_ms: u64,
    /// The first line of the text.
    pub summary: String,
    /// Settings of the host.
    pub host: Vec<ItemRecord>,
    /// The NICs.
    pub devices: Vec<DeviceRecord>,
}

/// One NIC.
#[derive(Clone, Debug, Deserialize)]
pub struct DeviceRecord {
    pub name: String,
    /// Why it could not be checked.
    pub error: Option<Problem>,
    pub items: Vec<ItemRecord>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ItemRecord {
    /// What scripts recognize the item by.
    pub code: String,
    /// Its name in tables.
    #[serde(rename = "item")]
    pub name: String,
    /// The value, as the text shows it.
    pub value: Option<String>,
    /// The value as a number.
    pub number: Option<f64>,
    pub verdict: Severity,
}
