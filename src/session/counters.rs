//! The exchange of the counters of a server's NIC, and its messages: bytes <-> changes. Each
//! message is a string of items with commas between them: facts about the NIC, `link=BS_200G`, and
//! counters, `hni_tx_ok_opt:37:1200345`, with their increase and its time in microseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::open::Session;
use super::wait::Wait;
use super::wire::{self, MAX_PAYLOAD};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::limit::ANSWER_LIMIT;
use facts::number::decimal;
use node::nic::counter::CounterChange;
use node::nic::counter_table::{CounterRow, Preset};
use node::nic::counters::{CounterChanges, NicFacts};
use node::nic::generation::Generation;

/// Messages that a client accepts. All counters take half of them.
const MAX_MESSAGES: usize = 64;

/// Longest name of the mode of a link.
const MAX_LINK_SPEED: usize = 20;

/// Stands for the increase of a counter that was reset.
const RESET: &str = "reset";

impl Session {
    /// Sends the counters of `preset` to a client that receives them.
    pub fn send_counters(&self, changes: &CounterChanges, preset: Preset) -> Result<(), Failure> {
        for message in encode(changes, preset) {
            self.exchange_counters(&message, 0)?;
        }
        self.exchange_counters(&[], 0).map(drop)
    }

    /// Receives the counters of `preset` from a server that sends them.
    pub fn receive_counters(&self, preset: Preset) -> Result<CounterChanges, Failure> {
        let invalid = |what: &str| {
            let peer = self.peer();
            Failure::peer(format!("the peer ({peer}) sent {what} of counters"))
        };
        let mut received = ReceivedCounters::none_of(preset);
        for _ in 0..=MAX_MESSAGES {
            let payload = self.exchange_counters(&[], MAX_PAYLOAD)?;
            if payload.is_empty() {
                return Ok(received.changes());
            }
            let added = received.add(&payload);
            added.ok_or_else(|| invalid("an invalid message"))?;
        }
        Err(invalid("too many messages"))
    }

    fn exchange_counters(&self, own: &[u8], most: usize) -> Result<Vec<u8>, Failure> {
        let wait = Wait::for_answer("during the exchange of counters", ANSWER_LIMIT);
        let exchanged = self.connection.exchange(own, most, &wait);
        exchanged.map_err(|error| error.into_failure(self.peer(), wait.doing))
    }
}

/// The messages with the counters of `preset`.
fn encode(changes: &CounterChanges, preset: Preset) -> Vec<Vec<u8>> {
    let NicFacts {
        device,
        is_software,
        generation,
        link_speed,
        pcie_gt_per_s,
        limits,
        // Only reports of jobs need them.
        nid: _,
        max_spt_retries: _,
    } = &changes.nic;
    let software = is_software.then(|| "software".to_owned());
    let link = link_speed.as_ref().filter(|speed| is_link_speed(speed));
    let facts = [
        Some(format!("nic={device}")),
        software,
        generation.map(|generation| format!("generation={}", generation.number())),
        link.map(|speed| format!("link={speed}")),
        pcie_gt_per_s.map(|speed| format!("pcie={speed}")),
    ];
    let limits = limits.iter().map(|(name, limit)| format!("{name}={limit}"));
    let counter = |name: String| {
        let value = match changes.of(&name)? {
            CounterChange::Counted { by, within } => {
                let us = within.map(|within| within.as_micros().to_string());
                format!("{by}:{}", us.unwrap_or_default())
            }
            CounterChange::Reset => RESET.into(),
        };
        Some(format!("{name}:{value}"))
    };
    let counters = preset.rows().flat_map(CounterRow::names).filter_map(counter);
    let mut messages = Vec::new();
    let mut text = String::new();
    for item in facts.into_iter().flatten().chain(limits).chain(counters) {
        // A comma before the item, and NUL after it.
        if text.len() + item.len() + 2 > MAX_PAYLOAD {
            messages.push(wire::string(&std::mem::take(&mut text)));
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&item);
    }
    messages.push(wire::string(&text));
    messages
}

