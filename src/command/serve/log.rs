//! The lines of a server: one for each event, on standard output.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::fs::fstat;

/// The variable in which the service manager names the device and the file of the journal, where
/// standard output leads to it (systemd.exec(5)).
const JOURNAL: &str = "JOURNAL_STREAM";

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

/// Writes the lines.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// Each line begins with its priority.
    to_journal: bool,
}

impl Log {
    /// Creates the log of this process.
    pub fn new() -> Self {
        let stream = std::env::var(JOURNAL).unwrap_or_default();
        let stdout = fstat(io::stdout().as_fd());
        let is_journal =
            |file: rustix::fs::Stat| format!("{}:{}", file.st_dev, file.st_ino) == stream;
        Self {
            to_journal: stdout.is_ok_and(is_journal),
        }
    }

    /// Writes a line. A reader that has ended ends the server (`interrupt`).
    pub fn line(self, priority: Priority, text: &str) {
        let _ = self.write_line(priority, text);
    }

    fn write_line(self, priority: Priority, text: &str) -> io::Result<()> {
        let prefix = if self.to_journal {
            priority.prefix()
        } else {
            ""
        };
        // One write, so that lines of several threads do not mix.
        let mut stdout = io::stdout().lock();
        stdout.write_all(format!("{prefix}{text}\n").as_bytes())?;
        stdout.flush()
    }
}

/// Writes each line as a warning: refusals.
impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.write_line(Priority::Warning, text.trim_end())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
