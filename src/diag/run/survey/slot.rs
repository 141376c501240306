//! One slot of the timetable, for one NIC: its instants take the place of the control connection.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use super::super::barriers::Barriers;
use crate::session::Look;
use cluster::survey::untested::Untested;
use facts::error::{Failure, Kind};
use facts::interrupt;
use facts::number::time_text;
use measure::{SideResult, SideView, Supervisor};
use plan::run_options::Side;

/// The part of a slot before its operations, and after them: for set-up and release.
const MARGIN: u32 = 8;

/// Longest sleep before the next check for an interruption.
const SLICE: Duration = Duration::from_millis(20);

/// Interval of checks above which the process has not run meanwhile. They are a millisecond apart.
const GAP: Duration = Duration::from_millis(5);

/// The part of a slot without the CPU above which its end says nothing about the peer.
const STALLED: u32 = 4;

/// The instants of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When operations begin.
    pub ready: Instant,
    /// When all waits for operations end.
    pub ends: Instant,
}

impl Times {
    /// Returns the instants of a slot of this `length`. The set-up may begin before it.
    pub fn new(begins: Instant, length: Duration) -> Self {
        let margin = length / MARGIN;
        Self {
            ready: begins + margin,
            ends: begins + (length - margin),
        }
    }

    /// Returns the time for operations.
    fn window(&self) -> Duration {
        self.ends - self.ready
    }
}

/// Returns the length of a slot whose operations may take five times as long as a pair is measured, the
/// time `pair`.
pub fn longest(pair: Duration) -> Duration {
    with_window(longest_window(pair))
}

fn longest_window(pair: Duration) -> Duration {
    pair + 2 * most_beyond(pair)
}

/// Returns the time beyond the measurement of a pair from which slots are the longest.
pub fn most_beyond(pair: Duration) -> Duration {
    2 * pair
}

/// Returns the length of a slot in which a pair is measured for the time `pair`, if sides have needed the
/// time `beyond` for the rest: twice that, at least half of `pair`, is left for it among the operations.
/// The target of a two-sided tool uses the margins alone, of this slot and the next one: they are as long
/// together.
pub fn sufficient(pair: Duration, beyond: Duration) -> Duration {
    let window = pair + (2 * beyond).max(pair / 2);
    let margins = beyond * (MARGIN / 2);
    with_window(window).max(margins).min(longest(pair))
}

/// Returns the length of a slot with this time for operations.
fn with_window(window: Duration) -> Duration {
    window * MARGIN / (MARGIN - 2)
}

/// A side in its slot. It supervises the waits of this side, and has no connection to the peer: a
/// barrier does not wait for it.
#[derive(Debug)]
pub struct Slot {
    times: Times,
    side: Side,
    /// When this side last checked the time in a wait.
    looked: Cell<Instant>,
    /// How long the process did not run during waits.
    stalled: Cell<Duration>,
    /// How long the operation without an answer was under way, if there is one.
    waited: Cell<Option<Duration>>,
    /// How long this side has worked beyond the time in which a pair is measured.
    beyond: Cell<Duration>,
}

impl Slot {
    /// Creates the slot for `side`.
    pub fn new(times: Times, side: Side) -> Self {
        Self {
            times,
            side,
            looked: Cell::new(Instant::now()),
            stalled: Cell::new(Duration::ZERO),
            waited: Cell::new(None),
            beyond: Cell::new(Duration::ZERO),
        }
    }

    /// Does `work` that is not part of the time `measured` in which a pair is measured, apart from that.
    pub fn beyond<T>(&self, measured: Duration, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        self.add_beyond(begun.elapsed().saturating_sub(measured));
        result
    }

    fn add_beyond(&self, time: Duration) {
        self.beyond.set(self.beyond.get() + time);
    }

    /// Returns how long this side has worked beyond the time in which a pair is measured, or has slept
    /// into it.
    pub fn needed_beyond(&self) -> Duration {
        self.beyond.get()
    }

    /// Checks that the slot is not over.
    ///
    /// # Errors
    ///
    /// A slot that is over, and an interruption.
    pub fn check(&self) -> Result<(), Failure> {
        interrupt::check()?;
        self.check_time(Duration::ZERO)
    }

    /// Waits until operations begin; they take the time `pair`.
    ///
    /// # Errors
    ///
    /// A slot whose rest is too short, and an interruption.
    pub fn begin(&self, pair: Duration) -> Result<(), Failure> {
        let sleeps = !self.is_late();
        sleep_until(self.times.ready)?;
        let now = Instant::now();
        if sleeps {
            self.add_beyond(now - self.times.ready);
        }
        self.looked.set(now);
        self.check_time(pair)
    }

    /// Returns whether operations have begun.
    pub fn is_late(&self) -> bool {
        Instant::now() >= self.times.ready
    }

    /// Waits for this time.
    ///
    /// # Errors
    ///
    /// An interruption.
    pub fn pause(&self, time: Duration) -> Result<(), Failure> {
        sleep_until(Instant::now() + time)
    }

    /// Waits until all waits for operations have ended.
    ///
    /// # Errors
    ///
    /// An interruption.
    pub fn wait_for_end(&self) -> Result<(), Failure> {
        sleep_until(self.times.ends)
    }

    /// Returns how long the process did not run during its waits, if that explains why the slot ended
    /// before the measurement. It does not explain why an operation was under way for long.
    pub fn stalled(&self) -> Option<Duration> {
        let (stalled, window) = (self.stalled.get(), self.times.window());
        let explains =
            stalled >= window / STALLED && self.waited.get().unwrap_or_default() < window / 2;
        explains.then_some(stalled)
    }

