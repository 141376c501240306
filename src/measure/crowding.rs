//! Sharing a CPU: a thread that waits must not spin for the time slice that its peer needs. Whether
//! threads had their CPUs to themselves, as the scheduler of Linux counts it.
//!
//! A long wait yields the CPU at intervals, but not near the time at which its event is expected.
//! Alone on its CPU the thread continues at once. If it continues late twice in a row, other
//! threads need the CPU; the thread then sleeps briefly between short rounds of polls. A sleep is
//! better than further yields: each seems to cost the thread a whole time slice (Linux 6.18).

use std::time::Duration;
use std::{fs, io, thread};

use super::clock::Clock;

/// Polls before the first reading of the clock, alone on a CPU: on hardware about 18 us, so that
/// the waits that are measured end before it.
const FIRST_POLLS: u32 = 1 << 14;

/// Polls between two readings of the clock after that.
const POLLS: u32 = 1 << 10;

/// Polls between two readings of the clock on a CPU that other threads need.
const POLLS_IF_CROWDED: u32 = 1 << 6;

/// Time without an event, in nanoseconds, after which a wait is long: longer than the waits that
/// are measured. Also the interval of yields.
const LONG: u64 = 100_000;

/// `LONG` on a CPU that other threads need, in nanoseconds.
const LONG_IF_CROWDED: u64 = 20_000;

/// Time that another thread has used if a yield takes longer, in nanoseconds.
const TAKEN: u64 = 100_000;

/// Time after such a yield, in nanoseconds, during which the CPU counts as crowded.
const HOLD: u64 = 20_000_000;

/// The shortest sleep. The kernel adds its timer slack, 50 us by default.
const NAP: Duration = Duration::from_nanos(1);

/// Whether other threads need the CPU of the thread that waits.
#[derive(Clone, Copy, Debug)]
pub struct Crowding {
    /// Whether the last yield took long.
    was_late: bool,
    /// When the thread last yielded.
    yielded: u64,
    /// When the CPU stops counting as crowded; 0 if it does not.
    until: u64,
}

impl Crowding {
    /// The state of a thread that is alone on its CPU.
    pub fn none() -> Self {
        Self { was_late: false, yielded: 0, until: 0 }
    }

    /// The number of polls before the first call of [`Self::rest`] in a wait.
    #[inline(always)]
    pub fn first_polls(&self) -> u32 {
        if self.until == 0 { FIRST_POLLS } else { POLLS_IF_CROWDED }
    }

    /// The number of polls between two calls of [`Self::rest`].
    #[inline(always)]
    pub fn polls(&self) -> u32 {
        if self.until == 0 { POLLS } else { POLLS_IF_CROWDED }
    }

    /// Gives other threads the CPU if the wait that began at `since` is long, and its event is not
    /// `expected` soon. `now` is the time.
    pub fn rest<C: Clock>(&mut self, clock: &C, since: u64, expected: u64, now: u64) {
        let waited = now.saturating_sub(since);
        if self.until > now {
            if waited >= LONG_IF_CROWDED {
                thread::sleep(NAP);
            }
            return;
        }
        self.until = 0;
        let is_due = now.saturating_sub(self.yielded) >= LONG;
        if waited >= LONG && is_due && now.abs_diff(expected) >= LONG {
            thread::yield_now();
            self.yielded = clock.now();
            let is_late = self.yielded.saturating_sub(now) >= TAKEN;
            if is_late && self.was_late {
                self.until = self.yielded + HOLD;
            }
            self.was_late = is_late;
        }
    }
}

/// Times of one or more threads since they started, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuShare {
    ran: u64,
    /// Ready to run, but waiting for a CPU.
    waited: u64,
    /// Number of times that they got a CPU.
    turns: u64,
}

impl CpuShare {
    /// The times of the calling thread. `None` if the kernel does not count them.
    pub fn from_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    /// The times of the main thread of a process. `None` if there is no such process, or if the
    /// kernel does not count them.
    pub fn from_process(id: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{id}/schedstat")).ok()?)
    }

    /// The sums over the threads of this process with this name. `None` if there is none, or if the
    /// kernel does not count the times.
    pub fn from_threads(name: &str) -> Option<Self> {
        let threads = fs::read_dir("/proc/self/task").ok()?;
        // A thread may end meanwhile.
        let share = |thread: io::Result<fs::DirEntry>| {
            let files = thread.ok()?.path();
            let is_named = fs::read_to_string(files.join("comm")).ok()?.trim_end() == name;
            let times = fs::read_to_string(files.join("schedstat")).ok()?;
            Self::parse(&times).filter(|_| is_named)
        };
        threads.filter_map(share).reduce(|sum, share| Self {
            ran: sum.ran + share.ran,
            waited: sum.waited + share.waited,
            turns: sum.turns + share.turns,
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut number = || numbers.next()?.ok();
        Some(Self { ran: number()?, waited: number()?, turns: number().unwrap_or_default() })
    }

    /// Returns how long the threads have run, together.
    pub fn ran(self) -> Duration {
        Duration::from_nanos(self.ran)
    }

    /// Returns how long the threads have waited for a CPU, together.
    pub fn waited(self) -> Duration {
        Duration::from_nanos(self.waited)
    }

    /// Returns how long the threads have waited for a CPU since `earlier`, together.
    pub fn waited_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.waited.saturating_sub(earlier.waited))
    }

