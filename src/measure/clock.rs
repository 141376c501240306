//! The clocks that the measuring loops read, and the clock of one run: chosen when the run begins,
//! calibrated at the first size, and compared with the kernel's clock over the whole run.

use std::borrow::Cow;

use cxi::clock::{CpuCounter, now_ns};
use facts::error::{Failure, invalid};
use node::machine::Machine;
use rustix::time::{ClockId, clock_getres};
use serde::{Deserialize, Serialize};

/// A monotonic clock, in nanoseconds from an arbitrary start.
///
/// Changes of the system time do not affect it (defect T17 of tools.md).
pub trait Clock {
    /// The current time.
    fn now(&self) -> u64;
}

/// CLOCK_MONOTONIC_RAW: nanoseconds, not slewed by time synchronisation.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicRaw;

impl MonotonicRaw {
    /// Name of the clock in the kernel.
    pub const NAME: &str = "CLOCK_MONOTONIC_RAW";

    /// The resolution that the kernel reports, in nanoseconds.
    pub fn resolution_ns() -> u64 {
        let resolution = clock_getres(ClockId::MonotonicRaw);
        resolution.tv_sec as u64 * 1_000_000_000 + resolution.tv_nsec as u64
    }
}

impl Clock for MonotonicRaw {
    #[inline(always)]
    fn now(&self) -> u64 {
        cxi::clock::now_ns()
    }
}

/// Binary digits of a rate behind the point: enough for a relative error of 10^-9.
const FRACTION: u32 = 32;

/// The counter of the CPUs, converted to nanoseconds at a fixed rate.
#[derive(Clone, Copy, Debug)]
pub struct CounterClock {
    counter: CpuCounter,
    /// Nanoseconds per count, times 2^32.
    rate: u64,
}

impl CounterClock {
    /// Creates a clock that converts at `rate`, in nanoseconds per count.
    pub fn new(counter: CpuCounter, rate: f64) -> Self {
        Self { counter, rate: (rate * (1_u64 << FRACTION) as f64).round() as u64 }
    }

    /// The rate after rounding, in nanoseconds per count.
    pub fn rate(self) -> f64 {
        self.rate as f64 / (1_u64 << FRACTION) as f64
    }

    /// Converts a count.
    #[inline(always)]
    fn nanoseconds(self, count: u64) -> u64 {
        ((u128::from(count) * u128::from(self.rate)) >> FRACTION) as u64
    }
}

impl Clock for CounterClock {
    #[inline(always)]
    fn now(&self) -> u64 {
        self.nanoseconds(self.counter.read())
    }
}

/// The clock of the loops of a run. The choice among the variants is made outside the loops.
#[derive(Clone, Copy, Debug)]
pub enum ChosenClock {
    /// The clock of the kernel.
    MonotonicRaw(MonotonicRaw),
    /// The counter of the CPUs.
    Counter(CounterClock),
}

/// Least time over which the rate of the counter is measured, in nanoseconds. The error of the rate
/// is then at most about 40 ppm. The time from the beginning of the run to its first size is
/// longer.
const LEAST_CALIBRATION: u64 = 1_000_000;

/// Number of attempts to read both clocks at the same moment. The best one counts, so that an
/// interrupt does no harm.
const ATTEMPTS: usize = 8;

/// Drift above which the latencies are doubtful, in parts per million: 2 ns in a latency of 2 us. A
/// short calibration has an error of at most 40 ppm.
const DOUBTFUL_PPM: f64 = 1000.0;

facts::named_enum! {
    /// The clock that `--clock` requests.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ClockChoice {
        /// The counter of the CPUs if it is reliable, else the clock of the kernel.
        #[default]
        Auto = "auto",
        /// The time stamp counter of x86-64.
        Tsc = "tsc",
        /// The generic timer of aarch64.
        Cntvct = "cntvct",
        MonotonicRaw = "monotonic-raw",
    }
    impl Display;
    impl FromStr or "expected auto, tsc (x86-64), cntvct (aarch64) or monotonic-raw";
}

