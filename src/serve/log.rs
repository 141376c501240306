//! The lines of a server: one for each event, on standard output.
//!
//! A thread writes them, so that a reader who does not read delays no client. Lines that find no
//! room in its queue are counted.
//!
//! The lines about the runs of each host are limited, so that a host that measures again and again,
//! such as one with `cxidiag ping`, does not fill the log. The first runs of a host are printed one
//! by one. While the host goes on, a line a minute has the number of its further runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::fs::fstat;

use super::ending::{ClientEnding, ClientOutcome};
use facts::error::Failure;
use facts::threads;

/// The variable in which the service manager names the device and the file of the journal, where
/// standard output leads to it (systemd.exec(5)).
const JOURNAL: &str = "JOURNAL_STREAM";

/// Most lines that wait for the thread.
const MOST: usize = 1000;

/// Time limit for the lines that wait when the server ends.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How important a line is, as a priority of the journal (sd-daemon(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// A run or a client failed.
    Warning,
    /// Anything else.
    Info,
}

impl Priority {
    fn prefix(self) -> &'static str {
        match self {
            Self::Warning => "<4>",
            Self::Info => "<6>",
        }
    }
}

/// What the thread receives.
enum LogMessage {
    Line(Priority, String),
    /// The lines before it are to be written; dropped when they are.
    End(#[expect(dead_code, reason = "its end is the answer")] Sender<()>),
}

/// Passes lines to the thread that writes them.
#[derive(Clone, Debug)]
pub struct Log {
    messages: Sender<LogMessage>,
    /// Number of lines that found no room.
    lost: Arc<AtomicU64>,
}

impl Log {
    /// Starts the thread that writes to standard output.
    ///
    /// # Errors
    ///
    /// A thread that cannot be started.
    pub fn start() -> Result<Self, Failure> {
        let to_journal = leads_to_journal();
        Self::to(io::stdout(), to_journal)
    }

    /// Starts the thread that writes to `out`; each line begins with its priority if it leads
    /// `to_journal`.
    fn to(out: impl Write + Send + 'static, to_journal: bool) -> Result<Self, Failure> {
        let (messages, received) = bounded(MOST);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        threads::start("log", move || write(out, to_journal, &received, &counted))?;
        Ok(Self { messages, lost })
    }

