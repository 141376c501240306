//! The pairs of NICs that show why the links between two groups are slow (diagnosis.md 4.3).

use std::collections::BTreeMap;

use super::causes::procedure::DiagnosisCourse;
use super::slots::MeasuredSlot;
use crate::causes::procedure::{TestCode, TestRoute};
use campaign::quiet::answer::Pair;
use campaign::quiet::findings::{Direction, Findings, Unit};
use campaign::quiet::ids::{NicId, TestId};
use campaign::quiet::roster::Roster;
use campaign::quiet::states::State;

/// Ordered flows across the links of the culprit, and across other links.
const FLOWS: usize = 16;
const OF_OTHERS: usize = 8;

/// Most NICs of a group that take part.
const MOST_OF_GROUP: usize = 4;

/// Pairs that repeat the test of the survey: if it is ordered, each of them may have another path.
const OF_SURVEY: usize = 3;

/// Returns in which directions links between groups are slow, as the groups that send and receive.
pub fn directions([one, other]: [u16; 2], slow: Direction) -> Vec<[u16; 2]> {
    let [there, back] = [[one, other], [other, one]];
    match slow {
        Direction::Initiator => vec![there],
        Direction::Target => vec![back],
        Direction::Both => vec![there, back],
    }
}

/// Pairs across links between groups, in one direction.
#[derive(Debug, PartialEq)]
pub struct Crossings {
    /// Between the groups of the culprit.
    own: Vec<Pair>,
    /// Between other groups, whose links are good.
    others: Vec<Pair>,
    /// Whether all of these NICs are good. If not, the others are untested.
    pub are_good: bool,
}

impl Crossings {
    /// Returns the pairs from the first group to the second one, of good NICs if there are any;
    /// `None` if one of them has neither good nor untested NICs.
    pub fn of(
        roster: &Roster,
        verdict: &Findings,
        states: &[State],
        groups: [u16; 2],
    ) -> Option<Self> {
        let mut nics: BTreeMap<u16, Vec<NicId>> = BTreeMap::new();
        let state_nics = |state| roster.nic_ids().filter(move |nic| states[nic.index()] == state);
        let is_present = |nic: &NicId| {
            roster.node_of(*nic).absent.is_none() && roster.nic(*nic).failure.is_none()
        };
        for nic in state_nics(State::Good).chain(state_nics(State::Untested).filter(is_present)) {
            if let Some(at) = roster.nic(nic).location {
                let group_nics = nics.entry(at.group).or_default();
                if group_nics.len() < MOST_OF_GROUP {
                    group_nics.push(nic);
                }
            }
        }
        let pairs = |[from, to]: [u16; 2]| {
            let ends = nics.get(&from).zip(nics.get(&to));
            ends.map_or(Vec::new(), |(from, to)| crossed(from, to))
        };
        let own = pairs(groups);
        let is_blamed = |pair: &[u16; 2]| {
            let [one, other] = [pair[0].min(pair[1]), pair[0].max(pair[1])];
            let mut causes = verdict.causes.iter();
            causes.any(|cause| cause.unit == Unit::GroupPair(one, other))
        };
        let all = nics.keys().flat_map(|from| {
            let others = nics.keys().filter(move |to| *to != from);
            others.map(move |to| [*from, *to])
        });
        let mut between: Vec<[u16; 2]> = all
            .filter(|pair| !is_blamed(pair) && !pair.iter().all(|group| groups.contains(group)))
            .collect();
        between.sort_by_key(|pair| pair.iter().any(|group| groups.contains(group)));
        let lists: Vec<Vec<Pair>> = between.into_iter().map(pairs).collect();
        let others =
            (0..FLOWS).flat_map(|place| lists.iter().filter_map(move |list| list.get(place)));
        let others: Vec<Pair> = others.take(OF_OTHERS).copied().collect();
        let mut ends = own.iter().chain(&others).flat_map(|pair| pair.nics());
        let are_good = ends.all(|nic| states[nic.index()] == State::Good);
        (!own.is_empty()).then_some(Self { own, others, are_good })
    }

    /// Returns the NICs of all pairs.
    pub fn nics(&self) -> impl Iterator<Item = NicId> {
        let pairs = self.own.iter().chain(&self.others);
        pairs.flat_map(|pair| pair.nics())
    }

    /// Returns the NIC that sends first, and the NICs of the first pair between other groups.
    pub fn first(&self) -> (NicId, Vec<NicId>) {
        let others = self.others.first().map_or(Vec::new(), |pair| pair.nics().into());
        (self.own[0].initiator, others)
    }

