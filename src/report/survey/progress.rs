//! The progress of a survey: one line on a terminal, rewritten once a second.

use std::io::{IsTerminal, Stderr, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::words;
use crate::survey::conductor::{Phase, Progress};
use crate::survey::roster::Roster;
use crate::survey::verdict::Test;

/// Time between two drawings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Erases the line from the cursor on.
const ERASE: &str = "\x1b[K";

/// Most columns of the line: a longer one would be broken on an ordinary terminal, and then not be
/// erased.
const WIDTH: usize = 79;

/// Returns the line of a survey whose processes start.
pub fn waiting(joined: u32, expected: u32) -> String {
    format!("{joined} of {expected} processes have started")
}

/// Returns the line of a survey that measures, and that ends in `left` if that is known. What does not
/// fit into 79 columns is left out.
pub fn measuring(
    progress: &Progress,
    left: Option<Duration>,
    roster: &Roster,
    tests: &[Test],
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
    let all = words::counted(planned, "pair");
    let percent = percent.map_or(String::new(), |percent| format!(" ({percent} %)"));
    let mut line = format!("{} of {all}{percent}", words::grouped(answered));
    let suspects = words::grouped(suspects);
    let work = match phase {
        Phase::Repeat => Some(", again those without an answer".into()),
        Phase::Retest | Phase::Swap => Some(format!(
            ", {suspects} suspect: {} again",
            words::counted(retested, "pair")
        )),
        Phase::Sweep | Phase::Over => {
            (progress.suspects > 0).then(|| format!(", {suspects} suspect"))
        }
    };
    let worst = progress.worst.as_ref().map(|result| {
        let pair = words::path(roster, result.pair.initiator, result.pair.target);
        format!(", worst {pair}: {}", words::answer(tests, result))
    });
    let left = left.map(|left| format!(", {} left", time(left)));
    for part in [left, work, worst].into_iter().flatten() {
        if line.chars().count() + part.chars().count() <= WIDTH {
            line += &part;
        }
    }
    line
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

    /// Draws what `line` returns if a second has passed since the last time.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        let is_early = |drawn: Instant| drawn.elapsed() < INTERVAL;
        if self.is_enabled && !self.drawn.is_some_and(is_early) && takes_text(&self.out) {
            // The cursor stays at the beginning, where other messages overwrite the line.
            let _ = write!(self.out, "{}{ERASE}\r", line());
            self.drawn = Some(Instant::now());
        }
    }

    /// Erases the line, so that another message can follow.
    pub fn hide(&mut self) {
        if self.drawn.take().is_some() && takes_text(&self.out) {
            let _ = write!(self.out, "\r{ERASE}");
        }
    }
}

impl<W: Write + AsFd> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        self.hide();
    }
}

/// Returns whether a terminal takes text at once. One that was stopped with Ctrl-S does not, and must
/// not stop the survey.
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

    use super::super::testing::{result, roster, tests};
    use super::*;
    use crate::survey::answer::PairResult;

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

    fn read(user: &mut File) -> String {
        let mut bytes = [0; 4096];
        let length = user.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn draws_once_a_second_and_erases_at_the_end() {
        let (mut user, program) = terminal();
        let mut line = ProgressLine::new(program.try_clone().unwrap(), true);
        line.show(|| "one".into());
        line.show(|| panic!("drawn too early"));
        assert_eq!(read(&mut user), "one\x1b[K\r");
        line.drawn = line.drawn.and_then(|at| at.checked_sub(INTERVAL));
        line.show(|| "two".into());
        assert_eq!(read(&mut user), "two\x1b[K\r");
        drop(line);
        assert_eq!(read(&mut user), "\r\x1b[K");
    }

    #[test]
    fn draws_only_on_a_terminal_and_if_wanted() {
        let (_user, program) = terminal();
        ProgressLine::new(program, false).show(|| panic!("not wanted"));
        let file = tempfile::tempfile().unwrap();
        ProgressLine::new(file, true).show(|| panic!("no terminal"));
    }

    #[test]
    fn does_not_wait_for_a_terminal_that_takes_nothing() {
        let (_user, mut program) = terminal();
        while takes_text(&program) {
            program.write_all(b"x").unwrap();
        }
        ProgressLine::new(program, true).show(|| panic!("waits"));
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

    fn line(progress: &Progress, seconds: u64) -> String {
        let left = Some(Duration::from_secs(seconds));
        measuring(progress, left, &roster(), &tests())
    }

    #[test]
    fn shows_what_is_done_and_what_is_worst() {
        let none = progress(Phase::Sweep, 0, None);
        let unknown = measuring(&none, None, &roster(), &tests());
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
        let line = measuring(&worst, None, &roster, &tests());
        assert_eq!(
            line,
            "1,340 of 2,016 pairs (66 %), worst n1 cxi1 to n0 cxi0: 3.90 us"
        );
    }

    /// A broken line would not be erased.
    #[test]
    fn leaves_out_what_does_not_fit() {
        let worst = progress(Phase::Swap, 2, Some(result()));
        let line = line(&worst, 10_080);
        assert_eq!(
            line,
            "1,340 of 2,016 pairs (66 %), 2 h 48 min left, 2 suspect: 12 pairs again"
        );
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
