//! An investigation: the members read the files of culprits and good NICs, and measure both in turn
//! (diagnosis.md 6.1). The pairs of NICs that show why the links between two groups are slow
//! (diagnosis.md 4.3).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::causes::evaluation::evaluate;
use super::causes::procedure::{DiagnosisCourse, TESTS, TestCode, TestRoute, TestStep, test};
use super::causes::table::FOREIGN;
use super::culprits::{CulpritNic, Explanation};
use super::slots::{Found, MeasuredSlot, SlotNics};
use campaign::quiet::answer::{Answer, PairResult, Stage, Untested};
use campaign::quiet::findings::{Direction, Findings, State};
use campaign::quiet::roster::{NicId, Pair, Roster, TestId, Unit};
use campaign::quiet::rounds::Round;
use campaign::slots::pace::{longest, sufficient};
use campaign::slots::{CheckedNodes, Crew, pairs};
use facts::error::Failure;
use facts::groups::by_key;
use facts::severity::Severity;
use health::item::{Readings, find};

/// Codes of items of `cxidiag check` that decide which NICs are compared.
pub const GENERATION: &str = "generation";
pub const PARKED_PEERS: &str = "parked-peers";
pub const HUGE_PAGES: &str = "huge-pages";

/// Good NICs beside which a culprit is measured.
pub const PARTNERS: usize = 2;

/// Why no cause is certain beside untested NICs.
pub const UNTESTED: &str = "nothing is certain: the NICs beside it are untested, because processes \
                            waited for CPUs";

const CPUS_MAKE_HOPS: &str = "CPUs make the hops of software NICs";

/// Free huge pages of 2 MiB that a test needs.
const HUGE_PAGES_OF_TEST: f64 = 4.0;

/// An investigation by the members of a survey. The verdict stands if some of them are lost.
pub struct Investigation<'a> {
    crew: &'a mut dyn Crew,
    tests: &'a DiagnosisCourse,
    /// Longest time that a process has needed for a pair, without the time in which pairs are
    /// measured.
    beyond: Duration,
}

impl<'a> Investigation<'a> {
    pub fn new(crew: &'a mut dyn Crew, tests: &'a DiagnosisCourse) -> Self {
        // Pairs for which the first slots are too short are measured again in long ones.
        let beyond = tests.pair() / 2;
        Self { crew, tests, beyond }
    }

    /// Prints a line that is not part of the result.
    pub fn note(&mut self, line: &str) {
        self.crew.note(line);
    }

    /// Asks these processes for checks of their NICs, except for those that are lost. A process
    /// without an answer has none.
    pub fn checks(&mut self, ranks: &BTreeSet<u32>) -> Result<Checks, Failure> {
        let present = self.crew.members().present(ranks);
        self.crew.check(&present, &line).map(Checks)
    }

    /// Prepares these processes for the tests.
    pub fn prepare(&mut self, ranks: &BTreeSet<u32>) -> Result<(), Failure> {
        let present = self.crew.members().present(ranks);
        self.crew.prepare(&present, &self.tests.course, &line).map(drop)
    }

    /// Measures a culprit beside good NICs.
    pub fn measure_culprit(
        &mut self,
        culprit: &CulpritNic,
        places: SlotNics,
        has_huge_pages: bool,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let survey_slots = places.survey_slots(culprit);
        self.run_slots(&survey_slots, found)?;
        let first = places.step_slots(TestStep::First, self.tests, |_| true);
        self.run_slots(&first, found)?;
        let second = places.step_slots(TestStep::Second, self.tests, |_| true);
        self.run_slots(&second, found)?;
        self.copy_memory(places, found)?;
        let has_hops = self.tests.has_hops(places.roster, places.nic);
        let third = places.step_slots(TestStep::Third, self.tests, |test| {
            let is_useful = test.repeats.is_some_and(|base| found.is_slower(base));
            let is_possible = has_hops || test.code != TestCode::T;
            is_useful && is_possible && (has_huge_pages || !test.needs_huge_pages)
        });
        self.run_slots(&third, found)?;
        if !has_hops && found.is_slower(TestCode::P1) {
            found.leave_out(TestCode::T, CPUS_MAKE_HOPS);
        }
        // What was slow must still be so: otherwise nothing has cured it. Hops that are not slow
        // must still be fast.
        let tests: BTreeSet<TestCode> = third.iter().map(|slot| slot.code).collect();
        let hops = tests.get(&TestCode::T).copied();
        let tests = tests.iter().filter_map(|code| test(*code)?.repeats);
        let repeated: BTreeSet<TestCode> = tests.chain(hops).collect();
        let repeated: Vec<TestCode> = repeated.into_iter().collect();
        self.measure_again(&repeated, places, found)?;
        // What decides is measured again: one measurement may have been an accident.
        match found.slowest() {
            Some(TestCode::S) => self.run_slots(&survey_slots, found),
            Some(slowest) => self.measure_again(&[slowest], places, found),
            None => Ok(()),
        }
    }

