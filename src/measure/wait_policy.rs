//! Waiting for the NIC: never without an end (defect T14 of tools.md).

use std::time::Duration;

use super::clock::Clock;
use crate::error::Failure;
use crate::{interrupt, limit};

/// Empty polls between two looks at the clock and the peer. So many take about a tenth of a
/// millisecond: seldom enough to cost the ordinary wait nothing.
const POLLS: u32 = 1 << 14;

/// How often the control connection is looked at while nothing arrives, in nanoseconds.
const LOOK: u64 = 1_000_000;

/// When the user is told that the NIC has not answered, in nanoseconds.
const NOTICE: u64 = 2_000_000_000;

/// When a wait is given up, in nanoseconds: a little above the 31 s after which the retry
/// handler of current releases reports a put as undeliverable (libcxi.md 12.3).
const GIVE_UP: u64 = 40_000_000_000;

/// Who is asked and told while a wait goes on.
pub trait Supervisor {
    /// The peer is still connected, or the run has failed.
    fn peer_is_there(&self) -> Result<(), Failure>;

    /// Nothing has come for `waited` seconds; the wait ends after `limit` seconds.
    fn slow(&self, event: &str, waited: u64, limit: u64);

    /// Nothing has come for `waited` seconds, and the run ends.
    fn no_answer(&self, event: &str, waited: u64) -> Failure;
}

/// Time that a byte may take, in nanoseconds: a link slower than 50 MB/s is no link.
const PER_BYTE: u64 = 20;

/// How long, and under whose eyes, a loop waits for an event.
#[derive(Clone, Copy)]
pub struct WaitPolicy<'a> {
    supervisor: &'a dyn Supervisor,
    /// Time that the data of an operation may take, beside the limits above, in nanoseconds.
    allowance: u64,
}

impl<'a> WaitPolicy<'a> {
    /// WaitPolicy that asks and tells `supervisor`.
    pub fn new(supervisor: &'a dyn Supervisor) -> Self {
        Self {
            supervisor,
            allowance: 0,
        }
    }

    /// The same for operations that move so many bytes before anything is heard of them.
    pub fn for_bytes(self, bytes: u64) -> Self {
        Self {
            allowance: bytes.saturating_mul(PER_BYTE),
            ..self
        }
    }

    /// Polls until there is an event; the result is that event and the time right after it was
    /// seen. `event` is its name for messages.
    #[inline(always)]
    pub fn wait<C: Clock, T>(
        &mut self,
        clock: &C,
        event: &str,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<(T, u64), Failure> {
        let mut watch = None;
        loop {
            for _ in 0..POLLS {
                if let Some(seen) = poll() {
                    return Ok((seen, clock.now()));
                }
            }
            self.still_nothing(clock.now(), event, &mut watch)?;
        }
    }

    /// A wait whose polls the caller makes.
    pub fn timer(&self, event: &'static str) -> PollTimer<'_, 'a> {
        PollTimer {
            policy: self,
            event,
            misses: 0,
            watch: None,
        }
    }

    /// The longest wait of a side that moves so many bytes before anything is heard of them.
    pub fn longest(bytes: u64) -> Duration {
        Duration::from_nanos(GIVE_UP.saturating_add(bytes.saturating_mul(PER_BYTE)))
    }

    /// The peer is still connected, or the run has failed.
    pub fn look_after_peer(&self) -> Result<(), Failure> {
        self.supervisor.peer_is_there()
    }

    #[cold]
    fn still_nothing(
        &self,
        now: u64,
        event: &str,
        watch: &mut Option<Watch>,
    ) -> Result<(), Failure> {
        interrupt::check()?;
        let watch = watch.get_or_insert(Watch {
            since: now,
            looked: now,
            noticed: false,
        });
        if now - watch.looked >= LOOK {
            watch.looked = now;
            self.look_after_peer()?;
        }
        let waited = now - watch.since;
        let give_up = in_effect(GIVE_UP).saturating_add(self.allowance);
        if waited >= give_up {
            return Err(self.supervisor.no_answer(event, seconds(waited)));
        }
        if waited >= NOTICE.saturating_add(self.allowance) && !watch.noticed {
            watch.noticed = true;
            self.supervisor
                .slow(event, seconds(waited), seconds(give_up));
        }
        Ok(())
    }
}

/// See [`limit::in_effect`].
fn in_effect(limit: u64) -> u64 {
    limit::in_effect(Duration::from_nanos(limit)).as_nanos() as u64
}

/// See [`WaitPolicy::timer`].
pub struct PollTimer<'p, 'a> {
    policy: &'p WaitPolicy<'a>,
    event: &'static str,
    misses: u32,
    watch: Option<Watch>,
}

impl PollTimer<'_, '_> {
    /// A poll has found something: the wait starts again.
    #[inline]
    pub fn hit(&mut self) {
        self.misses = 0;
        self.watch = None;
    }

