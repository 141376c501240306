//! What has come of probes. Noise of this host only lengthens latencies: a probe during which other
//! programs had the CPU of the thread too often is repeated once and then dropped, so that a slow
//! host accuses no other NIC.

use std::time::Duration;

use super::schedule::NextProbe;
use crew::location::{Class, Location};
use members::prober_nic::{BurstLatencies, EndedProbe, ProbeFailure, ProbeFigure, WRITES};

/// A write that takes longer was lost and sent again: the retry handler sends a packet again after
/// 1.07 s (libcxi.md 12.3), and no write of 8 bytes takes as long otherwise.
const LOST: Duration = Duration::from_millis(500);

/// Each time that another program has the CPU, one write takes longer. As many spoil the median of
/// a burst, and bring the minimum into doubt.
const TOO_OFTEN: u32 = WRITES as u32 / 4;

/// The shortest time for which another program has the CPU. Shorter waits are for threads that work
/// for the probe: on one CPU, the engine of a software NIC answers a write in some 10 us.
const SLICE: Duration = Duration::from_micros(100);

/// Figures are shown for this time after their probe.
const SHOWN: Duration = Duration::from_secs(60);

/// The same for bandwidths, which are measured more rarely.
const BANDWIDTH_SHOWN: Duration = Duration::from_secs(300);

facts::named_enum! {
    /// Why a NIC was not probed, or a target not probed from it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Omission {
        /// A client of the server measures on the NIC.
        Client = "client",
        /// Others use the NIC heavily.
        Busy = "busy",
        /// The pause file exists.
        Paused = "paused",
        /// The NIC of this host cannot be used.
        Unusable = "unusable",
        /// The target asks not to be probed: it is in use, or pauses.
        TargetBusy = "target_busy",
        /// The server of the target does not answer, or has no such NIC.
        Unreachable = "unreachable",
    }
    fn name(self);
}

/// The figures of one target, as one NIC sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetFigures {
    /// Name of the host.
    pub host: String,
    /// The NIC of the host.
    pub device: String,
    pub class: Class,
    /// Minimum and median of the last good burst, with its time.
    latencies: Option<(BurstLatencies, Duration)>,
    bandwidth: Option<(f64, Duration)>,
    /// When figures were asked for first.
    since: Duration,
    pub bursts: u64,
    /// Bursts that were dropped because this host was late.
    pub late: u64,
    failures: [u64; ProbeFailure::ALL.len()],
    /// The last burst was disturbed, and is repeated.
    repeats: bool,
}

impl TargetFigures {
    pub fn new(host: &str, device: &str, class: Class, now: Duration) -> Self {
        Self {
            host: host.into(),
            device: device.into(),
            class,
            latencies: None,
            bandwidth: None,
            since: now,
            bursts: 0,
            late: 0,
            failures: [0; ProbeFailure::ALL.len()],
            repeats: false,
        }
    }

    /// Adds a probe that has ended `now`. Returns when the next one is due.
    pub fn add(&mut self, ended: EndedProbe, now: Duration) -> NextProbe {
        let is_disturbed = match ended.result {
            // A thread that waits for a packet to be sent again yields its CPU thousands of times.
            Ok(ProbeFigure::Burst(latencies)) if latencies.max >= LOST => had_no_time(&ended),
            Ok(ProbeFigure::Burst(_)) => lost_cpu(&ended),
            Ok(ProbeFigure::Bulk(_)) | Err(ProbeFailure::NoAnswer) => had_no_time(&ended),
            // What a NIC reports is a fact.
            Err(_) => false,
        };
        if is_disturbed && !self.repeats && ended.result.is_ok() {
            self.repeats = true;
            return NextProbe::Again;
        }
        self.repeats = false;
        if !matches!(ended.result, Ok(ProbeFigure::Bulk(_))) {
            self.bursts += 1;
            self.late += u64::from(is_disturbed);
        }
        match ended.result {
            Ok(_) | Err(ProbeFailure::NoAnswer) if is_disturbed => return NextProbe::Usual,
            Ok(ProbeFigure::Burst(latencies)) => {
                if latencies.max >= LOST {
                    self.fail(ProbeFailure::Resent);
                }
                if !lost_cpu(&ended) {
                    self.latencies = Some((latencies, now));
                }
            }
            Ok(ProbeFigure::Bulk(bytes_per_second)) => {
                self.bandwidth = Some((bytes_per_second, now));
            }
            Err(reason) => {
                self.fail(reason);
                return NextProbe::Rarer;
            }
        }
        NextProbe::Usual
    }

