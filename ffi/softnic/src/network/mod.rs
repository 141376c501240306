//! A fabric of switches between the software NICs, without a process in its middle (load.md 4).
//!
//! Each link is a clock in memory that all NICs share: when its last packet will have left. A NIC
//! that sends a packet puts the clocks of all links on its path forward at once, and knows when the
//! packet arrives. All rules are functions of the time and of these clocks: tests run them on a
//! clock of their own, and NICs on the time of the machine.
//!
//! NICs that send to the same target are held back to equal shares of its port (load.md 4.4).
//!
//! The bytes that a NIC sent to another lately are one word: the number of a period in 24 bits, and
//! the bytes of the period before it and of that period in 20 bits each, in units of 16 bytes.

mod clocks;
#[cfg(test)]
mod rate_tests;
mod routes;
#[cfg(test)]
mod simulation;

use std::sync::atomic::{AtomicU64, Ordering};

use topology::{Congestion, Routing, Topology};

use super::random::Random;
use clocks::{Station, TICKS, Timing, TrafficClasses, occupy, put_forward, queue};
use routes::{Path, SwitchMap, SwitchPaths};

pub use clocks::{CellLayout, Cells, Count, Parcel};

/// Latencies for which a pair of NICs must be idle before packets that stay in order take another
/// path.
const IDLE_LATENCIES: u64 = 20;

/// The most times that one link damages the same packet.
const MOST_LOSSES: u32 = 100;

/// The arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When it arrives, in nanoseconds since the fabric was made.
    pub due: u64,
    /// Whether it has a mark of congestion: more bytes were before it than the limit.
    pub is_marked: bool,
}

/// The path of the packets to another NIC that stay in order.
#[derive(Clone, Copy, Default)]
struct FlowPath {
    choice: Option<Choice>,
    /// When the last packet arrives, in nanoseconds: another path before that could change the
    /// order.
    due: u64,
}

/// A path of [`SwitchPaths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Minimal(usize),
    Detour(usize),
}

/// A fabric as one NIC sees it.
pub struct Network<C> {
    cells: C,
    layout: CellLayout,
    map: SwitchMap,
    timings: Vec<Timing>,
    classes: TrafficClasses,
    routing: Routing,
    congestion: Congestion,
    mark: u64,
    /// The switches of the NICs.
    switches: Vec<usize>,
    /// The number of this NIC.
    own: usize,
    /// By the switch of the target.
    routes: Vec<Option<SwitchPaths>>,
    /// By target.
    flows: Vec<FlowPath>,
    rivals: Vec<Rivals>,
    sources: TargetSources,
    random: Random,
}

impl Network<()> {
    /// The words of the state that all NICs of a fabric share.
    pub fn layout(topology: &Topology) -> CellLayout {
        CellLayout {
            links: 2 * (topology.nics.len() + topology.cables.len()),
            nics: topology.nics.len(),
        }
    }
}

impl<C: Cells> Network<C> {
    /// The fabric as the NIC with the number `own` sees it. All words of `cells` are 0 when the
    /// fabric is made.
    pub fn new(topology: &Topology, cells: C, own: usize, random: Random) -> Self {
        let map = SwitchMap::new(topology);
        let nics = topology.nics.len();
        let longest_nic_latency = topology.nics.iter().map(|nic| nic.latency).max();
        let round_trip = 2 * (map.longest_latency() + 2 * longest_nic_latency.unwrap_or(0));
        Self {
            cells,
            layout: Network::layout(topology),
            timings: map.links().iter().map(Timing::of).collect(),
            classes: TrafficClasses::new(topology.classes),
            routing: topology.routing,
            congestion: topology.congestion,
            mark: topology.mark,
            switches: topology.nics.iter().map(|nic| nic.switch).collect(),
            own,
            routes: vec![None; topology.switches.len()],
            flows: vec![FlowPath::default(); nics],
            rivals: vec![Rivals::default(); nics],
            sources: TargetSources::new(round_trip),
            random,
            map,
        }
    }

