//! Which pairs of NICs a survey measures, as typed after `--pairs` (jobs.md 3.2).
//!
//! ```text
//! random:4                            the default
//! loopback,within-switch,groups       smallest shared part first
//! @pairs.txt                          lines of <round> <node> <node>
//! ```

use std::fmt;

use facts::number::{decimal, within};

/// A set of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Each NIC with itself.
    Loopback,
    /// Each NIC with the NICs whose position differs in one bit: 1, 2, 4, ... positions away.
    Neighbours,
    /// Each NIC of the first half of the positions with one of the second half.
    Halves,
    /// Each NIC with this number of random others.
    Random(u32),
    /// Each pair of NICs once.
    All,
    /// Each pair of NICs of the same switch.
    WithinSwitch,
    /// Each pair of switches of the same group, by one NIC of each.
    Switches,
    /// Each pair of groups, by up to four NICs of each.
    Groups,
    /// The rounds of a file.
    Listed(Vec<PairLine>),
}

impl Selection {
    /// Returns whether each NIC is to be in a pair.
    pub fn is_of_all_nics(&self) -> bool {
        !matches!(self, Self::Switches | Self::Groups | Self::Listed(_))
    }
}

/// A line of a file of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairLine {
    /// Number of the line in the file, from 1.
    pub number: usize,
    /// Pairs of equal rounds are measured at the same time.
    pub round: u64,
    /// Host name or rank of the initiator and of the target.
    pub nodes: [String; 2],
}

/// Largest number of random partners.
const MOST_PARTNERS: u64 = 10_000;

/// Selections without a value.
const NAMED: [(&str, Selection); 7] = [
    ("loopback", Selection::Loopback),
    ("neighbours", Selection::Neighbours),
    ("halves", Selection::Halves),
    ("all", Selection::All),
    ("within-switch", Selection::WithinSwitch),
    ("switches", Selection::Switches),
    ("groups", Selection::Groups),
];

/// A selection as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedSelection {
    Named(Selection),
    /// The file after an `@`.
    File(String),
}

/// Divides selections separated by commas, without reading files.
///
/// # Errors
///
/// The first selection that is unknown or given twice.
pub fn typed(text: &str) -> Result<Vec<TypedSelection>, String> {
    let mut selections = Vec::new();
    for name in text.split(',') {
        let selection = match name.strip_prefix('@') {
            Some(path) => TypedSelection::File(path.to_owned()),
            None => TypedSelection::Named(one(name)?),
        };
        if selections.contains(&selection) {
            return Err(format!("'{name}' is given twice"));
        }
        selections.push(selection);
    }
    Ok(selections)
}

/// Parses selections separated by commas. `read` returns the text of the file after an `@`.
///
/// # Errors
///
/// The first selection that is unknown or given twice, or the error of a file.
pub fn parse(
    text: &str,
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<Selection>, String> {
    let selections = typed(text)?.into_iter().map(|typed| match typed {
        TypedSelection::Named(selection) => Ok(selection),
        TypedSelection::File(path) => {
            let lines = lines(&read(&path)?).map_err(|why| format!("{path}: {why}"))?;
            Ok(Selection::Listed(lines))
        }
    });
    selections.collect()
}

fn one(name: &str) -> Result<Selection, String> {
    if let Some(partners) = name.strip_prefix("random:") {
        return within(partners, 1..=MOST_PARTNERS)
            .map(|partners| Selection::Random(partners as u32))
            .map_err(|why| format!("'{name}': {why} after random:"));
    }
    let known = NAMED.iter().find(|(known, _)| *known == name);
    known.map(|(_, selection)| selection.clone()).ok_or_else(|| {
        let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
        format!("unknown selection '{name}' (expected {}, random:COUNT or @FILE)", names.join(", "))
    })
}

/// Parses a file of pairs: `<round> <node> <node>` on each line; a comment begins with `#`.
///
/// # Errors
///
/// The first line with an error, by its number, or a text without pairs.
fn lines(text: &str) -> Result<Vec<PairLine>, String> {
    let mut lines: Vec<PairLine> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let words: Vec<&str> =
            line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let [round, one, other] = words[..] else {
            if words.is_empty() {
                continue;
            }
            return Err(format!("line {number}: expected <round> <node> <node>"));
        };
        let round = decimal(round).ok_or_else(|| {
            format!("line {number}: '{round}' is not the decimal number of a round")
        })?;
        lines.push(PairLine { number, round, nodes: [one, other].map(str::to_owned) });
    }
    if lines.is_empty() {
        return Err("the file has no pairs (expected <round> <node> <node> on a line)".into());
    }
    lines.sort_by_key(|line| line.round);
    Ok(lines)
}

impl fmt::Display for Selection {
    /// Writes the selection as it is typed; a file is `@FILE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(partners) => write!(f, "random:{partners}"),
            Self::Listed(_) => f.write_str("@FILE"),
            named => {
                let own = NAMED.iter().find(|(_, known)| known == named);
                f.write_str(own.map_or("", |(name, _)| name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_file(path: &str) -> Result<String, String> {
        Err(format!("cannot read {path}"))
    }

    #[test]
    fn reads_each_selection_as_it_is_written() {
        for name in [
            "loopback",
            "neighbours",
            "halves",
            "random:3",
            "all",
            "within-switch",
            "switches",
            "groups",
        ] {
            let [selection] = parse(name, no_file).unwrap().try_into().unwrap();
            assert_eq!(selection.to_string(), name);
        }
        let several = parse("loopback,within-switch,random:2", no_file).unwrap();
        assert_eq!(several, [Selection::Loopback, Selection::WithinSwitch, Selection::Random(2)]);
    }

    #[test]
    fn refuses_selections_with_reason() {
        for (text, why) in [
            (
                "",
                "unknown selection '' (expected loopback, neighbours, halves, all, within-switch, ",
            ),
            ("ring", "unknown selection 'ring'"),
            ("random", "groups, random:COUNT or @FILE)"),
            ("random:0", "'random:0': expected a decimal number from 1 to 10000 after random:"),
            ("all,halves,all", "'all' is given twice"),
            ("@missing", "cannot read missing"),
        ] {
            let message = parse(text, no_file).unwrap_err();
            assert!(message.contains(why), "{text:?}: {message}");
        }
    }

    #[test]
    fn reads_rounds_of_a_file() {
        let text = "# two rounds\n2 a c\n1 a b # near\n\n1 c 3\n";
        let [Selection::Listed(lines)] = &parse("@f", |_| Ok(text.into())).unwrap()[..] else {
            panic!("expected one file");
        };
        let facts: Vec<_> =
            lines.iter().map(|line| (line.number, line.round, line.nodes[1].as_str())).collect();
        assert_eq!(facts, [(3, 1, "b"), (5, 1, "3"), (2, 2, "c")]);
        for (text, why) in [
            ("1 a", "f: line 1: expected <round> <node> <node>"),
            ("1 a b c", "line 1: expected"),
            ("x a b", "line 1: 'x' is not the decimal number of a round"),
            ("# none", "has no pairs"),
        ] {
            let message = parse("@f", |_| Ok(text.into())).unwrap_err();
            assert!(message.contains(why), "{text:?}: {message}");
        }
    }
}
