//! The clock of the coordinator in the other processes.
//!
//! A member exchanges messages with the coordinator, which reads its clock between receiving and
//! answering: in the middle if both ways take the same time, and at most half of the round trip
//! away from it. The best of the last exchanges is chosen as in NTP (RFC 5905, clock filter): the
//! shortest round trip, with an allowance for the drift of the clocks since then.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Number of exchanges when a member joins, and of those that are remembered.
pub const EXCHANGES: usize = 8;

/// Assumed drift between two clocks, in parts per million: the tolerance of NTP.
const DRIFT_PPM: u64 = 15;

/// The clock of this process: CLOCK_MONOTONIC in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What a member knows about the clock of the coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// What is added to the clock of this process, in nanoseconds.
    pub offset_ns: i64,
    /// Half of the round trip, in nanoseconds.
    half_trip_ns: u64,
    /// When it was found, on the clock of this process.
    at_ns: u64,
}

impl Offset {
    /// The clock of the coordinator at the time `here_ns` of this process.
    pub fn coordinator_ns(self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.offset_ns)
    }

    /// Returns how far the offset may be off at `here_ns`, in nanoseconds.
    pub fn uncertainty_ns(self, here_ns: u64) -> u64 {
        self.half_trip_ns.saturating_add(drift(here_ns.saturating_sub(self.at_ns)))
    }
}

/// The allowance for the drift in this time.
fn drift(time_ns: u64) -> u64 {
    time_ns / 1_000_000 * DRIFT_PPM
}

/// The last exchanges with the coordinator.
#[derive(Debug, Default)]
pub struct Exchanges {
    last: Vec<Offset>,
    count: usize,
}

impl Exchanges {
    /// Adds an exchange: sent and received on the clock of this process, `there_ns` the clock of
    /// the coordinator.
    pub fn add(&mut self, sent_ns: u64, received_ns: u64, there_ns: u64) {
        let half_trip_ns = received_ns.saturating_sub(sent_ns) / 2;
        let exchange = Offset {
            offset_ns: there_ns.wrapping_sub(sent_ns.wrapping_add(half_trip_ns)) as i64,
            half_trip_ns,
            at_ns: received_ns,
        };
        if self.last.len() < EXCHANGES {
            self.last.push(exchange);
        } else {
            self.last[self.count % EXCHANGES] = exchange;
        }
        self.count += 1;
    }

    /// The best exchange at `here_ns`, if there is one.
    pub fn best(&self, here_ns: u64) -> Option<Offset> {
        let exchanges = self.last.iter().copied();
        exchanges.min_by_key(|exchange| exchange.uncertainty_ns(here_ns))
    }

    /// The instant at which the clock of the coordinator is `coordinator_ns`; the present one if
    /// that is before the start of this host.
    pub fn local(&self, coordinator_ns: u64) -> Instant {
        let (now, here_ns) = (Instant::now(), now_ns());
        let there_ns = self.best(here_ns).unwrap_or_default().coordinator_ns(here_ns);
        let time = Duration::from_nanos(coordinator_ns.abs_diff(there_ns));
        let instant =
            if coordinator_ns >= there_ns { now.checked_add(time) } else { now.checked_sub(time) };
        instant.unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn takes_shortest_round_trip() {
        let mut exchanges = Exchanges::default();
        assert_eq!(exchanges.best(0), None);
        // The coordinator is 1000 s ahead; its answer takes longer than the question in the first
        // exchange.
        exchanges.add(SECOND, SECOND + 900, 1001 * SECOND + 100);
        exchanges.add(SECOND + 1000, SECOND + 1200, 1001 * SECOND + 1100);
        exchanges.add(SECOND + 2000, SECOND + 2300, 1001 * SECOND + 2050);
        let best = exchanges.best(SECOND + 2300).unwrap();
        assert_eq!(best.offset_ns, 1000 * SECOND as i64);
        assert_eq!(best.uncertainty_ns(SECOND + 2300), 100);
        assert_eq!(best.coordinator_ns(5), 1000 * SECOND + 5);
    }

    #[test]
    fn prefers_new_exchange_to_old_shorter_one() {
        let mut exchanges = Exchanges::default();
        exchanges.add(0, 200, 100);
        exchanges.add(60 * SECOND, 60 * SECOND + 40_000, 60 * SECOND);
        let now = 60 * SECOND + 40_000;
        let best = exchanges.best(now).unwrap();
        // Sixty seconds at 15 parts per million.
        assert_eq!(exchanges.last[0].uncertainty_ns(now), 100 + 900_000);
        assert_eq!(best.uncertainty_ns(now), 20_000);
    }

    #[test]
    fn forgets_exchanges_after_eight_others() {
        let mut exchanges = Exchanges::default();
        for number in 0..=EXCHANGES as u64 {
            let half_trip = 100 * (number + 1);
            exchanges.add(0, 2 * half_trip, 0);
        }
        assert_eq!(exchanges.best(0).unwrap().uncertainty_ns(0), 200);
    }

    #[test]
    fn offset_may_be_negative() {
        let mut exchanges = Exchanges::default();
        exchanges.add(50 * SECOND, 50 * SECOND + 2, SECOND + 1);
        let best = exchanges.best(50 * SECOND).unwrap();
        assert_eq!(best.offset_ns, -49 * SECOND as i64);
        let local = exchanges.local(best.coordinator_ns(now_ns()));
        assert!(local <= Instant::now());
    }
}
