//! What files say about NICs and parts of the fabric without measurements.
//!
//! * NICs that the verdict calls neither good nor bad, for example because the pairs of their class
//!   differ too much: their files may show what is wrong with them (diagnosis.md 8, vector 33).
//! * Slow switches and groups: the files of their NICs show what their nodes have in common. If
//!   that is nothing, the nodes are not the cause.

use std::collections::BTreeSet;

use super::causes::assessment::Case;
use super::causes::cause::{Confidence, Why};
use super::causes::comparison::FiguresByTest;
use super::causes::evaluation::{Diagnosis, evaluate};
use super::culprits::{Explanation, FabricPart, LOOK_AT_SWITCHES, left_out, signature_of_files};
use super::investigation::{Checks, by_kind, is_idle, is_same_kind};
use campaign::quiet::findings::State;
use campaign::quiet::roster::{NicId, Roster, Unit};
use health::item::Readings;

/// Most nodes whose files are read.
const MOST_NODES: usize = 64;

/// The untested NICs whose files are read: of some nodes of the whole cluster.
pub fn untested_nics(roster: &Roster, states: &[State]) -> Vec<NicId> {
    let is_open = |nic: &NicId| {
        let facts = roster.nic(*nic);
        let is_present = roster.node(facts.node).absent.is_none() && facts.failure.is_none();
        states[nic.index()] == State::Untested && is_present
    };
    let nics: Vec<NicId> = roster.nic_ids().filter(is_open).collect();
    let nodes: BTreeSet<_> = nics.iter().map(|nic| roster.nic(*nic).node).collect();
    let step = nodes.len().div_ceil(MOST_NODES).max(1);
    let nodes: BTreeSet<_> = nodes.into_iter().step_by(step).collect();
    nics.into_iter().filter(|nic: &NicId| nodes.contains(&roster.nic(*nic).node)).collect()
}

/// Returns what the files of NICs prove. NICs whose files say the same share an explanation.
pub fn nic_explanations(read: Vec<(NicId, Readings)>) -> Vec<Explanation> {
    let groups = by_kind(read).into_iter();
    groups.flat_map(|group| kind_explanations(&group)).collect()
}

fn kind_explanations(read: &[(NicId, Readings)]) -> Vec<Explanation> {
    let all: Vec<Readings> = read.iter().map(|(_, own)| own.clone()).collect();
    let mut found: Vec<(Vec<String>, Explanation)> = Vec::new();
    let mut same = Vec::new();
    for (nic, own) in read {
        let diagnosis = evaluate(Case {
            own,
            others: &all,
            measured: &FiguresByTest::new(),
            fails: false,
            has_good_controls: false,
        });
        let causes: Vec<Why> = diagnosis.whys.into_iter().filter(is_proved).collect();
        if causes.is_empty() {
            continue;
        }
        let explanation = Explanation::new(Unit::Nic(*nic));
        let signature = signature_of_files(own, &all);
        match found.iter().find(|(texts, _)| *texts == signature) {
            Some((_, first)) => {
                same.push(Explanation { same_as: Some(first.culprit), ..explanation })
            }
            None => found.push((
                signature,
                Explanation { causes, differs: diagnosis.differs, ..explanation },
            )),
        }
    }
    let found = found.into_iter().map(|(_, explanation)| explanation);
    found.chain(same).collect()
}

/// Whether a file proves a cause. Without tests, a cause that makes operations fail is only also
/// found.
fn is_proved(why: &Why) -> bool {
    let proved = [Confidence::Because, Confidence::Probably, Confidence::AlsoFound];
    proved.contains(&why.confidence)
}

/// Returns what the files of the NICs of a part say, beside the files of NICs elsewhere.
pub fn part_explanation(
    part: &FabricPart,
    controls: &[NicId],
    checks: &Checks,
    roster: &Roster,
) -> Explanation {
    let diagnosis = |nic: &NicId| {
        let own = checks.readings(*nic, roster);
        let is_usable = |control: &&NicId| {
            let readings = checks.readings(**control, roster);
            is_same_kind(&own, &readings) && is_idle(&readings)
        };
        let others: Vec<NicId> = controls.iter().filter(is_usable).copied().collect();
        evaluate(Case {
            own: &own,
            others: &checks.all_readings(&others, roster),
            measured: &FiguresByTest::new(),
            fails: false,
            has_good_controls: true,
        })
    };
    let diagnoses: Vec<Diagnosis> = part.nics.iter().map(diagnosis).collect();
    Explanation {
        controls: controls.to_vec(),
        causes: in_common(&diagnoses),
        differs: in_all(&diagnoses, |diagnosis| &diagnosis.differs),
        excluded: in_all(&diagnoses, |diagnosis| &diagnosis.excluded),
        ..left_out(part.cause, LOOK_AT_SWITCHES)
    }
}

/// The causes that the files of all NICs support, or that none is known.
fn in_common(diagnoses: &[Diagnosis]) -> Vec<Why> {
    let Some((first, others)) = diagnoses.split_first() else {
        return Vec::new();
    };
    let has = |diagnosis: &Diagnosis, cause: &Option<String>| {
        diagnosis.whys.iter().any(|why| why.cause == *cause)
    };
    let is_common = |why: &&Why| {
        why.confidence <= Confidence::Possibly
            && others.iter().all(|diagnosis| has(diagnosis, &why.cause))
    };
    let common: Vec<Why> = first.whys.iter().filter(is_common).cloned().collect();
    if common.is_empty() {
        return vec![Why::default()];
    }
    common
}

