//! Waits for answers of the NIC that take microseconds.

use facts::error::Failure;
use measure::{Clock, MonotonicRaw};

/// How long the NIC may take to answer, in nanoseconds.
const LIMIT: u64 = 1_000_000_000;

/// Polls until there is an answer to `what`.
///
/// # Errors
///
/// No answer within a second.
pub fn answer<T>(what: &str, poll: impl FnMut() -> Option<T>) -> Result<T, Failure> {
    answer_by(&MonotonicRaw, poll)
        .ok_or_else(|| Failure::nic(format!("{what}: the NIC did not answer within a second")))
}

/// Polls until there is an answer or the limit has passed. The last poll begins after the limit:
/// this thread may not have run for all of the time in which the NIC has answered.
fn answer_by<T>(clock: &impl Clock, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let start = clock.now();
    loop {
        let is_late = clock.now() - start > LIMIT;
        let answer = poll();
        if answer.is_some() || is_late {
            return answer;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Set(Cell<u64>);

    impl Clock for Set {
        fn now(&self) -> u64 {
            self.0.get()
        }
    }

    #[test]
    fn finds_answer_that_came_while_thread_did_not_run() {
        let clock = Set(Cell::new(7));
        let mut polls = 0;
        let poll = || {
            polls += 1;
            // The thread loses its CPU after the first poll.
            clock.0.set(7 + 3 * LIMIT);
            (polls == 2).then_some("linked")
        };
        assert_eq!(answer_by(&clock, poll), Some("linked"));
    }

    #[test]
    fn ends_after_limit_without_answer() {
        let clock = Set(Cell::new(7));
        let mut polls = 0;
        let poll = || {
            polls += 1;
            clock.0.set(clock.0.get() + LIMIT / 4);
            None::<()>
        };
        assert_eq!(answer_by(&clock, poll), None);
        assert_eq!(polls, 6);
    }
}
