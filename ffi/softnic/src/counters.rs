//! The telemetry counters of a NIC (health.md 1): what its devices counted in all processes, and
//! what rises with the time.

use std::io;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use crate::counter_names::{self, NicCounter};
use crate::engine::telemetry::cycles;
use crate::environment::Nics;
use crate::fabric::{self, Directory, FabricDirectory, Health, LinkSettings};
use crate::runner;

/// Code words per second of a link that is up (health.md 1.7). They arrive whether packets do or
/// not.
const CODE_WORDS: u128 = 39_062_500;

/// The lanes whose errors have a counter each.
const LANES: u64 = 8;

/// The counters of packets with a mark of congestion, and of those without one: of all packets, of
/// requests and of responses by priority.
const MARKED: [[&str; 2]; 3] = [
    ["ixe_pool_ecn_pkts_*", "ixe_pool_no_ecn_pkts_*"],
    ["ixe_tc_req_ecn_pkts_*", "ixe_tc_req_no_ecn_pkts_*"],
    ["ixe_tc_rsp_ecn_pkts_*", "ixe_tc_rsp_no_ecn_pkts_*"],
];

/// The counters of a NIC at one moment.
pub struct CounterSnapshot {
    /// In the order of [`counter_names::all`].
    values: Vec<u64>,
    /// The time since the NIC started, by which rates count.
    pub age: Duration,
    /// When they were read, by the clock of ages.
    pub read_at: Duration,
    /// The same since 1970.
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
    let place = FabricDirectory::from_environment()?;
    let counters = CounterSnapshot::read(|| Directory::lock_existing(&place), nid, &settings)?;
    let mut values = vec![None; names.len()];
    for (name, value) in counters.iter() {
        if let Some(place) = names.iter().position(|wanted| *wanted == name) {
            values[place] = Some(value);
        }
    }
    Ok(values)
}

impl CounterSnapshot {
    /// Reads the counters of a NIC, whose link has these `settings`. `lock` locks the directory of
    /// the fabric.
    ///
    /// # Errors
    /// Errors of the directory.
    pub fn read(
        lock: impl Fn() -> Result<Directory, Errno>,
        nid: u32,
        settings: &LinkSettings,
    ) -> Result<Self, Errno> {
        let totals = fabric::nic_counts(&lock, nid, || runner::publish_counts(nid))?;
        let read_at = Duration::from_nanos(fabric::now());
        let age = read_at.saturating_sub(Duration::from_nanos(totals.started));
        // Through libc: a process that sees another time of day sees it in these stamps as well.
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut counters = Self { values: totals.values, age, read_at, at: at.unwrap_or_default() };
        let time_up = settings.faults.time_up(age);
        let code_words = time_up.as_nanos() * CODE_WORDS / 1_000_000_000;
        counters.add("hni_pcs_good_cw", code_words as u64);
        counters.add_health(&settings.health, time_up);
        if let Some(links) = lock().ok().and_then(|fabric| fabric::nic_link_counts(&fabric, nid)) {
            counters.add("hni_tx_paused_0", cycles(links.blocked));
            counters.add("hni_llr_tx_replay_event", links.sent_again);
            counters.add("hni_llr_rx_replay_event", links.received_again);
        }
        for (class, delay) in settings.slowness.class_delays.iter().enumerate() {
            if !delay.is_zero() {
                counters.mark_class(class);
            }
        }
        Ok(counters)
    }

    /// Adds what the faults of the NIC cause, whose link was up for this time.
    fn add_health(&mut self, health: &Health, time_up: Duration) {
        let in_time = |rate: f64| (rate * time_up.as_secs_f64()) as u64;
        let part = |share: f64, number: u64| (share * number as f64) as u64;
        let corrected = in_time(health.corrected);
        self.add("hni_pcs_corrected_cw", corrected);
        for lane in 0..LANES {
            let rest = u64::from(lane < corrected % LANES);
            self.add(&format!("hni_pcs_fecl_errors_{lane}"), corrected / LANES + rest);
        }
        let uncorrected = in_time(health.uncorrected);
        self.add("hni_pcs_uncorrected_cw", uncorrected);
        self.add("hni_llr_rx_replay_event", uncorrected);
        self.add("hni_llr_tx_nack_ctl_os", uncorrected);
        self.add("hni_rx_paused_0", cycles(in_time(health.rx_paused * 1e9)));
        self.add("hni_tx_paused_0", cycles(in_time(health.tx_paused * 1e9)));
        let requests = [
            "ixe_rx_ptl_unrestricted_pkt",
            "ixe_rx_ptl_continuation_pkt",
            "ixe_rx_ptl_restricted_pkt",
        ]
        .map(|name| self.value(name))
        .into_iter()
        .fold(0, u64::saturating_add);
        let refused = part(health.full, requests);
        self.add("pct_no_tct_nacks", refused);
        self.add("pct_no_trs_nacks", refused);
        let writes = self.value("parbs_tarb_pi_posted_pkts");
        self.add("parbs_tarb_pi_posted_blocked_cnt", writes.saturating_mul(health.slow_host));
        let events = self.value("ee_events_enqueued_cntr_0");
        self.add("ee_events_dropped_ordinary_cntr_0", part(health.lost_events, events));
        for [marked, unmarked] in MARKED.map(|names| names.map(counter_names::places)) {
            for (marked, unmarked) in marked.zip(unmarked) {
                self.mark(marked, unmarked, part(health.congestion, self.values[unmarked]));
            }
        }
    }

    /// Adds marks of congestion to all packets of a class that have none: switches mark packets of
    /// a class that queues.
    fn mark_class(&mut self, class: usize) {
        let [pool, requests, responses] = MARKED.map(|names| names.map(counter_names::places));
        for ([marked, unmarked], priority) in [(requests, 2 * class), (responses, 2 * class + 1)] {
            let packets = self.values[unmarked.start + priority];
            self.mark(marked.start + priority, unmarked.start + priority, packets);
            self.mark(pool[0].start, pool[1].start, packets);
        }
    }

    /// Moves packets from a counter of those without a mark to one of those with a mark.
    fn mark(&mut self, marked: usize, unmarked: usize, packets: u64) {
        self.values[marked] = self.values[marked].saturating_add(packets);
        self.values[unmarked] = self.values[unmarked].saturating_sub(packets);
    }

    pub fn value(&self, name: &str) -> u64 {
        counter_names::places(name).map(|place| self.values[place]).sum()
    }

    /// The values in the order of [`counter_names::all`].
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> {
        let names = counter_names::all().iter().map(NicCounter::name);
        names.zip(self.values.iter().copied())
    }

    fn add(&mut self, name: &str, amount: u64) {
        let places = counter_names::places(name);
        debug_assert!(!places.is_empty(), "no counter {name}");
        for place in places {
            self.values[place] = self.values[place].saturating_add(amount);
        }
    }
}
