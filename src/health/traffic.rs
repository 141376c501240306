//! Traffic through the NIC: a write and a read from this host to itself, and the traffic of other
//! processes. A NIC in use says nothing about its speed (diagnosis.md 2, `others-use`).

use super::item::{Finding, Item, unless_good};
use facts::severity::Severity;
use node::nic::counter::{CounterChange, CounterReading};
use node::nic::counters::CounterReadings;
use node::nic::files::Files;
use node::nic::link_speed::LinkSpeed;

/// Latency of a write.
pub static WRITE: Item = Item {
    code: "loopback-write",
    name: "write latency",
    source: "cxidiag",
    remedy: "run 'cxidiag write-lat --loopback' on this NIC, and see docs/why.md",
};

/// Latency of a read.
pub static READ: Item = Item {
    code: "loopback-read",
    name: "read latency",
    source: "HPE",
    remedy: "run 'cxidiag read-lat --loopback' on this NIC, and see docs/why.md",
};

pub static WRITE_BANDWIDTH: Item = Item {
    code: "write-bandwidth",
    name: "write bandwidth",
    source: "HPE",
    remedy: "run 'cxidiag write-bw --loopback' on this NIC, and see docs/why.md",
};

pub static READ_BANDWIDTH: Item = Item {
    code: "read-bandwidth",
    name: "read bandwidth",
    source: "HPE",
    remedy: "run 'cxidiag read-bw --loopback' on this NIC, and see docs/why.md",
};

/// Latency in seconds from which on a NIC is suspect. It is the latency of a read across groups
/// (health.md 2.6), while the operations of this check never leave the NIC's own switch.
const SLOW: f64 = 7e-6;

/// Latency in seconds from which on a NIC is bad.
const TOO_SLOW: f64 = 70e-6;

/// Parts of the speed of the link below which a bandwidth is suspect and bad. HPE demands 180 Gb/s
/// of writes at 200 Gb/s, and shows reads of 20.6 GB/s (health.md 2.6). Half of the lanes of PCIe,
/// or half of their speed, give about 14 GB/s.
const WRITE_PARTS: (f64, f64) = (0.9, 0.6);

/// Parts of the speed of the link below which a bandwidth of reads is suspect and bad.
const READ_PARTS: (f64, f64) = (0.75, 0.5);

/// Evaluates the median of a latency in seconds. A software NIC has no limit: any latency is good.
pub fn latency(item: &'static Item, seconds: f64, is_software: bool) -> Finding {
    let value = format!("{:.2} us", seconds * 1e6);
    let finding = if is_software {
        works(item, value)
    } else {
        let verdict = if seconds >= TOO_SLOW {
            Severity::Bad
        } else if seconds >= SLOW {
            Severity::Suspect
        } else {
            Severity::Good
        };
        let limit = format!("<{} us (bad: {} us)", SLOW * 1e6, TOO_SLOW * 1e6);
        Finding::compared(item, value, limit, verdict)
    };
    finding.with_number(seconds)
}

/// Compares a bandwidth in bytes per second with the speed of the link. A software NIC has no
/// limit: any bandwidth is good.
pub fn bandwidth(
    item: &'static Item,
    bytes_per_s: f64,
    speed: Option<LinkSpeed>,
    is_software: bool,
) -> Finding {
    let value = format!("{:.2} GB/s", bytes_per_s / 1e9);
    let finding = match speed {
        _ if is_software => works(item, value),
        None => Finding::shown(item, value),
        Some(speed) => {
            let link_value = speed.gigabits_per_s * 1e9 / 8.0;
            let parts = if *item == WRITE_BANDWIDTH { WRITE_PARTS } else { READ_PARTS };
            let (suspect, bad) = (link_value * parts.0, link_value * parts.1);
            let verdict = if bytes_per_s < bad {
                Severity::Bad
            } else if bytes_per_s < suspect {
                Severity::Suspect
            } else {
                Severity::Good
            };
            let limit = format!(">{:.2} GB/s (bad: {:.2})", suspect / 1e9, bad / 1e9);
            Finding::compared(item, value, limit, verdict)
        }
    };
    finding.with_number(bytes_per_s)
}

/// The finding of a run that waited for its CPU: a result beyond the limits is then the fault of
/// other programs, so that nothing is bad.
pub fn disturbed(finding: Finding) -> Finding {
    if finding.verdict != Severity::Bad {
        return finding;
    }
    let value = finding.value.unwrap_or_default();
    Finding {
        value: Some(format!("{value}, waited for a CPU")),
        verdict: Severity::Suspect,
        ..finding
    }
}

fn works(item: &'static Item, value: String) -> Finding {
    Finding { verdict: Severity::Good, ..Finding::shown(item, value) }
}

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
    use facts::severity::Severity::{Bad, Good, Shown, Suspect};
    use node::nic::testing::MadeUp;

    #[test]
    fn latencies_have_limits_on_hardware_only() {
        for (us, verdict) in [(2.0, Good), (6.99, Good), (7.0, Suspect), (70.0, Bad)] {
            assert_eq!(latency(&WRITE, us * 1e-6, false).verdict, verdict, "{us}");
        }
        let software_finding = latency(&READ, 1.0, true);
        assert_eq!((software_finding.verdict, software_finding.limit), (Good, None));
    }

    #[test]
    fn busy_cpu_makes_nothing_bad() {
        let slow = latency(&WRITE, 1.0, false);
        assert_eq!((slow.verdict, disturbed(slow.clone()).verdict), (Bad, Suspect));
        let fast = latency(&WRITE, 1e-6, false);
        assert_eq!(disturbed(fast.clone()), fast);
    }

    #[test]
    fn compares_bandwidths_with_the_speed_of_the_link() {
        let speed = LinkSpeed::of("BS_200G");
        let severity =
            |item, gigabytes: f64| bandwidth(item, gigabytes * 1e9, speed, false).verdict;
        for (item, gigabytes, verdict) in [
            (&WRITE_BANDWIDTH, 22.5, Good),
            (&WRITE_BANDWIDTH, 22.4, Suspect),
            (&WRITE_BANDWIDTH, 15.0, Suspect),
            (&WRITE_BANDWIDTH, 14.0, Bad),
            (&READ_BANDWIDTH, 20.561, Good),
            (&READ_BANDWIDTH, 18.7, Suspect),
            (&READ_BANDWIDTH, 12.4, Bad),
        ] {
            assert_eq!(severity(item, gigabytes), verdict, "{} {gigabytes}", item.code);
        }
        assert_eq!(bandwidth(&READ_BANDWIDTH, 1.0, None, false).verdict, Shown);
        assert_eq!(bandwidth(&READ_BANDWIDTH, 1.0, speed, true).verdict, Good);
    }

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
