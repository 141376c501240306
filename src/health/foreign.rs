//! Traffic of other processes: a NIC in use says nothing about its speed (diagnosis.md 2,
//! `others-use`).

use super::item::{Finding, Item, unless_good};
use facts::severity::Severity;
use node::nic::counter::{CounterChange, CounterReading};
use node::nic::counters::CounterReadings;
use node::nic::files::Files;

/// What the NIC sends and receives while this process does not use it.
pub static FOREIGN: Item = Item {
    code: "foreign-traffic",
    name: "traffic of others",
    source: "cxidiag",
    remedy: "other processes use the NIC: measure it when it is idle",
};

/// Bytes per second that disturb no measurement: a fiftieth of a link of 200 Gb/s.
const LITTLE: f64 = 5e8;

/// Bytes sent and received.
#[derive(Clone, Debug)]
pub struct Octets([Option<CounterReading>; 2]);

impl Octets {
    /// Reads the counters of a NIC.
    pub fn read(files: &Files) -> Self {
        let counters = ["hni_sts_tx_ok_octets", "hni_sts_rx_ok_octets"];
        let names = counters.map(str::to_owned);
        let readings = CounterReadings::of(files, names);
        Self(counters.map(|name| readings.get(name)))
    }

    /// Returns what others have sent and received since `before`.
    pub fn since(self, before: Self) -> Finding {
        let sides = before.0.into_iter().zip(self.0);
        let rates =
            sides.map(|(before, after)| CounterChange::between(before?, after?).per_second());
        let sum: Option<f64> = rates.sum();
        let Some(rate) = sum else {
            return Finding::absent(&FOREIGN);
        };
        let text = |rate: f64| format!("{:.0} MB/s", rate / 1e6);
        let verdict = unless_good(rate > LITTLE, Severity::Suspect);
        let limit = format!("<{}", text(LITTLE));
        Finding::compared(&FOREIGN, text(rate), limit, verdict).with_number(rate)
    }
}

/// Traffic that cannot be told from the traffic of this process.
pub fn left_out(why: &str) -> Finding {
    Finding::untested(&FOREIGN, why)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use node::nic::testing::MadeUp;

    /// Returns what is found if a NIC sends and receives this many bytes in 10 ms.
    fn found(sent: &str, received: &str) -> Finding {
        let read = |sent: &str, received: &str, ms| {
            let made_up = MadeUp::new(&[
                ("telemetry/hni_sts_tx_ok_octets", sent),
                ("telemetry/hni_sts_rx_ok_octets", received),
            ]);
            Octets::read(&made_up.files.clone().taken_at(Duration::from_millis(ms)))
        };
        let before = read("1000@5.000000000\n", "1000@5.000000000\n", 100);
        read(sent, received, 110).since(before)
    }

    #[test]
    fn nic_in_use_is_suspect() {
        let busy = found("4001000@5.010000000\n", "1101000@5.310000000\n");
        assert_eq!(busy.verdict, Severity::Suspect);
        assert_eq!(busy.value.as_deref(), Some("510 MB/s"));
        let idle = found("4001000@5.010000000\n", "901000@3.010000000\n");
        assert_eq!(idle.verdict, Severity::Good);
        let unknown = Octets::read(&MadeUp::new(&[]).files);
        let found = unknown.clone().since(unknown);
        assert_eq!(found.verdict, Severity::NotAvailable);
    }
}
