//! How each cause fits what is known about a culprit: the signs that hold, and the figures that
//! match or contradict it.

use std::collections::BTreeMap;

use super::cause::{Confidence, Why, evidence, item};
use super::procedure::Column;
use crate::causes::cause::{CauseRule, ExpectedResult, Sign};
use crate::causes::comparison::{Compared, Comparison, FiguresByTest, SLOWER_SHARE, compare};
use crate::causes::table::CAUSES;
use facts::severity::Severity;
use health::item::{Readings, find, numbers};
use health::majority::Difference;
use health::{Finding, majority};

/// Cells beside the decisive ones that must hold for a certain cause.
const FURTHER: usize = 2;

/// What is known about a culprit.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The items of the culprit.
    pub own: &'a Readings,
    /// The items of good NICs of the same kind.
    pub others: &'a [Readings],
    /// The figures.
    pub measured: &'a FiguresByTest,
    /// Whether operations of the culprit failed in the survey.
    pub fails: bool,
    /// Whether the good NICs are known to be good. If not, no cause is certain.
    pub has_good_controls: bool,
}

/// How each cause fits.
pub struct Assessed {
    pub comparisons: Vec<Comparison>,
    pub differs: Vec<Difference>,
    pub all: Vec<Assessment>,
}

impl Assessed {
    pub fn new(case: Case) -> Self {
        let comparisons = compare(case.measured);
        let differs = majority::differences(case.own, case.others);
        let normals = majority::normals(case.others);
        let clues = Clues { case, comparisons: &comparisons, differs: &differs, normals: &normals };
        let all = CAUSES.iter().map(|cause| clues.assess(cause)).collect();
        Self { comparisons, differs, all }
    }
}

/// What signs and figures of causes are looked for in.
struct Clues<'a> {
    case: Case<'a>,
    comparisons: &'a [Comparison],
    differs: &'a [Difference],
    /// What most good NICs have.
    normals: &'a BTreeMap<&'a str, &'a Finding>,
}

