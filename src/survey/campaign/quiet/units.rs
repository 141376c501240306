//! The parts of a cluster that NICs and pairs belong to.

use super::answer::Pair;
use super::findings::Unit;
use super::ids::{NicId, Role};
use super::roster::Roster;
use crew::location::Location;

/// Returns the NICs of a part; none for paths and pairs of groups.
pub fn members(unit: Unit, roster: &Roster) -> Vec<NicId> {
    let is_in = |nic: &NicId| {
        let own = roster.nic(*nic);
        match unit {
            Unit::Switch { group, switch } => {
                own.location.is_some_and(|place| (place.group, place.switch) == (group, switch))
            }
            Unit::Group(group) => own.location.is_some_and(|place| place.group == group),
            _ => false,
        }
    };
    match unit {
        Unit::Nic(nic) => vec![nic],
        Unit::Node(node) => {
            let first = roster.nics.partition_point(|nic| nic.node < node);
            let end = roster.nics.partition_point(|nic| nic.node <= node);
            (first as u32..end as u32).map(NicId).collect()
        }
        Unit::GroupPair(..) | Unit::Path(_) => Vec::new(),
        Unit::Switch { .. } | Unit::Group(_) => roster.nic_ids().filter(is_in).collect(),
    }
}

/// Returns the parts that a NIC belongs to, the smallest first.
pub fn parts_of_nic(roster: &Roster, nic: NicId) -> [Option<Unit>; 4] {
    let own = roster.nic(nic);
    let place = own.location;
    [
        Some(Unit::Nic(nic)),
        Some(Unit::Node(own.node)),
        place.map(|place| Unit::Switch { group: place.group, switch: place.switch }),
        place.map(|place| Unit::Group(place.group)),
    ]
}

/// Returns the larger parts of the fabric that a pair belongs to: switches and groups of both NICs,
/// each once, and the pair of groups.
pub fn parts_of_pair(roster: &Roster, pair: Pair) -> [Option<Unit>; 5] {
    let [one, other] = pair.nics().map(|nic| roster.location(nic));
    let switch = |place: Location| Unit::Switch { group: place.group, switch: place.switch };
    let (one_unit, other_unit) = (one.map(switch), other.map(switch));
    let (group, other_group) = (one.map(|place| place.group), other.map(|place| place.group));
    if pair.is_loopback() {
        return [None; 5];
    }
    [
        one_unit,
        other_unit.filter(|_| one_unit != other_unit),
        group.map(Unit::Group),
        other_group.filter(|_| group != other_group).map(Unit::Group),
        group_pair(roster, pair),
    ]
}

/// Returns the groups of a pair between two groups.
pub fn group_pair(roster: &Roster, pair: Pair) -> Option<Unit> {
    crossing(roster, pair).map(|(unit, _)| unit)
}

/// Returns the groups of a pair between two groups, and the role of the group with the smaller
/// number.
pub fn crossing(roster: &Roster, pair: Pair) -> Option<(Unit, Role)> {
    let group = |nic: NicId| Some(roster.location(nic)?.group);
    let (one, other) = (group(pair.initiator)?, group(pair.target)?);
    let role = if one < other { Role::Initiator } else { Role::Target };
    (one != other).then(|| (Unit::GroupPair(one.min(other), one.max(other)), role))
}
