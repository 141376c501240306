//! Outcome -> JSON, one document (docs/output-formats.md, docs/cxidiag.schema.json).

use super::Outcome;
use crate::error::Failure;

/// The document.
pub fn document(outcome: &Outcome) -> Result<Vec<u8>, Failure> {
    let mut bytes = serde_json::to_vec_pretty(outcome)
        .map_err(|error| Failure::environment(format!("cannot make JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}
