//! The samples of a run -> comma-separated values, one row each.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use super::destination::Destination;
use facts::error::Failure;

/// A table of samples. It grows in a temporary file without a name, so that a run that is killed
/// leaves nothing, and replaces the file at the end.
pub struct SampleTable {
    destination: Destination,
    rows: BufWriter<File>,
}

impl SampleTable {
    /// Begins the table that will be written to `destination`.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be written.
    pub fn begin(destination: Destination) -> Result<Self, Failure> {
        let mut table = Self {
            rows: BufWriter::new(destination.scratch()?),
            destination,
        };
        let begun = writeln!(table.rows, "size_bytes,iteration,latency_ns");
        table.checked(begun)?;
        Ok(table)
    }

    /// Returns where the table will be written.
    pub fn destination(&self) -> &Destination {
        &self.destination
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
    pub fn end(self) -> Result<(), Failure> {
        let Self { destination, rows } = self;
        let rows = rows.into_inner().map_err(io::IntoInnerError::into_error);
        let rows = rows.and_then(|mut rows| rows.rewind().map(|()| rows));
        let mut rows = rows.map_err(|error| destination.failure(&error))?;
        destination.copy(&mut rows)
    }

    fn checked(&self, written: io::Result<()>) -> Result<(), Failure> {
        written.map_err(|error| self.destination.failure(&error))
    }
}
