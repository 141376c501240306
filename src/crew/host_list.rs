//! Lists of hosts as Slurm and Flux write them: `nid[000001-000004,000009],login1` (jobs.md 2.2).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use facts::error::cause;
use facts::host::{bare, ip_address};
use facts::number::{decimal, within};
use facts::user_file;

/// The most hosts of a list.
pub const MOST_HOSTS: usize = 65_536;

/// The longest name of a host, in bytes (RFC 1035).
const LONGEST_NAME: usize = 255;

/// The most digits of a number in brackets.
const MOST_DIGITS: usize = 18;

/// The hosts of `text`: a list, or `@FILE` with the name of a file of lists.
///
/// # Errors
///
/// An unreadable file, or an error of [`expand`] or [`listed_hosts`].
pub fn option_hosts(text: &str) -> Result<Vec<String>, String> {
    match text.strip_prefix('@') {
        None => expand(text),
        Some(path) => {
            let lines = user_file::text(path.as_ref())
                .map_err(|error| format!("cannot read the file: {}", cause(&error)))?;
            listed_hosts(&lines)
        }
    }
}

/// The hosts of a file: lists, one on each line. Blank lines and text after `#` do not count. A
/// repeated host counts once, because the files of PBS repeat a host for each of its slots.
///
/// # Errors
///
/// An invalid line, a file without hosts, and more than [`MOST_HOSTS`] hosts.
pub fn listed_hosts(text: &str) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    let mut seen = HashSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let list = line.split('#').next().unwrap_or_default().trim();
        if list.is_empty() {
            continue;
        }
        let named = expand(list).map_err(|reason| format!("line {number}: {reason}"))?;
        hosts.extend(named.into_iter().filter(|host| seen.insert(host.clone())));
        if hosts.len() > MOST_HOSTS {
            return Err(too_many());
        }
    }
    if hosts.is_empty() {
        return Err("the file names no host".into());
    }
    Ok(hosts)
}

/// The hosts of a list in its order, duplicates included. Of several groups of brackets in a name,
/// the rightmost changes fastest.
///
/// # Errors
///
/// A list that is not of the grammar, and more than [`MOST_HOSTS`] hosts.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    for item in items(list)? {
        if item.starts_with('[') && ip_address(item).is_some() {
            hosts.push(bare(item).to_owned());
            continue;
        }
        check_syntax(item)?;
        let parts = parts(item)?;
        let count = parts.iter().try_fold(1_usize, |product, part| {
            product.checked_mul(part.count()).filter(|n| *n <= MOST_HOSTS)
        });
        if count.is_none_or(|count| hosts.len() + count > MOST_HOSTS) {
            return Err(too_many());
        }
        if parts.iter().map(ItemPart::longest).sum::<usize>() > LONGEST_NAME {
            return Err(format!("a name may have more than {LONGEST_NAME} bytes"));
        }
        hosts.append(
            &mut parts.iter().fold(vec![String::new()], |names, part| append(&names, part)),
        );
    }
    Ok(hosts)
}

/// Checks that an item has no syntax of other programs.
fn check_syntax(item: &str) -> Result<(), String> {
    const EXPECTED: &str = "expected names and ranges such as nid[1-4,7],login1";
    // IPv6 addresses have several colons, and none after brackets.
    let has_port = item.matches(':').count() == 1 || item.contains("]:");
    let foreign = item.find(['!', '(', ')', '{', '}', '@', '^', '*', '&', '/', '\\', ';', '=']);
    let foreign = foreign.or_else(|| item.find(':').filter(|_| has_port));
    match foreign.and_then(|at| item[at..].chars().next()) {
        Some(':') => Err(format!("'{item}': {EXPECTED}, without ports (--port is for all)")),
        Some(wrong) => Err(format!("'{item}': '{wrong}' has no meaning here: {EXPECTED}")),
        None => Ok(()),
    }
}

/// The first host that a list has twice.
pub fn repeated(hosts: &[String]) -> Option<&str> {
    let mut seen = HashSet::new();
    let mut hosts = hosts.iter();
    hosts.find(|host| !seen.insert(*host)).map(String::as_str)
}

fn too_many() -> String {
    format!("more than {MOST_HOSTS} hosts")
}

/// The items between commas that are not in brackets.
fn items(list: &str) -> Result<Vec<&str>, String> {
    let mut items = Vec::new();
    let mut start = 0;
    let mut is_inside = false;
    for (at, c) in list.char_indices() {
        match c {
            '[' if is_inside => return Err("'[' inside brackets".into()),
            '[' => is_inside = true,
            ']' if !is_inside => return Err("']' without '['".into()),
            ']' => is_inside = false,
            ',' if !is_inside => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            c if c.is_whitespace() || c.is_control() => {
                return Err(
                    "expected names of hosts without blanks, such as nid[1-4],login1".into()
                );
            }
            _ => {}
        }
    }
    if is_inside {
        return Err("'[' without ']'".into());
    }
    items.push(&list[start..]);
    if items.contains(&"") {
        return Err("one of the names is empty".into());
    }
    Ok(items)
}

