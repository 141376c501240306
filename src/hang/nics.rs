//! The NICs of a job over some seconds (hangs.md 3): whether they move data, what is outstanding,
//! and how near their services are to their limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use cxi::RESOURCES;
use facts::device::DeviceName;
use health::findings::NicEvidence;
use health::link;
use node::backend;
use node::machine::Machine;
use node::nic::counters::{CounterChanges, CounterReadings, NicFacts};
use node::nic::files::Files;
use node::nic::link_speed::LinkSpeed;

/// Part of the speed of the link above which data is moving.
const BUSY_SHARE: f64 = 0.001;

/// Packets per second from which on data is moving.
const BUSY_PACKETS: f64 = 1000.0;

/// Speed of a link whose mode is not known, in Gb/s.
const USUAL_SPEED: f64 = 200.0;

/// Packets of Portals messages, of all processes.
const PORTALS_PACKETS: [&str; 4] =
    ["pct_req_ordered", "pct_req_unordered", "pct_responses_received", "pct_ptls_response"];

/// Packets of all traffic classes, Ethernet among them.
const ALL_PACKETS: [&str; 2] = ["hni_pkts_sent_by_tc_", "hni_pkts_recv_by_tc_"];

const OCTETS: [&str; 2] = ["hni_sts_tx_ok_octets", "hni_sts_rx_ok_octets"];

const PAUSED: [&str; 2] = ["hni_tx_paused_", "hni_rx_paused_"];

/// Tables of the transport, each with the telemetry counter that the retry handler's file may
/// stand for.
const TABLES: [&str; 7] = ["spt", "srb", "trs", "mst", "sct", "smt", "tct"];

/// Counters whose growth says something; those that end with `_` are numbered.
const TELLING: [&str; 21] = [
    "retry_handler/spt_timeouts",
    "retry_handler/pkts_cancelled_o",
    "retry_handler/pkts_cancelled_u",
    "retry_handler/connections_cancelled",
    "retry_handler/nacks",
    "retry_handler/nack_no_target_trs",
    "retry_handler/nack_no_target_mst",
    "retry_handler/nack_no_target_conn",
    "retry_handler/nack_resource_busy",
    "pct_no_trs_nacks",
    "pct_no_mst_nacks",
    "pct_no_tct_nacks",
    "lpe_err_pt_disabled_eq_full",
    "lpe_err_pt_disabled_cant_alloc_unexpected",
    "lpe_err_no_space_append",
    "lpe_err_no_space_net",
    "lpe_net_match_request_",
    "ee_events_dropped_rsrvn_cntr_",
    "ee_events_dropped_ordinary_cntr_",
    "rmu_ptl_invld_vni_cntr",
    "rmu_ptl_no_ptlte_cntr",
];

const PARKED: &str = "retry_handler/parked_nids";

/// Number of counters in each numbered row.
const NUMBERS: u32 = 8;

facts::named_enum! {
    /// Whether a NIC moves data, of all processes together.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Motion {
        /// At least 1000 packets a second, or 0.1 % of the speed of the link.
        Busy = "moves data",
        /// Some packets: control messages, or polling by others.
        Trickle = "few packets",
        /// No packet of a Portals message.
        Silent = "silent",
        /// Its counters are not readable, or were not renewed.
        #[default]
        Unknown = "not readable",
    }
    /// Its name in texts.
    pub fn name(self);
}

/// Entries of a table of the transport that were in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TableUse {
    /// At the first reading.
    pub first: u64,
    /// At the last reading.
    pub last: u64,
}

/// A resource of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ServiceUse {
    /// The service.
    pub service: u32,
    /// Name of the resource, such as TXQ.
    pub resource: String,
    /// How many its processes use together.
    pub in_use: u16,
    /// Its limit.
    pub limit: u16,
}

/// A NIC of the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NicState {
    /// Its name.
    pub device: String,
    /// Whether it is a software NIC.
    pub is_software: bool,
    /// Whether its link is up.
    pub is_up: Option<bool>,
    /// Whether it moves data, of all processes together.
    pub motion: Motion,
    /// Time between the first and the last reading of its counters, in seconds.
    pub seconds: Option<f64>,
    /// Packets per second, sent and received: of Portals messages, or of all if these are not
    /// counted.
    pub packets_per_s: Option<f64>,
    /// Bytes per second, sent and received.
    pub bytes_per_s: Option<f64>,
    /// Answers to packets of this NIC that came between the readings.
    pub answers: Option<u64>,
    /// Whether the driver listens to the retry handler (pct_eq).
    pub has_retry_handler: Option<bool>,
    /// Tables of the transport, by name: spt has packets without an answer.
    pub tables: BTreeMap<String, TableUse>,
    /// Peers that the retry handler regards as down.
    pub parked_nids: Option<u64>,
    /// Counters that tell something and have grown, each with its growth.
    pub grown: BTreeMap<String, u64>,
    /// Events that were lost since the driver was loaded.
    pub dropped_events: u64,
    /// Part of the time in which the switch held off this NIC.
    pub held_off_by_switch: Option<f64>,
    /// Part of the time in which this NIC held off the switch.
    pub holds_off_switch: Option<f64>,
    /// Services that processes use, with the resource that is nearest to its limit.
    pub services: Vec<ServiceUse>,
    /// What is not readable.
    pub unreadable: Vec<String>,
}

