//! The culprits of a verdict: which of them can be measured, which have the same signature, and why
//! they are slow. The doc comments of [`Explanation`] are descriptions in the schema of surveys.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::causes::assessment::Case;
use super::causes::cause::Why;
use super::causes::comparison::FiguresByTest;
use campaign::quiet::findings::{self, Cause, Certainty, Findings, LimitSource};
use campaign::quiet::roster::{NicId, Roster, Unit};
use health::item::Readings;
use health::majority::{self, Difference};

/// Most culprits whose files are read.
const MOST_CULPRITS: usize = 64;

/// Most NICs of a switch or group whose files are read.
const MOST_OF_PART: usize = 8;

/// What to do about switches, groups and paths.
pub const LOOK_AT_SWITCHES: &str = "look at the counters of the switch ports (fabric manager)";

/// A culprit of the survey.
pub struct CulpritNic<'a> {
    /// What the verdict says.
    pub cause: &'a Cause,
    /// The NIC that is measured for it.
    pub nic: NicId,
}

impl CulpritNic<'_> {
    /// Returns what is known about it: its items, the items of good NICs, and its figures.
    pub fn case<'a>(
        &self,
        own: &'a Readings,
        others: &'a [Readings],
        measured: &'a FiguresByTest,
        has_good_controls: bool,
    ) -> Case<'a> {
        let fails = match self.cause.evidence.first() {
            Some(survey_evidence) => survey_evidence.source == LimitSource::Failure,
            // No survey has found it: the user names it.
            None => measured.values().any(|figures| figures.failure.is_some()),
        };
        Case { own, others, measured, fails, has_good_controls }
    }
}

/// A switch or a group.
pub struct FabricPart<'a> {
    /// What the verdict says.
    pub cause: &'a Cause,
    /// NICs of it, on different nodes.
    pub nics: Vec<NicId>,
}

/// The links between two groups.
pub struct GroupLinks<'a> {
    /// What the verdict says.
    pub cause: &'a Cause,
    pub groups: [u16; 2],
}

/// The parts that a verdict names.
#[derive(Default)]
pub struct Parts<'a> {
    /// Those that can be measured.
    pub culprits: Vec<CulpritNic<'a>>,
    /// Switches and groups.
    pub fabric_parts: Vec<FabricPart<'a>>,
    /// Links between groups.
    pub links: Vec<GroupLinks<'a>>,
    /// Why the others are left out.
    pub left_out: Vec<Explanation>,
}

impl<'a> Parts<'a> {
    /// The causes of the parts that can be investigated.
    pub fn causes(&self) -> impl Iterator<Item = &'a Cause> {
        let culprits = self.culprits.iter().map(|culprit| culprit.cause);
        let fabric_parts = self.fabric_parts.iter().map(|fabric| fabric.cause);
        culprits.chain(fabric_parts).chain(self.links.iter().map(|link| link.cause))
    }
}

/// The parts that a verdict names.
pub fn parts<'a>(roster: &Roster, verdict: &'a Findings) -> Parts<'a> {
    let mut parts = Parts::default();
    for cause in &verdict.causes {
        if cause.certainty == Certainty::Transient {
            continue;
        }
        let nic = match cause.unit {
            Unit::Nic(nic) => Some(nic),
            Unit::Node(_) => {
                let mut nics = findings::members(roster, &cause.unit).into_iter();
                nics.find(|nic| roster.nic(*nic).failure.is_none())
            }
            _ => None,
        };
        match (nic, cause.unit) {
            (Some(nic), _) if parts.culprits.len() < MOST_CULPRITS => {
                parts.culprits.push(CulpritNic { cause, nic });
            }
            (Some(_), _) => (parts.left_out).push(left_out(cause, "there are too many culprits")),
            (None, Unit::Switch { .. } | Unit::Group(_)) => {
                let nics = some_of(roster, &cause.unit);
                parts.fabric_parts.push(FabricPart { cause, nics });
            }
            (None, Unit::GroupPair(one, other)) => {
                let groups = [one, other];
                parts.links.push(GroupLinks { cause, groups });
            }
            (None, _) => parts.left_out.push(left_out(cause, LOOK_AT_SWITCHES)),
        }
    }
    parts
}

/// Returns some NICs of a part, on different nodes.
fn some_of(roster: &Roster, unit: &Unit) -> Vec<NicId> {
    let mut nodes = BTreeSet::new();
    let mut nics = findings::members(roster, unit);
    nics.retain(|nic| nodes.insert(roster.nic(*nic).node));
    nics.truncate(MOST_OF_PART);
    nics
}

/// The explanation of a culprit that was not diagnosed.
pub fn left_out(cause: &Cause, why: &str) -> Explanation {
    Explanation { left_out: Some(why.to_owned()), ..Explanation::new(cause.unit) }
}

/// Returns what culprits have in common that have the same cause: the kind of part, the tests in
/// which it is outside the limits, and what is wrong or different in its files. `None` if nothing
/// is: then each culprit may have a cause of its own.
pub fn signature(culprit: &CulpritNic, own: &Readings, others: &[Readings]) -> Option<Vec<String>> {
    let kind = match culprit.cause.unit {
        Unit::Nic(_) => "NIC",
        _ => "node",
    };
    let mut parts = signature_of_files(own, others);
    if parts.is_empty() {
        return None;
    }
    let tests = culprit.cause.evidence.iter();
    parts.extend(tests.map(|evidence| format!("{:?} {:?}", evidence.test, evidence.source)));
    parts.sort_unstable();
    parts.dedup();
    parts.insert(0, kind.to_owned());
    Some(parts)
}

