//! Progress on a terminal: one line on standard error, drawn by a thread of its own.
//!
//! The measuring loops know nothing of it: they set a [`Gauge`]. The lock is taken before and after a
//! size, never while it is measured.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::measure::Gauge;
use crate::run_options::RunOptions;

/// Time between two drawings, and before the first one.
const INTERVAL: Duration = Duration::from_millis(500);

/// Removes the line that the cursor is at the beginning of.
const ERASE: &str = "\x1b[K";

/// The size at hand.
pub struct Current {
    /// The size in bytes.
    pub size: u64,
    /// How many sizes were begun, this one counted, and how many there are.
    pub place: (usize, usize),
    /// What the measuring loop sets.
    pub gauge: Arc<Gauge>,
    /// When it was begun.
    pub started: Instant,
}

/// The line and its thread. The line goes away with this value.
pub struct Progress {
    shared: Arc<Mutex<Option<Current>>>,
    /// Closed to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Progress of a run with these options; nothing where standard error is no terminal, or no thread
    /// can be had.
    pub fn start(run: RunOptions) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let shared = Arc::new(Mutex::new(None));
        let (stop, stopped) = channel();
        let drawn = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("progress".into())
            .spawn(move || draw(&drawn, &stopped, &run))
            .ok()?;
        Some(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Shows this size from now on.
    pub fn show(&self, current: Current) {
        *lock(&self.shared) = Some(current);
    }

    /// Shows nothing, until something else is to be shown.
    pub fn hide(&self) {
        if lock(&self.shared).take().is_some() {
            let _ = write!(io::stderr(), "\r{ERASE}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// A thread that panicked in here would leave nothing half done.
fn lock(shared: &Mutex<Option<Current>>) -> MutexGuard<'_, Option<Current>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn draw(shared: &Mutex<Option<Current>>, stopped: &Receiver<()>, run: &RunOptions) {
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if let Some(current) = &*lock(shared) {
            let line = line(run, current, current.started.elapsed());
            // The cursor stays at the beginning, where other messages overwrite the line.
            let _ = write!(io::stderr(), "{line}{ERASE}\r");
        }
    }
}

/// The line after so much time.
fn line(run: &RunOptions, current: &Current, elapsed: Duration) -> String {
    let (count, sum) = current.gauge.get();
    let (at, of) = current.place;
    let place = match of {
        1 => String::new(),
        _ => format!(" ({at} of {of})"),
    };
    let elapsed = elapsed.as_secs_f64();
    let share = match run.duration_s {
        Some(seconds) => elapsed / f64::from(seconds),
        None => count as f64 / operations(run) as f64,
    }
    .min(1.0);
    let mut line = format!("{} bytes{place}: {:.0} %", current.size, share * 100.0);
    if share > 0.0 {
        line += &format!(", {:.0} s left", elapsed / share - elapsed);
    }
    if count > 0 {
        line += &match run.lists {
            Some(_) => {
                let bytes = count as f64 * current.size as f64;
                format!(", mean {:.2} MB/s", bytes / elapsed / 1e6)
            }
            None => format!(", mean {:.2} us", sum as f64 / count as f64 / 1e3),
        };
    }
    line
}

/// Operations of a size, in a run that is not limited by a duration.
fn operations(run: &RunOptions) -> u64 {
    let list = run.lists.map_or(1, |lists| lists.list_size.into());
    run.iters.saturating_mul(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::TOOLS;

    fn shown(run: &RunOptions, place: (usize, usize), count: u64, sum: u64, ms: u64) -> String {
        let gauge = Arc::new(Gauge::default());
        gauge.set(count, sum);
        let current = Current {
            size: 64,
            place,
            gauge,
            started: Instant::now(),
        };
        line(run, &current, Duration::from_millis(ms))
    }

    #[test]
    fn iterations() {
        let run = RunOptions {
            iters: 1_000,
            ..TOOLS[0].defaults
        };
        assert_eq!(shown(&run, (1, 1), 0, 0, 500), "64 bytes: 0 %");
        assert_eq!(
            shown(&run, (4, 11), 250, 500_000, 2_000),
            "64 bytes (4 of 11): 25 %, 6 s left, mean 2.00 us"
        );
    }

    #[test]
    fn a_duration() {
        let run = RunOptions {
            duration_s: Some(10),
            ..TOOLS[0].defaults
        };
        let text = shown(&run, (1, 1), 3, 6_030, 4_000);
        assert_eq!(text, "64 bytes: 40 %, 6 s left, mean 2.01 us");
        // The last operation ends after the time is up.
        let text = shown(&run, (1, 1), 3, 6_030, 10_100);
        assert_eq!(text, "64 bytes: 100 %, 0 s left, mean 2.01 us");
    }

    #[test]
    fn lists() {
        let tool = TOOLS.iter().find(|tool| tool.name == "send-bw").unwrap();
        let run = RunOptions {
            iters: 1_000,
            ..tool.defaults
        };
        let text = shown(&run, (1, 1), 128_000, 0, 1_000);
        assert_eq!(text, "64 bytes: 50 %, 1 s left, mean 8.19 MB/s");
    }
}