/// Readings of a NIC.
pub struct NicWatch {
    device: DeviceName,
    machine: Machine,
    facts: NicFacts,
    readings: Vec<CounterReadings>,
    /// The last files. The counters of software NICs begin anew if nothing holds them.
    files: Option<Files>,
}

impl NicWatch {
    /// Begins to watch a NIC.
    pub fn begin(device: DeviceName, machine: &Machine) -> Self {
        let facts = NicFacts::default();
        let (machine, readings) = (machine.clone(), Vec::new());
        Self { device, machine, facts, readings, files: None }
    }

    /// Returns its name.
    pub fn name(&self) -> String {
        self.device.to_string()
    }

    /// Reads its counters.
    pub fn read(&mut self) {
        let names = counter_names();
        let is_wanted = |name: &str| names.iter().any(|wanted| wanted == name);
        let files = backend::files_of_counters(self.device, &self.machine, is_wanted);
        let Some(files) = files.ok().filter(Files::exist) else { return };
        let is_software = backend::is_software(self.device, &self.machine);
        self.facts = NicFacts::read(&files, self.device.to_string(), is_software);
        self.readings.push(CounterReadings::of(&files, names));
        self.files = Some(files);
    }

    /// Returns what the readings say. `service` is the job's service on this NIC, if its
    /// environment names one.
    pub fn state(&self, service: Option<u32>) -> NicState {
        let facts = NicFacts { device: self.device.to_string(), ..self.facts.clone() };
        let mut state = NicState::new(facts, &self.readings);
        let Some(files) = &self.files else {
            state.unreadable.push(format!("files of {}", self.device));
            return state;
        };
        state.is_up = link::is_up(files);
        state.has_retry_handler = has_retry_handler(files);
        match services(self.device, service) {
            Some(services) => state.services = services,
            None => state.unreadable.push(format!("services of {}", self.device)),
        }
        state
    }
}

/// Whether a NIC has a retry handler; `None` for a virtual function, whose packets its NIC repeats.
fn has_retry_handler(files: &Files) -> Option<bool> {
    if files.is_virtual_function() {
        return None;
    }
    files.number("properties/pct_eq").map(|number| number > 0)
}

fn counter_names() -> Vec<String> {
    let tables = TABLES.iter().flat_map(|table| [telemetry(table), retry_handler(table)]);
    let mut names: Vec<String> = tables.collect();
    let plain = PORTALS_PACKETS.iter().chain(&OCTETS).chain([&PARKED]);
    for name in plain.chain(&ALL_PACKETS).chain(&PAUSED).chain(&TELLING) {
        if name.ends_with('_') {
            names.extend((0..NUMBERS).map(|number| format!("{name}{number}")));
        } else {
            names.push((*name).to_owned());
        }
    }
    names
}

fn telemetry(table: &str) -> String {
    format!("pct_prf_{table}_status_{table}_in_use")
}

fn retry_handler(table: &str) -> String {
    format!("retry_handler/{table}_in_use")
}

impl NicState {
    /// Returns what the readings of counters say, the earliest first.
    pub fn new(facts: NicFacts, readings: &[CounterReadings]) -> Self {
        let (device, is_software) = (facts.device.clone(), facts.is_software);
        let mut state = Self { device, is_software, ..Self::default() };
        let (Some(first), Some(last)) = (readings.first(), readings.last()) else { return state };
        let changes = CounterChanges::between(facts, first, last);
        let longest = changes.iter().filter_map(|(_, change)| change.within()).max();
        state.seconds = longest.map(|time| time.as_secs_f64()).filter(|seconds| *seconds > 0.0);
        for table in TABLES {
            let names = [telemetry(table), retry_handler(table)];
            let found = names.iter().find_map(|name| Some((first.get(name)?, last.get(name)?)));
            if let Some((first, last)) = found {
                let in_use = TableUse { first: first.value, last: last.value };
                state.tables.insert(table.to_owned(), in_use);
            }
        }
        state.parked_nids = last.get(PARKED).map(|reading| reading.value);
        let dropped = |prefix: &&str| prefix.starts_with("ee_events_dropped");
        let dropped = TELLING.iter().filter(|prefix| dropped(prefix));
        let dropped =
            dropped.flat_map(|prefix| (0..NUMBERS).map(move |at| format!("{prefix}{at}")));
        state.dropped_events = dropped.filter_map(|name| Some(last.get(&name)?.value)).sum();
        if state.seconds.is_none() {
            return state;
        }
        for name in TELLING {
            if let Some(grown @ 1..) = growth(&changes, name) {
                state.grown.insert(name.trim_end_matches('_').to_owned(), grown);
            }
        }
        let evidence = NicEvidence { changes: &changes, packets: None };
        let [held_off, holds_off] = PAUSED.map(|prefix| evidence.longest_share(prefix));
        (state.held_off_by_switch, state.holds_off_switch) = (held_off, holds_off);
        state.move_data(&changes);
        state
    }

