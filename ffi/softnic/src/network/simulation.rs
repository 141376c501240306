//! Flows on a fabric in one process, on a clock that only events move.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use topology::Topology;

use super::{Cells, Count, Network, Parcel};
use crate::random::Random;

/// The state of a fabric in private memory.
type FabricWords = Arc<Vec<AtomicU64>>;

impl Cells for FabricWords {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self[index]
    }
}

/// Puts from one NIC to another, some of them outstanding at any time.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub from: usize,
    pub to: usize,
    pub payload: u64,
    pub window: u64,
    pub class: usize,
    /// Gets instead of puts: the data comes back with the answer.
    pub is_get: bool,
    /// The next packets follow when all of the window are answered, after this many nanoseconds,
    /// as tools issue lists; `None` if each answer is followed by a packet.
    pub pause: Option<u64>,
}

impl Flow {
    /// A flow of full packets.
    pub fn new(from: usize, to: usize, window: u64) -> Self {
        Self { from, to, payload: 2048, window, class: 0, is_get: false, pause: None }
    }

    /// A flow of lists of full packets, with a pause before each.
    pub fn lists(from: usize, to: usize, window: u64, pause: u64) -> Self {
        Self { pause: Some(pause), ..Self::new(from, to, window) }
    }

    /// A victim: single small puts, one after another.
    pub fn small(from: usize, to: usize) -> Self {
        Self { payload: 8, window: 1, ..Self::new(from, to, 1) }
    }
}

/// The results of a flow in the measured time.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Payload in bytes per second.
    pub rate: f64,
    /// Times until the answers, in nanoseconds.
    pub round_trips: Vec<u64>,
    /// Marked packets with data, and all.
    pub marked: u64,
    pub packets: u64,
    /// Packets for which there was no path.
    pub undeliverable: u64,
}

impl Measured {
    /// The round trip that is longer than this share of all, in microseconds.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.round_trips.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1).expect("at least one round trip");
        sorted[(last as f64 * share).round() as usize] as f64 / 1e3
    }
}

/// A packet on its way, or a pause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SimulatedArrival {
    due: u64,
    /// Keeps packets in order that arrive at the same time.
    number: u64,
    flow: usize,
    kind: ArrivalKind,
    begun: u64,
}

/// The kind of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ArrivalKind {
    Request,
    Answer,
    /// Nothing: the end of a pause.
    Pause,
}

/// A packet that is sent.
struct Shipment {
    from: usize,
    to: usize,
    payload: u64,
    now: u64,
    /// Its arrival, except for when.
    arrival: SimulatedArrival,
}

/// A fabric, and the flows on it.
pub struct Simulation {
    words: FabricWords,
    layout: super::CellLayout,
    networks: Vec<Network<FabricWords>>,
    arrivals: BinaryHeap<Reverse<SimulatedArrival>>,
    /// When the last packet of a kind between two NICs is due.
    last: HashMap<(usize, usize, bool), u64>,
    number: u64,
}

impl Simulation {
    /// Makes the fabric that a file with these lines describes.
    pub fn new(lines: &str) -> Self {
        Self::of(&Topology::from_file("test", lines).expect("a fabric"))
    }

    /// Makes a fabric.
    pub fn of(topology: &Topology) -> Self {
        let layout = Network::layout(topology);
        let words: FabricWords = Arc::new((0..layout.words()).map(|_| AtomicU64::new(0)).collect());
        let nic_network = |nic| Network::new(topology, words.clone(), nic, Random(nic as u64));
        Self {
            networks: (0..topology.nics.len()).map(nic_network).collect(),
            layout,
            words,
            arrivals: BinaryHeap::new(),
            last: HashMap::new(),
            number: 0,
        }
    }

    /// Sends a full packet that stays in order. Returns when it arrives.
    pub fn send_ordered(&mut self, from: usize, to: usize, now: u64) -> u64 {
        let parcel = Parcel { class: 0, payload: 2048, is_ordered: true };
        let passage = self.networks[from].send(to, &parcel, now);
        passage.expect("a path").due
    }

    /// Runs flows from the time 0, and measures from one time to another, in nanoseconds.
    pub fn run(&mut self, flows: &[Flow], from: u64, to: u64) -> Vec<Measured> {
        let mut measured = vec![Measured::default(); flows.len()];
        let mut unanswered: Vec<u64> = flows.iter().map(|flow| flow.window).collect();
        // One packet of each in turn, so that no link carries one window after another.
        for round in 0..flows.iter().map(|flow| flow.window).max().unwrap_or(0) {
            for (number, flow) in flows.iter().enumerate() {
                if round < flow.window {
                    self.issue(number, flow, 0, &mut measured[number], from);
                }
            }
        }
        while let Some(Reverse(arrival)) = self.arrivals.pop() {
            if arrival.due >= to {
                break;
            }
            let (number, now) = (arrival.flow, arrival.due);
            let (flow, measured) = (&flows[number], &mut measured[number]);
            if arrival.kind == ArrivalKind::Pause {
                for _ in 0..flow.window {
                    self.issue(number, flow, now, measured, from);
                }
                continue;
            }
            if arrival.kind == ArrivalKind::Request {
                let answer = Shipment {
                    from: flow.to,
                    to: flow.from,
                    payload: if flow.is_get { flow.payload } else { 0 },
                    now,
                    arrival: SimulatedArrival { kind: ArrivalKind::Answer, ..arrival },
                };
                self.send(&answer, flow.class, measured, from);
                continue;
            }
            if now >= from {
                measured.rate += flow.payload as f64 * 1e9 / (to - from) as f64;
                measured.round_trips.push(now - arrival.begun);
            }
            let Some(pause) = flow.pause else {
                self.issue(number, flow, now, measured, from);
                continue;
            };
            unanswered[number] -= 1;
            if unanswered[number] == 0 {
                unanswered[number] = flow.window;
                self.arrivals.push(Reverse(SimulatedArrival {
                    due: now + pause,
                    kind: ArrivalKind::Pause,
                    ..arrival
                }));
            }
        }
        self.arrivals.clear();
        measured
    }

    fn issue(&mut self, number: usize, flow: &Flow, now: u64, measured: &mut Measured, from: u64) {
        let request = Shipment {
            from: flow.from,
            to: flow.to,
            payload: if flow.is_get { 0 } else { flow.payload },
            now,
            arrival: SimulatedArrival {
                due: 0,
                number: 0,
                flow: number,
                kind: ArrivalKind::Request,
                begun: now,
            },
        };
        self.send(&request, flow.class, measured, from);
    }

    fn send(&mut self, shipment: &Shipment, class: usize, measured: &mut Measured, begin: u64) {
        let Shipment { from, to, payload, now, arrival } = *shipment;
        let parcel = Parcel { class, payload, is_ordered: false };
        let Some(passage) = self.networks[from].send(to, &parcel, now) else {
            measured.undeliverable += 1;
            return;
        };
        if payload > 0 && now >= begin {
            measured.packets += 1;
            measured.marked += u64::from(passage.is_marked);
        }
        let last = self.last.entry((from, to, payload > 0)).or_default();
        *last = passage.due.max(*last);
        self.number += 1;
        self.arrivals.push(Reverse(SimulatedArrival {
            due: *last,
            number: self.number,
            ..arrival
        }));
    }

    pub fn count(&self, link: usize, count: Count) -> u64 {
        self.words[self.layout.count(link, count)].load(Ordering::Relaxed)
    }
}
