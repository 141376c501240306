//! The table of messages and return codes, read from `messages.txt`, and the form of a message in
//! a line.

use std::collections::{BTreeMap, HashMap};
use std::iter;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use facts::advice::{Advice, code_explanation};

/// What `messages.txt` says.
pub static TABLE: LazyLock<MessageTable> =
    LazyLock::new(|| MessageTable::read(include_str!("messages.txt")));

facts::named_enum! {
    /// What a line says about the failure of a job.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Role {
        #[default]
        Cause = "cause",
        /// It follows from something else, which may stand in another log.
        Consequence = "consequence",
        /// Harmless, but the cause of a failure without any other.
        Alone = "alone",
        /// Harmless.
        Note = "note",
        /// The return code in the line decides.
        Code = "code",
    }
    /// Its name in the table and in documents.
    pub fn name(self);
}

/// A message, or a return code of the NIC.
#[derive(Debug, Default)]
pub struct Row {
    /// `M01`, or the name of a return code.
    pub id: &'static str,
    pub role: Role,
    /// Who prints it; the peer or the printer as the suspect for a return code.
    pub origin: &'static str,
    /// When it is printed; the number of a return code.
    pub level: &'static str,
    pub forms: Vec<Form>,
    /// Words of which the line must have one too; any line if there are none.
    pub needs: Vec<&'static str>,
    /// What happened, in alternatives.
    pub says: Vec<&'static str>,
    pub causes: Vec<Cause>,
    pub proof: Option<&'static str>,
    pub action: Option<&'static str>,
    /// The next command, in alternatives.
    pub commands: Vec<&'static str>,
    /// What it does not mean.
    pub exclusions: Vec<&'static str>,
    /// The C function whose error number the message has.
    pub call: Option<&'static str>,
    /// Messages and return codes that make this one their consequence.
    pub follows: Vec<&'static str>,
    /// The row does not count in a log that has this text anywhere.
    pub without: Option<&'static str>,
}

/// A possible cause of a message.
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    /// How this node proves it: `check:link-down`.
    pub key: Option<&'static str>,
    /// The error number in the message for which it is a cause; none for any.
    pub errno: Option<&'static str>,
    pub text: &'static str,
}

impl Row {
    /// The explanation of a return code, for messages of our own too.
    pub fn advice(&self) -> Option<&'static Advice> {
        self.forms.is_empty().then(|| code_explanation(self.id)).flatten()
    }
}

/// A fragment of a message: texts, and what stands between them.
#[derive(Debug)]
pub struct Form {
    pub fragment: &'static str,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Text(&'static str),
    Place(&'static str),
}

/// The values of the places of a message, by name.
pub type Values = BTreeMap<&'static str, String>;

impl Form {
    /// Reads a fragment with its places.
    pub fn read(fragment: &'static str) -> Self {
        let mut parts = Vec::new();
        let mut rest = fragment;
        while let Some((text, place, behind)) = first_place(rest) {
            if !text.is_empty() {
                parts.push(Part::Text(text));
            }
            parts.push(Part::Place(place));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest));
        }
        // A value behind the text that is not kept says nothing about the line.
        while let Some(Part::Place("n" | "x" | "s")) = parts.last() {
            parts.pop();
        }
        Self { fragment, parts }
    }

    /// Returns its longest text.
    pub fn anchor(&self) -> &'static str {
        let text = |part: &Part| match part {
            Part::Text(text) => Some(*text),
            Part::Place(_) => None,
        };
        let longest = self.parts.iter().filter_map(text).max_by_key(|text| text.len());
        longest.expect("each fragment of messages.txt has a text; a test reads them all")
    }

    /// Returns where the message begins in a line, and its values.
    pub fn find(&self, line: &str) -> Option<(usize, Values)> {
        let Some(Part::Text(first)) = self.parts.first() else {
            // A form that begins with a place: its text stands behind the value.
            let starts = line.match_indices(' ').map(|(space, _)| space + 1);
            return iter::once(0)
                .chain(starts)
                .find_map(|start| Some((start, self.values(&line[start..])?)));
        };
        line.match_indices(first).find_map(|(start, _)| Some((start, self.values(&line[start..])?)))
    }

    /// The values of a message at the beginning of a text.
    pub fn values(&self, text: &str) -> Option<Values> {
        let mut values = Values::new();
        let mut rest = text;
        for (at, part) in self.parts.iter().enumerate() {
            match *part {
                Part::Text(text) => rest = rest.strip_prefix(text)?,
                Part::Place("s") => {
                    let Some(Part::Text(next)) = self.parts.get(at + 1) else { break };
                    rest = &rest[rest.find(next)?..];
                }
                Part::Place(place) => {
                    let value = &rest[..length(place, rest)?];
                    rest = &rest[value.len()..];
                    if !matches!(place, "n" | "x" | "word") {
                        let name = if place == "node" { "host" } else { place };
                        values.entry(name).or_insert_with(|| value.to_owned());
                    }
                }
            }
        }
        Some(values)
    }
}

