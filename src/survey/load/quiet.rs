//! Bandwidths without load: few NICs send at a time, and share no link.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::located::{LocatedNic, switches};
use crate::slot::LoadFlow;

/// Least number of slots: a NIC that waits for its CPU in one slot has others on small fabrics.
const LEAST_SLOTS: usize = 8;

/// Without switches, one of this number of NICs sends at a time.
const SENDING_PART: usize = 8;

/// Returns the number of slots in which each NIC sends at least once.
pub fn slots(nics: &[LocatedNic]) -> u32 {
    let cycle = NicsBySwitch::new(nics).slots(0).len();
    if cycle == 0 {
        return 0;
    }
    (cycle * LEAST_SLOTS.div_ceil(cycle)) as u32
}

/// Returns the flows of a slot: of each two switches, one NIC of one sends to one NIC of the other
/// one. Switches of one group come first, because each two have a link of their own.
pub fn flows(nics: &[LocatedNic], slot: u32) -> Vec<LoadFlow> {
    let plan = NicsBySwitch::new(nics);
    let cycle = plan.slots(0).len();
    if cycle == 0 {
        return Vec::new();
    }
    let turn = slot as usize / cycle;
    plan.slots(turn).swap_remove(slot as usize % cycle)
}

/// The NICs by switch. Without at least two switches, each NIC counts as a switch.
struct NicsBySwitch<'a> {
    nics: &'a [LocatedNic],
    /// The NICs of each switch, as indices.
    units: Vec<Vec<usize>>,
    /// The switches of the group of each switch.
    groups: Vec<Range<usize>>,
    /// The switch of each NIC.
    unit_of: Vec<usize>,
    /// Most NICs that send at a time.
    most: usize,
}

impl<'a> NicsBySwitch<'a> {
    fn new(nics: &'a [LocatedNic]) -> Self {
        let has_switches = switches(nics).len() > 1;
        let key = |index: usize| match nics[index].switch.filter(|_| has_switches) {
            Some((group, switch)) => (Some(group), u32::from(switch)),
            None => (None, nics[index].nic.0),
        };
        let mut by_key: BTreeMap<(Option<u16>, u32), Vec<usize>> = BTreeMap::new();
        for index in 0..nics.len() {
            by_key.entry(key(index)).or_default().push(index);
        }
        let group_of: Vec<Option<u16>> = by_key.keys().map(|(group, _)| *group).collect();
        let range = |group: &Option<u16>| {
            let first = group_of.partition_point(|other| other < group);
            first..group_of.partition_point(|other| other <= group)
        };
        let groups = group_of.iter().map(range).collect();
        let units: Vec<Vec<usize>> = by_key.into_values().collect();
        let mut unit_of = vec![0; nics.len()];
        for (unit, members) in units.iter().enumerate() {
            members.iter().for_each(|index| unit_of[*index] = unit);
        }
        let most = if has_switches { usize::MAX } else { (nics.len() / SENDING_PART).max(1) };
        Self { nics, units, groups, unit_of, most }
    }

    /// Returns slots in which each NIC sends once. Other turns have other targets.
    fn slots(&self, turn: usize) -> Vec<Vec<LoadFlow>> {
        let mut slots = Vec::new();
        let mut open: Vec<usize> = (0..self.nics.len()).collect();
        loop {
            let mut is_busy = vec![false; self.units.len()];
            let (mut flows, mut later) = (Vec::new(), Vec::new());
            for source in open {
                let unit = self.unit_of[source];
                let target = if flows.len() == self.most || is_busy[unit] {
                    None
                } else {
                    self.target(source, turn, &is_busy)
                };
                let Some(target) = target else {
                    later.push(source);
                    continue;
                };
                is_busy[unit] = true;
                is_busy[self.unit_of[target]] = true;
                flows.push(LoadFlow {
                    source: self.nics[source].nic,
                    peers: vec![self.nics[target].nic],
                });
            }
            // NICs that are left have no partner in another node.
            if flows.is_empty() {
                return slots;
            }
            slots.push(flows);
            open = later;
        }
    }

    /// Returns a NIC of another node at the next switch without a flow: of the same group if there
    /// is one.
    fn target(&self, source: usize, turn: usize, is_busy: &[bool]) -> Option<usize> {
        let (unit, count) = (self.unit_of[source], self.units.len());
        let group = &self.groups[unit];
        let after = (unit + 1..group.end).chain(group.start..unit);
        let mut units = after.chain(group.end..count).chain(0..group.start);
        units.find_map(|other| {
            let members = &self.units[other];
            let is_apart = |index: &&usize| self.nics[**index].node != self.nics[source].node;
            let ordinal = self.units[unit].iter().position(|own| *own == source)?;
            let from = members.iter().cycle().skip((ordinal + turn) % members.len());
            let found = from.take(members.len()).find(is_apart).copied();
            found.filter(|_| !is_busy[other])
        })
    }
}