    /// Says whether data moves.
    fn move_data(&mut self, changes: &CounterChanges) {
        let rate = |names: &[&str]| {
            let rates = names.iter().filter_map(|name| {
                let count = growth(changes, name)?;
                Some(count as f64 / self.seconds?)
            });
            rates.reduce(|one, other| one + other)
        };
        let all = rate(&ALL_PACKETS);
        let bytes = rate(&OCTETS);
        let packets = rate(&PORTALS_PACKETS).or(all);
        let speed = changes.nic.link_speed.as_deref().and_then(LinkSpeed::of);
        let gigabits = speed.map_or(USUAL_SPEED, |speed| speed.gigabits_per_s);
        let is_busy = bytes.is_some_and(|bytes| bytes > BUSY_SHARE * gigabits * 1e9 / 8.0)
            || all.or(packets).is_some_and(|packets| packets >= BUSY_PACKETS);
        self.motion = match packets {
            _ if is_busy => Motion::Busy,
            None => Motion::Unknown,
            Some(0.0) => Motion::Silent,
            Some(_) => Motion::Trickle,
        };
        (self.packets_per_s, self.bytes_per_s) = (packets, bytes);
        self.answers = growth(changes, "pct_responses_received");
    }

    /// The entries in use of a table, at the last reading.
    pub fn in_use(&self, table: &str) -> u64 {
        self.tables.get(table).map_or(0, |table| table.last)
    }

    /// Whether a table had the same entries in use at both readings, at least one.
    pub fn is_stuck(&self, table: &str) -> bool {
        self.tables.get(table).is_some_and(|table| table.last > 0 && table.first == table.last)
    }

    /// Whether the tables are readable, and nothing is outstanding.
    pub fn has_nothing_outstanding(&self) -> bool {
        !self.tables.is_empty()
            && ["spt", "srb", "trs", "mst"].iter().all(|table| self.in_use(table) == 0)
    }

    fn grown<'a>(&'a self, beginnings: &'a [&str]) -> impl Iterator<Item = (&'a String, u64)> {
        let is_meant = |name: &str| beginnings.iter().any(|start| name.starts_with(start));
        let grown = self.grown.iter().filter(move |(name, _)| is_meant(name));
        grown.map(|(name, count)| (name, *count))
    }

    /// Returns by how much the counters whose names begin so have grown together.
    pub fn count(&self, beginnings: &[&str]) -> u64 {
        self.grown(beginnings).fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// The counters that have grown whose names begin so, with their growth.
    pub fn growth(&self, beginnings: &[&str]) -> Option<String> {
        let grown = self.grown(beginnings);
        let texts: Vec<String> = grown.map(|(name, count)| format!("{name} +{count}")).collect();
        (!texts.is_empty()).then(|| format!("{} {}", self.device, texts.join(", ")))
    }
}

/// Returns by how much a counter, or the counters of a row, have grown. A counter that the driver
/// has not renewed says nothing.
fn growth(changes: &CounterChanges, name: &str) -> Option<u64> {
    let is_new = |change: &node::nic::counter::CounterChange| {
        change.within().is_some_and(|time| !time.is_zero())
    };
    if name.ends_with('_') {
        let row = changes.numbered(name).map(|(_, change)| change).filter(is_new);
        row.filter_map(|change| change.count()).reduce(u64::saturating_add)
    } else {
        changes.of(name).filter(is_new)?.count()
    }
}

/// The services of a NIC that processes use, each with the resource that is nearest to its limit;
/// `None` if they are not readable. This opens the device, which takes no queue of the job.
fn services(device: DeviceName, service: Option<u32>) -> Option<Vec<ServiceUse>> {
    let opened = backend::open(device, None).ok()?;
    let mut nearest = Vec::new();
    for found in opened.services().ok()?? {
        if service.is_some_and(|id| id != found.id) {
            continue;
        }
        let Some(in_use) = opened.in_use(found.id).ok()? else { continue };
        let uses = (0..RESOURCES.len()).filter(|place| found.is_limited(*place));
        let uses = uses.filter_map(|place| {
            let (in_use, limit) =
                (in_use[place].filter(|count| *count > 0)?, found.limit(place).max);
            let resource = RESOURCES[place].to_owned();
            (limit > 0).then_some(ServiceUse { service: found.id, resource, in_use, limit })
        });
        nearest.extend(uses.max_by(|one, other| one.share().total_cmp(&other.share())));
    }
    Some(nearest)
}