/// The text before the first place of a fragment, its name, and the text behind.
fn first_place(fragment: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    fragment.match_indices('<').find_map(|(start, _)| {
        let (name, behind) = fragment[start + 1..].split_once('>')?;
        is_name(name).then_some((&fragment[..start], name, behind))
    })
}

/// The length of the value of a place at the beginning of a text.
fn length(place: &str, text: &str) -> Option<usize> {
    let signed = text.len() - text.trim_start_matches(['-', '\u{2212}']).len();
    let prefix = match place {
        "n" | "errno" => signed.min(3),
        "x" | "target" if text.starts_with("0x") || text.starts_with("0X") => 2,
        _ => 0,
    };
    let is_part = |letter: char| match place {
        "n" | "nid" | "rank" | "errno" => letter.is_ascii_digit(),
        "x" | "target" => letter.is_ascii_hexdigit(),
        "code" => letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_',
        "host" => is_host_letter(letter),
        "word" => !letter.is_whitespace() && !matches!(letter, '[' | ']'),
        _ => letter.is_ascii_alphanumeric() || letter == '_',
    };
    if place == "node" {
        return node_length(text);
    }
    let digits = text.get(prefix..)?.find(|letter| !is_part(letter));
    let length = digits.map_or(text.len(), |digits| prefix + digits);
    // A name with a sign before it would be an option of a command, and `fe80::1` is no name.
    let is_host = !text.starts_with(['.', '-', '_']) && !text[length..].starts_with("::");
    (length > prefix && (place != "host" || is_host)).then_some(length)
}

/// Whether a letter may stand in the name of a host.
pub fn is_host_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_')
}

/// The length of the name of a host with a number at the beginning of a text: most words without
/// one are no hosts. Programs, files, NICs and ranks are none either.
pub fn node_length(text: &str) -> Option<usize> {
    const OTHERS: [&str; 17] = [
        "cxi", "rank", "hsn", "python", "pytorch", "lib", "GPU", "CPU", "cuda", "x86_64",
        "aarch64", "line", "step", "attempt", "epoch", "iter", "-",
    ];
    const FILES: [&str; 8] = [".py", ".c", ".cc", ".cpp", ".cu", ".h", ".sh", ".so"];
    let end = text.find(|letter| !is_host_letter(letter)).unwrap_or(text.len());
    let name = text[..end].trim_end_matches(['.', '-']);
    let has = |is_letter: fn(&char) -> bool| name.contains(|letter| is_letter(&letter));
    let is_host = has(char::is_ascii_digit)
        && has(char::is_ascii_alphabetic)
        && !OTHERS.iter().any(|other| name.starts_with(other))
        && !FILES.iter().any(|file| name.ends_with(file));
    // `nid00[1-4]` is no single host, and `fe80::1` no name.
    let is_end = !text[end..].starts_with(['[', '/']) && !text[end..].starts_with("::");
    (is_host && is_end).then_some(name.len())
}

/// The rows, and what finds their messages.
pub struct MessageTable {
    pub rows: Vec<Row>,
    /// Indexes of return codes and conclusions.
    codes: HashMap<&'static str, usize>,
    finder: AhoCorasick,
    patterns: Vec<Pattern>,
}

/// What a text of `finder` stands for.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// A form of this row.
    Form(usize),
    /// The row does not count.
    Exclusion(usize),
    Heading,
}

/// Texts in headings of files that people put together.
const HEADINGS: [&str; 2] = ["dmesg", "journalctl"];

/// What a line says.
#[derive(Debug, Default)]
pub struct LineMessages {
    /// Whether it names the source of the lines behind it.
    pub is_heading: bool,
    pub messages: Vec<Message>,
    /// Rows that do not count in this log.
    pub excluded: Vec<usize>,
}

/// A message in a line.
#[derive(Debug)]
pub struct Message {
    pub row: usize,
    /// Where it begins.
    pub start: usize,
    pub values: Values,
}