impl Clues<'_> {
    fn assess(&self, cause: &'static CauseRule) -> Assessment {
        let is_bad = cause.signs.iter().any(|sign| self.is_bad(*sign));
        let held = cause.signs.iter().filter_map(|sign| Some((*sign, self.text(*sign, is_bad)?)));
        let signs: Vec<(Sign, String)> = held.collect();
        let share = signs.iter().find_map(|(sign, _)| self.share(*sign));
        let can_read = cause.files_exclude && !cause.signs.is_empty();
        let mut assessment = Assessment {
            cause,
            is_bad,
            only_differs: signs
                .iter()
                .all(|(sign, _)| !matches!(sign, Sign::Wrong(_) | Sign::Bad(_) | Sign::Cures(_))),
            is_alone: self.differs.iter().all(|differ| {
                !differ.supports
                    || cause.signs.iter().any(|sign| sign.code() == Some(&differ.attribute))
            }),
            signs,
            is_readable: can_read && cause.signs.iter().all(|sign| self.is_readable(*sign)),
            matched: Vec::new(),
            contradicted: Vec::new(),
        };
        for (column, expected) in cause.expected {
            let find =
                |column| self.comparisons.iter().find(|comparison| comparison.column == column);
            let Some(measured) = find(*column) else {
                continue;
            };
            // Where nothing is slow, doing it in another way shows nothing.
            let base = column.repeats().and_then(find);
            if base.is_some_and(|base| base.outcome != Compared::Slower) {
                continue;
            }
            match holds(*expected, measured, share) {
                Some(true) => assessment.matched.push((*measured, *expected)),
                Some(false) => assessment.contradicted.push((*measured, *expected)),
                None => {}
            }
        }
        assessment
    }

    /// The item of a sign. An item without a value can be bad: the NIC lacks what it must have.
    fn reading(&self, sign: Sign) -> Option<&Finding> {
        let code = sign.code()?;
        self.case.own.iter().find(|reading| reading.code == code)
    }

    fn is_bad(&self, sign: Sign) -> bool {
        self.reading(sign).is_some_and(|reading| reading.verdict == Severity::Bad)
    }

    /// Returns what a sign that holds says. `has_bad`: an item of the cause is bad.
    fn text(&self, sign: Sign, has_bad: bool) -> Option<String> {
        if let Sign::Cures(column) = sign {
            return cures(column, self.comparisons).then(String::new);
        }
        let reading = self.reading(sign)?;
        match sign {
            Sign::Bad(_) => (reading.verdict == Severity::Bad).then(|| reading.described()),
            Sign::Wrong(code) | Sign::BadAlone(code) => {
                let is_wrong = matches!(sign, Sign::Wrong(_)) && reading.verdict.is_wrong();
                let is_common = majority::is_common(code, reading.verdict, self.case.others);
                let holds = is_wrong || reading.verdict == Severity::Bad;
                (holds && !is_common).then(|| reading.described())
            }
            Sign::Differs(code) | Sign::Less(code) | Sign::More(code, _) => {
                let own = self.differs.iter().find(|differ| differ.attribute == *code)?;
                let fits = match (sign, numbers(reading, self.normals.get(code)?)) {
                    // A value without a number, such as "Disabled", is less than any.
                    (Sign::Less(_), Some([value, normal])) => value < normal,
                    (Sign::More(_, least), Some([value, normal])) => {
                        value > normal && value > Some(least)
                    }
                    (Sign::Differs(_), _) => true,
                    _ => false,
                };
                (own.supports && !has_bad && fits).then(|| difference_text(own))
            }
            Sign::Cures(_) => None,
        }
    }

    /// The share of a good NIC's bandwidth that a sign leaves, if it says one.
    fn share(&self, sign: Sign) -> Option<f64> {
        let reading = self.reading(sign)?;
        match sign {
            Sign::Less(code) => {
                let [value, normal] = numbers(reading, self.normals.get(code)?)?;
                Some(value? / normal?)
            }
            _ => reading.share(),
        }
    }

    /// Whether the files say whether a sign holds.
    fn is_readable(&self, sign: Sign) -> bool {
        let state = |code| find(self.case.own, code).map(|reading| reading.verdict);
        match sign {
            Sign::Wrong(code) | Sign::Bad(code) => {
                state(code).is_some_and(|state| state >= Severity::Good)
            }
            Sign::BadAlone(code) => state(code) == Some(Severity::Good),
            Sign::Differs(code) | Sign::Less(code) | Sign::More(code, _) => {
                state(code).is_some() && self.normals.contains_key(code)
            }
            Sign::Cures(_) => false,
        }
    }
}

/// How one cause fits.
pub struct Assessment {
    pub cause: &'static CauseRule,
    /// What proves it, with texts of items.
    pub signs: Vec<(Sign, String)>,
    /// Whether one of its items is bad, not only suspect.
    is_bad: bool,
    /// Whether only differences from other NICs prove it.
    only_differs: bool,
    /// Whether nothing that is not its sign differs from good NICs.
    is_alone: bool,
    /// Whether each of its signs can be read, and none other than a sign shows it.
    is_readable: bool,
    pub matched: Vec<(Comparison, ExpectedResult)>,
    pub contradicted: Vec<(Comparison, ExpectedResult)>,
}

impl Assessment {
    /// Returns how sure the cause is by direct evidence; `None` without any. A difference from good
    /// NICs is evidence only if figures fit it, and nothing else differs.
    pub fn confidence(&self, fails: bool, loses: bool) -> Option<Confidence> {
        if self.signs.is_empty() {
            return None;
        }
        Some(if self.cause.fails {
            match (fails, self.is_bad) {
                (true, true) => Confidence::Because,
                // It may be the effect of another cause.
                (true, false) => Confidence::Probably,
                (false, true) if loses => Confidence::Probably,
                (false, _) => Confidence::AlsoFound,
            }
        } else if self.has_no_known_effect() {
            Confidence::Possibly
        } else if self.only_differs && !(self.has_all_decisive() && self.is_alone) {
            return None;
        } else if self.contradicted.is_empty() && self.is_shown() {
            Confidence::Because
        } else if self.contradicted.is_empty()
            || self.is_shown() && self.is_beside_another()
            || self.only_limits_contradict()
        {
            Confidence::Probably
        } else {
            Confidence::AlsoFound
        })
    }