impl ServiceUse {
    /// The part of the limit that is in use.
    pub fn share(&self) -> f64 {
        f64::from(self.in_use) / f64::from(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use node::nic::counter::CounterReading;

    use super::*;

    /// The state of a NIC after 4 s, with the values of counters before and after.
    fn state(values: &[(&str, u64, u64)]) -> NicState {
        let reading = |value, seconds| CounterReading {
            value,
            at: Duration::from_secs(seconds),
            stamp: None,
        };
        let before =
            values.iter().map(|(name, first, _)| ((*name).to_owned(), reading(*first, 10)));
        let after = values.iter().map(|(name, _, last)| ((*name).to_owned(), reading(*last, 14)));
        let facts = NicFacts { device: "cxi0".into(), ..NicFacts::default() };
        NicState::new(facts, &[before.collect(), after.collect()])
    }

    #[test]
    fn packets_and_bytes_say_whether_data_moves() {
        for (values, expected) in [
            (vec![], Motion::Unknown),
            (vec![("pct_req_ordered", 7, 7)], Motion::Silent),
            // Ethernet packets are none of the job.
            (vec![("pct_req_ordered", 7, 7), ("hni_pkts_sent_by_tc_0", 0, 40)], Motion::Silent),
            (vec![("hni_pkts_sent_by_tc_3", 0, 40)], Motion::Trickle),
            (vec![("pct_req_ordered", 7, 8)], Motion::Trickle),
            (vec![("pct_responses_received", 0, 3999)], Motion::Trickle),
            (vec![("pct_responses_received", 0, 4000)], Motion::Busy),
            (vec![("hni_pkts_recv_by_tc_1", 0, 4000)], Motion::Busy),
            // 0.1 % of 200 Gb/s are 25 MB/s.
            (
                vec![("pct_req_ordered", 0, 1), ("hni_sts_tx_ok_octets", 0, 100_000_000)],
                Motion::Trickle,
            ),
            (
                vec![("pct_req_ordered", 0, 1), ("hni_sts_tx_ok_octets", 0, 100_000_001)],
                Motion::Busy,
            ),
        ] {
            assert_eq!(state(&values).motion, expected, "{values:?}");
        }
    }

    #[test]
    fn virtual_functions_have_no_retry_handler_of_their_own() {
        use node::nic::testing::MadeUp;
        for (device, queue, expected) in
            [("0x0371", "0", Some(false)), ("0x0371", "7", Some(true)), ("0x0372", "0", None)]
        {
            let nic = MadeUp::new(&[("device", device), ("properties/pct_eq", queue)]);
            assert_eq!(has_retry_handler(&nic.files), expected, "{device} {queue}");
        }
    }

    #[test]
    fn counters_that_were_not_renewed_say_nothing() {
        let reading = |at| CounterReading {
            value: 7,
            at: Duration::from_secs(at),
            stamp: Some(Duration::from_secs(1)),
        };
        let at = |seconds| [("pct_req_ordered".to_owned(), reading(seconds))].into_iter().collect();
        let facts = NicFacts::default();
        assert_eq!(NicState::new(facts, &[at(10), at(14)]).motion, Motion::Unknown);
    }

    #[test]
    fn says_what_is_outstanding_and_what_grows() {
        let state = state(&[
            ("pct_prf_spt_status_spt_in_use", 3, 3),
            ("retry_handler/trs_in_use", 4, 0),
            ("retry_handler/spt_timeouts", 5, 9),
            ("retry_handler/parked_nids", 0, 2),
            ("lpe_net_match_request_1", 0, 5),
            ("lpe_net_match_request_2", 1, 7),
            ("ee_events_dropped_ordinary_cntr_0", 1, 1),
            ("hni_tx_paused_2", 0, 3_600_000_000),
        ]);
        assert!(
            state.is_stuck("spt") && !state.is_stuck("trs") && !state.has_nothing_outstanding()
        );
        assert_eq!(state.parked_nids, Some(2));
        assert_eq!(state.growth(&["lpe_net_match"]).unwrap(), "cxi0 lpe_net_match_request +11");
        assert_eq!(
            state.growth(&["retry_handler/"]).unwrap(),
            "cxi0 retry_handler/spt_timeouts +4"
        );
        assert_eq!((state.growth(&["ee_events"]), state.dropped_events), (None, 1));
        assert_eq!(state.held_off_by_switch, Some(0.9));
        assert!(NicState::default().growth(&["x"]).is_none());
    }
}
