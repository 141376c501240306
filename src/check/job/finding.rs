//! What is found about a setting.

use serde::{Deserialize, Serialize};

use crate::document::UNTESTED;

/// The name below which libfabric is compared as if it was a setting.
pub const LIBFABRIC: &str = "libfabric";

/// The beginning of the names that libfabric itself reads and reports.
pub const OWN: &str = "FI_";

facts::named_enum! {
    /// How bad a finding is, the worst first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "lowercase")]
    pub enum FindingSeverity {
        /// A setting has no effect, is replaced, or breaks something.
        Bad = "bad",
        /// Libfabric could not be asked, or a process has not answered.
        Untested = "untested",
        #[default]
        /// A setting differs from a newer default or from a recommendation.
        Note = "note",
    }
    pub fn name(self);
}

/// What is found about a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SettingFinding {
    /// The rule, such as L13 (docs/settings.md); untested if something could not be checked.
    pub code: String,
    /// bad, untested or note.
    pub severity: FindingSeverity,
    /// Its kind: no-effect, replaced, misread, contradiction, leaves-nic, missing, default, differs
    /// or breaks; empty if something could not be checked.
    pub kind: String,
    /// Name of the setting.
    pub setting: String,
    /// Its value; null if it is unset, or not the same everywhere.
    pub value: Option<String>,
    /// What happens really.
    pub text: String,
    /// What to write instead; null if nothing else is to be written.
    pub instead: Option<String>,
    /// Where the rule comes from; empty if it only compares.
    pub source: String,
    /// Number of processes.
    pub processes: usize,
    /// Their nodes, as a host list.
    pub nodes: String,
}

impl SettingFinding {
    /// Returns `NAME=VALUE`, or the name alone.
    pub fn subject(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.setting),
            None => self.setting.clone(),
        }
    }

    /// Returns what could not be checked, for this reason.
    pub fn untested(reason: &str) -> Self {
        let (code, severity) = (UNTESTED.to_owned(), FindingSeverity::Untested);
        Self { code, severity, setting: LIBFABRIC.into(), text: reason.into(), ..Self::default() }
    }
}
