//! NICs under load, with their temperatures, as `cxidiag check --stress --json` writes them
//! (docs/check.md). The doc comments of the types are the descriptions in their schema,
//! docs/stress.schema.json.

use serde::Serialize;

use facts::error::{Failure, UNDECIDED};
use facts::host::host_name;
use facts::severity::Severity;
use facts::time_of_day::{Clocks, milliseconds};
use health::sensors::{self, Sensor, TemperatureLimits};
use page::page::Page;
use page::problem::Problem;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Bytes per second that a NIC carries at least (node-tools.md 5.5).
pub const LEAST_RATE: f64 = 19e9;

/// Codes of the items that are no temperature.
const RATE: &str = "stress-rate";
const LOAD: &str = "stress-load";

/// NICs under load.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StressReport {
    /// Version of this layout.
    schema_version: u32,
    /// Name of what was done.
    command: &'static str,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// Name of the host.
    host_name: String,
    /// Start, in milliseconds since 1970-01-01 (UTC).
    pub(super) started_unix_ms: u64,
    /// Duration with set-up, in milliseconds.
    pub(super) elapsed_ms: u64,
    /// By how many seconds the clock of the host was stepped meanwhile; null if it was not. Rates
    /// do not follow it.
    clock_step_s: Option<f64>,
    /// Exit status of the program: 0 if all criteria are met, 3 if one is not, 4 if one could not
    /// be judged and the others are met.
    pub(super) exit_status: u8,
    /// The last line of the text.
    summary: String,
    /// The NICs, in the order of the arguments.
    pub(super) devices: Vec<StressedNic>,
}

/// A NIC under load.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StressedNic {
    /// Name of the device: cxiN, or softN for a software NIC.
    pub(super) name: String,
    /// Whether it is a software NIC, so that no Cassini hardware is involved. Its rate is not
    /// judged.
    is_software: bool,
    /// Part number of the card; null if it is unknown.
    part_number: Option<String>,
    /// Threads that wrote.
    threads: usize,
    /// The error of the NIC that ended the load; null if none did.
    error: Option<Problem>,
    /// Seconds of load that are counted.
    seconds: f64,
    /// Bytes that the NIC has written to itself in these seconds.
    bytes: u64,
    /// good, bad, or shown for a software NIC; not_available without a sample.
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    rate_verdict: Severity,
    /// The sensors that the card has.
    pub(super) sensors: Vec<SensorResult>,
    /// What was read at each interval, and with a critical temperature.
    pub(super) samples: Vec<StressSample>,
}

/// A sensor of a card.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SensorResult {
    /// Name of the sensor.
    label: &'static str,
    /// Unit of its values: celsius or watts.
    unit: &'static str,
    /// Its highest value, between the samples as well; null if it had none.
    pub(super) max: Option<f64>,
    /// From this value on it is bad; null if it has no limit.
    limit: Option<f64>,
    /// From this value on the load ends at once; null if it has no limit.
    critical: Option<f64>,
    /// good, bad, shown (without a limit), or not_available if a sample lacks its value.
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub(super) verdict: Severity,
    #[serde(skip)]
    pub(super) sensor: &'static Sensor,
}

/// What was read at one time.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StressSample {
    /// Seconds since the count began.
    pub(super) seconds: f64,
    /// Bytes per second since the sample before.
    pub(super) bytes_per_s: f64,
    /// The value of each sensor, in the order of sensors; null for a sensor without a value.
    pub(super) values: Vec<Option<f64>>,
}

impl SensorResult {
    /// The value from which on it is bad, if it has a limit.
    pub(super) fn limit(&self) -> Option<f64> {
        self.limit
    }

    /// The limits of a temperature; `None` of a power.
    pub(super) fn limits(&self) -> Option<TemperatureLimits> {
        let code = self.sensor.limits()?.code;
        Some(TemperatureLimits { code, high: self.limit?, critical: self.critical? })
    }
}

impl StressedNic {
    /// A NIC with these sensors, before the first sample.
    pub fn new(
        name: String,
        is_software: bool,
        part_number: Option<String>,
        threads: usize,
        sensors: Vec<&'static Sensor>,
    ) -> Self {
        let sensors = sensors.into_iter().map(|sensor| SensorResult {
            label: sensor.label,
            unit: if sensor.limits().is_some() { "celsius" } else { "watts" },
            max: None,
            limit: sensor.limits().map(|limits| limits.high),
            critical: sensor.limits().map(|limits| limits.critical),
            verdict: match sensor.limits() {
                Some(_) => Severity::NotAvailable,
                None => Severity::Shown,
            },
            sensor,
        });
        Self {
            name,
            is_software,
            part_number,
            threads,
            error: None,
            seconds: 0.0,
            bytes: 0,
            rate_verdict: Severity::NotAvailable,
            sensors: sensors.collect(),
            samples: Vec::new(),
        }
    }

