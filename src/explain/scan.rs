//! Reads logs as a stream, and counts the messages that it knows.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use flate2::bufread::MultiGzDecoder;

use crate::line::{Circumstances, Clock, Time, heading_host, hexadecimal, is_same_host, plain};
use crate::table::{Form, Role, TABLE, Values};
use facts::error::{Failure, cause};
use facts::interrupt;

/// The first bytes of a file of gzip.
const GZIP: &[u8] = b"\x1f\x8b";

/// Bytes that are searched at a time. A longer line is read in parts.
const BLOCK: usize = 1 << 20;

/// Bytes of a line that are looked at around a message, and shown of one.
const LONGEST_LINE: usize = 4096;

/// Bytes of names of hosts, ranks and NICs that are kept: enough for the largest jobs, and a bound
/// for logs that are none.
const MOST_BYTES: usize = 24 << 20;

/// Bytes that a name costs beside its text, and a number.
const NAME_COST: usize = 48;
const NUMBER_COST: usize = 16;

/// Groups by error number; further numbers of a message count as one.
const MOST_GROUPS: usize = 1000;

/// Lines of different form that look like errors.
const MOST_FORMS: usize = 10_000;

/// Lines before a message that may begin it.
const LINES_BEFORE: usize = 4;

/// Lines of a group that are read; further ones are only counted.
const MOST_READ: u64 = 1 << 19;

/// The row, the row of the return code, and an error number or a host.
type GroupKey = (usize, Option<usize>, String);

/// Half hours by which time zones are ahead of UTC.
const ZONES: RangeInclusive<i32> = -24..=28;

/// Seconds.
const HALF_HOUR: f64 = 1800.0;

/// Seconds between messages of one failure.
const CLOSE: f64 = 30.0;

/// All lines with one message, return code and error number.
#[derive(Debug, Default)]
pub struct Group {
    /// Index of the message among the rows of the table.
    pub row: usize,
    /// Index of the return code among these rows, if the message names one.
    pub code: Option<usize>,
    pub count: u64,
    /// The earliest line by its time, if all have a time of one clock; else the first one.
    pub first: Sighting,
    pub hosts: BTreeSet<String>,
    pub ranks: BTreeSet<u32>,
    /// Addresses of peers' NICs, and hashes of those who named them: a NIC or, without its address,
    /// a host or rank.
    pub targets: BTreeMap<u32, BTreeSet<u64>>,
}

/// A line with a message.
#[derive(Clone, Debug, Default)]
pub struct Sighting {
    /// Index of the log among the sources.
    pub source: usize,
    pub line: u64,
    pub text: String,
    /// The text from the message on.
    pub message: String,
    pub circumstances: Circumstances,
    /// The time of the line, or of the last line before it that has one.
    pub time: Option<Time>,
    pub values: Values,
}

impl Sighting {
    /// Whether the line was printed before another one; `None` if their places and times do not
    /// say.
    pub fn is_before(&self, other: &Self) -> Option<bool> {
        let (own, others) = (&self.circumstances.time, &other.circumstances.time);
        let order = |own: &Option<Time>, others: &Option<Time>| {
            Some(self.seconds_after(other, own.as_ref()?, others.as_ref()?)?.total_cmp(&0.0))
        };
        let by_time = match (own, others) {
            (Some(_), Some(_)) => order(own, others),
            // A line without a time stands behind one that has it.
            (None, Some(_)) => order(&self.time, others).filter(|order| order.is_ge()),
            (Some(_), None) => order(own, &other.time).filter(|order| order.is_le()),
            (None, None) => None,
        };
        let by_place = (self.source == other.source).then(|| self.line.cmp(&other.line));
        let by_time = by_time.filter(|order| order.is_ne() || by_place.is_none());
        by_time.or(by_place).map(Ordering::is_lt)
    }

    /// Returns by how many seconds the line was printed after another one, if both have times of
    /// one clock.
    pub fn seconds_behind(&self, other: &Self) -> Option<f64> {
        self.seconds_after(other, self.time.as_ref()?, other.time.as_ref()?)
    }