    /// Returns whether an operation had no answer that it may have in the longest slot. A pair is
    /// measured for the time `pair`.
    pub fn is_too_short(&self, pair: Duration) -> bool {
        self.waited.get().is_some() && self.times.window() < longest_window(pair)
    }

    fn check_time(&self, needed: Duration) -> Result<(), Failure> {
        if Instant::now() + needed <= self.times.ends {
            return Ok(());
        }
        Err(untested(Untested::Late))
    }
}

/// Returns the failure of a process that cannot measure a pair, for this reason.
pub fn untested(reason: Untested) -> Failure {
    Failure::new(Kind::Environment, reason)
}

/// Returns a time in whole milliseconds, as text.
pub fn milliseconds(time: Duration) -> String {
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

impl Supervisor for Slot {
    fn peer_is_there(&self) -> Result<(), Failure> {
        let now = Instant::now();
        let gap = now - self.looked.replace(now);
        if gap > GAP {
            self.stalled.set(self.stalled.get() + gap);
        }
        interrupt::check()
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.times.ends
    }

    /// The result of the pair shows it.
    fn slow(&self, _: &str, _: u64, _: u64) {}

    fn no_answer(&self, operation: &str, waited: Duration) -> Failure {
        self.waited.set(Some(waited));
        let window = milliseconds(self.times.window());
        Failure::nic(format!("no answer to a {operation} within {window}"))
    }
}

impl Barriers for Slot {
    /// Returns at once, except for a target that has answered the last message: the answer may still
    /// be on its way. It waits for the end of the slot.
    fn barrier_while(&self, _: &str, _: Duration, look: &mut Look<'_>) -> Result<(), Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot that began this long ago.
    fn slot(age_ms: u64) -> Slot {
        let begins = Instant::now().checked_sub(Duration::from_millis(age_ms));
        Slot::new(
            Times::new(begins.unwrap(), Duration::from_secs(80)),
            Side::Client,
        )
    }

    #[test]
    fn length_of_slot_follows_from_needs() {
        let milliseconds = Duration::from_millis;
        let pair = milliseconds(30);
        let now = Instant::now();
        let times = Times::new(now, longest(pair));
        assert_eq!(times.ready - now, milliseconds(25));
        assert_eq!(times.window(), 5 * pair);
        for (beyond, length) in [(0, 60), (7, 60), (15, 80), (60, 200), (900, 200)] {
            assert_eq!(sufficient(pair, milliseconds(beyond)), milliseconds(length));
        }
    }

    #[test]
    fn two_margins_suffice_for_a_target() {
        let (pair, beyond) = (Duration::from_millis(10), Duration::from_millis(15));
        let length = sufficient(pair, beyond);
        let now = Instant::now();
        let [one, next] = [now, now + length].map(|begins| Times::new(begins, length));
        assert_eq!(next.ready - one.ends, beyond);
    }

    #[test]
    fn adds_work_beyond_measurement() {
        let slot = slot(0);
        let work = |time_ms| move || thread::sleep(Duration::from_millis(time_ms));
        slot.beyond(Duration::from_secs(60), work(0));
        assert_eq!(slot.needed_beyond(), Duration::ZERO);
        slot.beyond(Duration::ZERO, work(1));
        let first = slot.needed_beyond();
        slot.beyond(Duration::from_millis(1), work(2));
        assert!(first >= Duration::from_millis(1));
        assert!(slot.needed_beyond() >= first + Duration::from_millis(1));
    }

    #[test]
    fn late_side_does_not_begin() {
        let pair = Duration::from_secs(1);
        assert!(slot(60_000).begin(pair).is_ok());
        let failure = slot(69_500).begin(pair).unwrap_err();
        assert_eq!(failure.kind, Kind::Environment);
        assert_eq!(Untested::from(&failure), Untested::Late);
        assert!(slot(40_000).check().is_ok());
        assert!(slot(70_001).check().is_err());
    }

    #[test]
    fn pause_of_process_explains_only_short_waits() {
        let begun = |waited_s| {
            let slot = slot(30_000);
            slot.looked.set(slot.times.ready);
            slot.peer_is_there().unwrap();
            let failure = slot.no_answer("write", Duration::from_secs(waited_s));
            assert_eq!(failure.message(), "no answer to a write within 1m");
            slot.stalled()
        };
        assert!(begun(29).is_some());
        assert_eq!(begun(30), None);
        assert_eq!(slot(20_000).stalled(), None);
    }

    #[test]
    fn short_slot_does_not_decide_that_an_answer_is_missing() {
        let pair = Duration::from_millis(30);
        let is_too_short = |length| {
            let slot = Slot::new(Times::new(Instant::now(), length), Side::Client);
            assert!(!slot.is_too_short(pair));
            slot.no_answer("write", Duration::from_millis(1));
            slot.is_too_short(pair)
        };
        assert!(is_too_short(sufficient(pair, Duration::ZERO)));
        assert!(!is_too_short(longest(pair)));
    }

    #[test]
    fn late_start_is_needed_time() {
        let ready = Instant::now() + Duration::from_millis(20);
        let ends = ready + Duration::from_secs(60);
        let slot = Slot::new(Times { ready, ends }, Side::Client);
        slot.begin(Duration::ZERO).unwrap();
        assert!(slot.needed_beyond() > Duration::ZERO);
    }

    #[test]
    fn waits_end_with_the_slot() {
        assert!(!slot(40_000).is_over() && !slot(40_000).peer_waits());
        assert!(slot(70_001).is_over() && slot(70_001).peer_waits());
    }
}
