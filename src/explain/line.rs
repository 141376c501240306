//! The circumstances of a line of a log: time, host, rank and NIC, from the prefixes of launchers,
//! journals, kernel and libraries (messages.md 1).

use std::borrow::Cow;

use facts::time_of_day::rfc3339;

/// Words of a line among which the label of a launcher stands.
const LABEL_WORDS: usize = 4;

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
    /// Returns the time in the year, in UTC, of a time since 1970; `None` for other clocks.
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
        let host = host(head).or_else(|| task_host(message).map(str::to_owned));
        let time = time(head).or_else(|| time(message));
        Self {
            ahead: time.as_ref().and_then(|time| ahead(head, time)),
            time,
            host,
            rank: rank(head).or_else(|| rank(message)),
            nic: ["TXC (", "RXC ("].into_iter().find_map(|name| hexadecimal(behind(line, name)?)),
            device: device(line),
        }
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

/// Returns a line without the colours of terminals.
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

/// Returns the text behind the first occurrence of another one.
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

fn is_host_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_')
}

/// Returns a name of a host: it has a letter.
fn host_name(word: &str) -> Option<&str> {
    let is_name = word.chars().all(is_host_letter)
        && word.contains(|letter: char| letter.is_ascii_alphabetic());
    (is_name && !matches!(word, "error" | "warning" | "info" | "libfabric" | "slurmstepd"))
        .then_some(word)
}

/// Returns a name of a host with a number in it: most words without one are no hosts.
fn numbered_host(word: &str) -> Option<&str> {
    let is_numbered = word.contains(|letter: char| letter.is_ascii_digit());
    let is_other = ["cxi", "rank", "hsn"].iter().any(|name| word.starts_with(name));
    host_name(word).filter(|_| is_numbered && !is_other)
}

/// Returns the host that printed a line, from what stands before the message.
fn host(head: &str) -> Option<String> {
    let forms =
        [host_of_library, journal_host, labelled_host, nccl_host, bracketed_host, named_host];
    forms.into_iter().find_map(|form| form(head)).map(str::to_owned)
}

/// Returns the host in `libfabric:71:1700000000::cxi:ep_data:cxip_send():123<warn> nid001: TXC`.
fn host_of_library(head: &str) -> Option<&str> {
    let levels = ["<warn> ", "<trace> ", "<info> ", "<debug> "];
    let rest = levels.into_iter().find_map(|level| behind(head, level))?;
    host_name(rest.split(':').next()?)
}

/// Returns the host in `Nov 30 10:03:12 nid001 kernel:`.
fn journal_host(head: &str) -> Option<&str> {
    let words: Vec<&str> = head.split_whitespace().take(10).collect();
    words.windows(2).find_map(|pair| {
        let is_unit =
            matches!(pair[1], "kernel:" | "slurmd:" | "slurmctld:") || pair[1].ends_with("]:");
        is_unit.then(|| host_name(pair[0])).flatten()
    })
}

/// Returns the host in `nid001 12: ` of PALS, or `nid001: ` of pdsh.
fn labelled_host(head: &str) -> Option<&str> {
    let words: Vec<&str> = head.split_whitespace().take(LABEL_WORDS).collect();
    let ranked = label(head).and_then(|(at, _)| numbered_host(words[at.checked_sub(1)?]));
    ranked.or_else(|| numbered_host(words.first()?.strip_suffix(':')?))
}

/// Returns the host in `nid001:4711:4712 [0] NCCL WARN`.
fn nccl_host(head: &str) -> Option<&str> {
    head.split_whitespace().take(10).find_map(|word| {
        let mut parts = word.split(':');
        let (name, process, thread) = (parts.next()?, parts.next()?, parts.next()?);
        let is_number = |number: &str| number.len() > 1 && digits(number) == number;
        (is_number(process) && is_number(thread)).then(|| host_name(name)).flatten()
    })
}

