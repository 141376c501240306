//! When aggressors send and victims measure in a slot under load.
//!
//! Aggressors run from before the first operation of a victim until after its last one, so that
//! each counted moment is loaded (load.md 3.4).

/// The parts of a slot, in nanoseconds since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTimes {
    /// Aggressors begin to send.
    pub start_ns: u64,
    /// Bytes count from here on; victims measure.
    pub count_ns: u64,
    /// Bytes count up to here; victims end.
    pub counted_ns: u64,
    /// Aggressors stop, and wait for answers.
    pub stop_ns: u64,
    /// All that is left has been released.
    pub end_ns: u64,
}

impl SlotTimes {
    /// Returns the parts of a slot of this length: 30, 40, 130, 20 and 30 of 250 ms, or in these
    /// proportions.
    pub fn from_slot(slot_ns: u64) -> Self {
        let scaled = |ms: u64| slot_ns * ms / 250;
        Self {
            start_ns: scaled(30),
            count_ns: scaled(70),
            counted_ns: scaled(200),
            stop_ns: scaled(220),
            end_ns: slot_ns,
        }
    }

    /// Returns how long bytes are counted.
    pub fn counted(self) -> u64 {
        self.counted_ns - self.count_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_slot_are_those_of_the_table() {
        let times = SlotTimes::from_slot(250_000_000);
        assert_eq!(
            [times.start_ns, times.count_ns, times.counted_ns, times.stop_ns, times.end_ns],
            [30, 70, 200, 220, 250].map(|ms| ms * 1_000_000)
        );
        assert_eq!(times.counted(), 130_000_000);
    }
}