    /// The difference of times of two lines. Each kernel has a clock since its start.
    fn seconds_after(&self, other: &Self, own: &Time, others: &Time) -> Option<f64> {
        let host = |sighting: &Self| sighting.circumstances.host.clone();
        let is_one_kernel = self.source == other.source && host(self) == host(other);
        let is_one_clock = own.clock == others.clock && (own.clock != Clock::Boot || is_one_kernel);
        is_one_clock.then_some(own.seconds - others.seconds)
    }
}

/// What logs hold.
#[derive(Debug, Default)]
pub struct Log {
    pub groups: Vec<Group>,
    places: HashMap<GroupKey, usize>,
    pub lines: u64,
    /// Lines of other form that look like errors, with numbers replaced, and how often they stand.
    pub unknown: HashMap<String, u64>,
    /// Hosts of NICs, by address; `None` if the logs contradict each other.
    pub hosts: BTreeMap<u32, Option<String>>,
    /// Hosts of ranks; `None` for ranks of several jobs.
    pub rank_hosts: BTreeMap<u32, Option<String>>,
    /// Bytes of names that are kept.
    name_bytes: usize,
    /// Seconds by which the dates of the logs are ahead of UTC, in a line that has both.
    ahead: Option<f64>,
    /// Rows that do not count, because the logs have a text that excludes them.
    excluded: BTreeSet<usize>,
    /// Whether a line says more than a note.
    has_failure: bool,
    /// The host that the last heading names, such as `--- nid001: dmesg -T`.
    heading_host: Option<String>,
    /// The last time in the source that is read.
    last_time: Option<Time>,
    /// Whether lines of libfabric of level warn stand in the logs.
    pub has_warnings: bool,
}

/// Words of lines that look like errors.
const ERROR_WORDS: [&str; 12] = [
    "rror", "ERROR", "ail", "FAIL", "bort", "ABORT", "atal", "FATAL", "anic", "illed", "imeout",
    "imed out",
];

static ERRORS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let finder = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(ERROR_WORDS);
    finder.expect("a few short words")
});

