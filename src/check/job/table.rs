//! The rules about settings, read from `settings.txt`: names, lists, and paragraphs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::finding::FindingSeverity;
use super::values::is_like;

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

    /// Returns the entries of the lists that begin with this word.
    pub fn list<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        self.lists
            .iter()
            .filter(move |(first, _)| *first == word)
            .flat_map(|(_, list)| list)
            .copied()
    }

    /// Returns whether a list that begins with `word` has a pattern like `name`.
    pub fn has(&self, word: &str, name: &str) -> bool {
        self.list(word).any(|pattern| is_like(pattern, name))
    }
}
