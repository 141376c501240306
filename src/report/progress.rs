//! Progress on a terminal: one line on standard error, drawn by its own thread.
//!
//! The measuring loops only set a [`Gauge`], which is atomic. Messages go to the thread before and
//! after a size, never while it is measured.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select, tick};

use measure::Gauge;
use page::progress_line::ProgressLine;
use plan::depths::Row;
use plan::run_options::RunOptions;

/// Time between two drawings.
const INTERVAL: Duration = Duration::from_millis(500);

/// The size that is being measured.
pub struct Current {
    /// What is measured.
    pub row: Row,
    /// The number of this size, counted from 1, and the number of all sizes.
    pub place: (usize, usize),
    /// Set by the measuring loop.
    pub gauge: Arc<Gauge>,
    /// When the size was begun.
    pub started: Instant,
}

/// A message to the thread.
enum ProgressMessage {
    /// Draw this size.
    Show(Current),
    /// Draw nothing.
    Hide,
}

/// The line and its thread. Dropping this value erases the line and ends the thread.
pub struct ProgressDisplay {
    /// Without capacity: a message is received when `send` returns. `None` ends the thread.
    messages: Option<Sender<ProgressMessage>>,
    line: Arc<Mutex<ProgressLine>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressDisplay {
    /// Starts to draw the progress of a run with these options. Returns `None` if standard error is
    /// not a terminal, or if no thread can be started.
    pub fn start(run: RunOptions) -> Option<Self> {
        let line = ProgressLine::new(io::stderr(), true, INTERVAL);
        if !line.is_enabled() {
            return None;
        }
        let line = Arc::new(Mutex::new(line));
        let thread_line = Arc::clone(&line);
        let (messages, received) = bounded(0);
        let thread = thread::Builder::new()
            .name("progress".into())
            .spawn(move || draw(&received, &run, &thread_line))
            .ok()?;
        Some(Self { messages: Some(messages), line, thread: Some(thread) })
    }

    /// Shows this size.
    pub fn show(&mut self, current: Current) {
        self.send(ProgressMessage::Show(current));
    }

    /// Erases the line, which stays away until the next [`Self::show`].
    pub fn hide(&mut self) {
        // The thread draws nothing after it has received this message.
        self.send(ProgressMessage::Hide);
        locked(&self.line).hide();
    }

    fn send(&self, message: ProgressMessage) {
        if let Some(messages) = &self.messages {
            // Fails only if the thread has panicked; the run does without progress then.
            let _ = messages.send(message);
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.hide();
        drop(self.messages.take());
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}

fn locked(line: &Mutex<ProgressLine>) -> MutexGuard<'_, ProgressLine> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

fn draw(messages: &Receiver<ProgressMessage>, run: &RunOptions, to: &Mutex<ProgressLine>) {
    let ticks = tick(INTERVAL);
    let mut shown = None;
    loop {
        select! {
            recv(messages) -> message => match message {
                Ok(ProgressMessage::Show(current)) => shown = Some(current),
                Ok(ProgressMessage::Hide) => shown = None,
                Err(_) => return,
            },
            recv(ticks) -> _ => if let Some(current) = &shown {
                locked(to).show(|_| line(run, current, current.started.elapsed()));
            },
        }
    }
}

/// Returns the line `elapsed` after the begin of the size.
fn line(run: &RunOptions, current: &Current, elapsed: Duration) -> String {
    let (count, sum) = current.gauge.get();
    let (at, total) = current.place;
    let place = match total {
        1 => String::new(),
        _ => format!(" ({at} of {total})"),
    };
    let elapsed = elapsed.as_secs_f64();
    let share = match run.duration() {
        Some(time) => elapsed / time.as_secs_f64(),
        None => count as f64 / operations(run) as f64,
    }
    .min(1.0);
    let is_endless = run.extensions.until_stopped;
    let mut line = if is_endless {
        format!("{}: {elapsed:.0} s", current.row)
    } else {
        format!("{}{place}: {:.0} %", current.row, share * 100.0)
    };
    if share > 0.0 && !is_endless {
        line += &format!(", {:.0} s left", elapsed / share - elapsed);
    }
    if count > 0 {
        line += &match run.lists {
            Some(_) => {
                let bytes = count as f64 * current.row.size as f64;
                format!(", mean {:.2} MB/s", bytes / elapsed / 1e6)
            }
            None => format!(", mean {:.2} us", sum as f64 / count as f64 / 1e3),
        };
    }
    line
}

/// Returns the number of operations per size of a run that is not limited by a duration.
fn operations(run: &RunOptions) -> u64 {
    let list = run.lists.map_or(1, |lists| lists.list_size.into());
    run.iters.saturating_mul(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::tools::TOOLS;

    fn shown(run: &RunOptions, place: (usize, usize), count: u64, sum: u64, ms: u64) -> String {
        let gauge = Arc::new(Gauge::default());
        gauge.set(count, sum);
        let row = Row { size: 64, ..Row::default() };
        let current = Current { row, place, gauge, started: Instant::now() };
        line(run, &current, Duration::from_millis(ms))
    }

    #[test]
    fn shows_share_of_iterations() {
        let run = RunOptions { iters: 1_000, ..TOOLS[0].defaults };
        assert_eq!(shown(&run, (1, 1), 0, 0, 500), "64 bytes: 0 %");
        assert_eq!(
            shown(&run, (4, 11), 250, 500_000, 2_000),
            "64 bytes (4 of 11): 25 %, 6 s left, mean 2.00 us"
        );
    }

    #[test]
    fn shows_share_of_duration() {
        let run = RunOptions { duration_s: Some(10), ..TOOLS[0].defaults };
        let text = shown(&run, (1, 1), 3, 6_030, 4_000);
        assert_eq!(text, "64 bytes: 40 %, 6 s left, mean 2.01 us");
        // The last operation ends after the time is up.
        let text = shown(&run, (1, 1), 3, 6_030, 10_100);
        assert_eq!(text, "64 bytes: 100 %, 0 s left, mean 2.01 us");
    }

    #[test]
    fn shows_bandwidth_of_lists() {
        let tool = TOOLS.iter().find(|tool| tool.name == "send-bw").unwrap();
        let run = RunOptions { iters: 1_000, ..tool.defaults };
        let text = shown(&run, (1, 1), 128_000, 0, 1_000);
        assert_eq!(text, "64 bytes: 50 %, 1 s left, mean 8.19 MB/s");
    }
}
