//! The patterns of load, and which of them the user wants, as typed after `--load=` (load.md 3.2).
//!
//! ```text
//! standard                            the default of a bare --load
//! bisect:system,incast:16,victims     in any order
//! plan,classes                        what would be sent, without a packet
//! ```

use std::fmt;

use facts::number::within;

/// One word of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadPattern {
    /// Bandwidths of halves.
    Bisect(Set),
    /// Bandwidths of permutations.
    Shift,
    /// Bandwidths of each NIC with eight others.
    AllToAll,
    /// Bandwidths of this number of sources for each target.
    Incast(u16),
    /// Victims that measure with the target of this number of sources.
    IncastSame(u16),
    /// Victims beside the load of each pattern.
    Victims,
    /// Victims in the traffic class of the load, and in another one.
    Classes,
    /// The patterns of a bare `--load`.
    Standard,
}

/// The allowed numbers of sources of one target.
pub const SOURCES: std::ops::RangeInclusive<u16> = 2..=64;

/// Words without a number.
const NAMED: [(&str, LoadPattern); 9] = [
    ("standard", LoadPattern::Standard),
    ("bisect", LoadPattern::Bisect(Set::All)),
    ("bisect:switch", LoadPattern::Bisect(Set::Switch)),
    ("bisect:group", LoadPattern::Bisect(Set::Group)),
    ("bisect:system", LoadPattern::Bisect(Set::System)),
    ("shift", LoadPattern::Shift),
    ("all2all", LoadPattern::AllToAll),
    ("victims", LoadPattern::Victims),
    ("classes", LoadPattern::Classes),
];

/// The word that asks for the plan only.
const PLAN: &str = "plan";

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSpec {
    /// The words, as typed; at least one.
    pub list: Vec<LoadPattern>,
    /// Whether the plan is printed, and nothing is sent.
    pub is_plan: bool,
}

impl Default for LoadSpec {
    /// The value of a bare `--load`.
    fn default() -> Self {
        Self { list: vec![LoadPattern::Standard], is_plan: false }
    }
}

/// Parses words separated by commas.
///
/// # Errors
///
/// The first word that is unknown or given twice.
pub fn parse(text: &str) -> Result<LoadSpec, String> {
    let mut wanted = LoadSpec { list: Vec::new(), is_plan: false };
    for name in text.split(',') {
        let is_repeated = if name == PLAN {
            std::mem::replace(&mut wanted.is_plan, true)
        } else {
            let want = one(name)?;
            let is_repeated = wanted.list.contains(&want);
            wanted.list.push(want);
            is_repeated
        };
        if is_repeated {
            return Err(format!("'{name}' is given twice"));
        }
    }
    if wanted.list.is_empty() {
        wanted.list.push(LoadPattern::Standard);
    }
    Ok(wanted)
}

fn one(name: &str) -> Result<LoadPattern, String> {
    // The longer prefix first: the other one begins it.
    for (prefix, want) in [
        ("incast-same:", LoadPattern::IncastSame as fn(u16) -> LoadPattern),
        ("incast:", LoadPattern::Incast),
    ] {
        if let Some(sources) = name.strip_prefix(prefix) {
            let range = u64::from(*SOURCES.start())..=u64::from(*SOURCES.end());
            return within(sources, range)
                .map(|sources| want(sources as u16))
                .map_err(|why| format!("'{name}': {why} after {prefix}"));
        }
    }
    let known = NAMED.iter().find(|(known, _)| *known == name);
    known.map(|(_, want)| *want).ok_or_else(|| {
        let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
        format!(
            "unknown load '{name}' (expected {}, incast:COUNT, incast-same:COUNT or {PLAN})",
            names.join(", ")
        )
    })
}

impl fmt::Display for LoadPattern {
    /// Writes the word as it is typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incast(sources) => write!(f, "incast:{sources}"),
            Self::IncastSame(sources) => write!(f, "incast-same:{sources}"),
            named => {
                let own = NAMED.iter().find(|(_, known)| known == named);
                f.write_str(own.map_or("", |(name, _)| name))
            }
        }
    }
}

impl fmt::Display for LoadSpec {
    /// Writes the patterns as typed, without the word that asks for the plan.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, want) in self.list.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            want.fmt(f)?;
        }
        Ok(())
    }
}

/// The NICs that exchange traffic among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Set {
    /// All NICs.
    All,
    /// The NICs of each switch.
    Switch,
    /// The NICs of each group.
    Group,
    /// Half of the groups with the other half.
    System,
}

/// How far a permutation shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// To the next NIC, of the same switch if possible.
    One,
    /// To the next switch.
    Switch,
    /// To the next group: the worst case for minimal paths.
    Group,
    /// To any NIC.
    Random,
}

/// Which NICs send to which others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// One NIC of a switch at a time: the bandwidth without load.
    Quiet,
    /// Halves, one to one.
    Bisect {
        /// Halves of what.
        of: Set,
        /// Both halves send at once.
        both_ways: bool,
    },
    /// A permutation.
    Shift(Distance),
    /// Each to eight others.
    AllToAll,
    /// This number of sources for each target.
    Incast(u16),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_word_as_it_is_written() {
        let numbered = ["incast:2", "incast:64", "incast-same:8"];
        for name in NAMED.iter().map(|(name, _)| *name).chain(numbered) {
            let wanted = parse(name).unwrap();
            assert_eq!(wanted.to_string(), name);
            assert!(!wanted.is_plan);
        }
        let several = parse("victims,incast-same:9,bisect").unwrap();
        let expected =
            [LoadPattern::Victims, LoadPattern::IncastSame(9), LoadPattern::Bisect(Set::All)];
        assert_eq!(several.list, expected);
        assert_eq!(several.to_string(), "victims,incast-same:9,bisect");
    }

    #[test]
    fn plan_alone_plans_the_standard_load() {
        let plan = parse("plan").unwrap();
        assert!(plan.is_plan);
        assert_eq!(plan.list, LoadSpec::default().list);
        let plan = parse("shift,plan").unwrap();
        assert!(plan.is_plan);
        assert_eq!(plan.list, [LoadPattern::Shift]);
    }

    #[test]
    fn refuses_words_with_reason() {
        for (text, why) in [
            ("", "unknown load '' (expected standard, bisect, bisect:switch, "),
            ("ring", "incast:COUNT, incast-same:COUNT or plan)"),
            ("incast", "unknown load 'incast'"),
            ("incast:1", "'incast:1': expected a decimal number from 2 to 64 after incast:"),
            ("incast-same:65", "from 2 to 64 after incast-same:"),
            ("shift,all2all,shift", "'shift' is given twice"),
            ("plan,plan", "'plan' is given twice"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(why), "{text:?}: {message}");
        }
    }
}
