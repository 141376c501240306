//! Data -> one JSON document (docs/output-formats.md, docs/*.schema.json).

use serde::Serialize;

use facts::error::{Context, Failure};

/// Returns the document of a run or of a list of NICs.
///
/// # Errors
///
/// None in practice: the document is made in memory.
pub fn document(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut bytes = serde_json::to_vec_pretty(value).environment("cannot write JSON")?;
    bytes.push(b'\n');
    Ok(bytes)
}
