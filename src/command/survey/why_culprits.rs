//! The culprits of a verdict: which of them can be measured, and which have the same signature.

use cluster::survey::findings::{Cause, Certainty, Findings, LimitSource, Unit};
use cluster::survey::ids::NicId;
use cluster::survey::roster::Roster;
use diagnosis::majority;
use diagnosis::readings::{Readings, State};
use report::survey::nics;
use report::survey::why::Explanation;

/// Most culprits whose files are read.
const MOST_CULPRITS: usize = 64;

const ONLY_NICS: &str = "only NICs and nodes are; look at the counters of the switch ports (fabric \
                         manager)";

/// A culprit of the survey.
pub struct Culprit<'a> {
    /// What the verdict says.
    pub cause: &'a Cause,
    /// The NIC that is measured for it.
    pub nic: NicId,
}

impl Culprit<'_> {
    /// Returns whether its operations failed.
    pub fn fails(&self) -> bool {
        let evidence = self.cause.evidence.first();
        evidence.is_some_and(|of| of.source == LimitSource::Failure)
    }
}

/// Returns the culprits that can be measured, and an explanation of each other part.
pub fn culprits<'a>(
    roster: &Roster,
    verdict: &'a Findings,
) -> (Vec<Culprit<'a>>, Vec<Explanation>) {
    let (mut culprits, mut others) = (Vec::new(), Vec::new());
    for cause in &verdict.causes {
        if cause.certainty == Certainty::Transient {
            continue;
        }
        let nic = match cause.unit {
            Unit::Nic(nic) => Some(nic),
            Unit::Node(_) => nics::members(roster, &cause.unit).first().copied(),
            _ => None,
        };
        match nic {
            Some(nic) if culprits.len() < MOST_CULPRITS => culprits.push(Culprit { cause, nic }),
            Some(_) => others.push(left_out(cause, "there are too many culprits")),
            None => others.push(left_out(cause, ONLY_NICS)),
        }
    }
    (culprits, others)
}

/// Returns the explanation of a culprit that was not diagnosed.
pub fn left_out(cause: &Cause, why: &str) -> Explanation {
    Explanation {
        culprit: cause.unit,
        nic: None,
        controls: Vec::new(),
        causes: Vec::new(),
        differs: Vec::new(),
        excluded: Vec::new(),
        same_as: None,
        left_out: Some(why.to_owned()),
    }
}

/// Returns what culprits have in common that have the same cause: the kind of part, the tests in
/// which it is outside the limits, and what is wrong or different in its files.
pub fn signature(culprit: &Culprit, own: &Readings, others: &[Readings]) -> Vec<String> {
    let kind = match culprit.cause.unit {
        Unit::Nic(_) => "NIC",
        _ => "node",
    };
    let tests = culprit.cause.evidence.iter();
    let tests = tests.map(|of| format!("{:?} {:?}", of.test, of.source));
    let wrong = own.iter();
    let wrong = wrong.filter(|of| matches!(of.state, State::Bad | State::Suspect));
    let wrong = wrong.map(|of| format!("{} {}", of.code, of.value.as_deref().unwrap_or_default()));
    let differs = majority::differences(own, others);
    let differs = differs
        .into_iter()
        .map(|of| format!("{} {}", of.attribute, of.own));
    let mut parts: Vec<String> = tests.chain(wrong).chain(differs).collect();
    parts.sort_unstable();
    parts.dedup();
    parts.insert(0, kind.to_owned());
    parts
}
