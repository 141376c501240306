//! Where packets wait between leaving their NIC and arriving at another.

use super::link_settings::{Between, CLASSES, FULL_BANDWIDTH, Slowness};
use super::link_time::{nanoseconds, time_on_link};
use crate::environment::Nics;

/// A part of the way that packets occupy one after another.
#[derive(Clone, Copy, Default)]
struct PathStage {
    /// Bytes per second; `None` for a part that takes no time.
    bandwidth: Option<f64>,
    /// When the last packet will have left it, in nanoseconds.
    busy_until: u64,
}

impl PathStage {
    /// When a packet that comes at the time `begin` has passed.
    fn pass(&mut self, bytes: u64, begin: u64) -> u64 {
        let takes = time_on_link(bytes, self.bandwidth);
        self.busy_until = self.busy_until.max(begin) + takes;
        self.busy_until
    }
}

/// The ways of the packets of a NIC.
pub struct Ways {
    /// The address of this NIC.
    nid: u32,
    /// The shapers of the traffic classes, the times for which packets wait in switches, and the
    /// nanoseconds for which the shapers held packets back.
    shapers: [PathStage; CLASSES.len()],
    delays: [u64; CLASSES.len()],
    pub held: [u64; CLASSES.len()],
    /// The bandwidth of the link, what the flow control of the fabric leaves of it to other NICs,
    /// the nanoseconds for which it stopped the link, and the packets that it stopped.
    full: f64,
    fabric: PathStage,
    pub held_by_fabric: u64,
    pub stops: u64,
    /// By the addresses of other NICs.
    to: Vec<(u32, PathStage, u64)>,
}

impl Ways {
    /// The ways of the NIC with the address `nid`, whose link has this bandwidth.
    pub fn new(slowness: &Slowness, bandwidth: Option<f64>, nid: u32, nics: &Nics) -> Self {
        let full = bandwidth.unwrap_or(FULL_BANDWIDTH);
        let to = |(&(one, other), between): (&(u32, u32), &Between)| {
            let addresses = [one, other].map(|number| nics.address(number));
            let other = addresses.into_iter().find(|address| *address != Some(nid));
            let stage = PathStage { bandwidth: between.bandwidth, busy_until: 0 };
            // Without another one, it is the way of the NIC to itself.
            let address = other.unwrap_or(Some(nid))?;
            Some((address, stage, nanoseconds(between.delay)))
        };
        Self {
            nid,
            shapers: slowness.ceilings.map(|percent| PathStage {
                bandwidth: percent.map(|percent| full * percent as f64 / 100.0),
                busy_until: 0,
            }),
            delays: slowness.class_delays.map(nanoseconds),
            held: [0; CLASSES.len()],
            full,
            fabric: PathStage {
                bandwidth: slowness
                    .fgfc
                    .filter(|share| *share > 0.0)
                    .map(|share| full * (1.0 - share)),
                busy_until: 0,
            },
            held_by_fabric: 0,
            stops: 0,
            to: slowness.between.iter().filter_map(to).collect(),
        }
    }

    /// When a packet arrives that comes to the link at the time `begin`, and would have left it at
    /// the time `end`, apart from the latency of the link. A class that is held back leaves the
    /// link to others meanwhile.
    ///
    /// Packets of the NIC to itself do not pass the links on which others queue, so the flow
    /// control of the fabric and the delay of their class do not apply to them.
    pub fn pass(&mut self, class: u8, to: u32, bytes: u64, begin: u64, end: u64) -> u64 {
        let class = usize::from(class) % CLASSES.len();
        let mut arrives = end;
        if self.shapers[class].bandwidth.is_some() {
            arrives = arrives.max(self.shapers[class].pass(bytes, begin));
            self.held[class] += arrives - end;
        }
        let mut late = 0;
        if to != self.nid {
            if self.fabric.bandwidth.is_some() {
                arrives = arrives.max(self.fabric.pass(bytes, begin));
                let alone = time_on_link(bytes, Some(self.full));
                self.held_by_fabric += time_on_link(bytes, self.fabric.bandwidth) - alone;
                self.stops += 1;
            }
            late = self.delays[class];
        }
        if let Some((_, stage, delay)) = self.to.iter_mut().find(|(nid, ..)| *nid == to) {
            arrives = arrives.max(stage.pass(bytes, begin));
            late += *delay;
        }
        arrives + late
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const OWN: u32 = 0x12;
    const NEXT: u32 = 0x13;
    const FAR: u32 = 0x14;

    fn ways(bandwidth: Option<f64>, change: impl FnOnce(&mut Slowness)) -> Ways {
        let mut slowness = Slowness::default();
        change(&mut slowness);
        Ways::new(&slowness, bandwidth, OWN, &Nics::from_environment().unwrap())
    }

    #[test]
    fn ceiling_holds_back_one_class() {
        let mut ways = ways(Some(1e9), |slowness| slowness.ceilings[1] = Some(50));
        assert_eq!(ways.pass(1, NEXT, 1000, 0, 1000), 2000);
        assert_eq!(ways.pass(0, NEXT, 1000, 0, 2000), 2000, "another class");
        assert_eq!(ways.pass(1, NEXT, 1000, 0, 3000), 4000);
        assert_eq!(ways.pass(1, OWN, 1000, 9000, 10_000), 11_000, "loopback");
        assert_eq!(ways.held, [0, 3000, 0, 0]);
    }

    #[test]
    fn ceiling_is_a_share_of_200_gigabits_without_bandwidth() {
        let mut ways = ways(None, |slowness| slowness.ceilings[0] = Some(4));
        assert_eq!(ways.pass(0, NEXT, 1000, 0, 0), 1000);
    }

    #[test]
    fn flow_control_of_the_fabric_holds_back_packets_to_others() {
        let mut ways = ways(Some(1e9), |slowness| slowness.fgfc = Some(0.75));
        assert_eq!(ways.pass(0, NEXT, 1000, 0, 1000), 4000);
        assert_eq!(ways.pass(0, OWN, 1000, 0, 2000), 2000, "loopback");
        assert_eq!(ways.pass(1, FAR, 1000, 0, 3000), 8000);
        assert_eq!((ways.held_by_fabric, ways.stops), (6000, 2));
    }

    #[test]
    fn share_of_zero_stops_nothing() {
        let mut ways = ways(Some(1e9), |slowness| slowness.fgfc = Some(0.0));
        assert_eq!(ways.pass(0, NEXT, 1000, 0, 1000), 1000);
        assert_eq!((ways.held_by_fabric, ways.stops), (0, 0));
    }

    #[test]
    fn class_waits_on_the_way_to_others() {
        let mut ways = ways(None, |slowness| {
            slowness.class_delays[2] = Duration::from_nanos(70);
        });
        let mut pass = |class, to| ways.pass(class, to, 64, 100, 100);
        assert_eq!([pass(2, NEXT), pass(1, NEXT), pass(2, OWN)], [170, 100, 100]);
    }

    #[test]
    fn way_between_two_nics_is_slower() {
        let mut ways = ways(None, |slowness| {
            let slow = Between { delay: Duration::from_nanos(500), bandwidth: Some(1e9) };
            let only_late = Between { bandwidth: None, ..slow };
            slowness.between = [((0, 1), slow), ((0, 0), only_late)].into();
        });
        let mut pass = |to| ways.pass(0, to, 1000, 0, 10);
        assert_eq!([NEXT, NEXT, FAR, OWN].map(&mut pass), [1500, 2500, 10, 510]);
    }
}
