//! The times in which the coordinator itself was stopped. Members may have answered in such a time,
//! or have waited for an answer.

use std::time::{Duration, Instant};

/// A longer gap between two turns of the coordinator means that the coordinator was stopped.
const ABSENCE: Duration = Duration::from_secs(2);

/// Detects whether the process of the coordinator was stopped.
#[derive(Debug)]
pub struct StallWatch {
    /// When it runs next at the latest, unless it is stopped or busy.
    expected: Instant,
    /// When it has continued after an absence.
    returned: Option<Instant>,
}

impl StallWatch {
    /// Begins at `now`.
    pub fn new(now: Instant) -> Self {
        Self { expected: now, returned: None }
    }

    /// Notes that the process sleeps until `wakes` at most.
    pub fn sleep(&mut self, wakes: Instant) {
        self.expected = wakes;
    }

    /// Notes that the process runs at `now`. Returns how long it was absent, if it was.
    pub fn note(&mut self, now: Instant) -> Option<Duration> {
        let absent = now.saturating_duration_since(self.expected);
        self.expected = now;
        let absent = Some(absent).filter(|&absent| absent >= ABSENCE);
        if absent.is_some() {
            self.returned = Some(now);
        }
        absent
    }

    /// Returns whether the process has returned from an absence less than `time` before `now`.
    pub fn has_returned_within(&self, time: Duration, now: Instant) -> bool {
        let returned = self.returned;
        returned.is_some_and(|returned| now.saturating_duration_since(returned) < time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_absence_beyond_expected_sleep() {
        let begin = Instant::now();
        let mut presence = StallWatch::new(begin);
        presence.sleep(begin + 10 * ABSENCE);
        assert_eq!(presence.note(begin + 10 * ABSENCE), None);
        let back = begin + 11 * ABSENCE;
        assert!(!presence.has_returned_within(ABSENCE, back));
        assert_eq!(presence.note(back), Some(ABSENCE));
        assert!(presence.has_returned_within(ABSENCE, back + ABSENCE / 2));
        assert!(!presence.has_returned_within(ABSENCE, back + ABSENCE));
        // A message ends the sleep early.
        presence.sleep(back + ABSENCE);
        assert_eq!(presence.note(back), None);
        assert_eq!(presence.note(back + ABSENCE), Some(ABSENCE));
    }
}
