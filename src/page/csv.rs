//! Comma-separated values (RFC 4180).

use facts::error::{Context, Failure};
use facts::text::cell;

/// Rows as a document.
///
/// # Errors
///
/// Rows of different lengths.
pub fn document(
    rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>,
) -> Result<Vec<u8>, Failure> {
    const WHAT: &str = "cannot write CSV";
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        let cells = row.into_iter().map(|text| cell(&text).into_owned());
        writer.write_record(cells).environment(WHAT)?;
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error).environment(WHAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_names_that_no_spreadsheet_computes() {
        let rows = [["name", "value"], ["=1+1", "-1.5"], ["a,b", "x\x1b"]];
        let document = document(rows.map(|row| row.map(str::to_owned))).unwrap();
        let text = String::from_utf8(document).unwrap();
        assert_eq!(text, "name,value\n'=1+1,-1.5\n\"a,b\",x\\x1b\n");
    }
}
