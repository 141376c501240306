//! Sharing a CPU: a thread that waits must not spin for the time slice that its peer needs.
//!
//! A long wait yields the CPU now and then. Alone on its CPU the thread continues at once. If it
//! continues late, other threads want the CPU; the thread then sleeps briefly between short rounds
//! of polls. A sleep is better than further yields: Linux counts a yield as a whole slice of use
//! (since 6.18), so that a thread that yields often waits for several slices of each other thread.

use std::thread;
use std::time::Duration;

use super::clock::Clock;

/// Polls between two readings of the clock, alone on a CPU. Few enough that a wait notices soon
/// that it is long, and so many that reading the clock costs a wait nothing.
const POLLS: u32 = 1 << 10;

/// Polls between two readings of the clock on a CPU that other threads want.
const POLLS_IF_CROWDED: u32 = 1 << 6;

/// Time without an event, in nanoseconds, after which a wait is long: longer than the waits that
/// are measured. Also the interval of yields.
const LONG: u64 = 100_000;

/// The same on a CPU that other threads want.
const LONG_IF_CROWDED: u64 = 20_000;

/// Time that another thread has used if a yield takes longer, in nanoseconds.
const TAKEN: u64 = 100_000;

/// Time after such a yield, in nanoseconds, during which the CPU counts as crowded.
const HOLD: u64 = 20_000_000;

/// The shortest sleep. The kernel adds its timer slack, 50 us by default.
const NAP: Duration = Duration::from_nanos(1);

/// Whether other threads want the CPU of the thread that waits.
#[derive(Clone, Copy, Debug)]
pub struct Crowding {
    /// Polls of the next round.
    polls: u32,
    /// When the thread last yielded.
    yielded: u64,
    /// When the CPU stops counting as crowded; 0 if it does not.
    until: u64,
}

impl Crowding {
    /// Returns the state of a thread that is alone on its CPU.
    pub fn none() -> Self {
        Self {
            polls: POLLS,
            yielded: 0,
            until: 0,
        }
    }

    /// Returns the number of polls between two calls of [`Self::rest`].
    #[inline(always)]
    pub fn polls(&self) -> u32 {
        self.polls
    }

    /// Gives other threads the CPU if the wait that began at `since` is long. `now` is the time.
    pub fn rest<C: Clock>(&mut self, clock: &C, since: u64, now: u64) {
        if self.until > now {
            if now - since >= LONG_IF_CROWDED {
                thread::sleep(NAP);
            }
            return;
        }
        (self.polls, self.until) = (POLLS, 0);
        if now - since >= LONG && now - self.yielded >= LONG {
            thread::yield_now();
            self.yielded = clock.now();
            if self.yielded - now >= TAKEN {
                (self.polls, self.until) = (POLLS_IF_CROWDED, self.yielded + HOLD);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Each reading takes this long.
    struct Slow(Cell<u64>, u64);

    impl Clock for Slow {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + self.1);
            self.0.get()
        }
    }

    #[test]
    fn yield_that_takes_long_shows_crowded_cpu() {
        for (reading, polls) in [(TAKEN, POLLS_IF_CROWDED), (TAKEN - 1, POLLS)] {
            let mut crowding = Crowding::none();
            let clock = Slow(Cell::new(LONG), reading);
            crowding.rest(&clock, 0, LONG);
            assert_eq!(crowding.polls(), polls);
        }
    }

    #[test]
    fn short_waits_do_not_yield() {
        let mut crowding = Crowding::none();
        let clock = Slow(Cell::new(LONG), TAKEN);
        crowding.rest(&clock, LONG, 2 * LONG - 1);
        assert_eq!(clock.0.get(), LONG, "the clock is read after a yield");
        assert_eq!(crowding.polls(), POLLS);
    }

    #[test]
    fn sleeps_on_crowded_cpu_until_it_yields_again() {
        let mut crowding = Crowding::none();
        let clock = Slow(Cell::new(LONG), TAKEN);
        crowding.rest(&clock, 0, LONG);
        let (crowded, read) = (crowding.until, clock.0.get());
        crowding.rest(&clock, 0, crowded - 1);
        assert_eq!(clock.0.get(), read, "a sleep is no yield");
        assert_eq!(crowding.polls(), POLLS_IF_CROWDED);
        // A short wait after that time.
        crowding.rest(&clock, crowded, crowded);
        assert_eq!(crowding.polls(), POLLS);
    }
}