/// Returns what this list of all NICs has.
fn in_all<T: Clone + PartialEq>(
    diagnoses: &[Diagnosis],
    list: fn(&Diagnosis) -> &Vec<T>,
) -> Vec<T> {
    let Some((first, others)) = diagnoses.split_first() else {
        return Vec::new();
    };
    let is_common = |item: &&T| others.iter().all(|other| list(other).contains(item));
    list(first).iter().filter(is_common).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::quiet::roster::{Nic, Node, NodeId};
    use facts::severity::Severity;
    use health::Finding;
    use health::item::testing::reading;

    fn width(value: &str) -> Finding {
        let state = if value == "x8" { Severity::Bad } else { Severity::Good };
        reading("pcie-width", value, state)
    }

    /// Vector 33, with 64 NICs.
    #[test]
    fn narrow_links_of_most_nics_are_found() {
        let width = |nic| if nic < 40 { width("x8") } else { width("x16") };
        let read: Vec<_> = (0..64).map(|nic| (NicId(nic), vec![width(nic)])).collect();
        let found = nic_explanations(read);
        assert_eq!(found.len(), 40);
        let why = &found[0].causes[0];
        let named = (why.cause.as_deref(), why.confidence);
        assert_eq!(named, (Some("pcie-narrow"), Confidence::Probably));
        for (nic, explanation) in (1..).zip(&found[1..]) {
            let first = Some(Unit::Nic(NicId(0)));
            assert_eq!((explanation.culprit, explanation.same_as), (Unit::Nic(NicId(nic)), first));
        }
    }

    #[test]
    fn reads_files_of_untested_nics_of_some_nodes() {
        let node = |rank: u32| Node {
            rank,
            host: format!("nid{rank:06}"),
            absent: (rank == 3).then(|| "it did not come".into()),
        };
        let nic = |nic: u32| Nic {
            node: NodeId(nic / 2),
            device: format!("cxi{}", nic % 2),
            nid: None,
            location: None,
            failure: (nic == 9).then(|| "link down".into()),
        };
        let numbers = |nodes: u32, states: &dyn Fn(u32) -> State| {
            let roster = Roster {
                nodes: (0..nodes).map(node).collect(),
                nics: (0..2 * nodes).map(nic).collect(),
                ..Roster::default()
            };
            let states: Vec<State> = (0..2 * nodes).map(states).collect();
            let found = untested_nics(&roster, &states).into_iter();
            found.map(|nic| nic.0).collect::<Vec<u32>>()
        };
        let some = |nic| {
            if nic < 4 { State::Good } else { State::Untested }
        };
        // Node 3 is absent, and NIC 9 cannot be opened.
        assert_eq!(numbers(6, &some), [4, 5, 8, 10, 11]);
        assert!(numbers(6, &|_| State::Good).is_empty());
        // Every third node of the 191 present ones.
        let many = numbers(192, &|_| State::Untested);
        assert_eq!(many[..4], [0, 1, 8, 14]);
        assert_eq!(many.len(), 127);
    }

    #[test]
    fn what_most_nics_have_proves_nothing() {
        let iommu = |state| reading("iommu", "DMA", state);
        let all: Vec<_> = (0..8).map(|nic| (NicId(nic), vec![iommu(Severity::Suspect)])).collect();
        assert_eq!(nic_explanations(all), []);
        let mut one: Vec<_> =
            (0..24).map(|nic| (NicId(nic), vec![iommu(Severity::Good)])).collect();
        one[5].1 = vec![iommu(Severity::Suspect)];
        let found = nic_explanations(one.clone());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit, Unit::Nic(NicId(5)));
        assert_eq!(found[0].causes[0].cause.as_deref(), Some("iommu"));
        one[5].1 = vec![reading("retry-handler", "not running", Severity::Bad)];
        let why = &nic_explanations(one.clone())[0].causes[0];
        let named = (why.cause.as_deref(), why.confidence);
        assert_eq!(named, (Some("retry-off"), Confidence::AlsoFound));
        // A difference without a test is no cause.
        for (nic, own) in &mut one {
            let version = if nic.0 == 5 { "1.5" } else { "1.6" };
            *own = vec![reading("firmware", version, Severity::Shown)];
        }
        assert_eq!(nic_explanations(one.clone()), []);
    }

    fn diagnosis(causes: &[(&str, Confidence)], excluded: &[&str]) -> Diagnosis {
        let why = |(id, confidence): &(&str, Confidence)| Why {
            cause: Some((*id).into()),
            confidence: *confidence,
            ..Why::default()
        };
        Diagnosis {
            whys: causes.iter().map(why).collect(),
            excluded: excluded.iter().map(|id| (*id).into()).collect(),
            ..Diagnosis::default()
        }
    }

    #[test]
    fn what_all_nics_have_counts() {
        let firmware = ("firmware", Confidence::Possibly);
        let iommu = ("iommu", Confidence::Probably);
        let both = diagnosis(&[iommu, firmware], &["mtu", "pcie-narrow"]);
        let one = diagnosis(&[firmware], &["pcie-narrow"]);
        let common = in_common(&[both.clone(), one.clone()]);
        let ids: Vec<_> = common.iter().map(|why| why.cause.as_deref()).collect();
        assert_eq!(ids, [Some("firmware")]);
        assert_eq!(in_all(&[both, one.clone()], |diagnosis| &diagnosis.excluded), ["pcie-narrow"]);
        let nothing = diagnosis(&[], &[]);
        assert_eq!(in_common(&[one, nothing]), [Why::default()]);
    }

    #[test]
    fn without_effect_is_no_cause() {
        let narrow = ("pcie-narrow", Confidence::AlsoFound);
        let also = diagnosis(&[narrow], &[]);
        assert_eq!(in_common(&[also.clone(), also]), [Why::default()]);
    }
}