    /// Has the nodes of good NICs and of the culprit copy memory, in turn, if the culprit is slow
    /// in loopback: there memory may be the cause.
    fn copy_memory(&mut self, places: SlotNics, found: &mut Found) -> Result<(), Failure> {
        let in_loopback = [TestCode::L1, TestCode::B1, TestCode::B3];
        if !in_loopback.iter().any(|code| found.is_slower(*code)) {
            return Ok(());
        }
        let mut controls = places.controls.iter().take(PARTNERS);
        let first = controls.next().map(|nic| (*nic, false));
        let others = controls.map(|nic| (*nic, false));
        let turns = first.into_iter().chain([(places.nic, true)]).chain(others);
        let mut copies = Vec::new();
        for (nic, is_culprit) in turns {
            let rank = places.roster.node_of(nic).rank;
            if self.crew.members().present(&[rank].into()).is_empty() {
                continue;
            }
            let copy = self.crew.copy_memory(rank, &line)?;
            copies.extend(copy.map(|copy| (is_culprit, copy)));
        }
        found.add_memory_copies(&copies);
        Ok(())
    }

    /// Measures these tests again, except for the test of the survey.
    pub fn measure_again(
        &mut self,
        codes: &[TestCode],
        places: SlotNics,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let again = TESTS.iter().filter(|test| codes.contains(&test.code));
        let slots: Vec<MeasuredSlot> =
            again.flat_map(|test| places.test_slots(test, self.tests)).collect();
        self.run_slots(&slots, found)
    }

    /// Measures links between two groups in these directions beside links between others.
    pub fn measure_links(&mut self, links: &Crossings, evidence: TestId) -> Result<Found, Failure> {
        let mut found = Found::default();
        self.run_slots(&links.slots(evidence, self.tests), &mut found)?;
        Ok(found)
    }

    /// Measures in these slots, one pair at a time; again in longer ones where they were too short.
    fn run_slots(&mut self, slots: &[MeasuredSlot], found: &mut Found) -> Result<(), Failure> {
        let pair = self.tests.pair();
        let longest = longest(pair);
        let length = sufficient(pair, self.beyond);
        let mut late = Vec::new();
        for (slot, result) in self.run_block(slots, length)? {
            let is_short = matches!(
                result.answer,
                Answer::Untested(Untested::Late | Untested::ShortSlot | Untested::NoCpu)
            );
            if length < longest && is_short {
                late.push(slot);
            } else {
                found.add(&slot, &result, self.tests.is_of_bandwidth(slot.test));
            }
        }
        for (slot, result) in self.run_block(&late, longest)? {
            found.add(&slot, &result, self.tests.is_of_bandwidth(slot.test));
        }
        Ok(())
    }

    /// Returns what was measured in each of these slots of this length.
    fn run_block(
        &mut self,
        slots: &[MeasuredSlot],
        length: Duration,
    ) -> Result<Vec<(MeasuredSlot, PairResult)>, Failure> {
        let rounds: Vec<Round> = slots
            .iter()
            .map(|slot| Round { test: slot.test, stage: Stage::Comparison, pairs: vec![slot.pair] })
            .collect();
        if rounds.is_empty() {
            return Ok(Vec::new());
        }
        let block = pairs::measure(self.crew, &rounds, 0, length, &|test, _| test, &line)?;
        self.beyond = block.beyond.unwrap_or_default().max(self.beyond * 3 / 4);
        let slot = |result: &PairResult| slots.get(result.round as usize).copied();
        let results = block.pairs.into_iter();
        Ok(results.filter_map(|result| Some((slot(&result)?, result))).collect())
    }
}

/// The checks of nodes.
pub struct Checks(CheckedNodes);

impl Checks {
    /// Returns what the check of its node says about a NIC; nothing without a check.
    pub fn readings(&self, nic: NicId, roster: &Roster) -> Readings {
        let node = self.0.get(&roster.node_of(nic).rank);
        let readings = node.and_then(|node| node.get(&roster.nic(nic).device));
        readings.cloned().unwrap_or_default()
    }

    /// Returns what the checks say about several NICs.
    pub fn all_readings(&self, nics: &[NicId], roster: &Roster) -> Vec<Readings> {
        nics.iter().map(|nic: &NicId| self.readings(*nic, roster)).collect()
    }

    /// Returns what these checks say about a NIC, or else what the `earlier` ones did. The traffic
    /// of others is known from the earlier ones only: from the time before the tests.
    pub fn latest_readings(&self, earlier: &Self, nic: NicId, roster: &Roster) -> Readings {
        let [before, after] = [earlier, self].map(|checks| checks.readings(nic, roster));
        if after.is_empty() {
            return before;
        }
        let others = before.into_iter().filter(|reading| reading.code == FOREIGN);
        let after = after.into_iter().filter(|reading| reading.code != FOREIGN);
        after.chain(others).collect()
    }
}

