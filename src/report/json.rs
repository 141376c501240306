//! Outcome -> JSON, one document (docs/output-formats.md, docs/cxidiag.schema.json).

use super::Outcome;
use crate::error::Failure;

/// Returns the document.
///
/// # Errors
///
/// None in practice: the document is made in memory.
pub fn document(outcome: &Outcome) -> Result<Vec<u8>, Failure> {
    let mut bytes = serde_json::to_vec_pretty(outcome)
        .map_err(|error| Failure::environment(format!("cannot write JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}