    /// Sends a packet to the NIC with the number `to` at the time `now`, in nanoseconds since the
    /// fabric was made. Returns `None` if no path is up.
    pub fn send(&mut self, to: usize, parcel: &Parcel, now: u64) -> Option<Passage> {
        let [transmit, receive] = [2 * self.own, 2 * to + 1];
        let ports = [transmit, receive];
        if !ports.iter().all(|link| self.map.links()[*link].is_up(now)) {
            return None;
        }
        let parcel = &Parcel { class: self.classes.queue_of(parcel.class), ..*parcel };
        let choice = self.choose(to, parcel, now)?;
        let held_back = self.hold_back(to, parcel, now);
        let path = path(&self.routes[self.switches[to]], choice)?;
        let time = now * TICKS;
        let mut longest = (0, transmit);
        let links = || [transmit].into_iter().chain(path.links.iter().copied()).chain([receive]);
        for link in links() {
            let mut wait = self.station(link).occupy(parcel, time, link == transmit);
            if link == receive {
                wait = wait.min(held_back);
            }
            longest = longest.max((wait, link));
        }
        if let Congestion::Spread { buffer } = self.congestion
            && parcel.payload > 0
        {
            let before = path.links.iter().rev().copied().chain([transmit]);
            self.spread(receive, before, parcel.class, buffer);
        }
        let (wait, slowest) = longest;
        if parcel.payload > 0 {
            let takes = self.timings[slowest].takes(parcel.bytes());
            self.station(transmit).count(Count::Filled, takes / TICKS);
        }
        let waiting = wait as f64 / self.timings[slowest].ticks_per_byte;
        let is_marked = parcel.payload > 0 && waiting > self.mark as f64;
        if is_marked {
            self.station(slowest).count(Count::Marks, 1);
        }
        let mut late = 0;
        for link in links() {
            let timing = &self.timings[link];
            let mut losses = 0;
            while losses < MOST_LOSSES && self.random.happens(timing.loss) {
                losses += 1;
            }
            if losses > 0 {
                late += timing.retry * u64::from(losses);
                let place = self.layout.count(link, Count::Losses);
                let word = self.cells.word(place);
                word.fetch_add(losses.into(), std::sync::atomic::Ordering::Relaxed);
            }
        }
        let latency: u64 = ports.iter().map(|link| self.timings[*link].latency).sum();
        let due = now + wait.div_ceil(TICKS) + latency + path.latency + late;
        if parcel.is_ordered {
            self.flows[to].due = due;
        }
        Some(Passage { due, is_marked })
    }

    /// Adds the delay of a message that this NIC has sent, in nanoseconds: from its last packet's
    /// handing over to its arrival. `answered` is the NIC whose operation it answers, if it does.
    pub fn note_delay(&self, answered: Option<usize>, delay: u64) {
        // No NIC but the owner writes to the line of its transmitting link, and few write to the
        // line of a receiving link.
        let link = answered.map_or(2 * self.own, |nic| 2 * nic + 1);
        let station = self.station(link);
        station.count(Count::Messages, 1);
        station.count(Count::Delay, delay);
    }