/// Counters that arrive in messages. Only the counters of a preset are kept.
#[derive(Debug)]
pub struct ReceivedCounters {
    expected: BTreeSet<String>,
    nic: NicFacts,
    by_name: BTreeMap<String, CounterChange>,
}

impl ReceivedCounters {
    /// Nothing yet of the counters of `preset`.
    pub fn none_of(preset: Preset) -> Self {
        Self {
            expected: preset.rows().flat_map(CounterRow::names).collect(),
            nic: NicFacts::default(),
            by_name: BTreeMap::new(),
        }
    }

    /// Adds the items of a message. Skips unknown items and items with invalid values. Returns
    /// `None` for a message that is no string.
    pub fn add(&mut self, payload: &[u8]) -> Option<()> {
        for item in wire::parse_string(payload)?.split(',') {
            self.add_item(item);
        }
        Some(())
    }

    fn add_item(&mut self, item: &str) -> Option<()> {
        if let Some((name, value)) = item.split_once(':') {
            let change = change(value)?;
            self.expected.contains(name).then_some(())?;
            self.by_name.insert(name.to_owned(), change);
        } else {
            match item.split_once('=') {
                Some(("nic", name)) => {
                    self.nic.device = name.parse::<DeviceName>().ok()?.to_string();
                }
                Some(("generation", number)) => {
                    self.nic.generation = Generation::from_number(number.parse().ok()?);
                }
                Some(("link", speed)) if is_link_speed(speed) => {
                    self.nic.link_speed = Some(speed.to_owned());
                }
                Some(("pcie", speed)) => {
                    let speed = speed.parse().ok();
                    self.nic.pcie_gt_per_s = speed.filter(|speed: &f64| speed.is_finite());
                }
                Some((name, limit)) => self.nic.limits.set(name, limit)?,
                None => self.nic.is_software |= item == "software",
            }
        }
        Some(())
    }

    /// The counters that have arrived.
    pub fn changes(self) -> CounterChanges {
        CounterChanges::new(self.nic, self.by_name)
    }
}

/// The change in a value such as `37:1200345`.
fn change(value: &str) -> Option<CounterChange> {
    if value == RESET {
        return Some(CounterChange::Reset);
    }
    let (by, us) = value.split_once(':')?;
    let within = match us {
        "" => None,
        us => Some(Duration::from_micros(decimal(us)?)),
    };
    let by = decimal(by)?;
    Some(CounterChange::Counted { by, within })
}

