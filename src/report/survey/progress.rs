//! The progress of a survey: one line on a terminal, rewritten once a second.

use std::io::{IsTerminal, Stderr, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::tcgetwinsize;

use super::words;
use cluster::survey::conductor::{Phase, Progress};
use cluster::survey::findings::Test;
use cluster::survey::roster::Roster;

/// Time between two drawings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Erases the line from the cursor on.
const ERASE: &str = "\x1b[K";

/// Columns of a terminal that does not report its size.
const DEFAULT_COLUMNS: usize = 80;

/// Returns the line of a survey whose processes start.
pub fn waiting(joined: u32, expected: u32) -> String {
    format!("{joined} of {expected} processes have started")
}

/// Returns the line of a survey that measures, and that ends in `left` if that is known. Parts
/// are left out, the least important ones first, until the line fits into `width` columns.
pub fn measuring(
    progress: &Progress,
    left: Option<Duration>,
    roster: &Roster,
    tests: &[Test],
    width: usize,
) -> String {
    let Progress {
        phase,
        planned,
        answered,
        suspects,
        retested,
        ..
    } = *progress;
    let percent = answered.saturating_mul(100).checked_div(planned);
    let percent = percent.map(|percent| format!(" ({percent} %)"));
    let count = format!(
        "{} of {}",
        words::grouped(answered),
        words::counted(planned, "pair")
    );
    let suspects = words::grouped(suspects);
    let work = match phase {
        Phase::Repeat => Some(", again those without an answer".into()),
        Phase::Again => Some(", again those that differ too much".into()),
        Phase::Retest | Phase::Swap => Some(format!(
            ", {suspects} suspect: {} again",
            words::counted(retested, "pair")
        )),
        Phase::Sweep | Phase::Over => {
            (progress.suspects > 0).then(|| format!(", {suspects} suspect"))
        }
    };
    let worst = progress.worst.as_ref().map(|result| {
        let pair = words::path(roster, result.pair);
        format!(", worst {pair}: {}", words::answer(tests, result))
    });
    let left = left.map(|left| format!(", {} left", time(left)));
    let mut parts = [Some(count), percent, left, work, worst];
    let line = |parts: &[Option<String>]| parts.iter().flatten().cloned().collect::<String>();
    for least in [4, 1, 3, 2] {
        if line(&parts).chars().count() > width {
            parts[least] = None;
        }
    }
    line(&parts)
}

/// Returns a time in at most two units: `45 s`, `12 min 5 s`, `2 h 48 min`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

/// The line on a terminal, which it never waits for. Dropping it erases the line.
#[derive(Debug)]
pub struct ProgressLine<W: Write + AsFd = Stderr> {
    out: W,
    is_enabled: bool,
    drawn: Option<Instant>,
}

impl<W: Write + AsFd> ProgressLine<W> {
    /// Returns a line that is drawn if `out` is a terminal and `is_wanted`.
    pub fn new(out: W, is_wanted: bool) -> Self
    where
        W: IsTerminal,
    {
        Self {
            is_enabled: is_wanted && out.is_terminal(),
            out,
            drawn: None,
        }
    }

    /// Draws what `line` returns for the width of the terminal, if a second has passed since the
    /// last time.
    pub fn show(&mut self, line: impl FnOnce(usize) -> String) {
        let is_early = |drawn: Instant| drawn.elapsed() < INTERVAL;
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

/// Returns the columns of a terminal.
fn columns(out: &impl AsFd) -> usize {
    match tcgetwinsize(out) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => DEFAULT_COLUMNS,
    }
}

/// Returns whether a terminal takes text at once. One that was stopped with Ctrl-S does not, and
/// must not stop the survey.
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

    use super::super::testing::{result, roster, tests};
    use super::*;
    use cluster::survey::answer::PairResult;

    /// Returns both ends of a terminal.
    fn terminal() -> (File, File) {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let program = File::options()
            .read(true)
            .write(true)
            .open(OsStr::from_bytes(name.to_bytes()));
        (user.into(), program.unwrap())
    }

    #[track_caller]
    fn assert_drawn(user: &mut File, text: &str) {
        let mut bytes = vec![0; text.len()];
        user.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    #[test]
    fn draws_once_a_second_and_erases_at_the_end() {
        let (mut user, program) = terminal();
        let mut line = ProgressLine::new(program.try_clone().unwrap(), true);
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
        ProgressLine::new(program, false).show(|_| panic!("not wanted"));
        let file = tempfile::tempfile().unwrap();
        ProgressLine::new(file, true).show(|_| panic!("no terminal"));
    }

    #[test]
    fn does_not_wait_for_a_terminal_that_takes_nothing() {
        let (_user, mut program) = terminal();
        while takes_text(&program) {
            program.write_all(b"x").unwrap();
        }
        ProgressLine::new(program, true).show(|_| panic!("waits"));
    }

    fn progress(phase: Phase, suspects: u64, worst: Option<PairResult>) -> Progress {
        Progress {
            phase,
            planned: 2_016,
            answered: 1_340,
            untested: 0,
            suspects,
            retested: 12,
            worst,
        }
    }

    fn line_of(progress: &Progress, seconds: u64, width: usize) -> String {
        let left = Some(Duration::from_secs(seconds));
        measuring(progress, left, &roster(), &tests(), width)
    }

    fn line(progress: &Progress, seconds: u64) -> String {
        line_of(progress, seconds, 79)
    }

    #[test]
    fn shows_progress_and_worst_pair() {
        let none = progress(Phase::Sweep, 0, None);
        let unknown = measuring(&none, None, &roster(), &tests(), 79);
        assert_eq!(unknown, "1,340 of 2,016 pairs (66 %)");
        assert_eq!(line(&none, 25), "1,340 of 2,016 pairs (66 %), 25 s left");
        let suspects = progress(Phase::Sweep, 2, None);
        assert_eq!(
            line(&suspects, 25),
            "1,340 of 2,016 pairs (66 %), 25 s left, 2 suspect"
        );
        let retest = progress(Phase::Retest, 2, None);
        assert_eq!(
            line(&retest, 25),
            "1,340 of 2,016 pairs (66 %), 25 s left, 2 suspect: 12 pairs again"
        );
        let mut roster = roster();
        roster.nodes[0].host = "n0".into();
        roster.nodes[1].host = "n1".into();
        let worst = progress(Phase::Sweep, 0, Some(result()));
        let line = measuring(&worst, None, &roster, &tests(), 79);
        assert_eq!(
            line,
            "1,340 of 2,016 pairs (66 %), worst n1 cxi1 to n0 cxi0: 3.90 us"
        );
    }

    #[test]
    fn leaves_out_what_does_not_fit() {
        let worst = progress(Phase::Swap, 2, Some(result()));
        for (width, expected) in [
            (20, "1,340 of 2,016 pairs"),
            (39, "1,340 of 2,016 pairs, 2 h 48 min left"),
            (
                79,
                "1,340 of 2,016 pairs (66 %), 2 h 48 min left, 2 suspect: 12 pairs again",
            ),
            (
                199,
                "1,340 of 2,016 pairs (66 %), 2 h 48 min left, 2 suspect: 12 pairs again, \
                 worst nid000417 cxi1 to nid000416 cxi0: 3.90 us",
            ),
        ] {
            assert_eq!(line_of(&worst, 10_080, width), expected, "{width}");
        }
    }

    /// A line that the terminal breaks would not be erased.
    #[test]
    fn line_fits_into_terminal() {
        let (mut user, program) = terminal();
        let mut size = tcgetwinsize(&program).unwrap();
        for (columns, width) in [(0, 79), (10, 9), (200, 199)] {
            size.ws_col = columns;
            tcsetwinsize(&program, size).unwrap();
            let mut line = ProgressLine::new(program.try_clone().unwrap(), true);
            line.show(|given| "x".repeat(given + 1));
            assert_drawn(&mut user, &format!("{}\x1b[K\r", "x".repeat(width)));
            drop(line);
            assert_drawn(&mut user, "\r\x1b[K");
        }
    }

    #[test]
    fn shows_times_in_two_units() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (725, "12 min 5 s"),
            (10_080, "2 h 48 min"),
        ] {
            assert_eq!(time(Duration::from_secs(seconds)), text);
        }
    }
}
