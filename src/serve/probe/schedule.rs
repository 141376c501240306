//! When a NIC probes each of its targets. Times count from any instant, so that tests need no
//! clock.

use std::time::Duration;

use members::prober_nic::{ProbeKind, WRITES};

/// Bytes of a write of 8 bytes at a port, with headers and acknowledgement.
const WRITE_BYTES: u64 = 136;

/// Writes of a burst that are not counted: the first one finds caches cold.
pub const UNCOUNTED: u64 = 1;

/// A burst that this host disturbed is repeated after this time.
const AGAIN: Duration = Duration::from_millis(50);

/// After a failure, a target is probed this many times less often: its waits take the time of
/// other targets.
const RARER: u32 = 6;

/// How often targets are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Time from one burst to a target to the next.
    pub burst: Duration,
    /// Time from one bulk write to a target to the next.
    pub bulk: Duration,
}

impl Periods {
    /// The pace of a NIC without a budget.
    pub const USUAL: Self = Self { burst: Duration::from_secs(5), bulk: Duration::from_secs(60) };

    /// Returns the pace at which the bursts to and from a NIC with this many targets take at most
    /// `budget` bytes a second: it is also the target of as many.
    pub fn within(self, budget: u64, targets: usize) -> Self {
        let bytes = (WRITES + UNCOUNTED) * WRITE_BYTES * 2 * targets as u64;
        let shortest = Duration::from_secs_f64(bytes as f64 / budget.max(1) as f64);
        Self { burst: self.burst.max(shortest), ..self }
    }
}

/// What comes after a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextProbe {
    /// The next one in its time.
    Usual,
    /// The same one soon.
    Again,
    /// The next one later.
    Rarer,
}

/// The times of the probes of a NIC.
#[derive(Debug)]
pub struct ProbeSchedule {
    periods: Periods,
    /// When the next burst and the next bulk write of each slot are due.
    due: Vec<[Duration; 2]>,
}

impl ProbeSchedule {
    /// Creates the times of this many slots from `now` on, in which no two probes fall together.
    /// `phase` differs from NIC to NIC.
    pub fn new(periods: Periods, slots: usize, phase: u64, now: Duration) -> Self {
        let part = |period: Duration, slot: usize| {
            let within = (phase % 1024) as f64 / 1024.0;
            now + period.mul_f64((slot as f64 + within) / slots.max(1) as f64)
        };
        let due = (0..slots).map(|slot| [part(periods.burst, slot), part(periods.bulk, slot)]);
        Self { periods, due: due.collect() }
    }

    /// Returns the next probe: its time, its slot, and what it is. `None` without slots.
    pub fn next(&self) -> Option<(Duration, usize, ProbeKind)> {
        let slots = self.due.iter().enumerate().flat_map(|(slot, [burst, bulk])| {
            [(*burst, slot, ProbeKind::Burst), (*bulk, slot, ProbeKind::Bulk)]
        });
        slots.min_by_key(|(due, ..)| *due)
    }

    /// Plans what comes after a probe that has ended `now`. Probes that were missed, for example
    /// while the process was stopped, are not made up for.
    pub fn done(&mut self, slot: usize, probe: ProbeKind, next: NextProbe, now: Duration) {
        let (index, period) = match probe {
            ProbeKind::Burst => (0, self.periods.burst),
            ProbeKind::Bulk => (1, self.periods.bulk),
        };
        let due = &mut self.due[slot][index];
        *due = match next {
            NextProbe::Again => now + AGAIN,
            NextProbe::Rarer => now + period.saturating_mul(RARER),
            NextProbe::Usual if *due + period <= now => now + period,
            NextProbe::Usual => *due + period,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Counts the probes of each kind within a time, all of which end as `next` says.
    fn count(schedule: &mut ProbeSchedule, until: Duration, next: NextProbe) -> [usize; 2] {
        let mut counts = [0; 2];
        while let Some((due, slot, probe)) = schedule.next()
            && due < until
        {
            counts[usize::from(probe == ProbeKind::Bulk)] += 1;
            schedule.done(slot, probe, next, due);
        }
        counts
    }

    #[test]
    fn probes_each_target_in_its_period() {
        let mut schedule = ProbeSchedule::new(Periods::USUAL, 8, 77, Duration::ZERO);
        let [bursts, bulk] = count(&mut schedule, 600 * SECOND, NextProbe::Usual);
        assert_eq!((bursts, bulk), (8 * 120, 8 * 10));
        assert_eq!(ProbeSchedule::new(Periods::USUAL, 0, 1, SECOND).next(), None);
    }

    #[test]
    fn spreads_targets_over_the_period() {
        let mut schedule = ProbeSchedule::new(Periods::USUAL, 8, 1023, Duration::ZERO);
        let mut times = Vec::new();
        while let Some((due, slot, probe)) = schedule.next()
            && due < 5 * SECOND
        {
            times.push((due, slot));
            schedule.done(slot, probe, NextProbe::Usual, due);
        }
        times.retain(|(due, _)| *due > Duration::ZERO);
        times.dedup_by_key(|(_, slot)| *slot);
        assert!(times.windows(2).all(|pair| pair[1].0 - pair[0].0 >= SECOND / 2), "{times:?}");
    }

    #[test]
    fn repeats_disturbed_burst_soon_and_failing_target_rarely() {
        let mut schedule = ProbeSchedule::new(Periods::USUAL, 1, 0, Duration::ZERO);
        schedule.done(0, ProbeKind::Bulk, NextProbe::Usual, Duration::ZERO);
        schedule.done(0, ProbeKind::Burst, NextProbe::Again, SECOND);
        assert_eq!(schedule.next(), Some((SECOND + AGAIN, 0, ProbeKind::Burst)));
        schedule.done(0, ProbeKind::Burst, NextProbe::Rarer, 2 * SECOND);
        assert_eq!(schedule.next(), Some((32 * SECOND, 0, ProbeKind::Burst)));
    }

    #[test]
    fn makes_up_for_no_probe_after_a_stop() {
        let mut schedule = ProbeSchedule::new(Periods::USUAL, 1, 0, Duration::ZERO);
        schedule.done(0, ProbeKind::Bulk, NextProbe::Usual, Duration::ZERO);
        // Stopped for 20 minutes.
        schedule.done(0, ProbeKind::Burst, NextProbe::Usual, 1200 * SECOND);
        schedule.done(0, ProbeKind::Bulk, NextProbe::Usual, 1200 * SECOND);
        assert_eq!(schedule.next(), Some((1205 * SECOND, 0, ProbeKind::Burst)));
    }

    #[test]
    fn budget_lengthens_the_period() {
        assert_eq!(Periods::USUAL.within(u64::MAX, 8), Periods::USUAL);
        // 8 bursts of 21 writes of 136 bytes, out and in.
        let periods = Periods::USUAL.within(1000, 8);
        assert_eq!((periods.burst.as_millis(), periods.bulk), (45_696, Periods::USUAL.bulk));
        let bytes = 8 * 21 * 136 * 2;
        assert!(f64::from(bytes) / periods.burst.as_secs_f64() <= 1000.0);
    }
}