    /// Whether a file or a counter proves the cause.
    pub fn has_proof(&self) -> bool {
        let mut signs = self.signs.iter();
        signs.any(|(sign, _)| sign.code().is_some())
    }

    /// Whether an item that is bad, whatever good NICs have, proves the cause.
    pub fn has_bad_sign(&self) -> bool {
        let mut signs = self.signs.iter();
        signs.any(|(sign, _)| matches!(sign, Sign::Bad(_)))
    }

    /// Whether every sign of the cause is a state whose effect on figures is unknown.
    pub fn has_no_known_effect(&self) -> bool {
        let mut signs = self.signs.iter();
        !self.signs.is_empty() && signs.all(|(sign, _)| matches!(sign, Sign::BadAlone(_)))
    }

    /// Whether a bandwidth is as low as it makes it, and all that contradicts it are latencies that
    /// it does not make longer: another cause does.
    fn is_beside_another(&self) -> bool {
        let is_share = |expected: &ExpectedResult| {
            matches!(expected, ExpectedResult::MustBeAsSign | ExpectedResult::MustBeShare(..))
        };
        let has_share = self.matched.iter().any(|(_, expected)| is_share(expected));
        let mut contradicted = self.contradicted.iter();
        has_share
            && contradicted
                .all(|(comparison, expected)| !comparison.is_bandwidth && expected.is_same())
    }

    /// Whether all that contradicts it are bandwidths that are lower than it makes them: how much
    /// late packets cost depends on how many there are.
    fn only_limits_contradict(&self) -> bool {
        let mut contradicted = self.contradicted.iter();
        contradicted.all(|(_, expected)| matches!(expected, ExpectedResult::AtLeast(_)))
    }

    /// Whether the tests show what the cause makes slow: all that is decisive holds, and further
    /// ones.
    fn is_shown(&self) -> bool {
        self.has_all_decisive() && self.matched.len() >= self.decisive_count() + FURTHER
    }

    fn has_all_decisive(&self) -> bool {
        let held = self.matched.iter().filter(|(_, expected)| expected.is_decisive());
        self.decisive_count() > 0 && held.count() == self.decisive_count()
    }

    fn decisive_count(&self) -> usize {
        let expected = self.cause.expected.iter();
        expected.filter(|(_, expected)| expected.is_decisive()).count()
    }

    /// Whether figures permit the cause, whatever files say: everything that is slow is slow
    /// because of it, and nothing contradicts it.
    pub fn explains(&self, comparisons: &[Comparison]) -> bool {
        // Other processes make single operations late, whatever the cause is.
        let beside = [Column::Tail, Column::Waiting];
        let mut slow = comparisons.iter().filter(|comparison| {
            comparison.outcome == Compared::Slower && comparison.column != Column::Survey
        });
        let is_explained = |comparison: &Comparison| {
            let mut expected = self.cause.expected.iter();
            expected.any(|(column, expected)| *column == comparison.column && !expected.is_same())
        };
        self.contradicted.is_empty()
            && slow.clone().any(is_explained)
            && slow
                .all(|comparison| beside.contains(&comparison.column) || is_explained(comparison))
    }

    /// Whether the tests show the cause, and neither prove nor exclude files it.
    pub fn fits(&self) -> bool {
        self.signs.is_empty()
            && !self.is_readable
            && self.has_all_decisive()
            && self.matched.len() >= FURTHER
    }

    /// Whether only differences from good NICs support it.
    pub fn is_difference(&self) -> bool {
        !self.signs.is_empty() && self.only_differs && !self.has_no_known_effect()
    }

