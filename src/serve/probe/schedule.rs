//! Which nodes a node probes, and when a NIC probes each of them.
//!
//! Every node computes its own targets from the same list of hosts and the time of day, so that no
//! coordinator is needed. In each slot the hosts form a ring, in the order of a hash: a host probes
//! its successor, so that a host has about one predecessor in each. Times count from any instant,
//! so that tests need no clock.

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

    /// The pace at which the bursts to and from a NIC with this many targets take at most `budget`
    /// bytes a second: it is also the target of as many.
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

    /// The next probe: its time, its slot, and what it is. `None` without slots.
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

/// Number of targets, if the user chooses none.
pub const TARGETS: usize = 8;

/// Time after which the next slot gets another target.
pub const TURN: Duration = Duration::from_secs(600);

/// Hosts that follow each other in the list are taken for neighbours: this many at a switch, and
/// this many in a group. Names of hosts count along the cabinets, and addresses of NICs are known
/// only after a connection.
const AT_SWITCH: usize = 16;
const IN_GROUP: usize = 256;

/// The targets of the host `own` in the list, at most `count` different ones, at the turn with this
/// number since 1970. A quarter of them are its neighbours at the switch, a quarter those in its
/// group, as far as there are so many. Slot number `n` has the `n`th target. Empty if the list
/// lacks `own`.
pub fn targets<'h>(own: &str, hosts: &'h [String], count: usize, turn: u64) -> Vec<&'h str> {
    let Some(place) = hosts.iter().position(|host| host == own) else {
        return Vec::new();
    };
    let count = count.min(hosts.len() - 1);
    let mut chosen: Vec<&str> = Vec::with_capacity(count);
    for slot in 0..count {
        let blocks: &[usize] = match slot * 4 / count {
            0 if count > 1 => &[AT_SWITCH, IN_GROUP],
            1 => &[IN_GROUP],
            _ => &[],
        };
        // One slot changes at each turn.
        let epoch = (turn + (count - slot) as u64) / count as u64;
        let blocks = blocks.iter().map(|length| block(hosts, place, *length));
        let mut rings = blocks.chain([hosts]);
        chosen.extend(rings.find_map(|ring| successor(own, ring, (slot, epoch), &chosen)));
    }
    chosen
}

/// The part of the list with the host at this place, of lists of this length.
fn block(hosts: &[String], place: usize, length: usize) -> &[String] {
    let begin = place / length * length;
    &hosts[begin..hosts.len().min(begin + length)]
}

/// The host that follows `own` in the ring of a slot and epoch, without itself and those that were
/// chosen already.
fn successor<'h>(
    own: &str,
    ring: &'h [String],
    salt: (usize, u64),
    chosen: &[&str],
) -> Option<&'h str> {
    let begin = hash(own, salt);
    let others = ring.iter().map(String::as_str);
    let others = others.filter(|host| *host != own && !chosen.contains(host));
    others.min_by_key(|host| hash(host, salt).wrapping_sub(begin))
}

/// A number that depends on a name, a slot and an epoch: FNV-1a and the last step of SplitMix64.
/// All nodes need the same one, also of different releases.
fn hash(name: &str, (slot, epoch): (usize, u64)) -> u64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    for number in [slot as u64, epoch] {
        hash = hash.wrapping_add(number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
    }
    hash
}

/// A number for the phase of probes from one host to another.
pub fn phase(own: &str, target: &str) -> u64 {
    hash(own, (0, hash(target, (0, 0))))
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use members::prober_nic::ProbeKind;

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

    fn hosts(count: usize) -> Vec<String> {
        (1..=count).map(|number| format!("nid{number:06}")).collect()
    }

    #[test]
    fn chooses_neighbours_and_others() {
        let hosts = hosts(2000);
        let place = |name: &str| hosts.iter().position(|host| host == name).unwrap();
        for own in [0, 17, 999, 1999] {
            let found = targets(&hosts[own], &hosts, TARGETS, 7);
            assert_eq!(found.iter().collect::<HashSet<_>>().len(), TARGETS);
            assert!(!found.contains(&hosts[own].as_str()));
            let share = |length: usize| {
                found.iter().filter(|name| place(name) / length == own / length).count()
            };
            assert!(share(16) >= 2 && share(256) >= 4 && share(256) <= 8, "{found:?}");
        }
    }

    #[test]
    fn each_host_is_the_target_of_about_as_many() {
        let hosts = hosts(400);
        let mut initiators: HashMap<&str, usize> = HashMap::new();
        for own in &hosts {
            for target in targets(own, &hosts, TARGETS, 1234) {
                *initiators.entry(target).or_default() += 1;
            }
        }
        let counts = hosts.iter().map(|host| initiators.get(host.as_str()).copied().unwrap_or(0));
        let counts: Vec<usize> = counts.collect();
        assert!(counts.iter().all(|count| (5..=11).contains(count)), "{counts:?}");
    }

    /// A model of 64 nodes that probe each other, for a minute of each of ten turns.
    #[test]
    fn load_of_each_of_64_nodes_is_bounded() {
        const MINUTE: Duration = Duration::from_secs(60);
        let hosts = hosts(64);
        for turn in 1000..1010 {
            // The bursts to each host in each half of a second of a minute.
            let mut received: HashMap<&str, Vec<usize>> = HashMap::new();
            let mut initiators: HashMap<&str, usize> = HashMap::new();
            for own in &hosts {
                let chosen = targets(own, &hosts, TARGETS, turn);
                let phase = phase(own, "cxi0");
                let mut schedule =
                    ProbeSchedule::new(Periods::USUAL, TARGETS, phase, Duration::ZERO);
                for target in &chosen {
                    *initiators.entry(target).or_default() += 1;
                }
                while let Some((due, slot, probe)) = schedule.next()
                    && due < MINUTE
                {
                    if probe == ProbeKind::Burst {
                        let bursts = received.entry(chosen[slot]).or_insert_with(|| vec![0; 120]);
                        bursts[(due.as_millis() / 500) as usize] += 1;
                    }
                    schedule.done(slot, probe, NextProbe::Usual, due);
                }
            }
            let bursts: usize = received.values().flatten().sum();
            assert_eq!(bursts, 64 * TARGETS * 12, "turn {turn}");
            for host in &hosts {
                let [count, most] = [
                    initiators[host.as_str()],
                    received[host.as_str()].iter().copied().max().unwrap_or_default(),
                ];
                assert!((5..=12).contains(&count), "turn {turn}, {host}: {count} initiators");
                assert!(most <= 4, "turn {turn}, {host}: {most} bursts in half a second");
            }
        }
    }

    #[test]
    fn replaces_one_target_at_a_turn() {
        let hosts = hosts(5000);
        let mut before = targets(&hosts[2500], &hosts, TARGETS, 0);
        for turn in 1..50 {
            let after = targets(&hosts[2500], &hosts, TARGETS, turn);
            let changed = before.iter().zip(&after).filter(|(before, after)| before != after);
            // A near slot may draw the same host again, or one that a later slot had.
            assert!(changed.count() <= 2, "turn {turn}: {before:?} {after:?}");
            before = after;
        }
        assert_ne!(before, targets(&hosts[2500], &hosts, TARGETS, 0));
    }

    #[test]
    fn small_lists_have_fewer_targets() {
        let all = hosts(3);
        let mut found = targets("nid000002", &all, TARGETS, 5);
        found.sort_unstable();
        assert_eq!(found, ["nid000001", "nid000003"]);
        assert!(targets("nid000001", &hosts(1), TARGETS, 5).is_empty());
        assert!(targets("other", &all, TARGETS, 5).is_empty());
    }
}
