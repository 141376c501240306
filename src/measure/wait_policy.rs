//! Waiting for the NIC with a time limit (defect T14 of tools.md).

use std::time::Duration;

use super::clock::Clock;
use super::crowding::Crowding;
use facts::error::Failure;
use facts::{interrupt, limit};

/// Interval of checks of the control connection during a wait, in nanoseconds.
const LOOK: u64 = 1_000_000;

/// Time after which a wait looks for commands that the NIC has refused, in nanoseconds.
const REFUSED: u64 = 100_000_000;

/// Time after which the user is informed of a slow answer, in nanoseconds.
const NOTICE: u64 = limit::NOTICE.as_nanos() as u64;

/// Time limit of a wait, in nanoseconds: a little above the 31 s after which the retry
/// handler of current releases reports a put as undeliverable (libcxi.md 12.3).
const GIVE_UP: u64 = 40_000_000_000;

/// Checks the peer and reports during a wait.
pub trait Supervisor {
    /// Checks that the peer is still connected.
    ///
    /// # Errors
    ///
    /// A peer that has gone, and an interruption.
    fn peer_is_there(&self) -> Result<(), Failure>;

    /// Whether waits end now, before the limit of the tools. Called when the peer was checked.
    fn is_over(&self) -> bool {
        false
    }

    /// The failure of this side's NIC that ends a wait, if there is one: a command that it has
    /// refused. Called when the peer was checked, in waits of more than 100 ms.
    fn refusal(&self) -> Option<Failure> {
        None
    }

    /// Reports a wait of `waited` seconds, which ends after `limit` seconds.
    fn slow(&self, event: &str, waited: u64, limit: u64);

    /// The failure of a wait that has ended after this time.
    fn no_answer(&self, event: &str, waited: Duration) -> Failure;
}

/// Time limit for each byte, in nanoseconds: 50 MB/s, below any working link.
const PER_BYTE: u64 = 20;

/// Time limit and supervisor of the waits of a loop.
#[derive(Clone, Copy)]
pub struct WaitPolicy<'a> {
    supervisor: &'a dyn Supervisor,
    /// Additional time, in nanoseconds: for the data of an operation and the pause of the peer.
    allowance: u64,
    /// Pause of the peer before its operation, in nanoseconds.
    pause: u64,
    crowding: Crowding,
}

/// The times of a policy.
#[derive(Clone, Copy, Debug)]
pub struct WaitTimes {
    allowance: u64,
    pause: u64,
}

impl<'a> WaitPolicy<'a> {
    pub fn new(supervisor: &'a dyn Supervisor) -> Self {
        Self { supervisor, allowance: 0, pause: 0, crowding: Crowding::none() }
    }

    /// Adds time for operations that move `bytes` bytes before their event.
    pub fn for_bytes(self, bytes: u64) -> Self {
        self.allow(bytes.saturating_mul(PER_BYTE))
    }

    /// Adds time for a peer that pauses for `pause` nanoseconds before its operation.
    pub fn for_pause(self, pause: u64) -> Self {
        Self { pause, ..self }.allow(pause)
    }

    /// The times of the policy, for another thread.
    pub fn limits(&self) -> WaitTimes {
        WaitTimes { allowance: self.allowance, pause: self.pause }
    }

    /// Takes over the times of another policy.
    pub fn with_limits(self, limits: WaitTimes) -> Self {
        Self { allowance: limits.allowance, pause: limits.pause, ..self }
    }

    fn allow(self, more: u64) -> Self {
        Self { allowance: self.allowance.saturating_add(more), ..self }
    }

