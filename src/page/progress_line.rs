//! One line on a terminal that is drawn again and again.

use std::env;
use std::io::{IsTerminal, Stderr, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::tcgetwinsize;

use super::table::WIDTH;

/// Erases the line from the cursor on.
const ERASE: &str = "\x1b[K";

/// Whether the terminal of this process moves its cursor and erases lines.
pub fn has_cursor() -> bool {
    env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// The line on a terminal, which it never waits for. Dropping it erases the line.
#[derive(Debug)]
pub struct ProgressLine<W: Write + AsFd = Stderr> {
    out: W,
    is_enabled: bool,
    interval: Duration,
    drawn: Option<Instant>,
}

impl<W: Write + AsFd> ProgressLine<W> {
    /// A line that is drawn if `out` is a terminal with a cursor and `is_wanted`, once in each
    /// interval.
    pub fn new(out: W, is_wanted: bool, interval: Duration) -> Self
    where
        W: IsTerminal,
    {
        Self {
            is_enabled: is_wanted && out.is_terminal() && has_cursor(),
            interval,
            out,
            drawn: None,
        }
    }

    /// Whether anything is drawn.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Draws what `line` returns for the width of the terminal, if the interval has passed since
    /// the last time.
    pub fn show(&mut self, line: impl FnOnce(usize) -> String) {
        let is_early = |drawn: Instant| drawn.elapsed() < self.interval;
        if self.is_enabled && !self.drawn.is_some_and(is_early) && takes_text(&self.out) {
            // A line that fills the last column may be broken, and then not be erased.
            let width = columns(&self.out).saturating_sub(1);
            let line: String = line(width).chars().take(width).collect();
            // The cursor stays at the beginning, where other messages overwrite the line.
            let text = format!("{line}{ERASE}\r");
            let _ = self.out.write_all(text.as_bytes());
            self.drawn = Some(Instant::now());
        }
    }

    /// Erases the line, so that another message can follow.
    pub fn hide(&mut self) {
        if self.drawn.take().is_some() && takes_text(&self.out) {
            let _ = self.out.write_all(format!("\r{ERASE}").as_bytes());
        }
    }
}

impl<W: Write + AsFd> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        self.hide();
    }
}

/// The columns of a terminal, 80 without one.
pub fn columns(out: &impl AsFd) -> usize {
    match tcgetwinsize(out) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => WIDTH,
    }
}

/// Whether a terminal takes text at once. One that was stopped with Ctrl-S does not, and must not
/// stop this process.
fn takes_text(out: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(out, PollFlags::OUT)];
    let ready = poll(&mut polled, Some(&Timespec::default()));
    ready.is_ok() && polled[0].revents().contains(PollFlags::OUT)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::tcsetwinsize;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);

    /// Both ends of a terminal.
    fn terminal() -> (File, File) {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let program =
            File::options().read(true).write(true).open(OsStr::from_bytes(name.to_bytes()));
        (user.into(), program.unwrap())
    }

    #[track_caller]
    fn assert_drawn(user: &mut File, text: &str) {
        let mut bytes = vec![0; text.len()];
        user.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    #[test]
    fn draws_once_an_interval_and_erases_at_the_end() {
        let (mut user, program) = terminal();
        let mut line = ProgressLine::new(program.try_clone().unwrap(), true, INTERVAL);
        line.show(|_| "one".into());
        line.show(|_| panic!("drawn too early"));
        assert_drawn(&mut user, "one\x1b[K\r");
        line.drawn = line.drawn.and_then(|at| at.checked_sub(INTERVAL));
        line.show(|_| "two".into());
        assert_drawn(&mut user, "two\x1b[K\r");
        drop(line);
        assert_drawn(&mut user, "\r\x1b[K");
    }

    #[test]
    fn draws_only_on_a_terminal_and_if_wanted() {
        let (_user, program) = terminal();
        ProgressLine::new(program, false, INTERVAL).show(|_| panic!("not wanted"));
        let file = tempfile::tempfile().unwrap();
        ProgressLine::new(file, true, INTERVAL).show(|_| panic!("no terminal"));
    }

    #[test]
    fn does_not_wait_for_a_terminal_that_takes_nothing() {
        let (_user, mut program) = terminal();
        while takes_text(&program) {
            program.write_all(b"x").unwrap();
        }
        ProgressLine::new(program, true, INTERVAL).show(|_| panic!("waits"));
    }

    /// A line that the terminal breaks would not be erased.
    #[test]
    fn line_fits_into_terminal() {
        let (mut user, program) = terminal();
        let mut size = tcgetwinsize(&program).unwrap();
        for (columns, width) in [(0, 79), (10, 9), (200, 199)] {
            size.ws_col = columns;
            tcsetwinsize(&program, size).unwrap();
            let mut line = ProgressLine::new(program.try_clone().unwrap(), true, INTERVAL);
            line.show(|given| "x".repeat(given + 1));
            assert_drawn(&mut user, &format!("{}\x1b[K\r", "x".repeat(width)));
            drop(line);
            assert_drawn(&mut user, "\r\x1b[K");
        }
    }
}
