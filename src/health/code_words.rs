//! The code words of the link, counted between two readings: errors that forward error correction
//! (FEC) has repaired, and those that it has not (health.md 1.7).

use super::item::{Finding, Item, unless_good};
use super::link;
use facts::severity::Severity;
use node::nic::counter::{CounterChange, CounterReading};
use node::nic::counters::CounterReadings;
use node::nic::files::Files;
use node::nic::link_speed::{CodeWordLimits, Corrected, DriverLimits, LinkSpeed, bit_rate};

/// Whether code words arrive all the time.
pub static FLOW: Item = Item {
    code: "link-interrupted",
    name: "code words",
    source: "driver",
    remedy: "the link was down for a part of the time: check the cable and the switch port",
};

/// Code words that were lost.
pub static UNCORRECTED: Item = Item {
    code: "fec-uncorrected",
    name: "uncorrected errors",
    source: "driver",
    remedy: "bit errors on the link: reseat or replace the cable",
};

/// Code words that were repaired.
pub static CORRECTED: Item = Item {
    code: "fec-corrected",
    name: "corrected errors",
    source: "driver",
    remedy: "bit errors on the link: reseat or replace the cable",
};

/// Errors of the worst lane.
pub static LANES: Item = Item {
    code: "fec-lane",
    name: "errors of a lane",
    source: "driver",
    remedy: "bit errors on one lane: reseat or replace the cable",
};

/// Packets that the link has repeated.
pub static REPLAYS: Item = Item {
    code: "link-replays",
    name: "link replays",
    source: "HPE",
    remedy: "packets were repeated on the link: look at its error rates over a longer time",
};

/// Part of the code words of a healthy link below which the link was down.
const FLOW_LIMIT: f64 = 0.9;

/// Lanes of the counters of Cassini 2; Cassini 1 has the first half.
const MAX_LANES: usize = 16;

/// The counters of the whole link.
const COUNTERS: [&str; 5] = [
    "hni_pcs_good_cw",
    "hni_pcs_corrected_cw",
    "hni_pcs_uncorrected_cw",
    "hni_llr_tx_replay_event",
    "hni_llr_rx_replay_event",
];

/// The counters of a link at one moment.
#[derive(Clone, Debug)]
pub struct CodeWords {
    good: Option<CounterReading>,
    corrected: Option<CounterReading>,
    uncorrected: Option<CounterReading>,
    lanes: [Option<CounterReading>; MAX_LANES],
    replays: [Option<CounterReading>; 2],
}

/// The names of all counters of [`CodeWords`].
pub fn names() -> impl Iterator<Item = String> {
    let lanes = (0..MAX_LANES).map(|lane| format!("hni_pcs_fecl_errors_{lane}"));
    COUNTERS.into_iter().map(str::to_owned).chain(lanes)
}

impl CodeWords {
    /// Reads the counters of a NIC.
    pub fn read(files: &Files) -> Self {
        Self::of(&CounterReadings::of(files, names()))
    }

    /// The counters of a NIC that were read.
    pub fn of(readings: &CounterReadings) -> Self {
        let counter = |name: &str| readings.get(name);
        Self {
            good: counter("hni_pcs_good_cw"),
            corrected: counter("hni_pcs_corrected_cw"),
            uncorrected: counter("hni_pcs_uncorrected_cw"),
            lanes: std::array::from_fn(|lane| counter(&format!("hni_pcs_fecl_errors_{lane}"))),
            replays: ["tx", "rx"].map(|side| counter(&format!("hni_llr_{side}_replay_event"))),
        }
    }
}

/// A count between two readings.
struct CodeWordRate {
    count: u64,
    seconds: f64,
}

/// Why a counter has no rate.
enum Gap {
    /// The NIC does not have it, or has not advanced its stamp.
    Missing,
    Reset,
}

impl Gap {
    fn finding(self, item: &'static Item) -> Finding {
        match self {
            Self::Missing => Finding::absent(item),
            Self::Reset => Finding::untested(item, "the counter was reset during the check"),
        }
    }
}