impl MessageTable {
    fn read(text: &'static str) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (keyword, rest) = line.split_once(' ').expect("a keyword and a text");
            if matches!(keyword, "message" | "code" | "conclusion") {
                rows.push(row(keyword, rest));
                continue;
            }
            let row = rows.last_mut().expect("the first line is a head");
            let list = |separator| rest.split(separator).map(str::trim).collect();
            match keyword {
                "text" => row.forms.push(Form::read(rest)),
                "needs" => row.needs = list("|"),
                "says" => row.says = list("||"),
                "cause" => row.causes.push(cause(rest)),
                "proof" => row.proof = Some(rest),
                "do" => row.action = Some(rest),
                "run" => row.commands = list("||"),
                "not" => row.exclusions.push(rest),
                "call" => row.call = Some(rest),
                "follows" => row.follows.extend(rest.split_whitespace()),
                "without" => row.without = Some(rest),
                "source" => {}
                other => unreachable!("messages.txt: {other}"),
            }
        }
        let (mut patterns, mut anchors) = (Vec::new(), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            for form in &row.forms {
                patterns.push(Pattern::Form(at));
                anchors.push(form.anchor());
            }
            if let Some(text) = row.without {
                patterns.push(Pattern::Exclusion(at));
                anchors.push(text);
            }
        }
        for text in HEADINGS {
            patterns.push(Pattern::Heading);
            anchors.push(text);
        }
        let finder = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(anchors);
        let codes = rows.iter().enumerate().filter(|(_, row)| row.forms.is_empty());
        let codes = codes.map(|(at, row)| (row.id, at)).collect();
        Self { finder: finder.expect("a few hundred short texts"), patterns, codes, rows }
    }

    /// Returns where the first text of a message begins.
    pub fn find(&self, bytes: &[u8]) -> Option<usize> {
        self.finder.find(bytes).map(|found| found.start())
    }

    /// Returns what a line says.
    pub fn search(&self, line: &str) -> LineMessages {
        let mut found = LineMessages::default();
        let mut tried = Vec::new();
        for anchor in self.finder.find_overlapping_iter(line) {
            let row = match self.patterns[anchor.pattern().as_usize()] {
                Pattern::Form(row) => row,
                Pattern::Exclusion(row) => {
                    found.excluded.push(row);
                    continue;
                }
                Pattern::Heading => {
                    found.is_heading = true;
                    continue;
                }
            };
            // A text may stand in the line many times.
            if tried.contains(&row) {
                continue;
            }
            tried.push(row);
            let needs = &self.rows[row].needs;
            if !(needs.is_empty() || needs.iter().any(|word| line.contains(word))) {
                continue;
            }
            let mut forms = self.rows[row].forms.iter();
            if let Some((start, values)) = forms.find_map(|form| form.find(line)) {
                found.messages.push(Message { row, start, values });
            }
        }
        found
    }

    /// The row of a return code or of a conclusion.
    pub fn code(&self, name: &str) -> Option<usize> {
        self.codes.get(name).copied()
    }
}

fn row(keyword: &str, head: &'static str) -> Row {
    let words: Vec<&str> = head.split(' ').collect();
    let (id, role, origin, level) = match (keyword, &words[..]) {
        ("message", [id, role, producer, level]) => (*id, *role, *producer, *level),
        ("code", [name, number, role, subject]) => (*name, *role, *subject, *number),
        ("conclusion", [name, role, subject]) => (*name, *role, *subject, ""),
        _ => unreachable!("messages.txt: {head}"),
    };
    let role = Role::ALL.into_iter().find(|known| known.name() == role);
    let role = role.unwrap_or_else(|| unreachable!("messages.txt: {head}"));
    Row { id, role, origin, level, ..Row::default() }
}

/// Reads `[KEY:NAME] [-ERRNO] TEXT`.
fn cause(text: &'static str) -> Cause {
    const KINDS: [&str; 5] = ["check", "counter", "full", "module", "job"];
    let word = |text: &'static str| text.split_once(' ').unwrap_or((text, ""));
    let (first, rest) = word(text);
    let is_key =
        first.split_once(':').is_some_and(|(kind, name)| KINDS.contains(&kind) && !name.is_empty());
    let (key, text) = if is_key { (Some(first), rest) } else { (None, text) };
    let (first, rest) = word(text);
    let is_errno = first.strip_prefix('-').is_some_and(|number| number.parse::<u16>().is_ok());
    let (errno, text) = if is_errno { (Some(first), rest) } else { (None, text) };
    Cause { key, errno, text }
}

#[cfg(test)]
mod tests {
    use facts::advice::{EXPLANATIONS, What};

    use super::*;

