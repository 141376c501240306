//! The number of packets that a program sent, which `cxi-softnic` prints on request.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Asks `cxi-softnic` for a summary. For its program, `cxi-softnic` sets it to the absolute path of
/// the file to which each process appends its number of packets.
pub const VARIABLE: &str = "CXIDIAG_SOFTNIC_SUMMARY";

/// The file to which this process adds its packets.
pub fn file() -> Option<PathBuf> {
    let value = env::var_os(VARIABLE)?;
    Path::new(&value).is_absolute().then(|| value.into())
}

/// Adds the packets of a device that is no longer used. A process without rights to the file adds
/// nothing.
pub fn add(packets: u64) {
    let Some(path) = file().filter(|_| packets > 0) else {
        return;
    };
    let file = OpenOptions::new().append(true).open(path);
    // One write, so that the lines of several processes do not mix.
    let _ = file.and_then(|mut file| file.write_all(format!("{packets}\n").as_bytes()));
}

/// The sum of the lines of the file.
pub fn sum(lines: &str) -> u64 {
    let packets = lines.lines().filter_map(|line| line.parse().ok());
    packets.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_packets_of_all_processes() {
        assert_eq!(sum(""), 0);
        assert_eq!(sum("3\n40\n"), 43);
    }
}
