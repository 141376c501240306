//! The rules about settings, read from `settings.txt`, and the interpreter of their conditions.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::document::{FindingSeverity, SettingFinding};
use super::evidence::{Evidence, ParameterType};
use super::values::{boolean, entries, is_like, nearest_word, strtol};

/// What `settings.txt` says.
pub static RULES: LazyLock<Rules> = LazyLock::new(|| Rules::read(include_str!("settings.txt")));

/// Names, lists and rules.
#[derive(Debug, Default)]
pub struct Rules {
    pub names: BTreeMap<&'static str, NameFacts>,
    /// The lines that begin with another word than `name`: this word, and the others.
    lists: Vec<(&'static str, Vec<&'static str>)>,
    rules: Vec<Rule>,
}

/// What a line says about a name: words, or `word=text`.
#[derive(Debug)]
pub struct NameFacts(Vec<&'static str>);

impl NameFacts {
    pub fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    /// Returns the text behind `word=`.
    pub fn text(&self, word: &str) -> Option<&'static str> {
        self.0.iter().find_map(|fact| fact.strip_prefix(word)?.strip_prefix('='))
    }

    /// Returns the default in this version; `None` if it is unknown.
    pub fn default_in(&self, version: Option<i128>) -> Option<&'static str> {
        let text = self.text("default")?;
        let Some(version) = version else {
            return Some(text).filter(|text| !text.contains(','));
        };
        let mut defaults = text.split(',');
        let first = defaults.next();
        let since = |entry: &'static str| {
            let (from, default) = entry.split_once('=')?;
            (dotted(from)? <= version).then_some(default)
        };
        defaults.filter_map(since).last().or(first)
    }
}

/// One paragraph. Each is a line's text; nothing if it has no such line.
#[derive(Debug, Default)]
struct Rule {
    id: &'static str,
    severity: Option<FindingSeverity>,
    kind: &'static str,
    names: Vec<&'static str>,
    lines: BTreeMap<&'static str, &'static str>,
}

impl Rules {
    fn read(text: &'static str) -> Self {
        let mut rules = Self::default();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut words = rest.split_whitespace();
            match (word, rules.rules.last_mut()) {
                ("name", _) => {
                    let name = words.next().unwrap_or_default();
                    rules.names.insert(name, NameFacts(words.collect()));
                }
                ("rule", _) => rules.rules.push(Rule {
                    id: words.next().unwrap_or_default(),
                    severity: match words.next() {
                        Some("bad") => Some(FindingSeverity::Bad),
                        Some("note") => Some(FindingSeverity::Note),
                        _ => None,
                    },
                    kind: words.next().unwrap_or_default(),
                    names: words.collect(),
                    lines: BTreeMap::new(),
                }),
                (_, Some(rule)) => {
                    rule.lines.insert(word, rest);
                }
                (_, None) => rules.lists.push((word, words.collect())),
            }
        }
        rules
    }

    /// Returns the lists that begin with this word.
    pub fn lists<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a [&'static str]> {
        self.lists.iter().filter(move |(first, _)| *first == word).map(|(_, list)| list.as_slice())
    }

    /// Returns whether a list that begins with `word` has a pattern like `name`.
    pub fn has(&self, word: &str, name: &str) -> bool {
        self.lists(word).flatten().any(|pattern| is_like(pattern, name))
    }

    /// Returns whether the name is the name of a setting.
    pub fn is_setting(&self, name: &str) -> bool {
        self.lists("family").flatten().any(|beginning| name.starts_with(beginning))
    }

    /// Returns whether values of this name are secrets.
    pub fn is_secret(&self, name: &str) -> bool {
        self.lists("secret").flatten().any(|end| name.to_ascii_uppercase().ends_with(end))
    }

    /// Returns what the rules find. Those with patterns are about names that libfabric need not
    /// know; they come first.
    pub fn findings(&self, evidence: &Evidence, with_patterns: bool) -> Vec<SettingFinding> {
        let mut found = Vec::new();
        let has_pattern = |rule: &&Rule| rule.names.iter().any(|name| name.contains('*'));
        for rule in self.rules.iter().filter(|rule| has_pattern(rule) == with_patterns) {
            for pattern in &rule.names {
                let (name, is_optional) = match pattern.strip_suffix('?') {
                    Some(name) => (name, true),
                    None => (*pattern, false),
                };
                let all = evidence.settings.keys().chain(evidence.facts.keys());
                let mut names: Vec<&str> =
                    all.map(String::as_str).filter(|known| is_like(name, known)).collect();
                if names.is_empty() && is_optional {
                    names.push(name);
                }
                for name in names {
                    let judge = Judge { rules: self, evidence, subject: name };
                    if let Some(severity) = rule.severity.filter(|_| judge.fires(rule)) {
                        let text = |line| Some(judge.filled(rule, rule.lines.get(line)?));
                        found.push(SettingFinding {
                            code: rule.id.to_owned(),
                            severity,
                            kind: rule.kind.to_owned(),
                            setting: name.to_owned(),
                            value: evidence.raw(name).map(str::to_owned),
                            text: text("say").unwrap_or_default(),
                            instead: text("write"),
                            source: text("source").unwrap_or_default(),
                        });
                    }
                }
            }
        }
        found
    }

    /// Returns the value of a name in effect.
    pub fn effective(&self, evidence: &Evidence, name: &str) -> Option<String> {
        Judge { rules: self, evidence, subject: name }.effective(name)
    }
}