/// Returns the host in `[Rank 3] [job id 12.0] [Mon Nov 30 10:03:12 2026] [nid001] - Abort(`, or in
/// `[nid001:04711] Signal:` of Open MPI.
fn bracketed_host(head: &str) -> Option<&str> {
    let inner = head.rsplit('[').filter_map(|part| Some(part.split_once(']')?.0));
    inner.into_iter().find_map(|inner| match inner.split_once(':') {
        Some((name, processes))
            if processes.split(':').all(|id| !id.is_empty() && digits(id) == id) =>
        {
            numbered_host(name)
        }
        _ => host_name(inner).filter(|_| head.contains("[Rank ")),
    })
}

/// Returns the host in `srun: error: nid001: task 3: ...`.
fn named_host(head: &str) -> Option<&str> {
    let rest = behind(head, "error: ").or_else(|| behind(head, " on "))?;
    numbered_host(rest.split([':', ' ']).next()?)
}

/// Returns the host that a heading names: `--- nid001: dmesg -T`, `nid001$ dmesg`.
pub fn heading_host(line: &str) -> Option<&str> {
    line.split(|letter| !is_host_letter(letter)).find_map(numbered_host)
}

/// Returns the host in a message of a launcher: `ping failed on nid001:`, `nid001: task 3:`.
fn task_host(message: &str) -> Option<&str> {
    let words = message.split_whitespace().take(12).collect::<Vec<_>>();
    words.windows(2).find_map(|pair| {
        let name = pair[1].trim_end_matches([':', ',', ';']);
        let is_place = matches!(pair[0], "on" | "host" | "node" | "nodes");
        is_place.then(|| numbered_host(name)).flatten()
    })
}

fn rank(text: &str) -> Option<u32> {
    let number = |text: &str| {
        let number = digits(text);
        number.parse().ok().filter(|_| !number.is_empty())
    };
    let named = ["[Rank ", "(rank ", "Rank ", "rank ", "[rank", "task ", "tasks "];
    let named = named.into_iter().find_map(|name| number(behind(text, name)?));
    let open_mpi_rank = || {
        let (label, _) = text.split_once("]<std")?;
        let (job, task) = label.rsplit_once('[')?.1.split_once(',')?;
        number(task).filter(|_| digits(job) == job)
    };
    named.or_else(open_mpi_rank).or_else(|| label(text).map(|(_, rank)| rank))
}

/// Returns the label of a launcher at the beginning of a line, and its place among the words: `3: `
/// of srun, `nid001 3: ` of PALS, with or without a time before it.
fn label(text: &str) -> Option<(usize, u32)> {
    text.split_whitespace().take(LABEL_WORDS).enumerate().find_map(|(at, word)| {
        let number = word.strip_suffix(':')?;
        let rank = number.parse().ok().filter(|_| digits(number) == number)?;
        Some((at, rank))
    })
}

/// Returns the name of a NIC: `cxi0`.
fn device(line: &str) -> Option<String> {
    line.match_indices("cxi").find_map(|(at, name)| {
        let number = digits(&line[at + name.len()..]);
        let is_word = !line[..at].ends_with(|letter: char| letter.is_ascii_alphanumeric());
        (is_word && (1..=2).contains(&number.len())).then(|| format!("cxi{number}"))
    })
}

/// Returns the first time in a text.
fn time(text: &str) -> Option<Time> {
    let read = |clock, seconds, text: &str| Some(Time { clock, seconds, text: text.trim().into() });
    if let Some(rest) = behind(text, "libfabric:") {
        let epoch = digits(rest.split(':').nth(1)?);
        if epoch.len() >= 9 {
            let seconds: u64 = epoch.parse().ok()?;
            return read(Clock::Epoch, seconds as f64, &rfc3339(seconds.saturating_mul(1000)));
        }
    }
    let trimmed = text.trim_start();
    if let Some((stamp, _)) = trimmed.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && let Ok(seconds) = stamp.trim().parse::<f64>()
        && stamp.contains('.')
    {
        return read(Clock::Boot, seconds, stamp);
    }
    date(text)
}

/// Returns the seconds by which the date before a time since 1970 is ahead of it.
fn ahead(head: &str, time: &Time) -> Option<f64> {
    let local = date(head).filter(|local| local.clock == Clock::Date)?;
    Some(local.seconds - time.in_year()?)
}