    /// Passes a line on. Does not wait.
    pub fn line(&self, priority: Priority, text: impl Into<String>) {
        let line = LogMessage::Line(priority, text.into());
        if self.messages.try_send(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are written, for [`LAST_LINES`] at most.
    pub fn finish(self) {
        let (end, ended) = bounded(0);
        if self.messages.send_timeout(LogMessage::End(end), LAST_LINES).is_ok() {
            let _ = ended.recv_timeout(LAST_LINES);
        }
    }
}

/// Whether standard output leads to the journal.
fn leads_to_journal() -> bool {
    let stream = std::env::var(JOURNAL).unwrap_or_default();
    let is_journal = |file: rustix::fs::Stat| format!("{}:{}", file.st_dev, file.st_ino) == stream;
    fstat(io::stdout().as_fd()).is_ok_and(is_journal)
}

/// The loop of the thread. A reader that has ended ends the server (`interrupt`).
fn write(mut out: impl Write, to_journal: bool, messages: &Receiver<LogMessage>, lost: &AtomicU64) {
    let mut line = |priority: Priority, text: &str| {
        let prefix = if to_journal { priority.prefix() } else { "" };
        let _ = out.write_all(format!("{prefix}{text}\n").as_bytes());
        let _ = out.flush();
    };
    for message in messages {
        if let LogMessage::Line(priority, text) = message {
            line(priority, &text);
        }
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            count => line(
                Priority::Warning,
                &format!("{count} lines are lost: the reader of this output was too slow"),
            ),
        }
    }
}

/// Passes each line on as a warning: refusals.
impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.line(Priority::Warning, text.trim_end());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs of a host that are printed one by one.
const SINGLY: u32 = 8;

/// Time between two lines about the further runs of a host. A host that begins no run for this time
/// begins anew, and a run that takes as long is printed in any case.
const PERIOD: Duration = Duration::from_secs(60);

/// The runs of all hosts.
#[derive(Debug, Default)]
pub struct RunLog {
    hosts: BTreeMap<IpAddr, HostRuns>,
}

#[derive(Debug)]
struct HostRuns {
    printed: u32,
    /// When the current period ends.
    due: Instant,
    /// A run has begun in this period.
    is_active: bool,
    /// A failure was printed in this period.
    has_failed: bool,
    further: Further,
}

/// The runs of a period that were not printed.
#[derive(Debug, Default)]
struct Further {
    done: u64,
    failed: u64,
    left: u64,
    /// What the client did, by name.
    doing: BTreeSet<&'static str>,
    /// What happened at the last failure.
    failure: Option<String>,
}

impl Further {
    /// The line about them, if there are any.
    fn line(&self, host: IpAddr) -> Option<(Priority, String)> {
        let counts =
            [(self.done, "done"), (self.failed, "failed"), (self.left, "ended by the client")];
        let sum: u64 = counts.iter().map(|(count, _)| count).sum();
        let named = counts.iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> = named.map(|(count, how)| format!("{count} {how}")).collect();
        let doing: Vec<&str> = self.doing.iter().copied().collect();
        let runs = if sum == 1 { "run" } else { "runs" };
        let failure = self.failure.as_ref();
        let failure = failure.map_or(String::new(), |text| format!("; the last one {text}"));
        let line = format!(
            "{host}: {sum} further {runs} within a minute ({}): {}{failure}",
            doing.join(", "),
            named.join(", ")
        );
        let priority = if self.failed > 0 { Priority::Warning } else { Priority::Info };
        (sum > 0).then_some((priority, line))
    }
}

impl RunLog {
    /// Whether the run that a client on `host` begins `now` is printed.
    pub fn begins(&mut self, host: IpAddr, now: Instant) -> bool {
        let runs = self.hosts.entry(host).or_insert_with(|| HostRuns {
            printed: 0,
            due: now + PERIOD,
            is_active: true,
            has_failed: false,
            further: Further::default(),
        });
        runs.is_active = true;
        let is_printed = runs.printed < SINGLY;
        runs.printed += u32::from(is_printed);
        is_printed
    }

    /// Takes the end of a run that took this time and whose beginning was not printed. Returns
    /// whether to print it.
    pub fn ends(
        &mut self,
        host: IpAddr,
        doing: &'static str,
        ending: &ClientEnding,
        took: Duration,
    ) -> bool {
        let Some(runs) = self.hosts.get_mut(&host).filter(|_| took < PERIOD) else {
            return true;
        };
        let further = &mut runs.further;
        match ending.outcome {
            ClientOutcome::Refused => return true,
            ClientOutcome::Failed if !runs.has_failed => {
                runs.has_failed = true;
                return true;
            }
            ClientOutcome::Failed => {
                further.failed += 1;
                further.failure = Some(ending.text.clone());
            }
            ClientOutcome::Done => further.done += 1,
            ClientOutcome::Left => further.left += 1,
        }
        further.doing.insert(doing);
        false
    }

    /// Returns when the next period ends.
    pub fn due(&self) -> Option<Instant> {
        self.hosts.values().map(|runs| runs.due).min()
    }

    /// Passes the lines about further runs to `print` whose periods have ended `now`.
    pub fn advance(&mut self, now: Instant, mut print: impl FnMut(Priority, String)) {
        self.hosts.retain(|host, runs| {
            if now < runs.due {
                return true;
            }
            if let Some((priority, line)) = runs.further.line(*host) {
                print(priority, line);
            }
            let goes_on = runs.is_active;
            *runs = HostRuns {
                printed: runs.printed,
                due: now + PERIOD,
                is_active: false,
                has_failed: false,
                further: Further::default(),
            };
            goes_on
        });
    }