enum ItemPart<'a> {
    Text(&'a str),
    Ranges(Vec<Range>),
}

/// Numbers of a group in brackets.
struct Range {
    low: u64,
    high: u64,
    /// Number of digits, with leading zeros.
    width: usize,
}

impl Range {
    fn parse(text: &str) -> Result<Self, String> {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let is_number = |digits: &str| {
            (1..=MOST_DIGITS).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
        };
        if !is_number(low) || !is_number(high) {
            if text.contains('x') {
                return Err(format!(
                    "[{text}]: box notation is not supported; write ranges such as [000-133]"
                ));
            }
            return Err(format!(
                "[{text}]: expected numbers and ranges of at most {MOST_DIGITS} digits, such as [1-4,7]"
            ));
        }
        let range = Self { low: value(low), high: value(high), width: low.len() };
        if range.low > range.high {
            return Err(format!("[{text}]: the range is reversed"));
        }
        Ok(range)
    }

    fn count(&self) -> usize {
        usize::try_from(self.high - self.low + 1).unwrap_or(usize::MAX)
    }
}

/// The value of at most [`MOST_DIGITS`] digits.
fn value(digits: &str) -> u64 {
    digits.bytes().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

impl ItemPart<'_> {
    fn count(&self) -> usize {
        match self {
            Self::Text(_) => 1,
            Self::Ranges(ranges) => {
                let counts = ranges.iter().map(Range::count);
                counts.fold(0, usize::saturating_add)
            }
        }
    }

    /// The most bytes of a text of this part.
    fn longest(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Ranges(_) => MOST_DIGITS,
        }
    }

    fn texts(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![(*text).to_owned()],
            Self::Ranges(ranges) => {
                let numbers = |range: &Range| {
                    let width = range.width;
                    (range.low..=range.high).map(move |number| format!("{number:0width$}"))
                };
                ranges.iter().flat_map(numbers).collect()
            }
        }
    }
}

/// Each of `names` with each text of `part` after it.
fn append(names: &[String], part: &ItemPart) -> Vec<String> {
    let texts = part.texts();
    names.iter().flat_map(|name| texts.iter().map(move |text| format!("{name}{text}"))).collect()
}

/// Divides an item, whose brackets are balanced, into texts and groups of ranges.
fn parts(item: &str) -> Result<Vec<ItemPart<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = item;
    while let Some((text, group)) = rest.split_once('[') {
        let Some((ranges, after)) = group.split_once(']') else {
            return Err("'[' without ']'".into());
        };
        parts.push(ItemPart::Text(text));
        let ranges: Result<_, _> = ranges.split(',').map(Range::parse).collect();
        parts.push(ItemPart::Ranges(ranges?));
        rest = after;
    }
    parts.push(ItemPart::Text(rest));
    Ok(parts)
}

/// The list of these hosts, each of them once: hosts that differ in one number of their first label
/// are a range. Numbers ascend. The names have neither brackets nor commas.
pub fn compress<'a>(hosts: impl IntoIterator<Item = &'a str>) -> String {
    let hosts: BTreeSet<&str> = hosts.into_iter().collect();
    let names: Vec<NumberedName> = hosts.into_iter().map(NumberedName::of).collect();
    let padded: HashSet<_> =
        names.iter().filter(|name| name.is_padded()).map(NumberedName::padding).collect();
    // A number without leading zeros belongs to the numbers of the same length with leading zeros.
    let mut groups: BTreeMap<(&str, &str, Option<usize>), Vec<&str>> = BTreeMap::new();
    for name in &names {
        let has_width = name.digits.is_empty() || padded.contains(&name.padding());
        let width = has_width.then_some(name.digits.len());
        let group = groups.entry((name.prefix, name.suffix, width));
        group.or_default().push(name.digits);
    }
    let texts = groups.into_iter().map(|((prefix, suffix, _), mut digits)| {
        digits.sort_by_key(|digits| value(digits));
        let ranges = ranges(&digits);
        if digits.len() == 1 {
            format!("{prefix}{ranges}{suffix}")
        } else {
            format!("{prefix}[{ranges}]{suffix}")
        }
    });
    texts.collect::<Vec<_>>().join(",")
}

/// A name, divided at its number.
struct NumberedName<'a> {
    prefix: &'a str,
    /// At most [`MOST_DIGITS`] digits; none for a name without a number.
    digits: &'a str,
    suffix: &'a str,
}

