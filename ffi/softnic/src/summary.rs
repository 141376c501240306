//! The number of packets that a program sent, which `cxi-softnic` prints on request.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

/// Names the file to which each process of the program appends its number of packets. `cxi-softnic`
/// sets it.
pub const FILE: &str = "CXIDIAG_SOFTNIC_SUMMARY_FILE";

/// Adds the packets of a device that is no longer used. A process without rights to the file adds
/// nothing.
pub fn add(packets: u64) {
    let Some(path) = env::var_os(FILE).filter(|_| packets > 0) else {
        return;
    };
    let file = OpenOptions::new().append(true).open(path);
    // One write, so that the lines of several processes do not mix.
    let _ = file.and_then(|mut file| file.write_all(format!("{packets}\n").as_bytes()));
}

/// Returns the sum of a file.
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