/// The clock that measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "testing", schemars(rename = "Clock"))]
pub struct MeasuringClock {
    /// Name of the clock: TSC, CNTVCT, or a clock of Linux.
    pub name: Cow<'static, str>,
    /// Resolution of the times, in nanoseconds.
    pub resolution_ns: u64,
    /// Frequency of the counter, measured against CLOCK_MONOTONIC_RAW over the whole run, in Hz;
    /// null for a clock of Linux, and if nothing was measured.
    pub frequency_hz: Option<f64>,
    /// Relative difference between the rate at which counts were converted to nanoseconds and the
    /// rate measured over the whole run, in parts per million; null for a clock of Linux, and if
    /// nothing was measured.
    pub drift_ppm: Option<f64>,
}

impl MeasuringClock {
    /// The facts about CLOCK_MONOTONIC_RAW.
    pub fn from_monotonic_raw() -> Self {
        Self {
            name: MonotonicRaw::NAME.into(),
            resolution_ns: MonotonicRaw::resolution_ns(),
            frequency_hz: None,
            drift_ppm: None,
        }
    }

    /// A warning if the clock has drifted so far that the latencies are doubtful.
    pub fn warning(&self) -> Option<String> {
        let drift = self.drift_ppm.filter(|ppm| ppm.abs() > DOUBTFUL_PPM)?;
        Some(format!(
            "the {} and {} differ by {drift:.0} ppm over this run: measure with --clock=monotonic-raw",
            self.name,
            MonotonicRaw::NAME
        ))
    }
}

#[derive(Clone, Debug)]
pub struct RunClock {
    counter: Option<Calibration>,
}

impl RunClock {
    /// Chooses the clock, and begins its calibration.
    ///
    /// The counter of the CPUs is used if the processor states that its rate is constant, and if it
    /// is the clock source of Linux on `machine`. Linux compares the counters of the CPUs when it
    /// starts them, unless the hypervisor or the command line states that they agree, and changes
    /// to another clock source if they differ. CLOCK_MONOTONIC_RAW is then computed from the
    /// counter of the CPU that reads it: it is no more reliable.
    ///
    /// # Errors
    ///
    /// A counter was requested that cannot be used.
    pub fn choose(choice: ClockChoice, machine: &Machine) -> Result<Self, Failure> {
        let requested = match choice {
            ClockChoice::MonotonicRaw => return Ok(Self { counter: None }),
            ClockChoice::Auto => CpuCounter::NAME,
            ClockChoice::Tsc => "TSC",
            ClockChoice::Cntvct => "CNTVCT",
        };
        match (reliable_counter(requested, machine), choice) {
            (Ok(counter), _) => Ok(Self { counter: Some(Calibration::begin(counter)) }),
            (Err(_), ClockChoice::Auto) => Ok(Self { counter: None }),
            (Err(why), _) => Err(Failure::usage(invalid("clock", choice, why))
                .with_hint("leave out --clock, or use --clock=monotonic-raw")),
        }
    }

    /// The clock for a loop. The first call measures the rate of a counter; later calls use the
    /// same rate.
    pub fn clock(&mut self) -> ChosenClock {
        match &mut self.counter {
            None => ChosenClock::MonotonicRaw(MonotonicRaw),
            Some(calibration) => ChosenClock::Counter(calibration.clock()),
        }
    }

    /// The facts about the clock, from the beginning of the run until now.
    pub fn facts(&self) -> MeasuringClock {
        match &self.counter {
            None => MeasuringClock::from_monotonic_raw(),
            Some(calibration) => calibration.facts(ClockMoment::read(calibration.counter)),
        }
    }
}

/// The counter of the CPUs, or why it cannot be used.
fn reliable_counter(requested: &str, machine: &Machine) -> Result<CpuCounter, String> {
    if requested != CpuCounter::NAME {
        return Err(format!("this processor has no {requested}, but a {}", CpuCounter::NAME));
    }
    let counter = CpuCounter::find().ok_or_else(|| {
        format!("the {requested} of this processor does not count at a constant rate")
    })?;
    match machine.clock_source() {
        Some(source) if source == CpuCounter::CLOCK_SOURCE => Ok(counter),
        source => Err(format!(
            "Linux does not confirm that the {requested} of all CPUs agree: its clock source is {}, \
             not {}",
            source.as_deref().unwrap_or("unknown"),
            CpuCounter::CLOCK_SOURCE
        )),
    }
}

