//! The rules about settings, read from `settings.txt`: names, lists, and paragraphs. What they find
//! about a setting.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::values::is_like;
use crate::document::UNTESTED;

/// What `settings.txt` says.
pub static RULES: LazyLock<SettingRules> =
    LazyLock::new(|| SettingRules::read(include_str!("settings.txt")));

/// Names, lists and rules.
#[derive(Debug, Default)]
pub struct SettingRules {
    /// What a line says about a name: words, or `word=text`.
    pub names: BTreeMap<&'static str, Vec<&'static str>>,
    /// The other lines before the first rule: their first word, and the others.
    lists: Vec<(&'static str, Vec<&'static str>)>,
    pub rules: Vec<SettingRule>,
}

/// A paragraph, with the text of its lines by their first words.
#[derive(Debug)]
pub struct SettingRule {
    pub id: &'static str,
    pub severity: Option<FindingSeverity>,
    pub kind: &'static str,
    pub names: Vec<&'static str>,
    pub lines: BTreeMap<&'static str, &'static str>,
}

impl SettingRules {
    fn read(text: &'static str) -> Self {
        let mut rules = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut words = rest.split_whitespace();
            let mut word = || words.next().unwrap_or_default();
            match (first, rules.rules.last_mut()) {
                ("name", _) => drop(rules.names.insert(word(), words.collect())),
                ("rule", _) => rules.rules.push(SettingRule {
                    id: word(),
                    severity: {
                        let name = word();
                        FindingSeverity::ALL.into_iter().find(|severity| severity.name() == name)
                    },
                    kind: word(),
                    names: words.collect(),
                    lines: BTreeMap::new(),
                }),
                (_, Some(rule)) => drop(rule.lines.insert(first, rest)),
                (_, None) => rules.lists.push((first, words.collect())),
            }
        }
        rules
    }

    /// The entries of the lists that begin with this word.
    pub fn list<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        self.lists
            .iter()
            .filter(move |(first, _)| *first == word)
            .flat_map(|(_, list)| list)
            .copied()
    }

    /// Whether a list that begins with `word` has a pattern like `name`.
    pub fn has(&self, word: &str, name: &str) -> bool {
        self.list(word).any(|pattern| is_like(pattern, name))
    }
}

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
