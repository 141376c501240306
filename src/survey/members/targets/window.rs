//! The time window in which one side measures a pair: its instants take the place of the control
//! connection. The instants of a slot under load, on the clock of this process.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use campaign::quiet::answer::Untested;
use campaign::timetable::SlotTimes;
use diag::run::context::{Barriers, LoopContext};
use diag::run::watchdog::Notices;
use facts::error::Failure;
use facts::interrupt;
use facts::number::time_text;
use measure::{SideResult, SideView, Supervisor};
use plan::run_options::{RunOptions, Side};
use session::PeerCheck;

/// Longest sleep before the next check for an interruption.
const SLICE: Duration = Duration::from_millis(20);

/// A longer gap between checks means that the process was not running. Checks are a millisecond
/// apart.
const GAP: Duration = Duration::from_millis(5);

/// The process has stalled if it did not run for one of this many parts of the window: then the end
/// of the window says nothing about the peer.
const STALLED: u32 = 4;

/// The instants of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When operations begin.
    pub ready: Instant,
    /// When all waits for operations end.
    pub ends: Instant,
}

impl Window {
    /// The time for operations.
    pub fn length(&self) -> Duration {
        self.ends - self.ready
    }
}

/// The attempt of one side to measure a pair within a window. It supervises the waits of this side.
/// It has no connection to the peer, so a barrier does not wait for the peer.
#[derive(Debug)]
pub struct Attempt {
    window: Window,
    side: Side,
    /// When the last operation begins at the latest: before the end of the window, if its answer
    /// may take long.
    until: Instant,
    /// When this side last checked the time in a wait.
    looked: Cell<Instant>,
    /// How long the process did not run during waits.
    stalled: Cell<Duration>,
    /// How long the operation without an answer was under way, if there is one.
    waited: Cell<Option<Duration>>,
    /// How long this side has worked beyond the time in which a pair is measured.
    beyond: Cell<Duration>,
    /// How long this side has waited for its CPU, in percent of the time in which it measured.
    without_cpu: Cell<f64>,
}

impl Attempt {
    pub fn new(window: Window, side: Side) -> Self {
        Self {
            window,
            side,
            until: window.ends,
            looked: Cell::new(Instant::now()),
            stalled: Cell::new(Duration::ZERO),
            waited: Cell::new(None),
            beyond: Cell::new(Duration::ZERO),
            without_cpu: Cell::new(0.0),
        }
    }

    /// Creates the attempt of `side` whose last operation begins before `until`.
    pub fn until(until: Instant, window: Window, side: Side) -> Self {
        Self { until, ..Self::new(window, side) }
    }

    /// Returns what a benchmark needs in this attempt. Its barriers are the instants of the window.
    pub fn context<'a>(&'a self, run: &'a RunOptions) -> LoopContext<'a> {
        LoopContext {
            side: self.side,
            barriers: self,
            run,
            peer_is_cxidiag: true,
            supervisor: self,
            notices: Notices::default(),
            cpus: &[],
        }
    }

    /// Notes how long this side has waited for its CPU, in percent of the time in which it
    /// measured.
    pub fn note_waited(&self, percent: f64) {
        self.without_cpu.set(percent);
    }

    /// Returns how long this side has waited for its CPU, in percent of the time in which it
    /// measured.
    pub fn waited_percent(&self) -> u8 {
        self.without_cpu.get().clamp(0.0, 100.0) as u8
    }

    /// Runs `work`, and adds the time that it takes beyond `measured` to [`Self::needed_beyond`].
    pub fn beyond<T>(&self, measured: Duration, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        self.add_beyond(begun.elapsed().saturating_sub(measured));
        result
    }

    fn add_beyond(&self, time: Duration) {
        self.beyond.set(self.beyond.get() + time);
    }

    /// Returns how long this side has worked beyond the time in which a pair is measured, or has
    /// slept into it.
    pub fn needed_beyond(&self) -> Duration {
        self.beyond.get()
    }

    /// Checks that operations may still begin.
    ///
    /// # Errors
    ///
    /// A window that is over, and an interruption.
    pub fn check(&self) -> Result<(), Failure> {
        interrupt::check()?;
        self.check_time(Duration::ZERO)
    }

