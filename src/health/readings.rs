//! What the files of a NIC and its node say: the items of `cxidiag check`, as the documents have
//! them.

use crate::item::Finding;

/// The items of a NIC and its node.
pub type Readings = Vec<Finding>;

/// Returns the numbers of the values of two items with one code, where they have some. `None` if
/// these count different things.
pub fn numbers(one: &Finding, other: &Finding) -> Option<[Option<f64>; 2]> {
    let are_known = one.number.is_some() && other.number.is_some();
    (!are_known || one.unit == other.unit).then_some([one.number, other.number])
}

/// Returns the item with this code, if it has a value.
pub fn find<'a>(readings: &'a [Finding], code: &str) -> Option<&'a Finding> {
    readings.iter().find(|reading| reading.code == code && reading.value.is_some())
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Readings of made-up NICs.

    use super::*;
    use facts::severity::Severity;

    /// Units of values, and their sizes in base units.
    const UNITS: [(&str, f64); 4] =
        [("GiB", (1_u64 << 30) as f64), ("GT/s", 1e9), ("Gb/s", 1e9 / 8.0), ("us", 1e-6)];

    /// Returns an item. Its code is its name, too, and its number begins its value.
    pub fn reading(code: &str, value: &str, verdict: Severity) -> Finding {
        let mut words = value.trim_start_matches('x').split(' ');
        let number = words.next().and_then(|word| word.parse::<f64>().ok());
        let unit = words.next().unwrap_or_default();
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, scale)| *scale);
        Finding {
            value: Some(value.into()),
            number: number.map(|number| number * scale),
            verdict,
            ..Finding::named(code, code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::reading;
    use super::*;
    use facts::severity::Severity;

    #[test]
    fn numbers_of_different_things_are_not_compared() {
        let memory = |gigabytes: f64, unit: Option<&str>| Finding {
            number: Some(gigabytes),
            unit: unit.map(str::to_owned),
            ..reading("memory-size", "", Severity::Shown)
        };
        let each = Some("B in each of 2 NUMA nodes");
        let both = |one, other| numbers(&one, &other);
        assert_eq!(both(memory(512.0, None), memory(512.0, each)), None);
        let comparable = both(memory(448.0, each), memory(512.0, each));
        assert_eq!(comparable, Some([Some(448.0), Some(512.0)]));
        let text = reading("esm", "Disabled", Severity::Shown);
        assert_eq!(both(text, memory(8.0, None)), Some([None, Some(8.0)]));
    }
}
