//! The state of each NIC, from the findings.

use super::findings::{Certainty, Evidence, Findings, Unit, UntestedPart};
use super::ids::NicId;
use super::roster::{self, Nic, Roster};

facts::named_enum! {
    /// The state of a NIC, the worst last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum State {
        /// The NIC and the parts that it belongs to are good.
        Good = "good",
        /// The NIC is in no pair: nothing is known about it.
        Unpaired = "unpaired",
        /// The NIC or its node was left out at least once, or not judged in a test.
        Untested = "untested",
        /// The NIC belongs to a suspect part, or it is an end of a path that is suspect or bad.
        Suspect = "suspect",
        /// The NIC belongs to a bad part.
        Bad = "bad",
    }
    pub fn name(self);
}

/// Returns the state of the NICs of a part; `None` if it says nothing about them.
pub fn state_of(certainty: Certainty) -> Option<State> {
    match certainty {
        Certainty::Bad => Some(State::Bad),
        Certainty::Suspect => Some(State::Suspect),
        Certainty::Transient => None,
    }
}

/// Returns the state of each NIC of the roster without load.
pub fn states(roster: &Roster, verdict: &Findings) -> Vec<State> {
    let nic_state = |nic: &Nic| {
        let is_absent = roster.node(nic.node).absent.is_some();
        if is_absent || nic.failure.is_some() || verdict.answered == 0 {
            State::Untested
        } else {
            State::Good
        }
    };
    let mut states: Vec<State> = roster.nics.iter().map(nic_state).collect();
    for nic in &verdict.unpaired {
        states[nic.index()] = State::Unpaired;
    }
    let untested = verdict.untested.iter().map(|part| (&part.unit, State::Untested));
    let causes = verdict.causes.iter();
    let causes = causes.filter_map(|cause| Some((&cause.unit, state_of(cause.certainty)?)));
    for (unit, state) in untested.chain(causes) {
        let state = match (unit, state) {
            // Its ends are tested with other partners.
            (Unit::Path(_), State::Untested) => State::Good,
            (Unit::Path(_), _) => State::Suspect,
            _ => state,
        };
        for nic in members(roster, unit) {
            let known = &mut states[nic.index()];
            *known = state.max(*known);
        }
    }
    states
}

/// Returns the same states, except that NICs are good whose figures say something in a test that
/// shows the fault of a bad part: they do not have this fault.
pub fn states_beside_bad(roster: &Roster, verdict: &Findings) -> Vec<State> {
    let bad = verdict.causes.iter().filter(|cause| cause.certainty == Certainty::Bad);
    let shown: Vec<&Evidence> = bad.flat_map(|cause| &cause.evidence).collect();
    let is_found = |part: &UntestedPart, one: &Evidence| {
        let populations = verdict.populations.iter().filter(|other| other.test == one.test);
        let mut ratios = populations.filter_map(|population| population.sensitivity);
        let found = one.value.zip(one.median).map(|(own, median)| (own / median).ln().abs());
        part.is_coarse && found.is_some_and(|found| ratios.all(|ratio| ratio.ln() <= found))
    };
    let hides = |part: &UntestedPart, one: &Evidence| {
        part.tests.is_empty() || (part.tests.contains(&one.test) && !is_found(part, one))
    };
    let is_open = |part: &&UntestedPart| {
        let is_own = |other: &&UntestedPart| other.unit == part.unit;
        let own: Vec<&UntestedPart> = verdict.untested.iter().filter(is_own).collect();
        shown.iter().all(|one| own.iter().any(|part| hides(part, one)))
    };
    let untested = verdict.untested.iter().filter(is_open).cloned().collect();
    states(roster, &Findings { untested, ..verdict.clone() })
}

/// Returns the NICs of a part. A path has both of its ends. A pair of groups has none, because its
/// links belong to no NIC.
pub fn members(roster: &Roster, unit: &Unit) -> Vec<NicId> {
    match *unit {
        Unit::Path(pair) => vec![pair.initiator, pair.target],
        unit => roster::members(unit, roster),
    }
}