impl<'a> NumberedName<'a> {
    /// Divides a name at the last number of its first label, or of the whole name if that has none.
    fn of(name: &'a str) -> Self {
        let label = name.find('.').unwrap_or(name.len());
        let last_digit = |text: &str| text.rfind(|c: char| c.is_ascii_digit());
        let Some(last) = last_digit(&name[..label]).or_else(|| last_digit(name)) else {
            return Self { prefix: name, digits: "", suffix: "" };
        };
        let (start, suffix) = name.split_at(last + 1);
        let digits = start.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, digits) = start.split_at(start.len() - digits.min(MOST_DIGITS));
        Self { prefix, digits, suffix }
    }

    fn is_padded(&self) -> bool {
        self.digits.len() > 1 && self.digits.starts_with('0')
    }

    /// Returns what numbers that are padded to the same width have in common.
    fn padding(&self) -> (&'a str, &'a str, usize) {
        (self.prefix, self.suffix, self.digits.len())
    }
}

/// Returns ascending numbers as ranges: `1-4,7`.
fn ranges(digits: &[&str]) -> String {
    let range = |run: &[&str]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.concat(),
    };
    let runs = digits.chunk_by(|one: &&str, next: &&str| value(one) + 1 == value(next)).map(range);
    runs.collect::<Vec<_>>().join(",")
}