/// A counter, compared with CLOCK_MONOTONIC_RAW.
#[derive(Clone, Debug)]
struct Calibration {
    counter: CpuCounter,
    begin: ClockMoment,
    clock: Option<CounterClock>,
}

impl Calibration {
    fn begin(counter: CpuCounter) -> Self {
        Self { counter, begin: ClockMoment::read(counter), clock: None }
    }

    fn clock(&mut self) -> CounterClock {
        let rate = || match self.counter.frequency() {
            Some(frequency) => 1e9 / frequency as f64,
            None => self.measure(),
        };
        let clock = match self.clock {
            Some(clock) => clock,
            None => CounterClock::new(self.counter, rate()),
        };
        self.clock = Some(clock);
        clock
    }

    /// Measures the rate since the beginning of the run.
    fn measure(&self) -> f64 {
        loop {
            let now = ClockMoment::read(self.counter);
            if now.ns - self.begin.ns >= LEAST_CALIBRATION {
                return self.begin.rate_until(now);
            }
        }
    }

    /// The facts at the moment `now`. Without a rate, nothing has been measured.
    fn facts(&self, now: ClockMoment) -> MeasuringClock {
        let used = self.clock.map(CounterClock::rate);
        let is_long = now.ns - self.begin.ns >= LEAST_CALIBRATION;
        let rate = is_long.then(|| self.begin.rate_until(now));
        MeasuringClock {
            name: CpuCounter::NAME.into(),
            // Latencies are whole nanoseconds.
            resolution_ns: used.or(rate).map_or(1, |rate| rate.ceil().max(1.0) as u64),
            frequency_hz: rate.map(|rate| 1e9 / rate),
            drift_ppm: used.zip(rate).map(|(used, rate)| (used / rate - 1.0) * 1e6),
        }
    }
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct ClockMoment {
    count: u64,
    ns: u64,
}

impl ClockMoment {
    fn read(counter: CpuCounter) -> Self {
        let attempt = |_| {
            let before = now_ns();
            let count = counter.read();
            let width = now_ns() - before;
            (width, before + width / 2, count)
        };
        let best = (0..ATTEMPTS).map(attempt).min();
        let (_, ns, count) = best.expect("at least one attempt");
        Self { count, ns }
    }

    /// The rate from this moment to a later one, in nanoseconds per count.
    fn rate_until(self, later: Self) -> f64 {
        (later.ns - self.ns) as f64 / (later.count - self.count) as f64
    }
}

#[cfg(test)]
mod tests {
    use node::machine::testing::MadeUp;
    use proptest::prelude::*;

    use super::*;
    use crate::Clock;

    proptest! {
        /// Counters of 1 MHz to 8 GHz of a machine that has been up for 36 years at most.
        #[test]
        fn converts_differences_of_counts_to_nanoseconds(
            rate in 0.125_f64..1000.0,
            up_ns in 0_u64..1 << 60,
            counts in 0_u64..1 << 40,
        ) {
            let Some(counter) = CpuCounter::find() else {
                return Ok(());
            };
            let clock = CounterClock::new(counter, rate);
            let at = (up_ns as f64 / rate) as u64;
            prop_assert!((clock.rate() / rate - 1.0).abs() < 2e-9);
            let difference = clock.nanoseconds(at + counts) - clock.nanoseconds(at);
            let exact = counts as f64 * clock.rate();
            prop_assert!((difference as f64 - exact).abs() <= 1.0 + exact * 1e-12);
        }
    }

    const CLOCK_SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

    /// The clock that is chosen where Linux uses this clock source.
    fn chosen(choice: ClockChoice, clock_source: &str) -> Result<Cow<'static, str>, Failure> {
        let machine = MadeUp::new(&[(CLOCK_SOURCE, clock_source)]);
        RunClock::choose(choice, &machine.machine()).map(|clock| clock.facts().name)
    }

    /// The choice that names the counter of this architecture.
    fn own_counter() -> ClockChoice {
        match CpuCounter::NAME {
            "TSC" => ClockChoice::Tsc,
            _ => ClockChoice::Cntvct,
        }
    }