    /// Replaces the limits of the cable by its own ones: for a warning, and for taking the link
    /// down. If one is not known, the other one stands for it.
    pub fn with_cable_limits(mut self, limits: [Option<f64>; 2]) -> Self {
        let [warning, down] = limits;
        let is_cable = |result: &&mut SensorResult| result.sensor.limits() == Some(sensors::MEDIA);
        for result in self.sensors.iter_mut().filter(is_cable) {
            result.limit = warning.or(down).or(result.limit);
            result.critical = down.or(warning).or(result.critical);
        }
        self
    }

    /// Adds what was read `seconds` after the count began, when the NIC had written `bytes` since
    /// then. The sample counts in all maxima (defect N30 of node-tools.md).
    pub fn add(&mut self, seconds: f64, bytes: u64, values: Vec<Option<f64>>) {
        let rate = |bytes: u64, seconds: f64| {
            if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
        };
        let bytes_per_s = rate(bytes.saturating_sub(self.bytes), seconds - self.seconds);
        (self.seconds, self.bytes) = (seconds, bytes);
        self.rate_verdict = match rate(bytes, seconds) {
            _ if self.is_software => Severity::Shown,
            rate if rate >= LEAST_RATE => Severity::Good,
            _ => Severity::Bad,
        };
        self.samples.push(StressSample { seconds, bytes_per_s, values: values.clone() });
        self.look(&values);
    }

    /// Counts what was read, perhaps between two samples, in the maxima.
    pub fn look(&mut self, values: &[Option<f64>]) {
        for (place, (result, value)) in self.sensors.iter_mut().zip(values).enumerate() {
            let mut samples = self.samples.iter().map(|sample| sample.values[place]);
            let has_all = !self.samples.is_empty() && samples.all(|value| value.is_some());
            result.max = result.max.into_iter().chain(*value).reduce(f64::max);
            result.verdict = match (result.limits(), result.max) {
                (None, _) => Severity::Shown,
                (Some(limits), Some(max)) if max >= limits.high => Severity::Bad,
                (Some(_), Some(_)) if has_all => Severity::Good,
                _ => Severity::NotAvailable,
            };
        }
    }

    /// Notes the error of the NIC that ended the load.
    pub fn fail(&mut self, failure: &Failure) {
        self.error = Some(failure.into());
    }

    /// The error of the NIC that ended the load, if one did.
    pub fn error(&self) -> Option<&str> {
        self.error.as_ref().map(|error| error.message.as_str())
    }