    /// Returns how often the threads have got a CPU back since `earlier`, together.
    pub fn turns_since(self, earlier: Self) -> u64 {
        self.turns.saturating_sub(earlier.turns)
    }

    /// The part of its time since `earlier`, in percent, in which the thread was ready to run but
    /// waited for a CPU. `None` if it has not run since.
    pub fn waited_percent_since(self, earlier: Self) -> Option<f64> {
        let ran = self.ran.checked_sub(earlier.ran)?;
        let waited = self.waited.checked_sub(earlier.waited)?;
        (ran > 0).then(|| waited as f64 / (ran + waited) as f64 * 100.0)
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

    /// Rests in a wait that has begun at 0 and is long. Returns the time after it.
    fn rest(crowding: &mut Crowding, clock: &Slow, now: u64) -> u64 {
        clock.0.set(now);
        crowding.rest(clock, 0, 0, now);
        clock.0.get()
    }

    #[test]
    fn two_late_yields_in_a_row_show_crowded_cpu() {
        let crowds = |readings: &[u64]| {
            let mut crowding = Crowding::none();
            for (reading, at) in readings.iter().zip(1..) {
                rest(&mut crowding, &Slow(Cell::new(0), *reading), 10 * at * LONG);
            }
            crowding.polls() == POLLS_IF_CROWDED && crowding.first_polls() == POLLS_IF_CROWDED
        };
        assert!(crowds(&[TAKEN, TAKEN]));
        for others in [&[TAKEN][..], &[TAKEN - 1, TAKEN - 1], &[TAKEN, 1, TAKEN], &[1, TAKEN]] {
            assert!(!crowds(others), "{others:?}");
        }
    }

    #[test]
    fn short_waits_do_not_yield() {
        let mut crowding = Crowding::none();
        let clock = Slow(Cell::new(0), TAKEN);
        assert_eq!(rest(&mut crowding, &clock, LONG - 1), LONG - 1);
        assert_eq!(crowding.first_polls(), FIRST_POLLS);
    }

    #[test]
    fn waits_do_not_yield_about_the_expected_time() {
        let mut crowding = Crowding::none();
        let clock = Slow(Cell::new(0), 1);
        let expected = 10 * LONG;
        for (now, yields) in [
            (8 * LONG, true),
            (9 * LONG + 1, false),
            (expected, false),
            (11 * LONG - 1, false),
            (11 * LONG, true),
        ] {
            clock.0.set(now);
            crowding.rest(&clock, 0, expected, now);
            assert_eq!(clock.0.get() > now, yields, "{now}");
        }
    }

    #[test]
    fn crowded_cpu_is_forgotten_after_a_while() {
        let mut crowding = Crowding::none();
        let clock = Slow(Cell::new(0), TAKEN);
        rest(&mut crowding, &clock, LONG);
        let crowded = rest(&mut crowding, &clock, 10 * LONG);
        assert_eq!(rest(&mut crowding, &clock, crowded), crowded, "a sleep is no yield");
        assert_eq!(crowding.polls(), POLLS_IF_CROWDED);
        crowding.rest(&clock, crowded + HOLD, crowded + HOLD, crowded + HOLD);
        assert_eq!(crowding.polls(), POLLS);
    }

    #[test]
    fn returns_part_of_time_without_cpu() {
        let before = CpuShare::parse("1000 500 3\n").unwrap();
        let after = CpuShare::parse("4000 1500 9\n").unwrap();
        assert_eq!(after.waited_percent_since(before), Some(25.0));
        assert_eq!(after.turns_since(before), 6);
        assert_eq!(before.waited_percent_since(before), None);
        assert_eq!(before.waited_percent_since(after), None);
        assert_eq!(CpuShare::parse("1000\n"), None);
        assert_eq!(CpuShare::parse(""), None);
    }

    #[test]
    fn sums_times_of_threads_by_name() {
        if CpuShare::from_this_thread().is_none() {
            return;
        }
        let busy = || {
            while CpuShare::from_this_thread().unwrap().ran < 2_000_000 {}
            let sum = CpuShare::from_threads("two alike").unwrap();
            assert!(sum.ran >= 2_000_000 && sum.waited_since(sum).is_zero());
        };
        let named = || std::thread::Builder::new().name("two alike".into());
        let threads = [named().spawn(busy).unwrap(), named().spawn(busy).unwrap()];
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(CpuShare::from_threads("none has this name"), None);
    }

    #[test]
    fn reads_times_of_this_thread() {
        let Some(before) = CpuShare::from_this_thread() else {
            return;
        };
        let mut sum = 0_u64;
        let spent = loop {
            sum = std::hint::black_box(sum + 1);
            let now = CpuShare::from_this_thread().unwrap();
            if let Some(percent) = now.waited_percent_since(before) {
                break percent;
            }
        };
        assert!((0.0..=100.0).contains(&spent), "{spent}");
    }
}
