//! The number of packets that a program sent, which `cxi-softnic` prints on request.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;

/// Asks `cxi-softnic` for a summary. For its program, `cxi-softnic` sets it to the absolute path of
/// the file to which each process adds its devices and their packets.
pub const VARIABLE: &str = "CXIDIAG_SOFTNIC_SUMMARY";

/// The file to which this process adds its packets.
pub fn file() -> Option<PathBuf> {
    let value = env::var_os(VARIABLE)?;
    Path::new(&value).is_absolute().then(|| value.into())
}

/// Adds a device that this process has opened.
pub fn open() {
    write("open");
}

/// Adds the packets of a device that is no longer used.
pub fn add(packets: u64) {
    write(&packets.to_string());
}

/// Adds a line. A process without rights to the file adds nothing.
fn write(word: &str) {
    let file = file().map(|path| OpenOptions::new().append(true).open(path));
    if let Some(Ok(mut file)) = file {
        // One write, so that the lines of several processes do not mix.
        let _ = file.write_all(format!("{} {word}\n", process::id()).as_bytes());
    }
}

/// What the processes of a program sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SentPackets {
    packets: u64,
    /// Processes that ended without adding the packets of all their devices.
    uncounted: usize,
}

impl SentPackets {
    /// The sum of the lines of the file.
    pub fn read(lines: &str) -> Self {
        let mut packets = 0_u64;
        let mut open = BTreeMap::<&str, i64>::new();
        for (process, word) in lines.lines().filter_map(|line| line.split_once(' ')) {
            let count = word.parse::<u64>();
            *open.entry(process).or_default() += if count.is_ok() { -1 } else { 1 };
            packets = packets.saturating_add(count.unwrap_or(0));
        }
        Self { packets, uncounted: open.values().filter(|&&devices| devices > 0).count() }
    }
}

impl fmt::Display for SentPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, uncounted } = self;
        let processes = if *uncounted == 1 { "process was" } else { "processes were" };
        match (packets, uncounted) {
            (0, 0) => f.write_str("no packets"),
            (1, 0) => f.write_str("1 packet"),
            (_, 0) => write!(f, "{packets} packets"),
            (0, _) => write!(
                f,
                "an unknown number of packets ({uncounted} {processes} killed or called _exit)"
            ),
            _ => write!(
                f,
                "at least {packets} packets ({uncounted} {processes} killed or called _exit)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_packets_of_all_processes() {
        let said = |lines: &str| SentPackets::read(lines).to_string();
        assert_eq!(said(""), "no packets");
        assert_eq!(said("7 open\n7 0\n"), "no packets");
        assert_eq!(said("7 open\n7 1\n"), "1 packet");
        assert_eq!(said("7 open\n8 open\n7 open\n8 3\n7 40\n7 0\n"), "43 packets");
    }

    #[test]
    fn says_that_packets_of_killed_processes_are_missing() {
        let said = |lines: &str| SentPackets::read(lines).to_string();
        let unknown = "an unknown number of packets (1 process was killed or called _exit)";
        assert_eq!(said("7 open\n7 open\n7 0\n"), unknown);
        let least = "at least 5 packets (2 processes were killed or called _exit)";
        assert_eq!(said("7 open\n8 open\n9 open\n9 5\n"), least);
    }
}