    /// The first sensor whose last value is too high for the load to go on.
    pub fn critical(&self) -> Option<&'static Sensor> {
        self.critical_of(&self.samples.last()?.values)
    }

    /// The first sensor whose value, among these of all its sensors, is too high for the load to go
    /// on.
    pub fn critical_of(&self, values: &[Option<f64>]) -> Option<&'static Sensor> {
        let mut sensors = self.sensors.iter().zip(values);
        let is_critical = |limits: TemperatureLimits, value: &Option<f64>| {
            value.is_some_and(|value| value >= limits.critical)
        };
        let found = sensors.find(|(result, value)| {
            result.limits().is_some_and(|limits| is_critical(limits, value))
        });
        found.map(|(result, _)| result.sensor)
    }

    /// The bytes per second over the time of all samples (defect N33 of node-tools.md).
    pub fn mean_rate(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }

    /// The codes of the criteria that could be judged, and whether they are met.
    pub(super) fn judged(&self) -> Vec<(&'static str, bool)> {
        let mut verdicts: Vec<(&'static str, Severity)> = Vec::new();
        for result in &self.sensors {
            let Some(TemperatureLimits { code, .. }) = result.limits() else { continue };
            match verdicts.iter_mut().find(|(other, _)| *other == code) {
                // One that could not be judged leaves good ones unjudged.
                Some((_, verdict)) if *verdict != Severity::Bad => {
                    let is_bad = result.verdict == Severity::Bad;
                    *verdict = if is_bad { Severity::Bad } else { result.verdict.min(*verdict) };
                }
                Some(_) => {}
                None => verdicts.push((code, result.verdict)),
            }
        }
        verdicts.push((RATE, self.rate_verdict));
        if self.error.is_some() || !self.samples.is_empty() {
            let load = if self.error.is_some() { Severity::Bad } else { Severity::Good };
            verdicts.push((LOAD, load));
        }
        let judged = verdicts.into_iter().filter(|(_, verdict)| *verdict >= Severity::Good);
        judged.map(|(code, verdict)| (code, verdict == Severity::Good)).collect()
    }

    /// Whether a criterion is not met.
    pub fn is_bad(&self) -> bool {
        self.bad().is_some()
    }

    /// The first criterion that is not met: its code, and what is wrong.
    fn bad(&self) -> Option<(&'static str, String)> {
        let temperature = |result: &SensorResult| {
            let (limits, max) = (result.limits()?, result.max?);
            let TemperatureLimits { code, high, .. } = limits;
            let shown = shown(max, limits);
            (result.verdict == Severity::Bad)
                .then(|| (code, format!("{} {shown} C, expected <{high} C", result.label)))
        };
        self.sensors
            .iter()
            .find_map(temperature)
            .or_else(|| Some((LOAD, self.error.as_ref()?.message.clone())))
            .or_else(|| {
                let rate = self.mean_rate() / 1e9;
                let what = format!("{rate:.2} GB/s, expected at least {} GB/s", LEAST_RATE / 1e9);
                (self.rate_verdict == Severity::Bad).then_some((RATE, what))
            })
    }

    /// Returns why nothing can be said about a criterion, if that is so.
    pub fn unjudged(&self) -> Option<String> {
        if self.samples.is_empty() {
            return Some("the load ended before the first sample".into());
        }
        if !self.sensors.iter().any(|result| result.limits().is_some()) {
            return Some("the driver shows no temperature".into());
        }
        let is_unjudged = |result: &&SensorResult| {
            let is_optional = result.sensor.may_lack_value && result.max.is_none();
            result.verdict == Severity::NotAvailable && !is_optional
        };
        let result = self.sensors.iter().find(is_unjudged)?;
        let lacking = if result.max.is_some() { "sometimes has no value" } else { "has no value" };
        Some(format!("{} {lacking}", result.label))
    }

    /// The temperature that is nearest to its limit.
    fn hottest(&self) -> Option<(f64, String)> {
        let temperatures = self.sensors.iter().filter_map(|result| {
            let (limits, max) = (result.limits()?, result.max?);
            let shown = shown(max, limits);
            let text = format!("{} {shown} C, limit {} C", result.sensor.column, limits.high);
            Some((max - limits.high, text))
        });
        temperatures.reduce(|one, other| if other.0 > one.0 { other } else { one })
    }
}

/// A temperature rounded, but not up to a limit that it does not reach.
pub(super) fn shown(celsius: f64, limits: TemperatureLimits) -> f64 {
    let reaches = |limit: f64| celsius < limit && celsius.round() >= limit;
    if reaches(limits.high) || reaches(limits.critical) { celsius.floor() } else { celsius.round() }
}

impl StressReport {
    /// The report about NICs whose load `began` and `ended` at these times.
    pub fn new([began, ended]: [Clocks; 2], devices: Vec<StressedNic>) -> Self {
        let (exit_status, summary) = conclusion(&devices);
        Self {
            schema_version: SCHEMA_VERSION,
            command: "stress",
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            host_name: host_name(),
            started_unix_ms: milliseconds(began.of_day),
            elapsed_ms: milliseconds(ended.since(began)),
            clock_step_s: ended.step_since(began),
            exit_status,
            summary,
            devices,
        }
    }

    /// The line that callers read.
    pub fn headline(&self) -> Page {
        Page::headline(&self.summary, self.exit_status)
    }

    /// Whether all criteria are met.
    ///
    /// # Errors
    ///
    /// The summary, if not.
    pub fn result(&self) -> Result<(), Failure> {
        Failure::concluded(self.exit_status, &self.summary)
    }
}

