//! The names of counters that the readings of many NICs share.

/// The names, in the order of the readings, and their positions in alphabetical order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterNames {
    names: Vec<String>,
    sorted: Vec<usize>,
}

impl CounterNames {
    /// Returns a table of names.
    pub fn new(names: Vec<String>) -> Self {
        let mut sorted: Vec<usize> = (0..names.len()).collect();
        sorted.sort_by(|a, b| names[*a].cmp(&names[*b]));
        Self { names, sorted }
    }

    /// Returns the names, in the order of the readings.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the position of a name among the readings.
    pub fn position(&self, name: &str) -> Option<usize> {
        let found =
            (self.sorted).binary_search_by(|position| self.names[*position].as_str().cmp(name));
        Some(self.sorted[found.ok()?])
    }

    /// Returns all names in alphabetical order, with their positions.
    pub fn sorted(&self) -> impl Iterator<Item = (&str, usize)> {
        let sorted = self.sorted.iter();
        sorted.map(|position| (self.names[*position].as_str(), *position))
    }

    /// Returns what follows `prefix` in each name that begins with it, with the position of the
    /// name, in alphabetical order.
    pub fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, usize)> {
        let is_before = |position: &usize| self.names[*position].as_str() < prefix;
        let from = &self.sorted[self.sorted.partition_point(is_before)..];
        from.iter().map_while(move |position| {
            Some((self.names[*position].strip_prefix(prefix)?, *position))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(names: &[&str]) -> CounterNames {
        CounterNames::new(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn finds_names_in_any_order() {
        let names = table(&["c_1", "a", "c_0", "b"]);
        assert_eq!(names.position("c_0"), Some(2));
        assert_eq!(names.position("d"), None);
        assert_eq!(names.position(""), None);
        assert!(names.sorted().eq([("a", 1), ("b", 3), ("c_0", 2), ("c_1", 0)]));
        assert!(names.with_prefix("c_").eq([("0", 2), ("1", 0)]));
        assert!(names.with_prefix("d").next().is_none());
    }

    proptest! {
        #[test]
        fn finds_exactly_the_names_of_the_table(
            names in proptest::collection::vec("[a-c_]{0,3}", 0..20),
            wanted in "[a-d_]{0,3}",
        ) {
            let table = CounterNames::new(names.clone());
            let found = table.position(&wanted).map(|position| names[position].as_str());
            prop_assert_eq!(found.is_some(), names.contains(&wanted));
            prop_assert!(found.is_none_or(|name| name == wanted));
            let with_prefix = names.iter().filter(|name| name.starts_with(&wanted)).count();
            prop_assert_eq!(table.with_prefix(&wanted).count(), with_prefix);
        }
    }
}