fn is_link_speed(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=MAX_LINK_SPEED).contains(&text.len()) && text.bytes().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use node::nic::link_speed::DriverLimits;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{LONG, pair};

    fn received(preset: Preset, messages: &[Vec<u8>]) -> CounterChanges {
        let mut received = ReceivedCounters::none_of(preset);
        for message in messages {
            received.add(message).unwrap();
        }
        received.changes()
    }

    fn nic() -> NicFacts {
        let mut limits = DriverLimits::default();
        limits.set("ccw_warn_limit", "4250000.5").unwrap();
        NicFacts {
            limits,
            device: "cxi1".into(),
            is_software: false,
            generation: Some(Generation::Cassini2),
            link_speed: Some("BS_200G".into()),
            pcie_gt_per_s: Some(16.0),
            ..NicFacts::default()
        }
    }

    #[test]
    fn all_counters_come_back_from_messages() {
        let names = Preset::All.rows().flat_map(CounterRow::names);
        let change = |number: usize| match number % 5 {
            0 => CounterChange::Reset,
            1 => CounterChange::Counted { by: number as u64, within: None },
            _ => CounterChange::Counted {
                by: u64::MAX - number as u64,
                within: Some(Duration::from_micros(u64::MAX)),
            },
        };
        let by_name = names.enumerate().map(|(at, name)| (name, change(at)));
        let changes = CounterChanges::new(nic(), by_name.collect());
        let messages = encode(&changes, Preset::All);
        assert!(messages.len() < MAX_MESSAGES, "{}", messages.len());
        let longest = messages.iter().map(Vec::len).max().unwrap();
        assert!(longest <= MAX_PAYLOAD && longest > MAX_PAYLOAD / 2);
        assert_eq!(received(Preset::All, &messages), changes);
        // A client that asks for less keeps less, and the reverse.
        let quick = received(Preset::Quick, &messages);
        assert_eq!(quick.of("hni_pause_sent"), None);
        assert_eq!(quick.of("hni_tx_ok_opt"), changes.of("hni_tx_ok_opt"));
        let quick = encode(&changes, Preset::Quick);
        assert_eq!(received(Preset::All, &quick).of("hni_pause_sent"), None);
    }

    #[test]
    fn skips_unknown_and_invalid_items() {
        let text = "nic=../x,link=a b,pcie=NaN,soft,,hni_tx_ok_opt:-1:,hni_rx_ok_opt:1,\
                    x:1:1,hni_tx_ok_opt:2:x,hni_rx_paused_std:3:4";
        let changes = received(Preset::Quick, &[wire::string(text)]);
        assert_eq!(changes.nic, NicFacts::default());
        let mut names = Preset::All.rows().flat_map(CounterRow::names);
        assert!(!names.any(|name| name != "hni_rx_paused_std" && changes.of(&name).is_some()));
        let expected = CounterChange::Counted { by: 3, within: Some(Duration::from_micros(4)) };
        assert_eq!(changes.of("hni_rx_paused_std"), Some(expected));
        assert!(ReceivedCounters::none_of(Preset::Quick).add(b"no NUL").is_none());
    }

    proptest! {
        #[test]
        fn accepts_any_items_without_panic(text in "[ -~]{0,80}") {
            let mut received = ReceivedCounters::none_of(Preset::Quick);
            prop_assert!(received.add(&wire::string(&text)).is_some());
        }
    }

    /// Changes of all counters of a NIC, which take several messages.
    fn counters() -> CounterChanges {
        let within = Some(Duration::from_micros(1_200_345));
        let change = |by| CounterChange::Counted { by, within };
        let names = Preset::Quick.rows().flat_map(CounterRow::names);
        let by_name = names.zip(1 << 40..).map(|(name, by)| (name, change(by)));
        let nic = NicFacts { device: "cxi1".into(), ..NicFacts::default() };
        CounterChanges::new(nic, by_name.collect())
    }

    #[test]
    fn client_receives_counters_of_server() {
        let (server, client) = pair();
        let sending = thread::spawn(move || {
            server.send_counters(&counters(), Preset::Quick)?;
            server.barrier("test", LONG)
        });
        assert_eq!(client.receive_counters(Preset::Quick).unwrap(), counters());
        // Both sides are at the same message.
        client.barrier("test", LONG).unwrap();
        sending.join().unwrap().unwrap();
    }

    #[test]
    fn refuses_invalid_and_endless_counters() {
        for (payload, expected) in [
            (&b"\xff"[..], "sent an invalid message of counters"),
            (b"hni_tx_ok_opt:1:1\0", "sent too many messages of counters"),
            (&[b'x'; 2000], "announced 2000 bytes during the exchange"),
        ] {
            let (server, client) = pair();
            thread::scope(|scope| {
                scope.spawn(move || {
                    let wait = Wait::for_answer("here", ANSWER_LIMIT);
                    let exchange = || server.connection.exchange(payload, 0, &wait);
                    while exchange().is_ok() {}
                });
                let failure = client.receive_counters(Preset::Quick).unwrap_err();
                assert!(failure.message().contains(expected), "{failure}");
                drop(client);
            });
        }
    }
}