    #[test]
    fn uses_counter_only_if_kernel_does() {
        let best = CpuCounter::find().map_or(MonotonicRaw::NAME, |_| CpuCounter::NAME);
        let line = format!("{}\n", CpuCounter::CLOCK_SOURCE);
        assert_eq!(chosen(ClockChoice::Auto, &line).unwrap(), best);
        assert_eq!(chosen(ClockChoice::Auto, "kvm-clock\n").unwrap(), MonotonicRaw::NAME);
        let failure = chosen(own_counter(), "hpet\n").unwrap_err();
        assert_eq!(failure.status(), 2);
        let message = failure.message();
        if CpuCounter::find().is_some() {
            assert!(message.contains("is hpet, not"), "{message}");
        }
    }

    #[test]
    fn refuses_counter_of_other_architecture() {
        let other = match own_counter() {
            ClockChoice::Tsc => ClockChoice::Cntvct,
            _ => ClockChoice::Tsc,
        };
        let message = chosen(other, CpuCounter::CLOCK_SOURCE).unwrap_err().message();
        assert!(message.contains("this processor has no"), "{message}");
    }

    #[test]
    fn uses_kernel_clock_on_request() {
        let name = chosen(ClockChoice::MonotonicRaw, CpuCounter::CLOCK_SOURCE);
        assert_eq!(name.unwrap(), MonotonicRaw::NAME);
    }

    #[test]
    fn parses_and_prints_names() {
        for (name, choice) in [
            ("auto", ClockChoice::Auto),
            ("tsc", ClockChoice::Tsc),
            ("cntvct", ClockChoice::Cntvct),
            ("monotonic-raw", ClockChoice::MonotonicRaw),
        ] {
            assert_eq!(name.parse(), Ok(choice));
            assert_eq!(choice.to_string(), name);
        }
        assert!("TSC".parse::<ClockChoice>().is_err());
    }

    #[test]
    fn reports_drift_against_rate_of_whole_run() {
        let Some(counter) = CpuCounter::find() else {
            return;
        };
        let moment = |count, ns| ClockMoment { count, ns };
        let mut calibration = Calibration { counter, begin: moment(1_000, 500), clock: None };
        // 2.5 GHz over 10 s, while counts were converted at a rate that is 3 ppm too high.
        let end = moment(25_000_001_000, 10_000_000_500);
        assert_eq!(calibration.facts(end).drift_ppm, None);
        calibration.clock = Some(CounterClock::new(counter, 0.4 * (1.0 + 3e-6)));
        let facts = calibration.facts(end);
        assert!((facts.frequency_hz.unwrap() - 2.5e9).abs() < 1.0);
        assert!((facts.drift_ppm.unwrap() - 3.0).abs() < 0.01);
        // Too short to measure a rate.
        let facts = calibration.facts(moment(1_000, 600));
        assert_eq!((facts.frequency_hz, facts.drift_ppm), (None, None));
    }

    #[test]
    fn warns_of_large_drift_only() {
        let warning = |drift_ppm| {
            let facts = MeasuringClock {
                name: "TSC".into(),
                drift_ppm,
                ..MeasuringClock::from_monotonic_raw()
            };
            facts.warning()
        };
        for small in [None, Some(0.1), Some(-999.0)] {
            assert_eq!(warning(small), None);
        }
        let text = warning(Some(-1500.4)).unwrap();
        assert!(text.starts_with("the TSC and CLOCK_MONOTONIC_RAW differ by -1500 ppm"));
    }

    /// The counter and the clock of the kernel measure the same time.
    #[test]
    fn calibrated_counter_agrees_with_kernel_clock() {
        let Some(counter) = CpuCounter::find() else {
            return;
        };
        let mut calibration = Calibration::begin(counter);
        let clock = calibration.clock();
        // The thread may lose its CPU between two readings.
        let readings = || (MonotonicRaw.now(), clock.now(), MonotonicRaw.now());
        let begin = readings();
        let end = loop {
            let now = readings();
            if now.0 - begin.2 > 2_000_000 {
                break now;
            }
        };
        let counted = (end.1 - begin.1) as f64;
        let (least, most) = ((end.0 - begin.2) as f64, (end.2 - begin.0) as f64);
        assert!(counted > 0.99 * least, "{counted} of {least} to {most}");
        assert!(counted < 1.01 * most, "{counted} of {least} to {most}");
    }
}
