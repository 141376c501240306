//! The samples of a run -> comma-separated values, one row each.

use std::io::{self, BufWriter, Write};

use super::destination::{Destination, Growing};
use facts::error::Failure;

/// A table of samples, which grows during the run.
pub struct SampleTable {
    rows: BufWriter<Growing>,
}

impl SampleTable {
    /// Begins the table that will be written to `destination`.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be written.
    pub fn begin(destination: Destination) -> Result<Self, Failure> {
        let mut table = Self { rows: BufWriter::new(Growing::begin(destination)?) };
        let begun = writeln!(table.rows, "size_bytes,iteration,latency_ns");
        table.checked(begun)?;
        Ok(table)
    }

    /// Adds the samples (ns) of a size.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub fn add(&mut self, size: u64, samples: &[u64]) -> Result<(), Failure> {
        let rows = &mut self.rows;
        let mut numbered = samples.iter().enumerate();
        let added = numbered.try_for_each(|(at, ns)| writeln!(rows, "{size},{at},{ns}"));
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
