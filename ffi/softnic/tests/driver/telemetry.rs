//! The telemetry counters, by the names that libcxi's header gives them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use cxi_sys::{cxil_dev, timespec};

use super::call;

static NUMBERS: LazyLock<BTreeMap<String, u32>> = LazyLock::new(|| {
    let number = |line: &str| {
        let (name, number) = line.trim().trim_end_matches(',').split_once("\": ")?;
        let name = name.strip_prefix("\"C_CNTR_").or(name.strip_prefix("\"C1_CNTR_"))?;
        Some((name.to_lowercase(), number.parse().ok()?))
    };
    cxi_sys::testing::ABI.lines().filter_map(number).collect()
});

/// The number of a counter in `c_cntr_type`.
pub fn number(name: &str) -> u32 {
    *NUMBERS.get(name).unwrap_or_else(|| panic!("no counter {name}"))
}

/// The name of the counter with this number.
pub fn name(number: u32) -> &'static str {
    let found = NUMBERS.iter().find(|(_, own)| **own == number);
    found.map_or_else(|| panic!("no counter {number}"), |(name, _)| name)
}

/// The value of a counter; checks the time of reading.
pub fn counter(dev: *mut cxil_dev, name: &str) -> u64 {
    let (mut value, mut ts) = (u64::MAX, timespec { tv_sec: -1, tv_nsec: -1 });
    assert_eq!(call!(cxil_read_cntr(dev, number(name), &mut value, &mut ts)), 0, "{name}");
    assert!(ts.tv_sec > 0 && (0..1_000_000_000).contains(&ts.tv_nsec));
    value
}
