//! The limit of open files, of which each member needs one in the coordinator.

use std::fs;

use rustix::process::{Resource, Rlimit, setrlimit};

use facts::error::Failure;

/// Open files of the coordinator besides the connections of members: its own files, and connections
/// without a proof.
const RESERVE: u64 = 28;

/// Part of [`RESERVE`] for files that are no connections.
const FILES: u64 = 24;

/// Raises the limit of open files to the hard limit, if `size` members need that.
///
/// # Errors
///
/// A hard limit that is too low.
pub fn allow_connections(size: u32) -> Result<(), Failure> {
    check(size, raised_limit(size))
}

fn check(size: u32, limit: u64) -> Result<(), Failure> {
    let needed = u64::from(size) + RESERVE;
    if limit >= needed {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "{size} processes need {needed} open files in the coordinator, and its hard limit is \
         {limit} (ulimit -Hn)"
    )))
}

/// Returns how many connections without a proof there may be beside `size` members, `most` at most.
pub fn pending_connections(size: u32, most: usize) -> usize {
    let left = raised_limit(size).saturating_sub(u64::from(size) + FILES);
    (left.max(1) as usize).min(most)
}

/// Returns the limit of open files, after raising it for `size` members. getrlimit(2) may be
/// refused: services are often filtered so.
fn raised_limit(size: u32) -> u64 {
    let limits = fs::read_to_string("/proc/self/limits");
    let Some((soft, hard)) = limits.ok().as_deref().and_then(limits_in) else {
        return u64::MAX;
    };
    // Some programs take longer with a high limit: surveys of few processes keep theirs.
    let is_enough = soft >= 2 * (u64::from(size) + RESERVE);
    let raised = Rlimit { current: Some(hard), maximum: Some(hard) };
    if is_enough || setrlimit(Resource::Nofile, raised).is_err() { soft } else { hard }
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
        assert!(check(10_000, 10_028).is_ok());
        assert_eq!(
            check(10_000, 4096).unwrap_err().message(),
            "10000 processes need 10028 open files in the coordinator, and its hard limit is 4096 \
             (ulimit -Hn)"
        );
    }
}
