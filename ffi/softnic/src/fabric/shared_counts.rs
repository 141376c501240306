//! Files with counts that all devices of a NIC share: the counts of the closed devices with the
//! time at which the NIC started, and the pools of triggered operations (libcxi.md 3.3, nic.md
//! 9.5).
//!
//! The counts begin with the first device that is opened, or the first snapshot of the NIC's files,
//! and end when no device is open and no snapshot exists. So they restart as the counters of
//! hardware do when the driver is loaded (health.md 1.3).

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::link_time::now;
use super::port::{self, Port};
use crate::counter_names::{self, COUNT};
use crate::engine::triggers::{POOLS, Pools};
use crate::pages::Pages;

/// "cxicntr" and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"cxicntr\x01");

/// The content of the file with the counts of the closed devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// When the NIC started, in nanoseconds of the monotonic clock.
    pub started: u64,
    /// The values of the counters, in the order of [`counter_names::all`].
    pub values: Vec<u64>,
}

impl Totals {
    pub fn start() -> Self {
        Self { started: now(), values: vec![0; COUNT] }
    }

    /// Adds the counts of a device.
    pub fn add(&mut self, counts: &[u64]) {
        let counters = counter_names::all().iter();
        for ((counter, sum), count) in counters.zip(&mut self.values).zip(counts) {
            *sum = if counter.is_maximum { (*sum).max(*count) } else { sum.wrapping_add(*count) };
        }
    }

    /// Reads a file; `None` if it is not a complete one of this version.
    pub fn read(file: &File) -> Option<Self> {
        let length = 8 * (2 + COUNT);
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
        let words = [MAGIC, self.started].into_iter().chain(self.values.iter().copied());
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let written = file.write_all_at(&bytes, 0);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// The operations that each pool has in use, and then the most that it had since software set that.
const LENGTH: usize = 2 * 8 * POOLS;

/// The file with the pools of a NIC, mapped, and the port that has what this device takes of them.
pub struct TriggeredPools {
    pages: Pages,
    port: Arc<Port>,
}

impl TriggeredPools {
    /// Opens the file of a NIC, which may be new.
    ///
    /// # Errors
    /// EIO if it is damaged; errors of the file system.
    pub fn open((file, is_new): (File, bool), port: Arc<Port>) -> Result<Self, Errno> {
        if is_new {
            rustix::fs::ftruncate(&file, LENGTH as u64)?;
            port::allocate(&file, 0, LENGTH)?;
        }
        Ok(Self { pages: map(&file)?, port })
    }

    /// The operations that a pool has in use.
    pub fn in_use(&self, pool: usize) -> u64 {
        word(&self.pages, pool).load(Ordering::Relaxed)
    }

    /// The most that a pool had in use since software set this number, which it may.
    pub fn most(&self, pool: usize) -> &AtomicU64 {
        word(&self.pages, POOLS + pool)
    }
}

impl Pools for TriggeredPools {
    #[inline]
    fn take(&self, pool: u8, most: usize, is_due: bool) -> bool {
        let pool = usize::from(pool);
        let before = word(&self.pages, pool).fetch_add(1, Ordering::Relaxed);
        if before >= most as u64 && !is_due {
            word(&self.pages, pool).fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.most(pool).fetch_max(before + 1, Ordering::Relaxed);
        self.port.triggered(pool).fetch_add(1, Ordering::Relaxed);
        true
    }

    #[inline]
    fn give(&self, pool: u8, count: usize) {
        let pool = usize::from(pool);
        self.port.triggered(pool).fetch_sub(count as u64, Ordering::Relaxed);
        word(&self.pages, pool).fetch_sub(count as u64, Ordering::Relaxed);
    }
}

/// Gives back the triggered operations that a closed device has taken: `file` is of the NIC, `port`
/// of its port.
pub fn give_back_triggered(file: &File, port: &File) {
    if let (Ok(pages), Ok(port)) = (map(file), Port::map(port)) {
        for pool in 0..POOLS {
            let taken = port.triggered(pool).swap(0, Ordering::Relaxed);
            word(&pages, pool).fetch_sub(taken, Ordering::Relaxed);
        }
    }
}

fn map(file: &File) -> Result<Pages, Errno> {
    let is_whole = file.metadata().is_ok_and(|metadata| metadata.len() == LENGTH as u64);
    if is_whole { Pages::shared(file, LENGTH) } else { Err(Errno::IO) }
}

fn word(pages: &Pages, index: usize) -> &AtomicU64 {
    assert!(index < 2 * POOLS);
    pages.word(8 * index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> usize {
        let counters = counter_names::all();
        counters.iter().position(|counter| counter.name() == name).unwrap()
    }

    #[test]
    fn adds_counts_and_keeps_the_highest_maximum() {
        let (packets, depth) = (place("hni_tx_ok_opt"), place("lpe_sts_net_max_attempts_max_0"));
        let mut totals = Totals::start();
        for (sent, deepest) in [(3, 5), (4, 2)] {
            let mut counts = vec![0; totals.values.len()];
            (counts[packets], counts[depth]) = (sent, deepest);
            totals.add(&counts);
        }
        assert_eq!((totals.values[packets], totals.values[depth]), (7, 5));
        assert_eq!(totals.values.iter().sum::<u64>(), 12);
    }

    #[test]
    fn reads_what_it_wrote_and_nothing_else() {
        let fd = rustix::fs::memfd_create("totals", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(fd);
        let read = || {
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
            Totals::read(&file)
        };
        assert_eq!(read(), None, "empty");
        let mut totals = Totals::start();
        totals.values[7] = 7;
        totals.write(&file).unwrap();
        assert_eq!(read().as_ref(), Some(&totals));
        let at_reboot = Totals { started: u64::MAX, ..totals.clone() };
        at_reboot.write(&file).unwrap();
        assert_eq!(read(), None);
        totals.write(&file).unwrap();
        file.write_all_at(b"x", 0).unwrap();
        assert_eq!(read(), None, "another version");
        totals.write(&file).unwrap();
        file.set_len(8 * totals.values.len() as u64).unwrap();
        assert_eq!(read(), None, "incomplete");
    }
}
