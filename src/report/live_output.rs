//! What is shown while a size is measured: rows of intervals, or a line of progress on standard
//! error, drawn by its own thread.
//!
//! The measuring loops only set a [`Gauge`], which is atomic. Messages go to the thread before and
//! after a size, never while it is measured.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select, tick};
use facts::error::Failure;
use measure::Gauge;
use page::progress_line::ProgressLine;
use page::stream::SharedOutput;
use plan::depths::Row;
use plan::run_options::RunOptions;
use plan::{Plan, Role};

use crate::columns::Layout;
use crate::sampler::{Sampled, Sampler};

/// Both threads. Dropping this value ends them.
#[derive(Default)]
pub struct LiveOutput {
    /// Prints the intervals of each size, if they are asked for.
    sampler: Option<Sampler>,
    progress: Option<ProgressDisplay>,
}

impl LiveOutput {
    /// Starts the line of progress of a run. A server has none, and the rows of intervals show the
    /// progress as well.
    pub fn start(plan: &Plan) -> Self {
        let outputs = &plan.outputs;
        let is_hidden =
            matches!(plan.role, Role::Server) || outputs.quiet || outputs.interval.is_some();
        Self {
            sampler: None,
            progress: if is_hidden { None } else { ProgressDisplay::start(plan.run) },
        }
    }

    /// Starts the rows of intervals of this length. Call it before this thread moves to its CPUs,
    /// which the other one would inherit.
    ///
    /// # Errors
    ///
    /// A thread that the system refuses.
    pub fn start_intervals(
        &mut self,
        layout: Layout,
        length: Duration,
        one_of_two: bool,
        out: SharedOutput,
    ) -> Result<(), Failure> {
        self.sampler = Some(Sampler::start(layout, length, one_of_two, out)?);
        Ok(())
    }

    /// Whether rows of intervals are printed.
    pub fn has_intervals(&self) -> bool {
        self.sampler.is_some()
    }

    /// Begins a size, whose number and the number of all sizes are `place`, and whose counters the
    /// measuring loop sets in `gauge`.
    pub fn begin(&mut self, row: Row, place: (usize, usize), gauge: &Arc<Gauge>) {
        if let Some(sampler) = &mut self.sampler {
            sampler.begin(row.size, gauge);
        }
        if let Some(progress) = &mut self.progress {
            let (gauge, started) = (Arc::clone(gauge), Instant::now());
            progress.show(Current { row, place, gauge, started });
        }
    }

    /// Ends the intervals of a size, in which this side has counted this number of operations.
    pub fn end_intervals(&mut self, count: u64) -> Sampled {
        let sampled = self.sampler.as_mut().and_then(|sampler| sampler.end(count));
        sampled.unwrap_or_default()
    }

    /// Erases the line of progress, because text follows.
    pub fn hide(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.hide();
        }
    }
}

/// Time between two drawings.
const INTERVAL: Duration = Duration::from_millis(500);

/// The size that is being measured.
struct Current {
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
struct ProgressDisplay {
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

/// The line `elapsed` after the begin of the size.
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

/// The number of operations per size of a run that is not limited by a duration.
fn operations(run: &RunOptions) -> u64 {
    let list = run.lists.map_or(1, |lists| lists.list_size.into());
    run.iters.saturating_mul(list)
}

#[cfg(test)]
mod tests {
    use plan::tools::TOOLS;

    use super::*;

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
