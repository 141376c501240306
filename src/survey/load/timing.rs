//! How long slots are, and how much an aggressor has under way (load.md 3.4 and 4.6).

use std::collections::HashMap;

use crate::slot::{LoadFlow, LoadSlot};
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;

/// The length of slots of fast NICs.
const USUAL_NS: u64 = 250_000_000;

/// The longest slot: a NIC that pauses its switch for longer loses all packets.
const LONGEST_NS: u64 = 1_000_000_000;

/// Slots are whole multiples of this time.
const STEP_NS: u64 = 10_000_000;

/// Most time of the load slots of a block: load without a coordinator ends within this time.
const BLOCK_NS: u64 = 2_000_000_000;

/// How often the flows that share a link fill their windows in a slot.
const TURNS: f64 = 5.0;

/// Least number of flows for which there is time.
const LEAST_CROWD: f64 = 4.0;

/// How the slots of a step are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTiming {
    /// Length of the slot, in nanoseconds.
    pub slot_ns: u64,
    /// Bytes that an aggressor has under way at most.
    pub window_bytes: u64,
}

impl SlotTiming {
    /// Returns the number of slots of a block, at least one.
    pub fn slots_of_block(self) -> usize {
        (BLOCK_NS / self.slot_ns).max(1) as usize
    }

    /// Sets the timing of a slot.
    pub fn set(self, slot: &mut LoadSlot) {
        (slot.slot_ns, slot.window_bytes) = (self.slot_ns, self.window_bytes);
    }
}

/// Bytes of the load, as the user wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSizes {
    /// Bytes of an operation.
    pub size_bytes: u64,
    /// Bytes that an aggressor has under way at most.
    pub window_bytes: u64,
}

/// Returns the timing of slots in which up to `crowd` windows share a link of this rate in bytes
/// per second. Without a known rate, NICs are taken for fast ones. If the longest slot is too
/// short, the window shrinks, down to one operation.
pub fn timing(crowd: f64, rate: Option<f64>, sizes: LoadSizes) -> SlotTiming {
    let window = sizes.window_bytes.max(sizes.size_bytes);
    let crowd = crowd.max(LEAST_CROWD);
    let Some(rate) = rate.filter(|rate| *rate > 0.0) else {
        return SlotTiming { slot_ns: USUAL_NS, window_bytes: window };
    };
    let needed_ns = (TURNS * crowd * window as f64 / rate * 1e9) as u64;
    if needed_ns <= LONGEST_NS {
        return SlotTiming {
            slot_ns: needed_ns.next_multiple_of(STEP_NS).max(USUAL_NS),
            window_bytes: window,
        };
    }
    let fitting = (rate * LONGEST_NS as f64 / 1e9 / (TURNS * crowd)) as u64;
    let operations = (fitting / sizes.size_bytes.max(1)).max(1);
    SlotTiming { slot_ns: LONGEST_NS, window_bytes: operations * sizes.size_bytes }
}

/// A link that flows share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SharedLink {
    /// The port of a target.
    Target(NicId),
    /// The link from one switch of a group to another one.
    Switches { group: u16, from: u16, to: u16 },
    /// The links from one group to another one.
    Groups(u16, u16),
}

/// Returns the most windows that share a port of a NIC or, if packets take minimal paths, a link.
/// `links` is the number of links from one group to another one. A source that sends to several
/// NICs has a part of its window under way to each.
pub fn crowd(flows: &[LoadFlow], roster: &Roster, links: u32) -> f64 {
    let mut windows: HashMap<SharedLink, f64> = HashMap::new();
    for flow in flows {
        let window = 1.0 / flow.peers.len() as f64;
        for peer in &flow.peers {
            *windows.entry(SharedLink::Target(*peer)).or_default() += window;
            let ends = [flow.source, *peer].map(|nic| roster.location(nic));
            let [Some(from), Some(to)] = ends else {
                continue;
            };
            if from.group != to.group {
                let between = SharedLink::Groups(from.group, to.group);
                *windows.entry(between).or_default() += window / f64::from(links.max(1));
            } else if from.switch != to.switch {
                let between =
                    SharedLink::Switches { group: from.group, from: from.switch, to: to.switch };
                *windows.entry(between).or_default() += window;
            }
        }
    }
    windows.into_values().fold(0.0, f64::max)
}