    /// Passes the lines about all further runs to `print`.
    pub fn finish(&mut self, mut print: impl FnMut(Priority, String)) {
        for (host, runs) in std::mem::take(&mut self.hosts) {
            if let Some((priority, line)) = runs.further.line(host) {
                print(priority, line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn lines_in_the_journal_begin_with_their_priority() {
        for (to_journal, expected) in [(true, "<6>one\n<4>two\n"), (false, "one\ntwo\n")] {
            let (out, read) = UnixStream::pair().unwrap();
            let mut log = Log::to(out, to_journal).unwrap();
            log.line(Priority::Info, "one");
            log.write_all(b"two\n").unwrap();
            log.finish();
            assert_eq!(io::read_to_string(read).unwrap(), expected);
        }
    }

    #[test]
    fn counts_lines_without_waiting_for_a_slow_reader() {
        let (out, read) = UnixStream::pair().unwrap();
        let log = Log::to(out, false).unwrap();
        let long = "x".repeat(10_000);
        for _ in 0..2 * MOST {
            log.line(Priority::Info, long.as_str());
        }
        let lines = BufReader::new(read).lines().map(Result::unwrap);
        let (mut written, mut lost) = (0, 0);
        for line in lines {
            match line.split_once(" lines are lost: ") {
                Some((count, _)) => lost += count.parse::<usize>().unwrap(),
                None => written += 1,
            }
            if written + lost == 2 * MOST {
                break;
            }
        }
        assert!(lost > 0, "{written}");
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn host() -> IpAddr {
        "10.1.1.9".parse().unwrap()
    }

    /// Begins and ends a run. Returns whether both are printed.
    fn run(log: &mut RunLog, now: Instant, outcome: ClientOutcome) -> bool {
        let ending = ClientEnding { outcome, text: "failed after 0.1 s: no answer".into() };
        log.begins(host(), now) || log.ends(host(), "write-lat", &ending, SECOND)
    }

    fn lines(log: &mut RunLog, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        log.advance(now, |_, line| lines.push(line));
        lines
    }

    #[test]
    fn prints_first_runs_and_then_a_line_a_minute() {
        let (mut log, start) = (RunLog::default(), Instant::now());
        let mut printed = 0;
        let mut summaries = Vec::new();
        for second in 0..180 {
            let now = start + second * SECOND;
            summaries.extend(lines(&mut log, now));
            for _ in 0..4 {
                printed += u32::from(run(&mut log, now, ClientOutcome::Done));
            }
        }
        assert_eq!(printed, SINGLY);
        let line = |count| {
            format!("10.1.1.9: {count} further runs within a minute (write-lat): {count} done")
        };
        assert_eq!(summaries, [line(232), line(240)]);
        let mut rest = Vec::new();
        log.finish(|priority, line| rest.push((priority, line)));
        assert_eq!(rest, [(Priority::Info, line(240))]);
    }

    #[test]
    fn prints_first_failure_of_a_minute_and_counts_others() {
        let (mut log, start) = (RunLog::default(), Instant::now());
        for _ in 0..SINGLY {
            run(&mut log, start, ClientOutcome::Done);
        }
        let failures = [(); 3].map(|()| run(&mut log, start, ClientOutcome::Failed));
        assert_eq!(failures, [true, false, false]);
        run(&mut log, start, ClientOutcome::Left);
        let summary = "10.1.1.9: 3 further runs within a minute (write-lat): 2 failed, 1 ended by \
                       the client; the last one failed after 0.1 s: no answer";
        assert_eq!(lines(&mut log, start + PERIOD), [summary]);
        assert!(run(&mut log, start + PERIOD, ClientOutcome::Failed));
    }

    #[test]
    fn host_without_a_run_for_a_minute_begins_anew() {
        let (mut log, start) = (RunLog::default(), Instant::now());
        for _ in 0..SINGLY {
            assert!(log.begins(host(), start));
        }
        assert!(!log.begins(host(), start));
        assert!(lines(&mut log, start + PERIOD).is_empty());
        assert!(!log.begins(host(), start + PERIOD));
        for period in 2..4 {
            assert!(log.due().is_some());
            lines(&mut log, start + period * PERIOD);
        }
        assert_eq!(log.due(), None);
        assert!(log.begins(host(), start + 4 * PERIOD));
    }

    #[test]
    fn prints_end_of_a_long_run() {
        let (mut log, start) = (RunLog::default(), Instant::now());
        for _ in 0..=SINGLY {
            log.begins(host(), start);
        }
        let ending = ClientEnding { outcome: ClientOutcome::Done, text: "done".into() };
        assert!(!log.ends(host(), "send-bw", &ending, 59 * SECOND));
        assert!(log.ends(host(), "send-bw", &ending, PERIOD));
    }
}
