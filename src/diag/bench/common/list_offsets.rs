//! Where in the buffers the operations of a list go (tools.md 3.7).

use cxi::MemoryRegion;

use super::Numbering;
use crate::bench::api::SizeOfRun;
use facts::error::Failure;
use plan::run_options::RunOptions;

/// The offsets of the operations of a list in the buffers.
#[derive(Clone, Copy, Debug)]
pub struct ListOffsets {
    list_size: u64,
    /// Bytes from one offset to the next.
    step: u64,
    /// Number of distinct offsets.
    places: u64,
    /// Index of the next offset.
    place: u64,
}

impl ListOffsets {
    /// Creates the walk of lists with operations of `size` bytes.
    ///
    /// # Errors
    ///
    /// The run has no lists.
    pub fn new(run: &RunOptions, size: u64) -> Result<Self, Failure> {
        let lists = run.lists()?;
        let step = lists.step(size);
        Ok(Self {
            list_size: lists.list_size.into(),
            step,
            // Offsets are within the requested length of the buffer, not the length rounded up to
            // pages. The first offset is used even if its spacing does not fit.
            places: (lists.buffer(run.max_size) / step).max(1),
            place: 0,
        })
    }

    /// Creates the walk of a single operation of `size` bytes, at the start of the buffers.
    pub fn from_one(size: u64) -> Self {
        Self { list_size: 1, step: size, places: 1, place: 0 }
    }

    /// Returns the number of operations of a list.
    pub fn list_size(&self) -> u64 {
        self.list_size
    }

    /// Returns the number of distinct offsets of a list.
    pub fn distinct_places(&self) -> u64 {
        self.list_size.min(self.places)
    }

    /// Returns the number of bytes from the start of a buffer to the end of the last operation, if
    /// each has `size` bytes.
    pub fn length(&self, size: u64) -> u64 {
        (self.distinct_places() - 1) * self.step + size
    }

    /// Returns to the start of the buffers, where each list begins.
    #[inline(always)]
    pub fn restart(&mut self) {
        self.place = 0;
    }

    /// Returns the offset of the next operation, in bytes.
    #[inline(always)]
    pub fn next_offset(&mut self) -> u64 {
        let offset = self.place * self.step;
        self.place += 1;
        if self.place == self.places {
            self.place = 0;
        }
        offset
    }

    /// Numbers the bytes of `buffer` that operations of `size` bytes carry.
    ///
    /// # Errors
    ///
    /// A peer that ends meanwhile, and a copy that fails.
    pub fn fill(&self, buffer: &MemoryRegion, size: SizeOfRun<'_>) -> Result<(), Failure> {
        let SizeOfRun { run, size, supervisor } = size;
        Numbering::of(run, size).fill(buffer, self.length(size), supervisor)
    }

    /// Checks that all operations of a list of `size` bytes have left numbered bytes in `buffer`;
    /// `whose` names the buffer in the message. Returns the number of these bytes.
    ///
    /// # Errors
    ///
    /// A byte that is not numbered, a peer that ends meanwhile, and a copy that fails.
    pub fn check(
        mut self,
        buffer: &MemoryRegion,
        whose: &str,
        size: SizeOfRun<'_>,
    ) -> Result<u64, Failure> {
        self.restart();
        // All offsets of a list; a list that wraps uses them again.
        let offsets = (0..self.distinct_places()).map(|_| self.next_offset());
        let SizeOfRun { run, size, supervisor } = size;
        Numbering::of(run, size).check(buffer, whose, offsets, size, supervisor)
    }
}