    /// Polls until there is an event. Returns the event and the time right after it was seen.
    /// `event` is its name for messages.
    #[inline(always)]
    pub fn wait<C: Clock, T>(
        &mut self,
        clock: &C,
        event: &str,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<(T, u64), Failure> {
        let seen = self.wait_untimed(clock, event, poll)?;
        Ok((seen, clock.now()))
    }

    /// Polls until there is an event, as [`Self::wait`] does, without reading the clock after it.
    ///
    /// # Errors
    ///
    /// No event in time, a peer that has gone, and an interruption.
    #[inline(always)]
    pub fn wait_untimed<C: Clock, T>(
        &mut self,
        clock: &C,
        event: &str,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Failure> {
        let mut watch = None;
        let mut polls = self.crowding.first_polls();
        loop {
            for _ in 0..polls {
                if let Some(seen) = poll() {
                    return Ok(seen);
                }
            }
            self.still_nothing(clock, event, &mut watch)?;
            polls = self.crowding.polls();
        }
    }

    /// A timer for a wait in which the caller polls.
    pub fn timer(self, event: &'static str) -> PollTimer<'a> {
        PollTimer { policy: self, event, misses: 0, watch: None }
    }

    /// The time limit of a wait for an operation of `bytes` bytes.
    pub fn longest(bytes: u64) -> Duration {
        Duration::from_nanos(GIVE_UP.saturating_add(bytes.saturating_mul(PER_BYTE)))
    }

    /// Checks that the peer is still connected.
    ///
    /// # Errors
    ///
    /// A peer that has gone, and an interruption.
    pub fn look_after_peer(&self) -> Result<(), Failure> {
        self.supervisor.peer_is_there()
    }

    /// Makes the checks of a wait after a round of empty polls. Returns whether it has checked the
    /// peer.
    #[cold]
    fn still_nothing<C: Clock>(
        &mut self,
        clock: &C,
        event: &str,
        watch: &mut Option<Watch>,
    ) -> Result<bool, Failure> {
        interrupt::check()?;
        let now = clock.now();
        let watch = watch.get_or_insert(Watch {
            since: now,
            looked: self.looked_before(now),
            noticed: false,
            is_over: false,
        });
        let looks = now.saturating_sub(watch.looked) >= LOOK;
        if looks {
            watch.looked = now;
            self.look_after_peer()?;
        }
        let waited = now.saturating_sub(watch.since);
        if looks
            && waited >= REFUSED
            && let Some(failure) = self.supervisor.refusal()
        {
            return Err(failure);
        }
        let give_up = in_effect(GIVE_UP).saturating_add(self.allowance);
        if watch.is_over {
            return Err(self.supervisor.no_answer(event, Duration::from_nanos(waited)));
        }
        if waited >= give_up || looks && self.supervisor.is_over() {
            watch.is_over = true;
            return Ok(looks);
        }
        if waited >= NOTICE.saturating_add(self.allowance) && !watch.noticed {
            watch.noticed = true;
            self.supervisor.slow(event, seconds(waited), seconds(give_up));
        }
        let expected = watch.since.saturating_add(self.pause);
        self.crowding.rest(clock, watch.since, expected, now);
        Ok(looks)
    }

    /// Returns when the peer counts as checked, for a wait that begins `now`: so that no check,
    /// which is a system call, coincides with the end of a known pause.
    fn looked_before(&self, now: u64) -> u64 {
        let first = (self.pause % LOOK + LOOK / 2) % LOOK;
        now.saturating_sub(LOOK - first)
    }
}

/// The limit in effect, in nanoseconds (see [`limit::in_effect`]).
fn in_effect(limit: u64) -> u64 {
    limit::in_effect(Duration::from_nanos(limit)).as_nanos() as u64
}

/// A wait in which the caller polls (see [`WaitPolicy::timer`]).
pub struct PollTimer<'a> {
    policy: WaitPolicy<'a>,
    event: &'static str,
    misses: u32,
    watch: Option<Watch>,
}

impl PollTimer<'_> {
    /// Restarts the wait after a poll that has found something.
    #[inline]
    pub fn hit(&mut self) {
        self.misses = 0;
        self.watch = None;
    }

    /// Counts an empty poll. Returns true once a millisecond, when the caller should check other
    /// things.
    ///
    /// # Errors
    ///
    /// The end of the time limit, a peer that has gone, and an interruption.
    #[inline]
    pub fn miss<C: Clock>(&mut self, clock: &C) -> Result<bool, Failure> {
        self.misses += 1;
        let crowding = self.policy.crowding;
        let polls = match self.watch {
            None => crowding.first_polls(),
            Some(_) => crowding.polls(),
        };
        if self.misses < polls {
            return Ok(false);
        }
        self.misses = 0;
        self.policy.still_nothing(clock, self.event, &mut self.watch)
    }
}

fn seconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000_000_000
}