    /// Waits until operations begin; they take the time `shortest` or longer.
    ///
    /// # Errors
    ///
    /// A window whose rest is too short, and an interruption.
    pub fn begin(&self, shortest: Duration) -> Result<(), Failure> {
        let sleeps = !self.is_late();
        sleep_until(self.window.ready)?;
        let now = Instant::now();
        if sleeps {
            self.add_beyond(now - self.window.ready);
        }
        self.looked.set(now);
        self.check_time(shortest)
    }

    /// Whether operations have begun.
    pub fn is_late(&self) -> bool {
        Instant::now() >= self.window.ready
    }

    /// Waits for this time.
    pub fn pause(&self, time: Duration) -> Result<(), Failure> {
        sleep_until(Instant::now() + time)
    }

    /// Waits until no operation begins any more.
    pub fn wait_for_last(&self) -> Result<(), Failure> {
        sleep_until(self.until)
    }

    /// Waits until all waits for operations have ended.
    pub fn wait_for_end(&self) -> Result<(), Failure> {
        sleep_until(self.window.ends)
    }

    /// Returns how long the process did not run during its waits, if this explains why the window
    /// ended before the measurement. It does not explain why an operation was under way for long.
    pub fn stalled(&self) -> Option<Duration> {
        let stalled = self.stalled.get();
        let is_long = stalled >= self.window.length() / STALLED;
        (is_long && !self.has_waited_long()).then_some(stalled)
    }

    /// Whether an operation had no answer within the window.
    pub fn lacks_answer(&self) -> bool {
        self.waited.get().is_some()
    }

    /// Whether the operation without an answer was under way for half of the window. Otherwise its
    /// answer may only be late: earlier operations took the time.
    pub fn has_waited_long(&self) -> bool {
        self.waited.get().unwrap_or_default() >= self.window.length() / 2
    }

    /// Returns for how long operations may still begin.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    pub fn time_for_operations(&self) -> Duration {
        self.window.length()
    }

    fn check_time(&self, needed: Duration) -> Result<(), Failure> {
        if Instant::now() + needed <= self.until {
            return Ok(());
        }
        Err(Untested::Late.into())
    }
}

/// A time in whole milliseconds, as text.
fn milliseconds(time: Duration) -> String {
    time_text(Duration::from_millis(time.as_millis() as u64))
}

fn sleep_until(at: Instant) -> Result<(), Failure> {
    loop {
        interrupt::check()?;
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(SLICE));
    }
}

impl Supervisor for Attempt {
    fn peer_is_there(&self) -> Result<(), Failure> {
        let now = Instant::now();
        let gap = now - self.looked.replace(now);
        if gap > GAP {
            self.stalled.set(self.stalled.get() + gap);
        }
        interrupt::check()
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.window.ends
    }

    /// The result of the pair shows it.
    fn slow(&self, _: &str, _: u64, _: u64) {}

    fn no_answer(&self, operation: &str, waited: Duration) -> Failure {
        self.waited.set(Some(waited));
        let window = milliseconds(self.window.length());
        Failure::nic(format!("no answer to a {operation} within {window}"))
    }
}