    /// A poll has found nothing. True, seldom, when it is time to look at other things too.
    #[inline]
    pub fn miss<C: Clock>(&mut self, clock: &C) -> Result<bool, Failure> {
        self.misses += 1;
        if self.misses < POLLS {
            return Ok(false);
        }
        self.misses = 0;
        self.policy
            .still_nothing(clock.now(), self.event, &mut self.watch)?;
        Ok(true)
    }
}

fn seconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000_000_000
}

/// State of one long wait.
struct Watch {
    since: u64,
    looked: u64,
    noticed: bool,
}

/// Supervisors for the tests of the loops.
#[cfg(test)]
pub(crate) mod double {
    use std::cell::Cell;

    use super::*;

    /// Says that the peer is there, or not, and counts the notices.
    pub(crate) struct Watching {
        pub peer: bool,
        pub notices: Cell<u32>,
    }

    impl Watching {
        pub(crate) fn peer(peer: bool) -> Self {
            Self {
                peer,
                notices: Cell::new(0),
            }
        }
    }

    impl Supervisor for Watching {
        fn peer_is_there(&self) -> Result<(), Failure> {
            if self.peer {
                Ok(())
            } else {
                Err(Failure::environment("lost"))
            }
        }

        fn slow(&self, _: &str, _: u64, _: u64) {
            self.notices.set(self.notices.get() + 1);
        }

        fn no_answer(&self, event: &str, waited: u64) -> Failure {
            Failure::nic(format!("{event} {waited}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::double::Watching;
    use super::*;

    /// A millisecond passes between two readings.
    struct Millis(Cell<u64>);

    impl Clock for Millis {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + LOOK);
            self.0.get()
        }
    }

    #[test]
    fn t14_a_wait_without_an_answer_is_announced_and_ends() {
        let clock = Millis(Cell::new(0));
        let supervisor = Watching::peer(true);
        let result = WaitPolicy::new(&supervisor).wait(&clock, "ACK", || None::<()>);
        assert_eq!(result.unwrap_err().message(), "ACK 40");
        assert_eq!(supervisor.notices.get(), 1);
    }

    #[test]
    fn t14_a_lost_peer_ends_the_wait_at_once() {
        let clock = Millis(Cell::new(0));
        let supervisor = Watching::peer(false);
        let result = WaitPolicy::new(&supervisor).wait(&clock, "ACK", || None::<()>);
        assert_eq!(result.unwrap_err().message(), "lost");
        assert!(clock.0.get() <= 10 * LOOK);
    }

    #[test]
    fn an_event_after_a_long_wait_is_returned() {
        let clock = Millis(Cell::new(0));
        let supervisor = Watching::peer(true);
        let mut polls = 10 * POLLS;
        let seen = WaitPolicy::new(&supervisor).wait(&clock, "ACK", || {
            polls -= 1;
            (polls == 0).then_some(7)
        });
        assert_eq!(seen.unwrap().0, 7);
    }
}
