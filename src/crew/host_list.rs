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

/// Returns the hosts of `text`: a list, or `@FILE` with the name of a file of lists.
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

/// Returns the hosts of a file: lists, one on each line. Blank lines and text after `#` do not
/// count. A repeated host counts once, because the files of PBS repeat a host for each of its
/// slots.
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

/// Returns the hosts of a list in its order, duplicates included. Of several groups of brackets in
/// a name, the rightmost changes fastest.
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

/// Returns the first host that a list has twice.
pub fn repeated(hosts: &[String]) -> Option<&str> {
    let mut seen = HashSet::new();
    let mut hosts = hosts.iter();
    hosts.find(|host| !seen.insert(*host)).map(String::as_str)
}

fn too_many() -> String {
    format!("more than {MOST_HOSTS} hosts")
}

/// Returns the items between commas that are not in brackets.
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

/// Returns the value of at most [`MOST_DIGITS`] digits.
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

    /// Returns the most bytes of a text of this part.
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

/// Returns each of `names` with each text of `part` after it.
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

/// Returns the list of these hosts, each of them once: hosts that differ in one number of their
/// first label are a range. Numbers ascend. The names have neither brackets nor commas.
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

/// Returns the number of tasks on each node: `2(x3),1` is 2, 2, 2, 1.
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
#[path = "host_list_tests.rs"]
mod tests;