/// The exit status, and the line that callers read.
fn conclusion(devices: &[StressedNic]) -> (u8, String) {
    let mut bad = devices.iter().filter_map(|nic| Some((&nic.name, nic.bad()?)));
    if let Some((name, (code, what))) = bad.next() {
        let others = match bad.count() {
            0 => String::new(),
            1 => " (and 1 more NIC)".into(),
            others => format!(" (and {others} more NICs)"),
        };
        return (3, format!("FAIL {code} {name}: {what}{others}"));
    }
    let mut unjudged = devices.iter().filter_map(|nic| Some((&nic.name, nic.unjudged()?)));
    if let Some((name, why)) = unjudged.next() {
        return (UNDECIDED, format!("UNDECIDED untested {name}: {why}"));
    }
    let names: Vec<&str> = devices.iter().map(|nic| nic.name.as_str()).collect();
    let hottest = devices.iter().filter_map(|nic| Some((nic.hottest()?, &nic.name)));
    let hottest = hottest.reduce(|one, other| if other.0.0 > one.0.0 { other } else { one });
    let hottest = hottest.map_or(String::new(), |((_, text), name)| match devices {
        [_] => format!(" (hottest: {text})"),
        _ => format!(" (hottest: {name} {text})"),
    });
    (0, format!("OK {}{hottest}", names.join(" ")))
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! NICs with known sensors.

    use super::*;
    use health::sensors::{Sensors, board};
    use node::nic::files::Files;

    /// The NIC of a card with this part number.
    pub fn nic(part_number: &str) -> StressedNic {
        let files = Files::new("/nonexistent", "cxi0");
        let sensors = Sensors::find(&files, board(part_number)).list();
        StressedNic::new("cxi0".into(), false, Some(part_number.into()), 4, sensors)
    }

    /// The report about these NICs.
    pub fn report(nics: Vec<StressedNic>) -> StressReport {
        StressReport::new([Clocks::default(); 2], nics)
    }

    /// Adds samples 10 s apart with this rate in GB/s, and these values.
    pub fn add(nic: &mut StressedNic, gigabytes: f64, values: &[Option<f64>]) {
        let seconds = 10.0 * (nic.samples.len() + 1) as f64;
        let bytes = nic.bytes + (gigabytes * 1e10) as u64;
        nic.add(seconds, bytes, values.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{add, nic};
    use super::*;

    const K: &str = "P52930-001";

    fn report(nics: Vec<StressedNic>) -> (u8, String) {
        let report = testing::report(nics);
        (report.exit_status, report.summary)
    }

    fn temperatures(asic: Option<f64>, cable: Option<f64>) -> [Option<f64>; 5] {
        [Some(16.2), Some(6.0), Some(2.0), asic, cable]
    }

    #[test]
    fn concludes_from_each_criterion() {
        let hot = "FAIL asic-temperature cxi0: Cassini 0 Temperature 85 C, expected <85 C";
        for (gigabytes, asic, cable, status, line) in [
            (21.0, Some(84.9), Some(60.0), 0, "OK cxi0 (hottest: ASIC_0 84 C, limit 85 C)"),
            (21.0, Some(64.0), None, 0, "OK cxi0 (hottest: ASIC_0 64 C, limit 85 C)"),
            (21.0, Some(64.0), Some(69.2), 0, "OK cxi0 (hottest: QSFP_INT 69 C, limit 70 C)"),
            (21.0, Some(85.0), Some(60.0), 3, hot),
            (
                21.0,
                Some(64.0),
                Some(70.0),
                3,
                "FAIL media-temperature cxi0: QSFP Internal Temperature 70 C, expected <70 C",
            ),
            (
                18.994,
                Some(64.0),
                None,
                3,
                "FAIL stress-rate cxi0: 18.99 GB/s, expected at least 19 GB/s",
            ),
            (21.0, None, None, 4, "UNDECIDED untested cxi0: Cassini 0 Temperature has no value"),
        ] {
            let mut nic = nic(K);
            add(&mut nic, gigabytes, &temperatures(asic, cable));
            assert_eq!(report(vec![nic]), (status, line.to_owned()));
        }
    }

    #[test]
    fn cable_has_its_own_limits() {
        for (limits, cable, status, is_critical) in [
            ([Some(80.0), Some(90.0)], 77.0, 0, false),
            ([Some(80.0), Some(90.0)], 80.0, 3, false),
            ([Some(80.0), Some(90.0)], 90.0, 3, true),
            ([Some(80.0), None], 79.0, 0, false),
            ([None, Some(90.0)], 89.0, 0, false),
            ([None, Some(90.0)], 90.0, 3, true),
            ([None, None], 75.0, 3, true),
        ] {
            let mut nic = nic(K).with_cable_limits(limits);
            add(&mut nic, 21.0, &temperatures(Some(76.0), Some(cable)));
            assert_eq!(nic.critical().is_some(), is_critical, "{limits:?} {cable}");
            assert_eq!(report(vec![nic]).0, status, "{limits:?} {cable}");
        }
    }

    #[test]
    fn heat_between_samples_counts() {
        let mut nic = nic(K);
        nic.look(&temperatures(Some(60.0), None));
        assert_eq!(nic.judged(), [], "there is no sample");
        add(&mut nic, 21.0, &temperatures(Some(84.0), Some(60.0)));
        // The value of a cable may lack between samples.
        nic.look(&temperatures(Some(88.0), None));
        add(&mut nic, 21.0, &temperatures(Some(84.0), Some(60.0)));
        assert_eq!((nic.sensors[3].max, nic.samples.len()), (Some(88.0), 2));
        let hot = "FAIL asic-temperature cxi0: Cassini 0 Temperature 88 C, expected <85 C";
        assert_eq!(report(vec![nic]), (3, hot.to_owned()));
    }

    /// N30: the sample that ends the load counts.
    #[test]
    fn n30_first_sample_counts_if_it_is_critical() {
        let mut overheated = nic(K);
        add(&mut overheated, 21.0, &temperatures(Some(90.0), None));
        assert_eq!(overheated.critical().map(|sensor| sensor.column), Some("ASIC_0"));
        assert_eq!(overheated.sensors[3].max, Some(90.0));
        let (status, line) = report(vec![overheated]);
        assert_eq!(status, 3);
        assert!(line.ends_with(" 90 C, expected <85 C"), "{line}");
        let mut hot = nic(K);
        add(&mut hot, 21.0, &temperatures(Some(89.9), Some(74.9)));
        assert!(hot.critical().is_none());
    }

    /// N33: bytes over time, not the mean of the rows.
    #[test]
    fn n33_rate_is_bytes_over_time() {
        let mut nic = nic(K);
        nic.add(1.0, 40_000_000_000, temperatures(Some(60.0), None).to_vec());
        nic.add(10.0, 190_000_000_000, temperatures(Some(60.0), None).to_vec());
        assert_eq!(nic.mean_rate(), 19e9);
        assert!((nic.samples[1].bytes_per_s - 150e9 / 9.0).abs() < 1.0);
        assert_eq!(nic.rate_verdict, Severity::Good);
    }

    /// N34: a sensor that fails once ends nothing, and is not good either.
    #[test]
    fn n34_missing_value_leaves_sensor_unjudged() {
        let mut nic = nic(K);
        add(&mut nic, 21.0, &temperatures(Some(60.0), None));
        add(&mut nic, 21.0, &temperatures(None, Some(50.0)));
        assert_eq!(nic.sensors[3].max, Some(60.0));
        let line = "UNDECIDED untested cxi0: Cassini 0 Temperature sometimes has no value";
        assert_eq!(report(vec![nic]), (4, line.to_owned()));
    }

    #[test]
    fn names_the_worst_of_several_nics() {
        let nics = || {
            let mut nics = vec![nic(K), nic(K)];
            nics[1].name = "cxi1".into();
            nics.iter_mut().for_each(|nic| add(nic, 21.0, &temperatures(Some(60.0), None)));
            nics
        };
        let mut hotter = nics();
        add(&mut hotter[1], 21.0, &temperatures(Some(61.0), None));
        let line = "OK cxi0 cxi1 (hottest: cxi1 ASIC_0 61 C, limit 85 C)";
        assert_eq!(report(hotter), (0, line.to_owned()));
        let mut failed = nics();
        failed[1].fail(&Failure::nic("writing failed: the NIC reported UNDELIVERABLE"));
        let line = "FAIL stress-load cxi1: writing failed: the NIC reported UNDELIVERABLE";
        assert_eq!(report(failed), (3, line.to_owned()));
        let mut unread = nics();
        unread.push(nic(K));
        let line = "UNDECIDED untested cxi0: the load ended before the first sample";
        assert_eq!(report(unread), (4, line.to_owned()));
    }

    #[test]
    fn software_nic_without_sensors_is_undecided() {
        let mut nic = StressedNic::new("soft0".into(), true, None, 1, Vec::new());
        nic.add(1.0, 1000, Vec::new());
        assert_eq!(nic.rate_verdict, Severity::Shown);
        let line = "UNDECIDED untested soft0: the driver shows no temperature";
        assert_eq!(report(vec![nic]), (4, line.to_owned()));
    }
}
