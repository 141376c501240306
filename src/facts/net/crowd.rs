//! Which of many connections gives way to a new one: addresses share the places.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

/// Returns the index of the first connection, by its key, of the host that has most `connections`,
/// and how many this host has.
pub fn first_of_crowd<K: Ord>(
    connections: impl Iterator<Item = (IpAddr, K)> + Clone,
) -> Option<(usize, usize)> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for (host, _) in connections.clone() {
        *counts.entry(host).or_default() += 1;
    }
    let weighed = connections.enumerate();
    let weighed = weighed.map(|(index, (host, key))| (counts[&host], Reverse(key), index));
    weighed.max().map(|(count, _, index)| (index, count))
}
