//! Slow switches and groups: the files of their NICs show what their nodes have in common. If that
//! is nothing, the nodes are not the cause.

use super::culprits::{FabricPart, LOOK_AT_SWITCHES, left_out};
use super::explanation::Explanation;
use super::investigation::{Checks, is_idle, is_same_kind};
use crate::causes::assessment::Case;
use crate::causes::comparison::FiguresByTest;
use crate::causes::evaluation::{Diagnosis, evaluate};
use crate::causes::why::{Confidence, Why};
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;

/// Returns what the files of the NICs of a part say, beside the files of NICs elsewhere.
pub fn explanation(
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

/// Returns the causes that the files of all NICs support, or that none is known.
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