    fn fail(&mut self, reason: ProbeFailure) {
        if let Some(index) = ProbeFailure::ALL.iter().position(|other| *other == reason) {
            self.failures[index] += 1;
        }
    }

    /// The number of failures for each reason, with its name.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ProbeFailure::ALL.iter().zip(self.failures).map(|(reason, count)| (reason.name(), count))
    }

    /// The latencies of the last good burst. `None` if it is too old to say something.
    pub fn latencies(&self, now: Duration) -> Option<BurstLatencies> {
        recent(self.latencies, now, SHOWN)
    }

    /// The last bandwidth, in bytes a second. `None` if it is too old.
    pub fn bandwidth(&self, now: Duration) -> Option<f64> {
        recent(self.bandwidth, now, BANDWIDTH_SHOWN)
    }

    /// The time since the last good burst, or since there is this target.
    pub fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.latencies.map_or(self.since, |(_, at)| at))
    }
}

fn recent<T>(figure: Option<(T, Duration)>, now: Duration, shown: Duration) -> Option<T> {
    let (figure, at) = figure?;
    (now.saturating_sub(at) <= shown).then_some(figure)
}

/// The figures of one NIC of this host.
#[derive(Clone, Debug, PartialEq)]
pub struct NicFigures {
    pub device: String,
    /// Where it is, if its address shows it.
    pub location: Option<Location>,
    /// The target in each slot.
    pub targets: Vec<Option<TargetFigures>>,
    left_out: [u64; Omission::ALL.len()],
}

impl NicFigures {
    /// Creates the figures of a NIC with this many slots.
    pub fn new(device: &str, location: Option<Location>, slots: usize) -> Self {
        Self {
            device: device.into(),
            location,
            targets: vec![None; slots],
            left_out: [0; Omission::ALL.len()],
        }
    }

    /// The figures of the target in a slot; a new target has none yet.
    pub fn target(
        &mut self,
        slot: usize,
        (host, device, class): (&str, &str, Class),
        now: Duration,
    ) -> &mut TargetFigures {
        let target = &mut self.targets[slot];
        if !target.as_ref().is_some_and(|target| {
            (target.host.as_str(), target.device.as_str(), target.class) == (host, device, class)
        }) {
            *target = None;
        }
        target.get_or_insert_with(|| TargetFigures::new(host, device, class, now))
    }

    /// Counts a probe that was left out.
    pub fn leave_out(&mut self, reason: Omission) {
        if let Some(index) = Omission::ALL.iter().position(|other| *other == reason) {
            self.left_out[index] += 1;
        }
    }

    /// The number of probes that were left out for each reason, with its name.
    pub fn left_out(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Omission::ALL.iter().zip(self.left_out).map(|(reason, count)| (reason.name(), count))
    }
}

/// Whether this host had no time for the probe: a long wait says nothing then.
fn had_no_time(ended: &EndedProbe) -> bool {
    ended.waited + ended.stopped > ended.took / 4
}