/// The number of tasks on each node: `2(x3),1` is 2, 2, 2, 1.
///
/// # Errors
///
/// A text that is not of this form, and more than [`MOST_HOSTS`] nodes.
pub fn task_counts(text: &str) -> Result<Vec<u32>, String> {
    let mut counts = Vec::new();
    for item in text.split(',') {
        let (tasks, repeated) = match item.split_once('(') {
            None => (item, Some(1)),
            Some((tasks, times)) => {
                let times = times.strip_prefix('x').and_then(|t| t.strip_suffix(')'));
                (tasks, times.and_then(decimal))
            }
        };
        let tasks = within(tasks, 0..=u32::MAX.into());
        let (Ok(tasks), Some(repeated)) = (tasks, repeated) else {
            return Err("expected numbers of tasks such as 2(x3),1".into());
        };
        let room = MOST_HOSTS - counts.len();
        let repeated =
            usize::try_from(repeated).ok().filter(|n| *n <= room).ok_or_else(too_many)?;
        counts.extend(std::iter::repeat_n(tasks as u32, repeated));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expands_lists_of_the_grammar() {
        for (list, hosts) in [
            ("nid000001", "nid000001"),
            ("a,b,a", "a b a"),
            ("nid[008-011]", "nid008 nid009 nid010 nid011"),
            ("nid[8-11]", "nid8 nid9 nid10 nid11"),
            ("n[1,3-4,1]", "n1 n3 n4 n1"),
            ("[1-2]x", "1x 2x"),
            ("n[1-2]-ib.site", "n1-ib.site n2-ib.site"),
            (
                "x1000c[0-1]s0b0n[0-1],login1",
                "x1000c0s0b0n0 x1000c0s0b0n1 x1000c1s0b0n0 x1000c1s0b0n1 login1",
            ),
            ("n[098-101]", "n098 n099 n100 n101"),
            ("[::1],fe80::1%eth0", "::1 fe80::1%eth0"),
            ("[fe80::1%eth0.2]", "fe80::1%eth0.2"),
            ("fd00::[8-9]", "fd00::8 fd00::9"),
        ] {
            assert_eq!(expand(list).unwrap().join(" "), hosts, "{list}");
        }
    }

    #[test]
    fn refuses_invalid_lists() {
        for (list, reason) in [
            ("", "one of the names is empty"),
            ("a,,b", "one of the names is empty"),
            ("a,", "one of the names is empty"),
            ("a b", "without blanks"),
            ("a\n", "without blanks"),
            ("n[1-2", "'[' without ']'"),
            ("n1-2]", "']' without '['"),
            ("n[[1]]", "'[' inside brackets"),
            ("n[]", "[]: expected numbers"),
            ("n[1,]", "[]: expected numbers"),
            ("n[-3]", "[-3]: expected numbers"),
            ("n[3-]", "[3-]: expected numbers"),
            ("n[1-2-3]", "[1-2-3]: expected numbers"),
            ("n[a]", "[a]: expected numbers"),
            ("n[4-1]", "[4-1]: the range is reversed"),
            ("n[000x133]", "box notation"),
            ("[::1]:49194", "without ports"),
            ("10.1.1.8:49194", "without ports"),
            ("n[1-65537]", "more than 65536 hosts"),
            ("n[1-65536],a", "more than 65536 hosts"),
            ("n[0-999][0-999]", "more than 65536 hosts"),
            ("n[0-999999999999999999]", "more than 65536 hosts"),
            ("n[1-9999999999999999999]", "at most 18 digits"),
        ] {
            let refused = expand(list).unwrap_err();
            assert!(refused.contains(reason), "{list}: {refused}");
        }
        assert_eq!(expand("n[1-65536]").unwrap().len(), MOST_HOSTS);
        let refused = expand(&"[1-2]".repeat(1_000)).unwrap_err();
        assert_eq!(refused, "more than 65536 hosts");
        for list in ["x".repeat(256), "x".repeat(250) + "[1-65536]"] {
            let refused = expand(&list).unwrap_err();
            assert_eq!(refused, "a name may have more than 255 bytes");
        }
    }

    #[test]
    fn compresses_ranges_with_their_width() {
        for (hosts, list) in [
            ("", ""),
            ("login", "login"),
            ("nid000009 nid000002 nid000001 nid000003", "nid[000001-000003,000009]"),
            ("n9 n10 n11 n8 n9", "n[8-11]"),
            ("n99 n100 n098", "n99,n[098,100]"),
            ("n7 n07 n08 n8", "n[7-8],n[07-08]"),
            ("n2-ib.s1.org n1-ib.s1.org", "n[1-2]-ib.s1.org"),
            ("x1c0n0 x1c0n1 x1c1n0", "x1c0n[0-1],x1c1n0"),
            ("b a n1 n", "a,b,n1,n"),
        ] {
            assert_eq!(compress(hosts.split_whitespace()), list, "{hosts}");
        }
    }

    #[test]
    fn reads_counts_of_tasks() {
        assert_eq!(task_counts("2(x3),1").unwrap(), [2, 2, 2, 1]);
        assert_eq!(task_counts("4").unwrap(), [4]);
        for text in ["", "x", "2(3)", "2(x3", "2(x-1)", "1,,1", "-1"] {
            let refused = task_counts(text).unwrap_err();
            assert_eq!(refused, "expected numbers of tasks such as 2(x3),1", "{text}");
        }
        for text in ["1(x65537)", "1(x18446744073709551615)", "1,1(x65536)"] {
            assert_eq!(task_counts(text).unwrap_err(), "more than 65536 hosts");
        }
    }

    #[test]
    fn reads_file_of_hosts() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "# all nodes\nnid[1-2]\n\n nid2 \nnid3,login # at the end\n";
        file.write_all(text.as_bytes()).unwrap();
        let hosts = option_hosts(&format!("@{}", file.path().display())).unwrap();
        assert_eq!(hosts, ["nid1", "nid2", "nid3", "login"]);
        assert_eq!(option_hosts("a,b").unwrap(), ["a", "b"]);
        assert!(option_hosts("@/nowhere").unwrap_err().contains("cannot read"));
        assert_eq!(listed_hosts("# none\n").unwrap_err(), "the file names no host");
        assert_eq!(listed_hosts("a\nb]\n").unwrap_err(), "line 2: ']' without '['");
        let many = listed_hosts("a[1-40000]\nb[1-40000]").unwrap_err();
        assert_eq!(many, "more than 65536 hosts");
    }

    proptest! {
        #[test]
        fn expanded_compressed_list_has_the_same_hosts_in_order(
            hosts in prop::collection::vec("[a-c]{0,2}[0-2]{0,3}[.x-]{0,2}[0-9]{0,20}", 0..40)
        ) {
            let hosts: BTreeSet<String> = hosts.into_iter().filter(|host| !host.is_empty()).collect();
            let list = compress(hosts.iter().map(String::as_str));
            let expanded = if hosts.is_empty() { Vec::new() } else { expand(&list).unwrap() };
            prop_assert_eq!(expanded.len(), hosts.len());
            prop_assert_eq!(expanded.into_iter().collect::<BTreeSet<_>>(), hosts);
        }

        #[test]
        fn survives_hostile_lists(list in "[n0-9x,()\\[\\]-]{0,60}") {
            if let Ok(hosts) = expand(&list) {
                prop_assert!(hosts.len() <= MOST_HOSTS);
            }
            if let Ok(counts) = task_counts(&list) {
                prop_assert!(counts.len() <= MOST_HOSTS);
            }
        }

        #[test]
        fn survives_random_text(list in "\\PC{0,60}") {
            let _ = expand(&list);
        }
    }

    #[test]
    fn says_which_syntax_of_other_programs_has_no_meaning() {
        for (list, wrong) in [
            ("n[1-5]!n3", "'!' has no meaning"),
            ("n(2)", "'(' has no meaning"),
            ("node{1..3}", "'{' has no meaning"),
            ("user@host", "'@' has no meaning"),
            ("host:51990", "without ports"),
            ("/etc/hosts", "'/' has no meaning"),
        ] {
            let refused = expand(list).unwrap_err();
            assert!(refused.contains(wrong), "{refused}");
            assert!(refused.contains("such as nid[1-4,7],login1"), "{refused}");
        }
        assert_eq!(expand("fe80::1,10.1.1.8").unwrap(), ["fe80::1", "10.1.1.8"]);
    }
}
