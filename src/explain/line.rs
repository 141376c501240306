//! The circumstances of a line of a log: time, host, rank and NIC, from the prefixes of launchers,
//! journals, kernel and libraries (messages.md 1).

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use crate::table::{Form, is_host_letter, node_length};
use facts::time_of_day::rfc3339;

/// Words of a line among which the label of a launcher stands.
const LABEL_WORDS: usize = 8;

/// Digits of the rank in such a label: more are a time.
const MOST_DIGITS: usize = 8;

/// Forms of what names hosts and ranks, with the part of a line in which they stand.
static PLACES: LazyLock<Vec<(&str, Form)>> = LazyLock::new(|| {
    let lines = include_str!("places.txt").lines();
    let forms = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
    forms.map(|(part, form)| (part, Form::read(form))).collect()
});

/// Circumstances of a line, as far as it says them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Circumstances {
    pub time: Option<Time>,
    pub host: Option<String>,
    pub rank: Option<u32>,
    /// Address of the NIC that the printing process uses.
    pub nic: Option<u32>,
    /// Name of a NIC.
    pub device: Option<String>,
    /// Seconds by which the dates of the log are ahead of UTC, if the line has both.
    pub ahead: Option<f64>,
}

/// A time by one of the clocks of logs. Times of different clocks cannot be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    pub clock: Clock,
    pub seconds: f64,
    /// The time as it stands in the log.
    pub text: String,
}

/// A clock of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Date and time in an unknown time zone. Logs without a year are compared with others too, so
    /// years are left out.
    Date,
    /// Seconds since 1970.
    Epoch,
    /// Seconds since the start of the kernel.
    Boot,
    /// A time without a date.
    Day,
}

impl Time {
    /// The time in the year, in UTC, of a time since 1970; `None` for other clocks.
    pub fn in_year(&self) -> Option<f64> {
        let ms = (self.clock == Clock::Epoch).then_some(self.seconds * 1000.0)?;
        let text = rfc3339(ms as u64);
        Some(date(text.trim_end_matches('Z'))?.seconds)
    }
}

impl Circumstances {
    /// Reads the circumstances of a message that begins at `start` in a line.
    pub fn read(line: &str, start: usize) -> Self {
        let (head, message) = line.split_at(start);
        let host = host(head).or_else(|| value(message, "message", "host"));
        let time = time(head).or_else(|| time(message));
        Self {
            ahead: time.as_ref().and_then(|time| ahead(head, time)),
            time,
            host: host.or_else(|| value(line, "field", "host")),
            rank: rank(head).or_else(|| rank(message)).or_else(|| number(line, "field")),
            nic: ["TXC (", "RXC ("].into_iter().find_map(|name| hexadecimal(behind(line, name)?)),
            device: device(line),
        }
    }

    /// A hash of the NIC that prints a line or, without its address, of the host or rank.
    pub fn reporter(&self) -> Option<u64> {
        let name = self.nic.map(|nic| format!("{nic:#x}")).or_else(|| self.host.clone());
        let name = name.or_else(|| self.rank.map(|rank| format!("rank {rank}")))?;
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Some(hasher.finish())
    }

    /// Takes what these lack from the line before, which is the beginning of the same message.
    pub fn fill_from(&mut self, other: Self) {
        self.time = self.time.take().or(other.time);
        self.host = self.host.take().or(other.host);
        self.rank = self.rank.or(other.rank);
        self.nic = self.nic.or(other.nic);
        self.device = self.device.take().or(other.device);
        self.ahead = self.ahead.or(other.ahead);
    }
}

/// A line without the colours of terminals.
pub fn plain(line: &[u8]) -> Cow<'_, str> {
    if !line.contains(&0x1b) {
        return String::from_utf8_lossy(line);
    }
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte == 0x1b && rest.peek() == Some(&b'[') {
            // A sequence ends with a letter.
            rest.by_ref().skip(1).find(|byte| (0x40..0x7f).contains(byte));
        } else {
            text.push(byte);
        }
    }
    Cow::Owned(String::from_utf8_lossy(&text).into_owned())
}