impl CodeWordRate {
    fn between(before: Option<CounterReading>, after: Option<CounterReading>) -> Result<Self, Gap> {
        let (Some(before), Some(after)) = (before, after) else {
            return Err(Gap::Missing);
        };
        match CounterChange::between(before, after) {
            CounterChange::Counted { by, within: Some(within) } if !within.is_zero() => {
                Ok(Self { count: by, seconds: within.as_secs_f64() })
            }
            CounterChange::Counted { .. } => Err(Gap::Missing),
            CounterChange::Reset => Err(Gap::Reset),
        }
    }

    fn per_second(&self) -> f64 {
        self.count as f64 / self.seconds
    }

    /// The bit error rate as cxi_stat prints it: `<` and the smallest visible one for none.
    fn bit_errors(&self, bits_per_s: f64) -> String {
        let rate = self.count.max(1) as f64 / self.seconds / bits_per_s;
        let sign = if self.count == 0 { "<" } else { "" };
        format!("BER {sign}{rate:.3e}")
    }
}

/// The verdict on code words with errors.
fn verdict(limits: &CodeWordLimits, per_second: f64) -> Severity {
    if limits.bad.is_some_and(|bad| per_second > bad) {
        Severity::Bad
    } else {
        unless_good(per_second > limits.suspect, Severity::Suspect)
    }
}

/// The items without values, and why.
pub fn left_out(why: &str) -> Vec<Finding> {
    [&FLOW, &UNCORRECTED, &CORRECTED, &LANES, &REPLAYS]
        .map(|item| Finding::untested(item, why))
        .to_vec()
}

/// Evaluates what the counters did between two readings.
pub fn evaluate(files: &Files, before: &CodeWords, after: &CodeWords) -> Vec<Finding> {
    if link::is_up(files) == Some(false) {
        return left_out("the link is down");
    }
    let speed = link::speed_text(files).and_then(|text| LinkSpeed::of(&text));
    let driver = DriverLimits::read(files);
    let corrected = CodeWordRate::between(before.corrected, after.corrected);
    let uncorrected = CodeWordRate::between(before.uncorrected, after.uncorrected);
    vec![
        flow(before, after, speed),
        errors(&UNCORRECTED, uncorrected, speed, &CodeWordLimits::uncorrected(driver, speed)),
        errors(&CORRECTED, corrected, speed, &CodeWordLimits::corrected(driver, speed)),
        lanes(before, after, speed),
        replays(before, after),
    ]
}

/// All code words, good or not.
fn flow(before: &CodeWords, after: &CodeWords, speed: Option<LinkSpeed>) -> Finding {
    let good = match CodeWordRate::between(before.good, after.good) {
        Ok(good) => good,
        Err(gap) => return gap.finding(&FLOW),
    };
    let with_errors = [
        CodeWordRate::between(before.corrected, after.corrected),
        CodeWordRate::between(before.uncorrected, after.uncorrected),
    ];
    let with_errors: f64 = with_errors.iter().flatten().map(CodeWordRate::per_second).sum();
    let per_second = good.per_second() + with_errors;
    let value = format!("{per_second:.3e}/s");
    match speed.and_then(|speed| speed.code_words_per_s) {
        None => Finding::shown(&FLOW, value),
        Some(expected) => {
            let limit = expected * FLOW_LIMIT;
            let verdict = unless_good(per_second < limit, Severity::Bad);
            Finding::compared(&FLOW, value, format!(">{limit:.3e}/s"), verdict)
        }
    }
}

fn errors(
    item: &'static Item,
    rate: Result<CodeWordRate, Gap>,
    speed: Option<LinkSpeed>,
    limits: &CodeWordLimits,
) -> Finding {
    let rate = match rate {
        Ok(rate) => rate,
        Err(gap) => return gap.finding(item),
    };
    let bits = bit_rate(speed);
    let per_second = rate.per_second();
    let value = format!("{} ({per_second:.1}/s)", rate.bit_errors(bits));
    let number = |limit: f64| {
        if limit < 1000.0 { format!("{limit}/s") } else { format!("BER {:.0e}", limit / bits) }
    };
    let suspect = number(limits.suspect);
    let limit = match limits.bad {
        Some(bad) => format!("{suspect} (bad: {})", number(bad)),
        None => suspect,
    };
    Finding::compared(item, value, limit, verdict(limits, per_second))
        .with_number(per_second / bits)
}

