//! Lengths of slots, and the links that flows share.

use super::flows::flows;
use super::pattern::{Distance, Pattern};
use super::testing::{all_placed, d4};
use super::timing::{LoadSizes, SlotTiming, crowd, timing};

const KIB: u64 = 1024;

fn sizes(window_bytes: u64) -> LoadSizes {
    LoadSizes { size_bytes: 64 * KIB, window_bytes }
}

#[test]
fn slots_are_longer_on_slow_fabrics() {
    let value_for = |crowd, rate| {
        let SlotTiming { slot_ns, window_bytes } = timing(crowd, rate, sizes(256 * KIB));
        (slot_ns / 1_000_000, window_bytes / KIB)
    };
    assert_eq!(value_for(32.0, Some(25e9)), (250, 256));
    assert_eq!(value_for(64.0, None), (250, 256));
    // 5 · 4 · 256 KiB / 20 MB/s = 262 ms
    assert_eq!(value_for(1.0, Some(20e6)), (270, 256));
    assert_eq!(value_for(8.0, Some(25e6)), (420, 256));
    // 5 · 32 · 128 KiB / 25 MB/s = 839 ms; with 192 KiB it would be above a second.
    assert_eq!(value_for(32.0, Some(25e6)), (1000, 128));
    assert_eq!(value_for(64.0, Some(1e6)), (1000, 64));
}

#[test]
fn window_is_at_least_an_operation() {
    assert_eq!(timing(1.0, None, sizes(KIB)).window_bytes, 64 * KIB);
}

#[test]
fn blocks_last_two_seconds_at_most() {
    let count = |rate| timing(8.0, Some(rate), sizes(256 * KIB)).slots_of_block();
    assert_eq!([25e9, 25e6, 1e6].map(count), [8, 4, 2]);
}

#[test]
fn crowd_counts_windows_of_ports_and_links() {
    let roster = d4();
    let nics = all_placed(&roster);
    let value = |pattern, links| crowd(&flows(pattern, &nics, 0, 5), &roster, links);
    assert_eq!(value(Pattern::Incast(8), 8), 8.0);
    assert_eq!(value(Pattern::Shift(Distance::One), 1), 1.0);
    assert_eq!(value(Pattern::Shift(Distance::Group), 1), 4.0);
    assert_eq!(value(Pattern::Shift(Distance::Group), 2), 2.0);
    assert_eq!(value(Pattern::Shift(Distance::Switch), 4), 2.0);
    let all = value(Pattern::AllToAll, 1);
    assert!((1.0..=2.0).contains(&all), "{all}");
}
