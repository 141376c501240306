//! The values of options of tools: from what was typed to what is set.

use std::ffi::OsStr;

use cxi::HugePage;

use crate::run_options::ListOptions;
use crate::typed::Typed;
use cli::values::text;
use facts::atomic::Atomic;
use facts::number::{bytes, is_range, is_size, powers_within, within};
use facts::percentile::Percentile;

/// Sizes of huge pages.
pub(super) const HUGE_PAGES: [HugePage; 2] = [HugePage::Mib2, HugePage::Gib1];

/// Key and value of a label.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let is_key = |key: &str| {
        !key.is_empty() && key.chars().all(|c: char| c.is_ascii_alphanumeric() || "_.-".contains(c))
    };
    // Labels share a column of CSV.
    let is_value = |value: &str| !value.contains(|c: char| c == ';' || c.is_control());
    match text.split_once('=') {
        Some((key, value)) if is_key(key) && is_value(value) => Ok((key.into(), value.into())),
        _ => Err(
            "expected KEY=VALUE: letters, digits, _ . - before =, and no ; or control character after it"
                .into(),
        ),
    }
}

/// The percentiles of a list in ascending order, each once.
pub(super) fn percentiles(text: &str) -> Result<Vec<Percentile>, String> {
    let number = |text: &str| text.parse::<Percentile>().ok();
    let listed: Option<Vec<Percentile>> = text.split(',').map(number).collect();
    let mut percentiles = listed.ok_or(
        "expected percentiles above 0 and up to 100 with commas between them, such as 50,95,99.9",
    )?;
    percentiles.sort_unstable();
    percentiles.dedup();
    Ok(percentiles)
}

/// Sets an option of atomic operations.
pub(super) fn set_atomic(typed: &mut Typed, set: impl FnOnce(&mut Atomic)) -> Result<(), String> {
    if let Some(atomic) = &mut typed.run.atomic {
        set(atomic);
    }
    Ok(())
}

pub(super) fn set_lists(
    typed: &mut Typed,
    set: impl FnOnce(&mut ListOptions),
) -> Result<(), String> {
    if let Some(lists) = &mut typed.run.lists {
        set(lists);
    }
    Ok(())
}

/// The number of a GPU, which has eight bits on the control connection (wire.md 4.2).
pub(super) fn gpu_index(value: &OsStr) -> Result<u8, String> {
    within(text(value)?, 0..=u8::MAX.into()).map(|index| index as u8)
}

/// The size of huge pages with this name, in capital or small letters.
pub(super) fn huge_page(text: &str) -> Option<HugePage> {
    HUGE_PAGES.into_iter().find(|size| size.to_string().eq_ignore_ascii_case(text))
}

/// The least and the greatest size of `MIN` or `MIN:MAX`. The ends of a range are powers of two, or
/// any sizes around one if the tool measures bandwidth.
pub(super) fn sizes(text: &str, is_bandwidth: bool) -> Option<(u64, u64)> {
    match text.split_once(':') {
        None => {
            let size = bytes(text).filter(|size| is_size(*size))?;
            Some((size, size))
        }
        Some((min, max)) => {
            let (min, max) = (bytes(min)?, bytes(max)?);
            if is_bandwidth {
                return powers_within(min, max);
            }
            is_range(min, max).then_some((min, max))
        }
    }
}

/// The names in a table of atomic operations, comparisons or types.
pub(super) fn words<T>(table: &[(&'static str, T)]) -> Vec<String> {
    table.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use facts::number::MAX_SIZE;

    #[test]
    fn reads_sizes_and_ranges() {
        assert_eq!(sizes("8", false), Some((8, 8)));
        assert_eq!(sizes("7", false), Some((7, 7)));
        assert_eq!(sizes("4294967295", false), Some((4294967295, 4294967295)));
        assert_eq!(sizes("1:8192", false), Some((1, 8192)));
        assert_eq!(sizes("64:64", false), Some((64, 64)));
        assert_eq!(sizes("4K", false), Some((4096, 4096)));
        assert_eq!(sizes("1:1MiB", false), Some((1, 1 << 20)));
        assert_eq!(sizes("1K:2G", false), Some((1 << 10, 2 << 30)));
    }

    /// The manual page of send_bw: each size that is a power of two from MIN to MAX.
    #[test]
    fn bandwidth_tools_take_any_ends_of_a_range() {
        assert_eq!(sizes("3:20", true), Some((4, 16)));
        assert_eq!(sizes("3", true), Some((3, 3)));
        for text in ["5:7", "8:4", "0:8", "1:4G", "3:x"] {
            assert_eq!(sizes(text, true), None, "{text}");
        }
    }

    #[test]
    fn t24_rejects_malformed_sizes() {
        for text in [
            "",
            "0",
            "8x",
            "3:7",
            "8:4",
            "4294967296",
            "1:4294967296",
            "0:8",
            "1:",
            ":8",
            ":",
            "1:2:4",
            "1:abc",
            "1: 8",
            "-8",
            "8:12",
            "4G",
            "1:4G",
            "3K:6K",
            "8KB",
            "6:6",
        ] {
            assert_eq!(sizes(text, false), None, "{text:?}");
        }
    }

    #[test]
    fn reads_percentiles_in_order_and_once() {
        let names = |text| {
            percentiles(text).map(|all| all.iter().map(Percentile::to_string).collect::<Vec<_>>())
        };
        assert_eq!(names("99.9,50,95,50"), Ok(["p50", "p95", "p99.9"].map(String::from).to_vec()));
        for text in ["", ",", "50,", "0", "101", "50;90", "p50", "50, 90"] {
            assert!(percentiles(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn reads_only_valid_sizes_from_random_text(text in "[0-9:xKMGkib -]{0,24}") {
            for (min, max) in [true, false].into_iter().filter_map(|kind| sizes(&text, kind)) {
                prop_assert!(1 <= min && min <= max && max <= MAX_SIZE);
            }
        }
    }
}
