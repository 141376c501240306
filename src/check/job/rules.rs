//! The interpreter of the rules about settings.

use std::collections::BTreeSet;

use super::evidence::{JobEvidence, ParameterType, SECRET};
use super::table::{RULES, SettingFinding, SettingRule, SettingRules};
use super::values::{boolean, dotted, entries, is_like, meant, nearest_name, nearest_word, strtol};

impl SettingRules {
    /// Returns what the rules find. A rule for all names of a kind is for settings about which no
    /// rule before it has found anything, and no rule after it is for them.
    pub fn findings(&self, evidence: &JobEvidence) -> Vec<SettingFinding> {
        let mut found: Vec<SettingFinding> = Vec::new();
        let mut judged: BTreeSet<&str> = BTreeSet::new();
        for (rule, pattern) in
            self.rules.iter().flat_map(|rule| rule.names.iter().map(move |name| (rule, *name)))
        {
            let unset = pattern.strip_suffix('?').filter(|name| evidence.raw(name).is_none());
            let names = evidence.settings.keys().chain(evidence.facts.keys()).map(String::as_str);
            let is_general = pattern.contains([':', '*']);
            for subject in names.filter(|name| evidence.is_named(pattern, name)).chain(unset) {
                let is_found = found.iter().any(|finding| finding.setting == subject);
                // One finding says that the library has no cxi provider.
                let is_without_cxi = subject.starts_with("FI_CXI_") && !evidence.may_have_cxi();
                if is_without_cxi || judged.contains(subject) || is_general && is_found {
                    continue;
                }
                let judge = Judge { rules: self, evidence, subject };
                let Some(severity) = rule.severity.filter(|_| judge.fires(rule)) else { continue };
                let filled = |line| judge.filled(rule, rule.lines.get(line)?);
                judged.extend(is_general.then_some(subject));
                found.push(SettingFinding {
                    code: rule.id.to_owned(),
                    severity,
                    kind: rule.kind.to_owned(),
                    setting: subject.to_owned(),
                    value: evidence.raw(subject).filter(|_| !is_fact(subject)).map(str::to_owned),
                    text: filled("say").unwrap_or_default(),
                    instead: filled("write"),
                    source: filled("source").unwrap_or_default(),
                    ..SettingFinding::default()
                });
            }
        }
        found
    }
}

/// Evaluates conditions about one setting.
struct Judge<'a> {
    rules: &'a SettingRules,
    evidence: &'a JobEvidence,
    /// The setting that a rule is about: `@`.
    subject: &'a str,
}

