//! The limit of open files, of which each member needs one in the coordinator.

use std::fs;

use rustix::process::{Resource, Rlimit, setrlimit};

use facts::error::Failure;

/// Open files of the coordinator besides the connections of members: its own files, and connections
/// without a proof.
const RESERVE: u64 = 28;

/// Part of [`RESERVE`] for files that are no connections.
const FILES: u64 = 24;

/// The limit of open files that counts.
#[derive(Clone, Copy)]
struct FileLimit {
    most: u64,
    /// No process may raise it without privileges.
    is_hard: bool,
}

/// Raises the limit of open files to the hard limit, if `size` members need that.
///
/// # Errors
///
/// A limit that is too low.
pub fn allow_connections(size: u32) -> Result<(), Failure> {
    check(size, raised_limit(size))
}

fn check(size: u32, FileLimit { most, is_hard }: FileLimit) -> Result<(), Failure> {
    let needed = u64::from(size) + RESERVE;
    if most >= needed {
        return Ok(());
    }
    let limit = if is_hard {
        format!("hard limit is {most} (ulimit -Hn)")
    } else {
        format!("soft limit, which it may not raise, is {most} (ulimit -Sn)")
    };
    Err(Failure::environment(format!(
        "{size} processes need {needed} open files in the coordinator, and its {limit}"
    )))
}

/// Returns how many connections without a proof there may be beside `size` members, `most` at most.
pub fn pending_connections(size: u32, most: usize) -> usize {
    let left = raised_limit(size).most.saturating_sub(u64::from(size) + FILES);
    (left.max(1) as usize).min(most)
}

/// Returns the limit of open files, after raising it for `size` members. getrlimit(2) may be
/// refused: services are often filtered so.
fn raised_limit(size: u32) -> FileLimit {
    let limits = fs::read_to_string("/proc/self/limits");
    let Some((soft, hard)) = limits.ok().as_deref().and_then(limits_in) else {
        return FileLimit { most: u64::MAX, is_hard: true };
    };
    // Some programs take longer with a high limit: surveys of few processes keep theirs.
    let is_enough = soft >= 2 * (u64::from(size) + RESERVE);
    let raised = Rlimit { current: Some(hard), maximum: Some(hard) };
    let is_hard = !is_enough && setrlimit(Resource::Nofile, raised).is_ok();
    FileLimit { most: if is_hard { hard } else { soft }, is_hard }
}

/// Returns the soft and the hard limit of open files in the text of `/proc/self/limits`.
fn limits_in(limits: &str) -> Option<(u64, u64)> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut values = line.split_whitespace().map(|value| value.parse().unwrap_or(u64::MAX));
    Some((values.next()?, values.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_soft_and_hard_limit() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  524288  files\n";
        assert_eq!(limits_in(limits), Some((1024, 524_288)));
        assert_eq!(limits_in("Max cpu time  unlimited  unlimited  seconds"), None);
    }

    #[test]
    fn names_limit_that_is_too_low() {
        let checked = |most, is_hard| {
            let checked = check(10_000, FileLimit { most, is_hard });
            checked.map_err(|failure| failure.message())
        };
        assert_eq!([true, false].map(|is_hard| checked(10_028, is_hard)), [Ok(()), Ok(())]);
        assert_eq!(
            checked(4096, true).unwrap_err(),
            "10000 processes need 10028 open files in the coordinator, and its hard limit is 4096 \
             (ulimit -Hn)"
        );
        assert_eq!(
            checked(1024, false).unwrap_err(),
            "10000 processes need 10028 open files in the coordinator, and its soft limit, which \
             it may not raise, is 1024 (ulimit -Sn)"
        );
    }
}