    /// A line that has the form.
    fn sample(form: &Form) -> String {
        let value = |part: &Part| match part {
            Part::Text(text) => (*text).to_owned(),
            Part::Place(place) => match *place {
                "n" | "nid" | "rank" => "7",
                "x" | "target" => "0xa7",
                "errno" => "-28",
                "code" => "UNDELIVERABLE",
                "device" => "cxi0",
                _ => "word1",
            }
            .to_owned(),
        };
        form.parts.iter().map(value).collect()
    }

    #[test]
    fn finds_each_form_of_each_message() {
        for (at, row) in TABLE.rows.iter().enumerate() {
            for form in &row.forms {
                let need = row.needs.first().copied().unwrap_or_default();
                let line = format!("3: before {} {need}", sample(form));
                let found = TABLE.search(&line);
                assert!(
                    found.messages.iter().any(|message| message.row == at),
                    "{}: {line}",
                    row.id
                );
                assert!(TABLE.find(line.as_bytes()).is_some(), "{line}");
            }
        }
    }

    #[test]
    fn words_of_other_programs_are_no_messages() {
        let found = |line: &str| TABLE.search(line).messages.len();
        assert_eq!(found("cleanup: exiting normally"), 0);
        assert_eq!(found("cxi_rh[71]: RH: exiting normally"), 1);
        assert_eq!(found("fi_getinfo: provider tcp returned -61 (No data available)"), 0);
    }

    /// Two messages that follow from each other would both be left out as causes.
    #[test]
    fn nothing_follows_from_itself() {
        let row = |id: &str| TABLE.rows.iter().find(|row| row.id == id).unwrap();
        for first in &TABLE.rows {
            let mut found = first.follows.clone();
            let mut at = 0;
            while at < found.len() {
                for id in &row(found[at]).follows {
                    if !found.contains(id) {
                        found.push(id);
                    }
                }
                at += 1;
            }
            assert!(!found.contains(&first.id), "{} follows from itself: {found:?}", first.id);
        }
    }

    #[test]
    fn rows_are_complete_and_know_each_other() {
        let ids: Vec<&str> = TABLE.rows.iter().map(|row| row.id).collect();
        for row in &TABLE.rows {
            assert_eq!(ids.iter().filter(|id| **id == row.id).count(), 1, "{}", row.id);
            for other in &row.follows {
                assert!(ids.contains(other) && *other != row.id, "{} follows {other}", row.id);
            }
            let says_something = !row.says.is_empty() || row.advice().is_some();
            assert!(says_something, "{} says nothing", row.id);
            for list in [&row.says, &row.commands] {
                let mut last = list.last().map_or_else(String::new, |text| (*text).to_owned());
                if row.level.is_empty() {
                    last = last.replace("{peers}", "").replace("{reporters}", "");
                }
                assert!(!last.contains('{'), "{}: nothing fills '{last}' always", row.id);
            }
            let needs_cause = row.role == Role::Cause && !row.forms.is_empty();
            let has_cause = !row.causes.is_empty() || row.call.is_some();
            assert!(!needs_cause || has_cause, "{} has no cause", row.id);
        }
    }

    #[test]
    fn return_codes_have_their_numbers_and_explanations() {
        for row in TABLE.rows.iter().filter(|row| row.forms.is_empty() && !row.level.is_empty()) {
            let number: u8 = row.level.parse().unwrap();
            let code = cxi::ReturnCode(number);
            assert_eq!(code.name(), Some(row.id), "{number}");
            let explained =
                |what: &What| matches!(what, What::Code(names) if names.contains(&row.id));
            assert!(EXPLANATIONS.iter().any(|row| explained(&row.what)), "{}", row.id);
        }
    }

    #[test]
    fn reads_places_by_their_kind() {
        let values =
            |fragment, line: &str| Form::read(fragment).find(line).map(|(_, values)| values);
        let found =
            values("nic: <target> pid: <n> (<code>)", "x nic: 0XA7 pid: -3 (NO_SPACE)").unwrap();
        assert_eq!(found["target"], "0XA7");
        assert_eq!(found["code"], "NO_SPACE");
        assert_eq!(values("nic: <target> pid", "nic: g pid"), None);
        assert_eq!(values("on <host>: <s> end", "on n1.a-b: a end").unwrap()["host"], "n1.a-b");
        assert_eq!(values("<host>: rank <rank>", "a n1: rank 3").unwrap()["rank"], "3");
        assert_eq!(values("a <n>.", "a x."), None);
        assert_eq!(values("a=<n> b=<n>", "a=1 b=LIST").map(|values| values.len()), Some(0));
    }
}
