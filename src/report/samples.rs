//! The samples of a run -> comma-separated values, one row each.

use std::io::{self, BufWriter, Write};

use facts::error::Failure;
use page::destination::{Destination, Growing};
use plan::depths::{DepthKind, Row};

/// A table of samples, which grows during the run.
pub struct SampleTable {
    rows: BufWriter<Growing>,
}

impl SampleTable {
    /// Begins the table that will be written to `destination`, with a column for what stands before
    /// the entry or message that matches, if anything does in any row.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be written.
    pub fn begin(destination: Destination, depth: Option<DepthKind>) -> Result<Self, Failure> {
        let mut table = Self { rows: BufWriter::new(Growing::begin(destination)?) };
        let title = match depth {
            Some(DepthKind::Posted) => ",posted",
            Some(DepthKind::Unexpected) => ",unexpected",
            None => "",
        };
        let begun = writeln!(table.rows, "size_bytes{title},iteration,latency_ns");
        table.checked(begun)?;
        Ok(table)
    }

    /// Adds the samples (ns) of a row.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub fn add(&mut self, row: Row, samples: &[u64]) -> Result<(), Failure> {
        let (size, depth) = (row.size, row.posted.or(row.unexpected));
        let depth = depth.map_or(String::new(), |depth| format!(",{depth}"));
        let rows = &mut self.rows;
        let mut numbered = samples.iter().enumerate();
        let added = numbered.try_for_each(|(at, ns)| writeln!(rows, "{size}{depth},{at},{ns}"));
        self.checked(added)
    }

    /// Writes the table.
    ///
    /// # Errors
    ///
    /// The table cannot be written.
    pub fn end(mut self) -> Result<(), Failure> {
        let flushed = self.rows.flush();
        self.checked(flushed)?;
        self.rows.get_ref().end()
    }

    fn checked(&self, written: io::Result<()>) -> Result<(), Failure> {
        written.map_err(|error| self.rows.get_ref().failure(&error))
    }
}