impl Log {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or an interruption.
    pub fn read_file(&mut self, source: usize, path: &Path) -> Result<(), Failure> {
        let name = if path == Path::new("-") {
            "standard input".into()
        } else {
            path.display().to_string()
        };
        let refused = |error: io::Error| Failure::environment(format!("{name}: {}", cause(&error)));
        let mut stream: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            let file = File::open(path).map_err(refused)?;
            if file.metadata().map_err(refused)?.is_dir() {
                return Err(Failure::environment(format!("{name}: is a directory")));
            }
            Box::new(BufReader::new(file))
        };
        if stream.fill_buf().map_err(refused)?.starts_with(GZIP) {
            stream = Box::new(BufReader::new(MultiGzDecoder::new(stream)));
        }
        self.read(source, stream).map_err(refused)?;
        interrupt::check()
    }

    /// Reads a stream to its end, or to an interruption.
    pub fn read(&mut self, source: usize, mut stream: impl Read) -> io::Result<()> {
        (self.heading_host, self.last_time) = (None, None);
        let mut block = vec![0; BLOCK];
        let (mut filled, mut line) = (0, 1);
        while interrupt::check().is_ok() {
            let read = match stream.read(&mut block[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            filled += read;
            let is_end = read == 0;
            if !is_end && filled < block.len() {
                continue;
            }
            let last = block[..filled].iter().rposition(|byte| is_line_end(*byte)).map(|at| at + 1);
            let end = if is_end { filled } else { last.unwrap_or(filled) };
            line += self.search(source, line, &block[..end]);
            block.copy_within(end..filled, 0);
            filled -= end;
            if is_end {
                break;
            }
        }
        self.lines += line - 1;
        Ok(())
    }

    /// Searches whole lines. Returns their number.
    fn search(&mut self, source: usize, first_line: u64, block: &[u8]) -> u64 {
        let (mut at, mut counted, mut line) = (0, 0, 0);
        while let Some(found) = TABLE.find(&block[at..]).map(|found| at + found) {
            line += count_lines(&block[counted..found]);
            counted = found;
            let (start, end) = line_around(block, found);
            let text = plain(cut(&block[start..end], found - start));
            self.add(source, first_line + line, &text, &block[..start]);
            at = end;
        }
        if !self.has_failure {
            self.search_errors(block);
        }
        line + count_lines(&block[counted..])
    }

    /// Adds the messages in a line.
    fn add(&mut self, source: usize, line: u64, text: &str, before: &[u8]) {
        if text.contains(":cxi:") && text.contains("<warn>") {
            self.has_warnings = true;
        }
        let found = TABLE.search(text);
        self.excluded.extend(found.excluded);
        if found.is_heading {
            self.heading_host = heading_host(text).map(str::to_owned);
        }
        for message in found.messages {
            let role = TABLE.rows[message.row].role;
            self.has_failure |= !matches!(role, Role::Note | Role::Alone);
            let key = self.key(message.row, &message.values, None);
            if let Some(place) = self.places.get(&key)
                && self.groups[*place].count >= MOST_READ
            {
                self.groups[*place].count += 1;
                continue;
            }
            let mut circumstances = Circumstances::read(text, message.start);
            if circumstances.host.is_none() && circumstances.time.is_none() {
                circumstances.fill_from(circumstances_before(before));
            }
            let values = &message.values;
            circumstances.host = values.get("host").cloned().or(circumstances.host.take());
            circumstances.device = values.get("device").cloned().or(circumstances.device.take());
            let rank = values.get("rank").and_then(|rank| rank.parse().ok());
            circumstances.rank = rank.or(circumstances.rank);
            let is_kernels = TABLE.rows[message.row].origin == "kernel";
            if is_kernels && circumstances.host.is_none() {
                circumstances.host.clone_from(&self.heading_host);
            }
            self.ahead = self.ahead.or(circumstances.ahead);
            if circumstances.time.is_some() {
                self.last_time.clone_from(&circumstances.time);
            }
            if let Some(host) = &circumstances.host {
                remember(&mut self.hosts, circumstances.nic, host, &mut self.name_bytes);
                remember(&mut self.rank_hosts, circumstances.rank, host, &mut self.name_bytes);
            }
            let sighting = Sighting {
                source,
                line,
                text: text.trim().into(),
                message: text[message.start..].trim().into(),
                circumstances,
                time: self.last_time.clone(),
                values: message.values,
            };
            self.count(message.row, sighting);
        }
    }

    /// Returns what lines of one group have in common. The same event on two hosts is two causes.
    fn key(&self, row: usize, values: &Values, host: Option<&String>) -> GroupKey {
        let code = values.get("code").and_then(|name| TABLE.code(name));
        let host = host.filter(|_| TABLE.rows[row].origin == "kernel");
        let detail = values.get("errno").or(host).filter(|_| self.groups.len() < MOST_GROUPS);
        (row, code, detail.cloned().unwrap_or_default())
    }

    fn count(&mut self, row: usize, sighting: Sighting) {
        let key = self.key(row, &sighting.values, sighting.circumstances.host.as_ref());
        let code = key.1;
        let place = *self.places.entry(key).or_insert_with(|| {
            self.groups.push(Group { row, code, first: sighting.clone(), ..Group::default() });
            self.groups.len() - 1
        });
        let group = &mut self.groups[place];
        group.count += 1;
        let own = &sighting.circumstances;
        let mut has_room = |bytes| has_room(&mut self.name_bytes, bytes);
        if let Some(host) = &own.host
            && !group.hosts.contains(host)
            && has_room(NAME_COST + host.len())
        {
            group.hosts.insert(host.clone());
        }
        if let Some(rank) = own.rank
            && !group.ranks.contains(&rank)
            && has_room(NUMBER_COST)
        {
            group.ranks.insert(rank);
        }
        if let Some(target) = target(&sighting.values) {
            let reporter = own.reporter();
            let is_new = group
                .targets
                .get(&target)
                .is_none_or(|known| reporter.is_some_and(|reporter| !known.contains(&reporter)));
            if is_new && has_room(2 * NUMBER_COST) {
                group.targets.entry(target).or_default().extend(reporter);
            }
        }
        if sighting.is_before(&group.first) == Some(true) {
            group.first = sighting;
        }
    }

    /// Counts the lines that look like errors.
    fn search_errors(&mut self, block: &[u8]) {
        let mut at = 0;
        while let Some(found) = ERRORS.find(&block[at..]).map(|found| at + found.start()) {
            let (start, end) = line_around(block, found);
            self.add_unknown(&plain(cut(&block[start..end], found - start)));
            at = end;
        }
    }

    fn add_unknown(&mut self, text: &str) {
        if !ERRORS.is_match(text) || !TABLE.search(text).messages.is_empty() {
            return;
        }
        let form = form(text);
        if let Some(count) = self.unknown.get_mut(&form) {
            *count += 1;
        } else if self.unknown.len() < MOST_FORMS {
            self.unknown.insert(form, 1);
        }
    }

    /// Makes times since 1970 comparable with dates of an unknown time zone, if the logs have both.
    pub fn settle_times(&mut self) {
        let firsts = || self.groups.iter().filter_map(|group| group.first.time.as_ref());
        let dates = firsts().filter(|time| time.clock == Clock::Date).map(|time| time.seconds);
        let dates: Vec<f64> = dates.collect();
        let times: Vec<f64> = firsts().filter_map(Time::in_year).collect();
        if dates.is_empty() || times.is_empty() {
            return;
        }
        let ahead = self.ahead.unwrap_or_else(|| likely_zone(&dates, &times));
        for group in &mut self.groups {
            let first = &mut group.first;
            let times = [&mut first.time, &mut first.circumstances.time];
            for time in times.into_iter().flatten() {
                if let Some(seconds) = time.in_year() {
                    (time.clock, time.seconds) = (Clock::Date, seconds + ahead);
                }
            }
        }
    }

    /// Whether no text of the logs excludes a row.
    pub fn counts(&self, row: usize) -> bool {
        !self.excluded.contains(&row)
    }
}

/// The seconds by which a time zone is ahead of UTC in which dates lie closest to times in UTC:
/// messages of one failure lie within seconds, and one close pair says more than many that are
/// minutes apart.
fn likely_zone(dates: &[f64], times: &[f64]) -> f64 {
    let closeness = |ahead: f64| -> f64 {
        let nearest = |date: &f64| {
            let distances = times.iter().map(|time| (date - time - ahead).abs());
            1.0 / (CLOSE + distances.fold(f64::INFINITY, f64::min))
        };
        dates.iter().map(nearest).sum()
    };
    let mut zones: Vec<f64> = ZONES.map(|half_hours| f64::from(half_hours) * HALF_HOUR).collect();
    // Of equal zones, the last one counts: UTC, or the closest one to it.
    zones.sort_by(|one, other| other.abs().total_cmp(&one.abs()));
    let best = zones.into_iter().max_by(|one, other| closeness(*one).total_cmp(&closeness(*other)));
    best.unwrap_or_default()
}

/// Remembers the host of a NIC or rank. One with several hosts has none.
fn remember(
    hosts: &mut BTreeMap<u32, Option<String>>,
    number: Option<u32>,
    host: &str,
    name_bytes: &mut usize,
) {
    let Some(number) = number else { return };
    if !hosts.contains_key(&number) && !has_room(name_bytes, NAME_COST + host.len()) {
        return;
    }
    let known = hosts.entry(number).or_insert_with(|| Some(host.to_owned()));
    if known.as_deref().is_some_and(|known| !is_same_host(known, host)) {
        *known = None;
    }
}

/// Takes `bytes` for names. Returns whether all names together stay within their limit.
fn has_room(name_bytes: &mut usize, bytes: usize) -> bool {
    *name_bytes += bytes;
    *name_bytes <= MOST_BYTES
}

/// The address of the peer's NIC in a message.
fn target(values: &Values) -> Option<u32> {
    let hexadecimal = values.get("target").and_then(|text| hexadecimal(text));
    hexadecimal.or_else(|| values.get("nid").and_then(|text| text.parse().ok()))
}

fn is_line_end(byte: u8) -> bool {
    // Progress bars end their lines with a carriage return only.
    matches!(byte, b'\n' | b'\r')
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The line around a place, without its end.
fn line_around(block: &[u8], place: usize) -> (usize, usize) {
    let start = block[..place].iter().rposition(|byte| is_line_end(*byte)).map_or(0, |at| at + 1);
    let end = block[place..].iter().position(|byte| is_line_end(*byte));
    (start, end.map_or(block.len(), |end| place + end))
}

/// The part of a long line around a place.
fn cut(line: &[u8], place: usize) -> &[u8] {
    let start = place.saturating_sub(LONGEST_LINE / 2);
    &line[start..line.len().min(start + LONGEST_LINE)]
}

/// The host in blocks of Open MPI.
static LOCAL_HOST: LazyLock<Form> = LazyLock::new(|| Form::read("Local host: <host>"));

/// The circumstances in the lines before a message: libfabric's line can be cut in two, and Open
/// MPI names the host in a line of its own.
fn circumstances_before(before: &[u8]) -> Circumstances {
    let lines = before.rsplit(|byte| is_line_end(*byte)).skip(1).take(LINES_BEFORE);
    let mut found = Circumstances::default();
    for (distance, line) in lines.enumerate() {
        let text = plain(cut(line, 0));
        if distance == 0 && text.contains("libfabric:") {
            return Circumstances::read(&text, text.len());
        }
        if let Some((_, values)) = LOCAL_HOST.find(&text) {
            found.host = values.get("host").cloned();
            return found;
        }
    }
    found
}

/// A line with its numbers replaced, so that equal messages count as one.
fn form(text: &str) -> String {
    let mut form = String::new();
    for letter in text.trim().chars().take(200) {
        let letter = if letter.is_ascii_digit() { '#' } else { letter };
        if letter != '#' || !form.ends_with('#') {
            form.push(letter);
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    const OVERFLOW: &str = "H/W Event Queue overflow detected.";

    fn log(bytes: &[u8]) -> Log {
        let mut log = Log::default();
        log.read(0, bytes).unwrap();
        log
    }

    fn found(log: &Log) -> Vec<(&'static str, u64, u64)> {
        let groups = log.groups.iter();
        groups.map(|group| (TABLE.rows[group.row].id, group.first.line, group.count)).collect()
    }

    #[test]
    fn finds_messages_in_any_text() {
        for (text, line) in [
            (format!("\0\0\n\u{1b}[31m{OVERFLOW}\u{1b}[0m\n"), 2),
            (format!("10 %\r20 %\r{OVERFLOW}\r30 %"), 1),
            (format!("a\r\nb\r\n{OVERFLOW}\r\n"), 3),
            (format!("{}{OVERFLOW}", "x".repeat(3 * BLOCK)), 1),
            (format!("{}\n{OVERFLOW}", "x\n".repeat(BLOCK)), BLOCK as u64 + 2),
            (format!("{}\n{OVERFLOW}", "x".repeat(BLOCK - 10)), 2),
        ] {
            assert_eq!(found(&log(text.as_bytes())), [("M50", line, 1)], "{}", text.len());
        }
    }

    #[test]
    fn reads_files_of_gzip() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut encoder = GzEncoder::new(file.reopen().unwrap(), Compression::fast());
        writeln!(encoder, "a\n{OVERFLOW}").unwrap();
        encoder.finish().unwrap();
        let mut log = Log::default();
        log.read_file(0, file.path()).unwrap();
        assert_eq!(found(&log), [("M50", 2, 1)]);
        let missing = log.read_file(0, Path::new("/nonexistent")).unwrap_err();
        assert!(missing.message().contains("/nonexistent"), "{}", missing.message());
        assert!(log.read_file(0, Path::new("/")).is_err());
    }

    #[test]
    fn remembers_earliest_line_by_time() {
        let line = |time: &str, rank| format!("2026-11-30T{time} nid001 {rank}: {OVERFLOW}\n");
        let text = line("10:00:02", 4) + &line("10:00:01", 2) + &line("10:00:03", 1);
        let log = log(text.as_bytes());
        let group = &log.groups[0];
        assert_eq!((group.first.line, group.first.circumstances.rank), (2, Some(2)));
        assert_eq!(group.ranks.iter().collect::<Vec<_>>(), [&1, &2, &4]);
    }

    #[test]
    fn takes_circumstances_from_lines_before() {
        let text = format!(
            "3: libfabric:71:1700000000::cxi:core:f():9<warn> nid007:\n{OVERFLOW}\n\
             ----\n  Local host: nid008\n  Location: a.c:3\n{OVERFLOW}\n"
        );
        let log = log(text.as_bytes());
        let group = &log.groups[0];
        assert_eq!(group.hosts.iter().collect::<Vec<_>>(), ["nid007", "nid008"]);
        assert_eq!(group.first.circumstances.rank, Some(3));
    }

    #[test]
    fn counts_lines_that_look_like_errors() {
        let log = log("step 1 failed\nstep 22 failed\nresult 3\nError 7\n".as_bytes());
        let mut unknown: Vec<_> = log.unknown.into_iter().collect();
        unknown.sort_unstable();
        assert_eq!(unknown, [("Error #".to_owned(), 1), ("step # failed".to_owned(), 2)]);
    }

    #[test]
    fn keeps_no_host_that_is_a_command() {
        let log = log(format!("Local host: $(reboot)\n{OVERFLOW}\n").as_bytes());
        assert!(log.groups[0].hosts.is_empty());
    }

    #[test]
    fn ranks_of_several_jobs_have_no_host() {
        let line = |host| format!("{host} 3: {OVERFLOW}\n{host} 4: {OVERFLOW}\n");
        let log = log((line("n1") + &line("n1.a") + "n2 3: " + OVERFLOW).as_bytes());
        assert_eq!(log.rank_hosts[&3], None);
        assert_eq!(log.rank_hosts[&4].as_deref(), Some("n1"));
    }

    /// The times of two kernels say nothing about each other.
    #[test]
    fn each_kernel_has_its_own_clock() {
        let mut log = Log::default();
        let line = |time| format!("[ {time}.5] cxi_ss1 0: cxi0[hsn0]: CXI_EVENT_LINK_DOWN\n");
        log.read(0, line(200).as_bytes()).unwrap();
        log.read(1, line(100).as_bytes()).unwrap();
        assert_eq!(log.groups[0].first.source, 0);
        log.read(0, line(50).as_bytes()).unwrap();
        assert_eq!(log.groups[0].first.time.as_ref().unwrap().seconds, 50.5);
    }

    /// A hostile log has any number of error numbers, names and forms.
    #[test]
    fn memory_has_a_bound() {
        let numbers = (0..3 * MOST_GROUPS).map(|number| format!("cxil_map() failed: -{number}\n"));
        assert!(log(numbers.collect::<String>().as_bytes()).groups.len() <= MOST_GROUPS + 1);
        let mut log = Log { name_bytes: MOST_BYTES - 1000, ..Log::default() };
        let line = |number| {
            format!(
                "{number}: nid{number} kernel: Fatal, FC peer not found: NIC: {number} PID: 1\n"
            )
        };
        log.read(0, (10..100).map(line).collect::<String>().as_bytes()).unwrap();
        let group = &log.groups[0];
        assert_eq!(group.count, 90);
        for kept in [group.hosts.len(), group.ranks.len(), group.targets.len(), log.hosts.len()] {
            assert!(kept < 30, "{kept}");
        }
    }

    #[test]
    fn forms_that_are_known_are_counted_on() {
        let other = |number: usize| "e".repeat(number % 100) + &"x".repeat(number / 100);
        let forms = (0..2 * MOST_FORMS).map(|number| format!("error {}\n", other(number)));
        let text = "often failed\n".to_owned() + &forms.collect::<String>() + "often failed\n";
        assert_eq!(log(text.as_bytes()).unknown["often failed"], 2);
    }

    proptest! {
        #[test]
        fn reads_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            log(&bytes);
        }

        #[test]
        fn reads_any_mixture_of_messages(
            pieces in proptest::collection::vec((0..TABLE.rows.len(), any::<u8>(), "\\PC{0,12}"), 0..24)
        ) {
            let mut text = String::new();
            for (row, separator, noise) in pieces {
                for form in &TABLE.rows[row].forms {
                    text += form.fragment.split('<').next().unwrap();
                    text += &noise;
                }
                text.push(char::from(separator));
            }
            log(text.as_bytes());
        }
    }
}