    /// Whether files or tests exclude the cause: only a test that would have shown it can.
    pub fn is_excluded(&self) -> bool {
        let mut contradicted = self.contradicted.iter();
        let is_shown_not =
            |(comparison, expected): &(Comparison, ExpectedResult)| match comparison.outcome {
                // It would have been slow.
                Compared::Same => !expected.is_same(),
                // It would have been fast in the other way.
                Compared::Slower => expected.is_same() && comparison.column.repeats().is_some(),
                Compared::Unclear => false,
            };
        self.signs.is_empty() && (self.is_readable || contradicted.any(is_shown_not))
    }

    /// The columns that are slow because of it.
    pub fn slows(&self) -> Vec<Column> {
        let slow = self.matched.iter().filter(|(_, expected)| !expected.is_same());
        slow.map(|(comparison, _)| comparison.column).collect()
    }

    /// Leaves out what contradicts it in columns that a certain cause makes slow.
    pub fn leave_out_slow(&mut self, explained: &[Column]) {
        self.contradicted.retain(|(comparison, _)| !explained.contains(&comparison.column));
    }

    /// The entry of the cause. What costs a reboot or a part is advised with proof only.
    pub fn why(&self, confidence: Confidence) -> Why {
        let is_advised = confidence == Confidence::Because || !self.cause.is_costly;
        let signs = self.signs.iter().filter_map(|(sign, text)| Some(item(sign.code()?, text)));
        let matched = self
            .matched
            .iter()
            .map(|(comparison, expected)| evidence(comparison, Some((*expected, false))));
        let contradicted = self.contradicted.iter();
        let contradicted = contradicted
            .map(|(comparison, expected)| evidence(comparison, Some((*expected, true))));
        Why {
            cause: Some(self.cause.id.into()),
            confidence,
            what: Some(self.cause.what.into()),
            evidence: signs.chain(matched).chain(contradicted).collect(),
            advice: is_advised.then(|| self.cause.advice.into()),
            by: is_advised.then(|| self.cause.by.name().into()),
        }
    }
}

/// Whether a culprit is as fast as good NICs in a column that repeats one in which it is slower.
fn cures(column: Column, comparisons: &[Comparison]) -> bool {
    let outcome =
        |column: Column| comparisons.iter().find(|own| own.column == column).map(|own| own.outcome);
    let slow = Column::ALL.into_iter().find(|candidate| column.repeats() == Some(*candidate));
    outcome(column) == Some(Compared::Same) && slow.and_then(outcome) == Some(Compared::Slower)
}

/// A share of the bandwidth is about the share of a sign within these factors: good NICs may be
/// limited by their links.
const ABOUT: (f64, f64) = (0.75, 1.4);

/// Whether a column is as expected; `None` if the figures do not say. `share` is the share of the
/// sign of the cause.
fn holds(expected: ExpectedResult, comparison: &Comparison, share: Option<f64>) -> Option<bool> {
    let (least, most) = comparison.shares;
    let is_between = |low: f64, high: f64| {
        if most < SLOWER_SHARE && least >= low && most <= high {
            Some(true)
        } else {
            (least > high || most < low).then_some(false)
        }
    };
    match (expected, comparison.outcome) {
        (ExpectedResult::Varies, _) => None,
        (ExpectedResult::AtLeast(share), _) if least >= share => Some(true),
        (ExpectedResult::AtLeast(share), _) => (most < share).then_some(false),
        (ExpectedResult::Share(low, high) | ExpectedResult::MustBeShare(low, high), _) => {
            is_between(low, high)
        }
        (ExpectedResult::AsSign | ExpectedResult::MustBeAsSign, _) => {
            let share = share?;
            is_between(share * ABOUT.0, share * ABOUT.1)
        }
        (_, Compared::Unclear) => None,
        (_, outcome) => Some(expected.is_same() == (outcome == Compared::Same)),
    }
}

/// A difference from most good NICs, in words.
pub fn difference_text(difference: &Difference) -> String {
    format!(
        "{} {}, {} of {} others {}",
        difference.name,
        difference.own,
        difference.with_normal,
        difference.of,
        majority::common_text(&difference.attribute, &difference.normal)
    )
}