    fn station(&self, link: usize) -> Station<'_, C> {
        Station {
            cells: &self.cells,
            layout: self.layout,
            classes: &self.classes,
            timing: &self.timings[link],
            link,
        }
    }

    /// For how many ticks a packet waits for the port of its target at most, whatever waits there.
    ///
    /// A source is held back to its share of the port, but not longer than all that was sent to the
    /// port takes. So the others get what a source leaves that pauses or that another link slows,
    /// and together the sources fill the port and no more.
    fn hold_back(&mut self, to: usize, parcel: &Parcel, now: u64) -> u64 {
        if self.congestion != Congestion::Endpoint || parcel.payload == 0 {
            return u64::MAX;
        }
        let now = now * TICKS;
        let timing = &self.timings[2 * to + 1];
        let sharing = self.sources.note(
            (&self.cells, self.layout),
            (to, self.own),
            (parcel.payload, timing.ticks_per_byte),
            &mut self.rivals[to],
            now,
        );
        let takes = timing.takes(parcel.bytes());
        let Some(sharing) = sharing else {
            return takes;
        };
        let pace = self.cells.word(self.layout.pace(to, self.own));
        occupy(pace, now, sharing * takes) - now
    }

    /// Lets what waits for each link of a path, beyond the bytes of its buffer, block the link
    /// before it: from the last link backwards.
    fn spread(&self, last: usize, before: impl Iterator<Item = usize>, class: usize, buffer: u64) {
        let mut after = self.station(last);
        for link in before {
            let before = self.station(link);
            let clock = after.clock(class).load(std::sync::atomic::Ordering::Relaxed);
            let to = clock.saturating_sub(after.timing.takes(buffer));
            let blocked = put_forward(before.clock(class), to);
            if blocked > 0 {
                before.count(Count::Blocked, blocked / TICKS);
            }
            after = before;
        }
    }

    /// Chooses the path of a packet.
    fn choose(&mut self, to: usize, parcel: &Parcel, now: u64) -> Option<Choice> {
        let switches = [self.switches[self.own], self.switches[to]];
        let known = self.routes[switches[1]].as_ref();
        let is_valid = known.is_some_and(|routes| routes.end.is_none_or(|end| now < end));
        if !is_valid {
            let routes = self.map.routes(switches[0], switches[1], now);
            self.routes[switches[1]] = Some(routes);
            // Other targets at that switch have paths of the same list.
            self.flows.iter_mut().for_each(|flow| flow.choice = None);
        }
        if !parcel.is_ordered {
            return self.cheapest(switches[1], parcel, now);
        }
        let flow = self.flows[to];
        let kept = flow.choice.filter(|choice| {
            let path = path(&self.routes[switches[1]], *choice);
            let latency = path.map_or(0, |path| path.latency);
            now.saturating_sub(flow.due) <= IDLE_LATENCIES * latency
        });
        let choice = kept.or_else(|| self.cheapest(switches[1], parcel, now));
        self.flows[to].choice = choice;
        choice
    }

    /// The path with the lowest cost: latency, and the longest queue of its links.
    fn cheapest(&mut self, switch: usize, parcel: &Parcel, now: u64) -> Option<Choice> {
        let routes = self.routes[switch].as_ref()?;
        let (minimal, detours) = (routes.minimal.len(), routes.detours.len());
        if minimal + detours == 0 {
            return None;
        }
        if minimal == 1 && (detours == 0 || self.routing == Routing::Minimal) {
            return Some(Choice::Minimal(0));
        }
        // Of equal ones any is taken.
        let start = self.random.at_most(minimal.saturating_sub(1) as u64) as usize;
        let detour = self.random.at_most(detours.saturating_sub(1) as u64) as usize;
        let routes = self.routes[switch].as_ref()?;
        let cost = |path: &Path| {
            let queues = path.links.iter();
            let queues = queues.map(|link| self.station(*link).queue(parcel.class, now * TICKS));
            queues.max().unwrap_or(0) / TICKS + path.latency
        };
        let shortest = (0..minimal).map(|index| (index + start) % minimal);
        let shortest = shortest.map(|index| (cost(&routes.minimal[index]), index));
        let shortest = shortest.min_by_key(|(cost, _)| *cost);
        let Some((cost_of_shortest, index)) = shortest else {
            return Some(Choice::Detour(detour));
        };
        if let (Routing::Adaptive { bias }, Some(path)) = (self.routing, routes.detours.get(detour))
            && cost(path) + bias < cost_of_shortest
        {
            return Some(Choice::Detour(detour));
        }
        Some(Choice::Minimal(index))
    }
}

fn path(routes: &Option<SwitchPaths>, choice: Choice) -> Option<&Path> {
    let routes = routes.as_ref()?;
    match choice {
        Choice::Minimal(index) => routes.minimal.get(index),
        Choice::Detour(index) => routes.detours.get(index),
    }
}

const UNIT: u64 = 16;
const BYTES_BITS: u32 = 20;
const MOST: u64 = (1 << BYTES_BITS) - 1;
const PERIOD_MASK: u64 = (1 << 24) - 1;

/// The shortest period: 2 ms.
const SHORTEST_PERIOD: u64 = 2_000_000 * TICKS;

/// The length of a period in round trips without load.
const ROUND_TRIPS: u64 = 20;

/// How often a NIC counts the sources of a target in a period.
const COUNTS_IN_PERIOD: u64 = 32;

