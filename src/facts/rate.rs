//! Rates that a run is to keep, and the schedule of intended start times that follows from one.

use std::fmt;
use std::str::FromStr;

/// Highest number of operations per second: one in a nanosecond.
const MAX_OPERATIONS: u64 = 1_000_000_000;

/// Highest number of bytes per second, more than any NIC.
const MAX_BYTES: u64 = 1_000_000_000_000;

/// Description of valid rates, for messages.
pub const RATES: &str = "expected a rate from 1 to 1000Mop/s or 1000GB/s: operations per second, such \
                         as 1000, 100K or 20kop/s; bytes, such as 500MB/s; or bits, such as 10Gb/s";

/// Nanoseconds in a second.
const SECOND: u128 = 1_000_000_000;

/// What one side issues per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Operations: 1 to 10^9.
    Operations(u64),
    /// Bytes: 1 to 10^12.
    Bytes(u64),
}

/// What one unit is, in units of a rate: numerator and denominator.
#[derive(Clone, Copy)]
enum RateUnit {
    Operations(u64),
    Bytes(u64, u64),
}

/// The units by name. The first one that ends a text applies. K, M and G alone are powers of 1000:
/// they count operations, not bytes.
const UNITS: [(&str, RateUnit); 19] = [
    ("kop/s", RateUnit::Operations(1_000)),
    ("Mop/s", RateUnit::Operations(1_000_000)),
    ("op/s", RateUnit::Operations(1)),
    ("kB/s", RateUnit::Bytes(1_000, 1)),
    ("MB/s", RateUnit::Bytes(1_000_000, 1)),
    ("GB/s", RateUnit::Bytes(1_000_000_000, 1)),
    ("KiB/s", RateUnit::Bytes(1 << 10, 1)),
    ("MiB/s", RateUnit::Bytes(1 << 20, 1)),
    ("GiB/s", RateUnit::Bytes(1 << 30, 1)),
    ("Mb/s", RateUnit::Bytes(1_000_000, 8)),
    ("Gb/s", RateUnit::Bytes(1_000_000_000, 8)),
    ("B/s", RateUnit::Bytes(1, 1)),
    ("K", RateUnit::Operations(1_000)),
    ("k", RateUnit::Operations(1_000)),
    ("M", RateUnit::Operations(1_000_000)),
    ("m", RateUnit::Operations(1_000_000)),
    ("G", RateUnit::Operations(1_000_000_000)),
    ("g", RateUnit::Operations(1_000_000_000)),
    ("", RateUnit::Operations(1)),
];

impl Rate {
    /// The number of operations of `size` bytes per second.
    pub fn operations(self, size: u64) -> f64 {
        match self {
            Self::Operations(operations) => operations as f64,
            Self::Bytes(bytes) => bytes as f64 / size as f64,
        }
    }

    /// The rate as users type it, in the basic unit.
    pub fn word(self) -> String {
        self.to_string().replace(' ', "")
    }

    /// The time from one start to the next, if `count` operations of `size` bytes start together.
    pub fn period(self, size: u64, count: u64) -> Period {
        let (amount, per_second) = match self {
            Self::Operations(operations) => (u128::from(count), operations),
            Self::Bytes(bytes) => (u128::from(count) * u128::from(size), bytes),
        };
        let nanoseconds = amount * SECOND;
        let per_second = u128::from(per_second);
        Period {
            whole: (nanoseconds / per_second)
                .try_into()
                .unwrap_or(Period::LONGEST)
                .min(Period::LONGEST),
            // Below `per_second`, which is at most 10^12.
            rest: (nanoseconds % per_second) as u64,
            per_second: per_second as u64,
        }
    }
}

