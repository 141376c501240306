//! The progress of a survey: one line on a terminal, rewritten once a second.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::words;

/// Time between two drawings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Erases the line from the cursor on.
const ERASE: &str = "\x1b[K";

/// Most columns of the line: a longer one would be broken on an ordinary terminal, and then not be
/// erased.
const WIDTH: usize = 79;

/// How far a survey is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What happens if no pair is measured: `waiting for 3 of 512 processes`. Empty otherwise.
    pub phase: String,
    /// Rounds that are done.
    pub rounds: u64,
    /// Pairs that were measured or failed.
    pub answered: u64,
    /// Pairs that are to be measured.
    pub planned: u64,
    /// Time until the end of the survey; `None` if that is unknown.
    pub left: Option<Duration>,
    /// Pairs that are outside the limits.
    pub suspects: u64,
    /// The worst pair so far, with its figure: `nid000417 cxi1 to nid000003 cxi0: 3.90 us`.
    pub worst: Option<String>,
}

/// Returns the line. What does not fit into 79 columns is left out.
pub fn line(counts: &Counts) -> String {
    if !counts.phase.is_empty() {
        return counts.phase.chars().take(WIDTH).collect();
    }
    let planned = words::counted(counts.planned, "pair");
    let mut line = format!("{} of {planned}", words::grouped(counts.answered));
    let percent = counts
        .answered
        .saturating_mul(100)
        .checked_div(counts.planned);
    let parts = [
        percent.map(|percent| format!(" ({} %)", percent.min(100))),
        counts.left.map(|left| format!(", {} left", time(left))),
        (counts.suspects > 0).then(|| format!(", {} suspect", words::grouped(counts.suspects))),
        counts
            .worst
            .as_ref()
            .map(|worst| format!(", worst {worst}")),
        Some(format!(", round {}", words::grouped(counts.rounds + 1))),
    ];
    for part in parts.into_iter().flatten() {
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

/// The line on standard error. It never waits for the terminal. Dropping it erases the line.
#[derive(Debug)]
pub struct Progress {
    is_enabled: bool,
    drawn: Option<Instant>,
}

impl Progress {
    /// Returns a line that is drawn if standard error is a terminal and `is_wanted`.
    pub fn new(is_wanted: bool) -> Self {
        Self {
            is_enabled: is_wanted && io::stderr().is_terminal(),
            drawn: None,
        }
    }

    /// Draws the line if a second has passed since the last time.
    pub fn show(&mut self, counts: impl FnOnce() -> Counts) {
        let is_early = |drawn: Instant| drawn.elapsed() < INTERVAL;
        if self.is_enabled && !self.drawn.is_some_and(is_early) && takes_text() {
            // The cursor stays at the beginning, where other messages overwrite the line.
            let _ = write!(io::stderr(), "{}{ERASE}\r", line(&counts()));
            self.drawn = Some(Instant::now());
        }
    }

    /// Erases the line before another message.
    pub fn hide(&mut self) {
        if self.drawn.take().is_some() && takes_text() {
            let _ = write!(io::stderr(), "\r{ERASE}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}

/// Returns whether standard error takes text at once. A terminal that was stopped with Ctrl-S does not,
/// and must not stop the survey.
fn takes_text() -> bool {
    let stderr = io::stderr();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    let ready = poll(&mut polled, Some(&Timespec::default()));
    ready.is_ok() && polled[0].revents().contains(PollFlags::OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_is_done_and_what_is_worst() {
        let mut counts = Counts {
            answered: 1_340,
            planned: 2_016,
            ..Counts::default()
        };
        assert_eq!(line(&counts), "1,340 of 2,016 pairs (66 %), round 1");
        counts.rounds = 41;
        counts.left = Some(Duration::from_secs(25));
        assert_eq!(
            line(&counts),
            "1,340 of 2,016 pairs (66 %), 25 s left, round 42"
        );
        counts.suspects = 2;
        counts.worst = Some("nid417 cxi1 to nid3 cxi0: 3.90 us".into());
        assert_eq!(
            line(&counts),
            "1,340 of 2,016 pairs (66 %), 25 s left, 2 suspect, round 42"
        );
        counts.worst = Some("n417 cxi1 to n3 cxi0: 3.9 us".into());
        counts.suspects = 0;
        counts.rounds = 0;
        assert_eq!(
            line(&counts),
            "1,340 of 2,016 pairs (66 %), 25 s left, worst n417 cxi1 to n3 cxi0: 3.9 us"
        );
    }

    #[test]
    fn shows_phase_without_pairs() {
        let counts = Counts {
            phase: "waiting for 3 of 512 processes".into(),
            ..Counts::default()
        };
        assert_eq!(line(&counts), "waiting for 3 of 512 processes");
        assert_eq!(line(&Counts::default()), "0 of 0 pairs, round 1");
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
