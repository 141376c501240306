//! How packets occupy one link (load.md 4.2, 4.3).

use topology::{ClassRules, DirectedLink};

use super::cells::{CLASSES, CellLayout, Cells, Count, TICKS, occupy, queue};

/// The first class, which all fabrics have.
const BEST_EFFORT: usize = 0;

/// Bytes of a packet on the link in addition to its payload.
pub const HEADER: u64 = 64;

/// Bytes of the longest packet: one that is on the link already goes before one of a class with
/// priority.
const LONGEST_PACKET: u64 = 2112;

/// What is on its way.
#[derive(Clone, Copy, Debug)]
pub struct Parcel {
    /// The traffic class.
    pub class: usize,
    /// Bytes of payload; 0 for acknowledgements, and for requests of gets.
    pub payload: u64,
    /// Packets of its kind to this target must not overtake each other on different paths.
    pub is_ordered: bool,
}

impl Parcel {
    /// Returns the bytes on the link.
    pub fn bytes(&self) -> u64 {
        self.payload + HEADER
    }
}

/// A link as packets see it.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub ticks_per_byte: f64,
    /// In nanoseconds.
    pub latency: u64,
    pub loss: f64,
    pub retry: u64,
}

impl Timing {
    /// Returns the timing of a link.
    pub fn of(link: &DirectedLink) -> Self {
        Self {
            ticks_per_byte: 1e9 * TICKS as f64 / link.rate,
            latency: link.latency,
            loss: link.loss,
            retry: link.retry,
        }
    }

    /// Returns the ticks that bytes take on the link.
    pub fn takes(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.ticks_per_byte).round() as u64
    }
}

/// The traffic classes of a fabric.
#[derive(Clone, Copy, Debug)]
pub struct TrafficClasses {
    classes: [ClassRules; CLASSES],
    has_priority: bool,
}

impl TrafficClasses {
    pub fn new(classes: [ClassRules; CLASSES]) -> Self {
        Self { classes, has_priority: classes.iter().any(|class| class.priority) }
    }

    /// Returns the class in whose queue packets of a class wait: BEST_EFFORT if it has no share of
    /// its own.
    pub fn queue_of(&self, class: usize) -> usize {
        let own = class % CLASSES;
        self.classes[own].share.map_or(BEST_EFFORT, |_| own)
    }
}

/// A link, and what its clocks are part of.
pub struct Station<'a, C> {
    pub cells: &'a C,
    pub layout: CellLayout,
    pub classes: &'a TrafficClasses,
    pub timing: &'a Timing,
    /// Its number.
    pub link: usize,
}

impl<C: Cells> Station<'_, C> {
    /// Lets a packet occupy the link, and returns the ticks until it has left. Ceilings of classes
    /// apply to the links on which NICs transmit.
    pub fn occupy(&self, parcel: &Parcel, now: u64, is_transmit: bool) -> u64 {
        let bytes = parcel.bytes();
        self.count(Count::Bytes, bytes);
        self.count(Count::Packets, 1);
        let class = parcel.class % CLASSES;
        if parcel.payload == 0 {
            // Headers wait for each other only, but what they occupy is missing for data.
            let takes = self.timing.takes(bytes);
            occupy(self.clock(class), now, takes);
            let clock = self.cells.word(self.layout.header_clock(self.link));
            return occupy(clock, now, takes) - now;
        }
        let own = &self.classes.classes[class];
        let ceiling = own.ceiling.filter(|_| is_transmit).unwrap_or(1.0);
        if own.priority {
            return self.occupy_first(class, bytes, now, ceiling);
        }
        let share = self.share(class, now).min(ceiling);
        let takes = (bytes as f64 * self.timing.ticks_per_byte / share).round() as u64;
        occupy(self.clock(class), now, takes) - now
    }

    /// Lets a packet of a class with priority occupy the link.
    fn occupy_first(&self, class: usize, bytes: u64, now: u64, ceiling: f64) -> u64 {
        let others = || (0..CLASSES).filter(|other| *other != class);
        let longest = self.timing.takes(LONGEST_PACKET);
        let queues = others().map(|other| queue(self.clock(other), now));
        let before = queues.max().unwrap_or(0).min(longest);
        for other in others() {
            occupy(self.clock(other), now, self.timing.takes(bytes));
        }
        let takes = (bytes as f64 * self.timing.ticks_per_byte / ceiling).round() as u64;
        before + occupy(self.clock(class), now, takes) - now
    }

    /// Returns the share of the link that a class gets beside the other classes that wait for it.
    fn share(&self, class: usize, now: u64) -> f64 {
        // A packet with priority makes all classes wait for a moment.
        let least = if self.classes.has_priority { self.timing.takes(LONGEST_PACKET) } else { 0 };
        let share_of = |class: usize| self.classes.classes[class].share.unwrap_or_default();
        let others = (0..CLASSES).filter(|other| {
            *other != class
                && !self.classes.classes[*other].priority
                && queue(self.clock(*other), now) > least
        });
        let (own, others) = (share_of(class), others.map(share_of).sum::<f64>());
        own / (own + others)
    }

    /// Returns how long packets of a class with data wait for the link at this time, in ticks.
    pub fn queue(&self, class: usize, now: u64) -> u64 {
        queue(self.clock(class), now)
    }

    /// Returns the clock of a class.
    pub fn clock(&self, class: usize) -> &std::sync::atomic::AtomicU64 {
        self.cells.word(self.layout.clock(self.link, class))
    }

    /// Adds to a count of the link.
    pub fn count(&self, count: Count, amount: u64) {
        let place = self.layout.count(self.link, count);
        let word = self.cells.word(place);
        word.fetch_add(amount, std::sync::atomic::Ordering::Relaxed);
    }
}
