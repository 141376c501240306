//! When a NIC does what in a slot under load, on the clock of this process.

use std::time::{Duration, Instant};

use super::window::Window;
use campaign::timetable::SlotTimes;

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
    /// Returns the parts of a slot that begins at this instant.
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

    /// Returns the window of other NICs. The last answer may take until the end of the slot.
    pub fn other_window(&self) -> Window {
        Window { ready: self.count, ends: self.end }
    }
}
