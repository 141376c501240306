//! What all devices of a NIC counted, in all processes.
//!
//! Each device counts in its own memory. A reader asks the owners of the ports to publish their
//! counts; the engine thread of each process answers.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::directory::Directory;
use super::port::{self, Port};
use super::totals::Totals;

/// The longest time to wait for the answers of other processes. A process that is stopped counts
/// with what it published last.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Returns what a NIC counted since it started. `lock` locks the directory of the fabric;
/// `publish_own` publishes the counts of the devices of this process.
///
/// # Errors
/// Errors of the directory.
pub fn read(
    lock: impl Fn() -> Result<Directory, Errno>,
    nid: u32,
    publish_own: impl FnOnce(),
) -> Result<Totals, Errno> {
    let mut asked = Vec::new();
    for (_, file, _) in lock()?.ports(nid)? {
        let port = Port::map(&file)?;
        asked.push((port.request_counts(), port));
    }
    publish_own();
    let end = Instant::now() + LONGEST_WAIT;
    for (request, port) in asked {
        if port.are_counts_requested() {
            port.wake();
            port.await_counts(request, end);
        }
    }
    // The devices that were closed meanwhile are in the totals.
    let directory = lock()?;
    directory.sweep()?;
    let mut totals = directory.totals(nid)?;
    for (_, file, _) in directory.ports(nid)? {
        if let Some(counts) = port::read_counts(&file) {
            totals.add(&counts);
        }
    }
    Ok(totals)
}
