//! How packets occupy one link (load.md 4.2, 4.3), and the state of a fabric that all its NICs
//! share: words that they change one at a time. A process that is killed leaves each word as it was
//! before or after a change, and holds no lock.

use std::sync::atomic::{AtomicU64, Ordering};

use topology::{ClassRules, DirectedLink};

/// Ticks of the clocks for each nanosecond: bytes on a fast link take less than one.
pub const TICKS: u64 = 16;

/// The longest queue of a link, in ticks: a minute. A clock that is farther ahead is damaged, and
/// starts again.
const LONGEST_QUEUE: u64 = 60_000_000_000 * TICKS;

/// Number of traffic classes.
pub const CLASSES: usize = 4;

/// Words of a link. The first eight, which each packet uses, are one cache line.
const LINK_WORDS: usize = 16;

/// Words of a source at a target: what it sent lately, and until when it is held back.
const SOURCE_WORDS: usize = 2;

/// Where the words are: an array in tests, shared memory in programs.
pub trait Cells {
    /// A word, below [`CellLayout::words`].
    fn word(&self, index: usize) -> &AtomicU64;
}

/// A count of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Bytes = 5,
    Packets = 6,
    /// Packets with a mark of congestion, counted on the link for which they waited longest.
    Marks = 7,
    /// Packets that were damaged, and sent again.
    Losses = 8,
    /// Nanoseconds for which queues behind the link blocked it.
    Blocked = 9,
    /// Of the link on which a NIC transmits: nanoseconds that its packets with data took on the
    /// slowest link of their way.
    Filled = 10,
    /// Of the link on which a NIC transmits: messages that it sent, and their delays together in
    /// nanoseconds. Of the link on which it receives: the answers to it.
    Messages = 11,
    Delay = 12,
}

/// The places of the words of a fabric.
#[derive(Clone, Copy, Debug)]
pub struct CellLayout {
    pub links: usize,
    pub nics: usize,
}

impl CellLayout {
    pub fn words(self) -> usize {
        self.links * LINK_WORDS + self.nics * self.nics * SOURCE_WORDS
    }

    /// The place of the clock of a class on a link: when its last packet with data will have left,
    /// in ticks since the fabric was made.
    pub fn clock(self, link: usize, class: usize) -> usize {
        link * LINK_WORDS + class % CLASSES
    }

    /// The place of the clock of packets without data.
    fn header_clock(self, link: usize) -> usize {
        link * LINK_WORDS + CLASSES
    }

    /// The place of a count.
    pub fn count(self, link: usize, count: Count) -> usize {
        link * LINK_WORDS + count as usize
    }

    /// The place of what a source sent to a target lately (`sources`).
    pub fn sent(self, target: usize, source: usize) -> usize {
        self.links * LINK_WORDS + (target * self.nics + source) * SOURCE_WORDS
    }

    /// The place of the clock that holds a source back.
    pub fn pace(self, target: usize, source: usize) -> usize {
        self.sent(target, source) + 1
    }
}

/// Lets a packet that comes at the time `now` occupy the server of a clock, for `takes` ticks,
/// after the packets before it. Returns when it leaves.
pub fn occupy(clock: &AtomicU64, now: u64, takes: u64) -> u64 {
    let leaves = |clock: u64| {
        let begins = if clock > now.saturating_add(LONGEST_QUEUE) { now } else { clock.max(now) };
        begins + takes
    };
    let mut before = clock.load(Ordering::Relaxed);
    while let Err(other) = exchange(clock, before, leaves(before)) {
        before = other;
    }
    leaves(before)
}

/// Changes a word that others may have changed since. An error has its value now.
pub fn exchange(word: &AtomicU64, from: u64, to: u64) -> Result<u64, u64> {
    word.compare_exchange_weak(from, to, Ordering::Relaxed, Ordering::Relaxed)
}

/// Puts a clock forward to a time, and returns by how much.
pub fn put_forward(clock: &AtomicU64, to: u64) -> u64 {
    to.saturating_sub(clock.fetch_max(to, Ordering::Relaxed))
}

/// How long packets wait for a clock, at this time.
pub fn queue(clock: &AtomicU64, now: u64) -> u64 {
    let ahead = clock.load(Ordering::Relaxed).saturating_sub(now);
    if ahead > LONGEST_QUEUE { 0 } else { ahead }
}

/// The first class, which all fabrics have.
const BEST_EFFORT: usize = 0;

/// Bytes of a packet on the link in addition to its payload.
pub const HEADER: u64 = 64;

/// Bytes of the longest packet: one that is on the link already goes before one of a class with
/// priority.
const LONGEST_PACKET: u64 = 2112;

/// A packet on its way.
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
    /// The bytes on the link.
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
    pub fn of(link: &DirectedLink) -> Self {
        Self {
            ticks_per_byte: 1e9 * TICKS as f64 / link.rate,
            latency: link.latency,
            loss: link.loss,
            retry: link.retry,
        }
    }

    /// The ticks that bytes take on the link.
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

    /// The class in whose queue packets of a class wait: BEST_EFFORT if it has no share of its own.
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

    /// The share of the link that a class gets beside the other classes that wait for it.
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

    /// How long packets of a class with data wait for the link at this time, in ticks.
    pub fn queue(&self, class: usize, now: u64) -> u64 {
        queue(self.clock(class), now)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_occupy_a_clock_one_after_another() {
        let clock = AtomicU64::new(0);
        assert_eq!(occupy(&clock, 100, 10), 110);
        assert_eq!(occupy(&clock, 105, 10), 120);
        assert_eq!(queue(&clock, 105), 15);
        assert_eq!(occupy(&clock, 200, 10), 210, "after an idle time");
        assert_eq!(queue(&clock, 300), 0);
        assert_eq!((put_forward(&clock, 250), put_forward(&clock, 240)), (40, 0));
    }

    #[test]
    fn clock_far_in_the_future_starts_again() {
        let clock = AtomicU64::new(u64::MAX - 5);
        assert_eq!(queue(&clock, 100), 0);
        assert_eq!(occupy(&clock, 100, 10), 110);
        assert_eq!(queue(&clock, 100), 10);
        let long = AtomicU64::new(100 + LONGEST_QUEUE);
        assert_eq!(occupy(&long, 100, 10), 110 + LONGEST_QUEUE, "as long as a queue can be");
    }
}