/// Returns what is wrong or different in the files of a NIC.
pub fn signature_of_files(own: &Readings, others: &[Readings]) -> Vec<String> {
    let wrong = own.iter().filter(|reading| reading.verdict.is_wrong());
    let wrong = wrong.map(|reading| {
        let value = reading.value.as_deref().unwrap_or_default();
        format!("{:?} {} {value}", reading.verdict, reading.code)
    });
    let differs = majority::differences(own, others);
    let differs = differs.into_iter().map(|differ| format!("{} {}", differ.attribute, differ.own));
    wrong.chain(differs).collect()
}

/// What is known about the cause of a culprit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The part that is bad or suspect, or an untested NIC whose files show what is wrong with it.
    pub culprit: Unit,
    /// The NIC that was measured for it; null if nothing was measured.
    pub nic: Option<NicId>,
    /// The good NICs beside which it was measured.
    pub controls: Vec<NicId>,
    /// The causes, the surest first; empty if it is the same as another culprit, or was not
    /// diagnosed.
    pub causes: Vec<Why>,
    /// Items in which its NIC differs from most good NICs.
    pub differs: Vec<Difference>,
    /// Ids of the causes that files or tests exclude.
    pub excluded: Vec<String>,
    /// Ids of the causes that explain what is slow and are not excluded; empty if a cause is named.
    #[serde(default)]
    pub not_excluded: Vec<String>,
    /// A culprit with the same files and failing tests, which was diagnosed for both; null if it
    /// was diagnosed itself.
    pub same_as: Option<Unit>,
    /// Why it was not diagnosed, or not completely; null if it was.
    pub left_out: Option<String>,
}

impl Explanation {
    /// The explanation of a part about which nothing is known yet.
    pub fn new(culprit: Unit) -> Self {
        Self {
            culprit,
            nic: None,
            controls: Vec::new(),
            causes: Vec::new(),
            differs: Vec::new(),
            excluded: Vec::new(),
            not_excluded: Vec::new(),
            same_as: None,
            left_out: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::quiet::findings::{Direction, Evidence, Statistic};
    use campaign::quiet::roster::{NodeId, Pair, TestId};
    use crew::location::Location;
    use facts::severity::Severity;
    use health::item::testing::reading;

    fn cause(unit: Unit, source: LimitSource) -> Cause {
        let evidence = Evidence {
            test: TestId(0),
            class: crew::location::Class::Switch,
            outside: 6,
            measured: 6,
            figure: Statistic::Median,
            value: Some(3900.0),
            median: Some(1900.0),
            limit: Some(2470.0),
            source,
            retries: None,
            usual_retries: None,
            failure: None,
        };
        Cause {
            unit,
            certainty: Certainty::Bad,
            direction: Direction::Both,
            evidence: vec![evidence],
            counters: Vec::new(),
        }
    }

    fn readings(width: &str, state: Severity) -> Readings {
        vec![reading("pcie-width", width, state)]
    }

    #[test]
    fn culprits_with_same_files_and_tests_have_one_signature() {
        let others = vec![readings("x16", Severity::Good); 5];
        let texts = |unit, source, own: &Readings| {
            let cause = cause(unit, source);
            let nic = NicId(0);
            signature(&CulpritNic { cause: &cause, nic }, own, &others)
        };
        let slow = LimitSource::Population;
        let narrow = readings("x8", Severity::Bad);
        let first = texts(Unit::Nic(NicId(0)), slow, &narrow);
        assert_eq!(texts(Unit::Nic(NicId(7)), slow, &narrow), first);
        for other in [
            texts(Unit::Node(NodeId(0)), slow, &narrow),
            texts(Unit::Nic(NicId(0)), LimitSource::Failure, &narrow),
            texts(Unit::Nic(NicId(0)), slow, &readings("x4", Severity::Bad)),
            texts(Unit::Nic(NicId(0)), slow, &readings("x8", Severity::Good)),
        ] {
            assert_ne!(other, first);
        }
        let clean = readings("x16", Severity::Good);
        assert_eq!(texts(Unit::Nic(NicId(0)), slow, &clean), None);
    }

    const PATH: Pair = Pair { initiator: NicId(0), target: NicId(1) };

    #[test]
    fn only_nics_nodes_and_links_between_groups_are_measured() {
        let nic = |node| campaign::quiet::roster::Nic {
            node: NodeId(node),
            device: "cxi0".into(),
            nid: None,
            location: Some(Location { group: 3, switch: 1, port: None }),
            failure: None,
        };
        let roster =
            Roster { nodes: Vec::new(), nics: vec![nic(0), nic(1), nic(1)], ..Roster::default() };
        let slow = LimitSource::Population;
        let transient =
            Cause { certainty: Certainty::Transient, ..cause(Unit::Nic(NicId(0)), slow) };
        let verdict = Findings {
            causes: vec![
                cause(Unit::Node(NodeId(1)), slow),
                cause(Unit::Group(3), slow),
                cause(Unit::GroupPair(3, 4), slow),
                cause(Unit::Path(PATH), slow),
                transient,
            ],
            ..Findings::default()
        };
        let parts = parts(&roster, &verdict);
        let nics: Vec<NicId> = parts.culprits.iter().map(|culprit| culprit.nic).collect();
        assert_eq!(nics, [NicId(1)]);
        // One NIC of each node.
        assert_eq!(parts.fabric_parts[0].nics, [NicId(0), NicId(1)]);
        let left_out: Vec<Unit> =
            parts.left_out.iter().map(|explanation| explanation.culprit).collect();
        assert_eq!(left_out, [Unit::Path(PATH)]);
        assert_eq!(parts.links[0].groups, [3, 4]);
    }
}
