//! The settings of a survey, and its progress.

use super::answer::PairResult;
use super::pairs::Selection;
use super::rounds::NicOrder;
use facts::expect::Expectation;

/// The settings that the user has chosen.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pairs, in the order in which they are measured.
    pub selections: Vec<Selection>,
    /// Whether the NICs of a node are measured one after the other.
    pub nics: NicOrder,
    /// Most pairs that are measured at the same time; all that are disjoint if `None`.
    pub most_active: Option<u32>,
    /// Seed of the random pairs.
    pub seed: u64,
    /// The bounds of --expect for each test. A test without an entry has none.
    pub expectations: Vec<Vec<Expectation>>,
    /// Ratio to good pairs from which a part is bad; the ratios of jobs.md 3.4 if `None`.
    pub sensitivity: Option<f64>,
    /// Whether to keep the figures of all pairs, about 100 bytes each; `None` to keep them for up
    /// to 1024 NICs.
    pub keep_figures: Option<bool>,
}

/// What the survey does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyPhase {
    /// It measures the pairs that the user has asked for.
    Sweep,
    /// It measures pairs without an answer again.
    Repeat,
    /// It measures the pairs of classes again whose pairs differ too much.
    Again,
    /// It measures suspect pairs again.
    Retest,
    /// It measures the NICs of suspects with other partners.
    Swap,
    /// It has ended.
    Over,
}

/// The progress of a survey.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveyProgress {
    /// What it does.
    pub phase: SurveyPhase,
    /// Pairs that the user has asked for.
    pub planned: u64,
    /// Planned pairs that were measured or failed.
    pub answered: u64,
    /// Pairs outside the limits that followed from earlier results.
    pub suspects: u64,
    /// Results of retests and of other partners.
    pub retested: u64,
    /// The worst result so far.
    pub worst: Option<PairResult>,
}