impl FromStr for Rate {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let with_unit = |(name, unit): &(&str, RateUnit)| Some((text.strip_suffix(name)?, *unit));
        let (number, unit) = UNITS.iter().find_map(with_unit).ok_or(())?;
        let rate = match unit {
            RateUnit::Operations(factor) => Self::Operations(scaled(number, factor, 1).ok_or(())?),
            RateUnit::Bytes(factor, divisor) => {
                Self::Bytes(scaled(number, factor, divisor).ok_or(())?)
            }
        };
        let is_valid = match rate {
            Self::Operations(operations) => (1..=MAX_OPERATIONS).contains(&operations),
            Self::Bytes(bytes) => (1..=MAX_BYTES).contains(&bytes),
        };
        if is_valid { Ok(rate) } else { Err(()) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operations(operations) => write!(f, "{operations} op/s"),
            Self::Bytes(bytes) => write!(f, "{bytes} B/s"),
        }
    }
}

/// Most decimal places of a number.
const MOST_PLACES: usize = 12;

/// The number in `text`, in decimal digits with an optional fraction, times `factor` by `divisor`,
/// if that is a whole number.
fn scaled(text: &str, factor: u64, divisor: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_plain(whole) || !is_plain(fraction) || fraction.len() > MOST_PLACES {
        return None;
    }
    let unit = 10_u64.pow(fraction.len() as u32);
    let number = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit)
        + u128::from(fraction.parse::<u64>().ok()?);
    let (scaled, by) = (number.checked_mul(factor.into())?, u128::from(unit) * u128::from(divisor));
    if scaled % by == 0 { (scaled / by).try_into().ok() } else { None }
}

/// The time from one intended start to the next, exactly: `whole` nanoseconds and `rest` parts of
/// which `per_second` are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    whole: u64,
    rest: u64,
    per_second: u64,
}

impl Period {
    /// The longest period in nanoseconds, about 18 years: start times stay below 2^64.
    const LONGEST: u64 = 1 << 59;

    /// The period in nanoseconds, rounded up.
    pub fn nanoseconds(self) -> u64 {
        self.whole + u64::from(self.rest > 0)
    }
}

/// The open-loop schedule of one size: start `k` is intended `k` periods after the first one,
/// whatever happens before it.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    period: Period,
    /// Intended time of the next start, in nanoseconds.
    due: u64,
    /// Parts of a nanosecond after `due`.
    rest: u64,
    /// The intended time had passed when the side was ready.
    is_late: bool,
    /// Time of the first start and of the last one.
    first: u64,
    last: u64,
    starts: u64,
    late: u64,
}

/// How a schedule was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KeptSchedule {
    /// Number of starts.
    pub starts: u64,
    /// Starts whose intended time had passed when the side was ready for them.
    pub late: u64,
    /// Starts per second from the first one to the last one; `None` if there were not two.
    pub per_second: Option<f64>,
}

impl Pacer {
    /// Creates a schedule whose first start is intended at `first`, in nanoseconds.
    pub fn new(period: Period, first: u64) -> Self {
        Self { period, due: first, rest: 0, is_late: false, first, last: first, starts: 0, late: 0 }
    }

    /// The intended time of the next start, in nanoseconds.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Records that the side is ready for the next start at `now`. The schedule begins when it is
    /// ready for the first one.
    #[inline]
    pub fn ready(&mut self, now: u64) {
        if self.starts == 0 {
            self.due = self.due.max(now);
        }
        self.is_late = now > self.due;
    }

    /// Records a start at `now`, and advances to the next one. Returns how long after its intended
    /// time the start was, in nanoseconds.
    #[inline]
    pub fn start(&mut self, now: u64) -> u64 {
        let delay = now.saturating_sub(self.due);
        if self.starts == 0 {
            self.first = now;
        }
        self.last = now;
        self.starts += 1;
        self.late += u64::from(self.is_late);
        self.rest += self.period.rest;
        let whole = self.rest >= self.period.per_second;
        if whole {
            self.rest -= self.period.per_second;
        }
        let period = self.period.whole + u64::from(whole);
        self.due = self.due.saturating_add(period);
        delay
    }

    /// Returns how the schedule was kept so far.
    pub fn kept(&self) -> KeptSchedule {
        let intervals = self.starts.saturating_sub(1);
        let seconds = self.last.saturating_sub(self.first).max(1) as f64 / 1e9;
        KeptSchedule {
            starts: self.starts,
            late: self.late,
            per_second: (intervals > 0).then(|| intervals as f64 / seconds),
        }
    }
}