    /// Returns the slots: ordered flows, writes that are not ordered, and the test of the survey,
    /// with pairs between other groups in turn.
    pub fn slots(&self, survey_test: TestId, tests: &DiagnosisCourse) -> Vec<MeasuredSlot> {
        // A flow across other links is measured before every `each` flows across the own ones.
        let slots = |code: TestCode, test: TestId, flows: usize, each: usize| {
            let slot = move |is_culprit: bool, pair: &Pair| MeasuredSlot {
                code,
                route: TestRoute::From,
                is_culprit,
                test,
                pair: *pair,
            };
            let own = self.own.iter().take(flows).enumerate();
            own.flat_map(move |(place, pair)| {
                let is_next = place % each == 0;
                let other = self.others.get(place / each).filter(|_| is_next);
                let other = other.map(|pair| slot(false, pair));
                other.into_iter().chain([slot(true, pair)])
            })
        };
        let place = |code| tests.place(code);
        slots(TestCode::O, place(TestCode::O), FLOWS, FLOWS / OF_OTHERS)
            .chain(slots(TestCode::B4, place(TestCode::B4), OF_SURVEY, 1))
            .chain(slots(TestCode::S, survey_test, OF_SURVEY, 1))
            .collect()
    }
}

/// Returns as many pairs as there are flows, the next ones always with other NICs. Each pair comes
/// as often as the others.
fn crossed(from: &[NicId], to: &[NicId]) -> Vec<Pair> {
    let pair = |place: usize| {
        let (turn, source) = (place / from.len(), place % from.len());
        Pair { initiator: from[source], target: to[(source + turn) % to.len()] }
    };
    (0..FLOWS).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use campaign::quiet::findings::{Cause, Certainty};
    use campaign::quiet::ids::NodeId;
    use campaign::quiet::roster::{Nic, Node};
    use crew::location::Location;

    /// Returns a roster with this many NICs in each group.
    fn roster(groups: &[u16]) -> Roster {
        let groups = (0..).zip(groups).flat_map(|(group, count)| (0..*count).map(move |_| group));
        let groups: Vec<u16> = groups.collect();
        let node = |rank| Node { host: format!("n{rank}"), rank, absent: None };
        let nic = |(node, group): (u32, &u16)| Nic {
            node: NodeId(node),
            device: "cxi0".into(),
            nid: Some(node),
            location: Some(Location { group: *group, switch: 0, port: None }),
            failure: None,
        };
        Roster {
            nodes: (0..groups.len() as u32).map(node).collect(),
            nics: (0..).zip(&groups).map(nic).collect(),
            ..Roster::default()
        }
    }

    fn blamed(pairs: &[(u16, u16)]) -> Findings {
        let cause = |(one, other): &(u16, u16)| Cause {
            unit: Unit::GroupPair(*one, *other),
            certainty: Certainty::Bad,
            direction: Direction::Both,
            evidence: Vec::new(),
            counters: Vec::new(),
        };
        Findings { causes: pairs.iter().map(cause).collect(), ..Findings::default() }
    }

    /// Returns the groups of these pairs.
    fn groups(roster: &Roster, pairs: &[Pair]) -> Vec<[u16; 2]> {
        let group = |nic: NicId| roster.nic(nic).location.map_or(0, |at| at.group);
        pairs.iter().map(|pair: &Pair| pair.nics().map(group)).collect()
    }

    #[test]
    fn flows_cross_between_good_nics_of_the_groups() {
        let roster = roster(&[6, 4, 3, 2]);
        let mut states = vec![State::Good; roster.nics.len()];
        states[1] = State::Untested;
        let verdict = blamed(&[(0, 1), (1, 3)]);
        let found = Crossings::of(&roster, &verdict, &states, [1, 0]).unwrap();
        assert_eq!(groups(&roster, &found.own), [[1, 0]; 16]);
        let pairs = found.own.iter().map(|pair| (pair.initiator, pair.target));
        assert_eq!(pairs.collect::<BTreeSet<_>>().len(), 16);
        assert!(found.are_good);
        // Blamed ones are left out, and the others take turns: those without these groups first.
        let others = [[2, 3], [3, 2], [0, 2], [0, 3], [1, 2], [2, 0], [2, 1], [3, 0]];
        assert_eq!(groups(&roster, &found.others), others);
        states[7..10].fill(State::Untested);
        let untested = Crossings::of(&roster, &verdict, &states, [1, 0]).unwrap();
        assert!(!untested.are_good);
        states[6..10].fill(State::Bad);
        assert_eq!(Crossings::of(&roster, &verdict, &states, [1, 0]), None);
    }

    #[test]
    fn only_slow_directions_are_measured() {
        let lists = |slow| directions([2, 12], slow);
        assert_eq!(lists(Direction::Initiator), [[2, 12]]);
        assert_eq!(lists(Direction::Target), [[12, 2]]);
        assert_eq!(lists(Direction::Both), [[2, 12], [12, 2]]);
    }

    #[test]
    fn each_pair_comes_as_often() {
        let nics = |count| NicId::first(count).collect::<Vec<_>>();
        for (from, to, each) in [(4, 4, 1), (4, 2, 2), (2, 4, 2), (1, 1, 16), (4, 1, 4)] {
            let all = crossed(&nics(from), &nics(to));
            let most = all.iter().map(|pair| all.iter().filter(|other| *other == pair).count());
            assert_eq!(most.max(), Some(each), "{from} {to}");
        }
    }
}