/// The state of one long wait.
struct Watch {
    since: u64,
    looked: u64,
    noticed: bool,
    /// The wait ends after another round of polls: this thread may not have run for all of the time
    /// in which the NIC has answered.
    is_over: bool,
}

/// Supervisors for the tests of the loops.
#[cfg(any(test, feature = "testing"))]
pub mod double {
    use std::cell::Cell;

    use super::*;

    /// A supervisor with or without a peer, which counts its reports.
    pub struct Watching {
        /// Whether there is a peer.
        pub peer: bool,
        /// Number of reports.
        pub notices: Cell<u32>,
    }

    impl Watching {
        /// A supervisor with or without a peer.
        pub fn peer(peer: bool) -> Self {
            Self { peer, notices: Cell::new(0) }
        }
    }

    impl Supervisor for Watching {
        fn peer_is_there(&self) -> Result<(), Failure> {
            if self.peer { Ok(()) } else { Err(Failure::environment("lost")) }
        }

        fn slow(&self, _: &str, _: u64, _: u64) {
            self.notices.set(self.notices.get() + 1);
        }

        fn no_answer(&self, event: &str, waited: Duration) -> Failure {
            Failure::nic(format!("{event} {}", waited.as_secs()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::double::Watching;
    use super::*;

    /// Each reading takes 50 ms, so that 40 s pass in few polls.
    struct Fast(Cell<u64>);

    const READING: u64 = 50 * LOOK;

    impl Clock for Fast {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + READING);
            self.0.get()
        }
    }

    #[test]
    fn t14_reports_and_ends_wait_without_answer() {
        let clock = Fast(Cell::new(0));
        let supervisor = Watching::peer(true);
        let result = WaitPolicy::new(&supervisor).wait(&clock, "ACK", || None::<()>);
        assert_eq!(result.unwrap_err().message(), "ACK 40");
        assert_eq!(supervisor.notices.get(), 1);
    }

    /// The thread loses its CPU in the second round of polls; the NIC answers meanwhile.
    #[test]
    fn polls_again_after_end_of_limit() {
        let clock = Fast(Cell::new(0));
        let supervisor = Watching::peer(true);
        let mut polls = 0;
        let seen = WaitPolicy::new(&supervisor).wait_untimed(&clock, "ACK", || {
            polls += 1;
            if polls == 17_000 {
                clock.0.set(clock.0.get() + 2 * GIVE_UP);
            }
            (polls > 18_000).then_some(7)
        });
        assert_eq!(seen.unwrap(), 7);
    }

    #[test]
    fn waits_longer_for_bytes_and_pauses() {
        let clock = Fast(Cell::new(0));
        let supervisor = Watching::peer(true);
        let policy = WaitPolicy::new(&supervisor).for_bytes(50_000_000);
        let mut policy = policy.for_pause(9_000_000_000);
        let result = policy.wait_untimed(&clock, "ACK", || None::<()>);
        assert_eq!(result.unwrap_err().message(), "ACK 50");
    }

    #[test]
    fn t14_ends_wait_when_peer_is_lost() {
        let clock = Fast(Cell::new(0));
        let supervisor = Watching::peer(false);
        let result = WaitPolicy::new(&supervisor).wait(&clock, "ACK", || None::<()>);
        assert_eq!(result.unwrap_err().message(), "lost");
        assert!(clock.0.get() <= 10 * READING);
    }

    /// A check in the middle of the millisecond: half of one away from the end of the pause.
    #[test]
    fn checks_of_peer_keep_clear_of_expected_event() {
        let supervisor = Watching::peer(true);
        for (pause, first) in
            [(0, LOOK / 2), (LOOK, LOOK / 2), (3 * LOOK / 2, 0), (700, LOOK / 2 + 700)]
        {
            let policy = WaitPolicy::new(&supervisor).for_pause(pause);
            assert_eq!(policy.looked_before(5 * LOOK) + LOOK, 5 * LOOK + first, "{pause}");
        }
    }

    #[test]
    fn returns_event_after_long_wait() {
        let clock = Fast(Cell::new(0));
        let supervisor = Watching::peer(true);
        let mut polls = 10_000;
        let seen = WaitPolicy::new(&supervisor).wait(&clock, "ACK", || {
            polls -= 1;
            (polls == 0).then_some(7)
        });
        assert_eq!(seen.unwrap().0, 7);
    }
}