/// Evaluates conditions about one setting.
struct Judge<'a> {
    rules: &'a Rules,
    evidence: &'a Evidence,
    /// The setting that a rule is about: `@`.
    subject: &'a str,
}

impl Judge<'_> {
    fn default_of(&self, name: &str) -> Option<String> {
        let default = self.rules.names.get(name)?.default_in(self.evidence.version());
        default.map(str::to_owned)
    }

    /// Returns the value in effect: the one that a rule has in place of the one that is set.
    fn effective(&self, name: &str) -> Option<String> {
        let judge = Judge { subject: name, ..*self };
        let mut rules = self.rules.rules.iter();
        let used = rules.find_map(|rule| {
            let used = rule.lines.get("uses").filter(|_| rule.names.contains(&name))?;
            judge.fires(rule).then(|| judge.used(used))?
        });
        let raw = || self.evidence.raw(name).map(str::to_owned);
        used.or_else(raw).or_else(|| self.default_of(name))
    }

    /// Returns the first of these operands that is known.
    fn used(&self, operands: &str) -> Option<String> {
        operands.split(" or ").find_map(|operand| match operand {
            "default" => self.default_of(self.subject),
            operand => self.number(operand).map(|number| number.to_string()),
        })
    }

    fn fires(&self, rule: &Rule) -> bool {
        let raw = self.evidence.raw(self.subject);
        let is_named = raw.is_some() || rule.names.iter().any(|name| name.ends_with('?'));
        let is_other = rule.lines.get("words").is_none_or(|words| {
            raw.is_some_and(|raw| !words.split(' ').any(|word| is_word(word, raw)))
        });
        let holds =
            |conditions: &str| conditions.split(" & ").all(|condition| self.holds(condition));
        is_named && is_other && rule.lines.get("if").is_none_or(|text| text.split(" | ").any(holds))
    }

    /// Returns the text of `@`, or of a name in effect.
    fn text(&self, name: &str) -> Option<String> {
        match name {
            "@" => self.evidence.raw(self.subject).map(str::to_owned),
            name => self.effective(name),
        }
    }

    fn is_set(&self, pattern: &str) -> bool {
        let name = if pattern == "@" { self.subject } else { pattern };
        self.evidence.raw(name).is_some_and(|text| !text.is_empty())
    }

    fn holds(&self, condition: &str) -> bool {
        let words: Vec<&str> = condition.split(' ').collect();
        match words.as_slice() {
            ["not", rest @ ..] => !self.holds(&rest.join(" ")),
            ["set", names @ ..] => names.iter().any(|name| self.is_set(name)),
            ["unset", names @ ..] => !names.iter().any(|name| self.is_set(name)),
            ["known", name] => self.evidence.knows(name),
            [name, relation, others @ ..] => self.relates(name, relation, others),
            _ => unreachable!("settings.txt: {condition}"),
        }
    }

    fn relates(&self, name: &str, relation: &str, others: &[&str]) -> bool {
        let other = others.first().copied().unwrap_or_default();
        if let "<" | "<=" | ">" | ">=" | "=" | "!=" = relation {
            let (Some(one), Some(other)) = (self.number(name), self.number(other)) else {
                return false;
            };
            return match relation {
                "<" => one < other,
                "<=" => one <= other,
                ">" => one > other,
                ">=" => one >= other,
                "=" => one == other,
                _ => one != other,
            };
        }
        let text = self.text(name).unwrap_or_default();
        let fact = self.evidence.raw(other).unwrap_or_default();
        let has =
            |list: &str, entry: &str| entries(list).any(|own| own.eq_ignore_ascii_case(entry));
        match relation {
            "is" => others.iter().any(|word| is_word(word, &text)),
            "isnt" => !others.iter().any(|word| is_word(word, &text)),
            "has" => others.iter().any(|word| has(&text, word)),
            "hasnt" => !others.iter().any(|word| has(&text, word)),
            "only" => entries(&text).all(|entry| others.contains(&entry)),
            "beyond" => !fact.is_empty() && entries(&text).any(|entry| !has(fact, entry)),
            "among" => entries(&text).any(|entry| has(fact, entry)),
            "begins" => text.starts_with(other),
            "contains" => text.contains(other),
            "number" => text.parse::<i64>().is_ok(),
            "like" => text.split(',').all(|entry| {
                let index = entry.strip_prefix(other.trim_end_matches('#'));
                index.is_some_and(|index| {
                    index.len() < 3 && index.parse::<u8>().is_ok() && !index.contains('+')
                })
            }),
            "matches" => matches_interface(&text, fact),
            _ => unreachable!("settings.txt: {relation}"),
        }
    }

    /// Returns the number that an operand stands for; `None` if it is unknown.
    fn number(&self, operand: &str) -> Option<i128> {
        if let Some((one, other)) = operand.split_once('+') {
            return Some(self.number(one)? + self.number(other)?);
        }
        if let Some((one, other)) = operand.split_once('-').filter(|(one, _)| !one.is_empty()) {
            return Some(self.number(one)? - self.number(other)?);
        }
        if let Some(number) = dotted(operand) {
            return Some(number);
        }
        if let Some(name) = operand.strip_prefix("count:") {
            return Some(entries(&self.text(name)?).count() as i128);
        }
        let (name, text) = match operand.strip_prefix("default:") {
            Some(name) => (name, self.default_of(name)),
            None => (operand, self.text(operand)),
        };
        let name = if name == "@" { self.subject } else { name };
        self.evidence.number(name, &text?)
    }

    /// Fills the places `{...}` of a text.
    fn filled(&self, rule: &Rule, text: &str) -> String {
        let mut parts = text.split('{');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (place, rest) = part.split_once('}').unwrap_or((part, ""));
            filled += &self.place(rule, place).unwrap_or_else(|| "none".into());
            filled += rest;
        }
        filled
    }

    fn place(&self, rule: &Rule, place: &str) -> Option<String> {
        let list = |name: &str| {
            let text = self.text(name).unwrap_or_default();
            entries(&text).map(str::to_owned).collect::<Vec<_>>()
        };
        match place.split_once(':').unwrap_or((place, "")) {
            ("@", _) => self.evidence.raw(self.subject).map(str::to_owned),
            ("default", "") => self.default_of(self.subject),
            ("used", _) => self.used(rule.lines.get("uses")?),
            ("near", _) => {
                let words = rule.lines.get("near").or_else(|| rule.lines.get("words"))?;
                let words = match words.strip_prefix('=') {
                    Some(fact) => list(fact),
                    None => words.split(' ').map(|word| word.replace('~', "")).collect(),
                };
                let raw = self.evidence.raw(self.subject)?;
                let near = nearest_word(raw, words.iter().map(String::as_str));
                let all = || format!("one of {}", words.join(", "));
                Some(near.map_or_else(all, str::to_owned))
            }
            ("text", name) => self.text(name),
            ("first", name) => list(name).into_iter().next(),
            ("and", name) => Some(list(name).join(" and ")),
            ("range", name) => match list(name).as_slice() {
                [first, .., last] => Some(format!("{first} to {last}")),
                [only] => Some(only.clone()),
                [] => None,
            },
            _ => self.number(place).map(|number| number.to_string()),
        }
    }
}

