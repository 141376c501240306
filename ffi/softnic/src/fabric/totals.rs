//! What a NIC counted in devices that are closed, and when it started.
//!
//! The counters of a NIC begin with the first device that is opened, or the first snapshot of its
//! files, and end when no device is open and no snapshot exists. So they restart as those of
//! hardware do when the driver is loaded (health.md 1.3).

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::link_model::now;
use crate::counter_names;

/// "cxicntr" and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"cxicntr\x01");

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// When the NIC started, in nanoseconds of the monotonic clock.
    pub started: u64,
    /// The values of the counters, in the order of [`counter_names::all`].
    pub values: Vec<u64>,
}

impl Totals {
    /// Returns the totals of a NIC that starts.
    pub fn start() -> Self {
        Self {
            started: now(),
            values: vec![0; counter_names::all().len()],
        }
    }

    /// Adds the counts of a device.
    pub fn add(&mut self, counts: &[u64]) {
        let counters = counter_names::all().iter();
        for ((counter, sum), count) in counters.zip(&mut self.values).zip(counts) {
            *sum = if counter.is_maximum {
                (*sum).max(*count)
            } else {
                sum.wrapping_add(*count)
            };
        }
    }

    /// Reads a file; `None` if it is not a complete one of this version.
    pub fn read(file: &File) -> Option<Self> {
        let length = 8 * (2 + counter_names::all().len());
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() != length as u64 {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(length as u64).read_to_end(&mut bytes).ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (magic, started) = (words.next()?, words.next()?);
        let values = words.collect();
        // A directory that outlives a reboot has the time of another clock.
        (magic == MAGIC && started <= now()).then_some(Self { started, values })
    }

    /// Writes the whole file.
    pub fn write(&self, file: &File) -> Result<(), Errno> {
        let words = [MAGIC, self.started].into_iter();
        let words = words.chain(self.values.iter().copied());
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let written = file.write_all_at(&bytes, 0);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}