/// Returns the first date and time of day in a text, or a time of day alone.
fn date(text: &str) -> Option<Time> {
    let read = |clock, seconds, text: &str| Some(Time { clock, seconds, text: text.trim().into() });
    let (at, of_day) = clock_time(text)?;
    let end = text[at..].find(|letter: char| !matches!(letter, '0'..='9' | ':' | '.' | ','));
    let end = end.map_or(text.len(), |end| at + end);
    let before = &text[..at];
    if let Some(ahead) = zone(&text[end..])
        && let Some((start, month, day)) = iso_date(before)
        && let Some(days) = days_since_1970(before[start..start + 4].parse().ok()?, month, day)
    {
        let seconds = f64::from(days) * 86_400.0 + of_day - ahead;
        return read(Clock::Epoch, seconds, &text[start..end]);
    }
    let day = iso_date(before).or_else(|| month_and_day(before)).or_else(|| glog_date(before));
    let Some((start, month, day)) = day else {
        return read(Clock::Day, of_day, &text[at..end]);
    };
    let days = DAYS_BEFORE.get(month.checked_sub(1)?)? + day;
    read(Clock::Date, f64::from(days) * 86_400.0 + of_day, &text[start..end])
}

/// Days of a leap year before each month.
const DAYS_BEFORE: [u32; 12] = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335];

/// Returns the seconds by which a time zone is ahead: `Z`, `+0100` or `-06:00`.
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

/// Returns the first `hh:mm:ss` of a text, with its place.
fn clock_time(text: &str) -> Option<(usize, f64)> {
    let two = |text: &str| text.parse::<u32>().ok().filter(|_| digits(text) == text).map(f64::from);
    text.match_indices(':').find_map(|(colon, _)| {
        let at = colon.checked_sub(2)?;
        let hours = two(text.get(at..colon)?)?;
        let rest = text.get(colon + 1..)?;
        let (minutes, rest) = (two(rest.get(..2)?)?, rest.get(2..)?.strip_prefix(':')?);
        let seconds = two(rest.get(..2)?)?;
        let fraction = rest[2..].strip_prefix(['.', ',']).map_or("", digits);
        let fraction: f64 = format!("0.{fraction}0").parse().ok()?;
        let is_time = hours < 24.0
            && minutes < 60.0
            && seconds < 61.0
            && !text[..at].ends_with(|letter: char| letter.is_ascii_digit() || letter == ':');
        is_time.then_some((at, hours * 3600.0 + minutes * 60.0 + seconds + fraction))
    })
}

/// Returns place, month and day of `2026-11-30T` or `2026/11/30 ` at the end of a text.
fn iso_date(before: &str) -> Option<(usize, usize, u32)> {
    let text = before.strip_suffix(['T', ' ', '-'])?;
    let at = text.len().checked_sub(10)?;
    let parts: Vec<&str> = text.get(at..)?.split(['-', '/']).collect();
    let [year, month, day] = parts[..] else { return None };
    let is_year = year.len() == 4 && year.starts_with(['1', '2']);
    is_year.then_some((at, month.parse().ok()?, day.parse().ok()?))
}

/// Returns place, month and day of `E1130 ` at the end of a text (glog).
fn glog_date(before: &str) -> Option<(usize, usize, u32)> {
    let text = before.strip_suffix(' ')?;
    let at = text.len().checked_sub(5)?;
    let date = text.get(at..)?.strip_prefix(['I', 'W', 'E', 'F'])?;
    let is_date = digits(date).len() == 4;
    is_date.then_some((at, date.get(..2)?.parse().ok()?, date.get(2..)?.parse().ok()?))
}

/// Returns place, month and day of `Nov 30 ` at the end of a text.
fn month_and_day(before: &str) -> Option<(usize, usize, u32)> {
    let (rest, day) = before.trim_end().rsplit_once(' ')?;
    let day = day.parse().ok().filter(|day| (1..=31).contains(day))?;
    let rest = rest.trim_end();
    let at = rest.len().checked_sub(3)?;
    let month = MONTHS.iter().position(|month| rest.get(at..) == Some(month))? + 1;
    Some((at, month, day))
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
