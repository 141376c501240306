//! The telemetry counters of a NIC (health.md 1): what its devices counted in all processes, and
//! what rises with the time.

use std::io;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use crate::counter_names::{self, Counter};
use crate::engine::telemetry::cycles;
use crate::environment::Nics;
use crate::fabric::{self, Directory, Health, Place, Settings};
use crate::runner;

/// Code words per second of a link that is up (health.md 1.7). They arrive whether packets do or
/// not.
const CODE_WORDS: u128 = 39_062_500;

// Numbers of `c_cntr_type`, or the first of several.
const GOOD_CODE_WORDS: u32 = 1668;
const CORRECTED: u32 = 1666;
const UNCORRECTED: u32 = 1667;
const ERRORS_OF_LANE: u32 = 1669;
const LANES: u32 = 8;
const REPLAYS: u32 = 1694;
const REPLAYS_OF_PEER: u32 = 1714;
const LINK_NACKS_SENT: u32 = 1685;
const RX_PAUSED: u32 = 1608;
const TX_PAUSED: u32 = 1616;
const NO_CONNECTION: u32 = 695;
const NO_RESPONSE_STATE: u32 = 697;
const WRITES: u32 = 1354;
const WRITES_BLOCKED: u32 = 1356;
const EVENTS: u32 = 800;
const EVENTS_DROPPED: u32 = 812;
/// Received requests: first packets, further packets, and packets of restricted transport.
const REQUESTS: [u32; 3] = [1175, 1177, 1178];
/// Packets with a mark of congestion, and the counters of those without one.
const MARKED: [(u32, u32, u32); 3] = [(1216, 1220, 4), (1224, 1232, 8), (1240, 1248, 8)];

/// The counters of a NIC at one moment.
pub struct NicCounters {
    /// In the order of [`counter_names::all`].
    values: Vec<u64>,
    /// The time since the NIC started, by which rates count.
    pub age: Duration,
    /// When they were read, since 1970.
    pub at: Duration,
}

/// Reads counters of the NIC with this number, which takes far less time than a
/// [`Snapshot`](crate::Snapshot). Returns `None` for a name that no counter has.
///
/// # Errors
/// EINVAL for invalid environment variables, ENOENT without such a NIC, errors of the file system.
pub fn counters(number: u32, names: &[&str]) -> io::Result<Vec<Option<u64>>> {
    let nics = Nics::from_environment().map_err(|_| Errno::INVAL)?;
    let settings = fabric::settings(number).map_err(|_| Errno::INVAL)?;
    let nid = nics.address(number).ok_or(Errno::NOENT)?;
    let place = Place::from_environment()?;
    let counters = NicCounters::read(|| Directory::lock_existing(&place), nid, &settings)?;
    let mut values = vec![None; names.len()];
    for (name, value) in counters.iter() {
        if let Some(place) = names.iter().position(|wanted| *wanted == name) {
            values[place] = Some(value);
        }
    }
    Ok(values)
}

impl NicCounters {
    /// Reads the counters of a NIC, whose link has these `settings`. `lock` locks the directory of
    /// the fabric.
    ///
    /// # Errors
    /// Errors of the directory.
    pub fn read(
        lock: impl Fn() -> Result<Directory, Errno>,
        nid: u32,
        settings: &Settings,
    ) -> Result<Self, Errno> {
        let totals = fabric::nic_counts(&lock, nid, || runner::publish_counts(nid))?;
        let age = Duration::from_nanos(fabric::now().saturating_sub(totals.started));
        // Through libc: a process that sees another time of day sees it in these stamps as well.
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut counters = Self { values: totals.values, age, at: at.unwrap_or_default() };
        let time_up = settings.faults.time_up(age);
        let code_words = time_up.as_nanos() * CODE_WORDS / 1_000_000_000;
        counters.add(GOOD_CODE_WORDS, code_words as u64);
        counters.add_health(&settings.health, time_up);
        if let Some(links) = lock().ok().and_then(|fabric| fabric::nic_link_counts(&fabric, nid)) {
            counters.add(TX_PAUSED, cycles(links.blocked));
            counters.add(REPLAYS, links.sent_again);
            counters.add(REPLAYS_OF_PEER, links.received_again);
        }
        for (class, delay) in settings.slowness.class_delays.iter().enumerate() {
            if !delay.is_zero() {
                counters.mark_class(class as u32);
            }
        }
        Ok(counters)
    }

    /// Adds what the faults of the NIC cause, whose link was up for this time.
    fn add_health(&mut self, health: &Health, time_up: Duration) {
        let in_time = |rate: f64| (rate * time_up.as_secs_f64()) as u64;
        let of = |share: f64, number: u64| (share * number as f64) as u64;
        let corrected = in_time(health.corrected);
        self.add(CORRECTED, corrected);
        for lane in 0..LANES {
            let rest = u64::from(u64::from(lane) < corrected % u64::from(LANES));
            self.add(ERRORS_OF_LANE + lane, corrected / u64::from(LANES) + rest);
        }
        for number in [UNCORRECTED, REPLAYS_OF_PEER, LINK_NACKS_SENT] {
            self.add(number, in_time(health.uncorrected));
        }
        self.add(RX_PAUSED, cycles(in_time(health.rx_paused * 1e9)));
        self.add(TX_PAUSED, cycles(in_time(health.tx_paused * 1e9)));
        let requests = REQUESTS.map(|number| self.value(number));
        let requests = requests.into_iter().fold(0, u64::saturating_add);
        for number in [NO_CONNECTION, NO_RESPONSE_STATE] {
            self.add(number, of(health.full, requests));
        }
        let blocked = self.value(WRITES).saturating_mul(health.slow_host);
        self.add(WRITES_BLOCKED, blocked);
        self.add(EVENTS_DROPPED, of(health.lost_events, self.value(EVENTS)));
        for (marked, unmarked, count) in MARKED {
            for index in 0..count {
                let packets = of(health.congestion, self.value(unmarked + index));
                self.add(marked + index, packets);
                self.subtract(unmarked + index, packets);
            }
        }
    }

    /// Adds marks of congestion to all packets of a class that have none: switches mark packets of
    /// a class that queues.
    fn mark_class(&mut self, class: u32) {
        let [of_pool, of_requests, of_responses] = MARKED;
        for ((marked, unmarked, _), priority) in
            [(of_requests, 2 * class), (of_responses, 2 * class + 1)]
        {
            let packets = self.value(unmarked + priority);
            for (to, from) in [(marked + priority, unmarked + priority), (of_pool.0, of_pool.1)] {
                self.add(to, packets);
                self.subtract(from, packets);
            }
        }
    }

    /// Returns the value of a counter, by its number; 0 for a number without a counter.
    pub fn value(&self, number: u32) -> u64 {
        counter_names::place(number).map_or(0, |place| self.values[place])
    }

    /// Returns all counters with their values.
    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> {
        let names = counter_names::all().iter().map(Counter::name);
        names.zip(self.values.iter().copied())
    }

    fn add(&mut self, number: u32, amount: u64) {
        if let Some(place) = counter_names::place(number) {
            self.values[place] = self.values[place].saturating_add(amount);
        }
    }

    fn subtract(&mut self, number: u32, amount: u64) {
        if let Some(place) = counter_names::place(number) {
            self.values[place] = self.values[place].saturating_sub(amount);
        }
    }
}
