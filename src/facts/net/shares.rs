//! The connection that gives way to a new one where places are few: hosts share the places.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

/// Returns the index of the connection with the smallest key of the host that has the most
/// `connections`, and the number of connections of this host. Hosts with up to `few` connections
/// count as if they had `few`.
pub fn first_of_largest_host<K: Ord>(
    connections: impl Iterator<Item = (IpAddr, K)> + Clone,
    few: usize,
) -> Option<(usize, usize)> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for (host, _) in connections.clone() {
        *counts.entry(host).or_default() += 1;
    }
    let weighed = connections.enumerate();
    let weighed = weighed.map(|(index, (host, key))| (counts[&host].max(few), Reverse(key), index));
    weighed.max().map(|(count, _, index)| (index, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_smallest_key_of_the_host_with_most_connections() {
        let chosen = |connections: &[(u8, u32)], few| {
            let connections = connections.iter();
            let connections =
                connections.map(|(host, key)| (IpAddr::from([10, 0, 0, *host]), *key));
            first_of_largest_host(connections, few)
        };
        assert_eq!(chosen(&[], 0), None);
        let three = [(1, 9), (2, 0), (1, 7), (1, 8)];
        assert_eq!(chosen(&three, 2), Some((2, 3)));
        assert_eq!(chosen(&three, 3), Some((1, 3)));
        // Of two hosts with as many connections, the smallest key decides.
        assert_eq!(chosen(&[(1, 5), (2, 4), (1, 6), (2, 7)], 0), Some((1, 2)));
    }
}