impl Barriers for Attempt {
    /// Returns at once, except for a target that has answered the last message: the answer may
    /// still be on its way. It waits for the end of the window.
    fn barrier_while(&self, _: &str, _: Duration, look: &mut PeerCheck<'_>) -> Result<(), Failure> {
        if self.side == Side::Client {
            return Ok(());
        }
        while !self.is_over() {
            interrupt::check()?;
            look()?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn barrier(&self, _: &str, _: Duration) -> Result<(), Failure> {
        Ok(())
    }

    /// No result of the peer is known: it is empty.
    fn results(&self, _: SideResult) -> Result<SideResult, Failure> {
        Ok(SideResult::default())
    }

    /// No view of the peer is known: it is empty.
    fn views(&self, _: SideView) -> Result<SideView, Failure> {
        Ok(SideView::default())
    }

    fn peer_waits(&self) -> bool {
        self.is_over()
    }
}

/// The parts of one slot; see [`SlotTimes`].
#[derive(Clone, Copy, Debug)]
pub struct LoadTimes {
    /// Aggressors begin to send.
    pub start: Instant,
    /// Bytes count from here on; victims measure.
    pub count: Instant,
    /// Bytes count up to here; victims end.
    pub counted: Instant,
    /// Aggressors stop, and wait for answers.
    pub stop: Instant,
    /// All waits have ended.
    pub end: Instant,
}

impl LoadTimes {
    /// The parts of a slot that begins at this instant.
    pub fn new(begins: Instant, times: SlotTimes) -> Self {
        let at = |ns| begins + Duration::from_nanos(ns);
        Self {
            start: at(times.start_ns),
            count: at(times.count_ns),
            counted: at(times.counted_ns),
            stop: at(times.stop_ns),
            end: at(times.end_ns),
        }
    }

    /// Returns for how long bytes are counted.
    pub fn counted_time(&self) -> Duration {
        self.counted - self.count
    }

    pub fn aggressor_window(&self) -> Window {
        Window { ready: self.start, ends: self.end }
    }

    /// The window of other NICs. The last answer may take until the end of the slot.
    pub fn other_window(&self) -> Window {
        Window { ready: self.count, ends: self.end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::error::Kind;

    /// Returns an attempt that began this long ago, whose window begins 10 s later and has 60 s.
    fn attempt(age_ms: u64) -> Attempt {
        let begins = Instant::now().checked_sub(Duration::from_millis(age_ms));
        let ready = begins.unwrap() + Duration::from_secs(10);
        let ends = ready + Duration::from_secs(60);
        Attempt::new(Window { ready, ends }, Side::Client)
    }

    #[test]
    fn adds_work_beyond_measurement() {
        let attempt = attempt(0);
        let work = |time_ms| move || thread::sleep(Duration::from_millis(time_ms));
        attempt.beyond(Duration::from_secs(60), work(0));
        assert_eq!(attempt.needed_beyond(), Duration::ZERO);
        attempt.beyond(Duration::ZERO, work(1));
        let first = attempt.needed_beyond();
        attempt.beyond(Duration::from_millis(1), work(2));
        assert!(first >= Duration::from_millis(1));
        assert!(attempt.needed_beyond() >= first + Duration::from_millis(1));
    }

    #[test]
    fn late_side_does_not_begin() {
        let pair = Duration::from_secs(1);
        assert!(attempt(60_000).begin(pair).is_ok());
        let failure = attempt(69_500).begin(pair).unwrap_err();
        assert_eq!(failure.kind, Kind::Environment);
        assert_eq!(failure.error.downcast_ref(), Some(&Untested::Late));
        assert!(attempt(40_000).check().is_ok());
        assert!(attempt(70_001).check().is_err());
    }

    #[test]
    fn operations_begin_before_the_end_of_the_window() {
        let window = attempt(40_000).window;
        let ended = window.ends - Duration::from_secs(31);
        let attempt = Attempt::until(ended, window, Side::Client);
        assert!(attempt.check().is_err() && attempt.left().is_zero());
        assert!(!attempt.is_over());
    }

    #[test]
    fn pause_of_process_explains_only_short_waits() {
        let begun = |waited_s| {
            let attempt = attempt(30_000);
            attempt.looked.set(attempt.window.ready);
            attempt.peer_is_there().unwrap();
            let failure = attempt.no_answer("write", Duration::from_secs(waited_s));
            assert_eq!(failure.message(), "no answer to a write within 1m");
            attempt.stalled()
        };
        assert!(begun(29).is_some());
        assert_eq!(begun(30), None);
        assert_eq!(attempt(20_000).stalled(), None);
    }

    #[test]
    fn late_start_is_needed_time() {
        let ready = Instant::now() + Duration::from_millis(20);
        let ends = ready + Duration::from_secs(60);
        let attempt = Attempt::new(Window { ready, ends }, Side::Client);
        attempt.begin(Duration::ZERO).unwrap();
        assert!(attempt.needed_beyond() > Duration::ZERO);
    }

    #[test]
    fn waits_end_with_the_window() {
        assert!(!attempt(40_000).is_over() && !attempt(40_000).peer_waits());
        assert!(attempt(70_001).is_over() && attempt(70_001).peer_waits());
    }
}