/// The worst lane. The driver of Cassini 1 warns of a lane at a part of the limit of the link.
fn lanes(before: &CodeWords, after: &CodeWords, speed: Option<LinkSpeed>) -> Finding {
    let rates = before.lanes.iter().zip(&after.lanes);
    let rates: Vec<_> =
        rates.map(|(before, after)| CodeWordRate::between(*before, *after)).collect();
    if rates.iter().any(|rate| matches!(rate, Err(Gap::Reset))) {
        return Gap::Reset.finding(&LANES);
    }
    let rates = rates.iter().enumerate();
    let rates = rates.filter_map(|(lane, rate)| Some((lane, rate.as_ref().ok()?.per_second())));
    let Some((lane, worst)) = rates.max_by(|one, other| one.1.total_cmp(&other.1)) else {
        return Finding::absent(&LANES);
    };
    let value = if worst == 0.0 { "none".to_owned() } else { format!("lane {lane}: {worst:.1}/s") };
    match speed.and_then(|speed| speed.cassini_1) {
        None => Finding::shown(&LANES, value),
        Some(Corrected { max_of_lane_per_s: limit, .. }) => {
            let verdict = unless_good(worst > limit, Severity::Suspect);
            Finding::compared(&LANES, value, format!("{limit:.3e}/s"), verdict)
        }
    }
}