/// A source counts when it sends more than this part of the rate of the port.
const LEAST_SHARE: f64 = 0.01;

/// Who sends to a target, as one NIC sees it.
#[derive(Clone, Copy, Default)]
struct Rivals {
    /// Number of sources, and until when it holds, in ticks.
    count: u64,
    valid_until: u64,
}

/// The sources of targets.
#[derive(Clone, Copy)]
struct TargetSources {
    /// In ticks.
    period: u64,
}

impl TargetSources {
    /// The sources on a fabric with this longest round trip, in nanoseconds.
    fn new(round_trip: u64) -> Self {
        Self { period: (ROUND_TRIPS * round_trip * TICKS).max(SHORTEST_PERIOD) }
    }

    /// Notes that `source` sends bytes to `target`, whose port takes this many ticks for a byte.
    /// Returns the number of sources among which the port is shared; `None` if this one sends too
    /// little to be held back.
    fn note(
        self,
        (cells, layout): (&impl Cells, CellLayout),
        (target, source): (usize, usize),
        (bytes, ticks_per_byte): (u64, f64),
        rivals: &mut Rivals,
        now: u64,
    ) -> Option<u64> {
        let own = cells.word(layout.sent(target, source));
        self.add(own, bytes, now);
        let rate = self.period as f64 / ticks_per_byte;
        let least = ((rate * LEAST_SHARE) as u64).min(UNIT * (MOST - 1));
        let counts = |source| {
            let sent = cells.word(layout.sent(target, source));
            let pace = cells.word(layout.pace(target, source));
            self.recent(sent, now) > least || queue(pace, now) > 0
        };
        if !counts(source) {
            return None;
        }
        if now >= rivals.valid_until {
            rivals.count = (0..layout.nics).filter(|source| counts(*source)).count() as u64;
            rivals.valid_until = now + self.period / COUNTS_IN_PERIOD;
        }
        Some(rivals.count.max(1))
    }

    fn add(self, word: &AtomicU64, bytes: u64, now: u64) {
        let period = now / self.period;
        let update = |word: u64| {
            let (before, current) = parts(word, period);
            let current = (current + bytes.div_ceil(UNIT)).min(MOST);
            (period & PERIOD_MASK) << (2 * BYTES_BITS) | before << BYTES_BITS | current
        };
        let mut before = word.load(Ordering::Relaxed);
        while let Err(other) = clocks::exchange(word, before, update(before)) {
            before = other;
        }
    }

    /// The bytes in the time of one period up to now, as if the source had sent evenly in the
    /// period before.
    fn recent(self, word: &AtomicU64, now: u64) -> u64 {
        let (before, current) = parts(word.load(Ordering::Relaxed), now / self.period);
        let left = self.period - now % self.period;
        let before = u128::from(before) * u128::from(left) / u128::from(self.period);
        (before as u64 + current) * UNIT
    }
}

/// The bytes of the period before this one and of this one, in units.
fn parts(word: u64, period: u64) -> (u64, u64) {
    let (before, current) = (word >> BYTES_BITS & MOST, word & MOST);
    let age = period.wrapping_sub(word >> (2 * BYTES_BITS)) & PERIOD_MASK;
    match age {
        0 => (before, current),
        1 => (current, 0),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_the_last_period_fade() {
        let sources = TargetSources::new(0);
        let (word, half) = (AtomicU64::new(0), SHORTEST_PERIOD / 2);
        sources.add(&word, 1600, 10);
        assert_eq!(sources.recent(&word, 20), 1600);
        assert_eq!(sources.recent(&word, SHORTEST_PERIOD + half), 800);
        sources.add(&word, 160, SHORTEST_PERIOD + half);
        assert_eq!(sources.recent(&word, SHORTEST_PERIOD + half), 960);
        assert_eq!(sources.recent(&word, 2 * SHORTEST_PERIOD), 160);
        assert_eq!(sources.recent(&word, 3 * SHORTEST_PERIOD), 0);
        sources.add(&word, u64::MAX / 2, 9 * SHORTEST_PERIOD);
        assert_eq!(sources.recent(&word, 9 * SHORTEST_PERIOD), MOST * UNIT);
    }
}
