//! Values in groups of equal keys.

/// The values of each key, in the order of the first value of each. The number of keys is small:
/// each value is compared with all of them.
pub fn by_key<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_order_of_their_first_values() {
        let groups = by_key([("b", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 5)]);
        assert_eq!(groups, [("b", vec![1, 3]), ("a", vec![2, 5]), ("c", vec![4])]);
    }
}