/// The value of a place in the first form of a part of lines that a text has.
fn value(text: &str, part: &str, place: &str) -> Option<String> {
    PLACES.iter().filter(|(known, _)| *known == part).find_map(|(_, form)| {
        let (start, mut values) = form.find(text)?;
        // `subtask 3` is no task, and `local rank 3` counts within a node.
        let is_word = text[start..].starts_with(|letter: char| letter.is_ascii_alphanumeric());
        let is_part = text[..start].ends_with(|letter: char| letter.is_ascii_alphanumeric());
        let is_other = is_word && (is_part || text[..start].ends_with("local "));
        values.remove(place).filter(|_| !is_other)
    })
}

/// The rank in the first form of a part of lines that a text has.
fn number(text: &str, part: &str) -> Option<u32> {
    value(text, part, "rank")?.parse().ok()
}

/// The text behind the first occurrence of another one.
fn behind<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.find(mark).map(|at| &text[at + mark.len()..])
}

fn digits(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

/// Reads a hexadecimal number at the beginning of a text, with or without `0x`.
pub fn hexadecimal(text: &str) -> Option<u32> {
    let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let end = text.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(text.len());
    u32::from_str_radix(&text[..end], 16).ok()
}

/// The host that printed a line, from what stands before the message. A name without a letter is a
/// number of something else.
fn host(head: &str) -> Option<String> {
    let is_name = |name: &String| name.contains(|letter: char| letter.is_ascii_alphabetic());
    let labelled = || {
        let words: Vec<&str> = head.split_whitespace().take(LABEL_WORDS).collect();
        // `nid001 12: ` of PALS, or `nid001: ` of pdsh.
        let ranked = label(head).and_then(|(at, _)| node(words[at.checked_sub(1)?]));
        ranked.or_else(|| node(words.first()?.strip_suffix(':')?)).map(str::to_owned)
    };
    value(head, "head", "host").filter(is_name).or_else(labelled)
}

/// A word that is the name of a host with a number.
fn node(word: &str) -> Option<&str> {
    node_length(word).filter(|length| *length == word.len()).map(|_| word)
}

/// The host that a heading names: `--- nid001: dmesg -T`, `nid001$ dmesg`.
pub fn heading_host(line: &str) -> Option<&str> {
    line.split(|letter| !is_host_letter(letter)).find_map(node)
}

/// Whether two names are of one host: one of them may lack its domain.
pub fn is_same_host(one: &str, other: &str) -> bool {
    let label = |name: &str| name.split('.').next().map(str::to_ascii_lowercase);
    label(one) == label(other)
}

fn rank(text: &str) -> Option<u32> {
    number(text, "rank").or_else(|| label(text).map(|(_, rank)| rank))
}

/// The label of a launcher at the beginning of a line, and its place among the words: `3: ` of
/// srun, `nid001 3: ` of PALS. Only a host or a time may stand before it, not `step 3: `.
fn label(text: &str) -> Option<(usize, u32)> {
    let mut words = text.split_whitespace().take(LABEL_WORDS).enumerate();
    let is_part = |word: &str| {
        let is_day = word.trim_start_matches('[').len() == 3;
        is_day || word.contains(|letter: char| letter.is_ascii_digit())
    };
    let rank = |word: &str| {
        let number = word.strip_suffix(':')?;
        let is_rank = digits(number) == number && number.len() <= MOST_DIGITS;
        number.parse().ok().filter(|_| is_rank)
    };
    words.find_map(|(at, word)| match rank(word) {
        Some(rank) => Some(Some((at, rank))),
        None => (!is_part(word)).then_some(None),
    })?
}

/// The name of a NIC: `cxi0`.
fn device(line: &str) -> Option<String> {
    line.match_indices("cxi").find_map(|(at, name)| {
        let number = digits(&line[at + name.len()..]);
        let is_word = !line[..at].ends_with(|letter: char| letter.is_ascii_alphanumeric());
        (is_word && (1..=2).contains(&number.len())).then(|| format!("cxi{number}"))
    })
}

/// The first time in a text.
fn time(text: &str) -> Option<Time> {
    if let Some(rest) = behind(text, "libfabric:") {
        let epoch = digits(rest.split(':').nth(1)?);
        if epoch.len() >= 9 {
            let seconds: u64 = epoch.parse().ok()?;
            let text = rfc3339(seconds.saturating_mul(1000));
            return Some(Time { clock: Clock::Epoch, seconds: seconds as f64, text });
        }
    }
    let stamp = text.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let stamp = stamp.map(|(stamp, _)| stamp.trim()).filter(|stamp| stamp.contains('.'));
    match stamp.and_then(|stamp| Some((stamp, stamp.parse().ok()?))) {
        Some((text, seconds)) => Some(Time { clock: Clock::Boot, seconds, text: text.into() }),
        None => date(text),
    }
}

/// The seconds by which the date before a time since 1970 is ahead of it.
fn ahead(head: &str, time: &Time) -> Option<f64> {
    let local = date(head).filter(|local| local.clock == Clock::Date)?;
    Some(local.seconds - time.in_year()?)
}

/// The first date and time of day in a text, or a time of day alone.
fn date(text: &str) -> Option<Time> {
    let (at, of_day) = clock_time(text)?;
    let end = text[at..].find(|letter: char| !matches!(letter, '0'..='9' | ':' | '.' | ','));
    let end = end.map_or(text.len(), |end| at + end);
    let before = &text[..at];
    let day = iso_date(before).or_else(|| month_and_day(before)).or_else(|| glog_date(before));
    let (clock, start, seconds) = match day {
        None => (Clock::Day, at, of_day),
        Some((start, year, month, day)) => match (year, zone(&text[end..])) {
            (Some(year), Some(ahead)) => {
                let days = days_since_1970(year, month, day)?;
                (Clock::Epoch, start, f64::from(days) * 86_400.0 + of_day - ahead)
            }
            _ => {
                let days = DAYS_BEFORE.get(month.checked_sub(1)?)? + day;
                (Clock::Date, start, f64::from(days) * 86_400.0 + of_day)
            }
        },
    };
    Some(Time { clock, seconds, text: text[start..end].trim().into() })
}

/// Days of a leap year before each month.
const DAYS_BEFORE: [u32; 12] = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335];

