//! The pools of triggered operations of a NIC, for all its processes (libcxi.md 3.3, nic.md 9.5).
//!
//! As the counters of a NIC, they begin with its first device and end with its last one.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::port::{self, Port};
use crate::engine::triggers::{POOLS, Pools};
use crate::pages::Pages;

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

/// Gives back what a device that is closed has taken: `file` is of the NIC, `port` of its port.
pub fn give_back(file: &File, port: &File) {
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