impl KeptSchedule {
    /// Returns how the schedules of pairs of queues were kept that ran side by side, if there are
    /// any. A pair without two starts counts with the mean rate of the others.
    pub fn from_pairs(pairs: &[Self]) -> Option<Self> {
        if pairs.is_empty() {
            return None;
        }
        let rates: Vec<_> = pairs.iter().filter_map(|pair| pair.per_second).collect();
        let mean = (!rates.is_empty()).then_some(rates.iter().sum::<f64>() / rates.len() as f64);
        Some(Self {
            starts: pairs.iter().map(|pair| pair.starts).sum(),
            late: pairs.iter().map(|pair| pair.late).sum(),
            per_second: mean.map(|mean| mean * pairs.len() as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(text: &str) -> Option<Rate> {
        text.parse().ok()
    }

    #[test]
    fn reads_operations_and_bytes() {
        for (text, expected) in [
            ("1", Rate::Operations(1)),
            ("1000", Rate::Operations(1_000)),
            ("1000op/s", Rate::Operations(1_000)),
            ("20kop/s", Rate::Operations(20_000)),
            ("100K", Rate::Operations(100_000)),
            ("2k", Rate::Operations(2_000)),
            ("1.5M", Rate::Operations(1_500_000)),
            ("1G", Rate::Operations(1_000_000_000)),
            ("1.5Mop/s", Rate::Operations(1_500_000)),
            ("1000Mop/s", Rate::Operations(1_000_000_000)),
            ("1B/s", Rate::Bytes(1)),
            ("500MB/s", Rate::Bytes(500_000_000)),
            ("2GB/s", Rate::Bytes(2_000_000_000)),
            ("16Gb/s", Rate::Bytes(2_000_000_000)),
            ("0.5Mb/s", Rate::Bytes(62_500)),
            ("100MiB/s", Rate::Bytes(104_857_600)),
            ("1000GB/s", Rate::Bytes(1_000_000_000_000)),
        ] {
            assert_eq!(rate(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn rejects_rates_that_are_not_whole_or_out_of_range() {
        for text in [
            "",
            "0",
            "0op/s",
            "-1",
            "+1",
            " 1",
            "1 op/s",
            "1e3",
            "0x10",
            "1.",
            ".5kop/s",
            "0.5",
            "1.0005kop/s",
            "1.5.5kop/s",
            "1000000001",
            "1.1Gop/s",
            "10G",
            "10KiB",
            "K",
            "1001GB/s",
            "8001Gb/s",
            "0.001Mb/s1",
            "MB/s",
            "500MB",
            "500mb/s",
            "500Mbit/s",
            "18446744073709551616",
            "99999999999999999999kB/s",
            "0.1234567890123GB/s",
            "0.000001Mb/s",
        ] {
            assert_eq!(rate(text), None, "{text:?}");
        }
    }

    #[test]
    fn period_is_exact() {
        assert_eq!(Rate::Operations(1_000).period(8, 1).nanoseconds(), 1_000_000);
        assert_eq!(Rate::Operations(3).period(8, 1).nanoseconds(), 333_333_334);
        assert_eq!(Rate::Bytes(500_000_000).period(1 << 16, 1).nanoseconds(), 131_072);
        assert_eq!(Rate::Operations(1_000_000).period(8, 256).nanoseconds(), 256_000);
        // 4 GiB - 1, 16382 times, at a byte per second.
        let longest = Rate::Bytes(1).period(u32::MAX.into(), 16_382);
        assert_eq!(longest.nanoseconds(), Period::LONGEST);
    }

    /// Intended times do not drift: the parts of nanoseconds add up.
    #[test]
    fn starts_are_intended_at_multiples_of_the_period() {
        let mut pacer = Pacer::new(Rate::Operations(3).period(8, 1), 100);
        let due: Vec<u64> = (0..7)
            .map(|_| {
                let due = pacer.due() - 100;
                pacer.start(pacer.due());
                due
            })
            .collect();
        let thirds = [0, 333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333, 1_666_666_666];
        assert_eq!(due[..6], thirds);
        assert_eq!(due[6], 2_000_000_000);
    }

    /// A stall of 35 periods delays the starts that were intended during it, by what is left of it.
    #[test]
    fn starts_behind_a_stall_are_late_and_catch_up() {
        let mut pacer = Pacer::new(Rate::Operations(1_000_000).period(8, 1), 0);
        let (mut now, mut delays) = (0, Vec::new());
        for number in 0..10 {
            pacer.ready(now);
            now = now.max(pacer.due());
            delays.push(pacer.start(now));
            now += if number == 2 { 3_500 } else { 100 };
        }
        assert_eq!(delays, [0, 0, 0, 2_500, 1_600, 700, 0, 0, 0, 0]);
        let kept = pacer.kept();
        assert_eq!((kept.starts, kept.late), (10, 3));
        assert_eq!(kept.per_second, Some(1e6));
    }

    #[test]
    fn returns_reached_rate_of_a_side_that_is_too_slow() {
        let mut pacer = Pacer::new(Rate::Operations(1_000_000).period(8, 1), 0);
        for number in 0..101 {
            pacer.ready(number * 4_000);
            pacer.start(number * 4_000);
        }
        let kept = pacer.kept();
        assert_eq!((kept.starts, kept.late), (101, 100));
        assert_eq!(kept.per_second, Some(250_000.0));
    }

    /// Of four pairs that start in turn, two have a start more than the others at the end.
    #[test]
    fn adds_rates_of_pairs_with_different_numbers_of_starts() {
        let kept = |starts: u64| {
            let mut pacer = Pacer::new(Rate::Operations(20).period(8, 1), 0);
            for number in 0..starts {
                pacer.ready(number * 50_000_000);
                pacer.start(number * 50_000_000);
            }
            pacer.kept()
        };
        let sum = KeptSchedule::from_pairs(&[21, 20, 21, 20].map(kept));
        let expected = KeptSchedule { starts: 82, late: 0, per_second: Some(80.0) };
        assert_eq!(sum, Some(expected));
        // The rates of the other two are unknown.
        let sum = KeptSchedule::from_pairs(&[2, 1, 2, 0].map(kept)).unwrap();
        assert_eq!((sum.starts, sum.per_second), (5, Some(80.0)));
        let sum = KeptSchedule::from_pairs(&[1, 1, 0].map(kept)).unwrap();
        assert_eq!((sum.starts, sum.per_second), (2, None));
        assert_eq!(KeptSchedule::from_pairs(&[]), None);
    }

    proptest! {
        #[test]
        fn reads_each_rate_as_it_is_written(number in 1..=MAX_OPERATIONS, bytes in 1..=MAX_BYTES) {
            for rate in [Rate::Operations(number), Rate::Bytes(bytes)] {
                prop_assert_eq!(rate.word().parse(), Ok(rate));
            }
        }

        #[test]
        fn reads_only_valid_rates_from_random_text(text in "[0-9.]{0,14}[kMGi]{0,2}(op|B|b|)(/s)?") {
            if let Ok(rate) = text.parse::<Rate>() {
                let is_valid = match rate {
                    Rate::Operations(operations) => (1..=MAX_OPERATIONS).contains(&operations),
                    Rate::Bytes(bytes) => (1..=MAX_BYTES).contains(&bytes),
                };
                prop_assert!(is_valid);
            }
        }

        /// After any number of starts, the intended time is the exact one, rounded down.
        #[test]
        fn intended_times_are_exact(
            operations in 1..=MAX_OPERATIONS, count in 1_u64..20_000, starts in 1_u64..200,
        ) {
            let mut pacer = Pacer::new(Rate::Operations(operations).period(8, count), 0);
            for _ in 0..starts {
                pacer.start(0);
            }
            let exact = u128::from(starts) * u128::from(count) * SECOND / u128::from(operations);
            prop_assert_eq!(u128::from(pacer.due()), exact);
        }
    }
}