impl Judge<'_> {
    /// The text behind `word=` in the line of a name.
    fn fact(&self, name: &str, word: &str) -> Option<&'static str> {
        let mut facts = self.rules.names.get(name)?.iter();
        facts.find_map(|fact| fact.strip_prefix(word)?.strip_prefix('='))
    }

    /// The default of a name in this version; `None` if it is unknown.
    fn default_in(&self, name: &str, version: Option<i128>) -> Option<String> {
        let text = self.fact(name, "default")?;
        let mut defaults = text.split(',');
        let first = defaults.next().filter(|first| version.is_some() || *first == text);
        let since = |entry: &'static str| {
            let (since, default) = entry.split_once('=')?;
            (dotted(since)? <= version?).then_some(default)
        };
        defaults.filter_map(since).next_back().or(first).map(str::to_owned)
    }

    /// The value in effect: the one that a rule has in place of the one that is set.
    fn effective(&self, name: &str) -> Option<String> {
        let judge = Judge { subject: name, ..*self };
        let used = self.rules.rules.iter().find_map(|rule| {
            let used = rule.lines.get("uses").filter(|_| rule.names.contains(&name))?;
            judge.fires(rule).then(|| judge.used(used))?
        });
        let raw = || self.evidence.raw(name).map(str::to_owned);
        used.or_else(raw).or_else(|| self.default_in(name, self.evidence.version()))
    }

    /// The first of these operands that is known.
    fn used(&self, operands: &str) -> Option<String> {
        let number = |operand| dotted(operand).map(|number| number.to_string());
        operands.split(" or ").find_map(|operand| self.text(operand).or_else(|| number(operand)))
    }

    fn fires(&self, rule: &SettingRule) -> bool {
        let raw = self.evidence.raw(self.subject);
        let is_named = raw.is_some() || rule.names.iter().any(|name| name.ends_with('?'));
        let is_other = rule.lines.get("words").is_none_or(|words| {
            raw.is_some_and(|raw| !words.split(' ').any(|word| is_word(word, raw)))
        });
        let holds = |text: &str| text.split(" & ").all(|condition| self.holds(condition));
        is_named && is_other && rule.lines.get("if").is_none_or(|text| text.split(" | ").any(holds))
    }

    /// The text of `@`, of a default, or of a name in effect.
    fn text(&self, name: &str) -> Option<String> {
        match name {
            "@" => self.evidence.raw(self.subject).map(str::to_owned),
            "default" => self.default_in(self.subject, self.evidence.version()),
            "old" => self.default_in(self.subject, dotted("2.1")),
            "later" => self.default_in(self.subject, dotted("2.2")),
            "since" | "until" => self.fact(self.subject, name).map(str::to_owned),
            name => self.effective(name),
        }
    }

    fn holds(&self, condition: &str) -> bool {
        let words: Vec<&str> = condition.split(' ').collect();
        let is_set = |name: &&str| !self.evidence.raw(name).unwrap_or_default().is_empty();
        match words.as_slice() {
            ["not", rest @ ..] => !self.holds(&rest.join(" ")),
            ["set", names @ ..] => names.iter().any(is_set),
            ["unset", names @ ..] => !names.iter().any(is_set),
            ["known", "@"] => self.evidence.knows(self.subject),
            ["known", name] => self.evidence.knows(name),
            ["near"] => self.nearest().is_some(),
            [name, relation, others @ ..] => self.relates(name, relation, others),
            _ => unreachable!("settings.txt: {condition}"),
        }
    }

    fn relates(&self, name: &str, relation: &str, others: &[&str]) -> bool {
        let other = others.first().copied().unwrap_or_default();
        let compare = || Some(self.number(name)?.cmp(&self.number(other)?));
        let text = || self.text(name).unwrap_or_default();
        let fact = self.evidence.raw(other).unwrap_or_default();
        let has =
            |list: &str, entry: &str| entries(list).any(|own| own.eq_ignore_ascii_case(entry));
        match relation {
            "<" => compare().is_some_and(|order| order.is_lt()),
            "<=" => compare().is_some_and(|order| order.is_le()),
            ">" => compare().is_some_and(|order| order.is_gt()),
            ">=" => compare().is_some_and(|order| order.is_ge()),
            "=" => compare().is_some_and(|order| order.is_eq()),
            "!=" => compare().is_some_and(|order| order.is_ne()),
            "is" => others.iter().any(|word| is_word(word, &text())),
            "isnt" => !self.relates(name, "is", others),
            "has" => others.iter().any(|word| has(&text(), word)),
            "hasnt" => !self.relates(name, "has", others),
            "only" => entries(&text()).all(|entry| others.contains(&entry)),
            "beyond" => !fact.is_empty() && entries(&text()).any(|entry| !has(fact, entry)),
            "among" => entries(&text()).any(|entry| has(fact, entry)),
            "begins" => text().starts_with(other),
            "contains" => text().contains(other),
            "number" => text().parse::<i64>().is_ok(),
            "boolean" => boolean(&text()).is_some(),
            "unreadable" => strtol(&text()).is_none(),
            "octal" => {
                text().trim().starts_with('0')
                    && text().trim()[1..].starts_with(|letter: char| letter.is_ascii_digit())
            }
            "partial" => strtol(&text()).is_some_and(|(_, rest)| !rest.is_empty()),
            "like" => text().split(',').all(|entry| {
                let index = entry.strip_prefix(other.trim_end_matches('#')).unwrap_or_default();
                matches!(index.len(), 1 | 2) && index.bytes().all(|byte| byte.is_ascii_digit())
            }),
            "matches" => matches_interface(&text(), fact),
            _ => unreachable!("settings.txt: {relation}"),
        }
    }

    /// The number that an operand stands for; `None` if it is unknown.
    fn number(&self, operand: &str) -> Option<i128> {
        if let Some((one, other)) = operand.split_once('+') {
            return Some(self.number(one)? + self.number(other)?);
        }
        if let Some((one, other)) = operand.split_once('-') {
            return Some(self.number(one)? - self.number(other)?);
        }
        if let Some(name) = operand.strip_prefix("count:") {
            return Some(entries(&self.text(name)?).count() as i128);
        }
        let name = if operand == "@" { self.subject } else { operand };
        dotted(operand).or_else(|| self.evidence.number(name, &self.text(operand)?))
    }

    /// The known name that is nearest to this one, which no version knows.
    fn nearest(&self) -> Option<&str> {
        let known = self.evidence.names().chain(self.rules.list("unreported"));
        let is_known_elsewhere = self.rules.names.contains_key(self.subject);
        let known = known.filter(|known| !known.contains('*') && !is_known_elsewhere);
        nearest_name(self.subject, known)
    }

    /// Fills the places `{...}` of the first of these texts whose places are all known.
    fn filled(&self, rule: &SettingRule, texts: &str) -> Option<String> {
        texts.split(" || ").find_map(|text| {
            let mut parts = text.split('{');
            let first = parts.next().map(str::to_owned);
            parts.try_fold(first?, |filled, part| {
                let (place, rest) = part.split_once('}')?;
                Some(filled + &self.place(rule, place)? + rest)
            })
        })
    }

    fn place(&self, rule: &SettingRule, place: &str) -> Option<String> {
        let raw = || self.evidence.raw(self.subject).unwrap_or_default();
        let list = |name: &str| {
            let text = self.text(name).unwrap_or_default();
            entries(&text).map(str::to_owned).collect::<Vec<_>>()
        };
        match place.split_once(':').unwrap_or((place, "")) {
            ("@" | "default" | "old" | "later" | "since" | "until", _) => self.text(place),
            ("used", _) => self.used(rule.lines.get("uses")?),
            ("near", _) => {
                let words = rule.lines.get("near").or_else(|| rule.lines.get("words"))?;
                if let Some(fact) = words.strip_prefix('=') {
                    let words = list(fact);
                    return nearest_word(raw(), words.iter().map(String::as_str))
                        .map(str::to_owned);
                }
                let words: Vec<String> =
                    words.split(' ').map(|word| word.replace('~', "")).collect();
                let near = nearest_word(raw(), words.iter().map(String::as_str));
                let all = || format!("one of {}", words.join(", "));
                Some(near.map_or_else(all, str::to_owned))
            }
            ("nearest", _) => {
                let name = self.nearest()?;
                let default = self.default_in(name, self.evidence.version());
                let default = default.map(|default| format!(" (default {default})"));
                Some(name.to_owned() + &default.unwrap_or_default())
            }
            ("successor", _) => {
                let opposite = if boolean(raw()) == Some(true) { "0" } else { "1" };
                let name = self.fact(self.subject, "use").map(|name| name.replace('!', opposite));
                Some(name.map_or("Remove it.".into(), |name| format!("Use {name}.")))
            }
            ("read", _) => strtol(raw()).map(|(number, _)| number.to_string()),
            ("meant", _) => meant(raw()).map(|number| number.to_string()),
            ("unit", _) => {
                let is_bytes = self.rules.names.get(self.subject)?.contains(&"bytes");
                Some(if is_bytes { " (bytes)" } else { "" }.into())
            }
            ("rest", _) => {
                let is_unit = strtol(raw())?.1.bytes().all(|byte| byte.is_ascii_alphabetic());
                Some(if is_unit { "letters are" } else { "rest is" }.into())
            }
            ("replaced", _) => {
                let used = self.effective(self.subject).filter(|used| used != raw());
                Some(used.map_or(String::new(), |used| format!(", replaced by the default {used}")))
            }
            ("text", name) => self.text(name),
            ("first", name) => list(name).into_iter().next(),
            ("and", name) => Some(list(name).join(" and ")),
            ("range", name) => match list(name).as_slice() {
                [first, .., last] => Some(format!("{first} to {last}")),
                only => only.first().cloned(),
            },
            _ => self.number(place).map(|number| number.to_string()),
        }
    }
}

