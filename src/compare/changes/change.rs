//! One change between surveys or checks.

use serde::Serialize;

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub(super) struct Change {
    /// The NIC, the host, or the test and class of a survey.
    pub(super) part: String,
    /// What changed: state, median, or an item of a check.
    pub(super) what: String,
    /// In the base, as texts show it; null without.
    pub(super) base: Option<String>,
    /// In the new document.
    pub(super) new: Option<String>,
    /// Change in percent of the base; null without figures.
    pub(super) change_percent: Option<f64>,
    /// Growth of a counter that only grows; null for other values.
    pub(super) increase: Option<f64>,
    /// What the change means.
    pub(super) verdict: ChangeVerdict,
}

/// What a change means, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum ChangeVerdict {
    /// Worse than in the base.
    Worse,
    /// Better than in the base.
    Better,
    /// Different, but neither worse nor better.
    Changed,
    /// A change beyond the limit would not have been found.
    Unclear,
    /// No change beyond the limit.
    Ok,
}

impl ChangeVerdict {
    /// The verdict in words.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Changed => "changed",
            Self::Unclear => "unclear",
            Self::Ok => "ok",
        }
    }
}

impl Change {
    /// A change without figures.
    pub(super) fn from_words(
        part: &str,
        what: &str,
        words: [Option<&str>; 2],
        verdict: ChangeVerdict,
    ) -> Self {
        let [base, new] = words.map(|word| word.map(str::to_owned));
        Self {
            part: part.into(),
            what: what.into(),
            base,
            new,
            change_percent: None,
            increase: None,
            verdict,
        }
    }
}

/// The change from `base` to `new` in percent. `None` if the base is 0.
pub(super) fn percent(base: f64, new: f64) -> Option<f64> {
    (base != 0.0).then(|| (new - base) / base * 100.0)
}
