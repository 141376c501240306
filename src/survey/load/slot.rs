//! A load slot: all its flows, and what its results are counted for.

use super::findings::Spread;
use super::pattern::Pattern;
use campaign::quiet::answer::Pair;
use campaign::quiet::ids::{NicId, TestId};

/// The test whose target the operations of aggressors address.
pub const AGGRESSOR_TEST: TestId = TestId(0);

/// The test of victims in the traffic class of the aggressors.
pub const VICTIM: TestId = TestId(1);

/// The test of victims in another traffic class, if the survey has one.
pub const VICTIM_IN_OTHER_CLASS: TestId = TestId(2);

/// What a load slot is for. Results of load slots with the same purpose belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadMeasurement {
    /// Whether a part of the load is harmless: not counted.
    Ramp,
    Bandwidth(Pattern),
    /// The latencies of victims, without load and with the load of a pattern in turn.
    Victims(VictimKey),
}

/// What the results of victims belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VictimKey {
    /// The pattern of the aggressors.
    pub under: Pattern,
    /// Whether victims are the target of the incast.
    pub at_target: bool,
    /// How roles are dealt.
    pub spread: Spread,
    /// Whether victims measure in another traffic class.
    pub in_other_class: bool,
}

impl VictimKey {
    /// Returns the victims beside a pattern, in its traffic class.
    pub fn new(under: Pattern, spread: Spread) -> Self {
        Self { under, at_target: false, spread, in_other_class: false }
    }
}

/// A NIC that sends to others in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadFlow {
    /// The NIC that sends.
    pub source: NicId,
    /// The NICs to which it sends.
    pub peers: Vec<NicId>,
}

/// All flows of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSlot {
    pub purpose: LoadMeasurement,
    /// Number of the repetition, from 0: others have other roles.
    pub repetition: u32,
    /// Number of the load slot in its repetition, from 0. Load slots of victims come quiet, loaded,
    /// loaded, quiet.
    pub place: u32,
    /// The load; empty in a quiet load slot of victims.
    pub flows: Vec<LoadFlow>,
    /// Pairs that measure; empty without victims.
    pub victims: Vec<Pair>,
    /// Length of the slot, in nanoseconds.
    pub slot_ns: u64,
    /// Bytes that an aggressor has under way at most.
    pub window_bytes: u64,
}

impl LoadSlot {
    /// Returns whether it is a load slot of victims without load.
    pub fn is_quiet(&self) -> bool {
        self.flows.is_empty()
    }

    /// Leaves out flows from and to NICs that `is_known` refuses.
    pub fn retain(&mut self, is_known: impl Fn(NicId) -> bool) {
        for flow in &mut self.flows {
            flow.peers.retain(|peer| is_known(*peer));
        }
        self.flows.retain(|flow: &LoadFlow| is_known(flow.source) && !flow.peers.is_empty());
    }

    pub fn victim_test(&self) -> TestId {
        match self.purpose {
            LoadMeasurement::Victims(key) if key.in_other_class => VICTIM_IN_OTHER_CLASS,
            _ => VICTIM,
        }
    }
}
