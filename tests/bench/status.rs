//! What the kernel says about the memory of this process.

use std::fs;

/// A figure of `/proc/self/status`, in KiB: `VmRSS` is the resident memory now, `VmHWM` the most so
/// far.
pub fn status_kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    let figure = lines.filter(|(key, _)| *key == name).find_map(|(_, text)| {
        let number = text.split_whitespace().next();
        number.and_then(|number| number.parse().ok())
    });
    figure.expect("a figure")
}
