//! What the shape of a fabric allows (load.md 2.1).

use std::collections::BTreeMap;

use super::spec::{Distance, Pattern, Set};
use campaign::quiet::roster::Roster;

/// The largest part of a link's rate that is payload: 2048 of 2112 bytes of a packet.
pub const PAYLOAD: f64 = 2048.0 / 2112.0;

/// A regular dragonfly. Rates are in bytes per second and direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FabricShape {
    pub groups: u32,
    /// Switches of a group.
    pub switches: u32,
    /// NICs of a switch.
    pub nics: u32,
    /// Links between two groups.
    pub links: u32,
    pub nic_rate: f64,
    /// Rate of the links between two switches of a group, together.
    pub local_rate: f64,
    /// Rate of one link between groups.
    pub global_rate: f64,
    /// Whether each packet takes the minimal path.
    pub is_minimal: bool,
}

impl FabricShape {
    /// Returns whether the roster has all NICs of the fabric: in a part of it, NICs share fewer
    /// links.
    pub fn is_of(&self, roster: &Roster) -> bool {
        let mut nics_by_group: BTreeMap<u16, u32> = BTreeMap::new();
        for place in roster.nic_ids().filter_map(|nic| roster.location(nic)) {
            *nics_by_group.entry(place.group).or_default() += 1;
        }
        let group_size = self.switches * self.nics;
        nics_by_group.len() as u32 == self.groups
            && nics_by_group.values().all(|count| *count == group_size)
    }

    /// Returns this shape with all rates in proportion to the measured bandwidth of a NIC, so that
    /// overheads of packets and of NICs do not lower a share of theory.
    pub fn scaled_to(self, quiet_bandwidth: f64) -> Self {
        let ratio = quiet_bandwidth / self.nic_rate;
        Self {
            nic_rate: quiet_bandwidth,
            local_rate: self.local_rate * ratio,
            global_rate: self.global_rate * ratio,
            ..self
        }
    }

    /// Returns the number of NICs of a group.
    fn nics_of_group(&self) -> f64 {
        f64::from(self.switches) * f64::from(self.nics)
    }

    /// Returns the rate of the links from one group to another one.
    fn between_groups(&self) -> f64 {
        f64::from(self.links) * self.global_rate
    }

    /// Returns the rate of the links from a group to all others.
    pub fn global_out(&self) -> f64 {
        f64::from(self.groups.saturating_sub(1)) * self.between_groups()
    }

    /// Returns the rate of the links from half of the groups to the others.
    pub fn cut(&self) -> f64 {
        let (half, others) = (self.groups / 2, self.groups.div_ceil(2));
        f64::from(half) * f64::from(others) * self.between_groups()
    }

    /// Returns the bandwidth of a NIC while half of the groups send to the others. On minimal
    /// paths, the links to the group that an odd number leaves over carry nothing.
    pub fn bisection_of_nic(&self) -> f64 {
        let half = f64::from(self.groups / 2);
        let links = if self.is_minimal { half * half * self.between_groups() } else { self.cut() };
        self.nic_rate.min(links / (half * self.nics_of_group()))
    }

    /// Returns the bandwidth of a NIC while each sends equally to all.
    pub fn all_to_all_of_nic(&self) -> f64 {
        let links = f64::from(self.groups) * self.between_groups();
        self.nic_rate.min(links / self.nics_of_group())
    }

    /// Returns the bandwidth of a NIC while each group sends to the next one: on minimal paths, or
    /// by detours over all other groups.
    pub fn worst_shift_of_nic(&self) -> f64 {
        let links = if self.is_minimal { self.between_groups() } else { self.global_out() / 2.0 };
        self.nic_rate.min(links / self.nics_of_group())
    }

    /// Returns the bandwidth of a NIC under a pattern. `None` for patterns whose bandwidth depends
    /// on chance or on the routes, and for fabrics of one group.
    pub fn nic_value(&self, pattern: Pattern) -> Option<f64> {
        match pattern {
            Pattern::Quiet | Pattern::Bisect { of: Set::Switch, .. } => Some(self.nic_rate),
            _ if self.groups < 2 => None,
            Pattern::Bisect { of: Set::System, .. } => Some(self.bisection_of_nic()),
            Pattern::AllToAll => Some(self.all_to_all_of_nic()),
            Pattern::Shift(Distance::Group) => Some(self.worst_shift_of_nic()),
            Pattern::Bisect { .. } | Pattern::Shift(_) | Pattern::Incast(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::quiet::testing::Cluster;

    fn large(groups: u32, links: u32) -> FabricShape {
        FabricShape {
            groups,
            switches: 32,
            nics: 16,
            links,
            nic_rate: 25e9,
            local_rate: 25e9,
            global_rate: 25e9,
            is_minimal: true,
        }
    }

    /// Returns the rate at which the NICs of a group can send.
    fn injection(shape: FabricShape) -> f64 {
        shape.nics_of_group() * shape.nic_rate
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 2e-3, "{found}, not {expected}");
    }

    #[test]
    fn shape_of_74_groups_allows_what_vector_19_says() {
        let shape = large(74, 4);
        close(injection(shape), 12.8e12);
        close(shape.global_out(), 7.30e12);
        close(shape.global_out() / injection(shape), 0.570);
        close(shape.cut(), 136.9e12);
        close(shape.bisection_of_nic(), 7.23e9);
        close(shape.all_to_all_of_nic(), 14.45e9);
        close(shape.worst_shift_of_nic(), 0.195e9);
        let adaptive = FabricShape { is_minimal: false, ..shape };
        close(adaptive.worst_shift_of_nic(), 7.13e9);
    }

    #[test]
    fn shape_of_166_groups_allows_what_vector_20_says() {
        let shape = large(166, 2);
        close(shape.global_out() / injection(shape), 0.645);
        close(shape.bisection_of_nic(), 8.11e9);
        close(shape.all_to_all_of_nic(), 16.21e9);
        close(f64::from(shape.groups) * shape.global_out(), 1369.5e12);
    }

    #[test]
    fn measured_bandwidth_of_nic_scales_links_too() {
        let shape = large(74, 4).scaled_to(21.5e9);
        close(shape.global_out() / injection(shape), 0.570);
        let system = Pattern::Bisect { of: Set::System, both_ways: false };
        close(shape.nic_value(system).unwrap(), 7.23e9 * 0.86);
        close(shape.nic_value(Pattern::Quiet).unwrap(), 21.5e9);
        assert_eq!(shape.nic_value(Pattern::Incast(8)), None);
        assert_eq!(large(1, 0).nic_value(system), None);
    }

    #[test]
    fn odd_number_of_groups_leaves_links_unused_on_minimal_paths() {
        let minimal = large(5, 4);
        close(minimal.bisection_of_nic(), 2.0 * 100e9 / 512.0);
        let adaptive = FabricShape { is_minimal: false, ..minimal };
        close(adaptive.bisection_of_nic(), 3.0 * 100e9 / 512.0);
    }

    #[test]
    fn shape_is_of_a_roster_with_all_its_nics() {
        let shape = FabricShape { groups: 4, switches: 2, nics: 2, ..large(4, 1) };
        for (sizes, expected) in [
            ([4, 2, 2, 1], true),
            ([3, 2, 2, 1], false),
            ([4, 2, 1, 1], false),
            ([4, 2, 3, 1], false),
        ] {
            let roster = Cluster::new(sizes, &[], 1).roster;
            assert_eq!(shape.is_of(&roster), expected, "{sizes:?}");
        }
    }
}