/// The seconds by which a time zone is ahead: `Z`, `+0100` or `-06:00`.
fn zone(text: &str) -> Option<f64> {
    if text.starts_with('Z') {
        return Some(0.0);
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let rest = text.strip_prefix(['+', '-'])?;
    let hours: f64 = rest.get(..2)?.parse().ok()?;
    let rest = rest[2..].trim_start_matches(':');
    let minutes: f64 = rest.get(..2)?.parse().ok()?;
    Some(sign * (hours * 3600.0 + minutes * 60.0))
}

fn days_since_1970(year: u32, month: usize, day: u32) -> Option<u32> {
    let leap_years = |year: u32| year / 4 - year / 100 + year / 400;
    let years = year.checked_sub(1970)?;
    let leap_days = leap_years(year - 1) - leap_years(1969);
    let is_leap = leap_years(year) > leap_years(year - 1);
    let missing = u32::from(month > 2 && !is_leap);
    Some(years * 365 + leap_days + DAYS_BEFORE.get(month.checked_sub(1)?)? + day - 1 - missing)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The numbers of a text of a form, such as `hh:mm:ss`: each letter stands for a digit.
fn numbers<const COUNT: usize>(text: &str, form: &str) -> Option<[u32; COUNT]> {
    let mut found = [0; COUNT];
    let (mut at, mut last) = (0, None);
    for (letter, shape) in text.chars().zip(form.chars()) {
        if !shape.is_ascii_lowercase() {
            (letter == shape).then_some(())?;
        } else {
            at += usize::from(last.is_some_and(|last| last != shape));
            last = Some(shape);
            found[at] = found[at] * 10 + letter.to_digit(10)?;
        }
    }
    (text.len() == form.len()).then_some(found)
}

/// The first `hh:mm:ss` of a text, with its place.
fn clock_time(text: &str) -> Option<(usize, f64)> {
    text.match_indices(':').find_map(|(colon, _)| {
        let at = colon.checked_sub(2)?;
        let [hours, minutes, seconds] = numbers(text.get(at..at + 8)?, "hh:mm:ss")?;
        let fraction = text[at + 8..].strip_prefix(['.', ',']).map_or("", digits);
        let fraction: f64 = format!("0.{fraction}0").parse().ok()?;
        let is_part = text[..at].ends_with(|letter: char| letter.is_ascii_digit() || letter == ':');
        let is_time = hours < 24 && minutes < 60 && seconds < 61 && !is_part;
        is_time.then(|| (at, f64::from(hours * 3600 + minutes * 60 + seconds) + fraction))
    })
}

/// Place, year, month and day at the end of a text.
type Day = (usize, Option<u32>, usize, u32);

/// Reads `2026-11-30T` or `2026/11/30 `.
fn iso_date(before: &str) -> Option<Day> {
    let text = before.strip_suffix(['T', ' ', '-'])?;
    let at = text.len().checked_sub(10)?;
    let forms = ["yyyy-mm-dd", "yyyy/mm/dd"].into_iter();
    let [year, month, day] = forms.filter_map(|form| numbers(text.get(at..)?, form)).next()?;
    (1000..3000).contains(&year).then_some((at, Some(year), month as usize, day))
}

/// Reads `E1130 ` (glog).
fn glog_date(before: &str) -> Option<Day> {
    let text = before.strip_suffix(' ')?;
    let at = text.len().checked_sub(5)?;
    let [month, day] = numbers(text.get(at..)?.strip_prefix(['I', 'W', 'E', 'F'])?, "mmdd")?;
    Some((at, None, month as usize, day))
}

/// Reads `Nov 30 `.
fn month_and_day(before: &str) -> Option<Day> {
    let (rest, day) = before.trim_end().rsplit_once(' ')?;
    let day = day.parse().ok().filter(|day| (1..=31).contains(day))?;
    let rest = rest.trim_end();
    let at = rest.len().checked_sub(3)?;
    let month = MONTHS.iter().position(|month| rest.get(at..) == Some(month))? + 1;
    Some((at, None, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circumstances(line: &str) -> Circumstances {
        Circumstances::read(line, line.find('#').expect("# marks the message"))
    }

    #[test]
    fn reads_host_and_rank_from_prefixes() {
        for (line, host, rank) in [
            (
                "libfabric:71:1700000000::cxi:ep_data:f():9<warn> nid001: TXC (0x12:3): #",
                "nid001",
                None,
            ),
            ("12: libfabric:71:1700000000::cxi:core:f():9<warn> x1c0: #", "x1c0", Some(12)),
            (
                "MPICH ERROR [Rank 3] [job id 1.0] [Mon Nov 30 10:03:12 2026] [nid001] - #",
                "nid001",
                Some(3),
            ),
            ("srun: error: nid001: #task 5: Segmentation fault", "nid001", Some(5)),
            ("x1000c0s0b0n0 17: #", "x1000c0s0b0n0", Some(17)),
            ("[4711,6]<stderr>: #", "", Some(6)),
            ("nid001:4711:4712 [2] NCCL WARN #", "nid001", None),
            ("Nov 30 10:03:12 nid001 kernel: cxi_ss1 0000:21:00.0: #", "nid001", None),
            ("2026-11-30T10:03:12+0000 nid001 cxi_rh[71]: RH: #", "nid001", None),
            ("#ping failed on x1c0s1b0n0: no reply", "x1c0s1b0n0", None),
            ("[rank7]:[E1130 10:03:12.5 ProcessGroupNCCL.cpp:1] #", "", Some(7)),
            ("slurmstepd: error: Detected 1 #", "", None),
            ("2025-02-11T12:03:01.1Z [1,58]<stderr>: [wave-7:00144] #", "wave-7", Some(58)),
            ("[nid1:20:0:20] #", "nid1", None),
            ("cn2109: cxi_ss1 0000:21:00.0: cxi0[hsn0]: #", "cn2109", None),
            ("error: 12.5 #", "", None),
        ] {
            let found = circumstances(line);
            assert_eq!(found.host.unwrap_or_default(), host, "{line}");
            assert_eq!(found.rank, rank, "{line}");
        }
    }

    /// A wrong name is worse than none.
    #[test]
    fn other_words_are_no_hosts_or_ranks() {
        for line in [
            "2026-11-30T10:03:12 #",
            "python3: #",
            "python3.11: #",
            "step 3: #",
            "attempt 2: #",
            "[resnet50.py:34] #",
            "main2.c:120:15: #",
            "local rank 2: #",
            "localRank 2 #",
            "on line2: #",
            "f() on x86_64 #",
            "error: attempt2: #",
            "GPU0: #",
            "subtask 3 #",
            "1700000000: #",
            "5000000000: #",
            "[Rank 5000000000] #",
            "./run.sh: line 12: 12345 #",
            "srun: error: fe80::1:2: #",
            "error: nid00[1-4]: #",
            "srun: error: -n1: #",
        ] {
            let found = circumstances(line);
            assert_eq!((found.host, found.rank), (None, None), "{line}");
        }
    }

    #[test]
    fn reads_host_and_rank_of_more_forms() {
        for (line, host, rank) in [
            ("  3: #", "", Some(3)),
            ("0003: #", "", Some(3)),
            ("[Mon Nov 30 10:03:12 2026] 4: #", "", Some(4)),
            ("10:03:12.5 nid7 12: #", "nid7", Some(12)),
            ("Abort(12) on node 37 (rank 3 in comm 496): #", "", Some(37)),
            (r##"{"host":"nid007","rank":5,"msg":"#"}"##, "nid007", Some(5)),
            (r##"{"MESSAGE":"#","_HOSTNAME":"frontier"}"##, "frontier", None),
            ("x1.hsn.cluster.local 12: #", "x1.hsn.cluster.local", Some(12)),
            ("Nov 30 10:03:12 login kernel: #", "login", None),
        ] {
            let found = circumstances(line);
            assert_eq!(
                (found.host.unwrap_or_default().as_str(), found.rank),
                (host, rank),
                "{line}"
            );
        }
    }

    #[test]
    fn reads_times_of_each_clock() {
        let date = 334.0 * 86_400.0 + 36_192.0 + 86_400.0;
        for (line, clock, seconds) in [
            ("2026-11-30T10:03:12.5 #", Clock::Date, date + 0.5),
            ("[2026-11-30T10:03:12,250] #", Clock::Date, date + 0.25),
            ("2026-11-30T10:03:12Z #", Clock::Epoch, 1_796_032_992.0),
            ("2026-11-30T04:03:12-06:00 #", Clock::Epoch, 1_796_032_992.0),
            ("2024-03-01T00:00:00+0000 #", Clock::Epoch, 1_709_251_200.0),
            ("2026/11/30 10:03:12 #", Clock::Date, date),
            ("Nov 30 10:03:12 nid001 #", Clock::Date, date),
            ("Nov  2 10:03:12 nid001 #", Clock::Date, date - 28.0 * 86_400.0),
            ("[Mon Nov 30 10:03:12 2026] #", Clock::Date, date),
            ("E1130 10:03:12.5 7 a.cpp:1] #", Clock::Date, date + 0.5),
            ("libfabric:71:1700000000::cxi:core #", Clock::Epoch, 1_700_000_000.0),
            ("[  123.456789] cxi_ss1 #", Clock::Boot, 123.456_789),
            ("10:03:12 #", Clock::Day, 36_192.0),
        ] {
            let found = circumstances(line).time.expect(line);
            assert_eq!((found.clock, found.seconds), (clock, seconds), "{line}");
        }
        for line in ["0000:21:00.0: #", "a 25:00:00 #", "0x12:3:4 #", "1:2:3 #", "[1.5 #"] {
            assert_eq!(circumstances(line).time, None, "{line}");
        }
    }

    #[test]
    fn reads_own_nic_and_device() {
        let found = circumstances("RXC (0x19751:7) PtlTE 3: # cxi_rh@cxi2");
        assert_eq!((found.nic, found.device.as_deref()), (Some(0x19751), Some("cxi2")));
        assert_eq!(circumstances("cxi_core 0000:21:00.0: #").device, None);
    }

    #[test]
    fn removes_colors() {
        assert_eq!(plain(b"\x1b[1;31mred\x1b[0m \xff"), "red \u{fffd}");
    }
}
