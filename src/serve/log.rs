//! The lines of a server: one for each event, on standard output.
//!
//! A thread writes them, so that a reader who does not read delays no client. Lines that find no
//! room in its queue are counted.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::fs::fstat;

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

/// Returns whether standard output leads to the journal.
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
}
