//! What the counters of a link did between two readings: code words, replays, and for which share
//! of the time the link was paused (health.md 1.5, 1.7).

use node::nic::counter::CounterChange;
use node::nic::counters::{CounterChanges, CounterReadings, NicFacts};
use node::nic::files::Files;
use node::nic::link_speed::{LinkSpeed, bit_rate};

/// Number of priorities (PCP) that a link can pause.
pub const PRIORITIES: usize = 8;

/// The counter of the time in which a link with IEEE 802.3x pause held off its sender.
pub const STANDARD_PAUSE: &str = "hni_rx_paused_std";

/// The counters of code words, without the beginning that they share.
const CODE_WORDS: [&str; 3] = ["good", "corrected", "uncorrected"];

/// The directions of a link, as names of counters have them: received, sent.
const DIRECTIONS: [&str; 2] = ["rx", "tx"];

/// What the counters of a link did between two readings. A counter that the NIC does not have, and
/// one that was reset, has no rate.
#[derive(Clone, Debug)]
pub struct LinkRates {
    changes: CounterChanges,
    /// The mode of the link; `None` for a mode without known rates.
    speed: Option<LinkSpeed>,
}

/// The name of the counter of `kind` code words: `good`, `corrected` or `uncorrected`.
pub fn code_words(kind: &str) -> String {
    format!("hni_pcs_{kind}_cw")
}

/// The name of the counter of the time in which a priority was paused in a direction: `rx` or `tx`.
pub fn pause(direction: &str, priority: usize) -> String {
    format!("hni_{direction}_paused_{priority}")
}

fn replays(direction: &str) -> String {
    format!("hni_llr_{direction}_replay_event")
}

/// The names of all counters that [`read`] reads.
pub fn names() -> impl Iterator<Item = String> {
    let pauses =
        (0..PRIORITIES).flat_map(|priority| DIRECTIONS.map(|direction| pause(direction, priority)));
    let code_words = CODE_WORDS.into_iter().map(code_words);
    code_words.chain(pauses).chain([STANDARD_PAUSE.to_owned()]).chain(DIRECTIONS.map(replays))
}

/// Whether a counter belongs to the errors and pauses of a link.
pub fn is_link_counter(counter: &str) -> bool {
    ["hni_pcs_", "hni_llr_", "hni_rx_paused_", "hni_tx_paused_"]
        .iter()
        .any(|start| counter.starts_with(start))
}

/// Reads the counters of a link.
pub fn read(files: &Files) -> CounterReadings {
    CounterReadings::of(files, names())
}

impl LinkRates {
    /// Returns what happened between two readings of `nic`.
    pub fn between(nic: NicFacts, before: &CounterReadings, after: &CounterReadings) -> Self {
        let speed = nic.link_speed.as_deref().and_then(LinkSpeed::of);
        Self { changes: CounterChanges::between(nic, before, after), speed }
    }

    /// The change of a counter; `None` if the NIC does not have it.
    pub fn change(&self, counter: &str) -> Option<CounterChange> {
        self.changes.of(counter)
    }

    /// The counts of a counter per second.
    pub fn per_second(&self, counter: &str) -> Option<f64> {
        self.change(counter)?.per_second()
    }

    /// The share of the time that a counter of cycles has counted.
    pub fn share(&self, counter: &str) -> Option<f64> {
        Some(self.per_second(counter)? / self.changes.nic.cycles_per_s())
    }

    /// The numbers of replays that this side has sent and received; `None` if the NIC does not have
    /// both counters, or if the stamp of one stands still.
    pub fn replays(&self) -> Option<[u64; 2]> {
        let [received, sent] = DIRECTIONS.map(|direction| {
            let change = self.change(&replays(direction))?;
            change.count().filter(|_| change.per_second().is_some())
        });
        Some([sent?, received?])
    }

    /// The bit error rate of code words per second, as cxi_stat computes it: code words per bit.
    pub fn bit_error_rate(&self, per_second: f64) -> f64 {
        per_second / bit_rate(self.speed)
    }

    /// The mode of the link as the driver shows it, if its rates are not known.
    pub fn unknown_mode(&self) -> Option<&str> {
        let mode = self.changes.nic.link_speed.as_deref().unwrap_or_default();
        self.speed.is_none().then_some(mode)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use node::nic::testing::MadeUp;

    /// The rates of counters that grow by these counts in 4 s.
    fn rates(files: &[(&str, &str)], counts: &[(&str, u64)]) -> LinkRates {
        let made_up = MadeUp::new(files);
        let read = |has_counted: bool| {
            for (counter, count) in counts {
                let (value, at) = if has_counted { (100 + count, 104) } else { (100, 100) };
                made_up.write(&format!("telemetry/{counter}"), &format!("{value}@{at}.000000000"));
            }
            let time = Duration::from_secs(if has_counted { 54 } else { 50 });
            super::read(&made_up.files.clone().taken_at(time))
        };
        let (before, after) = (read(false), read(true));
        LinkRates::between(NicFacts::read(&made_up.files, "cxi0".into(), false), &before, &after)
    }

    /// health.md 1.8: 20 000 000 cycles in 2 s are 1.0 % of the time on Cassini 1, 0.9 % on
    /// Cassini 2. cxi_stat shows 1.0 % on both.
    #[test]
    fn pauses_count_by_the_clock_of_the_generation() {
        for (version, share) in [("1.1", 0.01), ("2.0", 0.01 / 1.1)] {
            let files = [("properties/cassini_version", version)];
            let rates = rates(&files, &[("hni_tx_paused_3", 40_000_000)]);
            let found = rates.share("hni_tx_paused_3").unwrap();
            assert!((found - share).abs() < 1e-12, "{version}: {found}");
            assert_eq!(rates.share("hni_rx_paused_3"), None);
        }
    }

    #[test]
    fn bit_error_rates_follow_the_mode() {
        for (mode, expected, unknown) in [
            ("BS_200G", "9.412e-12", None),
            ("ck400G", "4.706e-12", None),
            ("XY_300G", "9.412e-12", Some("XY_300G")),
        ] {
            let rates = rates(&[("port/speed", mode)], &[("hni_pcs_corrected_cw", 8)]);
            let per_second = rates.per_second("hni_pcs_corrected_cw").unwrap();
            assert_eq!(format!("{:.3e}", rates.bit_error_rate(per_second)), expected);
            assert_eq!(rates.unknown_mode(), unknown);
        }
    }

    #[test]
    fn replays_are_known_if_both_directions_are() {
        let both = [("hni_llr_tx_replay_event", 2), ("hni_llr_rx_replay_event", 5)];
        assert_eq!(rates(&[], &both).replays(), Some([2, 5]));
        assert_eq!(rates(&[], &both[..1]).replays(), None);
    }

    #[test]
    fn reads_the_counters_of_cxi_stat_and_replays() {
        let names: Vec<String> = names().collect();
        assert_eq!(names.len(), 20 + 2);
        let known = |name: &String| node::nic::counter_table::CounterRow::of(name).is_some();
        assert!(names.iter().all(known), "{names:?}");
        assert!(names.iter().all(|name| is_link_counter(name)), "{names:?}");
    }
}