fn is_fact(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_lowercase())
}

fn is_word(word: &str, text: &str) -> bool {
    match word.strip_suffix('~') {
        Some(word) => word.eq_ignore_ascii_case(text),
        None => word == text,
    }
}

/// Whether NCCL finds one of `interfaces` by this list: of prefixes, behind `=` of names, behind
/// `^` of those to leave out.
fn matches_interface(list: &str, interfaces: &str) -> bool {
    let (excludes, list) = (list.starts_with('^'), list.trim_start_matches('^'));
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

impl JobEvidence {
    /// The text of a setting or fact, as it is set.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.settings.get(name).or_else(|| self.facts.get(name)).map(String::as_str)
    }

    /// Whether a pattern of a rule is for this setting or fact.
    fn is_named(&self, pattern: &str, name: &str) -> bool {
        let is_a = |kind| self.parameter(name) == Some(kind) && self.raw(name) != Some(SECRET);
        match pattern {
            ":unknown" => self.library.is_some() && name.starts_with("FI_") && !self.knows(name),
            ":int" => is_a(ParameterType::Int),
            ":bool" => is_a(ParameterType::Bool),
            ":size" => is_a(ParameterType::Size),
            ":low" => RULES.names.get(name).is_some_and(|facts| facts.contains(&"low")),
            pattern => is_like(pattern.trim_end_matches('?'), name),
        }
    }

    /// Returns what libfabric makes of the text of a setting; a fact may be a version.
    fn number(&self, name: &str, text: &str) -> Option<i128> {
        if is_fact(name) {
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
            Some(ParameterType::Size) => Some(number.unwrap_or(0).rem_euclid(1 << 64)),
            Some(ParameterType::Bool) => None,
            Some(ParameterType::Text) | None => number,
        }
    }
}