/// A culprit that was measured, or whose files explain it.
pub struct Diagnosed<'a> {
    pub culprit: &'a CulpritNic<'a>,
    /// What culprits with the same cause have in common.
    pub signature: Option<Vec<String>>,
    /// Good NICs.
    pub controls: Vec<NicId>,
    /// Why no cause is certain; `None` if it was measured beside NICs that are good.
    pub doubt: Option<&'static str>,
    pub found: Found,
}

impl Diagnosed<'_> {
    /// Returns what is known about it with its latest items, and the items of good NICs.
    pub fn explanation(&self, mut own: Readings, others: &[Readings]) -> Explanation {
        let is_unread = own.is_empty();
        let Self { culprit, found, .. } = self;
        own.extend(found.counters());
        let case = culprit.case(&own, others, &found.measured, self.doubt.is_none());
        let diagnosis = evaluate(case);
        let notes = [
            is_unread.then(|| "its files could not be read".to_owned()),
            found.left_out(),
            self.doubt.filter(|_| found.slots > 0).map(str::to_owned),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        Explanation {
            nic: (found.slots > 0).then_some(culprit.nic),
            controls: self.controls.iter().copied().take(PARTNERS).collect(),
            causes: diagnosis.whys,
            differs: diagnosis.differs,
            excluded: diagnosis.excluded,
            not_excluded: diagnosis.not_excluded,
            left_out: (!notes.is_empty()).then(|| notes.join("; ")),
            ..Explanation::new(culprit.cause.unit)
        }
    }
}

/// Whether two NICs are of one generation: others differ for good reasons (diagnosis.md
/// 4.2).
pub fn is_same_kind(one: &Readings, other: &Readings) -> bool {
    kind(one) == kind(other)
}

fn kind(readings: &Readings) -> Option<&str> {
    find(readings, GENERATION)?.value.as_deref()
}

/// Groups parts by the generations of their NICs.
pub fn by_kind<Part>(all: Vec<(Part, Readings)>) -> Vec<Vec<(Part, Readings)>> {
    let parts = all.into_iter().map(|(part, own)| (kind(&own).map(str::to_owned), (part, own)));
    by_key(parts).into_iter().map(|(_, group)| group).collect()
}

/// Whether no other processes use a NIC, as far as is known.
pub fn is_idle(readings: &Readings) -> bool {
    find(readings, FOREIGN).is_none_or(|reading| reading.verdict != Severity::Suspect)
}

/// Whether the retry handler of a NIC regards peers as down: operations to them fail soon
/// (libcxi.md 12.3).
pub fn has_parked_peers(readings: &Readings) -> bool {
    find(readings, PARKED_PEERS).is_some_and(|reading| reading.verdict == Severity::Suspect)
}

/// Whether a node has enough free huge pages for a test: for the buffers of both sides in loopback.
pub fn has_huge_pages(readings: &Readings) -> bool {
    let free = find(readings, HUGE_PAGES).and_then(|reading| reading.number);
    free >= Some(HUGE_PAGES_OF_TEST)
}

/// The line of progress.
fn line(_: &Roster, _: usize) -> String {
    "finding out why".into()
}

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
    /// The pairs from the first group to the second one, of good NICs if there are any; `None` if
    /// one of them has neither good nor untested NICs.
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

    /// The NICs of all pairs.
    pub fn nics(&self) -> impl Iterator<Item = NicId> {
        let pairs = self.own.iter().chain(&self.others);
        pairs.flat_map(|pair| pair.nics())
    }

    /// The NIC that sends first, and the NICs of the first pair between other groups.
    pub fn first(&self) -> (NicId, Vec<NicId>) {
        let others = self.others.first().map_or(Vec::new(), |pair| pair.nics().into());
        (self.own[0].initiator, others)
    }

    /// The slots: ordered flows, writes that are not ordered, and the test of the survey, with
    /// pairs between other groups in turn.
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
    use super::*;
    use campaign::quiet::findings::{Cause, Certainty};
    use campaign::quiet::roster::{Nic, Node, NodeId};
    use crew::location::Location;
    use health::item::testing::reading;

    #[test]
    fn parked_peers_are_known_from_the_file() {
        let is_match =
            |value, state| has_parked_peers(&vec![reading("parked-peers", value, state)]);
        assert!(is_match("2, each for 136 s", Severity::Suspect));
        assert!(!is_match("0", Severity::Good) && !has_parked_peers(&Vec::new()));
    }

    /// A roster with this many NICs in each group.
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

    /// The groups of these pairs.
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
