//! The lock of the directory of a fabric, taken with a time limit: a process that is stopped while
//! it holds the lock must not stop the others.

use std::fs;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::place::FabricDirectory;

/// A holder that is stopped for this long is not waited for.
const STOPPED_LIMIT: Duration = Duration::from_secs(2);

/// Other holders work, for less than a millisecond, but may wait for a CPU.
const LIMIT: Duration = Duration::from_secs(30);

/// Interval at which a waiting process looks for the holder of the lock. Reading /proc/locks blocks
/// all flock calls of the machine.
const LOOK: Duration = Duration::from_millis(250);

const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// Locks an open directory.
///
/// # Errors
/// EBUSY if another process holds the lock for too long, ENOLCK on a file system without locks.
pub fn lock(directory: impl AsFd) -> Result<(), Errno> {
    let start = Instant::now();
    let mut looked = start;
    let mut stopped_since = None;
    let mut pause = FIRST_PAUSE;
    loop {
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {}
            Err(Errno::INTR) => continue,
            // File systems without locks have many numbers for that, such as 524 of NFS.
            Err(_) => return Err(Errno::NOLCK),
            Ok(()) => return Ok(()),
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let is_stopped = holder(&directory).is_some_and(|holder| holder.is_stopped);
            let since = stopped_since.filter(|_| is_stopped);
            stopped_since = since.or(is_stopped.then(Instant::now));
        }
        let is_over = |since: Instant, limit| since.elapsed() >= limit;
        if is_over(start, LIMIT) || stopped_since.is_some_and(|at| is_over(at, STOPPED_LIMIT)) {
            return Err(Errno::BUSY);
        }
        thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// A process that holds the lock.
struct Holder {
    pid: u32,
    name: String,
    is_stopped: bool,
}

/// Returns the process that holds the lock of a file; `None` if no process holds it, or if /proc
/// does not show the holder because it is in another PID namespace.
fn holder(file: impl AsFd) -> Option<Holder> {
    let inode = rustix::fs::fstat(file).ok()?.st_ino;
    let pid = owner(&fs::read_to_string("/proc/locks").ok()?, inode)?;
    // The name of a program may contain parentheses.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    Some(Holder { pid, name: name.to_owned(), is_stopped: rest.starts_with(['T', 't']) })
}

/// Returns the process that locked the file with this inode exclusively, in the text of
/// /proc/locks: `1: FLOCK  ADVISORY  WRITE 4711 00:1a:1234 0 EOF`. The device is not compared:
/// some file systems report another one here than in stat(2).
fn owner(locks: &str, inode: u64) -> Option<u32> {
    let inode = inode.to_string();
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, "WRITE", pid, file, ..] if file.rsplit(':').next() == Some(&inode) => {
                pid.parse().ok()
            }
            _ => None,
        }
    })
}

/// Describes the process that holds the fabric now: "process 4711 (cxidiag, stopped)".
pub fn describe_holder() -> Option<String> {
    let place = FabricDirectory::from_environment().ok()?;
    let directory = {
        let _user = place.become_user();
        fs::File::open(&place.path).ok()?
    };
    let holder = holder(directory)?;
    let state = if holder.is_stopped { ", stopped" } else { "" };
    Some(format!("process {} ({}{state})", holder.pid, holder.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_owner_of_lock() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 00:1a:77 0 EOF\n\
                     2: FLOCK  ADVISORY  READ  12 00:1a:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 00:1a:770 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 00:1a:77 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 15 00:1a:78 0 EOF\n";
        assert_eq!(owner(locks, 77), Some(14));
        assert_eq!(owner(locks, 78), None);
    }
}