fn replays(before: &CodeWords, after: &CodeWords) -> Finding {
    let [sent, received] =
        [0, 1].map(|side| CodeWordRate::between(before.replays[side], after.replays[side]));
    let (sent, received) = match (sent, received) {
        (Ok(sent), Ok(received)) => (sent.count, received.count),
        (Err(Gap::Reset), _) | (_, Err(Gap::Reset)) => return Gap::Reset.finding(&REPLAYS),
        (Err(Gap::Missing), _) | (_, Err(Gap::Missing)) => return Finding::absent(&REPLAYS),
    };
    let value = format!("{sent} sent, {received} received");
    let verdict = unless_good(sent > 0 || received > 0, Severity::Suspect);
    Finding::compared(&REPLAYS, value, "0", verdict)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use facts::severity::Severity::{Bad, Good, NotAvailable, Suspect};
    use node::nic::testing::MadeUp;

    /// Returns what is found if `counter` counts `by` in 4 s, with these files beside it. The time
    /// of day is stepped by -2 s meanwhile.
    fn found(counter: &str, by: u64, files: &[(&str, &str)], item: &Item) -> Finding {
        let made_up = MadeUp::new(files);
        let read = |value: u64, stamp: u64, seconds: u64| {
            made_up.write(&format!("telemetry/{counter}"), &format!("{value}@{stamp}.000000000\n"));
            CodeWords::read(&made_up.files.clone().taken_at(Duration::from_secs(seconds)))
        };
        let (before, after) = (read(1_000, 100, 50), read(1_000 + by, 102, 54));
        let findings = evaluate(&made_up.files, &before, &after);
        let mut findings = findings.into_iter().filter(|found| found.code == item.code);
        findings.next().unwrap()
    }

    const CASSINI_1: [(&str, &str); 2] = [("port/link", "up"), ("port/speed", "BS_200G")];
    const CASSINI_2: [(&str, &str); 4] = [
        ("port/0/link/state", "up\n"),
        ("port/0/link/speed", "ck400G\n"),
        ("port/0/link/fec/monitor_check/ucw_warn_limit", "21\n"),
        ("port/0/link/fec/monitor_check/ucw_down_limit", "42\n"),
    ];

    #[test]
    fn uncorrected_errors_are_suspect_and_above_limit_bad() {
        let finding = |by, files| found("hni_pcs_uncorrected_cw", by, files, &UNCORRECTED);
        for (by, verdict) in [(0, Good), (1, Suspect), (84, Suspect), (85, Bad)] {
            assert_eq!(finding(by, &CASSINI_1).verdict, verdict, "{by}");
        }
        for (by, verdict) in [(84, Good), (85, Suspect), (168, Suspect), (169, Bad)] {
            assert_eq!(finding(by, &CASSINI_2).verdict, verdict, "{by} of Cassini 2");
        }
    }

    #[test]
    fn corrected_errors_are_suspect_above_marginal_rate_and_above_limit_bad() {
        let severity = |by| found("hni_pcs_corrected_cw", by, &CASSINI_1, &CORRECTED).verdict;
        for (by, verdict) in
            [(850_000, Good), (850_004, Suspect), (85_000_000, Suspect), (85_000_004, Bad)]
        {
            assert_eq!(severity(by), verdict, "{by}");
        }
    }

    /// The numbers of HPE's sample output (health.md 1.8).
    #[test]
    fn prints_bit_error_rates_as_cxi_stat_does() {
        let text = |by| found("hni_pcs_corrected_cw", by, &CASSINI_1, &CORRECTED).value.unwrap();
        assert_eq!(text(0), "BER <1.176e-12 (0.0/s)");
        assert_eq!(text(8), "BER 9.412e-12 (2.0/s)");
        assert_eq!(text(32), "BER 3.765e-11 (8.0/s)");
    }

    #[test]
    fn code_words_that_stop_show_an_interrupted_link() {
        let severity = |by| found("hni_pcs_good_cw", by, &CASSINI_1, &FLOW).verdict;
        assert_eq!(severity(39_062_500 * 4), Good);
        assert_eq!(severity(39_062_500 * 4 * 9 / 10), Good);
        assert_eq!(severity(39_062_500 * 3), Bad);
    }

    #[test]
    fn names_lane_above_its_part_of_the_limit() {
        let finding = |by| found("hni_pcs_fecl_errors_2", by, &CASSINI_1, &LANES);
        assert_eq!(finding(10_625_000).verdict, Good);
        let worst = finding(10_625_004);
        assert_eq!(worst.verdict, Suspect);
        assert_eq!(worst.value.as_deref(), Some("lane 2: 2656251.0/s"));
    }

    #[test]
    fn any_replay_is_suspect() {
        let severity = |by| {
            let other = ("telemetry/hni_llr_rx_replay_event", "5");
            let files = [&CASSINI_1[..], &[other]].concat();
            found("hni_llr_tx_replay_event", by, &files, &REPLAYS).verdict
        };
        assert_eq!([severity(0), severity(1)], [Good, Suspect]);
    }

    #[test]
    fn missing_counters_and_links_that_are_down_have_no_verdict() {
        for (counter, link) in [("other", "up"), ("hni_pcs_corrected_cw", "down")] {
            let found = found(counter, 0, &[("port/link", link)], &CORRECTED);
            assert_eq!(found.verdict, NotAvailable, "{counter} {link}");
        }
    }

    #[test]
    fn reset_counters_are_named() {
        let made_up = MadeUp::new(&CASSINI_1);
        for name in ["hni_pcs_good_cw", "hni_pcs_fecl_errors_3"] {
            made_up.write(&format!("telemetry/{name}"), "500@100.000000000");
        }
        let before = CodeWords::read(&made_up.files);
        for name in ["hni_pcs_good_cw", "hni_pcs_fecl_errors_3"] {
            made_up.write(&format!("telemetry/{name}"), "3@104.000000000");
        }
        let findings = evaluate(&made_up.files, &before, &CodeWords::read(&made_up.files));
        let notes = findings.iter().map(|found| found.note.as_deref());
        let reset = Some("the counter was reset during the check");
        assert!(notes.eq([reset, None, None, reset, None]), "{findings:?}");
    }

    #[test]
    fn counters_without_stamps_have_rates() {
        let made_up = MadeUp::new(&[("telemetry/hni_pcs_corrected_cw", "5")]);
        let [before, after] = [(); 2].map(|()| CodeWords::read(&made_up.files).corrected);
        let rate = CodeWordRate::between(before, after).ok().unwrap();
        assert!(rate.seconds > 0.0);
    }
}
