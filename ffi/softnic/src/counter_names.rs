//! The telemetry counters of the NIC: their numbers in `c_cntr_type`, and the names of their files
//! (health.md 1.4, 1.5).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use cxi_sys::C1_CNTR_SIZE;

/// The counters, by ascending number: a line for each, or for several with consecutive numbers,
/// whose names end with 0, 1, ... in place of the asterisk. The last word is then their number.
///
/// Counters from `C1_CNTR_SIZE` on have a file but no number on hardware. Of these, the table has
/// the counters of health.md 1.5.
const TABLE: &str = include_str!("counter_names.txt");

/// The number of counters in the table.
pub const COUNT: usize = 1561;

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicCounter {
    /// Its number in `c_cntr_type`.
    pub number: u32,
    /// The name of its row, and its place there.
    row: &'static str,
    index: u32,
    /// Of several devices it has the highest value, not the sum.
    pub is_maximum: bool,
}

impl NicCounter {
    /// The name of the counter's file.
    pub fn name(&self) -> String {
        self.row.replace('*', &self.index.to_string())
    }
}

static COUNTERS: LazyLock<Vec<NicCounter>> =
    LazyLock::new(|| TABLE.lines().flat_map(row).collect());

/// All counters, by ascending number.
pub fn all() -> &'static [NicCounter] {
    &COUNTERS
}

/// The places in [`all`] of the counters of each row, by name. A list, because checkers of leaks do
/// not see that a map is in use.
static ROWS: LazyLock<Vec<(&str, Range<usize>)>> = LazyLock::new(|| {
    let mut rows: BTreeMap<&str, Range<usize>> = BTreeMap::new();
    for (place, counter) in all().iter().enumerate() {
        rows.entry(counter.row).or_insert(place..place).end = place + 1;
    }
    rows.into_iter().collect()
});

fn places_of_row(row: &str) -> Option<Range<usize>> {
    let index = ROWS.binary_search_by_key(&row, |(name, _)| name).ok()?;
    Some(ROWS[index].1.clone())
}

/// The places in [`all`] of the counter with this name, or of the counters of a row, whose name has
/// an asterisk. Returns no place for a name that no counter has.
pub fn places(name: &str) -> Range<usize> {
    if let Some(places) = places_of_row(name) {
        return places;
    }
    let row = name.trim_end_matches(|end: char| end.is_ascii_digit());
    let mut places = places_of_row(&format!("{row}*")).unwrap_or_default();
    let index = name[row.len()..].parse().ok();
    let place = index.and_then(|index| places.nth(index));
    place.map_or(0..0, |place| place..place + 1)
}

/// The place in [`all`] of the counter that has this number in libcxi.
pub fn place(number: u32) -> Option<usize> {
    let found = COUNTERS.binary_search_by_key(&number, |counter| counter.number);
    found.ok().filter(|_| number < C1_CNTR_SIZE)
}

/// The counters of a row of the table.
fn row(line: &'static str) -> impl Iterator<Item = NicCounter> {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (first, name) = (word().parse().unwrap_or(0), word());
    let count: u32 = word().parse().unwrap_or(1);
    let is_maximum = name.contains("_max_");
    (0..count).map(move |index| NicCounter { number: first + index, row: name, index, is_maximum })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cxi_sys::C1_CNTR_COUNT;

    use super::*;
    use crate::engine::telemetry::Telemetry;

    #[test]
    fn has_the_counters_of_the_header() {
        let enumerators: BTreeMap<u32, String> = cxi_sys::testing::ABI
            .lines()
            .filter_map(|line| {
                let (name, number) = line.trim().trim_end_matches(',').split_once("\": ")?;
                let name = name.strip_prefix("\"C_CNTR_").or(name.strip_prefix("\"C1_CNTR_"))?;
                Some((number.parse().ok()?, name.to_lowercase()))
            })
            .collect();
        let ours = all().iter().filter(|counter| place(counter.number).is_some());
        let ours: BTreeMap<u32, String> =
            ours.map(|counter| (counter.number, counter.name())).collect();
        assert_eq!(ours.len(), C1_CNTR_COUNT as usize);
        assert_eq!(ours, enumerators);
    }

    #[test]
    fn names_and_numbers_are_unique_and_ascend() {
        let names: BTreeSet<String> = all().iter().map(NicCounter::name).collect();
        assert_eq!((names.len(), all().len()), (COUNT, COUNT));
        assert!(all().is_sorted_by(|one, next| one.number < next.number));
        assert!(names.iter().all(|name| !name.contains(['*', '/', ' '])));
        assert_eq!(place(all()[700].number), Some(700));
    }

    #[test]
    fn each_source_has_a_counter_of_its_own() {
        let known = |name: &'static str| {
            let found = places(name);
            assert!(!found.is_empty(), "{name}");
            found
        };
        let values: Vec<_> = Telemetry::default().values(known).collect();
        let places: BTreeSet<usize> = values.iter().map(|(place, _)| *place).collect();
        assert_eq!(places.len(), values.len());
    }

    #[test]
    fn finds_counters_and_rows_by_name() {
        for (place, counter) in all().iter().enumerate() {
            assert_eq!(places(&counter.name()), place..place + 1, "{}", counter.name());
        }
        let first = places("atu_cache_miss_0").start;
        assert_eq!(places("atu_cache_miss_*"), first..first + 4);
        for unknown in ["", "*", "atu_cache_miss_", "atu_cache_miss_4", "atu_cache_miss_oxe*"] {
            assert!(places(unknown).is_empty(), "{unknown}");
        }
    }
}