/// Returns the number of an integer, or of a version such as 2.3, in which parts compare as numbers.
pub fn dotted(text: &str) -> Option<i128> {
    match text.split_once('.') {
        Some((major, minor)) => {
            let minor = minor.split('.').next()?;
            Some(major.parse::<i128>().ok()? * 1000 + minor.parse::<i128>().ok()?)
        }
        None => text.parse().ok(),
    }
}

fn is_word(word: &str, text: &str) -> bool {
    match word.strip_suffix('~') {
        Some(word) => word.eq_ignore_ascii_case(text),
        None => word == text,
    }
}

/// Returns whether NCCL finds one of `interfaces` by this list: of prefixes, behind `=` of names,
/// behind `^` of those to leave out.
fn matches_interface(list: &str, interfaces: &str) -> bool {
    let excludes = list.starts_with('^');
    let list = list.trim_start_matches('^');
    let is_exact = list.starts_with('=');
    let names: Vec<&str> = entries(list.trim_start_matches('=')).collect();
    entries(interfaces).any(|interface| {
        let is_named = |name: &&str| {
            let name = name.split(':').next().unwrap_or(name);
            if is_exact { interface == name } else { interface.starts_with(name) }
        };
        names.iter().any(is_named) != excludes
    })
}

impl Evidence {
    /// Returns the text of a setting or fact, as it is set.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.settings.get(name).or_else(|| self.facts.get(name)).map(String::as_str)
    }

    /// Returns what libfabric makes of the text of a setting; a fact may be a version.
    fn number(&self, name: &str, text: &str) -> Option<i128> {
        if name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            return dotted(text);
        }
        let kind = self.parameter(name);
        if let (None | Some(ParameterType::Bool), Some(value)) = (kind, boolean(text)) {
            return Some(value.into());
        }
        let number = strtol(text).map(|(number, _)| number);
        match kind {
            // Libfabric reads a text without a number as 0.
            Some(ParameterType::Int) => Some(number.unwrap_or(0)),
            Some(ParameterType::Size) => Some(match number.unwrap_or(0) {
                negative @ ..0 => negative + (1 << 64),
                number => number,
            }),
            Some(ParameterType::Bool) => None,
            Some(ParameterType::Text) | None => number,
        }
    }
}