/// Whether other programs had the CPU so often that most writes may be longer.
fn lost_cpu(ended: &EndedProbe) -> bool {
    ended.turns >= TOO_OFTEN.into() && ended.waited >= SLICE * TOO_OFTEN
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A burst during which other programs had the CPU so often, for a slice each time.
    fn burst(min_us: u64, turns: u32) -> EndedProbe {
        let latencies = BurstLatencies {
            min: Duration::from_micros(min_us),
            median: Duration::from_micros(min_us + 1),
            max: Duration::from_micros(min_us + 9),
        };
        EndedProbe {
            result: Ok(ProbeFigure::Burst(latencies)),
            turns: turns.into(),
            waited: SLICE * turns,
            stopped: Duration::ZERO,
            took: Duration::from_micros(100) + SLICE * turns,
        }
    }

    fn failed(reason: ProbeFailure, waited: Duration) -> EndedProbe {
        EndedProbe {
            result: Err(reason),
            turns: 9,
            waited,
            stopped: Duration::ZERO,
            took: 3 * SECOND,
        }
    }

    fn target() -> TargetFigures {
        TargetFigures::new("nid2", "cxi0", Class::Switch, Duration::ZERO)
    }

    fn count(target: &TargetFigures, name: &str) -> u64 {
        target.failures().find(|(other, _)| *other == name).unwrap().1
    }

    #[test]
    fn drops_burst_that_the_host_disturbed_twice() {
        let mut target = target();
        assert_eq!(target.add(burst(2, 0), SECOND), NextProbe::Usual);
        assert_eq!(target.add(burst(900, TOO_OFTEN), 6 * SECOND), NextProbe::Again);
        assert_eq!((target.bursts, target.late), (1, 0));
        assert_eq!(target.add(burst(900, TOO_OFTEN), 6 * SECOND), NextProbe::Usual);
        assert_eq!((target.bursts, target.late), (2, 1));
        // The earlier figure stays, and its age says so.
        assert_eq!(target.latencies(7 * SECOND).unwrap().min, Duration::from_micros(2));
        assert_eq!(target.age(7 * SECOND), 6 * SECOND);
        assert_eq!(target.add(burst(900, TOO_OFTEN), 11 * SECOND), NextProbe::Again);
        assert_eq!(target.add(burst(3, 0), 11 * SECOND), NextProbe::Usual);
        assert_eq!(target.latencies(12 * SECOND).unwrap().min, Duration::from_micros(3));
        assert_eq!((target.bursts, target.late), (3, 1));
    }

    #[test]
    fn keeps_burst_that_lost_its_cpu_a_few_times() {
        let mut target = target();
        assert_eq!(target.add(burst(2, TOO_OFTEN - 1), SECOND), NextProbe::Usual);
        assert!(target.latencies(SECOND).is_some());
        let bulk = EndedProbe { result: Ok(ProbeFigure::Bulk(1e9)), ..burst(0, 1) };
        assert_eq!(target.add(bulk, SECOND), NextProbe::Again);
        assert_eq!(target.add(bulk, SECOND), NextProbe::Usual);
        assert_eq!((target.bandwidth(SECOND), target.late), (None, 0));
    }

    /// As measured on idle CPUs: the engine of the target answered each write on the CPU of the
    /// thread, which naps as well.
    #[test]
    fn keeps_probes_that_waited_for_software_nics() {
        let mut target = target();
        let waited = Duration::from_micros(390);
        let answered = EndedProbe { turns: 22, waited, took: waited * 4, ..burst(10, 0) };
        let napped = EndedProbe { turns: 140, took: 30 * waited, ..burst(40, 0) };
        for (burst, second) in [(answered, 1), (napped, 2)] {
            assert_eq!(target.add(burst, second * SECOND), NextProbe::Usual);
            assert_eq!(target.age(second * SECOND), Duration::ZERO);
        }
        let bulk = EndedProbe { result: Ok(ProbeFigure::Bulk(7e8)), turns: 2, ..answered };
        assert_eq!(target.add(bulk, SECOND), NextProbe::Usual);
        assert_eq!((target.bandwidth(SECOND), target.bursts, target.late), (Some(7e8), 2, 0));
    }

    #[test]
    fn figures_grow_old() {
        let mut target = target();
        assert_eq!(target.age(9 * SECOND), 9 * SECOND);
        target.add(burst(2, 0), 10 * SECOND);
        let bulk = EndedProbe { result: Ok(ProbeFigure::Bulk(1e9)), ..burst(0, 0) };
        target.add(bulk, 10 * SECOND);
        assert_eq!(target.bursts, 1);
        assert!(target.latencies(70 * SECOND).is_some());
        assert!(target.latencies(71 * SECOND).is_none());
        assert_eq!(target.bandwidth(310 * SECOND), Some(1e9));
        assert_eq!(target.bandwidth(311 * SECOND), None);
    }

    #[test]
    fn missing_answer_counts_if_the_host_had_its_cpu() {
        let mut target = target();
        assert_eq!(
            target.add(failed(ProbeFailure::NoAnswer, 2 * SECOND), SECOND),
            NextProbe::Usual
        );
        assert_eq!((target.late, count(&target, "no_answer")), (1, 0));
        assert_eq!(
            target.add(failed(ProbeFailure::NoAnswer, SECOND / 2), SECOND),
            NextProbe::Rarer
        );
        assert_eq!((target.late, count(&target, "no_answer")), (1, 1));
        // An error that the NIC reports is a fact on any host.
        assert_eq!(target.add(failed(ProbeFailure::Error, 3 * SECOND), SECOND), NextProbe::Rarer);
        assert_eq!((target.late, count(&target, "error"), target.bursts), (1, 1, 3));
    }

    #[test]
    fn lost_packet_counts_beside_the_figures() {
        let mut target = target();
        let lost = BurstLatencies {
            min: Duration::from_micros(2),
            median: Duration::from_micros(3),
            max: Duration::from_millis(1073),
        };
        let ended =
            EndedProbe { result: Ok(ProbeFigure::Burst(lost)), took: lost.max, ..burst(2, 0) };
        assert_eq!(target.add(ended, SECOND), NextProbe::Usual);
        assert_eq!(count(&target, "resent"), 1);
        assert!(target.latencies(SECOND).is_some());
        // On an idle host, a thread that shared its CPU with the engine of a software NIC.
        let waited = Duration::from_millis(45);
        let shared = EndedProbe { turns: 841, waited, ..ended };
        assert_eq!(target.add(shared, 90 * SECOND), NextProbe::Usual);
        assert_eq!((count(&target, "resent"), target.late), (2, 0));
        assert!(target.latencies(90 * SECOND).is_none());
        let starved = EndedProbe { waited: SECOND / 2, ..shared };
        assert_eq!(target.add(starved, 91 * SECOND), NextProbe::Again);
        assert_eq!(target.add(starved, 91 * SECOND), NextProbe::Usual);
        assert_eq!((count(&target, "resent"), target.late), (2, 1));
    }

    #[test]
    fn stopped_process_accuses_no_target() {
        let mut target = target();
        let long = BurstLatencies {
            min: Duration::from_micros(2),
            median: Duration::from_micros(3),
            max: 20 * SECOND,
        };
        let took = 20 * SECOND;
        let stopped = took - Duration::from_micros(50);
        let result = Ok(ProbeFigure::Burst(long));
        let ended = EndedProbe { result, stopped, took, ..burst(2, 1) };
        assert_eq!(target.add(ended, 21 * SECOND), NextProbe::Again);
        assert_eq!(target.add(burst(2, 0), 21 * SECOND), NextProbe::Usual);
        assert_eq!((count(&target, "resent"), target.late, target.bursts), (0, 0, 1));
    }

    #[test]
    fn new_target_of_a_slot_begins_without_figures() {
        let mut nic = NicFigures::new("cxi0", None, 2);
        let nid2 = ("nid2", "cxi0", Class::Group);
        nic.target(1, nid2, SECOND).add(burst(2, 0), SECOND);
        assert_eq!(nic.target(1, nid2, SECOND).bursts, 1);
        assert_eq!(nic.target(1, ("nid3", "cxi0", Class::Group), SECOND).bursts, 0);
        assert!(nic.targets[0].is_none());
        nic.leave_out(Omission::TargetBusy);
        nic.leave_out(Omission::TargetBusy);
        let sum: u64 = nic.left_out().map(|(_, count)| count).sum();
        assert_eq!((sum, nic.left_out().nth(4)), (2, Some(("target_busy", 2))));
    }
}
